# SPDX-License-Identifier: Apache-2.0
"""Linear equations over numbers and symbols have the solution of numpy and SymPy."""

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from numpy.testing import assert_allclose

from robot_dynamics_ros.spatial import linear_algebra as dense
from robot_dynamics_ros.spatial.linear_algebra import (
    determinant,
    real_values,
    solve,
    solve_positive_definite,
)
from robot_dynamics_ros.spatial.scalar import Dual


@pytest.mark.parametrize('function', [solve, solve_positive_definite])
@pytest.mark.parametrize('shape', [(4,), (4, 3)])
@pytest.mark.parametrize('dtype', [float, complex, object])
def test_solution_satisfies_the_equations_in_its_own_array(rng, function, shape, dtype):
    root, right = rng.normal(size=(4, 4)), rng.normal(size=shape).astype(dtype)
    matrix = (root if function is solve else root @ root.T + np.eye(4)).astype(dtype)
    for argument in (matrix, right):
        argument.setflags(write=False)
    x = function(matrix, right)
    assert (x.shape, x.dtype == float) == (shape, dtype is float)
    # Condition of a random matrix of four rows, below 1e3, times rounding.
    assert_allclose((matrix @ x).astype(complex), right.astype(complex), atol=1e-12)


@pytest.mark.parametrize('function', [solve, solve_positive_definite])
def test_high_precision_keeps_its_digits_and_symbols_are_exact(function):
    a, b, c, x, y = sp.symbols('a b c x y')
    matrix, right = np.array([[a, b], [b, c]]), np.array([x, y])
    expected = sp.Matrix(matrix).inv() * sp.Matrix(right)
    found = function(matrix, right)
    assert all(sp.simplify(f - e) == 0 for f, e in zip(found, expected, strict=True))
    with mp.workdps(50):
        matrix = np.array([[mp.mpf(3), mp.mpf(1) / 3], [mp.mpf(1) / 3, mp.mpf(2)]])
        z = function(matrix, np.array([mp.mpf(1), mp.mpf(1)]))
        assert max(abs(matrix @ z - 1)) < mp.mpf(10) ** -48


def test_a_zero_on_the_diagonal_does_no_harm():
    """Nor one among symbols, which are divided by the determinant alone."""
    matrix = np.array([[0, 1, 2], [1, 0, 3], [4, 5, 0]]) * mp.mpf(1)
    # The condition of the matrix, about 20, times rounding.
    found = solve(matrix, matrix @ [1, 2, 3])
    assert_allclose(found.astype(float), [1.0, 2.0, 3.0], rtol=1e-14)
    a, b, c, d = sp.symbols('a b c d')
    found = solve(np.array([[a, b], [c, d]]), np.array([5, 6], dtype=object))
    values = {a: 0, b: 2, c: 3, d: 4}
    assert [entry.subs(values) for entry in found] == [sp.Rational(-4, 3), sp.Rational(5, 2)]


def test_determinant_equals_numpy(rng):
    for n in (1, 2, 3, 5):
        matrix = rng.normal(size=(n, n))
        expected = pytest.approx(np.linalg.det(matrix), rel=1e-12)
        assert determinant(matrix.astype(object)) == expected


def test_a_determinant_of_independent_parts_takes_no_time_of_all_minors():
    """Twelve loops of two joints each, of whose columns there are 2^24 sets."""
    matrix, blocks = np.zeros((24, 24), dtype=int).astype(object), range(0, 24, 2)
    for k in blocks:
        matrix[k : k + 2, k : k + 2] = [[2.0, 1.0], [1.0, k + 1.0]]
    assert determinant(matrix) == pytest.approx(np.prod([2.0 * k + 1.0 for k in blocks]))
    assert determinant(np.zeros((24, 24), dtype=int).astype(object)) == 0


def test_real_values_are_those_of_numbers_and_none_of_symbols():
    mixed = [2, 1.5 + 3j, mp.mpf('0.25'), Dual(4.0, 1.0), sp.Rational(1, 2)]
    assert real_values(np.array(mixed, dtype=object)).tolist() == [2.0, 1.5, 0.25, 4.0, 0.5]
    assert real_values(np.array([1, sp.Symbol('x')], dtype=object)) is None


@pytest.mark.parametrize(('k', 'm'), [(1, 1), (4, 1), (4, 4), (7, 6)])
def test_jacobi_finds_the_singular_values_of_lapack(k, m, rng):
    hard = [np.zeros((k, m)), np.eye(k)[:, :m], np.ones((k, m))]
    nearly, graded, *usual = rng.normal(size=(12, k, m))
    nearly[:, -1] = nearly[:, 0] + 1e-13 * nearly[:, -1]
    graded *= 10.0 ** -np.arange(m)
    for matrix in (*hard, nearly, graded, *usual):
        B, V = (x.astype(float) for x in dense.singular_value_decomposition(matrix))
        lengths = np.linalg.svd(matrix, compute_uv=False)
        size = max(lengths[0], 1e-300)
        assert_allclose(np.sort(np.linalg.norm(B, axis=0))[::-1], lengths, atol=1e-14 * size)
        assert_allclose(V.T @ V, np.eye(m), atol=1e-14)
        assert_allclose(matrix @ V, B, atol=1e-14 * size)
        assert_allclose(np.triu(B.T @ B, 1), 0.0, atol=1e-14 * size**2)


def test_triangular_solves_and_factor_are_those_of_lapack(rng):
    root, right = rng.normal(size=(5, 5)), rng.normal(size=(5, 2))
    A = root @ root.T + np.eye(5)
    L = dense.cholesky(A).astype(float)
    assert_allclose(L, np.linalg.cholesky(A), atol=1e-14)
    found = dense.solve_upper(L, dense.solve_lower(L, right)).astype(float)
    assert_allclose(found, np.linalg.solve(A, right), atol=1e-13)
    assert dense.squared_norm(right) == pytest.approx(np.sum(right**2))
