# SPDX-License-Identifier: Apache-2.0
"""Errata Z1 to Z22 of Zaremba 1990, kinematics and dynamics: printed fails, ours holds.

The truth is the complex step through the transforms, Pinocchio, or a closed answer. The stated
size of a failure belongs to other random chains of the same masses and lengths (kg, m), so here it
must reach a fifth of it. Z3, Z7, Z13 and Z22 concern letters only; Z2, Z12 and Z14
are harmless or correct.
"""

from itertools import product

import numpy as np
import pytest
from oracles import PinocchioOracle, complex_step
from samples import random_state, random_tree

from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.spatial.rotation import rotation_about
from robot_dynamics_ros.spatial.scalar import cross_matrix as skew
from robot_dynamics_ros.spatial.screw import force_cross, wrench_transform

# Products of up to a dozen 6x6 matrices with entries of order one to ten.
ROUNDING = 1e-11
GRAVITY = (2.3, -4.1, -8.6)


class Definition:
    """Transforms and axes of a chain by their definition; first derivatives by complex steps."""

    def __init__(self, tree, q, f) -> None:
        self.tree, self.q, self.f = tree, q, f

    def of(self, function, by):
        """Return a function of positions, or its derivative by the one of ``by``."""
        if not by:
            return function(self.q)
        return complex_step(function, self.q)[..., by[0]]

    def transform(self, i, k, q):
        L = np.eye(6)
        for t in range(i + 1, k + 1):
            L = L @ wrench_transform(*self.tree.placement(t, q[t]))
        return L

    def wrench_transform(self, i, k, by):
        return self.of(lambda q: self.transform(i, k, q), by)

    def inward(self, k, by):
        return self.of(lambda q: np.linalg.inv(self.transform(k - 1, k, q)), by)

    def l(self, k, i, by):  # noqa: E743
        return self.of(lambda q: self.transform(i, k, q).T @ self.f[i], by)

    def g(self, k, i, by):
        return self.of(lambda q: np.linalg.inv(self.transform(k, i, q)).T @ self.f[i], by)


class Chain:
    """A random chain in a random motion: the recursion, its geometry, definition, Pinocchio."""

    def __init__(self, rng, n) -> None:
        sample = random_tree(rng, n)
        self.tree, self.n = sample.tree.with_gravity(GRAVITY), n
        self.q, self.v, self.a = random_state(self.tree, rng)
        self.screw = make_formulation('screw', self.tree)
        self.x = self.screw.geometry(self.q)
        self.truth = Definition(self.tree, self.q, self.x.f)
        self.pinocchio = PinocchioOracle(sample.xml, GRAVITY, self.tree.joint_names)
        self.weightless = PinocchioOracle(sample.xml, (0, 0, 0), self.tree.joint_names)
        self.motion = self.x.twists(self.v, self.a, float)

    def velocity_derivative(self, k, vector, indices):
        """Return the rate of the sum of vector_k^i v_i, by the product rule."""
        n = self.n
        return sum(
            (
                vector(k, i, []) * self.a[i]
                + sum(vector(k, i, [s]) * self.v[s] * self.v[i] for s in range(n))
                for i in indices
            ),
            np.zeros(6),
        )


PROOFS = {}


def proof(evidence, least=2, most=6):
    """Register a proof: of a chain of so many joints, it yields printed form, ours and truth.

    Args:
        evidence: The stated error of the printed form; None if it is minus the truth.
        least: Number of joints that it needs.
        most: Number of joints up to which it is evaluated.
    """

    def register(function):
        PROOFS[function.__name__] = function, evidence, least, most
        return function

    return register


@proof(1.0)
def z1_the_rate_of_a_transform_holds_the_velocity_not_its_derivative(c):
    for k in range(c.n):
        L = c.truth.wrench_transform(-1, k, [])
        rate = sum(c.truth.wrench_transform(-1, k, [t]) * c.v[t] for t in range(c.n))
        V, dV = c.motion.V[k], c.motion.dV[k]
        yield L @ force_cross(np.concatenate([dV[:3], V[3:]])), L @ force_cross(V), rate


@proof(1.0)
def z1_a_velocity_holds_rates_not_coordinates(c):
    k = c.n - 1
    printed = sum(c.x.l[k, i] * c.q[i] for i in range(c.n))
    yield printed, c.motion.V[k], sum(c.truth.l(k, i, []) * c.v[i] for i in range(c.n))


@proof(2.7)
def z4_accelerations_stand_outside_the_inner_sum_of_1_9(c):
    k, l = c.n - 1, c.x.l[c.n - 1]
    cross_terms = sum(
        force_cross(l[s]).T @ l[i] * c.v[i] * c.v[s] for i in range(c.n) for s in range(i + 1, c.n)
    )
    truth = c.velocity_derivative(k, c.truth.l, range(c.n))
    printed = sum(l[i] * c.a[i] * (k - i) for i in range(c.n)) + cross_terms
    yield printed, sum(l[i] * c.a[i] for i in range(c.n)) + cross_terms, truth
    yield printed, c.motion.dV[k], truth


