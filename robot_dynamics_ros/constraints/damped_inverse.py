# SPDX-License-Identifier: Apache-2.0
r"""The damped weighted pseudo-inverse of a constraint Jacobian and its null-space projector.

It covers wide, square, tall and singular Jacobians. With a metric
:math:`W = LL^T` on the joints (:math:`E` in the paper) and weights :math:`W_f` on the rows, it
follows from the singular value decomposition
:math:`\tilde\Gamma = W_f^{1/2}\Gamma L^{-T} = U\Sigma V^T`:

.. math:: \Gamma^{\#} = L^{-T}\,V\,\phi(\Sigma)\,U^T\,W_f^{1/2}, \qquad
          P = L^{-T}(E - V\,\psi(\Sigma)\,V^T)L^T .

For :math:`\phi(\sigma) = 1/\sigma` it is :math:`W^{-1}\Gamma^T(\Gamma W^{-1}\Gamma^T)^{-1}` if
:math:`m\le n` and :math:`(\Gamma^TW_f\Gamma)^{-1}\Gamma^TW_f` if :math:`m\ge n`. Below a
threshold :math:`\sigma_0`, the inverse is damped,

.. math:: \phi(\sigma) = \frac{\sigma}{\sigma^2+\lambda^2}, \qquad
          \lambda^2 = \lambda_{max}^2\,\big(1-(\sigma/\sigma_0)^2\big),

so that with :math:`\lambda_{max} = \sigma_0` no direction is amplified by more than
:math:`1/\sigma_0`; directions above the threshold remain exact. The projector does not use
:math:`\phi`, because null-space motion would then leak into the task: :math:`\psi =
\sigma^2/(\sigma^2+\varepsilon^2)`, with :math:`\varepsilon =
10^{-12}\lVert\tilde\Gamma\rVert`, is 1 for all directions in the row space of the Jacobian and
0 for lost directions.

Source: constraint-stabilization, sections 3.1, 3.3, 4; errata C5, C7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.errors import ShapeError
from robot_dynamics_ros.spatial.linear_algebra import (
    cholesky,
    singular_value_decomposition,
    solve_lower,
    solve_upper,
    squared_norm,
)
from robot_dynamics_ros.spatial.scalar import Array, identity, positive_part, sqrt
from robot_dynamics_ros.spatial.validation import metric_root, require_positive, scalars

#: The projector's weight is 1/2 for a singular value of this fraction of the Jacobian's norm.
RANK_TOLERANCE = 1e-12
#: Avoids division by zero.
TINY = 1e-150


@dataclass(frozen=True)
class Singularity:
    r"""Damping near rank loss of the constraint Jacobian.

    Attributes:
        threshold: :math:`\sigma_0`; singular values above it are inverted exactly.
        damping: :math:`\lambda_{max}`; the threshold if None, which limits the amplification of
            any direction to :math:`1/\sigma_0`.

    Both are in the unit of the Jacobian's entries, m or rad per joint unit.
    """

    threshold: float = 1e-6
    damping: float | None = None

    def __post_init__(self) -> None:
        require_positive(threshold=self.threshold, damping=self.largest_damping)

    @property
    def largest_damping(self) -> float:
        r"""The damping at a singular value of zero, :math:`\lambda_{max}`."""
        return self.threshold if self.damping is None else self.damping


class TaskInverse:
    r"""The damped weighted pseudo-inverse of a Jacobian and its null-space projector.

    Numbers are decomposed by LAPACK, symbols by Jacobi rotations without branches, into columns
    :math:`B = \tilde\Gamma^T U` (or :math:`\tilde\Gamma V`), scaled by the singular values.

    Attributes:
        sigma: Singular values of the unscaled Jacobian, shape (min(m, n),); largest first for
            numbers, unordered for symbols.
        scaled_sigma: The singular values that are compared with the threshold: those of the scaled
            Jacobian in the unit of the unscaled one.

    Args:
        Gamma: Constraint Jacobian, shape (m, n).
        metric: Positive definite joint metric W, shape (n, n); the identity if None.
        weights: Row weights, shape (m,) or (m, m) positive definite; ones if None.
        singularity: Treatment of near rank loss; ``Singularity()`` if None.

    Raises:
        ShapeError: The Jacobian is no matrix, or the shape of another one does not match it.
        NonFiniteError: A number is not finite.
        ParameterError: A matrix is not positive definite.
    """

    def __init__(
        self,
        Gamma: Array,
        metric: Array | None = None,
        weights: Array | None = None,
        singularity: Singularity | None = None,
    ) -> None:
        Gamma = scalars('Gamma', Gamma, ('m', 'n'))
        (m, n), dtype = Gamma.shape, Gamma.dtype
        self._singularity = singularity or Singularity()
        self._solve = _SOLVERS[dtype.kind == 'O']
        self._L = identity(n, dtype) if metric is None else self._solve.root(metric, n)
        # Any R with R^T R = W_f gives the same inverse.
        self._R = identity(m, dtype) if weights is None else metric_root('weights', weights, m).T
        scaled = self._solve.lower(self._L, (self._R @ Gamma).T)
        # One of the two bases is scaled by the singular values, the other is orthonormal.
        scaled_basis, basis = self._solve.decompose(scaled if m <= n else scaled.T)
        self._right, self._left = (scaled_basis, basis) if m <= n else (basis, scaled_basis)
        square = np.array([column @ column for column in scaled_basis.T])
        unweighted = metric is None and weights is None
        # The threshold is in the unit of the unscaled Jacobian.
        ratio = 1 if unweighted else (squared_norm(scaled) + TINY) / (squared_norm(Gamma) + TINY)
        self.scaled_sigma = np.array([sqrt(x / ratio) for x in square])
        self.sigma = self.scaled_sigma
        if not unweighted:
            columns = self._solve.decompose(Gamma.T if m <= n else Gamma)[0].T
            self.sigma = np.array([sqrt(column @ column) for column in columns])
        limit = ratio * self._singularity.threshold**2
        strength = ratio * self._singularity.largest_damping**2
        damping = np.array([strength * positive_part(1 - x / limit) for x in square])
        floor = RANK_TOLERANCE**2 * sum(square) + TINY
        self._inversion = 1 / (square + damping + TINY)
        self._projection = 1 / (square + floor) if m <= n else square / (square + floor)

    @property
    def damped(self) -> bool:
        """Whether a singular value is below the threshold; numbers only."""
        return bool(min(self.scaled_sigma) < self._singularity.threshold)

    @property
    def sigma_min(self) -> float:
        """The smallest singular value of the Jacobian."""
        return float(self.sigma[-1])

    @property
    def condition(self) -> float:
        """The condition number of the Jacobian; infinite if it is singular."""
        return float(self.sigma[0] / self.sigma[-1]) if self.sigma[-1] > 0.0 else np.inf

    def solve(self, u: Array) -> Array:
        r"""Return :math:`\Gamma^{\#}u`, the joint acceleration for a task acceleration.

        Here and below, vectors may be columns of a matrix; a wrong length is a ShapeError.
        """
        _require_rows('u', u, self._R)
        components = self._inversion * (self._left.T @ (self._R @ u)).T
        return self._solve.upper(self._L, self._right @ components.T)

    def project(self, v: Array) -> Array:
        r"""Return :math:`Pv`, the null-space part of a joint acceleration."""
        _require_rows('v', v, self._L)
        w = self._L.T @ v
        row_part = self._right @ (self._projection * (self._right.T @ w).T).T
        return self._solve.upper(self._L, w - row_part)

    def reactions(self, effort: Array) -> Array:
        r"""Return :math:`\Gamma^{\#T}\tau`, the reactions of joint efforts."""
        _require_rows('effort', effort, self._L)
        components = self._inversion * (self._right.T @ self._solve.lower(self._L, effort)).T
        return self._R.T @ (self._left @ components.T)

    def matrix(self) -> Array:
        r"""Return the matrix :math:`\Gamma^{\#}`, shape (n, m)."""
        return self.solve(np.eye(len(self._R)))


def _require_rows(name: str, value: Array, like: Array) -> None:
    if np.shape(value)[:1] != (len(like),):
        raise ShapeError(name, np.shape(value), f'({len(like)},) or ({len(like)}, k)')


class _Solvers(NamedTuple):
    """Factorizations for numbers or for symbols."""

    root: Callable[[Array, int], Array]
    lower: Callable[[Array, Array], Array]
    upper: Callable[[Array, Array], Array]
    decompose: Callable[[Array], tuple[Array, Array]]


def _decomposition(matrix: Array) -> tuple[Array, Array]:
    U, s, Vt = np.linalg.svd(matrix, full_matrices=False)
    return U * s, Vt.T


#: By whether the Jacobian has symbols.
_SOLVERS = {
    False: _Solvers(
        lambda metric, n: metric_root('metric', metric, n),
        lambda L, x: np.linalg.solve(L, x),  # looked up when called: help needs no NumPy
        lambda L, x: np.linalg.solve(L.T, x),
        _decomposition,
    ),
    True: _Solvers(
        lambda metric, _: cholesky(metric),
        solve_lower,
        solve_upper,
        singular_value_decomposition,
    ),
}
