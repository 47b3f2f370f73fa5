# SPDX-License-Identifier: Apache-2.0
"""Fourier sums with polynomial coefficients, and short expressions of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from robot_dynamics_ros.spatial.rotation import rotation_about
from robot_dynamics_ros.symbolic.closed_form import expression
from robot_dynamics_ros.symbolic.trig_polynomial import Algebra, TrigPolynomial

ALGEBRA = Algebra(['a', 'b', 'd'], ['x', 'y'])
A, B, D = (ALGEBRA.angle(name) for name in 'abd')
X, Y = ALGEBRA.symbol('x'), ALGEBRA.symbol('y')
VALUES = {'a': 0.7, 'b': -1.9, 'd': 2.3, 'x': 1.25, 'y': -0.5}


def number(scalar) -> float:
    """Evaluate a scalar by its definition, the sum of waves."""
    total = 0.0
    for wave, (cosine, sine) in scalar.terms.items():
        angle = sum(k * VALUES[name] for k, name in zip(wave, ALGEBRA.angles, strict=True))
        total += _value(cosine) * math.cos(angle) + _value(sine) * math.sin(angle)
    return total


def _value(polynomial) -> float:
    return sum(
        float(k) * VALUES['x'] ** powers[0] * VALUES['y'] ** powers[1]
        for powers, k in polynomial.terms()
    )


LEAVES = {
    'cos a': (A.cos(), math.cos(VALUES['a'])),
    'sin b': (B.sin(), math.sin(VALUES['b'])),
    'cos d': (D.cos(), math.cos(VALUES['d'])),
    'sin(a+b)': ((A + B).sin(), math.sin(VALUES['a'] + VALUES['b'])),
    'x': (X, VALUES['x']),
    'y': (Y, VALUES['y']),
    '2': (ALGEBRA.number(2), 2.0),
    '1/2': (ALGEBRA.number(0.5), 0.5),
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
def test_arithmetic_keeps_the_value(tree):
    scalar, value = pair(tree)
    assert number(scalar) == pytest.approx(value, rel=1e-10, abs=1e-10)


@given(EXPRESSIONS)
def test_short_expressions_keep_the_value(tree):
    scalar, value = pair(tree)
    found = expression(scalar).subs({sp.Symbol(name): x for name, x in VALUES.items()})
    assert float(found) == pytest.approx(value, rel=1e-10, abs=1e-10)


def test_equal_scalars_look_the_same():
    assert (A + B).cos() == A.cos() * B.cos() - A.sin() * B.sin()
    assert (A - B).sin() == A.sin() * B.cos() - A.cos() * B.sin()
    assert A.cos() ** 2 + A.sin() ** 2 == 1
    assert (X + Y) * (X - Y) == X * X - Y * Y
    assert A.cos() != A.sin()
    assert (X - X).terms == {}


def test_sines_are_odd_and_cosines_even():
    assert (-A).sin() == -A.sin()
    assert (B - A).cos() == (A - B).cos()


@pytest.mark.parametrize('quarters', range(-3, 6))
def test_quarter_turns_are_exact(quarters):
    turned = A + quarters * math.pi / 2
    angle = VALUES['a'] + quarters * math.pi / 2
    assert number(turned.cos()) == pytest.approx(math.cos(angle), abs=1e-15)
    assert number(turned.sin()) == pytest.approx(math.sin(angle), abs=1e-15)
    assert len(turned.sin().terms) == 1
    fixed = ALGEBRA.quarter_turns(quarters).cos()
    assert number(fixed) == round(math.cos(quarters * math.pi / 2))


def test_an_angle_is_no_scalar():
    with pytest.raises(TypeError):
        A * X
    with pytest.raises(TypeError, match='not a multiple of a quarter turn'):
        A + 0.3
    with pytest.raises(TypeError, match='no sine in closed form'):
        0.5 * A
    with pytest.raises(TypeError):
        X / Y


def test_numpy_holds_scalars_without_looking_into_them():
    R = rotation_about(np.array([0, 0, 1]), A)
    assert isinstance(R[0, 0], TrigPolynomial)
    product = R @ R.T
    assert np.array([[product[i, j] == int(i == j) for j in range(3)] for i in range(3)]).all()


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
