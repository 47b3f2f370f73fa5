# SPDX-License-Identifier: Apache-2.0
"""The MuJoCo plant moves as Gazebo (DART) did in a recording of the same arm and efforts."""

from __future__ import annotations

import numpy as np
import pytest
from recorded_bags import excerpt

from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

GAZEBO_GRAVITY = (0.0, 0.0, -9.8)


@pytest.fixture(scope='module')
def steps():
    """Return q, v, v of the next step, efforts: (100, 4, 4)."""
    return np.stack(excerpt(), axis=1)


def plant_under(gravity):
    """Return the arm as it was recorded: without friction and drive inertia."""
    tree = load_robot(shipped_robot('scara'), gravity)
    zero = np.zeros(4)
    return MujocoPlant(tree.with_changes(damping=zero, coulomb_friction=zero, armature=zero))


def test_each_step_ends_with_the_velocity_and_position_that_gazebo_had(steps):
    plant = plant_under(GAZEBO_GRAVITY)
    q, v = np.empty((2, 4))
    for q0, v0, v1, effort in steps:
        plant.reset(q0, v0)
        plant.step(effort)
        plant.read(q, v)
        # Two libraries, each rounding at 1e-16 of velocities up to 2 rad/s.
        np.testing.assert_allclose(v, v1, rtol=0, atol=1e-13)
        np.testing.assert_allclose(q, q0 + 1e-3 * v1, rtol=0, atol=1e-15)
    assert np.abs(steps[:, 2] - steps[:, 1]).max() > 1e-3  # it was moving


def test_the_other_usual_gravity_would_show(steps):
    plant = plant_under((0.0, 0.0, -9.81))
    q, v = np.empty((2, 4))
    q0, v0, v1, effort = steps[0]
    plant.reset(q0, v0)
    plant.step(effort)
    plant.read(q, v)
    assert np.abs(v - v1).max() > 1e-6  # 0.01 m/s^2 for 1 ms
