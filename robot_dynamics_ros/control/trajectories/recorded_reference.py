# SPDX-License-Identifier: Apache-2.0
"""A reference that was recorded, in place of the trajectories that it came from."""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array


class RecordedReference(ReferenceGenerator):
    r"""Shows the loop the reference that was recorded at each state.

    The acceleration was not recorded; :math:`(\dot q_{r,k+1} - \dot q_{r,k})/h` is the one that a
    ``ReferenceSampler`` gives for a plant that holds its effort.

    Args:
        tree: The robot.
    """

    def __init__(self, tree: RobotTree) -> None:
        super().__init__(tree)
        self._shown = np.zeros((3, tree.n))

    def show(self, position: Array, velocity: Array, acceleration: Array) -> None:
        """Give the reference of the next tick, each of shape (n,)."""
        self._shown[:] = position, velocity, acceleration

    def glide(self, q: Array, dt: float) -> bool:
        """Return whether the reference that was shown is at rest."""
        return not self.reference.velocity.any()

    def sample(self, stamp_ns: int) -> None:
        """Write the reference that was shown."""
        self._now_ns = stamp_ns
        reference = self.reference
        reference.position[:], reference.velocity[:], reference.acceleration[:] = self._shown
