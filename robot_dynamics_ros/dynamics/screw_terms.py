# SPDX-License-Identifier: Apache-2.0
r"""Terms of the equation of motion: mass matrix, gravity, external wrenches, and derivatives.

Every element is the product of a column and a vector; theorems 1 and 3 apply to the vector:

.. math::
    a_{ij} = l_i^{j\,T} D_i, \qquad a_{ij}^{(s)} = l_i^{j\,T} D_{is}, \qquad
    a_{ij}^{(s,t)} = l_i^{j\,T} D_{ist} \qquad (j \le i < \dots;\ s, t > j)

with :math:`D_i = \Theta_i^{i*}f^i`; the derivatives vanish unless :math:`s, t > j`. This compact
form of (2.14) needs n^2 (n^3) six-vectors instead of n^3 (n^4) products of 6x6 matrices.

The paper's linearization (4.2) contains only :math:`\sum_k (l_k^{iT})^j F_k`. For forces that are
not constant in link axes, such as gravity, :math:`\sum_k l_k^{iT}(F_k)^j` must be added; without
it a pendulum would have no stiffness (erratum Z21).

Extension from chains to trees
    The paper numbers the bodies of a chain, so ``i <= k`` means that joint i carries body k. On a
    tree, every such condition means that i is k or an ancestor of k; a pair of bodies on different
    branches is out of range. Body indices are those of :class:`RobotTree`, starting at 0; the base
    (0 in the paper) is -1.

Extension from six axis numbers to any axis
    The paper's :math:`f^i` has a single 1 in row :math:`n_i`. Here it is ``[axis; 0]`` or
    ``[0; axis]`` with any unit axis, and the constant rotation before the joint is arbitrary
    (erratum Z18). All results require only :math:`V_i^{i-1,i} = f^i\dot q_i`, which holds in these
    frames.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from robot_dynamics_ros.dynamics.formulation import InverseDynamicsDerivatives
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.spatial.scalar import Array, common_dtype, zeros
from robot_dynamics_ros.spatial.screw import (
    axis_vector,
    bracket,
    inverse_transform,
    mises_matrix,
    wrench_transform,
)


class ScrewModel:
    r"""Quantities that do not depend on the joint positions.

    Attributes:
        tree: The robot.
        n: Number of its joints and bodies.
        f: Joint axes :math:`f^i`, shape (n, 6).
        inertia: Spatial inertias (Mises matrices) :math:`\Theta_k^k` (2.2), shape (n, 6, 6).
        carries: ``carries[i, k]``: i is k or an ancestor of k (the paper's ``i <= k``).
        above: ``above[k]``: k and its ancestors, starting from the base.
        below: ``below[i]``: the proper descendants of i, parents first.
        inward: Every body that has a parent, and its parent, children before their parents.
    """

    def __init__(self, tree: RobotTree) -> None:
        self.tree, self.n = tree, tree.n
        bodies = range(tree.n)
        self.f = np.array([axis_vector(tree.axis[i], tree.prismatic[i]) for i in bodies])
        self.inertia = np.array(
            [mises_matrix(tree.mass[k], tree.com[k], tree.inertia[k]) for k in bodies]
        )
        self.above = [list(tree.path(k)) for k in bodies]
        self.carries = np.array([[i in self.above[k] for k in bodies] for i in bodies])
        self.below = [[k for k in range(i + 1, tree.n) if self.carries[i, k]] for i in bodies]
        self.inward = [(k, tree.parent[k]) for k in reversed(bodies) if tree.parent[k] >= 0]


class ScrewGeometry(ScrewModel):
    r"""The model at given joint positions; quantities that depend on them are evaluated lazily.

    Attributes:
        q: Joint positions, shape (n,), rad or m.
        L: ``L[k]`` = :math:`L_k^{p}`, wrench coordinates of body k to those of its parent p.
    """

    def __init__(self, model: ScrewModel, q: Array) -> None:
        vars(self).update(vars(model))
        self.q = q
        self.L = [wrench_transform(*self.tree.placement(k, q[k])) for k in range(self.n)]
        self.dtype = common_dtype(self.f, self.inertia, self.tree.gravity, *self.L)

    @cached_property
    def l(self) -> Array:  # noqa: E743 (the paper's letter)
        r"""``l[k, i]`` = :math:`l_k^i = L_k^{iT}f^i` if i carries k, else 0; shape (n, n, 6).

        Column i of the body Jacobian of body k: its twist at unit rate of joint i, body axes.

        Source: Zaremba 1990, (1.5) and algorithm step 2,
        :math:`l_k^i = L_k^{k-1\,T} l_{k-1}^i`, :math:`l_k^k = f^k`.
        """
        l = zeros((self.n, self.n, 6), self.dtype)
        for k, p in enumerate(self.tree.parent):
            for i in self.above[k][:-1]:
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

        Source: Zaremba 1990, (1.5) and algorithm step 5,
        :math:`g_i^k = G L_{i+1}^i G\,g_{i+1}^k`, where :math:`G L_{i+1}^i G = L_i^{i+1\,T}`.
        """
        g = zeros((self.n, self.n, 6), self.dtype)
        for i in range(self.n):
            g[i, i] = self.f[i]
        for c, p in self.inward:
            outward = inverse_transform(self.L[c]).T
            for k in [c, *self.below[c]]:
                g[p, k] = outward @ g[c, k]
        return g

    @cached_property
    def composite(self) -> list[Array]:
        r"""``composite[i]`` = :math:`\Theta_i^{i*}`: composite inertia carried by joint i, in i.

        Source: Zaremba 1990, (2.10), algorithm steps 6 to 8 in the shorter form
        :math:`\Theta_i^{i*} = \Theta_i^i + \sum_c L_c^i\Theta_c^{c*}L_c^{iT}` over the children c.
        """
        Theta = list(self.inertia)
        for c, p in self.inward:
            Theta[p] = Theta[p] + self.L[c] @ Theta[c] @ self.L[c].T
        return Theta

    @cached_property
    def composite_seen(self) -> dict[tuple[int, int], Array]:
        r"""``composite_seen[i, s]`` = :math:`\Theta_i^{s*}`: composite inertia of s, in frame i.

        For i = s and every descendant s of i.

        Source: Zaremba 1990, (2.12), :math:`\Theta_i^{s*} = L_s^i\Theta_s^{s*}L_s^{iT}`.
        """
        composites = {(i, i): Theta for i, Theta in enumerate(self.composite)}
        for c, p in self.inward:
            for s in [c, *self.below[c]]:
                composites[p, s] = self.L[c] @ composites[c, s] @ self.L[c].T
        return composites


def mass_matrix(x: ScrewGeometry) -> Array:
    r"""Return the mass matrix A(q), shape (n, n).

    :math:`a_{ij} = f^{iT}\Theta_i^{i*}l_i^j` if j carries i, and :math:`a_{ji} = a_{ij}`.

    Source: Zaremba 1990, (2.9) with (2.10), correct as printed (Z14).

    Cost: n composite inertias and at most n (n + 1) / 2 dot products.
    """
    A = zeros((x.n, x.n), x.dtype)
    for i in range(x.n):
        D = x.composite[i] @ x.f[i]
        for j in x.above[i]:
            A[i, j] = A[j, i] = x.l[i, j] @ D
    return A


def effective_inertia_rates(x: ScrewGeometry) -> Array:
    r"""Return the vectors :math:`D_{is}`, shape (n, n, 6).

    .. math::
        D_{is} = \begin{cases}\langle l_i^s\rangle\,\Theta_i^{i*}f^i & s \le i\\
        (\Theta_i^{i*})^{s} f^i =
        (\langle g_i^s\rangle\Theta_i^{s*} + \Theta_i^{s*}\langle g_i^s\rangle^T) f^i & s > i
        \end{cases}

    Source: Zaremba 1990, (2.14) in compact form; index errata Z16, range Z15.
    """
    D = zeros((x.n, x.n, 6), x.dtype)
    for i in range(x.n):
        for s in x.above[i]:
            D[i, s] = bracket(x.l[i, s]) @ (x.composite[i] @ x.f[i])
        for s in x.below[i]:
            D[i, s] = _inertia_rate(x, i, s, x.composite_seen[i, s]) @ x.f[i]
    return D


def mass_matrix_derivatives(x: ScrewGeometry) -> Array:
    r"""Return :math:`a_{ij}^{(s)} = \partial a_{ij}/\partial q_s` at [i, j, s], shape (n, n, n).

    Source: Zaremba 1990, the rows of (2.14) in compact form.

    Cost: n^2 six-vectors and O(n^3) dot products.
    """
    dA = zeros((x.n,) * 3, x.dtype)
    D = effective_inertia_rates(x)
    for i in range(x.n):
        for j in x.above[i]:
            s = x.below[j]
            dA[i, j, s] = dA[j, i, s] = D[i, s] @ x.l[i, j]
    return dA


def christoffel_symbols(x: ScrewGeometry) -> Array:
    r"""Return :math:`d_{sj}^i` at [i, s, j], shape (n, n, n), symmetric in s and j.

    :math:`d_{sj}^i = \tfrac12(a_{ij}^{(s)} + a_{is}^{(j)} - a_{sj}^{(i)})`; at most two of the
    three terms are nonzero (Z17: the paper states three).

    Source: Zaremba 1990, (2.7) with the compact form of (2.14), errata Z15 to Z17.
    """
    dA = mass_matrix_derivatives(x)
    return (dA.transpose(0, 2, 1) + dA - dA.transpose(2, 0, 1)) / 2


def mass_matrix_second_derivatives(x: ScrewGeometry) -> Array:
    r"""Return :math:`a_{ij}^{(s,t)}` at [i, j, s, t], shape (n, n, n, n).

    For :math:`s \le t` on one path

    .. math::
        D_{ist} = \begin{cases}\langle l_i^s\rangle\,D_{it} & s \le i\\
        (\Theta_i^{i*})^{s,t} f^i & s > i\end{cases}

    Source: Zaremba 1990, theorems 1 and 3 applied to (2.9), required by (4.2) (errata Z15, Z20).

    Cost: n^3 six-vectors and O(n^4) dot products.
    """
    D = effective_inertia_rates(x)
    ddA = zeros((x.n,) * 4, x.dtype)
    for i in range(x.n):
        Di = _second_rates(x, i, D[i])
        for j in x.above[i]:
            s, t = np.ix_(x.below[j], x.below[j])
            ddA[i, j, s, t] = ddA[j, i, s, t] = Di[s, t] @ x.l[i, j]
    return ddA


def _second_rates(x: ScrewGeometry, i: int, D: Array) -> Array:
    """Return D_ist of body i, shape (n, n, 6), from its D_is."""
    Di = zeros((x.n, x.n, 6), x.dtype)
    for s in x.above[i]:
        turn = bracket(x.l[i, s])
        for t in [*(t for t in x.above[i] if t >= s), *x.below[i]]:
            Di[s, t] = Di[t, s] = turn @ D[t]
    for t in x.below[i]:
        first = _inertia_rate(x, i, t, x.composite_seen[i, t])
        for s in (s for s in x.above[t] if s in x.below[i]):
            Di[s, t] = Di[t, s] = _inertia_rate(x, i, s, first) @ x.f[i]
    return Di


def _inertia_rate(x: ScrewGeometry, i: int, t: int, M: Array) -> Array:
    r"""Return :math:`\langle g_i^t\rangle M + M\langle g_i^t\rangle^T` for a symmetric M."""
    half = bracket(x.g[i, t]) @ M
    return half + half.T


def gravity_forces(x: ScrewGeometry) -> Array:
    r"""Return :math:`g_i = -f_{gi} = -f^{iT}\Theta_i^{i*}l_i^0`, shape (n,), N m or N.

    The efforts that hold the arm against gravity, as in all formulations; the paper's
    :math:`f_g` is the force that gravity exerts.

    Source: Zaremba 1990, (2.8) with the gravity wrench (2.4) summed over composite inertias.
    """
    f = x.f
    return -np.array([f[i] @ (x.composite[i] @ x.l0[i]) for i in range(len(f))])


def gravity_derivatives(x: ScrewGeometry) -> Array:
    r"""Return :math:`g_i^{(j)} = -f_{gi}^{(j)}`, shape (n, n): the Hessian of the potential.

    :math:`f_{gi}` has the form of an element of A with :math:`l_i^0` as the column, so

    .. math::
        f_{gi}^{(j)} = \sum_k\big[(l_k^{iT})^j F_{gk}^k + l_k^{iT}(F_{gk}^k)^j\big]
        = l_i^{0\,T}D_{ij}
    """
    D = effective_inertia_rates(x)
    return -np.array([D[i] @ x.l0[i] for i in range(len(D))])


def external_forces(x: ScrewGeometry, wrenches: Array) -> Array:
    r"""Return :math:`f_{ei} = \sum_{k\ge i} l_k^{iT}F_{ek}^k`, shape (n,), N m or N.

    Args:
        x: Geometry of the robot at given joint positions.
        wrenches: ``[F; M]`` on each body in body axes about its origin, shape (n, 6).

    Source: Zaremba 1990, (2.3) and (2.8).
    """
    f, P = x.f, _carried_wrenches(x, wrenches)
    return np.array([f[i] @ P[i] for i in range(len(f))])


def external_derivatives(x: ScrewGeometry, wrenches: Array) -> Array:
    r"""Return :math:`f_{ei}^{(j)}`, shape (n, n), for wrenches that are constant in body axes.

    .. math::
        f_{ei}^{(j)} = \sum_{k\ge j}(l_k^{iT})^jF_{ek}^k = l_j^{iT}\langle f^j\rangle P_j,
        \qquad P_j = \sum_{k\ge j}L_k^jF_{ek}^k \qquad (i < j)

    by theorem 1 and :math:`\langle l_k^j\rangle = L_j^k\langle f^j\rangle L_k^j` (1.7).

    Args:
        x: Geometry of the robot at given joint positions.
        wrenches: ``[F; M]`` on each body in body axes about its origin, shape (n, 6).
    """
    P = _carried_wrenches(x, wrenches)
    derivative = zeros((len(P), len(P)), common_dtype(x.l, wrenches))
    for j in range(len(P)):
        turned = bracket(x.f[j]) @ P[j]
        for i in x.above[j][:-1]:
            derivative[i, j] = x.l[j, i] @ turned
    return derivative


def _carried_wrenches(x: ScrewGeometry, wrenches: Array) -> list[Array]:
    """Return for each body the sum of the wrenches on it and its descendants, in body axes."""
    total = list(wrenches)
    for c, p in x.inward:
        total[p] = total[p] + x.L[c] @ total[c]
    return total


def inverse_dynamics_derivatives(
    x: ScrewGeometry, v: Array, a: Array, wrenches: Array | None
) -> InverseDynamicsDerivatives:
    r"""Return the coefficients of the linearization about a motion.

    .. math::
        \Big(\frac{\partial b}{\partial v}\Big)_{ij} &= 2\sum_s d_{sj}^i v_s\\
        \Big(\frac{\partial b}{\partial q}\Big)_{ij} &=
        \sum_{s,t}\big(a_{it}^{(s,j)} - \tfrac12 a_{st}^{(i,j)}\big)v_s v_t
        - f_{gi}^{(j)} - f_{ei}^{(j)}\\
        \Big(\frac{\partial A}{\partial q}a\Big)_{ij} &= \sum_s a_{is}^{(j)}a_s

    Args:
        x: Geometry of the robot at given joint positions.
        v: Joint velocities, shape (n,), rad/s or m/s.
        a: Joint accelerations, shape (n,), rad/s^2 or m/s^2.
        wrenches: ``[F; M]`` on each body about its origin, constant in body axes, shape (n, 6), or
            None.

    Returns:
        New arrays, see :class:`InverseDynamicsDerivatives`.

    Source: Zaremba 1990, (4.2), errata Z19 to Z21.

    Cost: O(n^4) multiplications, for the second derivatives of A.
    """
    dA, ddA = mass_matrix_derivatives(x), mass_matrix_second_derivatives(x)
    first = np.tensordot(v, ddA @ v, axes=(0, 1))
    second = np.tensordot(v, np.tensordot(v, ddA, axes=(0, 0)), axes=(0, 0))
    db_dq = first - second / 2 + gravity_derivatives(x)
    if wrenches is not None:
        db_dq = db_dq - external_derivatives(x, wrenches)
    db_dv = 2 * (christoffel_symbols(x) @ v)
    return InverseDynamicsDerivatives(
        db_dq + np.tensordot(a, dA, axes=(0, 1)), db_dv, mass_matrix(x)
    )
