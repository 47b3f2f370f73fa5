# SPDX-License-Identifier: Apache-2.0
"""A constraint program in the scene: its paths, planes, lines, spheres and moving frames."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.angles import (
    AxisAlignment,
    AxisAngle,
    FullPose,
    Orientation,
)
from robot_dynamics_ros.constraints.constraint import Constraint, MovingFrame
from robot_dynamics_ros.constraints.point import (
    Coincidence,
    Cylinder,
    Distance,
    Plane,
    Point,
    RoundSurface,
    StraightLine,
)
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.constraints.signals import Signal, instants
from robot_dynamics_ros.geometry.triangles import box, cylinder, sphere
from robot_dynamics_ros.model import frame_pose, load_robot
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.viewing.arm_scene import set_pose

_COLOUR = (20, 150, 90)
_SURFACE_OPACITY = 0.22
_ROD = 5.0  # pixels
_SAMPLES = 160  # of a path
_LEAST_MOVE = 1e-6  # m; smaller changes are not sent

#: Updates a drawn object for a program time, s, and joint positions q.
Mover = Callable[[float, Array], None]


def read_program(parameters: Mapping[str, Any], xml: str) -> Program | None:
    """Load the program given by the controller's parameters; None if its law has none.

    Raises:
        RobotDynamicsError: The program cannot be read, or does not fit the description.
    """
    source = parameters.get('program')
    if parameters.get('law') != 'constraint_stabilization' or not source:
        return None
    return load_program(source, load_robot(xml, effort_limit=1.0), check=False)


class ProgramScene:
    """The geometry of a program's constraints.

    Args:
        scene: The viser scene.
        root: Name of the arm's node, the parent of the geometry.
        program: The program.
        size: Size at which to draw unbounded geometry, m.
    """

    def __init__(self, scene: Any, root: str, program: Program, size: float) -> None:
        self._scene, self._program, self._size = scene, program, size
        self._root = scene.add_frame(f'{root}/program', show_axes=False)
        self._movers: list[Mover] = []
        for k, constraint in enumerate(program.stack.constraints):
            self._add(f'{root}/program/{k}', constraint)

    def show(self, t: float, positions: Mapping[str, float]) -> None:
        """Update the geometry for a program time, s; NaN for its start."""
        tree = self._program.tree
        q = np.array([positions.get(name, 0.0) for name in tree.joint_names])
        t = max(t, 0.0) if math.isfinite(t) else 0.0
        for move in self._movers:
            move(t, np.nan_to_num(q))

    def remove(self) -> None:
        """Remove the geometry from the scene."""
        self._root.remove()

    def _add(self, path: str, constraint: Constraint) -> None:
        if isinstance(constraint, (Plane, StraightLine)):
            assert constraint.reference is not None
            self._add_frame(path, constraint.reference)
            self._add_flat(path, constraint)
        elif isinstance(constraint, Point):
            self._add_target(path, constraint)
        elif isinstance(constraint, RoundSurface):
            self._add_frame(path, constraint.surface)
            self._add_round(path, constraint)
        elif isinstance(constraint, (Orientation, FullPose)):
            self._add_frame(path, constraint.target, axes=True)
            if isinstance(constraint, FullPose):
                self._add_path(f'{path}_path', constraint.target.origin)
        elif isinstance(constraint, (AxisAngle, AxisAlignment)):
            self._add_direction(path, constraint)
        elif isinstance(constraint, (Distance, Coincidence)):
            self._add_pair(path, constraint)

    def _add_frame(self, path: str, frame: MovingFrame, *, axes: bool = False) -> None:
        """Add a node that moves with a frame; draw its axes if ``axes`` or the frame moves."""
        moves = any(math.isfinite(signal.horizon) and signal.horizon for signal in frame.signals)
        node = self._scene.add_frame(
            path,
            show_axes=axes or moves,
            axes_length=0.15 * self._size,
            axes_radius=0.005 * self._size,
        )

        def move(t: float, _: Array) -> None:
            R, p = frame.pose(t)
            set_pose(node, p, R)

        self._movers.append(move)

    def _add_flat(self, path: str, constraint: Plane | StraightLine) -> None:
        """Add a plane at its distance, or a line, in the axes of their parent node."""
        if isinstance(constraint, StraightLine):
            ends = np.array([[[0.0, 0.0, -self._size], [0.0, 0.0, self._size]]])
            self._line(f'{path}/line', ends)
            return
        distance: Signal = constraint.signals[0]
        node = self._surface(f'{path}/plane', box(np.array([1.2, 1.2, 1e-3]) * self._size))

        def move(t: float, _: Array) -> None:
            set_pose(node, np.array([0.0, 0.0, float(distance.at(t)[0][0])]))

        self._movers.append(move)

    def _add_round(self, path: str, constraint: RoundSurface) -> None:
        shape = cylinder(1.0, 1.0) if isinstance(constraint, Cylinder) else sphere(1.0)
        node = self._surface(f'{path}/surface', shape)
        radius: Signal = constraint.signals[0]

        def move(t: float, _: Array) -> None:
            r = float(radius.at(t)[0][0])
            length = 2.0 * self._size if isinstance(constraint, Cylinder) else r
            if node.scale != (r, r, length):
                node.scale = (r, r, length)

        self._movers.append(move)

    def _add_target(self, path: str, constraint: Point) -> None:
        """Add a target and its path; its free coordinates follow the tool."""
        signal: Signal = constraint.signals[0]
        axes = [0, 1, 2] if signal.size == 3 else constraint.indices
        if constraint.reference is not None:
            self._add_frame(path, constraint.reference)
        free = [i for i in range(3) if i not in constraint.indices]
        self._add_path(f'{path}/path', signal, axes)
        marker = self._scene.add_icosphere(f'{path}/target', 0.02 * self._size, _COLOUR)
        carrier = self._scene.get_handle_by_name(f'{path}/path')
        frame, point = constraint.frame, constraint.point

        def move(t: float, q: Array) -> None:
            p = np.zeros(3)
            p[axes] = signal.at(t)[0]
            offset = np.zeros(3)
            if free and constraint.reference is None:
                p[free] = self._point(frame, point, q)[free]
                offset[free] = p[free]
            if carrier is not None and signal.size != 3:
                set_pose(carrier, offset)
            set_pose(marker, p)

        self._movers.append(move)

    def _add_path(self, path: str, signal: Signal, axes: list[int] | None = None) -> None:
        """Add the path of a signal, if it moves."""
        if not signal.horizon:
            return
        times = instants([signal], signal.horizon, _SAMPLES)
        points = np.zeros((len(times), 3))
        points[:, axes or [0, 1, 2]] = [signal.at(t)[0] for t in times]
        self._line(path, np.stack([points[:-1], points[1:]], axis=1))

    def _add_direction(self, path: str, constraint: AxisAngle | AxisAlignment) -> None:
        """Add the reference direction of an axis of the tool, at the tool."""
        ends = np.array([[[0.0, 0.0, 0.0], [0.0, 0.0, 0.4 * self._size]]])
        node = self._line(path, ends)

        def move(t: float, q: Array) -> None:
            _, p = frame_pose(self._program.tree, q, constraint.frame)
            set_pose(node, p, constraint.reference.pose(t)[0])

        self._movers.append(move)

    def _add_pair(self, path: str, constraint: Distance | Coincidence) -> None:
        """Add two points and their connection: a rod of the specified length, or the gap."""
        ball = 0.015 * self._size
        balls = [self._scene.add_icosphere(f'{path}/{k}', ball, _COLOUR) for k in range(2)]
        rod = self._line(f'{path}/rod', np.zeros((1, 2, 3)), _ROD)

        def move(t: float, q: Array) -> None:
            ends = [self._point(constraint.frame, constraint.point, q)]
            if constraint.other_frame is not None:
                ends.append(self._point(constraint.other_frame, constraint.other_point, q))
            else:
                ends.append(np.array(constraint.signals[1].at(t)[0]))
            for node, p in zip(balls, ends, strict=True):
                set_pose(node, p)
            gap = ends[0] - ends[1]
            if isinstance(constraint, Distance):
                gap *= constraint.signals[0].at(t)[0][0] / max(float(np.linalg.norm(gap)), 1e-9)
            points = np.array([[ends[1], ends[1] + gap]])
            if np.abs(rod.points - points).max() > _LEAST_MOVE:
                rod.points = points

        self._movers.append(move)

    def _point(self, frame: str, point: tuple[float, ...], q: Array) -> Array:
        """Return the position of a point of a frame in the base frame, shape (3,), m."""
        R, p = frame_pose(self._program.tree, q, frame)
        return p + R @ np.array(point)

    def _line(self, path: str, ends: Array, thickness: float = 2.0) -> Any:
        return self._scene.add_line_segments(
            path, ends, _COLOUR, thickness=thickness, thickness_units='screen'
        )

    def _surface(self, path: str, surface: Any) -> Any:
        return self._scene.add_mesh_simple(
            path,
            surface.vertices,
            surface.faces,
            color=_COLOUR,
            opacity=_SURFACE_OPACITY,
            side='double',
            cast_shadow=False,
            receive_shadow=False,
        )
