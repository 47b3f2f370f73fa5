# SPDX-License-Identifier: Apache-2.0
r"""Zaremba 1990: equations of motion from axes, transforms and cross products.

Source: A. T. Zaremba 1990, in the paper's order: kinematics (section 1), the equation of motion
(section 2), its linearization (section 4). The equations are composed of two families of vectors,
the axes :math:`l_k^i` of the inboard joints and :math:`g_k^i` of the outboard joints expressed in
each body, and of composite inertias :math:`\Theta_i^{s*}`; three theorems give their derivatives
of any order. Errata Z1 to Z22 of the paper are corrected, and cited where they apply.

Extension from chains to trees
    The paper numbers the bodies of a chain, so ``i <= k`` means that joint i carries body k. On a
    tree, every such condition means that i is k or an ancestor of k, "between i and k" means on
    the path from i to k, and a pair of bodies on different branches is out of range. Body indices
    are those of :class:`RobotTree`, starting at 0; the base (0 in the paper) is -1.

Extension from six axis numbers to any axis
    The paper's :math:`f^i` has a single 1 in row :math:`n_i`. Here it is ``[axis; 0]`` or
    ``[0; axis]`` with any unit axis, and the constant rotation before the joint is arbitrary
    (erratum Z18). All results require only :math:`V_i^{i-1,i} = f^i\dot q_i`, which holds in these
    frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.spatial.scalar import Array, common_dtype, zeros
from robot_dynamics_ros.spatial.screw import (
    force_cross,
    inverse_transform,
    motion_subspace,
    spatial_inertia,
    wrench_transform,
)
from robot_dynamics_ros.spatial.validation import scalars


class Twists(NamedTuple):
    r"""Twist of every body and its derivative, in body axes, pole at the body origin.

    Attributes:
        V: :math:`V_k^{0k}` = ``[v; w]``, shape (n, 6).
        dV: :math:`V_k^{0k*}`, its componentwise derivative, shape (n, 6), without gravity.
    """

    V: Array
    dV: Array


class ScrewGeometry:
    r"""The paper's quantities; those of joint positions, from :meth:`at`, are evaluated once.

    Args:
        tree: The robot, n joints.

    Attributes:
        n: Number of joints and bodies.
        f: Joint axes :math:`f^i`, shape (n, 6).
        inertia: Spatial inertias (Mises matrices) :math:`\Theta_k^k` (2.2), shape (n, 6, 6).
        supports: ``supports[i, k]``: i is k or an ancestor of k (the paper's ``i <= k``).
        path: ``path[k]``: the ancestors of k and k, starting from the base.
        descendants: ``descendants[i]``: the proper descendants of i, parents first.
        leaves_to_root: Every body that has a parent, and its parent, children before parents.
        L: ``L[k]`` = :math:`L_k^{p}`, wrench coordinates of body k to those of its parent p.
        dtype: That of all quantities of joint positions.
    """

    L: list[Array]
    dtype: Any

    def __init__(self, tree: RobotTree) -> None:
        self.tree, self.n = tree, tree.n
        bodies = range(tree.n)
        self.f = np.array([motion_subspace(tree.axis[i], tree.prismatic[i]) for i in bodies])
        self.inertia = np.array(
            [spatial_inertia(tree.mass[k], tree.com[k], tree.inertia[k]) for k in bodies]
        )
        self.path = [list(tree.path(k)) for k in bodies]
        self.supports = np.array([[i in self.path[k] for k in bodies] for i in bodies])
        self.descendants = [[k for k in bodies[i + 1 :] if self.supports[i, k]] for i in bodies]
        self.leaves_to_root = [
            (k, tree.parent[k]) for k in reversed(bodies) if tree.parent[k] >= 0
        ]

    def at(self, q: Array) -> ScrewGeometry:
        """Return the quantities at joint positions q, shape (n,), rad or m."""
        x = copy(self)
        x.L = [wrench_transform(*x.tree.placement(k, q[k])) for k in range(x.n)]
        x.dtype = common_dtype(x.f, x.inertia, x.tree.gravity, *x.L)
        return x

    # ---- section 1: kinematics -----------------------------------------------------------------

    @cached_property
    def l(self) -> Array:  # noqa: E743 (the paper's letter)
        r"""``l[k, i]`` = :math:`l_k^i = L_k^{iT}f^i` if i carries k, else 0; shape (n, n, 6).

        Column i of the body Jacobian of body k: its twist at unit rate of joint i, body axes.

        Source: (1.5) and algorithm step 2, :math:`l_k^i = L_k^{k-1\,T} l_{k-1}^i`,
        :math:`l_k^k = f^k`.
        """
        l = zeros((self.n, self.n, 6), self.dtype)
        for k, p in enumerate(self.tree.parent):
            for i in self.path[k][:-1]:
                l[k, i] = self.L[k].T @ l[p, i]
            l[k, k] = self.f[k]
        return l

    @cached_property
    def l0(self) -> Array:
        r"""Gravity as a column, ``l0[k]`` = :math:`l_k^0 = L_k^{0T}[g z_0; 0]`, shape (n, 6).

        The free-fall acceleration expressed in body k, so that the gravity wrench (2.4) on a body
        is :math:`F_{gk}^k = \Theta_k^k l_k^0`, and theorem 1 holds for it with the base as i.
        """
        l0 = zeros((self.n, 6), self.dtype)
        for k, p in enumerate(self.tree.parent):
            l0[k] = self.L[k].T @ (l0[p] if p >= 0 else self.l0_base)
        return l0

    @cached_property
    def l0_base(self) -> Array:
        """Free-fall acceleration in the base frame, ``[gravity; 0]``, shape (6,)."""
        l0 = zeros(6, self.dtype)
        l0[:3] = self.tree.gravity
        return l0

    @cached_property
    def g(self) -> Array:
        r"""``g[k, i]`` = :math:`g_k^i = L_k^{iT}f^i` if k carries i, else 0; shape (n, n, 6).

        The axis of an outboard joint expressed in body k.

        Source: (1.5) and algorithm step 5, :math:`g_i^k = G L_{i+1}^i G\,g_{i+1}^k`, where
        :math:`G L_{i+1}^i G = L_i^{i+1\,T}`.
        """
        g = zeros((self.n, self.n, 6), self.dtype)
        for i in range(self.n):
            g[i, i] = self.f[i]
        for c, p in self.leaves_to_root:
            outward = inverse_transform(self.L[c]).T
            for k in [c, *self.descendants[c]]:
                g[p, k] = outward @ g[c, k]
        return g

    def twists(self, v: Array, a: Array, dtype: object) -> Twists:
        r"""Return the twists of all bodies and their componentwise derivatives.

        .. math::
            V_k = L_k^{k-1\,T}V_{k-1} + f^k v_k, \qquad
            V_k^* = L_k^{k-1\,T}V_{k-1}^* + f^k a_k + \langle f^k v_k\rangle^T V_k

        Source: (1.8) and (1.9) as recursions; errata Z1, Z4: the derivative contains
        :math:`l_k^k a_k`, and each :math:`l_k^i a_i` once.
        """
        V, dV = zeros((self.n, 6), dtype), zeros((self.n, 6), dtype)
        for k, p in enumerate(self.tree.parent):
            f = self.f[k]
            V[k], dV[k] = f * v[k], f * a[k]
            if p >= 0:
                V[k] = self.L[k].T @ V[p] + V[k]
                dV[k] = self.L[k].T @ dV[p] + dV[k] + force_cross(f * v[k]).T @ V[k]
        return Twists(V, dV)

    def l_derivative(self, k: int, i: int, indices: Sequence[int] = ()) -> Array:
        r"""Theorem 1: return a derivative of :math:`l_k^i` of any order, shape (6,).

        For sorted indices :math:`t_1\le\dots\le t_p`, all in :math:`[i+1, k]`,

        .. math::
            (l_k^i)^{t_1\dots t_p} =
            \langle l_k^{t_p}\rangle^T\cdots\langle l_k^{t_1}\rangle^T l_k^i

        with the smallest index adjacent to :math:`l_k^i`; zero if *any* index is out of range.

        Args:
            k: Body in whose axes the column is expressed.
            i: Joint of the column; -1 for the gravity column :math:`l_k^0`.
            indices: Joints to differentiate with respect to, any number, in any order; an index
                may repeat.

        Raises:
            UnknownNameError: An index is not a joint of the robot.

        Source: (1.14) to (1.16); range by erratum Z8, superscripts by Z6.
        """
        self._check(k, *indices, *([i] if i != -1 else []))
        if not all(self._between(i, t, k) for t in indices):
            return zeros(6, self.dtype)
        column = self.l[k, i] if i >= 0 else self.l0[k]
        for t in sorted(indices):
            column = force_cross(self.l[k, t]).T @ column
        return column.copy()

    def g_derivative(self, k: int, i: int, indices: Sequence[int] = ()) -> Array:
        r"""Theorem 2: return a derivative of :math:`g_k^i` of any order, shape (6,).

        For sorted indices :math:`t_1\le\dots\le t_p`, all in :math:`[k+1, i-1]`,

        .. math::
            (g_k^i)^{t_1\dots t_p} =
            (-1)^p\langle g_k^{t_1}\rangle^T\cdots\langle g_k^{t_p}\rangle^T g_k^i

        with the largest index adjacent to :math:`g_k^i`; zero if any index is out of range. An
        index equal to k is out of range, because the axis moves with k, although the formula does
        not vanish there (erratum Z10). Arguments and errors: body k, joint i, see theorem 1.

        Source: (1.22) and (1.23), errata Z6 and Z10.
        """
        self._check(k, i, *indices)
        if not all(self._between(k, t, i) and t != i for t in indices):
            return zeros(6, self.dtype)
        vector = self.g[k, i]
        for t in sorted(indices, reverse=True):
            vector = -force_cross(self.g[k, t]).T @ vector
        return vector.copy()

    # ---- section 2: the equation of motion A a + b = Q -----------------------------------------

    @cached_property
    def composite(self) -> list[Array]:
        r"""``composite[i]`` = :math:`\Theta_i^{i*}`: composite inertia carried by joint i, in i.

        Source: (2.10), algorithm steps 6 to 8 in the shorter form
        :math:`\Theta_i^{i*} = \Theta_i^i + \sum_c L_c^i\Theta_c^{c*}L_c^{iT}` over the children c.
        """
        Theta = list(self.inertia)
        for c, p in self.leaves_to_root:
            Theta[p] = Theta[p] + self.L[c] @ Theta[c] @ self.L[c].T
        return Theta

    @cached_property
    def composite_in(self) -> dict[tuple[int, int], Array]:
        r"""``composite_in[i, s]`` = :math:`\Theta_i^{s*}`: composite inertia of s, in frame i.

        For i = s and every descendant s of i.

        Source: (2.12), :math:`\Theta_i^{s*} = L_s^i\Theta_s^{s*}L_s^{iT}`.
        """
        composites = {(i, i): Theta for i, Theta in enumerate(self.composite)}
        for c, p in self.leaves_to_root:
            for s in [c, *self.descendants[c]]:
                composites[p, s] = self.L[c] @ composites[c, s] @ self.L[c].T
        return composites

    def composite_derivative(self, i: int, indices: Sequence[int] = ()) -> Array:
        r"""Theorem 3: return a derivative of :math:`\Theta_i^{i*}` of any order, shape (6, 6).

        For sorted indices :math:`i<t_1\le\dots\le t_p`, starting from :math:`\Theta_i^{t_p*}`,
        apply :math:`M \mapsto \langle g_i^{t}\rangle M + M\langle g_i^{t}\rangle^T` for
        :math:`t = t_p, t_{p-1}, \dots, t_1`. Zero if any index is not outboard of i, or if two
        indices are on different branches, since no body moves with both. Arguments and errors:
        joint i, see theorem 1.

        Source: (2.11) and (2.13); range by erratum Z15.
        """
        outward = sorted(indices)
        self._check(i, *indices)
        path = [i, *outward]
        on_one_path = all(self.supports[s, t] for s, t in zip(path, outward, strict=False))
        if not on_one_path or i in outward:
            return zeros((6, 6), self.dtype)
        Theta = self.composite_in[i, path[-1]]
        for t in reversed(outward):
            Theta = self._inertia_rate(i, t, Theta)
        return Theta.copy()

    @cached_property
    def A(self) -> Array:
        r"""Mass matrix, shape (n, n): :math:`a_{ij} = a_{ji} = l_i^{j\,T}D_i` if j carries i.

        Here :math:`D_i = \Theta_i^{i*}f^i`. Theorems 1 and 3 apply to this vector, so that

        .. math::
            a_{ij}^{(s)} = l_i^{j\,T} D_{is}, \qquad
            a_{ij}^{(s,t)} = l_i^{j\,T} D_{ist} \qquad (j \le i < \dots;\ s, t > j)

        and the derivatives vanish unless :math:`s, t > j`. This compact form of (2.14) needs n^2
        (n^3) six-vectors instead of n^3 (n^4) products of 6x6 matrices.

        Source: (2.9) with (2.10), correct as printed (Z14).
        """
        A = zeros((self.n, self.n), self.dtype)
        for i in range(self.n):
            D = self.composite[i] @ self.f[i]
            for j in self.path[i]:
                A[i, j] = A[j, i] = self.l[i, j] @ D
        return A

    @cached_property
    def D(self) -> Array:
        r"""The vectors :math:`D_{is}`, shape (n, n, 6).

        .. math::
            D_{is} = \begin{cases}\langle l_i^s\rangle\,\Theta_i^{i*}f^i & s \le i\\
            (\Theta_i^{i*})^{s} f^i =
            (\langle g_i^s\rangle\Theta_i^{s*} + \Theta_i^{s*}\langle g_i^s\rangle^T) f^i & s > i
            \end{cases}

        Source: (2.14) in compact form; index errata Z16, range Z15.
        """
        D = zeros((self.n, self.n, 6), self.dtype)
        for i in range(self.n):
            for s in self.path[i]:
                D[i, s] = force_cross(self.l[i, s]) @ (self.composite[i] @ self.f[i])
            for s in self.descendants[i]:
                D[i, s] = self._inertia_rate(i, s, self.composite_in[i, s]) @ self.f[i]
        return D

    @cached_property
    def dA(self) -> Array:
        r"""Derivatives :math:`a_{ij}^{(s)}` of A at [i, j, s], shape (n, n, n): rows of (2.14)."""
        dA = zeros((self.n,) * 3, self.dtype)
        for i in range(self.n):
            for j in self.path[i]:
                s = self.descendants[j]
                dA[i, j, s] = dA[j, i, s] = self.D[i, s] @ self.l[i, j]
        return dA

    @cached_property
    def d(self) -> Array:
        r"""Christoffel symbols :math:`d_{sj}^i` at [i, s, j], shape (n, n, n).

        :math:`d_{sj}^i = \tfrac12(a_{ij}^{(s)} + a_{is}^{(j)} - a_{sj}^{(i)})`, symmetric in s and
        j; at most two of the three terms are nonzero (Z17: the paper states three).

        Source: (2.7) with the compact form of (2.14), errata Z15 to Z17.
        """
        return (self.dA.transpose(0, 2, 1) + self.dA - self.dA.transpose(2, 0, 1)) / 2

    @cached_property
    def gravity_forces(self) -> Array:
        r"""Efforts :math:`-f_{gi} = -f^{iT}\Theta_i^{i*}l_i^0` that hold the arm, shape (n,).

        N m or N; the paper's :math:`f_g` is the force that gravity exerts.

        Source: (2.8) with the gravity wrench (2.4) summed over composite inertias.
        """
        return -np.array([self.f[i] @ (self.composite[i] @ self.l0[i]) for i in range(self.n)])

    def external_forces(self, wrenches: Array) -> Array:
        r"""Return :math:`f_{ei} = \sum_{k\ge i} l_k^{iT}F_{ek}^k`, shape (n,), N m or N.

        Args:
            wrenches: ``[F; M]`` on each body in body axes about its origin, shape (n, 6).

        Source: (2.3) and (2.8).
        """
        P = self._carried_wrenches(wrenches)
        return np.array([self.f[i] @ P[i] for i in range(self.n)])

    def wrenches(self, motion: Twists, external: Array | None) -> Array:
        r"""Return the wrenches :math:`W_i` that joint i transmits to body i, body axes, (n, 6).

        .. math::
            W_i = \Theta_i^iV_i^* + \langle V_i\rangle\Theta_i^iV_i - F_{gi}^i - F_{ei}^i
            + \sum_c L_c^iW_c

        The sum is over the children c of i. :math:`f^{iT}W_i` is the drive effort; the other
        components load the bearing.

        Source: zaremba-screw-recursion, section 11.
        """
        W = [
            body_wrench(self.inertia[i], motion.V[i], motion.dV[i], self.l0[i])
            for i in range(self.n)
        ]
        for i, p in reversed(list(enumerate(self.tree.parent))):
            if external is not None:
                W[i] = W[i] - external[i]
            if p >= 0:
                W[p] = W[p] + self.L[i] @ W[i]
        return np.array(W)

    # ---- section 4: linearization --------------------------------------------------------------

    @cached_property
    def ddA(self) -> Array:
        r"""Second derivatives :math:`a_{ij}^{(s,t)}` of A at [i, j, s, t], shape (n, n, n, n).

        For :math:`s \le t` on one path

        .. math::
            D_{ist} = \begin{cases}\langle l_i^s\rangle\,D_{it} & s \le i\\
            (\Theta_i^{i*})^{s,t} f^i & s > i\end{cases}

        Source: theorems 1 and 3 applied to (2.9), required by (4.2) (errata Z15, Z20).

        Cost: n^3 six-vectors and O(n^4) dot products.
        """
        ddA = zeros((self.n,) * 4, self.dtype)
        for i in range(self.n):
            Di = self._second_rates(i)
            for j in self.path[i]:
                s, t = np.ix_(self.descendants[j], self.descendants[j])
                ddA[i, j, s, t] = ddA[j, i, s, t] = Di[s, t] @ self.l[i, j]
        return ddA

    @cached_property
    def gravity_derivatives(self) -> Array:
        r"""Derivatives :math:`-f_{gi}^{(j)}`, shape (n, n): the Hessian of the potential.

        :math:`f_{gi}` has the form of an element of A with :math:`l_i^0` as the column, so

        .. math::
            f_{gi}^{(j)} = \sum_k\big[(l_k^{iT})^j F_{gk}^k + l_k^{iT}(F_{gk}^k)^j\big]
            = l_i^{0\,T}D_{ij}

        The paper's (4.2) has only the first term, which holds for forces that are constant in link
        axes; with it alone a pendulum would have no stiffness (erratum Z21).
        """
        return -np.array([self.D[i] @ self.l0[i] for i in range(self.n)])

    def external_derivatives(self, wrenches: Array) -> Array:
        r"""Return :math:`f_{ei}^{(j)}`, shape (n, n), for wrenches that are constant in body axes.

        .. math::
            f_{ei}^{(j)} = \sum_{k\ge j}(l_k^{iT})^jF_{ek}^k = l_j^{iT}\langle f^j\rangle P_j,
            \qquad P_j = \sum_{k\ge j}L_k^jF_{ek}^k \qquad (i < j)

        by theorem 1 and :math:`\langle l_k^j\rangle = L_j^k\langle f^j\rangle L_k^j` (1.7).

        Args:
            wrenches: ``[F; M]`` on each body in body axes about its origin, shape (n, 6).
        """
        P = self._carried_wrenches(wrenches)
        derivative = zeros((self.n, self.n), common_dtype(self.l, wrenches))
        for j in range(self.n):
            turned = force_cross(self.f[j]) @ P[j]
            for i in self.path[j][:-1]:
                derivative[i, j] = self.l[j, i] @ turned
        return derivative

    # ---- parts ---------------------------------------------------------------------------------

    def _inertia_rate(self, i: int, t: int, M: Array) -> Array:
        r"""Return :math:`\langle g_i^t\rangle M + M\langle g_i^t\rangle^T` for a symmetric M."""
        half = force_cross(self.g[i, t]) @ M
        return half + half.T

    def _second_rates(self, i: int) -> Array:
        """Return D_ist of body i, shape (n, n, 6)."""
        Di, path, descendants = zeros((self.n, self.n, 6), self.dtype), self.path, self.descendants
        for s in path[i]:
            turn = force_cross(self.l[i, s])
            for t in [*(t for t in path[i] if t >= s), *descendants[i]]:
                Di[s, t] = Di[t, s] = turn @ self.D[i, t]
        for t in descendants[i]:
            first = self._inertia_rate(i, t, self.composite_in[i, t])
            for s in (s for s in path[t] if s in descendants[i]):
                Di[s, t] = Di[t, s] = self._inertia_rate(i, s, first) @ self.f[i]
        return Di

    def _carried_wrenches(self, wrenches: Array) -> list[Array]:
        """Return for each body the sum of the wrenches on it and its descendants, body axes."""
        total = list(scalars('wrenches', wrenches, (self.n, 6)))
        for c, p in self.leaves_to_root:
            total[p] = total[p] + self.L[c] @ total[c]
        return total

    def _between(self, i: int, t: int, k: int) -> bool:
        """Return whether i < t <= k on the path from i to k."""
        return t != i and (i == -1 or bool(self.supports[i, t])) and bool(self.supports[t, k])

    def _check(self, *joints: int) -> None:
        known = range(self.n)
        for index in joints:
            if index not in known:
                raise UnknownNameError('joint number', index, map(str, known))


def body_wrench(Theta: Array, V: Array, dV: Array, l0: Array) -> Array:
    r"""Return the wrench required to move a body under gravity, shape (6,).

    :math:`\Theta(V^* - l^0) + \langle V\rangle\Theta V`

    Args:
        Theta: Spatial inertia (Mises matrix), shape (6, 6).
        V: Twist of the body, shape (6,).
        dV: Componentwise derivative of the twist, shape (6,).
        l0: Free-fall acceleration in body axes, shape (6,).
    """
    return Theta @ (dV - l0) + force_cross(V) @ (Theta @ V)
