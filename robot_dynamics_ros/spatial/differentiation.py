# SPDX-License-Identifier: Apache-2.0
r"""Exact derivatives of a function that runs over any scalar: no step size, no truncation.

Two ways, chosen by the scalar. A function of floats is run on complex numbers: the imaginary part
of :math:`f(x + ih)` is :math:`h f'(x) + O(h^3)`, and with :math:`h = 10^{-100}` the second term
is below every rounding. Anything else (``mpmath`` numbers, symbols, complex numbers) is run on
dual numbers :math:`x + \varepsilon y`, :math:`\varepsilon^2 = 0`, which carry the derivative
through every operation by its own rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array, Scalar, cos, sin, sqrt, tanh

_STEP = 1e-100


def jacobian(function: Callable[[Array], Array], x: Array) -> Array:
    r"""Return the derivative :math:`\partial f/\partial x` of an array by a vector.

    Args:
        function: Maps shape (n,) to any shape ``S``; runs over complex numbers and over objects,
            without branching on values and without conjugation.
        x: Where to differentiate, shape (n,); numbers or symbols.

    Returns:
        New array, shape ``(*S, n)``: the last index is that of x.

    Cost: n calls of the function.
    """
    directions = range(len(x))
    if x.dtype.kind == 'f':
        columns = [np.imag(function(_stepped(x, j))) / _STEP for j in directions]
    else:
        columns = [_tangent(function(_seeded(x, j))) for j in directions]
    return np.stack(columns, axis=-1)


def _stepped(x: Array, j: int) -> Array:
    stepped = x.astype(complex)
    stepped[j] += 1j * _STEP
    return stepped


def _seeded(x: Array, j: int) -> Array:
    return np.array([Dual(value, int(k == j)) for k, value in enumerate(x)], dtype=object)


def _tangent(values: Array) -> Array:
    flat = [value.tangent if isinstance(value, Dual) else 0 for value in values.flat]
    tangents = np.empty(len(flat), dtype=object)
    tangents[:] = flat
    return tangents.reshape(values.shape)


def _with_scalar(operation: Callable[[Dual, Dual], Dual]) -> Callable[[Dual, Scalar], Dual]:
    """Make an operator that lifts a plain scalar and leaves arrays to numpy."""

    def operator(self: Dual, other: Scalar) -> Dual:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return operation(self, other if isinstance(other, Dual) else Dual(other, 0))

    return operator


@dataclass(frozen=True, eq=False)
class Dual:
    """A scalar and its derivative in one direction: ``value + eps * tangent`` with ``eps^2 = 0``.

    Both parts are scalars of the same kind: floats, ``mpmath`` numbers, symbols.
    """

    value: Scalar
    tangent: Scalar

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.tangent)

    @_with_scalar
    def __add__(self, b: Dual) -> Dual:
        return Dual(self.value + b.value, self.tangent + b.tangent)

    @_with_scalar
    def __sub__(self, b: Dual) -> Dual:
        return Dual(self.value - b.value, self.tangent - b.tangent)

    @_with_scalar
    def __mul__(self, b: Dual) -> Dual:
        return Dual(self.value * b.value, self.value * b.tangent + self.tangent * b.value)

    @_with_scalar
    def __truediv__(self, b: Dual) -> Dual:
        quotient = self.value / b.value
        return Dual(quotient, (self.tangent - quotient * b.tangent) / b.value)

    @_with_scalar
    def __rsub__(self, b: Dual) -> Dual:
        return b - self

    @_with_scalar
    def __rtruediv__(self, b: Dual) -> Dual:
        return b / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Dual:
        slope = exponent * self.value ** (exponent - 1)
        return Dual(self.value**exponent, slope * self.tangent)

    def sin(self) -> Dual:
        """Return the sine."""
        return Dual(sin(self.value), cos(self.value) * self.tangent)

    def cos(self) -> Dual:
        """Return the cosine."""
        return Dual(cos(self.value), -sin(self.value) * self.tangent)

    def sqrt(self) -> Dual:
        """Return the square root."""
        root = sqrt(self.value)
        return Dual(root, self.tangent / (2 * root))

    def tanh(self) -> Dual:
        """Return the hyperbolic tangent."""
        level = tanh(self.value)
        return Dual(level, (1 - level * level) * self.tangent)
