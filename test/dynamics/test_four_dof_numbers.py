# SPDX-License-Identifier: Apache-2.0
"""The four-joint arm against its worked numbers and its gravity torque in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from samples import G, random_state, sample

from robot_dynamics_ros.dynamics import FORMULATIONS, make_formulation

THETA = np.array([0.3, -1.1, -0.4, 0.6])
RATES = np.array([0.5, -0.4, 0.3, 0.2])
A = np.array(
    [
        [0.0617055662, -0.0003274105, 0.0009740440, 0.0000388531],
        [-0.0003274105, 0.3753877488, 0.1119535388, -0.0023427213],
        [0.0009740440, 0.1119535388, 0.0450531287, -0.0012627357],
        [0.0000388531, -0.0023427213, -0.0012627357, 0.0021772000],
    ]
)
GRAVITY_TORQUE = [0.0, -3.6443384514, -0.4233500817, -0.2184561874]
VELOCITY_TORQUE = [-0.0403139988, -0.0351349688, -0.0129521979, 0.0021662662]
HALF_A_DIGIT = 5.1e-11  # the numbers are rounded to ten decimals


@pytest.fixture(params=FORMULATIONS)
def model(request):
    return make_formulation(request.param, sample('four_dof').tree)


def test_mass_matrix_equals_the_worked_numbers(model):
    assert np.abs(model.mass_matrix(THETA) - A).max() < HALF_A_DIGIT


def test_gravity_torque_equals_the_worked_numbers(model):
    assert np.abs(model.gravity_forces(THETA) - GRAVITY_TORQUE).max() < HALF_A_DIGIT


def test_velocity_torque_equals_the_worked_numbers(model):
    found = model.bias_forces(THETA, RATES) - model.gravity_forces(THETA)
    assert np.abs(found - VELOCITY_TORQUE).max() < HALF_A_DIGIT


def test_gravity_torque_equals_its_closed_form(model, rng):
    """Section 7: G4, G3, G2 one after the other, nothing at the waist."""
    a2, a3, m2, m3, m4 = 0.30, 0.25, 1.8, 1.2, 0.45
    for _ in range(5):
        q, _, _ = random_state(sample('four_dof').tree, rng)
        t2, t23, phi = q[1], q[1] + q[2], q[1] + q[2] + q[3]
        G4 = -G * m4 * (0.004 * np.cos(phi) - 0.060 * np.sin(phi))
        G3 = -G * (m3 * (0.110 * np.cos(t23) - 0.003 * np.sin(t23)) + m4 * a3 * np.cos(t23)) + G4
        upper = m2 * (0.135 * np.cos(t2) + 0.004 * np.sin(t2))
        G2 = -G * (upper + (m3 + m4) * a2 * np.cos(t2)) + G3
        assert np.abs(model.gravity_forces(q) - [0, G2, G3, G4]).max() < 1e-13
