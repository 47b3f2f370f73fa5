# SPDX-License-Identifier: Apache-2.0
"""The page of the viewer, a scene with arms, their numbers and plots; and its web server.

The server accepts connections from this machine and from its own pages only, without tunnels.
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

from robot_dynamics_ros.description.urdf import Joint
from robot_dynamics_ros.errors import (
    ConfigurationError,
    DescriptionError,
    MissingDependencyError,
    RobotDynamicsError,
)
from robot_dynamics_ros.geometry import robot_shapes
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.viewing.arm import ArmInstant, LinkTree
from robot_dynamics_ros.viewing.arm_panel import ArmPanel
from robot_dynamics_ros.viewing.arm_scene import ArmScene
from robot_dynamics_ros.viewing.program_scene import ProgramScene, read_program

_MAX_REMARKS = 5
_CAMERA_DIRECTION = (0.6, -0.65, 0.45)  # direction from an arm to the camera


class ArmView:
    """One arm on the page.

    Attributes:
        name: Name on the page.
        xml: Description of the arm; empty if not yet known.
        position: Last finite position by joint, rad or m.
        panel: Its numbers and plots.
        scene: Its links; None until the description is known.
    """

    def __init__(self, page: Page, name: str, place: int) -> None:
        self.name, self.xml = name, ''
        self.position: dict[str, float] = {}
        self._page = page
        self._offset = np.array([0.0, place * page.spacing, 0.0])
        gui = page.server.gui
        folder = gui.add_folder(name, order=float(place))
        with folder:
            self._message = gui.add_markdown('')
        self.panel = ArmPanel(gui, folder, page.plots.add_tab(name))
        self.scene: ArmScene | None = None
        self.program: ProgramScene | None = None
        self._drawn_program: Any = None
        self._in_view = False
        self.set_message('waiting for the description of the arm')

    def set_message(self, text: str) -> None:
        """Show a message above the numbers; empty for none."""
        self._message.content = '  \n'.join(f'*{escaped(line)}*' for line in text.splitlines())
        self._message.visible = bool(text)

    def set_description(self, xml: str) -> None:
        """Show the arm of a description, and problems as messages on the page."""
        if xml == self.xml:
            return
        self.xml = xml
        try:
            tree, (shapes, remarks) = LinkTree(xml), robot_shapes(xml)
        except DescriptionError as error:
            self.set_message(f'the description cannot be shown: {error}')
            return
        if not tree.links:
            self.set_message('the description cannot be shown: it has no link connected to a root')
            return
        server = self._page.server
        with server.atomic():
            if self.scene is not None:
                self.scene.remove()
            self.scene = ArmScene(server.scene, self.name, tree, shapes, self._offset)
        self.panel.list_joints(tree.joints)
        more = len(remarks) - _MAX_REMARKS
        shown = [*remarks[:_MAX_REMARKS], *([f'and {more} more'] if more > 0 else [])]
        self.set_message('\n'.join(shown))
        self._in_view = False

    @property
    def joints(self) -> dict[str, Joint]:
        """Known joints by name."""
        return self.panel.joints

    def name_joints(self, names: Iterable[str]) -> None:
        """Show the numbers of joints until a description is received."""
        if not self.joints:
            self.panel.list_joints({name: Joint(name, 'unknown', '', '') for name in names})

    def draw_program(self, parameters: Mapping[str, Any]) -> None:
        """Draw the program in the controller's parameters; show errors on the page."""
        key = (parameters.get('law'), parameters.get('program'), self.xml)
        if self.scene is None or key == self._drawn_program:
            return
        self._drawn_program = key
        if self.program is not None:
            self.program.remove()
            self.program = None
        try:
            program = read_program(parameters, self.xml)
        except RobotDynamicsError as error:
            self.set_message(f'the program cannot be drawn: {error}')
            return
        if program is not None:
            scene = self._page.server.scene
            self.program = ProgramScene(scene, f'/{self.name}', program, self.scene.radius)

    def show(self, now: ArmInstant) -> None:
        """Move the arm to an instant."""
        self.position.update((k, x) for k, x in now.position.items() if math.isfinite(x))
        if self.scene is not None:
            self.scene.show(now, self.position)
            if now.position and not self._in_view:
                self._in_view = True
                self._page.look_at_arms()
        if self.program is not None:
            self.program.show(now.program_time, now.position)
        self.panel.append(now)

    def bounding_sphere(self) -> tuple[Array, float] | None:
        """Return centre, shape (3,), and radius of the bounding sphere, m; None if unknown."""
        if self.scene is None or not self._in_view:
            return None
        centre, radius = self.scene.bounding_sphere(self.position)
        return centre + self._offset, radius

    def write(self, now: ArmInstant) -> None:
        """Update numbers, paths and plots; less often than ``show``."""
        if self.scene is not None:
            self.scene.send_trails()
        self.panel.show(now)
        self.panel.draw()


