# SPDX-License-Identifier: Apache-2.0
r"""Second-order jets: how a quantity x(q, t) changes along a motion.

Every constraint is an expression in a few points and axes of the robot and in quantities given in
time. A jet carries the expression through to what the control law needs, so that the product rule
is written once, here, and with it the rheonomic term :math:`2 f_{qt}\dot q` that hand-written
drift terms forget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array, Scalar, sqrt, zeros

# Keeps a norm differentiable at zero: 1e-12 m or rad, far below anything measurable.
_TINY = 1e-24


@dataclass(frozen=True, eq=False)
class Jet:
    r"""A quantity x(q, t) of shape (k,) at one state and time, numbers or symbols.

    Attributes:
        value: :math:`x`, shape (k,).
        rate: Total derivative :math:`\dot x = x_q\dot q + x_t`, shape (k,).
        J: Jacobian :math:`x_q`, shape (k, n).
        drift: Second total derivative at zero joint acceleration, shape (k,):
            :math:`\ddot x - x_q\ddot q = x_{qq}[\dot q,\dot q] + 2 x_{qt}\dot q + x_{tt}`.

    Source: constraint-stabilization, section 1; errata C3 (the total derivatives).
    """

    value: Array
    rate: Array
    J: Array
    drift: Array

    # numpy must leave `matrix * jet` and the like to the jet.
    __array_ufunc__ = None

    def __add__(self, other: Jet) -> Jet:
        return Jet(
            self.value + other.value,
            self.rate + other.rate,
            self.J + other.J,
            self.drift + other.drift,
        )

    def __sub__(self, other: Jet) -> Jet:
        return self + (-1) * other

    def __rmul__(self, factor: Scalar) -> Jet:
        """Return the jet times a constant number."""
        return Jet(factor * self.value, factor * self.rate, factor * self.J, factor * self.drift)

    def __rmatmul__(self, matrix: Array) -> Jet:
        """Return a constant matrix times the jet."""
        return Jet(matrix @ self.value, matrix @ self.rate, matrix @ self.J, matrix @ self.drift)

    def __getitem__(self, rows: slice) -> Jet:
        return Jet(self.value[rows], self.rate[rows], self.J[rows], self.drift[rows])


def given(value: Any, rate: Any, acceleration: Any, n: int) -> Jet:
    """Return the jet of a quantity given in time: it does not depend on the joints.

    Args:
        value: The quantity, shape (k,).
        rate: Its time derivative, shape (k,).
        acceleration: Its second time derivative, shape (k,).
        n: Number of joints.
    """
    value, rate, acceleration = np.asarray(value), np.asarray(rate), np.asarray(acceleration)
    return Jet(value, rate, zeros((len(value), n), value.dtype), acceleration)


def constant(value: Any, n: int) -> Jet:
    """Return the jet of a constant, shape (k,)."""
    value = np.asarray(value)
    still = zeros(len(value), value.dtype)
    return given(value, still, still, n)


def stack(jets: Sequence[Jet]) -> Jet:
    """Return the jets one below the other."""
    return Jet(
        np.concatenate([jet.value for jet in jets]),
        np.concatenate([jet.rate for jet in jets]),
        np.concatenate([jet.J for jet in jets]),
        np.concatenate([jet.drift for jet in jets]),
    )


def dot(a: Jet, b: Jet) -> Jet:
    r"""Return the scalar product as a jet of shape (1,).

    .. math:: (a\cdot b)^{\cdot\cdot} = \ddot a\cdot b + 2\,\dot a\cdot\dot b + a\cdot\ddot b
    """
    return Jet(
        np.array([a.value @ b.value]),
        np.array([a.rate @ b.value + a.value @ b.rate]),
        np.array([b.value @ a.J + a.value @ b.J]),
        np.array([a.drift @ b.value + 2 * (a.rate @ b.rate) + a.value @ b.drift]),
    )


def scale(factor: Jet, x: Jet) -> Jet:
    """Return a scalar jet of shape (1,) times a jet of shape (k,)."""
    s, ds = factor.value[0], factor.rate[0]
    return Jet(
        s * x.value,
        ds * x.value + s * x.rate,
        np.outer(x.value, factor.J[0]) + s * x.J,
        factor.drift[0] * x.value + 2 * ds * x.rate + s * x.drift,
    )


def cross(a: Jet, b: Jet) -> Jet:
    """Return the cross product of two jets of shape (3,)."""
    x, y, z = (a[i : i + 1] for i in range(3))
    u, v, w = (b[i : i + 1] for i in range(3))
    return stack(
        [
            scale(y, w) - scale(z, v),
            scale(z, u) - scale(x, w),
            scale(x, v) - scale(y, u),
        ]
    )


def compose(x: Jet, value: Scalar, slope: Scalar, curvature: Scalar) -> Jet:
    r"""Return g(x) for a scalar jet x, given g and its first two derivatives at x.

    .. math:: g(x)^{\cdot\cdot} = g'\ddot x + g''\dot x^2
    """
    return Jet(
        np.array([value]),
        slope * x.rate,
        slope * x.J,
        slope * x.drift + curvature * (x.rate * x.rate),
    )


def square_root(x: Jet) -> Jet:
    """Return the square root of a scalar jet of shape (1,) with a positive value."""
    root = sqrt(x.value[0])
    return compose(x, root, 1 / (2 * root), -1 / (4 * root * root * root))


def norm(x: Jet) -> Jet:
    """Return the Euclidean length as a jet of shape (1,); at zero its Jacobian is zero."""
    squared = dot(x, x)
    return square_root(Jet(squared.value + _TINY, squared.rate, squared.J, squared.drift))
