# SPDX-License-Identifier: Apache-2.0
"""One trajectory after the other."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.errors import TrajectoryError


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
