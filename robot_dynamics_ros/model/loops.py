# SPDX-License-Identifier: Apache-2.0
r"""Loop equations :math:`\Phi(q) = 0` of a spanning tree, with Jacobian and drift.

A loop says that a frame on one branch of the tree meets a frame on another: along the axes of the
first frame their origins coincide in some components, and their axes agree in some components.

    translation   :math:`r = R_1^T(p_2 - p_1)`, the chosen components are zero
    rotation      :math:`X = R_1^T R_2`; about two axes: the third axes are parallel; about one or
                  three: the chosen components of :math:`\tfrac12(X - X^T)^\vee` are zero

Both are taken in the moving axes of the first frame, so their derivatives hold also where the
frames may slide or turn against each other in the free components.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.model.kinematics import frame_motion
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array, cross, cross_matrix

AXES = 'xyz'


@dataclass(frozen=True)
class Loop:
    """A joint of the real machine that the spanning tree leaves out.

    Attributes:
        name: The loop's name, for messages.
        first: Frame (link name) whose axes are used.
        second: Frame that meets it.
        position: Components of the origins that coincide, a part of ``'xyz'``.
        rotation: Components of the orientation that agree, a part of ``'xyz'``.
    """

    name: str
    first: str
    second: str
    position: str = 'xyz'
    rotation: str = ''

    @property
    def rows(self) -> tuple[int, ...]:
        """Place of each equation in a wrench ``[F; M]`` in the axes of the first frame."""
        return tuple(AXES.index(c) for c in self.position) + tuple(
            3 + AXES.index(c) for c in self.rotation
        )

    def joints(self, tree: RobotTree) -> tuple[int, ...]:
        """Return the joints between the two frames, those that carry both left out."""
        one, two = (set(tree.path(tree.frame(f).body)) for f in (self.first, self.second))
        return tuple(sorted(one ^ two))


class LoopMotion(NamedTuple):
    r"""The equations of a loop at a state of the tree, m rows in the order of ``Loop.rows``.

    Attributes:
        residual: :math:`\Phi`, shape (m,), m or (sine of) rad.
        J: :math:`\Phi_q`, shape (m, n).
        drift: :math:`\ddot\Phi` at zero joint acceleration, shape (m,).
    """

    residual: Array
    J: Array
    drift: Array


def loop_motion(tree: RobotTree, loop: Loop, q: Array, v: Array) -> LoopMotion:
    r"""Return the loop equations with Jacobian and drift.

    With :math:`\Omega_1 = R_1^T\omega_1`, relative :math:`\Omega = R_1^T(\omega_2-\omega_1)`:

    .. math::
        \ddot r &= R_1^T(\ddot p_2-\ddot p_1-\dot\omega_1\times d-\omega_1\times(\omega_1\times d))
        - 2\,\Omega_1\times\dot r, \qquad d = p_2 - p_1 \\
        \dot\Omega &= R_1^T(\dot\omega_2-\dot\omega_1) - \Omega_1\times\Omega, \qquad
        \ddot X = (\langle\dot\Omega\rangle + \langle\Omega\rangle^2)\,X .

    Args:
        tree: The spanning tree.
        loop: The loop.
        q: Joint positions, shape (n,), rad or m; numbers or symbols.
        v: Joint velocities, shape (n,), rad/s or m/s.

    Returns:
        New arrays. Columns of joints outside the loop are exactly zero.

    Source: kane-recursion, section 4.1 (loop equation and its derivatives), for any joints.
    """
    inside = np.isin(np.arange(tree.n), loop.joints(tree))
    q, v = np.where(inside, q, 0 * q), np.where(inside, v, 0 * v)  # what carries both drops out
    one, two = (frame_motion(tree, q, v, frame) for frame in (loop.first, loop.second))
    R, d = one.R_WF.T, two.p_WF - one.p_WF
    J_1 = one.J[3:]
    w_1 = J_1 @ v
    turning = cross(one.drift[3:], d) + cross(w_1, cross(w_1, d))
    J_r = R @ (two.J[:3] - one.J[:3] - cross(J_1, d))
    r_ddot = R @ (two.drift[:3] - one.drift[:3] - turning) - 2 * cross(R @ w_1, J_r @ v)
    J_w = R @ (two.J[3:] - J_1)
    w_dot = R @ (two.drift[3:] - one.drift[3:]) - cross(R @ w_1, J_w @ v)
    t = [AXES.index(c) for c in loop.position]
    turned = _rotation_motion(loop, R @ two.R_WF, J_w, J_w @ v, w_dot)
    J = np.vstack([J_r[t], turned.J])
    return LoopMotion(
        np.concatenate([(R @ d)[t], turned.residual]),
        np.where(inside, J, 0 * J),
        np.concatenate([r_ddot[t], turned.drift]),
    )


def _rotation_motion(loop: Loop, X: Array, J_w: Array, w: Array, w_dot: Array) -> LoopMotion:
    """Return the rotation rows from X, the relative Jacobian, velocity and acceleration."""
    m, n = len(loop.rotation), J_w.shape[1]
    J = np.empty((m, n), dtype=J_w.dtype)
    for j in range(n if m else 0):
        J[:, j] = _rotation_part(cross_matrix(J_w[:, j]) @ X, loop)
    X_ddot = (cross_matrix(w_dot) + cross_matrix(w) @ cross_matrix(w)) @ X
    return LoopMotion(_rotation_part(X, loop), J, _rotation_part(X_ddot, loop))


def _rotation_part(X: Array, loop: Loop) -> Array:
    """Return the linear function of X (or of a derivative of it) that the loop sets to zero."""
    chosen = [AXES.index(c) for c in loop.rotation]
    if len(chosen) == 2:
        free = 3 - sum(chosen)
        return X[chosen, free]
    vee = [(X[2, 1] - X[1, 2]) / 2, (X[0, 2] - X[2, 0]) / 2, (X[1, 0] - X[0, 1]) / 2]
    return np.array([vee[c] for c in chosen], dtype=X.dtype)


def rotation_gradient(loop: Loop, X: Array) -> Array:
    r"""Return the derivative of the rotation rows by :math:`\Omega`, shape (m, 3).

    A multiplier of a row is a moment along that row of the gradient, in the first frame's axes.
    """
    return np.array([_rotation_part(cross_matrix(e) @ X, loop) for e in np.eye(3)]).T


def is_flipped(tree: RobotTree, loop: Loop, q: Array) -> bool:
    """Say whether a root of the rotation equations is the false one, turned by half a turn."""
    if not loop.rotation:
        return False
    one, two = (frame_motion(tree, q, 0 * q, frame) for frame in (loop.first, loop.second))
    X = one.R_WF.T @ two.R_WF
    chosen = [AXES.index(c) for c in loop.rotation]
    if len(chosen) == 2:
        free = 3 - sum(chosen)
        return bool(X[free, free] < 0.0)
    cosine = np.trace(X) - (X[chosen[0], chosen[0]] if len(chosen) == 1 else 1.0)
    return bool(cosine < 0.0)
