# SPDX-License-Identifier: Apache-2.0
"""The shipped four-joint arm has the worked numbers of its specification."""

from __future__ import annotations

import numpy as np
from samples import sample

from robot_dynamics_ros.dynamics import make_formulation

THETA, RATES = np.array([0.3, -1.1, -0.4, 0.6]), np.array([0.5, -0.4, 0.3, 0.2])
A = np.array(
    [
        [0.0617055662, -0.0003274105, 0.0009740440, 0.0000388531],
        [-0.0003274105, 0.3753877488, 0.1119535388, -0.0023427213],
        [0.0009740440, 0.1119535388, 0.0450531287, -0.0012627357],
        [0.0000388531, -0.0023427213, -0.0012627357, 0.0021772000],
    ]
)
GRAVITY_TORQUE = np.array([0.0, -3.6443384514, -0.4233500817, -0.2184561874])
VELOCITY_TORQUE = [-0.0403139988, -0.0351349688, -0.0129521979, 0.0021662662]


def test_mass_matrix_gravity_and_velocity_torques_are_the_worked_numbers():
    model, half_a_digit = make_formulation('newton_euler', sample('four_dof').tree), 5.1e-11
    assert np.abs(model.mass_matrix(THETA) - A).max() < half_a_digit
    assert np.abs(model.gravity_forces(THETA) - GRAVITY_TORQUE).max() < half_a_digit
    bias = GRAVITY_TORQUE + VELOCITY_TORQUE
    assert np.abs(model.bias_forces(THETA, RATES) - bias).max() < 2 * half_a_digit
