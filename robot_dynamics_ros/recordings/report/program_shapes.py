# SPDX-License-Identifier: Apache-2.0
"""What a constraint program draws on: its planes, surfaces, lines and paths, over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.angles import FullPose
from robot_dynamics_ros.constraints.constraint import MovingFrame
from robot_dynamics_ros.constraints.point import (
    Cylinder,
    Plane,
    Point,
    RoundSurface,
    StraightLine,
)
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.signals import Signal, instants
from robot_dynamics_ros.geometry.triangles import Triangles, box, cylinder, sphere
from robot_dynamics_ros.recordings.metrics.tracking import tool_path
from robot_dynamics_ros.spatial.scalar import Array

_SAMPLES = 160  # of a path
_SIDE, _THIN = 1.2, 1e-3  # of the size of the arm


class ProgramShape(NamedTuple):
    """A surface or a line of a program.

    Attributes:
        surface: Its surface, or None.
        line: Points of its line, shape (k, 3), m; empty for a surface.
        R, p: Its pose in the base frame at each instant, shape (N, 3, 3) and (N, 3), m.
    """

    surface: Triangles | None
    line: Array
    R: Array
    p: Array


#: Returns shapes from times of the recording, shape (N,), s, and joint positions (N, n).
DrawnShapes = Callable[[Array, Array], Sequence[ProgramShape]]


def drawn_program(program: Program, start: float) -> DrawnShapes:
    """Return what gives the shapes at times, s, of a program that began at ``start``."""
    return lambda time, positions: program_shapes(program, time - start, positions)


def program_shapes(program: Program, time: Array, positions: Array) -> list[ProgramShape]:
    """Return the shapes of a program.

    Args:
        program: The program.
        time: Its time at each instant, shape (N,), s; that before its start is as its start.
        positions: Joint positions at these instants, shape (N, n), rad or m.
    """
    t = np.maximum(np.nan_to_num(time), 0.0).tolist()
    size = float(np.linalg.norm(program.tree.p_PJ, axis=1).sum()) / 2.0 or 0.5
    shapes: list[ProgramShape] = []
    for constraint in program.stack.constraints:
        if isinstance(constraint, (Plane, StraightLine)) and constraint.reference is not None:
            shapes.append(_flat(constraint, t, size))
        elif isinstance(constraint, RoundSurface):
            radius = float(constraint.signals[0].at(0.0)[0][0])
            long = 2.0 * size
            is_long = isinstance(constraint, Cylinder)
            surface = cylinder(radius, long) if is_long else sphere(radius)
            shapes.append(ProgramShape(surface, np.zeros((0, 3)), *_poses(constraint.surface, t)))
        elif isinstance(constraint, Point):
            shapes += _path(program, constraint, t, positions)
        elif isinstance(constraint, FullPose):
            shapes += _still(constraint.target.origin, len(t))
    return shapes


def _poses(frame: MovingFrame, times: list[float]) -> tuple[Array, Array]:
    """Return the poses of a frame, shape (N, 3, 3) and (N, 3)."""
    R, p = zip(*(frame.pose(t) for t in times), strict=True)
    return np.array(R), np.array(p)


def _flat(constraint: Plane | StraightLine, times: list[float], size: float) -> ProgramShape:
    """Return a plane at its distance, or a line, along the z axis of its frame."""
    assert constraint.reference is not None
    R, p = _poses(constraint.reference, times)
    if isinstance(constraint, StraightLine):
        return ProgramShape(None, np.array([[0.0, 0.0, -size], [0.0, 0.0, size]]), R, p)
    distance = np.array([constraint.signals[0].at(t)[0][0] for t in times])
    side = size * np.array([_SIDE, _SIDE, _THIN])
    return ProgramShape(box(side), np.zeros((0, 3)), R, p + distance[:, np.newaxis] * R[:, :, 2])


def _path(
    program: Program, constraint: Point, times: list[float], positions: Array
) -> Iterator[ProgramShape]:
    """Yield the path of a target, whose free coordinates are those of the point that follows."""
    signal: Signal = constraint.signals[0]
    axes = [0, 1, 2] if signal.size == 3 else constraint.indices
    free = [i for i in range(3) if i not in constraint.indices]
    for _, line, R, p in _still(signal, len(times), axes):
        if constraint.reference is not None:
            R, p = _poses(constraint.reference, times)
        else:
            followed = tool_path(program.tree, positions, constraint.frame)
            line[:, free], p[:, free] = 0.0, np.nan_to_num(followed)[:, free]
        yield ProgramShape(None, line, R, p)


def _still(signal: Signal, count: int, axes: list[int] | None = None) -> Iterator[ProgramShape]:
    """Yield the path of a signal in the base frame, if it moves."""
    if signal.horizon:
        times = instants([signal], signal.horizon, _SAMPLES)
        line = np.zeros((len(times), 3))
        line[:, axes or [0, 1, 2]] = [signal.at(t)[0] for t in times]
        yield ProgramShape(None, line, np.tile(np.eye(3), (count, 1, 1)), np.zeros((count, 3)))
