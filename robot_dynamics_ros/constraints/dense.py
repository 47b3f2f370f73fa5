# SPDX-License-Identifier: Apache-2.0
"""Small dense algebra without branches, over numbers or symbols: what a traced law can use."""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array, Scalar, identity, sqrt, zeros

# Decides the direction of a rotation where two columns have one length exactly.
_TIE = 1e-150


def singular_value_decomposition(matrix: Array) -> tuple[Array, Array]:
    r"""Return B and V with ``matrix @ V == B``, V orthogonal and the columns of B orthogonal.

    The lengths of B's columns are the singular values, unordered. One-sided Jacobi rotations

    .. math:: t = \frac{2\,x\cdot y\;\mathrm{sgn}\,\delta}{|\delta|+\sqrt{\delta^2+4(x\cdot y)^2}},
        \quad \delta = y\cdot y - x\cdot x,\quad c = \frac1{\sqrt{1+t^2}},\quad s = ct

    make each pair of columns x, y orthogonal; a fixed number of sweeps over all pairs converges
    to rounding (quadratically in the end), small singular values to high relative accuracy.

    Args:
        matrix: Shape (k, m) with m <= k; numbers or symbols.

    Returns:
        New arrays B, shape (k, m), and V, shape (m, m), dtype object.

    Validity: m up to about 10.

    Cost: 4 to 7 sweeps of m (m - 1) / 2 rotations.
    """
    B, m = np.array(matrix, dtype=object), matrix.shape[1]
    V = identity(m, object)
    for _ in range(0 if m == 1 else m + 1 if m < 5 else 7):
        for i in range(m):
            for j in range(i + 1, m):
                c, s = _rotation(B[:, i], B[:, j])
                for X in (B, V):
                    x, y = X[:, i], X[:, j]
                    X[:, i], X[:, j] = c * x - s * y, s * x + c * y
    return B, V


def _rotation(x: Array, y: Array) -> tuple[Scalar, Scalar]:
    """Return cosine and sine of the rotation that makes two columns orthogonal."""
    delta, product = y @ y - x @ x + _TIE, x @ y
    size = sqrt(delta * delta)
    t = 2 * product * (delta / size) / (size + sqrt(delta * delta + 4 * product * product))
    c = 1 / sqrt(1 + t * t)
    return c, c * t


def cholesky(matrix: Array) -> Array:
    """Return the lower triangular L of a positive definite matrix L L^T, new, shape (n, n)."""
    n = len(matrix)
    L = zeros((n, n), object)
    for j in range(n):
        L[j, j] = sqrt(matrix[j, j] - L[j, :j] @ L[j, :j])
        for i in range(j + 1, n):
            L[i, j] = (matrix[i, j] - L[i, :j] @ L[j, :j]) / L[j, j]
    return L


def forward(L: Array, right: Array) -> Array:
    """Return L^-1 right of a lower triangular L; right and the new result (n,) or (n, k)."""
    x = np.array(right, dtype=object)
    for i in range(len(L)):
        for k in range(i):
            x[i] = x[i] - L[i, k] * x[k]
        x[i] = x[i] / L[i, i]
    return x


def backward(L: Array, right: Array) -> Array:
    """Return L^-T right of a lower triangular L; right and the new result (n,) or (n, k)."""
    x = np.array(right, dtype=object)
    for i in reversed(range(len(L))):
        for k in range(i + 1, len(L)):
            x[i] = x[i] - L[k, i] * x[k]
        x[i] = x[i] / L[i, i]
    return x


def positive_part(x: Scalar) -> Scalar:
    """Return max(x, 0)."""
    return (x + sqrt(x * x)) / 2


def squares(matrix: Array) -> Scalar:
    """Return the sum of the squares of all entries."""
    total: Scalar = 0
    for x in matrix.ravel():
        total = total + x * x
    return total
