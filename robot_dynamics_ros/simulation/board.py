# SPDX-License-Identifier: Apache-2.0
"""A board that an arm may press on: a body of stated mass on a spring of stated stiffness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.constraints.point import Plane
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.signals import Constant
from robot_dynamics_ros.errors import ParameterError


@dataclass(frozen=True)
class Board:
    """A flat body that slides along its normal on a spring; the arm touches it with a small ball.

    Its surface is where the plane through ``origin`` across ``normal`` is while nobody presses.

    Attributes:
        frame: Link whose origin touches it.
        origin: A point of the surface in the base, m.
        normal: Out of the board, in the base; of any length.
        mass: kg.
        stiffness: Of the spring, N/m.
        damping: Of the spring, N s/m.
        friction: Coefficient between board and arm.
        size: Half of its length along the surface, m.
        motion: How far the spring's foot is along the normal at a time, m; None: at rest.
    """

    frame: str = 'tool'
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    normal: tuple[float, float, float] = (0.0, 0.0, 1.0)
    mass: float = 1.0
    stiffness: float = 1e4
    damping: float = 0.0
    friction: float = 0.0
    size: float = 1.0
    motion: Callable[[float], float] | None = None

    def __post_init__(self) -> None:
        for name in ('mass', 'stiffness', 'size'):
            if not 0.0 < getattr(self, name) < float('inf'):
                raise ParameterError(f'board {name}', getattr(self, name), 'must be positive')
        for name in ('damping', 'friction'):
            if not 0.0 <= getattr(self, name) < float('inf'):
                raise ParameterError(f'board {name}', getattr(self, name), 'must not be negative')

    @classmethod
    def expected_by(cls, program: Program, *, offset: float = 0.0, **properties: float) -> Board:
        """Return the board on which a program presses, where and as the program expects it.

        Args:
            program: It has a plane with a contact, of a normal that does not turn.
            offset: How far along the normal the surface is beyond where it is expected, m.
            properties: ``mass``, ``stiffness``, ``damping``, ``friction``, ``size``.

        Raises:
            ParameterError: The program presses on no such plane.
        """
        plane = _pressed_plane(program)
        axes, begin = plane.reference.pose(0.0)
        normal = axes[:, 2]

        def along(t: float) -> float:
            place = plane.reference.pose(t)[1]
            return float(normal @ (place - begin)) + float(plane.target.at(t)[0][0])

        x, y, z = (begin + offset * normal).tolist()
        nx, ny, nz = normal.tolist()
        return cls(plane.frame, (x, y, z), (nx, ny, nz), motion=along, **properties)


def _pressed_plane(program: Program) -> Plane:
    """Return the plane on which a program presses."""
    pressed, first = {row for row, _ in program.contacts}, 0
    for part in program.stack.constraints:
        if first in pressed and isinstance(part, Plane) and _is_simple(part):
            return part
        first += len(part.rows)
    problem = "its contact must be on a plane that does not turn, at a frame's origin"
    raise ParameterError('board_program', program.name, problem)


def _is_simple(plane: Plane) -> bool:
    """Return whether a plane does not turn, and is met at a frame's origin."""
    return isinstance(plane.reference.angle, Constant) and not np.any(plane.point)
