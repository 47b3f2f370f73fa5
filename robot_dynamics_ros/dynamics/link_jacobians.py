# SPDX-License-Identifier: Apache-2.0
r"""Jacobians of the centres of mass and their analytic derivatives, in the base frame.

Source: course notes "Dynamics" [N], section 4.2 of the rebuilt text, extended from a chain to a
tree. The notes differentiate positions by hand; here the derivatives follow from the rule that
a joint turns everything behind it: for joints j and k on the way to a link, j nearer the base,

.. math:: \frac{\partial z_k}{\partial q_j} = z_j\times z_k,\qquad
    \frac{\partial J_{P,k}}{\partial q_j} = \frac{\partial J_{P,j}}{\partial q_k}
    = z_j\times J_{P,k}

if joint j turns, and zero if it slides.
"""

from __future__ import annotations

from dataclasses import dataclass

from robot_dynamics_ros.model.kinematics import FramePose, body_poses
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.inertia import rotate_inertia
from robot_dynamics_ros.spatial.scalar import Array, common_dtype, cross, cross_matrix, zeros


@dataclass(frozen=True, eq=False)
class LinkJacobians:
    """What moves one link, in base axes; columns for the k joints on its path only.

    Attributes:
        path: Indices of the joints between base and link, base first, k of them.
        prismatic: Whether each of them slides.
        mass: kg.
        p_C: Centre of mass, shape (3,), m.
        inertia: Tensor about the centre of mass, shape (3, 3), kg m^2.
        J_P: Jacobian of the centre of mass, shape (3, k).
        J_O: Jacobian of the rotation, shape (3, k): the axis of a turning joint, 0 of a slider.
    """

    path: tuple[int, ...]
    prismatic: tuple[bool, ...]
    mass: object
    p_C: Array
    inertia: Array
    J_P: Array
    J_O: Array

    def mass_matrix(self) -> Array:
        r"""Return the link's share :math:`m J_P^TJ_P + J_O^T I J_O`, shape (k, k)."""
        return self.mass * (self.J_P.T @ self.J_P) + self.J_O.T @ self.inertia @ self.J_O

    def mass_matrix_derivative(self, s: int) -> Array:
        """Return the derivative of the share by the coordinate of joint ``path[s]``, (k, k)."""
        dJ_P, dJ_O = self._jacobian_derivatives(s)
        W = cross_matrix(self.J_O[:, s])
        turned = W @ self.inertia - self.inertia @ W
        half = self.mass * (dJ_P.T @ self.J_P) + dJ_O.T @ self.inertia @ self.J_O
        return half + half.T + self.J_O.T @ turned @ self.J_O

    def _jacobian_derivatives(self, s: int) -> tuple[Array, Array]:
        dJ_P, dJ_O = zeros(self.J_P.shape, self.J_P.dtype), zeros(self.J_O.shape, self.J_O.dtype)
        for t in range(len(self.path)):
            near, far = min(s, t), max(s, t)
            if not self.prismatic[near]:
                dJ_P[:, t] = cross(self.J_O[:, near], self.J_P[:, far])
            if s < t and not self.prismatic[s]:
                dJ_O[:, t] = cross(self.J_O[:, s], self.J_O[:, t])
        return dJ_P, dJ_O


def link_jacobians(tree: RobotTree, q: Array) -> list[LinkJacobians]:
    """Return the Jacobians of all links, in the order of the tree.

    Args:
        tree: The robot.
        q: Joint positions, shape (n,), rad or m.
    """
    dtype = common_dtype(q, tree.R_PJ, tree.p_PJ, tree.com, tree.inertia, tree.mass)
    poses = body_poses(tree, q)
    links: list[LinkJacobians] = []
    for i, (R, p) in enumerate(poses):
        path, p_C = tree.path(i), p + R @ tree.com[i]
        J_P, J_O = point_jacobian(tree, poses, path, p_C, dtype)
        prismatic = tuple(tree.prismatic[j] for j in path)
        inertia = rotate_inertia(R, tree.inertia[i])
        links.append(LinkJacobians(path, prismatic, tree.mass[i], p_C, inertia, J_P, J_O))
    return links


def point_jacobian(
    tree: RobotTree, poses: list[FramePose], path: tuple[int, ...], point: Array, dtype: object
) -> tuple[Array, Array]:
    r"""Return :math:`J_P, J_O` of a point of the last body of a path, both of shape (3, k).

    Column of a turning joint: :math:`z_j\times(p-p_j)` and :math:`z_j`; of a slider: :math:`z_j`
    and 0.

    Args:
        tree: The robot.
        poses: Poses of all bodies.
        path: Joints from the base to the body that carries the point, k of them.
        point: The point in base axes, shape (3,), m.
        dtype: Of the result.
    """
    J_P, J_O = zeros((3, len(path)), dtype), zeros((3, len(path)), dtype)
    for column, j in enumerate(path):
        R_WB, p_WB = poses[j]
        z = R_WB @ tree.axis[j]
        if tree.prismatic[j]:
            J_P[:, column] = z
        else:
            J_P[:, column] = cross(z, point - p_WB)
            J_O[:, column] = z
    return J_P, J_O
