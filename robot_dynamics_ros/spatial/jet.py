# SPDX-License-Identifier: Apache-2.0
r"""Second-order jets: forward-mode differentiation of x(q, t) along a motion; angles of jets.

Every constraint is an expression in a few points and axes of the robot and in functions of time.
Jets propagate value, rate, Jacobian and bias acceleration through the expression, so that the
product rule is implemented only here, including the rheonomic term :math:`2 f_{qt}\dot q` that
hand-written bias terms often omit.

Angles are computed without branches. A rotation vector is :math:`\varphi = g(c)\,\nu` with
:math:`c = \cos\theta` and :math:`\nu = \sin\theta\,k`, the axial vector of the rotation matrix,
and :math:`g = \theta/\sin\theta`. In terms of :math:`w = \cos\tfrac\theta2`,

.. math:: g = \frac{2\,a(z)}{w\,(1+w)},\quad z = \tan^2\tfrac\theta4 = \frac{1-w}{1+w},\quad
          a(z) = \frac{\arctan\sqrt z}{\sqrt z},

which needs no special case at :math:`\theta = 0`, where neither it nor its derivatives lose
digits. The same expression therefore works for numbers and traced symbols.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import add
from typing import Any

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array, Scalar, cos, sin, sqrt, zeros
from robot_dynamics_ros.spatial.scalar import cross as vector_product

# Keeps a norm differentiable at zero: 1e-12 m or rad, far below anything measurable.
_TINY = 1e-24


@dataclass(frozen=True, eq=False)
class Jet:
    r"""Value and derivatives of x(q, t), shape (k,), at one state and time; numbers or symbols.

    Attributes:
        value: :math:`x`, shape (k,).
        rate: Total derivative :math:`\dot x = x_q\dot q + x_t`, shape (k,).
        J: Jacobian :math:`x_q`, shape (k, n).
        bias: Second total derivative at zero joint acceleration, shape (k,):
            :math:`\ddot x - x_q\ddot q = x_{qq}[\dot q,\dot q] + 2 x_{qt}\dot q + x_{tt}`.

    Source: constraint-stabilization, section 1; errata C3 (the total derivatives).
    """

    value: Array
    rate: Array
    J: Array
    bias: Array

    # Makes numpy defer `matrix @ jet` and `number * jet` to the jet.
    __array_ufunc__ = None

    def map(self, part: Callable[..., Array], *others: Jet) -> Jet:
        """Return the jet of a constant linear function of x, or of x and others."""
        rows = ((jet.value, jet.rate, jet.J, jet.bias) for jet in (self, *others))
        return Jet(*map(part, *rows))

    def __add__(self, other: Jet) -> Jet:
        return self.map(add, other)

    def __sub__(self, other: Jet) -> Jet:
        return self + (-1) * other

    def __rmul__(self, factor: Scalar) -> Jet:
        """Return the jet times a constant number."""
        return self.map(lambda x: factor * x)

    def __rmatmul__(self, matrix: Array) -> Jet:
        """Return a constant matrix times the jet."""
        return self.map(lambda x: matrix @ x)

    def __getitem__(self, rows: slice | list[int]) -> Jet:
        return self.map(lambda x: x[rows])


def time_jet(value: Any, rate: Any, acceleration: Any, n: int) -> Jet:
    """Return the jet of a function of time, independent of the joints.

    Args:
        value: The function's value, shape (k,).
        rate: Its time derivative, shape (k,).
        acceleration: Its second time derivative, shape (k,).
        n: Number of joints.
    """
    value, rate, acceleration = np.asarray(value), np.asarray(rate), np.asarray(acceleration)
    return Jet(value, rate, zeros((len(value), n), value.dtype), acceleration)


def shifted(jet: Jet, offset: Array) -> Jet:
    """Return a jet plus a constant, shape (k,)."""
    return jet + time_jet(offset, 0 * offset, 0 * offset, jet.J.shape[1])


def stack(jets: Sequence[Jet]) -> Jet:
    """Return the jets stacked vertically."""
    first, *others = jets
    return first.map(lambda *rows: np.concatenate(rows), *others)


def _product(part: Callable[[Array, Array], Array], a: Jet, b: Jet) -> Jet:
    r"""Return a bilinear function of two jets; ``part`` gives it of values and of Jacobians.

    .. math:: (a\cdot b)^{\cdot\cdot} = \ddot a\cdot b + 2\,\dot a\cdot\dot b + a\cdot\ddot b
    """
    return Jet(
        part(a.value, b.value),
        part(a.rate, b.value) + part(a.value, b.rate),
        part(a.J, b.value) + part(a.value, b.J),
        part(a.bias, b.value) + 2 * part(a.rate, b.rate) + part(a.value, b.bias),
    )


def dot(a: Jet, b: Jet) -> Jet:
    """Return the scalar product of two jets of shape (k,) as a jet of shape (1,)."""
    return _product(lambda x, y: np.array([x.T @ y]), a, b)


def scale(factor: Jet, x: Jet) -> Jet:
    """Return a scalar jet of shape (1,) times a jet of shape (k,)."""
    return _product(lambda s, y: np.multiply.outer(y, s[0]), factor, x)


def cross(a: Jet, b: Jet) -> Jet:
    """Return the cross product of two jets of shape (3,)."""
    return _product(vector_product, a, b)


def compose(x: Jet, value: Scalar, slope: Scalar, curvature: Scalar) -> Jet:
    r"""Return g(x) for a scalar jet x, given g and its first two derivatives at x.

    .. math:: g(x)^{\cdot\cdot} = g'\ddot x + g''\dot x^2
    """
    return Jet(
        np.array([value]),
        slope * x.rate,
        slope * x.J,
        slope * x.bias + curvature * (x.rate * x.rate),
    )


def cos_sin(angle: Jet) -> tuple[Jet, Jet]:
    """Return cosine and sine of a scalar jet, rad."""
    c, s = cos(angle.value[0]), sin(angle.value[0])
    return compose(angle, c, -s, -c), compose(angle, s, c, -s)


def square_root(x: Jet) -> Jet:
    """Return the square root of a scalar jet of shape (1,) with a positive value."""
    root = sqrt(x.value[0])
    return compose(x, root, 1 / (2 * root), -1 / (4 * root * root * root))


def norm(x: Jet) -> Jet:
    """Return the Euclidean norm as a jet of shape (1,); at zero its Jacobian is zero."""
    squared = dot(x, x)
    return square_root(replace(squared, value=squared.value + _TINY))


# Keeps the square root real if rounding makes a cosine slightly less than -1.
_ROUNDING = 4e-16


@cache
def _arctangent() -> list[float]:
    r"""Return the coefficients of :math:`\arctan(x)/x` in powers of :math:`x^2`, x in [-1, 1].

    :math:`\arctan x = 2\sum_k (-1)^k \frac{p^{2k+1}}{2k+1} T_{2k+1}(x)`, :math:`p=\sqrt2-1`; the
    last term is below 1e-17, and no power has a coefficient above 1.
    """
    p = math.sqrt(2.0) - 1.0
    series = [2.0 * (-1.0) ** k * p ** (2 * k + 1) / (2 * k + 1) for k in range(21)]
    powers = np.polynomial.chebyshev.cheb2poly([x for c in series for x in (0.0, c)])
    return [float(c) for c in powers[1::2]]


def arctangent_ratio(z: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    r"""Return :math:`a(z) = \arctan(\sqrt z)/\sqrt z` and two derivatives at z in [0, 1]."""
    a, da, half_dda = 0, 0, 0
    for c in reversed(_arctangent()):
        half_dda = half_dda * z + da
        da = da * z + a
        a = a * z + c
    return a, da, 2 * half_dda


def angle_per_sine(cosine: Jet) -> Jet:
    r"""Return :math:`g = \theta/\sin\theta` from :math:`\cos\theta`, both jets of shape (1,).

    Validity: :math:`|\theta| < \pi`; g is unbounded at :math:`\pi`.
    """
    w = square_root(
        Jet(
            (1 + cosine.value) / 2 + _ROUNDING,
            cosine.rate / 2,
            cosine.J / 2,
            cosine.bias / 2,
        )
    )
    x = w.value[0]
    y = 1 / (1 + x)
    z = compose(w, (1 - x) * y, -2 * y * y, 4 * y * y * y)
    u = 1 / (x * (1 + x))
    du = -(1 + 2 * x) * u * u
    reciprocal = compose(w, 2 * u, 2 * du, -4 * u * u - 4 * (1 + 2 * x) * u * du)
    return scale(compose(z, *arctangent_ratio(z.value[0])), reciprocal)


def signed_angle(sine: Jet, cosine: Jet) -> Jet:
    r"""Return the angle :math:`\theta` in :math:`(-\pi, \pi)`, rad, from its sine and cosine.

    All are jets of shape (1,); :math:`\sin^2 + \cos^2 = 1`.
    """
    return scale(angle_per_sine(cosine), sine)


def rotation_error(desired: tuple[Jet, Jet, Jet], axes: tuple[Jet, Jet, Jet]) -> Jet:
    r"""Return the rotation vector :math:`\varphi = \log(C_d^TC)^\vee`, rad, a jet of shape (3,).

    Its rate is :math:`J_r^{-1}(\varphi)(\omega - C^TC_d\,\omega_d)` and its Jacobian
    :math:`J_r^{-1}(\varphi)\,[l_\omega]`; here, both result from the product rule.

    Args:
        desired: Axes of the desired frame, jets of shape (3,) in base components.
        axes: Axes of the actual frame, likewise.

    Validity: the frames are less than half a turn apart.

    Source: constraint-stabilization, section 2.1 (full pose); erratum C1.
    """
    R = [[dot(d, b) for b in axes] for d in desired]
    cosine = 0.5 * (R[0][0] + R[1][1] + R[2][2])
    cosine = replace(cosine, value=cosine.value - 0.5)
    sines = stack(
        [0.5 * (R[2][1] - R[1][2]), 0.5 * (R[0][2] - R[2][0]), 0.5 * (R[1][0] - R[0][1])]
    )
    return scale(angle_per_sine(cosine), sines)
