# SPDX-License-Identifier: Apache-2.0
"""Errata Z1 to Z10 of Zaremba 1990, kinematics: the text as printed fails, ours holds.

The reference is the plain product rule over the joints. The stated size
of a failure belongs to other random chains of the same masses and lengths (kg, m), so here it
must reach a fifth of it. Z3 and Z7 concern letters only and have nothing to compute.
"""

from __future__ import annotations

import numpy as np
import pytest
from screw_chains import fails_as_stated, holds, largest, random_chains

from robot_dynamics_ros.spatial.screw import bracket


@pytest.fixture(scope='module')
def chains():
    """Return 25 chains of 2 to 6 joints, turning and sliding."""
    return random_chains()


def test_z1_the_rate_of_a_transform_holds_the_velocity_not_its_derivative(chains):
    printed, corrected = [], []
    for c in chains:
        motion = c.x.twists(c.v, c.a, float)
        for k in range(c.n):
            L = c.truth.wrench_transform(-1, k, [])
            rate = sum(c.truth.wrench_transform(-1, k, [t]) * c.v[t] for t in range(c.n))
            V, dV = motion.V[k], motion.dV[k]
            corrected.append(L @ bracket(V) - rate)
            printed.append(L @ bracket(np.concatenate([dV[:3], V[3:]])) - rate)
    fails_as_stated(printed, 1.0)
    holds(corrected)


def test_z1_a_velocity_holds_rates_not_coordinates(chains):
    corrected, printed = [], []
    for c in chains:
        k = c.n - 1
        V = c.x.twists(c.v, c.a, float).V[k]
        truth = sum(c.truth.l(k, i, []) * c.v[i] for i in range(c.n))
        corrected.append(V - truth)
        printed.append(sum(c.x.l[k, i] * c.q[i] for i in range(c.n)) - truth)
    fails_as_stated(printed, 1.0)
    holds(corrected)


def test_z2_the_extra_term_of_1_3_is_zero_and_the_reverse_relation_holds(chains):
    extra, reverse = [], []
    for c in chains:
        inner, outer = 0, c.n - 1
        between = range(inner + 1, outer + 1)
        V_outer = sum(c.x.l[outer, s] * c.v[s] for s in between)
        V_inner = -sum(c.x.g[inner, s] * c.v[s] for s in between)
        seen = c.truth.wrench_transform(inner, outer, []).T @ V_inner
        reverse.append(V_outer + seen)
        extra.append(bracket(V_outer).T @ seen)
        rate_outer = c.velocity_derivative(outer, c.truth.l, between)
        rate_inner = -c.velocity_derivative(inner, c.truth.g, between)
        reverse.append(rate_outer + c.truth.wrench_transform(inner, outer, []).T @ rate_inner)
    holds(extra)
    holds(reverse)


def test_z4_accelerations_stand_outside_the_inner_sum_of_1_9(chains):
    printed, corrected = [], []
    for c in chains:
        k, l = c.n - 1, c.x.l[c.n - 1]
        truth = c.velocity_derivative(k, c.truth.l, range(c.n))
        cross_terms = sum(
            bracket(l[s]).T @ l[i] * c.v[i] * c.v[s] for i in range(c.n) for s in range(i + 1, c.n)
        )
        corrected.append(sum(l[i] * c.a[i] for i in range(c.n)) + cross_terms - truth)
        printed.append(sum(l[i] * c.a[i] * (k - i) for i in range(c.n)) + cross_terms - truth)
        corrected.append(c.x.twists(c.v, c.a, float).dV[k] - truth)
    fails_as_stated(printed, 2.7)
    holds(corrected)


def test_z5_the_outward_acceleration_of_1_9_has_a_minus_sign(chains):
    printed, corrected = [], []
    for c in chains:
        g, outer = c.x.g[0], range(1, c.n)
        truth = -c.velocity_derivative(0, c.truth.g, outer)
        sums = sum(
            g[i] * c.a[i]
            - sum((bracket(g[s]).T @ g[i] * c.v[i] * c.v[s] for s in range(1, i)), np.zeros(6))
            for i in outer
        )
        corrected.append(-sums - truth)
        printed.append(sums + truth)
        assert largest([truth]) > 0.01
    holds(corrected)
    # Printed is exactly minus the truth.
    holds(printed)


def test_z6_mixed_superscripts_turn_the_sign_of_a_derivative(chains):
    printed, corrected = [], []
    for c in chains:
        k, i, t = c.n - 1, 0, c.n - 1
        truth = c.truth.l(k, i, [t])
        corrected.append(bracket(c.x.l[k, t]).T @ c.x.l[k, i] - truth)
        printed.append(bracket(c.x.l[k, i]).T @ c.x.l[k, t] + truth)
        if c.n > 2:
            g, s = c.x.g[0], 1
            truth = c.truth.g(0, k, [s])
            corrected.append(-bracket(g[s]).T @ g[k] - truth)
            printed.append(-bracket(g[k]).T @ g[s] + truth)
    holds(corrected)
    # Exchanged superscripts give exactly minus the truth.
    holds(printed)


def test_z8_one_index_outside_the_range_is_enough_for_zero(chains):
    printed, corrected = [], []
    for c in (c for c in chains if c.n > 2):
        k, i = c.n - 1, 1
        outside, inside = 0, k
        truth = c.truth.l(k, i, [outside, inside])
        corrected.append(c.x.l_derivative(k, i, [outside, inside]) - truth)
        formula = bracket(c.x.l[k, inside]).T @ bracket(c.x.l[k, outside]).T @ c.x.l[k, i]
        printed.append(formula - truth)
    # Read as "zero if all indices are outside", the formula would be used here.
    fails_as_stated(printed, 1.0)
    assert largest(corrected) == 0.0


def test_z9_formula_1_20_holds_for_the_frame_of_the_joint_alone(chains):
    printed, corrected = [], []
    for c in chains:
        t, f = 0, c.truth.f[0]
        corrected.append(c.truth.inward(t, 1) + bracket(f) @ c.truth.inward(t, 0))
        further = np.linalg.inv(c.truth.wrench_transform(t, c.n - 1, []))
        truth = further @ c.truth.inward(t, 1)
        printed.append(-bracket(f) @ further @ c.truth.inward(t, 0) - truth)
    fails_as_stated(printed, 1.7)
    holds(corrected)


def test_z10_the_axis_of_an_outer_joint_does_not_depend_on_the_coordinate_of_its_viewer(chains):
    printed, corrected = [], []
    for c in chains:
        k, i = 0, c.n - 1
        truth = c.truth.g(k, i, [k])
        assert not truth.any()
        printed.append(-bracket(c.x.g[k, k]).T @ c.x.g[k, i] - truth)
        corrected.append(c.x.g_derivative(k, i, [k]) - truth)
    fails_as_stated(printed, 0.90)
    assert largest(corrected) == 0.0
