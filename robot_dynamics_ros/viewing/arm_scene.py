# SPDX-License-Identifier: Apache-2.0
"""One arm in the scene: its links, its reference as a ghost, tool paths and forces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.description.urdf import Limit
from robot_dynamics_ros.geometry import LinkShape
from robot_dynamics_ros.geometry.triangles import Triangles, joined
from robot_dynamics_ros.model import FramePose
from robot_dynamics_ros.spatial.rotation import quaternion_xyzw
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.viewing.arm import ArmInstant, LinkTree, Numbers

Rgb = tuple[int, int, int]

TOOL_COLOUR: Rgb = (230, 20, 140)
#: Colour of the reference: the ghost and its tool path.
REFERENCE_COLOUR: Rgb = (30, 130, 230)
_GHOST_OPACITY = 0.3
_NEAR: Rgb = (245, 170, 30)
_AT_LIMIT: Rgb = (215, 40, 40)
_UNKNOWN: Rgb = (20, 20, 20)  # can be told from red under the blue ghost
_TOUCHED: Rgb = (255, 225, 0)
#: Colours of the forces on an arm, by kind.
FORCE_COLOURS: dict[str, Rgb] = {'external': (200, 60, 30), 'push': (240, 150, 20)}
#: Remaining fractions of a joint's range at which its link changes colour.
NEAR_SHARE, AT_SHARE = 0.1, 0.02
_LEAST_ERROR = 2e-3  # rad or m; error up to which the ghost is hidden
_LEAST_MOVE = 1e-6  # quaternion or m; smaller changes are not sent
_MAX_TRAIL = 400  # points of a path
_LEAST_STEP = 5e-4  # m; least distance between points of a path
_LEAST_FORCE = 0.5  # N; smaller forces are not shown
_HALF_FORCE = 30.0  # N; force at half the maximum arrow length


class ArmScene:
    """An arm with its ghost, tool, tool paths and forces.

    Attributes:
        tree: Links of the arm.
        tool: Index of the link whose path is drawn.
        radius: Radius of the bounding sphere with all joints at 0, m.

    Args:
        scene: The viser scene.
        name: Name of the arm, used in scene paths.
        tree: Links of the arm.
        shapes: Surfaces of the links.
        offset: Position of the base, shape (3,), m.
    """

    def __init__(
        self,
        scene: Any,
        name: str,
        tree: LinkTree,
        shapes: tuple[LinkShape, ...],
        offset: Array,
    ) -> None:
        self.tree, self.tool = tree, tree.tool()
        self._root = scene.add_frame(f'/{name}', show_axes=False, position=offset)
        self._arm = LinkNodes(scene, f'/{name}/arm', tree, shapes)
        self._ghost = LinkNodes(scene, f'/{name}/ghost', tree, shapes, ghost=True)
        self._ghost.root.visible = False
        self._shapes = shapes
        self._link_index = {link.name: place for place, link in enumerate(tree.links)}
        _, self.radius = self.bounding_sphere({})
        self._tool_marker = scene.add_icosphere(
            f'/{name}/tool', 0.03 * self.radius, TOOL_COLOUR, subdivisions=2
        )
        self.trail = Trail(scene, f'/{name}/trail', TOOL_COLOUR, 2.5)
        self.reference_trail = Trail(scene, f'/{name}/reference', REFERENCE_COLOUR, 1.5)
        scene.add_label(f'/{name}/label', name, anchor='top-center')
        self._forces = [ForceArrow(scene, name, kind, self.radius) for kind in FORCE_COLOURS]

    def show(self, now: ArmInstant, positions: Numbers) -> None:
        """Move arm, ghost and tool to an instant.

        The colour of a link shows a warning of its joint.

        Args:
            now: The instant.
            positions: The last finite joint positions, rad or m, by name.
        """
        relative = self.tree.relative(positions)
        poses = self.tree.poses(relative)
        self._arm.move(relative)
        tip = poses[self.tool].p_WF
        set_pose(self._tool_marker, tip)
        if now.position:
            self.trail.add(tip)
        self._colour_links(now.touched, {**positions, **now.position})
        self._show_reference(now, positions)
        for arrow in self._forces:
            link, wrench = now.wrenches.get(arrow.kind, ('', np.zeros(6)))
            place = self._link_index.get(link)
            arrow.show(None if place is None else poses[place], wrench[:3])

    def bounding_sphere(self, positions: Numbers) -> tuple[Array, float]:
        """Return centre, shape (3,), and radius of the arm's bounding sphere, m."""
        poses = self.tree.poses(self.tree.relative(positions))
        points = [pose.p_WF[np.newaxis] for pose in poses]
        for shape in self._shapes:
            if shape.link in self._link_index:
                R, p = poses[self._link_index[shape.link]]
                points.append(shape.vertices @ R.T + p)
        corners = np.concatenate(points)
        lowest, highest = corners.min(axis=0), corners.max(axis=0)
        return (lowest + highest) / 2.0, max(float(np.linalg.norm(highest - lowest)) / 2.0, 0.1)

    def send_trails(self) -> None:
        """Send changed paths to the browsers."""
        self.trail.send()
        self.reference_trail.send()

    def clear_trails(self) -> None:
        """Begin the paths anew."""
        self.trail.clear()
        self.reference_trail.clear()

    def show_frames(self, on: bool) -> None:
        """Show or hide the axes of the links."""
        self._arm.show_frames(on, 0.15 * self.radius)

    def remove(self) -> None:
        """Remove the arm from the scene."""
        self._root.remove()

    def _show_reference(self, now: ArmInstant, positions: Numbers) -> None:
        goal = now.reference if now.error else {}
        common = goal.keys() & now.position.keys()
        distances = [abs(goal[name] - now.position[name]) for name in common]
        visible = max(filter(np.isfinite, distances), default=0.0) > _LEAST_ERROR
        self._ghost.root.visible = visible
        if goal:
            relative = self.tree.relative({**positions, **goal})
            self.reference_trail.add(self.tree.poses(relative)[self.tool].p_WF)
            if visible:
                self._ghost.move(relative)

    def _colour_links(self, touched: str, positions: Numbers) -> None:
        """Colour the links: a new contact, else the warning of the joint."""
        for place, link in enumerate(self.tree.links):
            name, colour = link.joint.name, None
            if link.name == touched:
                colour = _TOUCHED
            elif name in positions:
                colour = limit_colour(positions[name], link.joint.limit)
            self._arm.set_warning(place, colour)


