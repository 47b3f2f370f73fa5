# SPDX-License-Identifier: Apache-2.0
"""Solving and factorization for matrices of numbers of any type or of symbols.

No function branches on symbols, so that a traced control law can use them.
"""

from __future__ import annotations

import math

import numpy as np

from robot_dynamics_ros.spatial.scalar import (
    Array,
    Dual,
    Scalar,
    identity,
    maximum,
    select,
    sqrt,
    zeros,
)


def real_value(x: Scalar) -> float | None:
    """Return the real part of a number of any type, or None for a symbol."""
    if isinstance(x, Dual):
        return real_value(x.value)
    try:
        value = complex(x).real
    except (TypeError, ValueError, RuntimeError):
        return None
    return None if math.isnan(value) else value  # a traced symbol may convert to NaN


def real_values(x: Array) -> Array | None:
    """Return the real parts of an array as floats, or None if an element is a symbol."""
    if x.dtype.kind in 'fiu':
        return x.astype(float)
    values = [real_value(value) for value in x.flat]
    return None if None in values else np.array(values, dtype=float).reshape(x.shape)


def solve(matrix: Array, right: Array) -> Array:
    """Solve ``matrix @ x = right`` for a nonsingular matrix.

    Args:
        matrix: Shape (n, n).
        right: Right-hand side, shape (n,) or (n, k).

    Returns:
        New array of the shape of ``right``.

    Floats and complex numbers are solved by LAPACK, all other numbers and symbols by Cramer's
    rule: the only divisor is the determinant, as a symbolic pivot may evaluate to zero.

    Cost: by Cramer's rule about ``n 2^n`` products per column.
    """
    if matrix.dtype.kind in 'fc' and right.dtype.kind in 'fc':
        return np.linalg.solve(matrix, right)
    divisor, x = determinant(matrix), np.array(right, dtype=object)
    columns = x.reshape(len(matrix), -1)
    solved = np.empty_like(columns)
    for k in range(columns.shape[1]):
        for j in range(len(matrix)):
            replaced = np.array(matrix, dtype=object)
            replaced[:, j] = columns[:, k]
            solved[j, k] = determinant(replaced) / divisor
    return solved.reshape(x.shape)


def determinant(matrix: Array) -> Scalar:
    """Return the determinant without division, from the minors of the last rows upward.

    Minors that are zero because entries are Python's 0 are left out.
    """
    minors: dict[tuple[int, ...], Scalar] = {(): 1}
    for row in matrix[::-1]:
        used = [c for c, x in enumerate(row) if not isinstance(x, (int, float)) or x]
        wider = {tuple(sorted({*columns, c})) for columns in minors for c in used}
        minors = {
            columns: sum(
                (-1) ** k * row[c] * minors.get(columns[:k] + columns[k + 1 :], 0)
                for k, c in enumerate(columns)
            )
            for columns in sorted(wider - minors.keys())
        }
    return minors.get(tuple(range(len(matrix))), 0)


# Defines the direction of a rotation where two columns have exactly the same length.
_TIE = 1e-150


def singular_value_decomposition(matrix: Array) -> tuple[Array, Array]:
    r"""Return B and V with ``matrix @ V == B``, V orthogonal and the columns of B orthogonal.

    The norms of B's columns are the singular values, unordered. One-sided Jacobi rotations make
    each pair of columns x, y orthogonal. With :math:`p = x\cdot y` and
    :math:`\delta = y\cdot y - x\cdot x`,

    .. math:: h = \sqrt{\delta^2+4p^2},\quad u = h + |\delta|,\quad c = \frac u{\sqrt{2hu}},\quad
        s = \frac{2p\,\mathrm{sgn}\,\delta}{\sqrt{2hu}},

    and the squared lengths change by :math:`h s^2`. The pairs are ordered in rounds of disjoint
    ones, whose rotations a processor computes in parallel. A fixed number of sweeps over all pairs
    converges to rounding error (asymptotically quadratically), with high relative accuracy even
    for small singular values.

    Args:
        matrix: Shape (k, m) with m <= k; numbers or symbols.

    Returns:
        New arrays B, shape (k, m), and V, shape (m, m), dtype object.

    Validity: m up to about 10.

    Cost: 4 to 7 sweeps of m (m - 1) / 2 rotations.

    Source: R. P. Brent, F. T. Luk, The solution of singular-value and symmetric eigenvalue
    problems on multiprocessor arrays, SIAM J. Sci. Stat. Comput. 6, 1985 (order of the pairs).
    """
    B, m = np.array(matrix, dtype=object), matrix.shape[1]
    V = identity(m, object)
    for _ in range(0 if m == 1 else m + 1 if m < 5 else 7):
        squares = [column @ column for column in B.T]
        for pairs in _rounds(m):
            rotations = [_rotation(B, squares, i, j) for i, j in pairs]
            for (i, j), (c, s) in zip(pairs, rotations, strict=True):
                for X in (B, V):
                    x, y = X[:, i], X[:, j]
                    X[:, i], X[:, j] = c * x - s * y, s * x + c * y
    return B, V