class Page:
    """The page of the viewer.

    Attributes:
        server: The viser server.
        arms: Arms by name.
        plots: Panel with a tab for each arm.
        spacing: Distance between the bases of adjacent arms, m.

    Args:
        port: First port to try; 0 for any free one.
        title: Title above the controls.
        spacing: Distance between the bases of adjacent arms, m.

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
        self._camera_positions = [self.server.initial_camera.position]
        self.server.on_client_connect(self._set_camera)
        self.look_at(np.array([0.0, 0.0, 0.3]), 0.6)
        gui.main_panel.dock_right()
        gui.main_panel.set_width(430)
        self.plots = gui.add_panel()
        self.plots.dock_left()
        self.plots.set_width(380)

    @property
    def address(self) -> str:
        """URL of the page."""
        return address(self.server)

    @property
    def watched(self) -> bool:
        """Whether a browser is connected, also one that has not drawn yet."""
        return bool(self.server._websock_server._client_state_from_id)

    def on_watched(self, act: Callable[[], None]) -> None:
        """Call a function in the server's thread whenever a browser connects."""
        self.server._websock_server.on_client_connect(lambda _: act())

    def arm(self, name: str) -> ArmView:
        """Return an arm by name; create it if needed."""
        if name not in self.arms:
            self.arms[name] = ArmView(self, _path(name), len(self.arms))
        return self.arms[name]

    def look_at_arms(self) -> None:
        """Point the camera of every browser at all arms with known positions."""
        spheres = [x for arm in self.arms.values() if (x := arm.bounding_sphere()) is not None]
        lowest = np.min([centre - radius for centre, radius in spheres], axis=0)
        highest = np.max([centre + radius for centre, radius in spheres], axis=0)
        radius = float((highest - lowest).max()) / 2.0
        self.look_at((lowest + highest) / 2.0, radius)

    def look_at(self, centre: Array, radius: float) -> None:
        """Point the camera of every browser at a sphere; centre of shape (3,), m."""
        eye = centre + 3.0 * radius * np.array(_CAMERA_DIRECTION)
        clients = self.server.get_clients().values()
        for camera in (self.server.initial_camera, *(x.camera for x in clients)):
            camera.position, camera.look_at = eye, centre
        self._camera_positions.append(eye)

    def _set_camera(self, client: Any) -> None:
        """Set the camera of a newly connected browser, which missed calls of :meth:`look_at`.

        A view chosen by the user is kept.
        """
        camera, initial = client.camera, self.server.initial_camera
        if any(np.allclose(camera.position, eye, atol=1e-3) for eye in self._camera_positions):
            camera.position, camera.look_at = initial.position, initial.look_at

    def close(self) -> None:
        """Stop the server."""
        self.server.stop()


def _path(name: str) -> str:
    """Convert a name to a component of a scene path."""
    return re.sub(r'[^\w.-]+', '_', name.strip('/')) or 'arm'


def escaped(text: str) -> str:
    """Escape all Markdown characters of a text."""
    return re.sub(r'([\\`*_{}\[\]()<>#+\-.!|~$&])', r'\\\1', text)


HOST = '127.0.0.1'
_LOOPBACK = (HOST, 'localhost', '::1')
#: Interval of pings, and time without a response after which a page is disconnected, s.
PING_INTERVAL_S, PING_TIMEOUT_S = 0.5, 1.5


def open_server(port: int, title: str) -> Any:
    """Start a ``viser.ViserServer`` on the loopback interface.

    It rejects requests with a foreign ``Origin`` or ``Host`` (so that other web pages cannot reach
    it, not even by DNS rebinding), disconnects pages that do not respond, and opens no tunnel.

    Args:
        port: First port to try; 0 for any free one.
        title: Title above the controls.

    Raises:
        MissingDependencyError: viser is not installed.
        ConfigurationError: The port is out of range.
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
    """Return the URL of a server's page."""
    return f'http://{HOST}:{server.get_port()}'


def refusal(headers: Mapping[str, str]) -> str:
    """Return why a request is rejected; empty if it is accepted.

    Browsers send the requesting page in ``Origin``, which must match ``Host`` (whose port may
    differ behind a tunnel). Other programs send no ``Origin``.
    """
    host, origin = headers.get('Host', ''), headers.get('Origin')
    if urlsplit(f'//{host}').hostname not in _LOOPBACK:
        return f'host {host!r} is not this machine'
    if origin is not None and urlsplit(origin).netloc != host:
        return f'origin {origin!r} is foreign: open http://{host} itself'
    return ''


@contextlib.contextmanager
def _guarded(websocket_server: Any) -> Iterator[None]:
    """Add request checks to servers started in this context, see :func:`open_server`."""
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
