# SPDX-License-Identifier: Apache-2.0
"""The page of the viewer: a scene with one or more arms, their numbers and plots.

The web server of the viewer: this machine only, no foreign page, no tunnel to elsewhere.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from robot_dynamics_ros.description.robot_description import Joint
from robot_dynamics_ros.errors import (
    ConfigurationError,
    DescriptionError,
    MissingDependencyError,
    RobotDynamicsError,
)
from robot_dynamics_ros.geometry import robot_shapes
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.viewing.arm_panel import ArmPanel, Tables
from robot_dynamics_ros.viewing.arm_scene import ArmScene
from robot_dynamics_ros.viewing.instant import ArmInstant
from robot_dynamics_ros.viewing.link_tree import LinkTree
from robot_dynamics_ros.viewing.program_scene import ProgramScene, read_program

_MOST_REMARKS = 5
_FROM = (0.6, -0.65, 0.45)  # from an arm towards who looks at it


class ArmView:
    """One arm on the page.

    Attributes:
        name: Its name on the page.
        xml: Its description; empty while there is none.
        joints: As far as they are known, by name.
        position: The last of each joint that is a number, rad or m.
    """

    def __init__(self, page: Page, name: str, place: int) -> None:
        self.name, self.xml = name, ''
        self.joints: dict[str, Joint] = {}
        self.position: dict[str, float] = {}
        self._page = page
        self._offset = np.array([0.0, place * page.spacing, 0.0])
        gui = page.server.gui
        self._folder = gui.add_folder(name, order=float(place))
        with self._folder:
            self._message = gui.add_markdown('')
        self._plots = page.plots.add_tab(name)
        self.scene: ArmScene | None = None
        self.panel: ArmPanel | None = None
        self.program: ProgramScene | None = None
        self._drawn: Any = None
        self._looked_at = False
        self.tell('waiting for the description of the arm')

    def tell(self, text: str) -> None:
        """Say something above the numbers; empty: nothing is to be said."""
        self._message.content = '  \n'.join(f'*{plain(line)}*' for line in text.splitlines())
        self._message.visible = bool(text)

    def describe(self, xml: str) -> None:
        """Show the arm of a description; what cannot be shown is said on the page."""
        if xml == self.xml:
            return
        self.xml = xml
        try:
            tree, (shapes, remarks) = LinkTree(xml), robot_shapes(xml)
        except DescriptionError as error:
            self.tell(f'the description cannot be shown: {error}')
            return
        if not tree.links:
            self.tell('the description cannot be shown: it has no link that hangs on a root')
            return
        server = self._page.server
        with server.atomic():
            if self.scene is not None:
                self.scene.remove()
            self.scene = ArmScene(server.scene, self.name, tree, shapes, self._offset)
            self._add_panel(tree.joints)
        more = len(remarks) - _MOST_REMARKS
        shown = [*remarks[:_MOST_REMARKS], *([f'and {more} more'] if more > 0 else [])]
        self.tell('\n'.join(shown))
        self._looked_at = False

    def name_joints(self, names: Iterable[str]) -> None:
        """Show the numbers of joints of which no description tells, until one does."""
        if self.panel is None:
            self._add_panel({name: Joint(name, 'unknown', '', '') for name in names})

    def _add_panel(self, joints: dict[str, Joint]) -> None:
        if self.panel is not None:
            self.panel.remove()
        gui = self._page.server.gui
        self.joints = joints
        self.panel = ArmPanel(gui, self._folder, self._plots, joints)
        self.panel.show(ArmInstant())

    def draw_program(self, parameters: Mapping[str, Any]) -> None:
        """Draw the program of a controller's parameters; what cannot be drawn is said."""
        named = (parameters.get('law'), parameters.get('program'), self.xml)
        if self.scene is None or named == self._drawn:
            return
        self._drawn = named
        if self.program is not None:
            self.program.remove()
            self.program = None
        try:
            program = read_program(parameters, self.xml)
        except RobotDynamicsError as error:
            self.tell(f'the program cannot be drawn: {error}')
            return
        if program is not None:
            scene = self._page.server.scene
            self.program = ProgramScene(scene, f'/{self.name}', program, self.scene.radius)

    def show(self, now: ArmInstant) -> None:
        """Move the arm to an instant."""
        self.position.update((k, x) for k, x in now.position.items() if math.isfinite(x))
        if self.scene is not None:
            self.scene.show(now)
            if now.position and not self._looked_at:
                self._looked_at = True
                self._page.look_at_arms()
        if self.program is not None:
            self.program.show(now.program_time, now.position)
        if self.panel is not None:
            self.panel.take(now)

    def surroundings(self) -> tuple[Array, float] | None:
        """Return centre, shape (3,), and radius of a sphere about the arm, m; None: not known."""
        if self.scene is None or not self._looked_at:
            return None
        centre, radius = self.scene.surroundings()
        return centre + self._offset, radius

    def write(self, now: ArmInstant, tables: Tables | None = None) -> None:
        """Write numbers, draw trails and plots (of tables, if given); seldomer than ``show``."""
        if self.scene is not None:
            self.scene.send_trails()
        if self.panel is not None:
            self.panel.show(now)
            self.panel.draw(tables)


