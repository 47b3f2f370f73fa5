# SPDX-License-Identifier: Apache-2.0
r"""Lagrange's equations in matrix form and Hamilton's equations, each term separately.

.. math:: M(q)\,a + C(q, v)\,v + B\,v + G(q) = \tau + J^T F

Source: course notes "Dynamics" [N], section 4 of the rebuilt text, extended from a chain to a
tree. Errata corrected: N8 and N9 (the last index of a Christoffel symbol is the row of C), N10
(the separated matrices depend only on q and are not the C and B of the equation above), N13 (the
rotation in M is that of the link), N21 (the canonical equations lack the forces).

The derivatives of the Jacobians of the centres of mass are analytic ([N] 4.2 differentiates
positions by hand). In the base frame, for joints j and k on the path to a link, j proximal to k,

.. math:: \frac{\partial z_k}{\partial q_j} = z_j\times z_k,\qquad
    \frac{\partial J_{P,k}}{\partial q_j} = \frac{\partial J_{P,j}}{\partial q_k}
    = z_j\times J_{P,k}

if joint j is revolute, and zero if it is prismatic.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.dynamics.energy import potential_energy
from robot_dynamics_ros.dynamics.formulation import Formulation, MultiplicationCount, Wrenches
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.kinematics import FramePose, body_poses
from robot_dynamics_ros.spatial.inertia import rotate_inertia
from robot_dynamics_ros.spatial.linear_algebra import solve_positive_definite
from robot_dynamics_ros.spatial.scalar import (
    Array,
    Scalar,
    common_dtype,
    cross,
    cross_matrix,
    zeros,
)
from robot_dynamics_ros.spatial.validation import scalars


class SeparatedForm(NamedTuple):
    r"""Velocity forces ``centrifugal @ v**2 + coriolis @ products`` with matrices of q only.

    Attributes:
        centrifugal: Shape (n, n), :math:`c_{jji}` in row i, column j.
        coriolis: Shape (n, n (n - 1) / 2), :math:`2 c_{jki}` in row i, column (j, k), j < k.
        pairs: The pair (j, k) of each column of ``coriolis``: the product ``v[j] * v[k]``.
    """

    centrifugal: Array
    coriolis: Array
    pairs: tuple[tuple[int, int], ...]

    def forces(self, v: Array) -> Array:
        """Return the centrifugal and Coriolis forces ``C v`` at velocities v, shape (n,).

        Raises:
            ShapeError, ParameterError, NonFiniteError: v is no such array.
        """
        v = scalars('v', v, self.centrifugal.shape[:1])
        products = np.array([v[j] * v[k] for j, k in self.pairs], dtype=v.dtype)
        return self.centrifugal @ (v * v) + self.coriolis @ products


class Lagrange(Formulation):
    """Equations of motion from the link Jacobians and their derivatives.

    Intended for derivation and verification, not for real time.

    Cost: (15 n^4 + 104 n^3 + 456 n^2 + 2971 n - 648) / 6 multiplications for a chain, see
    :class:`MultiplicationCount`.
    """

    name = 'lagrange'
    multiplications = MultiplicationCount((-648, 2971, 456, 104, 15), 6)

    def inverse_dynamics(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> Array:
        """Return the joint efforts of a motion; see the base class."""
        q, v, a = self.vectors(q=q, v=v, a=a)
        return self.mass_matrix(q) @ a + self.bias_forces(q, v, wrenches)

    def bias_forces(self, q: Array, v: Array, wrenches: Wrenches | None = None) -> Array:
        """Return ``C v + G - J^T F``, shape (n,)."""
        q, v = self.vectors(q=q, v=v)
        bias = self.coriolis_matrix(q, v) @ v + self.gravity_forces(q)
        rows = self.body_wrenches(wrenches)
        return bias if rows is None else bias - self._joint_forces(q, rows)

    def mass_matrix(self, q: Array) -> Array:
        r"""Return :math:`M = \sum_i m_i J_P^TJ_P + J_O^T\,R_i I_i R_i^T J_O`, shape (n, n).

        Source: [N] 4.2, with erratum N13.
        """
        (q,) = self.vectors(q=q)
        M = zeros((self.tree.n, self.tree.n), self._dtype(q))
        for link in link_jacobians(self.tree, q):
            _add(M, link, link.mass_matrix())
        return M

    def mass_matrix_derivatives(self, q: Array) -> Array:
        r"""Return :math:`\partial m_{ij}/\partial q_s` at [i, j, s], shape (n, n, n).

        Source: differentiation of [N] 4.2 by the rules in the module docstring.
        """
        (q,) = self.vectors(q=q)
        n = self.tree.n
        dM = zeros((n, n, n), self._dtype(q))
        for link in link_jacobians(self.tree, q):
            for k, s in enumerate(link.path):
                _add(dM[:, :, s], link, link.mass_matrix_derivative(k))
        return dM

    def christoffel_symbols(self, q: Array) -> Array:
        r"""Return :math:`c_{jki}` at [i, j, k], the row of C first; symmetric in j and k.

        .. math:: c_{jki} = \tfrac12\Big(\frac{\partial m_{ik}}{\partial q_j}
            + \frac{\partial m_{ij}}{\partial q_k} - \frac{\partial m_{kj}}{\partial q_i}\Big)

        Returns:
            New array, shape (n, n, n); the notes write the row as the last index.

        Source: [N] 4.2.
        """
        dM = self.mass_matrix_derivatives(q)
        return (dM.transpose(0, 2, 1) + dM - dM.transpose(2, 0, 1)) / 2

    def coriolis_matrix(self, q: Array, v: Array) -> Array:
        r"""Return :math:`C_{ij} = \sum_k c_{kji} v_k`, shape (n, n).

        Source: [N] 4.2, corrected by errata N8 (the notes print other last indices in the inner
        rows) and N9 (not the transpose).
        """
        q, v = self.vectors(q=q, v=v)
        return self.christoffel_symbols(q) @ v

    def separated_form(self, q: Array) -> SeparatedForm:
        """Return the centrifugal and Coriolis matrices, which depend on q only.

        Source: [N] 4.2 ("V"), where they are also called C and B (erratum N10).
        """
        n, c = self.tree.n, self.christoffel_symbols(q)
        pairs = tuple(combinations(range(n), 2))
        coriolis = zeros((n, len(pairs)), c.dtype)
        for column, (j, k) in enumerate(pairs):
            coriolis[:, column] = 2 * c[:, j, k]
        return SeparatedForm(np.diagonal(c, axis1=1, axis2=2).copy(), coriolis, pairs)

    def gravity_forces(self, q: Array) -> Array:
        r"""Return :math:`G = \partial U/\partial q = -\sum_i m_i J_P^T g`, shape (n,).

        Source: [N] 4.2.
        """
        (q,) = self.vectors(q=q)
        G = zeros(self.tree.n, self._dtype(q))
        for link in link_jacobians(self.tree, q):
            share = link.mass * (link.J_P.T @ self.tree.gravity)
            for column, j in enumerate(link.path):
                G[j] = G[j] - share[column]
        return G

    def momentum(self, q: Array, v: Array) -> Array:
        r"""Return the momentum :math:`p = \partial L/\partial v = M v`, (n,), kg m^2/s or kg m/s.

        Source: [N] 4.4.
        """
        q, v = self.vectors(q=q, v=v)
        return self.mass_matrix(q) @ v

    def hamiltonian(self, q: Array, p: Array) -> Scalar:
        r"""Return the Hamiltonian :math:`H = \tfrac12 p^T M^{-1} p + U`, the total energy, J.

        Args:
            q: Joint positions, shape (n,), rad or m.
            p: Generalized momentum, shape (n,), kg m^2/s or kg m/s.

        Source: [N] 4.4; U is zero for mass at the base origin.
        """
        q, p = self.vectors(q=q, p=p)
        return p @ solve_positive_definite(self.mass_matrix(q), p) / 2 + potential_energy(
            self.tree, q
        )

    def hamilton_equations(
        self, q: Array, p: Array, tau: Array, damping: Array | None = None
    ) -> tuple[Array, Array]:
        r"""Return the right-hand sides of Hamilton's canonical equations with forces.

        .. math:: \dot q = M^{-1}p,\qquad
            \dot p_i = \tfrac12\dot q^T\frac{\partial M}{\partial q_i}\dot q - g_i
            + \tau_i - b_i\dot q_i

        Args:
            q: Joint positions, shape (n,), rad or m.
            p: Generalized momentum, shape (n,), kg m^2/s or kg m/s.
            tau: Joint efforts, shape (n,), N m or N.
            damping: Viscous coefficients b, shape (n,), N m s/rad or N s/m; none if None.

        Returns:
            New arrays: the rates of q and of p, each of shape (n,).

        Source: [N] 4.4; the notes print the equations without forces (erratum N21).
        """
        q, p, tau = self.vectors(q=q, p=p, tau=tau)
        dq = solve_positive_definite(self.mass_matrix(q), p)
        quadratic = dq @ (dq @ self.mass_matrix_derivatives(q)) / 2
        dp = quadratic - self.gravity_forces(q) + tau
        return dq, dp if damping is None else dp - self.vectors(damping=damping)[0] * dq

    def _joint_forces(self, q: Array, rows: Array) -> Array:
        """Return the joint efforts ``J^T F`` of wrenches on the bodies, shape (n,)."""
        dtype, poses = self._dtype(q, rows), body_poses(self.tree, q)
        efforts = zeros(self.tree.n, dtype)
        for i, (R, p) in enumerate(poses):
            path = self.tree.path(i)
            J_P, J_O = point_jacobian(self.tree, poses, path, p, dtype)
            share = J_P.T @ (R @ rows[i, :3]) + J_O.T @ (R @ rows[i, 3:])
            for column, j in enumerate(path):
                efforts[j] = efforts[j] + share[column]
        return efforts


def _add(total: Any, link: LinkJacobians, share: Array) -> None:
    """Add a link's (k, k) contribution to the rows and columns of its joints, in place."""
    at = np.ix_(link.path, link.path)
    total[at] = total[at] + share


