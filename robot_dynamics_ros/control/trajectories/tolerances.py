# SPDX-License-Identifier: Apache-2.0
"""Tolerances of goals, and the monitor that checks them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.parameters import Parameter
from robot_dynamics_ros.spatial.scalar import Array

P = Parameter

#: Default tolerances of goals.
TOLERANCES = (
    P('path_tolerance', [0.0], 'Largest position error during the motion; 0: not checked.', 0.0,
      unit='rad or m', per_joint=True),
    P('goal_tolerance', [0.0], 'Largest position error at the end; 0: not checked.', 0.0,
      unit='rad or m', per_joint=True),
    P('stopped_velocity_tolerance', [0.01], 'Largest velocity error at the end; 0: not checked.',
      0.0, unit='rad/s or m/s', per_joint=True),
    P('goal_time_tolerance', 0.0, 'Time after the end of the trajectory within which a goal must '
      'be reached; 0: unlimited.', 0.0, 3600.0, unit='s'),
)  # fmt: skip


class ResultCode(IntEnum):
    """The result codes of control_msgs/action/FollowJointTrajectory."""

    SUCCESSFUL = 0
    INVALID_GOAL = -1
    INVALID_JOINTS = -2
    OLD_HEADER_TIMESTAMP = -3
    PATH_TOLERANCE_VIOLATED = -4
    GOAL_TOLERANCE_VIOLATED = -5


class Outcome(NamedTuple):
    """Outcome of a goal.

    Attributes:
        code: Result code of the action.
        reason: Reason of a failure or cancellation; empty on success.
        canceled: Whether the client canceled the goal.
    """

    code: ResultCode
    reason: str = ''
    canceled: bool = False

    def describe(self) -> str:
        """Return the outcome as one sentence."""
        if self.canceled:
            return f'goal {self.reason}'
        if self.code is ResultCode.SUCCESSFUL:
            return 'goal reached'
        return f'goal aborted, {self.code.name}: {self.reason}'


class JointTolerances(NamedTuple):
    """Largest permitted errors of position and velocity per joint; infinite if not checked.

    Attributes:
        position: rad or m, one per joint.
        velocity: rad/s or m/s, one per joint.
    """

    position: tuple[float, ...]
    velocity: tuple[float, ...]

    @classmethod
    def of(
        cls,
        joints: Sequence[str],
        position: Sequence[float],
        velocity: Sequence[float] = (),
        of_goal: Mapping[str, tuple[float, float]] | None = None,
    ) -> JointTolerances:
        """Return tolerances from defaults and from a goal.

        Args:
            joints: Names of the n joints.
            position: Default, one for all joints or n, rad or m; 0: not checked.
            velocity: Default, one for all joints or n, rad/s or m/s; empty or 0: not checked.
            of_goal: Position and velocity tolerance by joint; 0: the default, negative: not
                checked.

        Raises:
            TrajectoryError: A joint is unknown, a number of values is wrong, or a value is NaN.
        """
        defaults = [_spread(name, values, joints) for name, values in
                    (('position', position), ('velocity', velocity or (0.0,)))]  # fmt: skip
        of_goal = of_goal or {}
        for name, pair in of_goal.items():
            if name not in joints:
                raise TrajectoryError(
                    f'tolerance of joint {name!r}', 'no such joint', f'known: {", ".join(joints)}'
                )
            if any(math.isnan(x) for x in pair):
                raise TrajectoryError(f'tolerance of joint {name!r}', 'is NaN', 'give a number')
        requested = zip(*(of_goal.get(name, (0.0, 0.0)) for name in joints), strict=True)
        pairs = zip(requested, defaults, strict=True)
        return cls(*(tuple(map(_effective, row, default)) for row, default in pairs))


class TrajectoryWatch:
    """Monitors the tracking error of a trajectory, and determines its outcome.

    During the motion, every error must stay within the path tolerances. After the end, the
    trajectory succeeds as soon as every error is within the goal tolerances, and fails if that
    takes longer than the goal time.

    Args:
        joints: Names of the joints.
        prismatic: Whether each joint is prismatic, for units in messages.
        path: Tolerances during the motion.
        goal: Tolerances at the end.
        goal_time: Time after the end within which the goal must be reached, s; may be infinite.
        duration: Duration of the trajectory, s.

    Attributes:
        duration: Duration of the trajectory, s.
    """

    def __init__(
        self,
        joints: Sequence[str],
        prismatic: Sequence[bool],
        path: JointTolerances,
        goal: JointTolerances,
        goal_time: float,
        duration: float,
    ) -> None:
        self._joints = tuple(joints)
        self._units = tuple('m' if slides else 'rad' for slides in prismatic)
        self._path, self._goal = path, goal
        self._goal_time, self.duration = goal_time, duration

    def verdict(self, elapsed: float, reference: Reference, q: Array, v: Array) -> Outcome | None:
        """Return the outcome of the trajectory, or None while it continues.

        Args:
            elapsed: Time since its start, s; negative before.
            reference: The joint reference.
            q: Measured positions, shape (n,), rad or m.
            v: Measured velocities, shape (n,), rad/s or m/s.
        """
        moving = elapsed < self.duration
        worst = self._first_violation(self._path if moving else self._goal, reference, q, v)
        if moving:
            if not worst:
                return None
            reason = f'{worst} path tolerance at {elapsed:.3f} s'
            return Outcome(ResultCode.PATH_TOLERANCE_VIOLATED, reason)
        if not worst:
            return Outcome(ResultCode.SUCCESSFUL)
        late = elapsed - self.duration
        if late <= self._goal_time:
            return None
        reason = f'{worst} goal tolerance at {elapsed:.3f} s, {late:.3f} s after the end'
        return Outcome(ResultCode.GOAL_TOLERANCE_VIOLATED, reason)

    def _first_violation(
        self, tolerances: JointTolerances, reference: Reference, q: Array, v: Array
    ) -> str:
        """Return a text on the first joint out of tolerance, with error and tolerance; or ''."""
        desired, desired_rate = reference.position.tolist(), reference.velocity.tolist()
        actual, rate = q.tolist(), v.tolist()
        for i, (most, fastest) in enumerate(
            zip(tolerances.position, tolerances.velocity, strict=True)
        ):
            for what, unit, error, tolerance in (
                ('position', '', desired[i] - actual[i], most),
                ('velocity', '/s', desired_rate[i] - rate[i], fastest),
            ):
                if not abs(error) <= tolerance:
                    return (
                        f'joint {self._joints[i]!r}: {what} error {error:.4g} '
                        f'{self._units[i]}{unit} exceeds the {tolerance:.4g} {self._units[i]}'
                        f'{unit} of the'
                    )
        return ''


def goal_time(requested: float, default: float) -> float:
    """Return the time after the end within which a goal must be reached, s.

    Args:
        requested: Value of the goal, s; 0: the default, negative: unlimited.
        default: s; 0: unlimited.
    """
    return _effective(requested, math.inf if default == 0.0 else default)


def _spread(name: str, values: Sequence[float], joints: Sequence[str]) -> Array:
    numbers = np.asarray(values, dtype=float).reshape(-1)
    if len(numbers) not in (1, len(joints)) or not (numbers >= 0.0).all():
        raise TrajectoryError(
            f'{name} tolerance', f'is {list(values)}', f'give 1 or {len(joints)}, 0: not checked'
        )
    return np.where(numbers > 0.0, numbers, math.inf) * np.ones(len(joints))


def _effective(requested: float, default: float) -> float:
    if requested == 0.0:
        return float(default)
    return float(requested) if requested > 0.0 else math.inf