def limit_colour(position: float, limit: Limit | None) -> Rgb | None:
    """Return the warning colour of a joint near a limit or unknown; None for no warning."""
    if not np.isfinite(position):
        return _UNKNOWN
    if limit is None or limit.range is None:
        return None
    lower, upper = limit.range
    margin = min(position - lower, upper - position) / (upper - lower)
    if margin < AT_SHARE:
        return _AT_LIMIT
    return _NEAR if margin < NEAR_SHARE else None


class LinkNodes:
    """Links as nested scene nodes; only changed poses are sent.

    Args:
        scene: The viser scene.
        root: Name of the parent node.
        tree: The links.
        shapes: Surfaces of the links.
        ghost: Whether to show movable links only, translucent and in one colour.
    """

    def __init__(
        self,
        scene: Any,
        root: str,
        tree: LinkTree,
        shapes: tuple[LinkShape, ...],
        *,
        ghost: bool = False,
    ) -> None:
        self.root = scene.add_frame(root, show_axes=False)
        self._frames: list[Any] = []
        self._surfaces: list[list[tuple[Any, Rgb]]] = []
        self._warnings: list[Rgb | None] = [None] * len(tree.links)
        paths: list[str] = []
        moves: list[bool] = []
        for k, link in enumerate(tree.links):
            paths.append(f'{paths[link.parent] if link.parent >= 0 else root}/{k}')
            self._frames.append(scene.add_frame(paths[k], show_axes=False))
            moves.append((link.parent >= 0 and moves[link.parent]) or link.moves)
            of_link = [x for x in shapes if x.link == link.name and (moves[k] or not ghost)]
            self._surfaces.append(_add_surfaces(scene, paths[k], of_link, ghost))
        self.move(tree.relative({}))

    def move(self, relative: list[FramePose]) -> None:
        """Set the pose of every link in its parent."""
        for frame, (R, p) in zip(self._frames, relative, strict=True):
            set_pose(frame, p, R)

    def show_frames(self, on: bool, length: float) -> None:
        """Show axes of a length, m, at every link, or hide them."""
        for frame in self._frames:
            frame.axes_length, frame.axes_radius = length, 0.04 * length
            frame.show_axes = on

    def set_warning(self, place: int, colour: Rgb | None) -> None:
        """Show a link in a warning colour; None for its own colour."""
        if self._warnings[place] != colour:  # to set a colour takes long, also the same
            self._warnings[place] = colour
            for handle, own in self._surfaces[place]:
                handle.color = colour or own


