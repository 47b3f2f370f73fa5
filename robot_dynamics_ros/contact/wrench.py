# SPDX-License-Identifier: Apache-2.0
r"""The wrench at a frame that explains external efforts, and the efforts that none explains.

Of all wrenches F the most probable one, small forces and smaller moments at a frame that a hand or
a tool touches,

.. math:: F = W J\,(J^T W J + \epsilon E)^{-1}\,\tau_{ext}, \qquad
   \tau_{rest} = \tau_{ext} - J^T F,

with W = diag(1, 1, 1, l^2, l^2, l^2) and the lever l of a moment. With six joints or more this is
the least-squares wrench, with fewer the least that gives the efforts; :math:`\epsilon` bounds it
near singular positions.
"""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import Kernel

_LEVER = 0.1  # l, m: a hand's breadth
_DAMPING = 1e-6  # of the largest entry of the matrix


class WrenchEstimate:
    r"""Explains external efforts by a wrench at a frame.

    Attributes:
        wrench: F, force on the robot and moment about the frame's origin, ``[F; M]``, in the
            frame's axes, shape (6,), N and N m.
        rest: :math:`\tau_{rest}`, shape (n,), N m or N.

    Args:
        frame_motion: Kernel ``(q, v, R, p, J, drift)`` of the frame.
        n: Number of joints.
    """

    def __init__(self, frame_motion: Kernel, n: int) -> None:
        self._frame_motion = frame_motion
        self._R, self._p, self._drift = np.zeros((3, 3)), np.zeros(3), np.zeros(6)
        self._J, self._still = np.zeros((6, n)), np.zeros(n)
        self._weight = np.array([1.0] * 3 + [_LEVER**2] * 3)[:, np.newaxis]
        self.wrench, self.rest = np.zeros(6), np.zeros(n)

    def update(self, q: Array, effort: Array) -> None:
        """Explain external efforts, shape (n,), N m or N, at positions q."""
        self._frame_motion(q, self._still, self._R, self._p, self._J, self._drift)
        weighted = self._weight * self._J
        A = self._J.T @ weighted
        A[np.diag_indices_from(A)] += _DAMPING * np.abs(A).max() + 1e-300
        wrench = weighted @ np.linalg.solve(A, effort)
        np.subtract(effort, self._J.T @ wrench, out=self.rest)
        self.wrench[:3], self.wrench[3:] = self._R.T @ wrench[:3], self._R.T @ wrench[3:]
