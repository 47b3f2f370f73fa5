# SPDX-License-Identifier: Apache-2.0
"""Point to point along a straight line in joint space."""

from __future__ import annotations

import math
from collections.abc import Sequence

from robot_dynamics_ros.constraints.signals import smooth_step
from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory, joint_vector, positive
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.spatial.scalar import Array

#: Peak of the first and second derivative of the unit quintic step.
PEAK_VELOCITY, PEAK_ACCELERATION = 15.0 / 8.0, 10.0 / math.sqrt(3.0)


class Quintic(Trajectory):
    r"""Rest to rest by a quintic step, :math:`q = q_0 + (q_1 - q_0)\,s(t/T)`.

    All joints start and stop together. The peak velocity is :math:`\tfrac{15}8\Delta/T`, the peak
    acceleration :math:`\tfrac{10}{\sqrt3}\Delta/T^2`.

    Args:
        start: Shape (n,), rad or m.
        goal: Shape (n,), rad or m.
        duration: s, positive.

    Raises:
        TrajectoryError: The two have different lengths, or a number is not finite or positive.
    """

    def __init__(
        self, start: Sequence[float] | Array, goal: Sequence[float] | Array, duration: float
    ) -> None:
        self.start = joint_vector('start', start)
        self.n = len(self.start)
        goal_ = joint_vector('goal', goal, self.n)
        self.duration = positive('duration', duration)
        self._joints = tuple((i, a, goal_[i] - a) for i, a in enumerate(self.start))

    @classmethod
    def within(
        cls,
        start: Sequence[float] | Array,
        goal: Sequence[float] | Array,
        velocity: Sequence[float] | Array | float,
        acceleration: Sequence[float] | Array | float,
    ) -> Quintic:
        """Return the fastest such motion within velocity and acceleration bounds.

        Args:
            start: Shape (n,), rad or m.
            goal: Shape (n,), rad or m.
            velocity: Largest velocity, shape (n,) or one for all, rad/s or m/s; positive.
            acceleration: Largest acceleration, likewise, rad/s^2 or m/s^2.

        Raises:
            TrajectoryError: As the constructor, or a bound is not positive, or start is goal.
        """
        a = joint_vector('start', start)
        b = joint_vector('goal', goal, len(a))
        v_max = joint_vector('velocity', velocity, len(a))
        a_max = joint_vector('acceleration', acceleration, len(a))
        duration = 0.0
        for x, y, v, w in zip(a, b, v_max, a_max, strict=True):
            step = abs(y - x)
            positive('velocity', v)
            positive('acceleration', w)
            fast = max(PEAK_VELOCITY * step / v, math.sqrt(PEAK_ACCELERATION * step / w))
            duration = max(duration, fast)
        if duration == 0.0:
            raise TrajectoryError('goal', 'is the start', 'use a Hold to stay')
        return cls(a, b, duration)

    def sample(self, t: float, reference: Reference) -> None:
        """Write the motion at a time, see :class:`Trajectory`."""
        T = self.duration
        s, ds, dds = smooth_step(t / T)
        ds, dds = ds / T, dds / (T * T)
        position, velocity = reference.position, reference.velocity
        acceleration = reference.acceleration
        for i, start, step in self._joints:
            position[i] = start + step * s
            velocity[i] = step * ds
            acceleration[i] = step * dds