class Page:
    """What a browser shows.

    Attributes:
        server: Of viser.
        arms: By name.
        plots: Panel with a tab for each arm.
        spacing: Distance between the bases of two arms, m.

    Args:
        port: The first that is tried; 0: any.
        title: Above the controls.
        spacing: As above.

    Raises:
        MissingDependencyError: viser is not installed.
    """

    def __init__(self, port: int, title: str, spacing: float = 1.2) -> None:
        self.server = open_server(port, title)
        self.spacing = spacing
        self.arms: dict[str, ArmView] = {}
        scene, gui = self.server.scene, self.server.gui
        scene.add_grid(
            '/ground', infinite_grid=True, cell_size=0.1, section_size=0.5,
            cell_color=(222, 225, 228), section_color=(190, 196, 202), shadow_opacity=0.25,
        )  # fmt: skip
        scene.add_frame('/base', axes_length=0.12, axes_radius=0.004)
        self._views = [self.server.initial_camera.position]
        self.server.on_client_connect(self._catch_up)
        self.look_at(np.array([0.0, 0.0, 0.3]), 0.6)
        gui.main_panel.dock_right()
        gui.main_panel.set_width(430)
        self.plots = gui.add_panel()
        self.plots.dock_left()
        self.plots.set_width(380)

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return address(self.server)

    def arm(self, name: str) -> ArmView:
        """Return an arm by name, a new one if there is none."""
        if name not in self.arms:
            self.arms[name] = ArmView(self, _path(name), len(self.arms))
        return self.arms[name]

    def look_at_arms(self) -> None:
        """Let every browser see all arms that have shown where they stand."""
        spheres = [x for arm in self.arms.values() if (x := arm.surroundings()) is not None]
        lowest = np.min([centre - radius for centre, radius in spheres], axis=0)
        highest = np.max([centre + radius for centre, radius in spheres], axis=0)
        radius = float((highest - lowest).max()) / 2.0
        self.look_at((lowest + highest) / 2.0, radius)

    def look_at(self, centre: Array, radius: float) -> None:
        """Let every browser look at a sphere, centre of shape (3,), m."""
        eye = centre + 3.0 * radius * np.array(_FROM)
        clients = self.server.get_clients().values()
        for camera in (self.server.initial_camera, *(x.camera for x in clients)):
            camera.position, camera.look_at = eye, centre
        self._views.append(eye)

    def _catch_up(self, client: Any) -> None:
        """Let a browser that is heard for the first time look where all others do.

        Until then :meth:`look_at` does not reach it. One whose user chose a view keeps it.
        """
        camera, initial = client.camera, self.server.initial_camera
        if any(np.allclose(camera.position, eye, atol=1e-3) for eye in self._views):
            camera.position, camera.look_at = initial.position, initial.look_at

    def close(self) -> None:
        """End the server."""
        self.server.stop()


def _path(name: str) -> str:
    """Return a name as part of a path in the scene."""
    return re.sub(r'[^\w.-]+', '_', name.strip('/')) or 'arm'


def plain(text: str) -> str:
    """Return a text in which no character means anything to Markdown."""
    return re.sub(r'([\\`*_{}\[\]()<>#+\-.!|~$&])', r'\\\1', text)


HOST = '127.0.0.1'
_LOOPBACK = (HOST, 'localhost', '::1')
#: A page that does not answer a ping within this time is gone, s.
PING_INTERVAL_S, PING_TIMEOUT_S = 0.5, 1.5


def open_server(port: int, title: str) -> Any:
    """Return a running ``viser.ViserServer`` on the loopback interface.

    It refuses every request with a foreign ``Origin`` or ``Host`` (so that no page from elsewhere
    reaches it, not even by a name that was made to point here), drops pages that no longer answer,
    and opens no tunnel.

    Args:
        port: The first that is tried; 0: any that is free.
        title: Shown above the controls.

    Raises:
        MissingDependencyError: viser is not installed.
        ConfigurationError: The port is none.
    """
    try:
        import viser
        import websockets.asyncio.server as websocket_server
        from viser._messages import ShareUrlRequest
    except ImportError as error:
        remedy = "pip install 'robot_dynamics_ros[view]'"
        raise MissingDependencyError(error.name or 'viser', 'the viewer', remedy) from error
    if not 0 <= port <= 65_535:
        raise ConfigurationError('port', f'is {port}', 'give one from 0 to 65535')
    logging.getLogger('websockets.server').setLevel(logging.ERROR)
    with _guarded(websocket_server), contextlib.redirect_stdout(io.StringIO()):
        server = viser.ViserServer(HOST, port, title, verbose=False)
    server._websock_server._incoming_handlers.pop(ShareUrlRequest)
    server.gui.configure_theme(
        show_logo=False, show_share_button=False, control_width='large', brand_color=(38, 84, 124)
    )
    return server


def address(server: Any) -> str:
    """Return what to open in a browser."""
    return f'http://{HOST}:{server.get_port()}'


def refusal(headers: Mapping[str, str]) -> str:
    """Return why a request is refused; empty: it is not.

    A browser names the page that asks in ``Origin``: it must be the one that this server has
    given out, under whatever port a tunnel gives it. Programs other than browsers send none.
    """
    host, origin = headers.get('Host', ''), headers.get('Origin')
    if urlsplit(f'//{host}').hostname not in _LOOPBACK:
        return f'host {host!r} is not this machine'
    if origin is not None and urlsplit(origin).netloc != host:
        return f'origin {origin!r} is foreign: open http://{host} itself'
    return ''


@contextlib.contextmanager
def _guarded(websocket_server: Any) -> Iterator[None]:
    """Let a server that is started meanwhile refuse requests, see :func:`open_server`."""
    serve = websocket_server.serve

    def guarded(*args: Any, process_request: Callable[..., Any], **options: Any) -> Any:
        def check(connection: Any, request: Any) -> Any:
            reason = refusal(request.headers)
            if reason:
                return connection.respond(HTTPStatus.FORBIDDEN, f'refused: {reason}\n')
            return process_request(connection, request)

        alive = {'ping_interval': PING_INTERVAL_S, 'ping_timeout': PING_TIMEOUT_S}
        return serve(*args, process_request=check, **options, **alive)

    websocket_server.serve = guarded
    try:
        yield
    finally:
        websocket_server.serve = serve
