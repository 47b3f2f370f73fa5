# SPDX-License-Identifier: Apache-2.0
"""Errata S1 to S4 of the SCARA paper: the printed form or misreading fails, ours holds.

The reference is Pinocchio's model of the URDF text. S5 to S8 are shapes, signs and
words, S9 to S11 are correct, S12 is what is not modelled.
"""

import closed_forms
import numpy as np
import pytest
from closed_forms import SCARA
from oracles import PinocchioOracle, relative_error
from samples import G, random_state, sample

from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.dynamics.energy import kinetic_energy

L1, L2, LC2, LC4 = (SCARA[key] for key in ('L1', 'L2', 'LC2', 'LC4'))
m2, m3, m4 = SCARA['m2'], SCARA['m3'], SCARA['m4']
M1_LC1 = 6.25 * 0.142**2  # kg m^2
STRETCHED = np.array([0.4, 0.0, 0.1, 0.0])


TREE, ORACLE = sample('scara').tree, PinocchioOracle.of(sample('scara'))


@pytest.fixture
def states():
    rng = np.random.default_rng(18)
    return [random_state(TREE, rng) for _ in range(18)]


def scalar_speed_energy(v):
    """Return K with the speeds of the paper, added as numbers; q does not occur in it."""
    w1, w2, dd, w4 = v
    W, W4 = w1 + w2, w1 + w2 - w4
    vc2 = w1 * L1 + W * LC2
    vc3 = (w1 * L1 + W * L2) ** 2 + dd**2
    vc4 = (w1 * L1 + W * L2 + W4 * LC4) ** 2 + dd**2
    spin = SCARA['I1'] * w1**2 + (SCARA['Izz2'] + SCARA['Izz3']) * W**2 + SCARA['Izz4'] * W4**2
    return 0.5 * (spin + m2 * vc2**2 + m3 * vc3 + m4 * vc4)


def scalar_speed_mass_matrix():
    """Return the matrix of the quadratic form K of the paper's speeds."""
    E = np.eye(4)
    K = scalar_speed_energy
    return np.array([[K(x + y) - K(x) - K(y) for y in E] for x in E])


def test_s1_speeds_added_as_numbers_hold_for_the_stretched_arm_alone(states):
    printed = scalar_speed_mass_matrix()
    assert relative_error(printed, ORACLE.mass_matrix(STRETCHED)) < 1e-13
    assert printed[0, 0] == pytest.approx(1.714, abs=5e-4)
    v = np.array([1.0, -0.5, 0.3, 2.0])
    assert scalar_speed_energy(v) == pytest.approx(kinetic_energy(TREE, STRETCHED, v), rel=1e-13)
    least = min(ORACLE.mass_matrix(q)[0, 0] for q, _, _ in states)
    assert least < 0.8  # kg m^2, against 1.714 of the paper


def test_s1_the_efforts_of_the_printed_energy_are_wrong(states):
    """With K free of q the printed H is constant and C is zero, against its own equation (10)."""
    printed_H = scalar_speed_mass_matrix()
    weight = np.array([0, 0, -(m3 + m4) * G, 0])
    ours, worst = make_formulation('lagrange', TREE), 0.0
    for q, v, a in states:
        truth = ORACLE.inverse_dynamics(q, v, a)
        assert np.abs(ours.inverse_dynamics(q, v, a) - truth).max() < 1e-13
        worst = max(worst, np.abs(printed_H @ a + weight - truth).max())
        assert np.abs(ours.coriolis_matrix(q, v) @ v).max() > 1e-3
    assert worst > 1.0  # N m


@pytest.mark.parametrize(
    ('changes', 'least'),
    [
        pytest.param({'LC3': 0.05}, 0.01, id='s2, a quill with the horizontal offset r_xy3'),
        pytest.param({'I1': SCARA['I1'] + M1_LC1}, 0.999 * M1_LC1, id='s4, an arm counted twice'),
    ],
)
def test_s2_s4_another_arm_than_that_of_the_papers_positions(changes, least, states):
    for q, v, _ in states:
        M = ORACLE.mass_matrix(q)
        assert np.abs(closed_forms.scara(**SCARA, g=G, q=q, v=v).M - M).max() < 1e-14
        other = closed_forms.scara(**SCARA | changes, g=G, q=q, v=v).M
        assert np.abs(other - M).max() > least


def test_s3_the_kinetic_energy_takes_the_square_of_the_speed():
    """K3 prints the third power: not even of the right degree in the rates."""
    q, v = np.array([0.3, 0.9, 0.1, -0.4]), np.array([1.0, 0.5, 0.4, -1.0])
    slow, fast = (kinetic_energy(TREE, q, rates) for rates in (v, 2 * v))
    assert fast == pytest.approx(4 * slow)
