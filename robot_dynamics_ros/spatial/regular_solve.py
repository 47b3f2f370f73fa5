# SPDX-License-Identifier: Apache-2.0
"""Regular linear equations over numbers of any kind, or over symbols."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from robot_dynamics_ros.spatial.differentiation import Dual
from robot_dynamics_ros.spatial.scalar import Array, Scalar


def real_value(x: Scalar) -> float | None:
    """Return the real part of a number of any kind, or None for a symbol."""
    if isinstance(x, Dual):
        return real_value(x.value)
    try:
        value = complex(x).real
    except (TypeError, ValueError, RuntimeError, NotImplementedError):
        return None
    return None if math.isnan(value) else value  # a traced symbol may answer with NaN


def real_values(x: Array) -> Array | None:
    """Return the real parts of an array of numbers as floats, or None if it holds a symbol."""
    if x.dtype.kind in 'fiu':
        return x.astype(float)
    found = [real_value(value) for value in x.flat]
    return None if None in found else np.array(found, dtype=float).reshape(x.shape)


def solve(matrix: Array, right: Array) -> Array:
    """Solve ``matrix @ x = right`` for a regular matrix.

    Args:
        matrix: Shape (n, n).
        right: Shape (n,) or (n, k).

    Returns:
        New array of the shape of right.

    Cost: elimination for numbers; for symbols about ``n 2^n`` products per column, since no
    pivot can be trusted: one that looks like any expression may be zero wherever it is used.
    """
    if matrix.dtype.kind in 'fc' and right.dtype.kind in 'fc':
        return np.linalg.solve(matrix, right)
    if real_values(matrix) is None:
        return _by_determinants(matrix, right)
    return _by_elimination(matrix, right)


def _by_elimination(matrix: Array, right: Array) -> Array:
    """Eliminate with pivots chosen by the size of their real parts."""
    n, M, x = len(matrix), np.array(matrix, dtype=object), np.array(right, dtype=object)
    for k in range(n):
        pivot = k + int(np.argmax([abs(real_value(value) or 0.0) for value in M[k:, k]]))
        M[[k, pivot]], x[[k, pivot]] = M[[pivot, k]], x[[pivot, k]]
        for i in range(k + 1, n):
            factor = M[i, k] / M[k, k]
            M[i] = M[i] - factor * M[k]
            x[i] = x[i] - factor * x[k]
    for k in reversed(range(n)):
        for j in range(k + 1, n):
            x[k] = x[k] - M[k, j] * x[j]
        x[k] = x[k] / M[k, k]
    return x


def _by_determinants(matrix: Array, right: Array) -> Array:
    """Solve by Cramer's rule: the only divisor is the determinant of the matrix."""
    whole, x = determinant(matrix), np.array(right, dtype=object)
    columns = x.reshape(len(matrix), -1)
    solved = np.empty_like(columns)
    for k in range(columns.shape[1]):
        for j in range(len(matrix)):
            replaced = np.array(matrix, dtype=object)
            replaced[:, j] = columns[:, k]
            solved[j, k] = determinant(replaced) / whole
    return solved.reshape(x.shape)


def determinant(matrix: Array) -> Scalar:
    """Return the determinant without a division, from the minors of the last rows upward."""
    n = len(matrix)
    minors: dict[tuple[int, ...], Scalar] = {(): 1}
    for row in reversed(range(n)):
        minors = {
            columns: sum(
                (-1) ** k * matrix[row, c] * minors[columns[:k] + columns[k + 1 :]]
                for k, c in enumerate(columns)
            )
            for columns in combinations(range(n), n - row)
        }
    return minors[tuple(range(n))]
