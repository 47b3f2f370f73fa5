# SPDX-License-Identifier: Apache-2.0
"""The MuJoCo plant moves as Gazebo (DART) did in a recording of the same arm and efforts."""

from __future__ import annotations

import numpy as np
from recorded_bags import excerpt

from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant


def test_each_step_ends_with_the_velocity_and_position_that_gazebo_had():
    """The arm as it was recorded: under Gazebo's gravity, without friction and drive inertia."""
    tree, zero = load_robot(shipped_robot('scara'), (0.0, 0.0, -9.8)), np.zeros(4)
    plant = MujocoPlant(tree.with_changes(damping=zero, coulomb_friction=zero, armature=zero))
    q, v = np.empty((2, 4))
    steps = excerpt()
    for q0, v0, v1, effort in zip(*steps, strict=True):
        plant.reset(q0, v0)
        plant.step(effort)
        plant.read(q, v)
        # Two libraries, each rounding at 1e-16 of velocities up to 2 rad/s.
        np.testing.assert_allclose(v, v1, rtol=0, atol=1e-13)
        np.testing.assert_allclose(q, q0 + 1e-3 * v1, rtol=0, atol=1e-15)
    assert np.abs(steps[2] - steps[1]).max() > 1e-3  # it was moving
