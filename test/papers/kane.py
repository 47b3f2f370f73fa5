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
from oracles import PinocchioOracle
from samples import random_state, sample
from urdf_text import joint, link, robot, symmetric

from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.dynamics.kane import link_contributions
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
        ours = parallelogram.contributions(u, ud, udd)[1]
        right = np.array(published_contributions(P, u, ud, udd)[1], dtype=float)
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
    literal = ({0: 1}, {}, {1: 1}, {})
    worst = 0.0
    for u, ud, udd in states(rng):
        state = model.tree_state(u, ud, udd)
        torques = link_contributions(
            model.tree, state.q, state.v, state.a, None, literal, np.zeros((4, 2))
        ).sum(axis=0)
        truth = FreeBodies(numbers, u, ud, udd).torques
        np.testing.assert_allclose(model.inverse_dynamics(u, ud, udd), truth, **ROUNDING)
        worst = max(worst, np.max(np.abs(torques - truth)))
    assert worst > 40.0


def test_k5_link_2_would_turn_with_the_first_motor(parallelogram):
    """Omega_(2,1) is zero on the parallelogram; on the open chain it is k."""
    u, still = np.array([0.2, -0.1]), np.zeros(2)
    state = parallelogram.tree_state(u, still, still)
    turning = state.A[0] + state.A[1]  # rates of L2 by (theta_1, theta_1')
    assert turning.tolist() == [0.0, 1.0]


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


def left_tree(p):
    """Return the same linkage as a tree along the left path: L2 hangs on the rod at J3'."""
    quarter = math.pi / 2

    def bar(name, mass, x, z):
        return link(name, mass, (x, 0, 0), symmetric(z, z, z))

    urdf = robot(
        'left_path',
        link('world'),
        link('frame0'),
        bar('L1', p.m1, p.d1, p.I1z),
        bar('L1p', p.m1p, p.d1p, p.I1pz),
        bar('L2p', p.m2p, p.d2p, p.I2pz),
        # Frame of L3' at J3'; the centre of mass of L2 is l3' + d2 from it.
        bar('L2', p.m2, p.l3p + p.d2, p.I2z),
        link('J2_of_L1'),
        link('J2_of_L2'),
        joint('frame', 'world', 'frame0', 'fixed', rpy=(-quarter, -quarter, 0)),
        joint('theta1', 'frame0', 'L1'),
        joint('theta1p', 'frame0', 'L1p', rpy=(0, 0, -quarter)),
        joint('theta2p', 'L1p', 'L2p', xyz=(p.l1p, 0, 0), rpy=(0, 0, quarter), effort=0.0),
        joint('theta3p', 'L2p', 'L2', xyz=(p.l2p, 0, 0), rpy=(0, 0, quarter), effort=0.0),
        joint('end1', 'L1', 'J2_of_L1', 'fixed', xyz=(p.l1, 0, 0)),
        joint('end2', 'L2', 'J2_of_L2', 'fixed', xyz=(p.l3p, 0, 0)),
    )
    loops = (
        'loops: {J2: {frames: [J2_of_L1, J2_of_L2], position: xy}}\n'
        'coordinates: [theta1, theta1p]\n'
    )
    return make_formulation('kane', load_mechanism(urdf, loops))


@pytest.mark.parametrize(('name', 'numbers'), [('parallelogram', P), ('four_bar', GENERAL)])
def test_k9_shared_link_counts_once_on_either_path(request, name, numbers, rng):
    right, left = request.getfixturevalue(name), left_tree(numbers)
    shared_left = left.tree.link_names.index('L2')
    shared_right = right.tree.link_names.index('upper_arm')
    worst = 0.0
    for u, ud, udd in states(rng):
        by_right = right.contributions(u, ud, udd)
        by_left = left.contributions(u, ud, udd)
        np.testing.assert_allclose(
            by_left[shared_left], by_right[shared_right], rtol=1e-11, atol=1e-11
        )
        truth = FreeBodies(numbers, u, ud, udd).torques
        np.testing.assert_allclose(by_left.sum(axis=0), truth, rtol=1e-11, atol=1e-11)
        twice = by_right.sum(axis=0) + by_left[shared_left]
        worst = max(worst, np.max(np.abs(twice - truth)))
    assert worst > 40.0


def literal_efforts(tree, q, v, a, turn_after):
    """The paper's recursion on numbers; (f) with the cross product before or after the turn."""
    tau, motions, partials = np.zeros(tree.n), [], []
    for i, p in enumerate(tree.parent):
        (R_PB, l), k, d = tree.placement(i, q[i]), tree.axis[i], tree.com[i]
        R, zero = R_PB.T, np.zeros(3)
        w_p, dw_p, dv_p = motions[p] if p >= 0 else (zero, zero, -tree.gravity)
        dv = R @ (dv_p + np.cross(dw_p, l) + np.cross(w_p, np.cross(w_p, l)))
        w, dw = R @ w_p, R @ dw_p
        moved = partials[p] if p >= 0 else np.zeros((tree.n, 2, 3))
        moved = np.array([[R @ w_j, R @ (np.cross(w_j, l) + v_j)] for w_j, v_j in moved])
        moved[i, 1 if tree.prismatic[i] else 0] += k
        if tree.prismatic[i]:
            dv = dv + 2 * np.cross(w, v[i] * k) + a[i] * k
        else:
            turned = R @ np.cross(w_p, v[i] * k) if turn_after else np.cross(w, v[i] * k)
            w, dw = w + v[i] * k, dw + turned + a[i] * k
        motions.append((w, dw, dv))
        partials.append(moved)
        force = tree.mass[i] * (dv + np.cross(dw, d) + np.cross(w, np.cross(w, d)))
        moment = tree.inertia[i] @ dw + np.cross(w, tree.inertia[i] @ w)
        tau += [force @ (v_j + np.cross(w_j, d)) + moment @ w_j for w_j, v_j in moved]
    return tau


def test_k10_cross_product_before_the_rotation_is_wrong_in_space_only(parallelogram):
    """(f) read as R (omega x theta' k): unseen on planar arms as the paper's, wrong elsewhere."""
    rng = np.random.default_rng(10)
    arm, planar = sample('rrpr'), parallelogram.tree
    q, v, a = random_state(arm.tree, rng)
    truth = PinocchioOracle.of(arm).inverse_dynamics(q, v, a)
    spatial = make_formulation('kane', arm.tree)
    np.testing.assert_allclose(spatial.inverse_dynamics(q, v, a), truth, **ROUNDING)
    np.testing.assert_allclose(literal_efforts(arm.tree, q, v, a, False), truth, **ROUNDING)
    assert np.max(np.abs(literal_efforts(arm.tree, q, v, a, True) - truth)) > 0.1
    state = rng.normal(size=(3, planar.n))
    right = make_formulation('kane', planar).inverse_dynamics(*state)
    np.testing.assert_allclose(literal_efforts(planar, *state, True), right, **ROUNDING)
