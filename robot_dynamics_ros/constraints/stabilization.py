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
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.errors import ParameterError, ShapeError, UnknownNameError
from robot_dynamics_ros.spatial.linear_algebra import array, jacobian_matrix, metric_root, numbers
from robot_dynamics_ros.spatial.scalar import Array

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
    gain = numbers(name, gain)
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
    """The damped weighted pseudo-inverse of a Jacobian and its null-space projector.

    Attributes:
        sigma: Singular values of the unscaled Jacobian, largest first, shape (min(m, n),).
        damped: Whether a singular value is below the threshold.

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
        m, n = Gamma.shape
        singularity = singularity or Singularity()
        self._L = np.eye(n) if metric is None else metric_root('metric', metric, n)
        # Any R with R^T R = W_f gives the same inverse.
        self._R = np.eye(m) if weights is None else metric_root('weights', weights, m).T
        scaled = np.linalg.solve(self._L, (self._R @ Gamma).T).T
        self._U, self._s, self._Vt = np.linalg.svd(scaled, full_matrices=False)
        unweighted = metric is None and weights is None
        self.sigma = self._s if unweighted else np.linalg.svd(Gamma, compute_uv=False)
        # The threshold is in the unit of the unscaled Jacobian.
        ratio = 1.0 if unweighted else _ratio(self._s, self.sigma)
        threshold = ratio * singularity.threshold
        damping = ratio * singularity.largest_damping
        below = self._s < threshold
        self.damped = bool(below.any())
        square = np.where(below, damping**2 * (1.0 - (self._s / threshold) ** 2), 0.0)
        self._phi = self._s / (self._s**2 + square)
        floor = (RANK_TOLERANCE * np.linalg.norm(self._s)) ** 2 + TINY
        self._psi = self._s**2 / (self._s**2 + floor)

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
        return np.linalg.solve(self._L.T, self._Vt.T @ (self._phi * (self._U.T @ (self._R @ u))))

    def project(self, v: Array) -> Array:
        r"""Return :math:`Pv`, the null-space part of a joint acceleration."""
        scaled = self._L.T @ v
        row_part = self._Vt.T @ (self._psi * (self._Vt @ scaled))
        return np.linalg.solve(self._L.T, scaled - row_part)

    def matrix(self) -> Array:
        r"""Return the matrix :math:`\Gamma^{\#}`, shape (n, m)."""
        return np.column_stack([self.solve(e) for e in np.eye(len(self._R))])


def _ratio(scaled: Array, unscaled: Array) -> float:
    """Return the ratio of the Frobenius norms of the scaled and the unscaled Jacobian."""
    size = float(np.linalg.norm(unscaled))
    return float(np.linalg.norm(scaled)) / size if size > 0.0 else 1.0
