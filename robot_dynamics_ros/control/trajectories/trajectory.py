# SPDX-License-Identifier: Apache-2.0
"""Base class of joint trajectories, check of limits, and elementary trajectories."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.spatial.scalar import Array


class Trajectory(ABC):
    """Base class of joint trajectories: at rest before the start and after the end.

    Attributes:
        n: Number of joints.
        duration: Time from start to end, s; ``math.inf`` if it never ends.
    """

    n: int
    duration: float

    @abstractmethod
    def sample(self, t: float, reference: Reference) -> None:
        """Compute position, velocity and acceleration at a time.

        Args:
            t: Time since the start of the trajectory, s. Before 0 the start is held, after
                ``duration`` the end, with velocity and acceleration zero.
            reference: Receives the result; its arrays have shape (n,).

        Cost: a few microseconds for a few joints; joint splines allocate no array.
        """

    def instants(self, step: float) -> Array:
        """Return times that resolve the motion, from the start to the end.

        Args:
            step: Nominal time between two of them, s.

        Returns:
            New array, increasing, shape (k,), s.
        """
        return np.linspace(0.0, self.duration, max(1, math.ceil(self.duration / step)) + 1)

    def table(self, times: Array) -> tuple[Array, Array, Array]:
        """Return positions, velocities and accelerations at times (k,), s, each shape (k, n)."""
        reference, rows = Reference(self.n), np.zeros((3, len(times), self.n))
        for k, t in enumerate(times.tolist()):
            self.sample(t, reference)
            rows[:, k] = reference.position, reference.velocity, reference.acceleration
        return rows[0], rows[1], rows[2]


def check_limits(
    trajectory: Trajectory, tree: RobotTree, step: float = 0.01, outside: Array | float = 0.0
) -> None:
    """Check that a trajectory is within the position and velocity limits of a robot.

    Args:
        trajectory: Trajectory with a finite duration.
        tree: The robot, with joints in the trajectory's order.
        step: Nominal time between the checked instants, s.
        outside: Permitted excess over the position limits before the end, per joint, rad or m; the
            excess at the start, so that the joint may return.

    Raises:
        TrajectoryError: It has another number of joints, never ends, or exceeds a limit; names
            the joint, the time and the limit.

    Cost: a few milliseconds for a spline of a thousand knots.
    """
    if trajectory.n != tree.n:
        raise TrajectoryError(
            'trajectory', f'has {trajectory.n} joints', f'the robot {tree.name!r} has {tree.n}'
        )
    if not math.isfinite(trajectory.duration):
        raise TrajectoryError('trajectory', 'never ends', 'check one that does')
    times = trajectory.instants(step)
    position, velocity, _ = trajectory.table(times)
    lower, upper = tree.position_lower, tree.position_upper
    slack = np.full(position.shape, 1e-9)
    slack[:-1] += outside
    inside = (position >= lower - slack) & (position <= upper + slack)
    for k, i in np.argwhere(~inside)[:1]:  # NaN is outside
        raise TrajectoryError(
            f'joint {tree.joint_names[i]!r}',
            f'is at {position[k, i]:.6g} at t = {times[k]:.4g} s',
            f'its limits are {lower[i]:.6g} to {upper[i]:.6g}',
        )
    fastest = tree.velocity_limit * (1.0 + 1e-9)
    for k, i in np.argwhere(~(np.abs(velocity) <= fastest))[:1]:
        raise TrajectoryError(
            f'joint {tree.joint_names[i]!r}',
            f'moves at {abs(velocity[k, i]):.4g} per second at t = {times[k]:.4g} s',
            f'its velocity limit is {tree.velocity_limit[i]:.4g}',
        )


def joint_vector(
    name: str,
    value: Sequence[float] | Array | float,
    n: int | None = None,
    joint_names: Sequence[str] | None = None,
) -> list[float]:
    """Return one finite number per joint.

    Args:
        name: Name of the value in the error, such as 'velocity of point 2'.
        value: Shape (n,); if n is given, a single number is used for all joints.
        n: Number of joints; any if None.
        joint_names: Used to name a joint in the error.

    Raises:
        TrajectoryError: Wrong number of values, or one is not finite; names it.
    """
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise TrajectoryError(name, f'is {value!r}', 'give one number per joint') from None
    if n is not None and array.ndim == 0:
        array = np.full(n, float(array))
    if array.ndim != 1 or array.size == 0 or (n is not None and array.size != n):
        expected = 'a list of numbers' if n is None else f'{n} numbers, one per joint'
        raise TrajectoryError(name, f'has shape {array.shape}', f'give {expected}')
    for i, number in enumerate(array.tolist()):
        if not np.isfinite(number):
            joint = joint_names[i] if joint_names else str(i)
            raise TrajectoryError(name, f'is {number} for joint {joint}', 'give finite numbers')
    return array.tolist()


def positive(name: str, value: float) -> float:
    """Return a positive finite number.

    Raises:
        TrajectoryError: The value is not positive and finite.
    """
    if not 0.0 < value < np.inf:
        raise TrajectoryError(name, f'is {value}', 'must be positive and finite')
    return float(value)


class Chain(Trajectory):
    """Sequence of trajectories, each starting where the previous one ends.

    Args:
        parts: At least one; all except the last have a finite duration.

    Raises:
        TrajectoryError: There is none, a part before the last never ends, or a part does not
            start where the previous one ends (within 1e-6 rad or m).
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
        """Compute the motion at a time; see :class:`Trajectory`."""
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
    """Holds one position; its duration is 0.

    Args:
        position: Shape (n,), rad or m; copied.

    Raises:
        TrajectoryError: The position is empty or non-finite.
    """

    duration = 0.0

    def __init__(self, position: Sequence[float] | Array) -> None:
        values = joint_vector('position', position)
        self.n = len(values)
        self._rows = np.zeros((3, self.n))
        self.position = self._rows[0]
        self.position[:] = values

    def sample(self, t: float, reference: Reference) -> None:
        """Return the position at rest; see :class:`Trajectory`."""
        reference.rows[:] = self._rows


class Slowed(Trajectory):
    r"""Trajectory slowed down by a constant factor.

    .. math:: q_s(t) = q(\lambda t), \qquad \dot q_s = \lambda\,\dot q, \qquad
              \ddot q_s = \lambda^2\,\ddot q

    Args:
        motion: The original trajectory.
        rate: :math:`\lambda`, in (0, 1]; 0.25 takes four times as long.

    Raises:
        TrajectoryError: The rate is not in (0, 1].
    """

    def __init__(self, motion: Trajectory, rate: float) -> None:
        if not 0.0 < rate <= 1.0:
            raise TrajectoryError('rate', f'is {rate:g}', 'it must be above 0, at most 1')
        self._motion, self._rate = motion, rate
        self.n, self.duration = motion.n, motion.duration / rate

    def sample(self, t: float, reference: Reference) -> None:
        """Compute the motion at a time; see :class:`Trajectory`."""
        self._motion.sample(t * self._rate, reference)
        reference.velocity *= self._rate
        reference.acceleration *= self._rate**2

    def instants(self, step: float) -> Array:
        """Return times that resolve the motion; see :class:`Trajectory`."""
        return self._motion.instants(step * self._rate) / self._rate
