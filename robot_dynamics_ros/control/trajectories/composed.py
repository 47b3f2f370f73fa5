# SPDX-License-Identifier: Apache-2.0
"""Trajectories made of others: at rest, one after the other, slowed."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory, joint_vector
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.spatial.scalar import Array


class Chain(Trajectory):
    """Trajectories run one after the other, each starting where the last one ended.

    Args:
        parts: At least one; all but the last have an end.

    Raises:
        TrajectoryError: There is none, one before the last never ends, or one does not start
            where the one before ends (within 1e-6 rad or m).
    """

    def __init__(self, parts: Sequence[Trajectory]) -> None:
        if not parts:
            raise TrajectoryError('chain', 'has no parts', 'give at least one trajectory')
        self._parts, self.n = tuple(parts), parts[0].n
        for k, (part, following) in enumerate(pairwise(parts)):
            if not math.isfinite(part.duration):
                raise TrajectoryError(f'part {k}', 'never ends', 'only the last part may')
            _check_joint(k, part, following)
        self._starts = list(accumulate((part.duration for part in parts[:-1]), initial=0.0))
        self.duration = self._starts[-1] + parts[-1].duration

    def sample(self, t: float, reference: Reference) -> None:
        """Write the motion at a time, see :class:`Trajectory`."""
        k = max(0, bisect_right(self._starts, t) - 1)
        self._parts[k].sample(t - self._starts[k], reference)


def _check_joint(k: int, part: Trajectory, following: Trajectory) -> None:
    if part.n != following.n:
        raise TrajectoryError(
            f'part {k + 1}', f'has {following.n} joints', f'part {k} has {part.n}'
        )
    end, start = Reference(part.n), Reference(part.n)
    part.sample(part.duration, end)
    following.sample(0.0, start)
    gap = np.abs(end.position - start.position)
    if gap.max() > 1e-6:
        joint = int(gap.argmax())
        raise TrajectoryError(
            f'part {k + 1}',
            f'starts with joint {joint} at {start.position[joint]:.6g}',
            f'part {k} ends at {end.position[joint]:.6g}',
        )


class Hold(Trajectory):
    """One position at rest, for ever; its duration is 0.

    Args:
        position: Shape (n,), rad or m; copied.

    Raises:
        TrajectoryError: The position is empty or not finite.
    """

    duration = 0.0

    def __init__(self, position: Sequence[float] | Array) -> None:
        values = joint_vector('position', position)
        self.n = len(values)
        self._rows = np.zeros((3, self.n))
        self.position = self._rows[0]
        self.position[:] = values

    def sample(self, t: float, reference: Reference) -> None:
        """Write the position at rest, see :class:`Trajectory`."""
        reference.rows[:] = self._rows


class Slowed(Trajectory):
    r"""A trajectory whose time runs at a constant rate other than 1.

    .. math:: q_s(t) = q(\lambda t), \qquad \dot q_s = \lambda\,\dot q, \qquad
              \ddot q_s = \lambda^2\,\ddot q

    Args:
        motion: What is run.
        rate: :math:`\lambda`, above 0; 0.25 takes four times as long.

    Raises:
        TrajectoryError: The rate is not above 0, at most 1.
    """

    def __init__(self, motion: Trajectory, rate: float) -> None:
        if not 0.0 < rate <= 1.0:
            raise TrajectoryError('rate', f'is {rate:g}', 'it must be above 0, at most 1')
        self._motion, self._rate = motion, rate
        self.n, self.duration = motion.n, motion.duration / rate

    def sample(self, t: float, reference: Reference) -> None:
        """Write the motion at a time, see :class:`Trajectory`."""
        self._motion.sample(t * self._rate, reference)
        reference.velocity *= self._rate
        reference.acceleration *= self._rate**2

    def instants(self, step: float) -> Array:
        """Return times at which a look shows all that matters, see :class:`Trajectory`."""
        return self._motion.instants(step * self._rate) / self._rate
