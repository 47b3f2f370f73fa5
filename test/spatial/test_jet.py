# SPDX-License-Identifier: Apache-2.0
"""Jets of a motion: value by plain formulas, rate, Jacobian and bias by differences of the value.

The differences are taken in 40 digits of the jets themselves, along q(s) = q + v s while time
advances, so the bias is the second derivative of one function of s.
"""

import mpmath
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from robot_dynamics_ros.spatial import jet
from robot_dynamics_ros.spatial.jet import Jet, cos_sin, scale, shifted, stack, time_jet
from robot_dynamics_ros.spatial.scalar import cos, sin

T = 0.7
#: A, B, c, d of two functions A q + B sin(q) + c t + d t^2, below 2.5 for q within 1.
NUMBERS = [
    (x[:, :3], x[:, 3:6], x[:, 6], x[:, 7])
    for x in np.random.default_rng(7).uniform(-0.3, 0.3, (2, 3, 8))
]
M = np.array([[1.0, 2.0, -0.5], [0.3, -1.0, 0.7]])
vectors = st.lists(st.floats(-1.0, 1.0), min_size=3, max_size=3).map(np.array)


def leaves(q, v, t):
    """Return the jets of the two functions."""
    s, c = (np.array([f(x) for x in q]) for f in (sin, cos))
    return [
        Jet(A @ q + B @ s + e * t + d * t * t, (A + B * c) @ v + e + 2 * d * t, A + B * c,
            2 * d - B @ (s * v * v))
        for A, B, e, d in NUMBERS
    ]  # fmt: skip


def rotated(a, b):
    """Return the rotation vector of turns about z and x by half of the first components."""
    (c, s), (k, w) = (cos_sin(0.5 * x[:1]) for x in (a, b))
    none, one = (time_jet([x], [0.0], [0.0], 3) for x in (0.0, 1.0))
    axes = (
        stack([c, s, none]),
        stack([-1.0 * scale(s, k), scale(c, k), w]),
        stack([scale(s, w), -1.0 * scale(c, w), k]),
    )
    fixed = (stack([one, none, none]), stack([none, one, none]), stack([none, none, one]))
    return jet.rotation_error(fixed, axes)


def euler(a, b):
    return (Rotation.from_euler('z', a[0] / 2) * Rotation.from_euler('x', b[0] / 2)).as_rotvec()


# name: of jets, and of numbers
EXPRESSIONS = {
    'sum': (lambda a, b: a - 2.0 * b + shifted(a[[2, 1, 0]], np.ones(3)),
            lambda a, b: a - 2 * b + a[::-1] + 1),
    'matrix': (lambda a, b: M @ a, lambda a, b: M @ a),
    'dot': (jet.dot, lambda a, b: [a @ b]),
    'cross': (jet.cross, np.cross),
    'scale': (lambda a, b: scale(a[:1], b), lambda a, b: a[0] * b),
    'norm': (lambda a, b: jet.norm(shifted(a, np.full(3, 3.0))),
             lambda a, b: [np.linalg.norm(a + 3)]),
    'cosine': (lambda a, b: stack(cos_sin(a[:1])), lambda a, b: [np.cos(a[0]), np.sin(a[0])]),
    'angle': (lambda a, b: jet.signed_angle(*cos_sin(a[:1])[::-1]), lambda a, b: a[:1]),
    'rotation': (rotated, euler),
}  # fmt: skip


@pytest.mark.parametrize('name', EXPRESSIONS)
@settings(max_examples=10, phases=[Phase.generate])  # shrinking 40 digits takes minutes
@given(vectors, vectors)
def test_rate_jacobian_and_bias_of_an_expression_are_derivatives_of_its_value(name, q, v):
    expression, formula = EXPRESSIONS[name]
    a, b = leaves(q, v, T)
    found = expression(a, b)
    # Sums of a few dozen terms below 10; an angle up to 2.5 divides by a sine above 0.5.
    assert_allclose(found.value, formula(a.value, b.value), atol=1e-13)
    with mpmath.workdps(40):
        h, time = mpmath.mpf(10) ** -12, mpmath.mpf(T)
        at, rates = (np.array([mpmath.mpf(x) for x in y]) for y in (q, v))

        def value(x, t):
            return expression(*leaves(x, rates, t)).value

        before, now, after = (value(at + s * rates, time + s) for s in (-h, 0, h))
        rate, bias = (after - before) / (2 * h), (after - 2 * now + before) / h**2
        steps = h * np.eye(3, dtype=int)
        columns = [(value(at + e, time) - value(at - e, time)) / (2 * h) for e in steps]
    assert_allclose(found.rate, rate.astype(float), atol=1e-12)
    assert_allclose(found.bias, bias.astype(float), atol=1e-11)
    assert_allclose(found.J, np.transpose(columns).astype(float), atol=1e-12)
