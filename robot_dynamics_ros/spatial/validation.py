# SPDX-License-Identifier: Apache-2.0
"""Arguments given by a caller: converted, checked, rejected by name."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from numbers import Integral, Real
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import NonFiniteError, ParameterError, ShapeError
from robot_dynamics_ros.spatial.scalar import Array


def as_finite_array(name: str, value: Any) -> Array:
    """Convert finite numbers to a new float array of any shape.

    Raises:
        ParameterError: A value is not a number, or rows have different lengths.
        NonFiniteError: A value is NaN or infinite.
    """
    array = np.array(_floats(name, value))
    if not np.all(np.isfinite(array)):
        raise NonFiniteError(name, array.tolist())
    return array


def _floats(name: str, value: Any) -> Array:
    with suppress(TypeError, ValueError, OverflowError):
        given = np.asarray(value)
        # NumPy takes the real part, nanoseconds, and None for NaN.
        if given.dtype.kind not in 'cmM' and (given.dtype != object or None not in given.flat):
            return given.astype(float, copy=False)
    raise ParameterError(name, value, 'must be real numbers in rows of one length')


def array(name: str, value: Any, shape: tuple[int | str, ...], *, finite: bool = True) -> Array:
    """Convert numbers to a float array of a given shape; a word is any size but zero.

    The array is new, so that a caller may store it, unless it need not be finite.

    Raises:
        ShapeError: The shape differs.
        ParameterError, NonFiniteError: As in :func:`as_finite_array`.
    """
    checked = as_finite_array(name, value) if finite else _floats(name, value)
    return _shaped(name, checked, shape)


def spread_numbers(name: str, value: Any, n: int) -> Array:
    """Return n finite numbers, new array, from one for all or n.

    Raises:
        ShapeError, ParameterError, NonFiniteError: As in :func:`array`.
    """
    numbers = as_finite_array(name, value)
    if numbers.shape not in ((), (1,), (n,)):
        raise ShapeError(name, numbers.shape, f'() or ({n},)')
    return numbers * np.ones(n)


def _shaped(name: str, checked: Array, shape: tuple[int | str, ...]) -> Array:
    sizes = zip(shape, checked.shape, strict=False)
    fits = [k > 0 if isinstance(size, str) else k == size for size, k in sizes]
    if checked.ndim != len(shape) or not all(fits):
        raise ShapeError(name, checked.shape, str(shape).replace("'", ''))
    return checked


def scalars(name: str, value: Any, shape: tuple[int | str, ...]) -> Array:
    """Convert numbers or symbols to an array of a given shape; real numbers to floats.

    Raises:
        ShapeError, ParameterError, NonFiniteError: As in :func:`array`.
    """
    with suppress(ValueError):  # rows of different lengths, which ``array`` rejects
        given = np.asarray(value)
        if given.dtype.kind in 'cO' and all(hasattr(x, '__sub__') for x in given.flat):
            return _shaped(name, given, shape)
    return array(name, value, shape)


def require_type(name: str, value: Any, kind: type | tuple[type, ...], expected: str) -> None:
    """Raise ParameterError unless a value is of a type, described by what is expected."""
    if not isinstance(value, kind):
        raise ParameterError(name, value, f'must be {expected}')


def require_numbers(**arguments: Any) -> None:
    """Raise ParameterError unless all arguments are real numbers; names the first that is not."""
    for name, value in arguments.items():
        require_type(name, value, Real, 'a number')


def require_counts(**arguments: Any) -> None:
    """Raise ParameterError unless all are whole numbers from 0 on; names the first that is not."""
    for name, value in arguments.items():
        require_type(name, value, Integral, 'a whole number')
        if value < 0:
            raise ParameterError(name, value, 'must not be negative')


def require_positive(**arguments: Any) -> None:
    """Raise ParameterError unless all arguments are positive and finite; names the first."""
    require_numbers(**arguments)
    for name, value in arguments.items():
        if not 0.0 < value < math.inf:
            raise ParameterError(name, value, 'must be positive and finite')


def name_list(argument: str, value: Iterable[str]) -> list[str]:
    """Return names as a list.

    Raises:
        ParameterError: It is one text, or no list.
    """
    if isinstance(value, str):
        raise ParameterError(argument, value, f'must be a list of names, such as [{value!r}]')
    require_type(argument, value, Iterable, 'a list of names')
    names = list(value)
    for name in names:
        require_type(argument, name, str, 'a list of names')
    return names


def unit(name: str, direction: Any) -> Array:
    """Return the unit vector along a direction of shape (3,).

    Raises:
        ParameterError: The direction is zero.
        ShapeError, NonFiniteError: As in :func:`array`.
    """
    vector = array(name, direction, (3,))
    length = math.hypot(*vector)
    if length < 1e-9:
        raise ParameterError(name, list(direction), 'must be a direction, not zero')
    return vector / length


def perpendicular(direction: Array) -> Array:
    """Return a unit vector perpendicular to a unit vector, shape (3,), from base x or base y."""
    e = np.eye(3)[0] if abs(direction[0]) < 0.9 else np.eye(3)[1]
    return unit('direction', e - direction * (direction @ e))


def jacobian_matrix(Gamma: Any) -> Array:
    """Convert a constraint Jacobian to a float array of shape (m, n), m and n at least 1.

    Raises:
        ShapeError, ParameterError, NonFiniteError: As in :func:`array`.
    """
    return array('Gamma', Gamma, ('m', 'n'))


def gain_matrix(name: str, gain: Array | float, m: int) -> Array:
    """Return a gain as a matrix of shape (m, m), from a scalar, a diagonal or a matrix.

    Raises:
        ShapeError: The shape is none of (), (m,) and (m, m).
        NonFiniteError: The gain is not finite.
        ParameterError: The gain is not numeric.
    """
    gain = as_finite_array(name, gain)
    if gain.shape == ():
        return float(gain) * np.eye(m)
    if gain.shape == (m,):
        return np.diag(gain)
    if gain.shape != (m, m):
        raise ShapeError(name, gain.shape, f'(), ({m},) or ({m}, {m})')
    return gain


def metric_root(name: str, value: Any, size: int) -> Array:
    """Return the Cholesky factor L of a metric :math:`LL^T`, given as for :func:`gain_matrix`.

    Raises:
        ShapeError: The shape differs.
        ParameterError: The metric is not positive definite.
        NonFiniteError: An entry is NaN or infinite.
    """
    matrix = gain_matrix(name, value, size)
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise ParameterError(name, matrix.tolist(), 'must be positive definite') from None
