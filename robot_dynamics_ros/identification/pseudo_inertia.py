# SPDX-License-Identifier: Apache-2.0
r"""The pseudo-inertia of a body, and how far a set of bodies is from a nominal one.

.. math:: P = \int \begin{pmatrix}x\\1\end{pmatrix}\begin{pmatrix}x\\1\end{pmatrix}^T dm
    = \begin{pmatrix}\tfrac12\mathrm{tr}(I)E - I & m c\\ m c^T & m\end{pmatrix}

A body is physical exactly if :math:`P \succ 0`, which covers positive mass, positive moments and
the triangle inequality at once. P is linear in the ten parameters.

Source: Wensing, Kim and Slotine 2018 (pseudo-inertia, linear matrix inequality); Lee, Wensing and
Park 2020 (entropic divergence as regularization).
"""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.identification.regressor import PER_BODY, tensor_of
from robot_dynamics_ros.spatial.scalar import Array


def pseudo_inertia(block: Array) -> Array:
    """Return P (4, 4) of the ten parameters of a body."""
    tensor = tensor_of(block)
    P = np.empty((4, 4))
    P[:3, :3] = 0.5 * np.trace(tensor) * np.eye(3) - tensor
    P[:3, 3] = P[3, :3] = block[1:4]
    P[3, 3] = block[0]
    return P


def parameters_of(P: Array) -> Array:
    """Return the ten parameters of a pseudo-inertia (4, 4), new array of shape (10,)."""
    second = P[:3, :3]
    tensor = np.trace(second) * np.eye(3) - second
    return np.concatenate([[P[3, 3]], P[:3, 3], tensor[np.triu_indices(3)]])


def symmetric_units() -> Array:
    """Return the symmetric unit matrices, shape (10, 4, 4), the four diagonal ones first."""
    units = np.zeros((PER_BODY, 4, 4))
    places = [(k, k) for k in range(4)] + [(i, j) for i in range(4) for j in range(i + 1, 4)]
    for unit, (i, j) in zip(units, places, strict=True):
        unit[i, j] = unit[j, i] = 1.0
    return units


UNITS = symmetric_units()


class Divergence:
    r"""Distance from nominal of bodies and scalars in coordinates that are 1 and 0 there.

    .. math:: \lambda\sum_i[\mathrm{tr}\,Q_i - \log\det Q_i] - \mu\sum_k\log x_k,\qquad
        P_i = L_i Q_i L_i^T,\quad P_{0i} = L_i L_i^T

    The first sum is the entropic divergence, independent of frames and units and infinite at the
    border of what is physical; the second keeps friction and armature positive, faintly.

    Args:
        bodies: Number of bodies; ten coordinates each, the elements of Q, come first.
        positive: Which of the scalars after them must be positive.
        weight: lambda.
        barrier: mu.
    """

    def __init__(self, bodies: int, positive: Array, weight: float, barrier: float) -> None:
        self.bodies, self.positive = bodies, positive
        self.weight, self.barrier = weight, barrier
        self._links = PER_BODY * bodies

    def start(self, scalars: Array) -> Array:
        """Return the coordinates of the nominal bodies and of scalars, those made positive."""
        inside = np.where(self.positive, np.maximum(scalars, 1e-2), scalars)
        return np.concatenate([np.tile([1.0] * 4 + [0.0] * 6, self.bodies), inside])

    def _matrices(self, x: Array) -> Array:
        coordinates = x[: self._links].reshape(self.bodies, PER_BODY)
        return np.asarray(np.einsum('nk,kij->nij', coordinates, UNITS))

    def value(self, x: Array) -> float:
        """Return the function, infinite outside its domain."""
        scalars = x[self._links :][self.positive]
        moments = np.linalg.eigvalsh(self._matrices(x))
        if (scalars <= 0.0).any() or (moments <= 0.0).any():
            return float(np.inf)
        bodies = float((moments - np.log(moments)).sum())
        return self.weight * bodies - self.barrier * float(np.log(scalars).sum())

    def gradient(self, x: Array) -> Array:
        """Return the gradient, new array of the shape of x."""
        slopes = np.eye(4) - np.linalg.inv(self._matrices(x))
        scalars = np.zeros(len(x) - self._links)
        scalars[self.positive] = -self.barrier / x[self._links :][self.positive]
        bodies = self.weight * np.einsum('nij,kij->nk', slopes, UNITS)
        return np.concatenate([bodies.ravel(), scalars])

    def root(self, x: Array) -> Array:
        """Return a square matrix F with the Hessian ``F^T F``."""
        F = np.zeros((len(x), len(x)))
        for i, Q in enumerate(self._matrices(x)):
            inverse = np.linalg.inv(np.linalg.cholesky(Q))
            turned = (inverse @ UNITS @ inverse.T).reshape(PER_BODY, 16).T
            at = slice(PER_BODY * i, PER_BODY * (i + 1))
            F[at, at] = np.sqrt(self.weight) * np.linalg.qr(turned, mode='r')
        scalars = np.arange(self._links, len(x))[self.positive]
        F[scalars, scalars] = np.sqrt(self.barrier) / x[scalars]
        return F
