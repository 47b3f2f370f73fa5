# SPDX-License-Identifier: Apache-2.0
"""The stabilizing effort as a pure function: every case of the inverse."""

import numpy as np
import pytest
import sympy
from numpy.testing import assert_allclose, assert_array_equal

from robot_dynamics_ros.constraints.damped_inverse import Singularity, TaskInverse
from robot_dynamics_ros.constraints.stabilization import (
    effort,
    gain_matrix,
    stabilizing_effort,
    task_acceleration,
)
from robot_dynamics_ros.control.laws.program_effort import largest_scale


def given(rng, m, n=4):
    """Return A, b, Gamma, beta, f, f_dot, G0, G1, v of a random case."""
    root = rng.normal(size=(n, n))
    A = root @ root.T + 0.5 * np.eye(n)
    gains = [x @ x.T + np.eye(m) for x in rng.normal(size=(2, m, m))]
    vectors = rng.normal(size=(3, m))
    return A, rng.normal(size=n), rng.normal(size=(m, n)), *vectors, *gains, rng.normal(size=n)


def test_the_commanded_acceleration_of_symbols_is_the_formula():
    """With gains that are symbols, to design them."""
    a, b, f, rate = sympy.symbols('a b f rate')
    gains = np.array([[a]]), np.array([[b]])
    assert task_acceleration([0.0], [f], [rate], *gains).tolist() == [-(b * rate + a * f)]


@pytest.mark.parametrize('inverse', ['euclidean', 'inertia', 'metric'])
@pytest.mark.parametrize('m', [1, 3, 4])
def test_effort_equals_the_formula_3_1_and_the_operational_space_form(m, inverse, rng):
    """Q_c = b - A {Gamma^+ [beta + G1 f_dot + G0 f] - (E - Gamma^+ Gamma) v}.

    With the inverse A^-1 Gamma^T D^-1 the null-space torque causes no task acceleration; with
    Gamma unity, Gamma^+ of any metric is E: computed torque. A metric replaces the inertia.
    """
    A, b, Gamma, beta, f, f_dot, G0, G1, v = case = given(rng, m)
    if m == 4:
        Gamma[:] = np.eye(4)
    metric = np.array([1.0, 1.0, 1e-3, 4.0])
    options, W = {
        'euclidean': ({}, np.eye(4)),
        'inertia': ({'inverse': 'inertia'}, np.linalg.inv(A)),
        'metric': ({'metric': metric, 'inverse': 'inertia'}, np.diag(1.0 / metric)),
    }[inverse]
    plus = W @ Gamma.T @ np.linalg.inv(Gamma @ W @ Gamma.T)
    acceleration = (np.eye(4) - plus @ Gamma) @ v - plus @ (beta + G1 @ f_dot + G0 @ f)
    found = stabilizing_effort(*case, **options)
    assert_allclose(found.acceleration, acceleration, rtol=1e-10, atol=1e-10)
    assert_allclose(found.effort, A @ acceleration + b, rtol=1e-10, atol=1e-10)
    assert_allclose(found.residual, 0.0, atol=1e-11)
    assert not found.damped


# ---- singular Jacobians -------------------------------------------------------------------------


def test_exactly_lost_rank_gives_a_bounded_answer_by_default(rng):
    A, b, Gamma, *rest = given(rng, 3)
    Gamma[2] = Gamma[0] - 2.0 * Gamma[1]
    found = stabilizing_effort(A, b, Gamma, *rest)
    assert np.all(np.isfinite(found.effort))
    assert found.damped
    assert found.sigma_min < 1e-15
    assert found.condition > 1e14
    nothing = stabilizing_effort(A, b, 0.0 * Gamma, *rest)
    assert_allclose(nothing.acceleration, rest[-1], atol=1e-12)
    assert nothing.condition == np.inf


