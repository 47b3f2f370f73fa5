# SPDX-License-Identifier: Apache-2.0
"""Errata K1 to K10 of Ma, Xu, Li 1988: the text as printed fails, ours holds.

The truth are the free bodies of the four-bar, or Pinocchio. K4, K6, K11 and K12 are shapes,
letters and scope.
"""

import math

import numpy as np
import pytest
import sympy as sp
from four_bar_oracle import GENERAL, NUMBERS, FreeBodies, published_contributions
from numpy.testing import assert_allclose

from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.model import load_mechanism

ROUNDING = {'rtol': 1e-12, 'atol': 1e-12}  # of sums of terms of a few hundred N m
P = NUMBERS


LINKAGES = {
    name: make_formulation('kane', load_mechanism(*shipped_mechanism(name)))
    for name in ('parallelogram', 'four_bar')
}


def states(rng, count=20):
    """Return brisk motions of the linkage inside its limits."""
    return [
        (rng.uniform(-0.6, 0.6, 2), 3 * rng.normal(size=2), 8 * rng.normal(size=2))
        for _ in range(count)
    ]


def test_k1_k2_three_readings_of_the_bracket_are_one_and_mixed_ones_are_wrong():
    """Of IM_1'; ``symbolic/test_closed_form`` derives what section 3.5 sums with the first."""
    t, tp, arm, rod = sp.symbols('theta theta_p m2_l1_d2 m2p_l1p_d2p')
    s = sp.sin
    right = -(arm * s(tp - t) + rod * s(t - tp))
    for bracket, wrong_by in (
        (-rod * s(t - tp) + arm * s(t - tp), 0),
        (-arm * s(tp - t) + rod * s(tp - t), 0),
        (-rod * s(tp - t) + arm * s(t - tp), 2 * rod),
        (-arm * s(t - tp) + rod * s(tp - t), -2 * arm),
    ):
        assert sp.simplify(bracket - right - wrong_by * s(t - tp)) == 0


def test_k3_with_the_other_subscript_order_link_2_is_wrong(rng):
    """The terms printed with a minus need sin(theta' - theta); also the cost of K2's readings."""
    link_2 = mixed = 0.0
    for u, ud, udd in states(rng):
        ours = LINKAGES['parallelogram'].contributions(u, ud, udd)
        right = np.array(published_contributions(P, u, ud, udd), dtype=float)
        assert_allclose(ours, right, **ROUNDING)
        turned = 2 * math.sin(u[0] - u[1]) * udd
        link_2 = max(link_2, np.abs(P.m2 * P.l1 * P.d2 * turned).max())
        mixed = max(mixed, abs(P.m2p * P.l1p * P.d2p * turned[0]))
    assert link_2 > 10.0  # N m
    assert mixed > 1.0


@pytest.mark.parametrize(('name', 'numbers'), [('parallelogram', P), ('four_bar', GENERAL)])
def test_k5_k9_the_passive_joints_move_and_a_shared_link_counts_once(name, numbers, rng):
    """Literal numeric partial velocities, source delta_ij k; link 2 along both paths of a loop."""
    model = LINKAGES[name]
    literal, wrong = np.array([[1, 0], [0, 0], [0, 1], [0, 0]]), []
    for u, ud, udd in states(rng):
        q, v, a, *_ = model.tree_state(u, ud, udd)
        ours, truth = model.contributions(u, ud, udd), FreeBodies(numbers, u, ud, udd).torques
        assert_allclose(ours.sum(axis=0), truth, rtol=1e-11, atol=1e-11)
        torques = model.open.contributions(q, v, a, A=literal).sum(axis=0)
        wrong.append([torques - truth, ours[1]])
    assert np.abs(wrong).max(axis=(0, 2)).min() > 40.0


def test_k8_sum_k_is_not_the_torque_of_a_motor_placed_elsewhere(rng):
    """With the second motor at J2, the base motor needs an effort not stated in the paper."""
    urdf, loops = shipped_mechanism('parallelogram')
    placed = make_formulation(
        'kane',
        load_mechanism(
            urdf,
            loops.read_text() + 'actuators:\n  base: {rate: {lower_arm_joint: 1}}\n'
            '  elbow: {rate: {upper_arm_joint: 1}, effort_limit: 250}\n',
        ),
    )
    worst = 0.0
    for u, ud, udd in states(rng):
        sum_k = LINKAGES['parallelogram'].contributions(u, ud, udd).sum(axis=0)
        tau = placed.inverse_dynamics(u, ud, udd)
        assert_allclose(tau, [sum_k[0] + sum_k[1], sum_k[1]], **ROUNDING)
        worst = max(worst, np.max(np.abs(tau - sum_k)))
    assert worst > 30.0
