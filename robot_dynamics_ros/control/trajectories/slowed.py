# SPDX-License-Identifier: Apache-2.0
"""The same path at part of its speed."""

from __future__ import annotations

from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.spatial.scalar import Array


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
