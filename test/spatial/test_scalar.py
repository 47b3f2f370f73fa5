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
from robot_dynamics_ros.spatial.scalar import cos, jacobian, sin, sqrt, tanh


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
            assert found.dtype == (float if dtype is float else object)


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


# Every class of float, both zeros, neighbours, and non-finite numbers.
SPECIAL = (math.nan, -math.inf, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1.0 + 2**-52, math.inf)


def bits(x):
    """Return floats as whole numbers, all NaN the same."""
    return np.where(np.isnan(x), np.nan, x).view(np.int64)


def test_minimum_and_maximum_are_the_smaller_and_the_larger_and_nan_goes_through():
    for x in SPECIAL:
        for y in SPECIAL:
            found = bits(np.array([scalar.minimum(x, y), scalar.maximum(x, y)]))
            # Of equal ones the second, so of two zeros: numpy leaves that case open.
            wanted = (y, y) if x == y else (np.minimum(x, y), np.maximum(x, y))
            np.testing.assert_array_equal(found, bits(np.array(wanted)))


def test_select_decides_by_the_first_two_and_knows_no_order_of_nan():
    assert [scalar.select(x, 2.0, 'below', 'not') for x in (1.0, 2.0, 3.0)] == [
        'below',
        *2 * ['not'],
    ]
    several = scalar.select(np.array([1.0, 3.0]), 2.0, math.nan, np.array([6.0, 7.0]))
    np.testing.assert_array_equal(several, [math.nan, 7.0])
    assert math.isnan(scalar.select(math.nan, 2.0, 1.0, 1.0))
    assert math.isnan(scalar.select(2.0, math.nan, 1.0, 1.0))
    assert [scalar.positive_part(x) for x in (-2.0, 0.0, 3.0)] == [0.0, 0.0, 3.0]
    assert scalar.cos.__name__ == 'cos'


# ---- derivatives by dual numbers ---------------------------------------------------------------

ROUNDING = 1e-15  # a few roundings of quantities of order one


def every_operation(x):
    a, b = x
    return np.array(
        [
            [sin(a) * cos(b) + 3 * a - b * 2, 1 - a / b + 2 / a],
            [tanh(a * b) - (-a), sqrt(a * a + b**2) + b**3],
        ]
    )


def every_derivative(a, b, sin, cos, tanh, sqrt):
    """Differentiate every_operation by hand."""
    slope = 1 - tanh(a * b) ** 2
    root = sqrt(a * a + b * b)
    return np.array(
        [
            [[cos(a) * cos(b) + 3, -sin(a) * sin(b) - 2], [-1 / b - 2 / a**2, a / b**2]],
            [[slope * b + 1, slope * a], [a / root, b / root + 3 * b**2]],
        ]
    )


def test_the_jacobian_of_floats_is_exact_to_rounding():
    a, b = 0.7, 1.3
    expected = every_derivative(a, b, np.sin, np.cos, np.tanh, np.sqrt)
    found = jacobian(every_operation, np.array([a, b]))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=10 * ROUNDING, atol=ROUNDING)


def test_the_jacobian_of_high_precision_numbers_keeps_their_digits():
    with mpmath.workdps(50):
        a, b = mpmath.mpf('0.7'), mpmath.mpf('1.3')
        expected = every_derivative(a, b, mpmath.sin, mpmath.cos, mpmath.tanh, mpmath.sqrt)
        found = jacobian(every_operation, np.array([a, b], dtype=object))
        assert abs(found - expected).max() < mpmath.mpf(10) ** -48


def test_the_jacobian_of_complex_numbers_is_the_complex_derivative():
    a, b = 0.7 + 0.2j, 1.3 - 0.4j
    expected = every_derivative(a, b, np.sin, np.cos, np.tanh, np.sqrt)
    found = jacobian(every_operation, np.array([a, b]))
    np.testing.assert_allclose(
        found.astype(complex), expected, rtol=100 * ROUNDING, atol=10 * ROUNDING
    )


def test_the_jacobian_of_symbols_is_the_symbolic_derivative():
    a, b = sympy.symbols('a b', positive=True)
    found = jacobian(every_operation, np.array([a, b], dtype=object))
    entries = every_operation(np.array([a, b], dtype=object))
    for index, entry in np.ndenumerate(entries):
        for j, symbol in enumerate((a, b)):
            assert sympy.simplify(found[(*index, j)] - sympy.diff(entry, symbol)) == 0


def test_arrays_and_constants_mix_with_the_scalars_of_a_derivative():
    def function(x):
        return np.array([*(x[0] * np.array([1.0, 2.0])), *(np.array([3.0, 4.0]) * x[1]), 5])

    found = jacobian(function, np.array([mpmath.mpf(1), mpmath.mpf(2)], dtype=object))
    assert found.tolist() == [[1, 0], [2, 0], [0, 3], [0, 4], [0, 0]]
