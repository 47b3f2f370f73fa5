# SPDX-License-Identifier: Apache-2.0
"""Traced scalars as Fourier sums with polynomial coefficients, and as short expressions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from robot_dynamics_ros.spatial.rotation import rotation_about
from robot_dynamics_ros.spatial.scalar import cos, sin
from robot_dynamics_ros.symbolic import closed_form
from robot_dynamics_ros.symbolic.trace import Trace, Traced

ALGEBRA, TRACE = closed_form.Algebra(['a', 'b', 'd'], ['x', 'y']), Trace()
A, B, D, X, Y = (TRACE.symbol(name) for name in 'abdxy')
VALUES = {'a': 0.7, 'b': -1.9, 'd': 2.3, 'x': 1.25, 'y': -0.5}
QUARTER = math.pi / 2


def polynomial(scalar):
    return ALGEBRA.polynomials([scalar]).get(scalar, scalar)


def waves(scalar):
    """Return the numbers that are not zero, by monomial and wave."""
    found = ALGEBRA.waves(polynomial(scalar)) if isinstance(scalar, Traced) else {}
    numbers = {(power, wave): x for power, group in found.items() for wave, x in group.items()}
    return {place: x for place, x in numbers.items() if x}


def expression(scalar):
    return closed_form.expression(ALGEBRA, polynomial(scalar))


def number(scalar) -> float:
    """Evaluate a scalar by its definition, the sum of waves."""
    if not isinstance(scalar, Traced):
        return float(scalar)
    total = 0.0
    for ((x, y), (kind, wave)), factor in waves(scalar).items():
        angle = sum(k * VALUES[name] for k, name in zip(wave, ALGEBRA.angles, strict=True))
        total += float(factor) * VALUES['x'] ** x * VALUES['y'] ** y * getattr(math, kind)(angle)
    return total


LEAVES = {
    'cos a': (A.cos(), math.cos(VALUES['a'])),
    'sin b': (B.sin(), math.sin(VALUES['b'])),
    'cos d': (D.cos(), math.cos(VALUES['d'])),
    'sin(a+b)': ((A + B).sin(), math.sin(VALUES['a'] + VALUES['b'])),
    'x': (X, VALUES['x']),
    'y': (Y, VALUES['y']),
    '2': (2, 2.0),
    '1/2': (0.5, 0.5),
}
EXPRESSIONS = st.recursive(
    st.sampled_from(sorted(LEAVES)),
    lambda inner: st.tuples(st.sampled_from('+-*'), inner, inner),
    max_leaves=10,
)


def pair(tree):
    """Return a random expression as a scalar, and its value by plain arithmetic."""
    if isinstance(tree, str):
        return LEAVES[tree]
    (one, u), (other, w) = pair(tree[1]), pair(tree[2])
    return {
        '+': lambda: (one + other, u + w),
        '-': lambda: (one - other, u - w),
        '*': lambda: (one * other, u * w),
    }[tree[0]]()


# Ten factors of at most 2.3: sums of numbers below some thousand, rounded at 1e-13.
@given(EXPRESSIONS)
def test_arithmetic_and_short_expressions_keep_the_value(tree):
    scalar, value = pair(tree)
    assert number(scalar) == pytest.approx(value, rel=1e-10, abs=1e-10)
    found = expression(scalar).subs({sp.Symbol(name): x for name, x in VALUES.items()})
    assert float(found) == pytest.approx(value, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize(
    ('one', 'other'),
    [
        ((A + B).cos(), A.cos() * B.cos() - A.sin() * B.sin()),
        ((A - B).sin(), A.sin() * B.cos() - A.cos() * B.sin()),
        (A.cos() ** 2 + A.sin() ** 2 + X, 1 + X),
        ((X + Y) * (X - Y), X * X - Y * Y),
        ((-A).sin(), -A.sin()),
        ((B - A).cos(), (A - B).cos()),
    ],
)
def test_equal_scalars_have_the_same_waves(one, other):
    assert waves(one) == waves(other) != waves(A.cos())
    assert waves(one - other) == {}


@pytest.mark.parametrize('quarters', range(-3, 6))
def test_quarter_turns_are_exact(quarters):
    turned = A + quarters * QUARTER
    angle = VALUES['a'] + quarters * QUARTER
    assert number(cos(turned)) == pytest.approx(math.cos(angle), abs=1e-15)
    assert number(sin(turned)) == pytest.approx(math.sin(angle), abs=1e-15)
    assert len(waves(sin(turned))) == 1


def test_angles_without_a_sine_in_closed_form_are_refused():
    for angle in (A * X, A + 0.3, 0.5 * A, X + A):
        with pytest.raises(TypeError, match='no sum of multiples of angles'):
            polynomial(sin(angle))


def test_a_rotation_times_its_transpose_is_the_identity():
    R = rotation_about(np.array([0, 0, 1]), A)
    product = R @ R.T
    found = [[str(expression(product[i, j])) for j in range(3)] for i in range(3)]
    assert found == [['1', '0', '0'], ['0', '1', '0'], ['0', '0', '1']]


@pytest.mark.parametrize(
    ('scalar', 'written'),
    [
        ((A + B).cos() + (A - B).cos(), '2*cos(a)*cos(b)'),
        ((A + B).cos() - (A - B).cos(), '-2*sin(a)*sin(b)'),
        ((A + B).sin() + (A - B).sin(), '2*sin(a)*cos(b)'),
        ((A + B).sin() - (A - B).sin(), '2*sin(b)*cos(a)'),
        (X * A.cos() * A.cos() + Y * A.sin() * A.sin(), 'x*cos(a)**2 + y*sin(a)**2'),
        (A.cos() * B.cos() * D.sin(), 'sin(d)*cos(a)*cos(b)'),
        (X * (A + B).cos(), 'x*cos(a + b)'),
        (X * X * A.cos() + X * Y * A.cos(), 'x*(x + y)*cos(a)'),
        (X - X, '0'),
    ],
)
def test_waves_become_products_where_that_is_shorter(scalar, written):
    """The four identities of the module's docstring, squares, and collected coefficients."""
    assert str(expression(scalar)) == written


def test_numbers_pass_through():
    assert expression(0) == 0
    assert expression(2.5) == sp.Rational(5, 2)