@proof(None)
def z5_the_outward_acceleration_of_1_9_has_a_minus_sign(c):
    g, outer = c.x.g[0], range(1, c.n)
    sums = np.zeros(6)
    for i in outer:
        sums += g[i] * c.a[i]
        sums -= sum((force_cross(g[s]).T @ g[i] * c.v[i] * c.v[s] for s in range(1, i)), 0 * sums)
    yield sums, -sums, -c.velocity_derivative(0, c.truth.g, outer)


@proof(None)
def z6_mixed_superscripts_turn_the_sign_of_a_derivative(c):
    k, l, g = c.n - 1, c.x.l[c.n - 1], c.x.g[0]
    yield force_cross(l[0]).T @ l[k], force_cross(l[k]).T @ l[0], c.truth.l(k, 0, [k])
    if c.n > 2:
        yield -force_cross(g[k]).T @ g[1], -force_cross(g[1]).T @ g[k], c.truth.g(0, k, [1])


@proof(1.0, least=3)
def z8_one_index_outside_the_range_is_enough_for_zero(c):
    """Read as "zero if all indices are outside", the formula would be used here."""
    k, l = c.n - 1, c.x.l[c.n - 1]
    formula = force_cross(l[k]).T @ force_cross(l[0]).T @ l[1]
    yield formula, c.x.l_derivative(k, 1, [0, k]), 0.0


@proof(1.7)
def z9_formula_1_20_holds_for_the_frame_of_the_joint_alone(c):
    rate, own = c.truth.inward(0, [0]), force_cross(c.x.f[0])
    further = np.linalg.inv(c.truth.wrench_transform(0, c.n - 1, []))
    printed = -own @ further @ c.truth.inward(0, [])
    yield printed, further @ (-own @ c.truth.inward(0, [])), further @ rate


@proof(0.90)
def z10_the_axis_of_an_outer_joint_does_not_depend_on_the_coordinate_of_its_viewer(c):
    printed = -force_cross(c.x.g[0, 0]).T @ c.x.g[0, c.n - 1]
    yield printed, c.x.g_derivative(0, c.n - 1, [0]), 0.0


@proof(0.5)
def z11_the_tensor_of_2_2_is_about_the_origin_of_the_frame(c):
    printed = np.zeros((c.n, c.n))
    for k in range(c.n):
        shift, r = np.zeros((6, 6)), skew(c.tree.com[k])
        shift[3:, 3:] = -c.tree.mass[k] * r @ r
        printed += c.x.l[k] @ (c.x.inertia[k] - shift) @ c.x.l[k].T
    yield printed, c.screw.mass_matrix(c.q), c.pinocchio.mass_matrix(c.q)


@proof(9.0)
def z15_the_composite_inertia_does_not_depend_on_its_own_joint(c):
    for i in range(c.n):
        half = force_cross(c.x.g[i, i]) @ c.x.composite[i]
        yield half + half.T, c.x.composite_derivative(i, [i]), 0.0


def rows_of_2_14(c, i, s, j, as_printed=False):
    """Return the twelve terms of (2.14), a row for each of the three derivatives."""
    x, f = c.x, c.x.f

    def row(sign, a, b, t, printed_column):
        """Return the derivative of a_ab by q_t, term by term, from (2.9)."""
        column = printed_column if as_printed else (a, b)
        Theta_a, dTheta_a = x.composite[a], x.composite_derivative(a, [t])
        Theta_b, dTheta_b = x.composite[b], x.composite_derivative(b, [t])
        return [
            sign * (f[a] @ Theta_a @ x.l_derivative(*column, [t])),
            sign * (f[a] @ dTheta_a @ x.l_derivative(*column)),
            sign * (x.l_derivative(b, a, [t]) @ Theta_b @ f[b]) * (a != b),
            sign * (x.l_derivative(b, a) @ dTheta_b @ f[b]) * (a != b),
        ]

    return [row(1, i, j, s, (j, j)), row(1, i, s, j, (s, s)), row(-1, s, j, i, (j, j))]


@proof(7.5, most=4)
def z16_the_symbols_2_14_hold_the_columns_in_the_axes_of_the_inertia(c):
    """Z17: at most two of the twelve terms differ from zero, one of a row."""
    d = c.screw.christoffel_symbols(c.q)
    slope = np.moveaxis(complex_step(c.screw.mass_matrix, c.q), -1, 0)
    for i, s, j in product(range(c.n), repeat=3):
        rows, truth = np.array(rows_of_2_14(c, i, s, j)), slope[s, i, j] + slope[j, i, s]
        assert np.all(np.count_nonzero(rows, axis=1) <= 1)
        assert np.count_nonzero(rows) <= 2
        printed = np.sum(rows_of_2_14(c, i, s, j, as_printed=True)) / 2
        for ours in (d[i, s, j], np.sum(rows) / 2):
            yield printed, ours, (truth - slope[i, s, j]) / 2


