# SPDX-License-Identifier: Apache-2.0
"""Stay where you are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.trajectories.checks import joint_vector
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.spatial.scalar import Array


class Hold(Trajectory):
    """One position at rest, for ever; its duration is 0.

    Args:
        position: Shape (n,), rad or m; copied.

    Raises:
        TrajectoryError: The position is empty or not finite.
    """

    duration = 0.0

    def __init__(self, position: Sequence[float] | Array) -> None:
        self.position = np.array(joint_vector('position', position))
        self.n = len(self.position)

    def sample(self, t: float, reference: Reference) -> None:
        """Write the position at rest, see :class:`Trajectory`."""
        reference.position[:] = self.position
        reference.velocity.fill(0.0)
        reference.acceleration.fill(0.0)