@pytest.mark.parametrize('m', [2, 4, 6])
@pytest.mark.parametrize('scaled', ['none', 'metric', 'weights', 'both'])
@pytest.mark.parametrize('threshold', [1e-9, 0.3, 50.0])
def test_the_scaled_inverse_is_damped_in_the_unit_of_the_jacobian(m, scaled, threshold, rng):
    """From the singular values of R Gamma L^-T and their size relative to those of Gamma."""
    _, _, Gamma, *_ = given(rng, m)
    W = 9.0 * given(rng, m)[0] if scaled in ('metric', 'both') else None
    w = rng.uniform(0.5, 9.0, m) if scaled in ('weights', 'both') else None
    L = np.eye(4) if W is None else np.linalg.cholesky(W)
    R = np.eye(m) if w is None else np.diag(np.sqrt(w))
    S = R @ Gamma @ np.linalg.inv(L).T
    U, s, Vt = np.linalg.svd(S, full_matrices=False)
    unit = np.linalg.norm(S) / np.linalg.norm(Gamma)
    damping = unit * 0.2 * np.sqrt(np.maximum(1.0 - (s / (unit * threshold)) ** 2, 0.0))
    expected = np.linalg.inv(L).T @ Vt.T @ np.diag(s / (s**2 + damping**2)) @ U.T @ R
    inverse, tau = TaskInverse(Gamma, W, w, Singularity(threshold, 0.2)), rng.normal(size=(4, 4))
    assert_allclose(inverse.matrix(), expected, rtol=1e-9, atol=1e-11)
    assert_allclose(inverse.reactions(tau), expected.T @ tau, rtol=1e-9, atol=1e-11)
    assert inverse.damped == (s.min() < unit * threshold)
    assert inverse.sigma_min == pytest.approx(np.linalg.svd(Gamma)[1].min())


@pytest.mark.parametrize('m', [2, 4, 6])
@pytest.mark.parametrize('size', [1.0, 1e-14])
def test_the_projector_keeps_what_no_row_moves_in_any_unit_and_metric(m, size, rng):
    """Of rank 2; lost directions have singular values by rounding, those of 1e-14 are damped."""
    A, *_, v = given(rng, m)
    rows, v = rng.normal(size=(m, 2)) @ rng.normal(size=(2, 4)), np.outer(v, [1.0, -0.5])
    for W in (np.eye(4), A):
        back = np.linalg.solve(W, rows.T)
        expected = v - back @ np.linalg.pinv(rows @ back, 1e-10) @ rows @ v
        inverse = TaskInverse(size * rows, W)
        assert_allclose(inverse.project(v), expected, atol=1e-11)
        leaking = v - inverse.solve(size * rows @ v)
        assert (np.abs(leaking - expected).max() > 0.1) == (size < 1.0)


# ---- limits ------------------------------------------------------------------------


def test_the_largest_scale_reaches_a_limit_and_passes_none(rng):
    for _ in range(50):
        limit = rng.uniform(1.0, 5.0, 4)
        keep, task = limit * rng.uniform(-0.9, 0.9, 4), 10.0 * rng.normal(size=4)
        s = largest_scale(keep, task, limit)
        assert 0.0 <= s <= 1.0
        assert np.all(np.abs(keep + s * task) <= limit * (1 + 1e-12))
        assert s == 1.0 or np.any(np.abs(keep + s * task) >= limit * (1 - 1e-12))
    ones = np.ones(2)
    for keep, task, s in ((0, 0, 1.0), (2, 1, 0.0), (2, 0, 1.0), (2, -0.5, 1.0)):
        assert largest_scale(keep * ones, task * ones, ones) == s


def test_gains_may_be_numbers_diagonals_or_matrices():
    full = np.array([[1.0, 0.5], [0.0, 2.0]])
    for given, matrix in ((3.0, 3.0 * np.eye(2)), ([1.0, 2.0], np.diag([1.0, 2.0])), (full, full)):
        assert_array_equal(gain_matrix('G0', given, 2), matrix)


def test_an_effort_is_one_of_symbols_and_complex_numbers_too():
    assert_array_equal(effort(np.array([[3.0]]), [2.0], [1j]), [2.0 + 3j])
