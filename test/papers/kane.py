# SPDX-License-Identifier: Apache-2.0
"""Errata K1 to K10 of Ma, Xu, Li 1988: the text as printed fails, ours holds.

The truth is Euler and Lagrange's equation from the positions of the centres of mass, the free
bodies of the four-bar, or Pinocchio. K4, K6, K11 and K12 are shapes, letters and scope.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp
from four_bar_oracle import GENERAL, NUMBERS, FreeBodies, published_contributions, published_terms

from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.model import load_mechanism

ROUNDING = {'rtol': 1e-12, 'atol': 1e-12}  # of sums of terms of a few hundred N m
P = NUMBERS


@pytest.fixture(scope='module')
def parallelogram():
    return make_formulation('kane', load_mechanism(*shipped_mechanism('parallelogram')))


@pytest.fixture(scope='module')
def four_bar():
    return make_formulation('kane', load_mechanism(*shipped_mechanism('four_bar')))


def states(rng, count=20):
    """Return brisk motions of the linkage inside its limits."""
    return [
        (rng.uniform(-0.6, 0.6, 2), 3 * rng.normal(size=2), 8 * rng.normal(size=2))
        for _ in range(count)
    ]


@pytest.fixture(scope='module')
def lagrange():
    """Return the letters and the two torques of Euler and Lagrange's equation, by SymPy."""
    p = SimpleNamespace(**{name: sp.Symbol(name) for name in vars(NUMBERS)})
    t = sp.Symbol('t')
    q = [sp.Function(name)(t) for name in ('theta', 'thetap')]
    th, thp = q
    e1, e1p = sp.Matrix([sp.cos(th), sp.sin(th)]), sp.Matrix([sp.sin(thp), -sp.cos(thp)])
    e2, e2p = sp.Matrix([-sp.sin(thp), sp.cos(thp)]), e1  # L2 turns with theta', L2' with theta
    bodies = [
        (p.m1, p.d1 * e1, p.I1z, th),
        (p.m2, p.l1 * e1 + p.d2 * e2, p.I2z, thp),
        (p.m1p, p.d1p * e1p, p.I1pz, thp),
        (p.m2p, p.l1p * e1p + p.d2p * e2p, p.I2pz, th),
    ]
    L = 0
    for m, r, I, angle in bodies:
        v = r.diff(t)
        L += m * v.dot(v) / 2 + I * angle.diff(t) ** 2 / 2 - m * p.g * r[0]
    torques = [sp.expand(L.diff(x.diff(t)).diff(t) - L.diff(x)) for x in q]
    return p, q, torques, t


def difference(lagrange, published):
    """Return published minus true torques, simplified, with the letters for rates."""
    _, q, torques, t = lagrange
    return [
        sp.simplify(sp.expand_trig(sp.expand(a - b)))
        for a, b in zip(published, torques, strict=True)
    ]


def section_3_5(lagrange, bracket_1p=None):
    """Return the torques of section 3.5, with another reading of the bracket of IM_1' if given."""
    p, q, _, t = lagrange
    u, ud, udd = q, [x.diff(t) for x in q], [x.diff(t, 2) for x in q]
    gm, im, cm = published_terms(p, u, ud, udd, sp.sin, sp.cos)
    torques = [gm[j] + im[j] + cm[j] for j in (0, 1)]
    if bracket_1p is not None:
        ours = p.m2 * p.l1 * p.d2 * sp.sin(q[1] - q[0]) + p.m2p * p.l1p * p.d2p * sp.sin(
            q[0] - q[1]
        )
        torques[1] += (ours + bracket_1p(p, *q)) * udd[0]
    return torques


@pytest.mark.parametrize(
    'bracket',
    [
        None,  # K1
        lambda p, t, tp: (
            -p.m2p * p.l1p * p.d2p * sp.sin(t - tp) + p.m2 * p.l1 * p.d2 * sp.sin(t - tp)
        ),
        lambda p, t, tp: (
            -p.m2 * p.l1 * p.d2 * sp.sin(tp - t) + p.m2p * p.l1p * p.d2p * sp.sin(tp - t)
        ),
    ],
)
def test_k1_k2_section_3_5_is_lagrange_by_three_readings_of_the_bracket(lagrange, bracket):
    assert difference(lagrange, section_3_5(lagrange, bracket)) == [0, 0]


