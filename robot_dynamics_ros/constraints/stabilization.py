# SPDX-License-Identifier: Apache-2.0
r"""Zaremba's stabilizing control (3.1) as pure functions of given matrices.

.. math:: \ddot q_c = \Gamma^{\#}u + P\,v,\quad u = -(\beta+\Gamma_1\dot f+\Gamma_0f), \qquad
          Q_c = A\ddot q_c + b

For :math:`m\le n` and full row rank the closed loop is
:math:`\ddot f+\Gamma_1\dot f+\Gamma_0f=0` exactly, for any v (3.5). For :math:`m>n` only its
projection :math:`\Gamma^T(\ddot f+\Gamma_1\dot f+\Gamma_0f)=0` holds.

Source: constraint-stabilization, section 3; errata C3-C5, C7, C8, C10.

The pseudo-inverse covers wide, square, tall and singular Jacobians. With a metric
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

so that no direction is amplified by more than about :math:`1/\sigma_0`; directions above the
threshold remain exact. The projector does not use :math:`\phi`, because null-space motion would
then leak into the task: :math:`\psi = \sigma^2/(\sigma^2+\varepsilon^2)`, with
:math:`\varepsilon = 10^{-12}\lVert\tilde\Gamma\rVert`, is 1 for all directions in the row space
of the Jacobian and 0 for lost directions.

Source: constraint-stabilization, sections 3.1, 3.3, 4; errata C5, C7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.errors import ParameterError, ShapeError, UnknownNameError
from robot_dynamics_ros.spatial.linear_algebra import (
    cholesky,
    singular_value_decomposition,
    solve_lower,
    solve_upper,
    squared_norm,
)
from robot_dynamics_ros.spatial.scalar import Array, identity, positive_part, sqrt
from robot_dynamics_ros.spatial.validation import (
    array,
    as_finite_array,
    jacobian_matrix,
    metric_root,
)

INVERSES = ('euclidean', 'inertia')


class Stabilized(NamedTuple):
    r"""Result of :func:`stabilizing_effort`; unpacks as ``effort, acceleration, ...``.

    Attributes:
        effort: :math:`Q_c`, shape (n,), N m or N.
        acceleration: :math:`\ddot q_c`, shape (n,), rad/s^2 or m/s^2.
        sigma_min: Smallest singular value of Gamma.
        condition: Condition number of Gamma; infinite if it is singular.
        task_acceleration: :math:`u`, the commanded acceleration of f, shape (m,).
        residual: :math:`\Gamma\ddot q_c - u`, shape (m,); zero unless damped or m > n.
        damped: Whether a singular value was below the threshold, so that (3.5) is approximate.
    """

    effort: Array
    acceleration: Array
    sigma_min: float
    condition: float
    task_acceleration: Array
    residual: Array
    damped: bool


def stabilizing_effort(
    A: Array,
    b: Array,
    Gamma: Array,
    beta: Array,
    f: Array,
    f_dot: Array,
    G0: Array,
    G1: Array,
    v: Array | None = None,
    inverse: str = 'euclidean',
    weights: Array | None = None,
    *,
    metric: Array | None = None,
    singularity: Singularity | None = None,
) -> Stabilized:
    r"""Return the effort that makes f decay as designed, by the control law (3.1), (3.3).

    Args:
        A: Mass matrix, shape (n, n).
        b: Bias force (velocity terms, gravity, external wrenches), shape (n,), N m or N.
        Gamma: Constraint Jacobian, shape (m, n).
        beta: Drift :math:`\dot\Gamma\dot q+(\partial f/\partial t)^{\cdot}`, shape (m,).
        f: Constraint value, shape (m,).
        f_dot: Its rate, shape (m,).
        G0: Gain :math:`\Gamma_0`, shape (m, m), (m,) for a diagonal, or a scalar, 1/s^2.
        G1: Gain :math:`\Gamma_1`, likewise, 1/s.
        v: Free acceleration, projected into the null space, shape (n,); zero if None.
        inverse: Joint metric: 'euclidean' (the paper) or 'inertia' (dynamically consistent).
        weights: Row weights for m > n, shape (m,) or (m, m); ones if None.
        metric: Joint metric, shape (n,) or (n, n), that replaces the one of ``inverse``; for arms
            with both revolute and prismatic joints.
        singularity: Treatment of near rank loss; the default is exact above 1e-6.

    Returns:
        New arrays, see :class:`Stabilized`; bounded for any Gamma, including singular ones.

    Raises:
        ShapeError: An argument has the wrong shape.
        NonFiniteError: An argument is not finite.
        UnknownNameError: There is no such inverse.
        ParameterError: A metric or weight is not positive definite, or an argument is not numeric.

    Validity: :math:`m\le n` with rank m along the program (errata C8, C9). For m > n see
        ``error_dynamics.projected_gains``. For m >= n and full rank v has no effect.

    Cost: one singular value decomposition, about 50 us; the control tick uses compiled code.
    """
    Gamma = jacobian_matrix(Gamma)
    m, n = Gamma.shape
    A, b = array('A', A, (n, n)), array('b', b, (n,))
    v = np.zeros(n) if v is None else array('v', v, (n,))
    beta, f, f_dot = array('beta', beta, (m,)), array('f', f, (m,)), array('f_dot', f_dot, (m,))
    if inverse not in INVERSES:
        raise UnknownNameError('inverse', inverse, INVERSES)
    if metric is None and inverse == 'inertia':
        metric = A
    u = task_acceleration(beta, f, f_dot, gain_matrix('G0', G0, m), gain_matrix('G1', G1, m))
    solution = TaskInverse(Gamma, metric, weights, singularity)
    a = solution.solve(u) + solution.project(v)
    return Stabilized(
        A @ a + b,
        a,
        solution.sigma_min,
        solution.condition,
        u,
        Gamma @ a - u,
        solution.damped,
    )


def task_acceleration(beta: Array, f: Array, f_dot: Array, G0: Array, G1: Array) -> Array:
    r"""Return :math:`u=-(\beta+\Gamma_1\dot f+\Gamma_0f)`, new array of shape (m,)."""
    return -(beta + G1 @ f_dot + G0 @ f)


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
        if not 0.0 < self.threshold < math.inf:
            raise ParameterError('threshold', self.threshold, 'must be positive and finite')
        if self.damping is not None and not 0.0 < self.damping < math.inf:
            raise ParameterError('damping', self.damping, 'must be positive and finite')

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
        seen: The singular values that are compared with the threshold: those of the scaled
            Jacobian in the unit of the unscaled one.

    Args:
        Gamma: Constraint Jacobian, shape (m, n).
        metric: Positive definite joint metric W, shape (n, n); the identity if None.
        weights: Row weights, shape (m,) or (m, m) positive definite; ones if None.
        singularity: Treatment of near rank loss; ``Singularity()`` if None.

    Raises:
        ShapeError: The shape of a matrix does not match the Jacobian.
        ParameterError: A matrix is not positive definite.
    """

    def __init__(
        self,
        Gamma: Array,
        metric: Array | None = None,
        weights: Array | None = None,
        singularity: Singularity | None = None,
    ) -> None:
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
        self.seen = np.array([sqrt(x / ratio) for x in square])
        self.sigma = self.seen
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
        return bool(min(self.seen) < self._singularity.threshold)

    @property
    def sigma_min(self) -> float:
        """The smallest singular value of the Jacobian."""
        return float(self.sigma[-1])

    @property
    def condition(self) -> float:
        """The condition number of the Jacobian; infinite if it is singular."""
        return float(self.sigma[0] / self.sigma[-1]) if self.sigma[-1] > 0.0 else np.inf

    def solve(self, u: Array) -> Array:
        r"""Return :math:`\Gamma^{\#}u`, the joint acceleration for a task acceleration."""
        components = self._inversion * (self._left.T @ (self._R @ u))
        return self._solve.upper(self._L, self._right @ components)

    def project(self, v: Array) -> Array:
        r"""Return :math:`Pv`, the null-space part of a joint acceleration."""
        w = self._L.T @ v
        row_part = self._right @ (self._projection * (self._right.T @ w))
        return self._solve.upper(self._L, w - row_part)

    def reactions(self, effort: Array) -> Array:
        r"""Return :math:`\Gamma^{\#T}\tau`, the reactions of joint efforts."""
        components = self._inversion * (self._right.T @ self._solve.lower(self._L, effort))
        return self._R.T @ (self._left @ components)

    def matrix(self) -> Array:
        r"""Return the matrix :math:`\Gamma^{\#}`, shape (n, m)."""
        return np.column_stack([self.solve(e) for e in np.eye(len(self._R))])


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
