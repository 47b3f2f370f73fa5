# SPDX-License-Identifier: Apache-2.0
"""Elementary functions, decisions and derivatives over numbers and symbols alike."""

import cmath
import math

import mpmath
import numpy as np
import pytest
import sympy
from special_floats import PAIRS, same_bits

from robot_dynamics_ros.spatial import scalar
from robot_dynamics_ros.spatial.scalar import cos, jacobian, sin, sqrt, tanh


class Traced:
    """A scalar of a tracer with its own functions."""

    def cos(self):
        return 'traced cos'


@pytest.mark.parametrize('name', ['cos', 'sin', 'sqrt', 'tanh'])
def test_a_function_finds_its_implementation_by_the_type_of_its_argument(name):
    for library, x in (
        (math, 0.7),
        (math, np.float64(0.7)),
        (cmath, 0.7 + 0.2j),
        (cmath, np.complex128(0.7j)),
        (sympy, sympy.Symbol('x')),
        (mpmath, mpmath.mpf('0.7')),
    ):
        assert getattr(scalar, name)(x) == getattr(library, name)(x)
    assert cos(Traced()) == 'traced cos'


def test_the_common_dtype_holds_all_arguments_and_integers_of_objects_are_exact():
    f, c, o = (np.zeros(1, kind) for kind in (np.int32, complex, object))
    found = [scalar.common_dtype(*x) for x in ((f, [1, 2]), (f, c), (c, o))]
    assert found == [np.float64, np.complex128, np.dtype(object)]
    exact = *scalar.zeros(3, object), *scalar.identity(2, object).ravel()
    assert {type(x) for x in exact} == {int}
    assert scalar.identity(2, float).dtype == np.float64


def test_minimum_and_maximum_are_the_smaller_and_the_larger_and_nan_goes_through():
    for x, y in PAIRS.tolist():
        found = np.array([scalar.minimum(x, y), scalar.maximum(x, y)])
        # Of equal ones the second, so of two zeros: numpy leaves that case open.
        wanted = (y, y) if x == y else (np.minimum(x, y), np.maximum(x, y))
        same_bits(found, np.array(wanted))


def test_select_decides_by_the_first_two_and_knows_no_order_of_nan():
    chosen = [scalar.select(x, 2.0, 'below', 'not') for x in (1.0, 2.0, 3.0)]
    assert chosen == ['below', 'not', 'not']
    several = scalar.select(np.array([1.0, 3.0]), 2.0, math.nan, np.array([6.0, 7.0]))
    np.testing.assert_array_equal(several, [math.nan, 7.0])
    unordered = [scalar.select(*x, 1.0, 1.0) for x in ((math.nan, 2.0), (2.0, math.nan))]
    assert np.isnan(unordered).all()
    assert [scalar.positive_part(x) for x in (-2.0, 0.0, 3.0)] == [0.0, 0.0, 3.0]


# ---- derivatives by dual numbers ---------------------------------------------------------------


def every_operation(x):
    a, b = x
    return np.array(
        [
            [sin(a) * cos(b) + 3 * a - b * 2, 1 - a / b + 2 / a],
            [tanh(a * b) - (-a), sqrt(a * a + b**2) + b**3],
        ]
    )


def every_derivative(a, b):
    """Differentiate every_operation by hand."""
    slope, root = 1 - tanh(a * b) ** 2, sqrt(a * a + b * b)
    return np.array(
        [
            [[cos(a) * cos(b) + 3, -sin(a) * sin(b) - 2], [-1 / b - 2 / a**2, a / b**2]],
            [[slope * b + 1, slope * a], [a / root, b / root + 3 * b**2]],
        ]
    )


@pytest.mark.parametrize(
    ('a', 'b', 'error'),  # some roundings of quantities below ten
    [(0.7, 1.3, 1e-14), (0.7 + 0.2j, 1.3 - 0.4j, 2e-14), ('0.7', '1.3', 1e-48)],
    ids=['floats', 'complex numbers', 'fifty digits'],
)
def test_the_jacobian_of_numbers_is_exact_to_rounding(a, b, error):
    with mpmath.workdps(50):
        at = np.array([mpmath.mpf(x) if isinstance(x, str) else x for x in (a, b)])
        found = jacobian(every_operation, at)
        assert (found.dtype == np.float64) == isinstance(a, float)
        assert abs(found - every_derivative(*at)).max() < error


def test_the_jacobian_of_symbols_is_the_symbolic_derivative():
    at = np.array(sympy.symbols('a b', positive=True), dtype=object)
    found = jacobian(every_operation, at) - every_derivative(*at)
    assert all(sympy.simplify(entry) == 0 for entry in found.flat)


def test_arrays_and_constants_mix_with_the_scalars_of_a_derivative():
    def function(x):
        return np.array([*(x[0] * np.array([1.0, 2.0])), *(np.array([3.0]) * x[1]), 5])

    found = jacobian(function, np.array([mpmath.mpf(1), mpmath.mpf(2)]))
    assert found.tolist() == [[1, 0], [2, 0], [0, 3], [0, 0]]
