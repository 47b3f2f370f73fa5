# SPDX-License-Identifier: Apache-2.0
"""The way to the start of a program, in joint space: for an arm that it could not begin from."""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.constraints.feasibility import starting_configuration
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.timing import quintic_offset
from robot_dynamics_ros.errors import ProgramError
from robot_dynamics_ros.spatial.scalar import Array

_FREQUENCY = 10.0  # rad/s, critically damped: as a program without a file follows its reference
_STEEPEST = 1.875  # largest speed of a quintic over its mean
_SHORTEST_S = 0.5
_STEPS = 5  # of Newton, over millimetres
_USUAL_SPEED = 1.0  # rad/s or m/s, where the description has no limit


class LeadIn:
    """A smooth motion of all joints to where a program begins.

    Attributes:
        duration: Of the way that was begun last, s.
        velocity: Of the last tick, shape (n,), rad/s or m/s.

    Args:
        goal: Where the program begins, shape (n,), rad or m.
        speed: Largest joint velocities, shape (n,), rad/s or m/s.
    """

    def __init__(self, goal: Array, speed: Array) -> None:
        self.duration, self.velocity = 0.0, np.zeros(len(goal))
        self._goal, self._speed = goal, speed
        self._distance, self._rate = np.zeros(len(goal)), np.zeros(len(goal))

    @classmethod
    def to(cls, program: Program, share: float) -> LeadIn | None:
        """Return the way to a program; None if no start of it is found.

        Args:
            program: The program.
            share: Of the velocity limits.
        """
        try:
            goal = _above(program, starting_configuration(program))
        except ProgramError:
            return None
        limit = program.tree.velocity_limit
        return cls(goal, share * np.where(np.isfinite(limit), limit, _USUAL_SPEED))

    def begin(self, q: Array, v: Array) -> None:
        """Begin at a state, each of shape (n,)."""
        self._distance[:], self._rate[:] = q - self._goal, v
        longest = float((_STEEPEST * np.abs(self._distance) / self._speed).max())
        self.duration = max(longest, _SHORTEST_S)

    def acceleration(self, time: float, q: Array, v: Array) -> Array:
        """Return the joint acceleration, new array of shape (n,), at a time since the start, s."""
        offset, rate, acceleration = quintic_offset(
            self._distance, self._rate, self.duration, time
        )
        error, error_rate = self._goal + offset - q, rate - v
        self.velocity[:] = rate
        return acceleration + _FREQUENCY * (2.0 * error_rate + _FREQUENCY * error)


def _above(program: Program, q: Array) -> Array:
    """Return a start with the rows that are pressed on at their clearance, shape (n,)."""
    wanted = np.zeros(program.m)
    for row, contact in program.contacts:
        wanted[row] = contact.clearance
    for _ in range(_STEPS if program.contacts else 0):
        seen = program.stack.evaluate(q, 0.0 * q, 0.0)
        q = q - np.linalg.lstsq(seen.Gamma, seen.f - wanted, rcond=None)[0]
    return q
