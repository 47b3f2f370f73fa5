# SPDX-License-Identifier: Apache-2.0
"""Exact derivatives over floats, high-precision numbers and symbols."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy

from robot_dynamics_ros.spatial.scalar import cos, jacobian, sin, sqrt, tanh

# A few roundings of quantities of order one.
ROUNDING = 1e-15


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


@pytest.mark.parametrize('scale', [1e-30, 1.0, 1e30])
def test_no_step_size_limits_the_range(scale):
    found = jacobian(lambda x: np.array([x[0] ** 3]), np.array([scale]))
    assert found[0, 0] == pytest.approx(3 * scale**2, rel=4e-16)