@proof(9.4)
def z19_the_velocity_coefficient_of_4_2_has_no_factor_one_half(c):
    truth = c.pinocchio.derivatives(c.q, c.v, c.a)[1]
    half = c.screw.christoffel_symbols(c.q) @ c.v
    yield half, 2 * half, truth
    yield half, c.screw.derivatives(c.q, c.v, c.a).dtau_dv, truth


def velocity_part_of_4_2(c, i, j, lost_superscript=False):
    """Return the double sum of the paper's own form of the derivative of b by q."""
    x, f = c.x, c.x.f

    def product_rule(at, column, by):
        """Return a second derivative of the inertia of `at` times one of its columns."""
        s, t = by
        return sum(
            x.composite_derivative(at, left) @ x.l_derivative(*column, right)
            for left, right in (((s, t), ()), ((s,), (t,)), ((t,), (s,)), ((), (s, t)))
        )

    def single(t, a, s):
        """Return [l_t^{aT} (Theta_t)^s]^j f^t, or without the superscript j."""
        if lost_superscript:
            return x.l_derivative(t, a) @ x.composite_derivative(t, [s]) @ f[t]
        return (
            x.l_derivative(t, a, [j]) @ x.composite_derivative(t, [s])
            + x.l_derivative(t, a) @ x.composite_derivative(t, [s, j])
        ) @ f[t]

    total = 0.0
    for s, t in product(range(c.n), repeat=2):
        term = f[i] @ product_rule(i, (i, t), (s, j))
        term += product_rule(t, (t, i), (s, j)) @ f[t]
        term -= single(t, i, s) * (i == t)
        term -= f[s] @ product_rule(s, (s, t), (i, j))
        term += single(t, s, i) / 2 * (t == s)
        total += term * c.v[s] * c.v[t]
    return total


@proof(1.0, most=4)
def z20_the_position_coefficient_of_4_2_holds_second_derivatives(c):
    truth = c.weightless.derivatives(c.q, c.v, np.zeros(c.n))[0]
    for i, j in product(range(c.n), repeat=2):
        printed = velocity_part_of_4_2(c, i, j, lost_superscript=True)
        yield printed, velocity_part_of_4_2(c, i, j), truth[i, j]


@proof(66)
def z21_the_force_term_of_4_2_holds_the_change_of_the_forces(c):
    """Printed: the sum of (l_k^{iT})^j F_gk^k, as if the forces did not turn."""
    still, n = np.zeros(c.n), range(c.n)
    F = [c.x.inertia[k] @ c.x.l0[k] for k in n]
    printed = [[-sum(c.truth.l(k, i, [j]) @ F[k] for k in n) for j in n] for i in n]
    ours = c.screw.derivatives(c.q, still, still).dtau_dq
    yield np.array(printed), ours, c.pinocchio.derivatives(c.q, still, still)[0]


@pytest.fixture(scope='module')
def chains():
    """Return 25 chains of 2 to 6 joints, turning and sliding."""
    rng = np.random.default_rng(1990)
    return [Chain(rng, n) for n in (2, 3, 4, 5, 6) for _ in range(5)]


@pytest.mark.parametrize('name', PROOFS)
def test_the_printed_form_fails_and_ours_holds(chains, name):
    function, evidence, least, most = PROOFS[name]
    found = [x for c in chains if least <= c.n <= most for x in function(c)]
    assert max(np.max(np.abs(ours - truth)) for _, ours, truth in found) < ROUNDING
    if evidence is None:
        assert max(np.max(np.abs(printed + truth)) for printed, _, truth in found) < ROUNDING
        evidence = 0.05
    assert max(np.max(np.abs(printed - truth)) for printed, _, truth in found) > evidence / 5


def test_z18_the_variable_rotation_must_be_the_last_one():
    """Axis number 4 read literally, with constant angles: C_1(q) C_2(theta_2) C_3(theta_3)."""
    e1, e2, e3 = np.eye(3)
    tilt = rotation_about(e2, 0.7) @ rotation_about(e3, -0.5)
    constant = rotation_about(e1, 1.1) @ tilt
    for C, wrong in (
        (lambda q: rotation_about(e1, q[0]) @ tilt, True),
        (lambda q: constant @ rotation_about(e1, q[0]), False),
    ):
        at = np.array([0.4])
        W = C(at).T @ complex_step(C, at)[..., 0]  # of the angular velocity in body axes
        error = abs(np.array([W[2, 1], W[0, 2], W[1, 0]]) - e1).max()
        assert error > 0.3 if wrong else error < ROUNDING
