# SPDX-License-Identifier: Apache-2.0
"""What a constraint program draws on: planes, surfaces, lines, paths, targets, moving frames."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.angles import (
    AxisAlignment,
    AxisAngle,
    FullPose,
    Orientation,
)
from robot_dynamics_ros.constraints.constraint import Constraint, MovingFrame
from robot_dynamics_ros.constraints.curves import UP
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
from robot_dynamics_ros.constraints.signals import Signal, instants
from robot_dynamics_ros.geometry.triangles import Colour, Triangles, box, cylinder, sphere
from robot_dynamics_ros.model import Robot, frame_pose
from robot_dynamics_ros.spatial.scalar import Array

_SAMPLES = 160  # of a path
_SIDE, _THIN = 1.2, 1e-3  # of the size of the arm
_SOLID: Colour = (0.08, 0.59, 0.35, 1.0)
_CLEAR: Colour = (*_SOLID[:3], 0.22)
_AXES: tuple[Colour, ...] = ((0.8, 0.1, 0.1, 1.0), (0.1, 0.6, 0.1, 1.0), (0.1, 0.2, 0.8, 1.0))


#: Returns a matrix A, shape (3, 3), and a position p, shape (3,), m, from a program time, s, and
#: joint positions, shape (n,): a point x of a shape is at p + A x in the base frame. A is a
#: rotation, its columns multiplied by what is stretched.
Place = Callable[[float, Array], tuple[Array, Array]]


class ProgramShape(NamedTuple):
    """A surface or a line of a program, which may move.

    Attributes:
        place: Where it is.
        line: Points of its line, shape (k, 3), m; empty for a surface.
        surface: Its surface, or None.
        colour: Red, green, blue and opacity, 0 to 1.
    """

    place: Place
    line: Array
    surface: Triangles | None = None
    colour: Colour = _SOLID

    @classmethod
    def of(cls, place: Place, surface: Triangles, colour: Colour = _CLEAR) -> ProgramShape:
        """Return a surface."""
        return cls(place, np.zeros((0, 3)), surface, colour)

    def at(self, t: float, q: Array) -> tuple[Array, Array]:
        """Return its place; before the start of the program, or at NaN, that of the start."""
        return self.place(max(t, 0.0) if math.isfinite(t) else 0.0, q)


def program_shapes(program: Program) -> list[ProgramShape]:
    """Return the shapes of a program; what is unbounded has the size of the arm."""
    tree = program.tree
    size = float(np.linalg.norm(tree.p_PJ, axis=1).sum()) / 2.0 or 0.5
    parts = program.stack.constraints
    return [shape for constraint in parts for shape in _shapes(tree, constraint, size)]


def _shapes(tree: Robot, constraint: Constraint, size: float) -> Iterator[ProgramShape]:
    if isinstance(constraint, RoundSurface):
        yield from _frame(constraint.surface, size)
        yield _round(constraint, size)
    elif isinstance(constraint, Point):
        if constraint.reference is not None:
            yield from _frame(constraint.reference, size)
        flat = isinstance(constraint, (Plane, StraightLine))
        yield from [_flat(constraint, size)] if flat else _target(tree, constraint, size)
    elif isinstance(constraint, Orientation):
        yield from _frame(constraint.target, size, always=True)
        if isinstance(constraint, FullPose):
            yield from _path(constraint.target.origin, [0, 1, 2], lambda *_: _still())
    elif isinstance(constraint, (AxisAngle, AxisAlignment)):
        yield _direction(tree, constraint, size)
    elif isinstance(constraint, (Distance, Coincidence)):
        yield from _pair(tree, constraint, size)


def _still() -> tuple[Array, Array]:
    return np.eye(3), np.zeros(3)


def _frame(frame: MovingFrame, size: float, *, always: bool = False) -> Iterator[ProgramShape]:
    """Yield the axes of a frame, if it moves or ``always``."""
    if always or any(0.0 < signal.horizon < math.inf for signal in frame.signals):
        for axis, colour in zip(np.eye(3), _AXES, strict=True):
            line = np.outer([0.0, 0.15 * size], axis)
            yield ProgramShape(lambda t, _: frame.pose(t), line, colour=colour)


def _flat(constraint: Point, size: float) -> ProgramShape:
    """Return a plane at its distance, or a line, along the z axis of a frame."""
    frame = constraint.reference
    assert frame is not None
    if isinstance(constraint, StraightLine):
        return ProgramShape(lambda t, _: frame.pose(t), np.outer([-size, size], UP))

    def place(t: float, _: Array) -> tuple[Array, Array]:
        R, p = frame.pose(t)
        return R, p + constraint.target.at(t)[0] * R[:, 2]

    return ProgramShape.of(place, box(size * np.array([_SIDE, _SIDE, _THIN])))


def _round(constraint: RoundSurface, size: float) -> ProgramShape:
    is_long = isinstance(constraint, Cylinder)

    def place(t: float, _: Array) -> tuple[Array, Array]:
        R, p = constraint.surface.pose(t)
        radius = float(constraint.signals[0].at(t)[0][0])
        return R * [radius, radius, 2.0 * size if is_long else radius], p

    return ProgramShape.of(place, cylinder(1.0, 1.0) if is_long else sphere(1.0))


def _target(tree: Robot, constraint: Point, size: float) -> Iterator[ProgramShape]:
    """Yield target and path; their free coordinates are those of the point that follows."""
    signal, chosen, frame = constraint.target, constraint.indices, constraint.reference
    axes = chosen if signal.size == len(chosen) else [0, 1, 2]
    free = [i for i in range(3) if i not in chosen]

    def carrier(t: float, q: Array) -> tuple[Array, Array]:
        if frame is not None:
            return frame.pose(t)
        R, p = _still()
        p[free] = _point(tree, constraint.frame, constraint.point, q)[free]
        return R, p

    def target(t: float, q: Array) -> tuple[Array, Array]:
        R, p = carrier(t, q)
        x = np.zeros(3)
        x[axes] = signal.at(t)[0]
        if frame is None:
            x[free] = 0.0
        return R, p + R @ x

    for path in _path(signal, axes, carrier):
        if frame is None:
            path.line[:, free] = 0.0
        if len(free) == 1:
            wall = _wall(path.line, 0.5 * size * np.eye(3)[free[0]])
            yield ProgramShape.of(carrier, wall)
        yield path
    yield ProgramShape.of(target, sphere(0.02 * size), _SOLID)


def _path(signal: Signal, axes: list[int], carrier: Place) -> Iterator[ProgramShape]:
    """Yield the path of a signal, if it moves."""
    if signal.horizon:
        times = instants([signal], signal.horizon, _SAMPLES)
        line = np.zeros((len(times), 3))
        line[:, axes] = [signal.at(t)[0] for t in times]
        yield ProgramShape(carrier, line)


def _wall(line: Array, half: Array) -> Triangles:
    """Return the surface on which a path may run whose coordinate along an axis is free.

    Args:
        line: Points of the path, shape (k, 3), m.
        half: The axis, with the height of the wall to either side as its length, shape (3,), m.
    """
    first = 2 * np.arange(len(line) - 1)[:, None]
    front = np.concatenate([first + [0, 2, 1], first + [1, 2, 3]])
    vertices = np.stack([line - half, line + half], axis=1).reshape(-1, 3)
    return Triangles(vertices, np.concatenate([front, front[:, ::-1]]))  # seen from both sides


def _direction(tree: Robot, constraint: AxisAngle | AxisAlignment, size: float) -> ProgramShape:
    """Return the reference direction of an axis of the tool, at the tool."""

    def place(t: float, q: Array) -> tuple[Array, Array]:
        return constraint.reference.pose(t)[0], frame_pose(tree, q, constraint.frame).p_WF

    return ProgramShape(place, np.outer([0.0, 0.4 * size], UP))


def _pair(tree: Robot, constraint: Distance | Coincidence, size: float) -> Iterator[ProgramShape]:
    """Yield two points and their connection: a rod of the specified length, or the gap."""

    def first(_: float, q: Array) -> Array:
        return _point(tree, constraint.frame, constraint.point, q)

    def second(t: float, q: Array) -> Array:
        if constraint.other_frame is None:
            return constraint.signals[1].at(t)[0]
        return _point(tree, constraint.other_frame, constraint.other_point, q)

    def rod(t: float, q: Array) -> tuple[Array, Array]:
        end = second(t, q)
        gap = first(t, q) - end
        if isinstance(constraint, Distance):
            gap *= constraint.signals[0].at(t)[0][0] / max(float(np.linalg.norm(gap)), 1e-9)
        return np.outer(gap, UP), end

    ball = sphere(0.015 * size)
    yield ProgramShape.of(lambda t, q: (np.eye(3), first(t, q)), ball, _SOLID)
    yield ProgramShape.of(lambda t, q: (np.eye(3), second(t, q)), ball, _SOLID)
    yield ProgramShape(rod, np.outer([0.0, 1.0], UP))


def _point(tree: Robot, frame: str, point: tuple[float, ...], q: Array) -> Array:
    """Return the position of a point of a frame in the base frame, shape (3,), m."""
    R, p = frame_pose(tree, q, frame)
    return p + R @ np.array(point)
