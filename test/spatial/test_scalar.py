# SPDX-License-Identifier: Apache-2.0
"""Elementary functions and linear algebra over numbers and symbols alike."""

from __future__ import annotations

import cmath
import math

import mpmath
import numpy as np
import pytest
import sympy

from robot_dynamics_ros.spatial import scalar
from robot_dynamics_ros.spatial.linear_algebra import solve_positive_definite


class Traced:
    """A scalar of a tracer with its own functions."""

    def cos(self):
        return 'traced cos'


@pytest.mark.parametrize('name', ['cos', 'sin', 'sqrt', 'tanh'])
def test_a_function_finds_its_implementation_by_the_type_of_its_argument(name):
    function = getattr(scalar, name)
    assert function(0.7) == getattr(math, name)(0.7)
    assert function(1) == getattr(math, name)(1)
    assert function(np.float64(0.7)) == getattr(math, name)(0.7)
    assert function(0.7 + 0.2j) == getattr(cmath, name)(0.7 + 0.2j)
    assert function(np.complex128(0.7j)) == getattr(cmath, name)(0.7j)
    x = sympy.Symbol('x')
    assert function(x) == getattr(sympy, name)(x)
    with mpmath.workdps(30):
        assert function(mpmath.mpf('0.7')) == getattr(mpmath, name)(mpmath.mpf('0.7'))


def test_a_scalar_with_its_own_functions_is_asked_for_them():
    assert scalar.cos(Traced()) == 'traced cos'


def test_the_common_dtype_holds_all_arguments():
    f, c, o = np.zeros(1), np.zeros(1, complex), np.zeros(1, object)
    assert scalar.common_dtype(f, [1, 2]) == np.float64
    assert scalar.common_dtype(f, c) == np.complex128
    assert scalar.common_dtype(c, o) == np.dtype(object)
    assert scalar.common_dtype(np.zeros(1, np.int32)) == np.float64


def test_zeros_and_identities_of_objects_are_exact_integers():
    assert all(type(x) is int for x in scalar.zeros(3, object))
    assert all(type(x) is int for x in scalar.identity(2, object).ravel())
    assert scalar.identity(2, float).dtype == np.float64


def positive_definite(rng, n=5):
    A = rng.normal(size=(n, n))
    return A @ A.T + np.eye(n)


def test_solving_works_on_numbers_of_all_kinds(rng):
    M, right = positive_definite(rng), rng.normal(size=(5, 2))
    expected = np.linalg.inv(M) @ right
    for dtype in (float, complex, object):
        for b, x in ((right, expected), (right[:, 0], expected[:, 0])):
            found = solve_positive_definite(M.astype(dtype), b.astype(dtype))
            assert np.allclose(found.astype(complex), x, atol=1e-13)


def test_solving_leaves_its_arguments_alone(rng):
    M, b = positive_definite(rng).astype(object), rng.normal(size=5).astype(object)
    kept = M.copy(), b.copy()
    solve_positive_definite(M, b)
    assert np.array_equal(M, kept[0])
    assert np.array_equal(b, kept[1])


def test_solving_works_on_symbols():
    a, b, c, x, y = sympy.symbols('a b c x y')
    M = np.array([[a, b], [b, c]])
    found = solve_positive_definite(M, np.array([x, y]))
    expected = sympy.Matrix(M).inv() * sympy.Matrix([x, y])
    assert all(sympy.simplify(f - e) == 0 for f, e in zip(found, expected, strict=True))


def test_solving_keeps_high_precision():
    with mpmath.workdps(50):
        third = mpmath.mpf(1) / 3
        M = np.array([[mpmath.mpf(3), third], [third, mpmath.mpf(2)]])
        x = solve_positive_definite(M, np.array([mpmath.mpf(1), mpmath.mpf(1)]))
        assert abs(max(M @ x - 1, key=abs)) < mpmath.mpf(10) ** -48
