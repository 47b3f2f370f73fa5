# SPDX-License-Identifier: Apache-2.0
"""The page of the viewer: a scene with arms, their numbers and plots."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from robot_dynamics_ros.description.urdf import Joint
from robot_dynamics_ros.errors import DescriptionError, RobotDynamicsError
from robot_dynamics_ros.geometry import robot_shapes
from robot_dynamics_ros.parameters import Values
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.viewing.arm import ArmInstant, LinkTree
from robot_dynamics_ros.viewing.arm_panel import ArmPanel
from robot_dynamics_ros.viewing.arm_scene import ArmScene
from robot_dynamics_ros.viewing.program_scene import ProgramScene, read_program
from robot_dynamics_ros.viewing.server import PageServer

_MAX_REMARKS = 5
_PAUSE_S = 1.0  # of the states, after which the paths of the tool begin anew
_PANEL_WIDTH = 380  # pixels, so that the arm keeps half of a small screen
_CAMERA_DIRECTION = (0.6, -0.65, 0.45)  # direction from an arm to the camera
#: Directions to the camera by view; the tool's is a close one.
_VIEWS = {
    'front': (1.0, 0.0, 0.0),
    'side': (0.0, -1.0, 0.0),
    'top': (0.0, -1e-3, 1.0),
    'tool': _CAMERA_DIRECTION,
}
_CLOSE = 0.3  # of the distance to whole arms


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
        self._in_view, self._shown_at = False, math.nan
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
                self.program = None  # its geometry, a child of the arm's, is removed as well
            self.scene = ArmScene(server.scene, self.name, tree, shapes, self._offset)
            self.scene.show_frames(self._page.frames.value)
        self.panel.list_joints(tree.joints)
        more = len(remarks) - _MAX_REMARKS
        said = [*remarks[:_MAX_REMARKS], *[f'and {more} more'] * (more > 0)]
        self.set_message('\n'.join(said))
        self._in_view = False

    @property
    def joints(self) -> dict[str, Joint]:
        """Known joints by name."""
        return self.panel.joints

    def name_joints(self, names: Iterable[str]) -> None:
        """Show the numbers of joints until a description is received."""
        if not self.joints:
            self.panel.list_joints({name: Joint(name, 'unknown', '', '') for name in names})

    def draw_program(self, parameters: Values) -> None:
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
            self.program = ProgramScene(scene, f'/{self.name}', program)

    def show(self, now: ArmInstant) -> None:
        """Move the arm to an instant."""
        self.position.update((k, x) for k, x in now.position.items() if math.isfinite(x))
        if self.scene is not None:
            if abs(now.time - self._shown_at) > _PAUSE_S:  # also after a restart
                self.scene.clear_trails()
            self._shown_at = now.time
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

    def tool(self) -> Array:
        """Return the position of the tool, shape (3,), m; that of the base if unknown."""
        if self.scene is None:
            return self._offset
        tree = self.scene.tree
        return self._offset + tree.poses(tree.relative(self.position))[self.scene.tool].p_WF

    def write(self, now: ArmInstant) -> None:
        """Update numbers, paths and plots; less often than ``show``."""
        if self.scene is not None:
            self.scene.send_trails()
        self.panel.show(now)
        self.panel.draw()


class Page:
    """The page of the viewer.

    Attributes:
        web: The web server.
        server: The viser server within it.
        arms: Arms by name.
        plots: Panel with a tab for each arm.
        frames: Whether the axes of the links are shown.
        spacing: Distance between the bases of adjacent arms, m.

    Args:
        web: The web server.
        spacing: Distance between the bases of adjacent arms, m.
    """

    def __init__(self, web: PageServer, spacing: float = 1.2) -> None:
        self.web, self.server, self.spacing = web, web.viser, spacing
        self.arms: dict[str, ArmView] = {}
        scene, gui = self.server.scene, self.server.gui
        scene.add_grid(
            '/ground', infinite_grid=True, cell_size=0.1, section_size=0.5,
            cell_color=(222, 225, 228), section_color=(190, 196, 202), shadow_opacity=0.25,
        )  # fmt: skip
        scene.add_frame('/base', axes_length=0.12, axes_radius=0.004)
        self._pointing = threading.Lock()  # a greeting comes before all look elsewhere, or after
        self._camera_positions = [self.server.initial_camera.position]
        self.server.on_client_connect(self._greet)
        self.look_at_arms()
        gui.main_panel.dock_right()
        gui.main_panel.set_width(_PANEL_WIDTH)
        with gui.add_folder('view', order=-1.0):
            views = gui.add_button_group('camera', tuple(_VIEWS))
            self.frames = gui.add_checkbox('frames of the links', initial_value=False)
            clear = gui.add_button('clear the trails')
        views.on_click(lambda event: self._look_from(event.client, views.value))
        self.frames.on_update(
            lambda _: self._each(lambda scene: scene.show_frames(self.frames.value))
        )
        clear.on_click(lambda _: self._each(ArmScene.clear_trails))
        self.plots = gui.add_panel()
        self.plots.dock_left()
        self.plots.set_width(_PANEL_WIDTH)

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
            path, taken = _path(name), [arm.name for arm in self.arms.values()]
            while path in taken:  # as that of namespace arm beside one without a namespace
                path += '_'
            self.arms[name] = ArmView(self, path, len(self.arms))
        return self.arms[name]

    def _each(self, act: Callable[[ArmScene], None]) -> None:
        for arm in self.arms.values():
            if arm.scene is not None:
                act(arm.scene)

    def look_at_arms(self) -> None:
        """Point the camera of every browser at all arms with known positions."""
        self.look_at(*self._sphere())

    def _sphere(self) -> tuple[Array, float]:
        """Return centre, shape (3,), and radius, m, of a sphere around these arms."""
        spheres = [x for arm in self.arms.values() if (x := arm.bounding_sphere()) is not None]
        if not spheres:
            return np.array([0.0, 0.0, 0.3]), 0.6
        lowest = np.min([centre - radius for centre, radius in spheres], axis=0)
        highest = np.max([centre + radius for centre, radius in spheres], axis=0)
        return (lowest + highest) / 2.0, float((highest - lowest).max()) / 2.0

    def _look_from(self, client: Any, view: str) -> None:
        """Set the camera of a browser to a view of all arms, or of the tool of the first one."""
        centre, radius = self._sphere()
        if view == 'tool':
            centre = next((arm.tool() for arm in self.arms.values()), centre)
            radius *= _CLOSE
        with self._pointing:
            self.web.point(client, centre + 3.0 * radius * np.array(_VIEWS[view]), centre)

    def look_at(self, centre: Array, radius: float) -> None:
        """Point the camera of every browser at a sphere; centre of shape (3,), m."""
        eye = centre + 3.0 * radius * np.array(_CAMERA_DIRECTION)
        initial = self.server.initial_camera
        with self._pointing:
            initial.position, initial.look_at = eye, centre
            self._camera_positions.append(eye)
            for client in self.server.get_clients().values():
                self.web.point(client, eye, centre)

    def _greet(self, client: Any) -> None:
        """Tell a newly connected browser its number, and set its camera.

        It has missed calls of :meth:`look_at`; a view chosen by the user is kept.
        """
        client.gui.add_html(f'<span data-client="{client.client_id}"></span>')
        seen, initial = client.camera.position, self.server.initial_camera
        with self._pointing:
            if any(np.allclose(seen, eye, atol=1e-3) for eye in self._camera_positions):
                self.web.point(client, initial.position, initial.look_at)

    def close(self) -> None:
        """Stop the server."""
        self.server.stop()


def _path(name: str) -> str:
    """Convert a name to a component of a scene path; a name in ROS has no point."""
    return re.sub(r'[^\w.-]+', '_', name.strip('/').replace('/', '.')) or 'arm'


def escaped(text: str) -> str:
    """Escape all Markdown characters of a text."""
    return re.sub(r'([\\`*_{}\[\]()<>#+\-.!|~$&])', r'\\\1', text)