def _add_surfaces(
    scene: Any, path: str, shapes: list[LinkShape], ghost: bool
) -> list[tuple[Any, Rgb]]:
    """Add the surfaces of a link, one mesh per colour; return them with their colours."""
    by_colour: dict[tuple[float, ...], list[LinkShape]] = {}
    for shape in shapes:
        by_colour.setdefault(shape.colour, []).append(shape)
    if ghost and by_colour:
        by_colour = {(*(x / 255.0 for x in REFERENCE_COLOUR), _GHOST_OPACITY): shapes}
    added = []
    for k, (colour, parts) in enumerate(by_colour.items()):
        mesh = add_mesh(
            scene, f'{path}/surface{k}', joined(parts), colour, not ghost, flat_shading=True
        )
        added.append((mesh, mesh.color))
    return added


def add_mesh(
    scene: Any, path: str, surface: Triangles, colour: Sequence[float], shadow: bool, **more: Any
) -> Any:
    """Add a surface of a colour, red, green, blue and opacity from 0 to 1."""
    *rgb, opacity = colour
    return scene.add_mesh_simple(
        path,
        surface.vertices,
        surface.faces,
        color=tuple(round(255 * x) for x in rgb),
        opacity=opacity if opacity < 1.0 else None,
        side='double',
        cast_shadow=shadow,
        receive_shadow=shadow,
        **more,
    )


def set_pose(node: Any, position: Array, R: Array | None = None) -> None:
    """Set position and, if given, rotation of a node, if they changed."""
    if np.abs(node.position - position).max() > _LEAST_MOVE:
        node.position = position
    if R is not None:
        wxyz = np.roll(quaternion_xyzw(R), 1)  # the order of the viewer library
        if np.abs(node.wxyz - wxyz).max() > _LEAST_MOVE:
            node.wxyz = wxyz


class Trail:
    """The last points of a path, drawn as a line."""

    def __init__(self, scene: Any, path: str, colour: Rgb, thickness: float) -> None:
        self._points: list[Array] = []
        empty = np.zeros((_MAX_TRAIL, 2, 3), dtype=np.float32)
        self._line = scene.add_line_segments(
            path, empty, colour, thickness=thickness, thickness_units='screen'
        )
        self._changed = False

    def add(self, point: Array) -> None:
        """Append a point if it differs from the last one."""
        if not self._points or np.abs(point - self._points[-1]).max() > _LEAST_STEP:
            self._points = [*self._points[-_MAX_TRAIL:], point]
            self._changed = True

    def clear(self) -> None:
        """Forget the path."""
        self._points, self._changed = [], True

    def send(self) -> None:
        """Send the line if it changed."""
        if not self._changed:
            return
        self._changed, last = False, self._points[-1] if self._points else np.zeros(3)
        line = np.array([*self._points, *(_MAX_TRAIL + 1 - len(self._points)) * [last]])
        self._line.points = np.stack([line[:-1], line[1:]], axis=1)


class ForceArrow:
    """A force on a link as an arrow with a label in N.

    The arrow's length increases with the force and saturates at ``longest``.

    Attributes:
        kind: Kind of force.

    Args:
        scene: The viser scene.
        arm: Name of the arm.
        kind: Kind of force; a 'push' ends at the link, other forces start there.
        longest: Upper bound of the length, m.
    """

    def __init__(self, scene: Any, arm: str, kind: str, longest: float) -> None:
        self.kind, self._longest = kind, longest
        self._start = -1.0 if kind == 'push' else 0.0
        ends = np.array([[[0.0, 0.0, 0.0], [0.0, 0.0, 0.1 * longest]]])
        path, thick = f'/{arm}/{kind}', 0.02 * longest
        self._arrow = scene.add_arrows(
            path, ends, FORCE_COLOURS[kind], visible=False,
            shaft_radius=thick, head_radius=2.2 * thick, head_length=6.0 * thick,
        )  # fmt: skip
        self._label = scene.add_label(f'{path}/label', '', anchor='bottom-center', visible=False)

    def show(self, pose: FramePose | None, force: Array) -> None:
        """Show a force, shape (3,), N, in the axes of a link; hide one that is small.

        Without a pose, the link is unknown and the arrow is hidden.
        """
        size = float(np.linalg.norm(force))
        visible = pose is not None and _LEAST_FORCE < size < np.inf
        self._arrow.visible = self._label.visible = visible
        if pose is None or not visible:
            return
        vector = self._longest / (size + _HALF_FORCE) * (pose.R_WF @ force)
        ends = np.array([[self._start * vector, (self._start + 1.0) * vector]])
        self._arrow.points = pose.p_WF + ends
        self._label.position = pose.p_WF + (2.0 * self._start + 1.0) * vector
        self._label.text = f'{self.kind} {size:.{0 if size >= 10.0 else 1}f} N'