def test_k2_mixed_readings_of_the_bracket_are_wrong_by_the_stated_terms(lagrange):
    p, (t, tp), _, time = lagrange
    a, b, s = p.m2 * p.l1 * p.d2, p.m2p * p.l1p * p.d2p, sp.sin
    acceleration = t.diff(time, 2)

    def flipped_rod(p, t, tp):
        return -b * s(tp - t) + a * s(t - tp)

    def flipped_arm(p, t, tp):
        return -a * s(t - tp) + b * s(tp - t)

    # Of the second reading the arm's argument is flipped.
    for bracket, wrong_by in ((flipped_rod, 2 * b), (flipped_arm, -2 * a)):
        first, second = difference(lagrange, section_3_5(lagrange, bracket))
        assert first == 0
        assert sp.simplify(sp.expand_trig(second - wrong_by * s(t - tp) * acceleration)) == 0


def test_k3_with_the_other_subscript_order_link_2_is_wrong(parallelogram, rng):
    """The terms printed with a minus need sin(theta' - theta); also the cost of K2's readings."""
    link_2 = mixed = 0.0
    for u, ud, udd in states(rng):
        ours = parallelogram.contributions(u, ud, udd)
        right = np.array(published_contributions(P, u, ud, udd), dtype=float)
        np.testing.assert_allclose(ours, right, **ROUNDING)
        turned = 2 * math.sin(u[0] - u[1]) * udd
        link_2 = max(link_2, np.abs(P.m2 * P.l1 * P.d2 * turned).max())
        mixed = max(mixed, abs(P.m2p * P.l1p * P.d2p * turned[0]))
    assert link_2 > 10.0  # N m
    assert mixed > 1.0


@pytest.mark.parametrize(('name', 'numbers'), [('parallelogram', P), ('four_bar', GENERAL)])
def test_k5_literal_numeric_partial_velocities_fail_on_a_loop(request, name, numbers, rng):
    """With the unit source delta_ij k the passive joints would not move."""
    model = request.getfixturevalue(name)
    literal = np.array([[1, 0], [0, 0], [0, 1], [0, 0]])
    worst = 0.0
    for u, ud, udd in states(rng):
        state = model.tree_state(u, ud, udd)
        motion = state.q, state.v, state.a
        torques = model.open.contributions(*motion, A=literal).sum(axis=0)
        truth = FreeBodies(numbers, u, ud, udd).torques
        np.testing.assert_allclose(model.inverse_dynamics(u, ud, udd), truth, **ROUNDING)
        worst = max(worst, np.max(np.abs(torques - truth)))
    assert worst > 40.0


def test_k8_sum_k_is_not_the_torque_of_a_motor_placed_elsewhere(parallelogram, rng):
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
        sum_k = parallelogram.contributions(u, ud, udd).sum(axis=0)
        tau = placed.inverse_dynamics(u, ud, udd)
        np.testing.assert_allclose(tau, [sum_k[0] + sum_k[1], sum_k[1]], **ROUNDING)
        worst = max(worst, np.max(np.abs(tau - sum_k)))
    assert worst > 30.0


@pytest.mark.parametrize(('name', 'numbers'), [('parallelogram', P), ('four_bar', GENERAL)])
def test_k9_a_shared_link_counts_once(request, name, numbers, rng):
    """Summed along both paths of the loop, link 2 would count twice."""
    model, worst = request.getfixturevalue(name), 0.0
    for u, ud, udd in states(rng):
        ours, truth = model.contributions(u, ud, udd), FreeBodies(numbers, u, ud, udd).torques
        np.testing.assert_allclose(ours.sum(axis=0), truth, rtol=1e-11, atol=1e-11)
        worst = max(worst, np.max(np.abs(ours.sum(axis=0) + ours[1] - truth)))
    assert worst > 40.0
