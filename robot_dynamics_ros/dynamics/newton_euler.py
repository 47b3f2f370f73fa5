# SPDX-License-Identifier: Apache-2.0
r"""Recursive Newton-Euler algorithm: motion outward, forces and moments inward.

Source: course notes "Dynamics" [N], sections 3.1 and 3.2 of the rebuilt text. Errata corrected:
N1 (the initial value is the acceleration :math:`{}^0\dot v_0 = -{}^0g`, not a velocity),
N2 (left indices) and N3 (:math:`(R\omega)\times(\dot\theta\hat Z)`, not
:math:`R(\omega\times\dot\theta\hat Z)`). Extended from chains with axes along :math:`\hat Z` to
trees with any unit axes, and to wrenches on every body.
"""

from __future__ import annotations

from robot_dynamics_ros.dynamics.formulation import Formulation, MultiplicationCount, Wrenches
from robot_dynamics_ros.spatial.scalar import Array, common_dtype, cross, cross_matrix, zeros


class NewtonEuler(Formulation):
    """Two passes over the tree, O(n).

    Cost: 138 n - 24 multiplications for a chain, see :class:`MultiplicationCount`: 111 a joint
    outward, 3 inward, 24 to pass force and moment on.
    """

    name = 'newton_euler'
    multiplications = MultiplicationCount((-24, 138))

    def inverse_dynamics(
        self, q: Array, v: Array, a: Array, wrenches: Wrenches | None = None
    ) -> Array:
        """Return the joint efforts of a motion; see the base class."""
        q, v, a = self.vectors(q=q, v=v, a=a)
        tree, external = self.tree, self.body_wrenches(wrenches)
        dtype = self._dtype(q, v, a, external)
        poses = [tree.placement(i, q[i]) for i in range(tree.n)]
        f, n, tau = list[Array](), list[Array](), zeros(tree.n, dtype)

        # Outward (3.1): i = 0 ... n - 1, motion, then the resultant F, N of each body.
        for i, (w, dw, dv) in enumerate(self._motions(poses, v, a, dtype)):
            P_C, I = tree.com[i], tree.inertia[i]
            dv_C = cross(dw, P_C) + cross(w, cross(w, P_C)) + dv
            F = tree.mass[i] * dv_C
            N = I @ dw + cross(w, I @ w)
            f.append(F)
            n.append(N + cross(P_C, F))
            if external is not None:
                f[i], n[i] = f[i] - external[i, :3], n[i] - external[i, 3:]

        # Inward (3.2): i = n ... 1, a body passes f, n on to its parent.
        for i in reversed(range(tree.n)):
            tau[i] = (f[i] if tree.prismatic[i] else n[i]) @ tree.axis[i]
            parent = tree.parent[i]
            if parent >= 0:
                R, O = poses[i]
                Rf = R @ f[i]
                f[parent] = f[parent] + Rf
                n[parent] = n[parent] + R @ n[i] + cross(O, Rf)
        return tau

    def _motions(
        self, poses: list[tuple[Array, Array]], v: Array, a: Array, dtype: object
    ) -> list[tuple[Array, Array, Array]]:
        r"""Return the motion of each body in body axes, (3.1).

        Angular velocity :math:`\omega`, angular acceleration :math:`\dot\omega`, and acceleration
        of the origin minus gravity :math:`\dot v`; of the base: 0, 0 and :math:`-g` (erratum N1).
        """
        tree = self.tree
        motions: list[tuple[Array, Array, Array]] = []
        for i, (R_PB, O) in enumerate(poses):
            parent = tree.parent[i]
            if parent < 0:
                w_p, dw_p, dv_p = zeros(3, dtype), zeros(3, dtype), -tree.gravity
            else:
                w_p, dw_p, dv_p = motions[parent]
            R, Z = R_PB.T, tree.axis[i]
            w_i, dw_i = R @ w_p, R @ dw_p
            dv_i = R @ (cross(dw_p, O) + cross(w_p, cross(w_p, O)) + dv_p)
            if tree.prismatic[i]:
                dv_i = dv_i + 2 * cross(w_i, v[i] * Z) + a[i] * Z
            else:
                dw_i = dw_i + cross(w_i, v[i] * Z) + a[i] * Z
                w_i = w_i + v[i] * Z
            motions.append((w_i, dw_i, dv_i))
        return motions

    def regressor(self, q: Array, v: Array, a: Array) -> Array:
        r"""Return the regressor Y of :math:`\tau=Y\pi` for the inertial parameters of the bodies.

        The ten parameters of a body are :math:`m,\ mc_x,\ mc_y,\ mc_z,\ I_{xx},\ I_{xy},\ I_{xz},\
        I_{yy},\ I_{yz},\ I_{zz}`, the tensor about the body's origin. The wrench of a body is

        .. math::
            F = m\,\dot v + (\langle\dot\omega\rangle+\langle\omega\rangle^2)\,mc, \qquad
            N = -\langle\dot v\rangle\,mc + I\dot\omega+\omega\times I\omega

        Args:
            q: Joint positions, shape (n,), rad or m.
            v: Joint velocities, shape (n,), rad/s or m/s.
            a: Joint accelerations, shape (n,), rad/s^2 or m/s^2.

        Returns:
            New array, shape (n, 10 n), independent of the robot's own inertias.

        Source: Atkeson, An, Hollerbach 1986, section 2, computed by the recursion of this file.
        """
        q, v, a = self.vectors(q=q, v=v, a=a)
        tree, dtype = self.tree, common_dtype(q, v, a, self.tree.p_PJ, self.tree.gravity)
        poses = [tree.placement(i, q[i]) for i in range(tree.n)]
        Y = zeros((tree.n, 10 * tree.n), dtype)
        for i, motion in enumerate(self._motions(poses, v, a, dtype)):
            f, n = _wrench_columns(*motion, dtype)
            for j in reversed(tree.path(i)):
                R_PB, O = poses[j]
                Y[j, 10 * i : 10 * i + 10] = tree.axis[j] @ (f if tree.prismatic[j] else n)
                f, n = R_PB @ f, R_PB @ n
                n = n + cross_matrix(O) @ f
        return Y


def _wrench_columns(w: Array, dw: Array, dv: Array, dtype: object) -> tuple[Array, Array]:
    """Return force and moment per unit of each inertial parameter of a body, each (3, 10)."""
    f, n, W = zeros((3, 10), dtype), zeros((3, 10), dtype), cross_matrix(w)
    f[:, 0] = dv
    f[:, 1:4] = cross_matrix(dw) + W @ W
    n[:, 1:4] = -cross_matrix(dv)
    for k, (row, column) in enumerate(((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))):
        I = zeros((3, 3), dtype)
        I[row, column] = I[column, row] = 1
        n[:, 4 + k] = I @ dw + W @ (I @ w)
    return f, n