class LinkJacobians(NamedTuple):
    """Inertia and Jacobians of one link in base axes; columns for the k joints on its path.

    Attributes:
        path: Indices of the k joints from the base to the link, base first.
        prismatic: Whether each of these joints is prismatic.
        mass: kg.
        p_C: Position of the centre of mass, shape (3,), m.
        inertia: Tensor about the centre of mass, shape (3, 3), kg m^2.
        J_P: Linear Jacobian of the centre of mass, shape (3, k).
        J_O: Angular Jacobian, shape (3, k): the axis of a revolute joint, 0 for a prismatic one.
    """

    path: tuple[int, ...]
    prismatic: tuple[bool, ...]
    mass: object
    p_C: Array
    inertia: Array
    J_P: Array
    J_O: Array

    def mass_matrix(self) -> Array:
        r"""Return the link's contribution :math:`m J_P^TJ_P + J_O^T I J_O`, shape (k, k)."""
        return self.mass * (self.J_P.T @ self.J_P) + self.J_O.T @ self.inertia @ self.J_O

    def mass_matrix_derivative(self, s: int) -> Array:
        """Return the derivative of ``mass_matrix`` with respect to joint ``path[s]``, (k, k)."""
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
            if s < t:
                dJ_O[:, t] = cross(self.J_O[:, s], self.J_O[:, t])
        return dJ_P, dJ_O


def link_jacobians(tree: RobotTree, q: Array) -> list[LinkJacobians]:
    """Return the Jacobians of all links, in tree order.

    Args:
        tree: The robot.
        q: Joint positions, shape (n,), rad or m.
    """
    poses = body_poses(tree, q)
    dtype = common_dtype(q, tree.R_PJ, tree.p_PJ, tree.com, tree.inertia, tree.mass)
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
    r"""Return :math:`J_P, J_O` of a point on the last body of a path, both of shape (3, k).

    The columns are :math:`z_j\times(p-p_j)` and :math:`z_j` for a revolute joint, :math:`z_j` and
    0 for a prismatic joint.

    Args:
        tree: The robot.
        poses: Poses of all bodies in the base frame.
        path: Indices of the k joints from the base to the body that carries the point.
        point: The point in base axes, shape (3,), m.
        dtype: dtype of the result.
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
