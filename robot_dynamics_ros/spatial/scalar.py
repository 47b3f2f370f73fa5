# SPDX-License-Identifier: Apache-2.0
r"""Elementary functions and arrays of numbers or symbols; exact derivatives.

A function that accepts any scalar type is differentiated without truncation error, in two ways.
A function of floats is evaluated on complex numbers (complex-step derivative): the imaginary part
of :math:`f(x + ih)` is :math:`h f'(x) + O(h^3)`, and with :math:`h = 10^{-100}` the second term is
below rounding error. All other types (``mpmath`` numbers, symbols, complex numbers) use dual
numbers :math:`x + \varepsilon y`, :math:`\varepsilon^2 = 0` (forward-mode automatic
differentiation).
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from robot_dynamics_ros.errors import ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
else:
    Array = Any  # keeps the import of numpy deferred, see ``__main__``

Scalar = Any
_Function = TypeVar('_Function', bound=Callable[..., Any])


def errstate(**treated: Any) -> Callable[[_Function], _Function]:
    """Return ``np.errstate`` as a decorator that imports NumPy only when the function is called.

    Args:
        treated: See ``np.errstate``.
    """

    def decorate(function: _Function) -> _Function:
        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            with np.errstate(**treated):
                return function(*args, **options)

        return call  # type: ignore[return-value]

    return decorate


def _elementary(name: str) -> Callable[[Scalar], Scalar]:
    """Return a function of one scalar that selects its implementation by the scalar's type."""
    real, complex_ = getattr(math, name), getattr(cmath, name)

    def function(x: Scalar) -> Scalar:
        if isinstance(x, (float, int)):
            return real(x)
        if isinstance(x, complex):
            return complex_(x)
        method = getattr(x, name, None)
        if method is not None:
            return method()
        return getattr(import_module(type(x).__module__.partition('.')[0]), name)(x)

    function.__name__ = name
    function.__doc__ = f'Return {name}(x) of a number or symbol x.'
    return function


cos = _elementary('cos')
sin = _elementary('sin')
sqrt = _elementary('sqrt')
tanh = _elementary('tanh')


def select(a: Scalar, b: Scalar, x: Scalar, y: Scalar) -> Scalar:
    """Return x if a < b, y if a >= b, and NaN if a or b is NaN; of arrays, entry by entry.

    The value not selected has no effect, even if it is NaN. Both are evaluated beforehand.
    """
    if isinstance(a, float) and isinstance(b, float):
        return x if a < b else y if a >= b else math.nan
    if np.ndarray in map(type, (a, b, x, y)):
        with np.errstate(invalid='ignore'):  # NaN
            entries = np.frompyfunc(select, 4, 1)(a, b, x, y)
        return entries.astype(common_dtype(a, b, x, y))
    method = getattr(a, 'select', None) or getattr(b, 'select', None)
    if method is not None:
        return method(a, b, x, y)
    if a < b:
        return x
    return y if a >= b else math.nan


def minimum(x: Scalar, y: Scalar) -> Scalar:
    """Return the smaller value; y if they are equal (-0.0 equals 0.0), NaN if either is NaN."""
    return select(x, y, x, y)


def maximum(x: Scalar, y: Scalar) -> Scalar:
    """Return the larger value; y if they are equal (-0.0 equals 0.0), NaN if either is NaN."""
    return select(y, x, x, y)


def positive_part(x: Scalar) -> Scalar:
    """Return max(x, 0); also of complex and dual numbers, which are not ordered."""
    return (x + sqrt(x * x)) / 2


def common_dtype(*arrays: Any) -> np.dtype[Any]:
    """Return the common dtype of all arguments: float64, complex128 or object."""
    dtype = np.result_type(np.float64, *(np.asarray(array).dtype for array in arrays))
    return dtype if dtype.kind in 'fc' else np.dtype(object)


def zeros(shape: int | tuple[int, ...], dtype: Any) -> Array:
    """Return a new array of zeros; exact integer zeros if dtype is object.

    An integer 0 is eliminated from symbolic sums and products; a float 0.0 may remain.
    """
    return np.zeros(shape, dtype=dtype)


def identity(size: int, dtype: Any) -> Array:
    """Return a new identity matrix, shape (size, size), with exact entries."""
    return np.eye(size, dtype=int).astype(dtype)


def cross(a: Sequence[Scalar] | Array, b: Sequence[Scalar] | Array) -> Array:
    """Return the cross product a x b of two 3-vectors as a new array, shape (3,)."""
    a0, a1, a2 = a
    b0, b1, b2 = b
    return np.array([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0])


def cross_matrix(a: Sequence[Scalar] | Array) -> Array:
    """Return the skew-symmetric matrix with ``cross_matrix(a) @ b == cross(a, b)``, (3, 3).

    Raises:
        ShapeError: a is not of shape (3,).
    """
    try:
        a0, a1, a2 = a
    except (TypeError, ValueError):
        raise ShapeError('a vector', np.shape(a), '(3,)') from None
    return np.array([[0, -a2, a1], [a2, 0, -a0], [-a1, a0, 0]])


def operators(rule: Callable[[Scalar, Scalar], Scalar], *kinds: type) -> tuple[Any, Any]:
    """Return an operator of a scalar type, and the same with exchanged operands.

    Args:
        rule: Function of two scalars.
        kinds: Types of the other operand besides the scalar type; all others, such as arrays, are
            left to their own operators.
    """

    def operator(self: Scalar, other: Any) -> Any:
        return rule(self, other) if isinstance(other, (type(self), *kinds)) else NotImplemented

    def exchanged(self: Scalar, other: Any) -> Any:
        return rule(other, self) if isinstance(other, kinds) else NotImplemented

    return operator, exchanged


# Derivatives -------------------------------------------------------------------------------------

_STEP = 1e-100


def jacobian(function: Callable[[Array], Array], x: Array) -> Array:
    r"""Return the derivative :math:`\partial f/\partial x` of an array with respect to a vector.

    Args:
        function: Maps shape (n,) to any shape ``S``; must accept complex and object arrays, and
            must not branch on values or conjugate.
        x: Point of differentiation, shape (n,); numbers or symbols.

    Returns:
        New array, shape ``(*S, n)``; the last axis is that of x.

    Cost: n + 1 evaluations of the function.
    """
    directions = range(len(x))
    if x.dtype.kind == 'f' and function(x).dtype.kind == 'f':  # of nothing else but floats, too
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
    """Return an operator that converts a plain scalar to a dual; arrays are left to numpy."""

    def operator(self: Dual, other: Scalar) -> Dual:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return operation(self, other if isinstance(other, Dual) else Dual(other, 0))

    return operator


@dataclass(frozen=True, eq=False)
class Dual:
    """A dual number ``value + eps * tangent``, ``eps^2 = 0``: a value and a derivative of it.

    Both parts are scalars of the same type: floats, ``mpmath`` numbers or symbols.
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
        return Dual(self.value * b.value, self.tangent * b.value + self.value * b.tangent)

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
