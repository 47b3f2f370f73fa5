# SPDX-License-Identifier: Apache-2.0
r"""Least squares with a stated trust in what was known before, and deviations that can be trusted.

.. math:: \min_x \sum_j |y_j - X_j x|^2 / \kappa s_j^2 + |\Sigma^{-1}(x - x_0)|^2

with the deviation :math:`s_j` of each joint's residual. Deviations: by leaving out one stretch of
consecutive samples at a time (jackknife), and what data and trust together still allow.

Source: Hoerl and Kennard 1970 (ridge); Efron and Stein 1981 (jackknife).
"""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.identification.least_squares import student_factor
from robot_dynamics_ros.spatial.scalar import Array

STRETCHES = 12
TIED = 10.0  # samples that say what one independent sample would
_FIRST = 0.1  # residual that is assumed at first, relative to the RMS effort
_EXACT = 1e-6  # the least residual, likewise
_ROUNDS = 3


class Ridge:
    """One problem.

    Args:
        columns: Effort by a unit of each unknown, shape (N, n, p).
        effort: Shape (N, n), N m or N.
        usable: Which efforts count, shape (N, n).
        start: x0, shape (p,).
        spread: Standard deviations of x0, shape (p,).
    """

    def __init__(
        self, columns: Array, effort: Array, usable: Array, start: Array, spread: Array
    ) -> None:
        self._X, self._spread, self._start = columns, spread, start
        self._usable = usable
        self._rest = np.where(usable, effort - columns @ start, 0.0)
        self._count = np.maximum(usable.sum(axis=0), 1)
        self._rms = rms_effort(effort, usable)
        self._noise = _FIRST * self._rms
        self.values = start
        for _ in range(_ROUNDS):
            self._sum_up()
            self.values = self._solve(self._H.sum(axis=0), self._h.sum(axis=0))
            left = np.where(usable, self._rest - columns @ (self.values - start), 0.0)
            deviation = np.sqrt(np.square(left).sum(axis=0) / self._count)
            self._noise = np.maximum(deviation, _EXACT * self._rms)

    def _sum_up(self) -> None:
        weight = np.where(self._usable, 1.0 / self._noise, 0.0)
        X = self._X * weight[:, :, np.newaxis] * self._spread
        y = self._rest * weight
        cuts = np.array_split(np.arange(len(X)), STRETCHES)
        self._H = np.array([np.tensordot(X[c], X[c], ((0, 1), (0, 1))) for c in cuts]) / TIED
        self._h = np.array([np.tensordot(X[c], y[c], ((0, 1), (0, 1))) for c in cuts]) / TIED

    def _solve(self, H: Array, h: Array) -> Array:
        return np.asarray(self._start + self._spread * np.linalg.solve(H + np.eye(len(H)), h))

    def covariance(self) -> Array:
        """Return the covariance of the values, shape (p, p)."""
        H, h = self._H.sum(axis=0), self._h.sum(axis=0)
        own = self._spread[:, np.newaxis] * np.linalg.inv(H + np.eye(len(H))) * self._spread
        best = self._solve(H, h)
        moves = np.array(
            [self._solve(H - A, h - b) - best for A, b in zip(self._H, self._h, strict=True)]
        )
        s = student_factor(STRETCHES)
        return np.asarray(own + s * s * (STRETCHES - 1) / STRETCHES * moves.T @ moves)


def rms_effort(effort: Array, usable: Array) -> Array:
    """Return the RMS of each joint's usable efforts, shape (n,); a little where there are none."""
    square = np.square(np.where(usable, effort, 0.0)).sum(axis=0)
    rms = np.sqrt(square / np.maximum(usable.sum(axis=0), 1))
    return np.asarray(np.maximum(rms, _EXACT * max(float(rms.max()), np.finfo(float).tiny)))
