# SPDX-License-Identifier: Apache-2.0
"""Sinusoids, one per joint, that start and stop smoothly."""

from __future__ import annotations

import math
from collections.abc import Sequence

from robot_dynamics_ros.constraints.timing import Timing
from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory, joint_vector, positive
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.spatial.scalar import Array

PerJoint = Sequence[float] | Array | float


class Sine(Trajectory):
    r"""Sinusoids :math:`q_i = c_i + A_i\sin(2\pi f_i\,\sigma(t) + \varphi_i)`.

    :math:`\sigma` is time that speeds up from standstill during ``ramp`` seconds, and slows down
    again before the end, so that the motion is C2 and rests at both ends whatever the phase.

    Args:
        centre: Shape (n,), rad or m.
        amplitude: Shape (n,) or one for all joints, rad or m.
        frequency: Shape (n,) or one for all, Hz.
        phase: Shape (n,) or one for all, rad.
        ramp: Duration of the speeding up and of the slowing down, s.
        duration: s, at least twice the ramp; infinite by default.

    Raises:
        TrajectoryError: A length does not fit, or a number is not finite or positive.
    """

    def __init__(
        self,
        centre: Sequence[float] | Array,
        amplitude: PerJoint,
        frequency: PerJoint,
        phase: PerJoint = 0.0,
        ramp: float = 1.0,
        duration: float = math.inf,
    ) -> None:
        c = joint_vector('centre', centre)
        self.n = len(c)
        omega = [2.0 * math.pi * f for f in joint_vector('frequency', frequency, self.n)]
        if not duration >= 2.0 * ramp:
            raise TrajectoryError('duration', f'is {duration}', f'needs two ramps of {ramp} s')
        self._timing = Timing(duration - ramp, 1.0, positive('ramp', ramp))
        self.duration = self._timing.duration
        A = joint_vector('amplitude', amplitude, self.n)
        phi = joint_vector('phase', phase, self.n)
        self._joints = tuple(zip(c, A, omega, phi, strict=True))

    def sample(self, t: float, reference: Reference) -> None:
        """Write the motion at a time, see :class:`Trajectory`."""
        s, ds, dds = self._timing.at(t)
        position, velocity = reference.position, reference.velocity
        acceleration = reference.acceleration
        for i, (centre, A, omega, phase) in enumerate(self._joints):
            angle = omega * s + phase
            sine, cosine = A * math.sin(angle), A * omega * math.cos(angle)
            position[i] = centre + sine
            velocity[i] = cosine * ds
            acceleration[i] = cosine * dds - omega * omega * sine * ds * ds