def _rounds(m: int) -> list[list[tuple[int, int]]]:
    """Return all pairs of m columns, in rounds of disjoint pairs."""
    half, ring = (m + 1) // 2, list(range(m + m % 2))
    rounds = []
    for _ in ring[1:]:
        pairs = zip(ring[:half], ring[: half - 1 : -1], strict=True)
        rounds.append([(min(pair), max(pair)) for pair in pairs if max(pair) < m])
        ring[1:] = [ring[-1], *ring[1:-1]]
    return rounds


def _rotation(B: Array, squares: list[Scalar], i: int, j: int) -> tuple[Scalar, Scalar]:
    """Return the cosine and sine of the rotation that makes two columns orthogonal.

    Updates their squared lengths.
    """
    product, delta = B[:, i] @ B[:, j], squares[j] - squares[i] + _TIE
    size = sqrt(delta * delta + 4 * product * product)
    longer = size + maximum(delta, -delta)
    scale = 1 / sqrt(2 * size * longer)
    s = 2 * select(delta, 0.0, -product, product) * scale
    change = select(delta, 0.0, -size, size) * s * s
    squares[i], squares[j] = squares[i] - change, squares[j] + change
    return longer * scale, s


def cholesky(matrix: Array) -> Array:
    """Return the Cholesky factor L, lower triangular, of L L^T; new array, shape (n, n)."""
    n = len(matrix)
    L = zeros((n, n), object)
    for j in range(n):
        L[j, j] = sqrt(matrix[j, j] - L[j, :j] @ L[j, :j])
        for i in range(j + 1, n):
            L[i, j] = (matrix[i, j] - L[i, :j] @ L[j, :j]) / L[j, j]
    return L


def solve_lower(L: Array, right: Array) -> Array:
    """Return L^-1 right for lower triangular L; ``right`` and the new result (n,) or (n, k)."""
    x = np.array(right, dtype=object)
    for i in range(len(L)):
        for k in range(i):
            x[i] = x[i] - L[i, k] * x[k]
        x[i] = x[i] / L[i, i]
    return x


def solve_upper(L: Array, right: Array) -> Array:
    """Return L^-T right for lower triangular L; ``right`` and the new result (n,) or (n, k)."""
    x = np.array(right, dtype=object)
    for i in reversed(range(len(L))):
        for k in range(i + 1, len(L)):
            x[i] = x[i] - L[k, i] * x[k]
        x[i] = x[i] / L[i, i]
    return x


def solve_positive_definite(matrix: Array, right: Array) -> Array:
    r"""Solve ``matrix @ x = right`` for a symmetric positive definite matrix.

    Accepts symbols: the factorization :math:`L D L^T` needs no pivoting and no square root.

    Args:
        matrix: Symmetric positive definite, shape (n, n).
        right: Right-hand side, shape (n,) or (n, k).

    Returns:
        New array of the shape of ``right``.
    """
    if matrix.dtype.kind == 'f' and right.dtype.kind == 'f':
        return np.linalg.solve(matrix, right)
    n = len(matrix)
    L, D = identity(n, object), zeros(n, object)
    for j in range(n):
        D[j] = matrix[j, j] - sum((L[j, k] * L[j, k] * D[k] for k in range(j)), 0)
        for i in range(j + 1, n):
            s = sum((L[i, k] * L[j, k] * D[k] for k in range(j)), 0)
            L[i, j] = (matrix[i, j] - s) / D[j]
    return solve_upper(L, (solve_lower(L, right).T / D).T)


def squared_norm(matrix: Array) -> Scalar:
    """Return the squared Frobenius norm: the sum of the squares of all entries."""
    total: Scalar = 0
    for x in matrix.ravel():
        total = total + x * x
    return total
