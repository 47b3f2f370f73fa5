# SPDX-License-Identifier: Apache-2.0
r"""The pseudo-inverse of a constraint Jacobian in every case: wide, square, tall, singular.

With a metric :math:`W = LL^T` on the joints (:math:`E` in the paper) and weights :math:`W_f` on
the rows, the singular value decomposition
:math:`\tilde\Gamma = W_f^{1/2}\Gamma L^{-T} = U\Sigma V^T` gives all cases at once:

.. math:: \Gamma^{\#} = L^{-T}\,V\,\phi(\Sigma)\,U^T\,W_f^{1/2}, \qquad
          P = L^{-T}(E - V\,\psi(\Sigma)\,V^T)L^T .

:math:`\phi(\sigma) = 1/\sigma` makes it :math:`W^{-1}\Gamma^T(\Gamma W^{-1}\Gamma^T)^{-1}` for
:math:`m\le n` and :math:`(\Gamma^TW_f\Gamma)^{-1}\Gamma^TW_f` for :math:`m\ge n`. Below a
threshold :math:`\sigma_0`

.. math:: \phi(\sigma) = \frac{\sigma}{\sigma^2+\lambda^2}, \qquad
          \lambda^2 = \lambda_{max}^2\,\big(1-(\sigma/\sigma_0)^2\big),

so that no direction is amplified by more than about :math:`1/\sigma_0`; directions above the
threshold stay exact. The projector never uses :math:`\phi`, it would leak into the task:
:math:`\psi = \sigma^2/(\sigma^2+\varepsilon^2)` is 1 for every direction that the Jacobian has,
and 0 for one that it has lost, with :math:`\varepsilon = 10^{-12}\lVert\tilde\Gamma\rVert`.

Source: constraint-stabilization, sections 3.1, 3.3, 4; errata C5, C7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.spatial.linear_algebra import metric_root
from robot_dynamics_ros.spatial.scalar import Array

#: A singular value of this part of the Jacobian's norm counts half as zero.
RANK_TOLERANCE = 1e-12
#: Keeps divisions finite where everything vanishes.
TINY = 1e-150


@dataclass(frozen=True)
class Singularity:
    r"""What to do where the constraint Jacobian loses rank.

    Attributes:
        threshold: :math:`\sigma_0`: singular values above it are inverted exactly.
        damping: :math:`\lambda_{max}`; the threshold itself if None, which amplifies no direction
            by more than :math:`1/\sigma_0`.

    Both are in the unit of the Jacobian's entries, m or rad per joint unit.
    """

    threshold: float = 1e-6
    damping: float | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.threshold < np.inf:
            raise ParameterError('threshold', self.threshold, 'must be positive and finite')
        if self.damping is not None and not 0.0 < self.damping < np.inf:
            raise ParameterError('damping', self.damping, 'must be positive and finite')

    @property
    def largest_damping(self) -> float:
        r"""The damping at a singular value of zero, :math:`\lambda_{max}`."""
        return self.threshold if self.damping is None else self.damping


class TaskInverse:
    """The inverse of one Jacobian, in one metric.

    Attributes:
        sigma: Singular values of the Jacobian itself, largest first, shape (min(m, n),).
        damped: Whether a direction was below the threshold.

    Args:
        Gamma: Constraint Jacobian, shape (m, n).
        metric: Positive definite joint metric W, shape (n, n); the unit matrix if None.
        weights: Row weights, shape (m,) or (m, m) positive definite; ones if None.
        singularity: What to do where rank is lost.

    Raises:
        ShapeError: A matrix does not fit the Jacobian.
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
        # Any root R with R^T R = W_f gives the same inverse.
        self._R = np.eye(m) if weights is None else metric_root('weights', weights, m).T
        scaled = np.linalg.solve(self._L, (self._R @ Gamma).T).T
        self._U, self._s, self._Vt = np.linalg.svd(scaled, full_matrices=False)
        plain = metric is None and weights is None
        self.sigma = self._s if plain else np.linalg.svd(Gamma, compute_uv=False)
        # The threshold means the Jacobian's own unit, whatever the metric's.
        unit = 1.0 if plain else _ratio(self._s, self.sigma)
        threshold = unit * singularity.threshold
        damping = unit * singularity.largest_damping
        below = self._s < threshold
        self.damped = bool(below.any())
        square = np.where(below, damping**2 * (1.0 - (self._s / threshold) ** 2), 0.0)
        self._phi = self._s / (self._s**2 + square)
        lost = (RANK_TOLERANCE * np.linalg.norm(self._s)) ** 2 + TINY
        self._psi = self._s**2 / (self._s**2 + lost)

    @property
    def sigma_min(self) -> float:
        """The smallest singular value of the Jacobian."""
        return float(self.sigma[-1])

    @property
    def condition(self) -> float:
        """Largest by smallest singular value; infinite if the Jacobian is singular."""
        return float(self.sigma[0] / self.sigma[-1]) if self.sigma[-1] > 0.0 else np.inf

    def solve(self, u: Array) -> Array:
        r"""Return :math:`\Gamma^{\#}u`, the joint acceleration of a task acceleration."""
        return np.linalg.solve(self._L.T, self._Vt.T @ (self._phi * (self._U.T @ (self._R @ u))))

    def project(self, v: Array) -> Array:
        r"""Return :math:`Pv`, the part of a joint acceleration that the task does not feel."""
        seen = self._L.T @ v
        felt = self._Vt.T @ (self._psi * (self._Vt @ seen))
        return np.linalg.solve(self._L.T, seen - felt)

    def matrix(self) -> Array:
        r"""Return :math:`\Gamma^{\#}` itself, shape (n, m)."""
        return np.column_stack([self.solve(e) for e in np.eye(len(self._R))])


def _ratio(scaled: Array, own: Array) -> float:
    """Return how much larger the scaled Jacobian is than the Jacobian, in the Frobenius norm."""
    size = float(np.linalg.norm(own))
    return float(np.linalg.norm(scaled)) / size if size > 0.0 else 1.0
