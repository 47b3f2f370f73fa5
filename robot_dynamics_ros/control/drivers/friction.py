# SPDX-License-Identifier: Apache-2.0
"""Compiled friction of the joints, for drivers that compensate it and for laws."""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import JointTerms, smooth_direction
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_function


class DriveFriction:
    """Compiled compensation of friction, see ``JointTerms``.

    Args:
        tree: The robot.

    Attributes:
        effort: The last result, shape (n,), N m or N.
    """

    def __init__(self, tree: Robot) -> None:
        n, terms = tree.n, JointTerms.of(tree)
        self.effort, self._settings = np.zeros(n), np.zeros(2)

        def friction(v: Array, load: Array, settings: Array) -> Array:
            v_s, share = settings
            return share * terms.compensation(v, load, smooth_direction(v, v_s))

        self._write = compile_function(friction, n, settings=2, fused=False)
        self.configure(terms.stiction_velocity)

    def configure(self, stiction_velocity: float, share: float = 1.0) -> None:
        """Set the velocity scale of the smooth sign, rad/s or m/s, and a factor of the result."""
        self._settings[:] = stiction_velocity, share

    def at(self, v: Array, load: Array) -> Array:
        """Return the friction at velocities and rigid-body efforts, shape (n,) each."""
        self._write(v, load, self._settings, self.effort)
        return self.effort
