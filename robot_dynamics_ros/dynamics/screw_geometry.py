# SPDX-License-Identifier: Apache-2.0
r"""The quantities of Zaremba's screw recursion at one position of a tree of bodies.

From the chain to the tree
    The paper numbers the bodies of a chain, so ``i <= k`` means that joint i carries body k. On a
    tree that is "i is an ancestor of k or k itself", and every condition of the paper is read so;
    a pair of bodies on different branches counts as out of range. Body numbers are those of
    :class:`RobotTree`, from 0, and the base (the paper's 0) is -1.

From six axis numbers to any axis
    The paper's :math:`f^i` has a single 1 in row :math:`n_i`. Here it is ``[axis; 0]`` or
    ``[0; axis]`` with any unit axis, and the constant rotation before the joint is free (erratum
    Z18). All results need only :math:`V_i^{i-1,i} = f^i\dot q_i`, which holds in these frames.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array, common_dtype, zeros
from robot_dynamics_ros.spatial.screw import (
    axis_vector,
    inverse_transform,
    mises_matrix,
    wrench_transform,
)


class ScrewModel:
    r"""What does not depend on the position.

    Attributes:
        tree: The robot.
        f: Joint axes :math:`f^i`, shape (n, 6).
        inertia: Mises matrices :math:`\Theta_k^k` (2.2), shape (n, 6, 6).
        carries: ``carries[i, k]``: i is k or an ancestor of k (the paper's ``i <= k``).
        above: ``above[k]``: k and its ancestors, from the base on.
        below: ``below[i]``: the proper descendants of i, parents first.
    """

    def __init__(self, tree: RobotTree) -> None:
        self.tree, n = tree, tree.n
        self.f = np.array([axis_vector(tree.axis[i], tree.prismatic[i]) for i in range(n)])
        self.inertia = np.array(
            [mises_matrix(tree.mass[k], tree.com[k], tree.inertia[k]) for k in range(n)]
        )
        self.carries = np.zeros((n, n), dtype=bool)
        for k in range(n):
            self.carries[list(tree.path(k)), k] = True
        self.above = [list(tree.path(k)) for k in range(n)]
        self.below = [[k for k in range(i + 1, n) if self.carries[i, k]] for i in range(n)]


class ScrewGeometry:
    r"""What depends on the position alone; computed when first asked for.

    Attributes:
        model: The robot.
        q: Joint positions, shape (n,), rad or m.
        L: ``L[k]`` = :math:`L_k^{p}`, wrench coordinates of body k to those of its parent p.
    """

    def __init__(self, model: ScrewModel, q: Array) -> None:
        self.model, self.q = model, q
        tree = model.tree
        self.L = [wrench_transform(*tree.placement(k, q[k])) for k in range(tree.n)]
        self.dtype = common_dtype(model.f, model.inertia, tree.gravity, *self.L)

    @cached_property
    def l(self) -> Array:  # noqa: E743 (the paper's letter)
        r"""``l[k, i]`` = :math:`l_k^i = L_k^{iT}f^i` if i carries k, else 0; shape (n, n, 6).

        Column i of the body Jacobian of body k: its motion at unit speed of joint i, in its axes.

        Source: Zaremba 1990, (1.5) and algorithm step 2,
        :math:`l_k^i = L_k^{k-1\,T} l_{k-1}^i`, :math:`l_k^k = f^k`.
        """
        model = self.model
        l = zeros((model.tree.n, model.tree.n, 6), self.dtype)
        for k, p in enumerate(model.tree.parent):
            for i in model.above[k][:-1]:
                l[k, i] = self.L[k].T @ l[p, i]
            l[k, k] = model.f[k]
        return l

    @cached_property
    def l0(self) -> Array:
        r"""Gravity as a column, ``l0[k]`` = :math:`l_k^0 = L_k^{0T}[g z_0; 0]`, shape (n, 6).

        The free fall of the base seen from body k, so that the gravity wrench (2.4) on a body is
        :math:`F_{gk}^k = \Theta_k^k l_k^0`, and theorem 1 holds for it with the base as i.
        """
        tree = self.model.tree
        l0 = zeros((tree.n, 6), self.dtype)
        for k, p in enumerate(tree.parent):
            l0[k] = self.L[k].T @ (l0[p] if p >= 0 else self.l0_base)
        return l0

    @cached_property
    def l0_base(self) -> Array:
        """Free fall in the base frame, ``[gravity; 0]``, shape (6,)."""
        l0 = zeros(6, self.dtype)
        l0[:3] = self.model.tree.gravity
        return l0

    @cached_property
    def g(self) -> Array:
        r"""``g[k, i]`` = :math:`g_k^i = L_k^{iT}f^i` if k carries i, else 0; shape (n, n, 6).

        The axis of a joint further out as seen from body k.

        Source: Zaremba 1990, (1.5) and algorithm step 5,
        :math:`g_i^k = G L_{i+1}^i G\,g_{i+1}^k`, where :math:`G L_{i+1}^i G = L_i^{i+1\,T}`.
        """
        model = self.model
        g = zeros((model.tree.n, model.tree.n, 6), self.dtype)
        for i in range(model.tree.n):
            g[i, i] = model.f[i]
        for c in reversed(range(model.tree.n)):
            p = model.tree.parent[c]
            if p >= 0:
                outward = inverse_transform(self.L[c]).T
                for k in [c, *model.below[c]]:
                    g[p, k] = outward @ g[c, k]
        return g

    @cached_property
    def composite(self) -> list[Array]:
        r"""``composite[i]`` = :math:`\Theta_i^{i*}`: inertia of all that joint i carries, in i.

        Source: Zaremba 1990, (2.10), algorithm steps 6 to 8 in the shorter form
        :math:`\Theta_i^{i*} = \Theta_i^i + \sum_c L_c^i\Theta_c^{c*}L_c^{iT}` over the children c.
        """
        model = self.model
        Theta = list(model.inertia)
        for c in reversed(range(model.tree.n)):
            p = model.tree.parent[c]
            if p >= 0:
                Theta[p] = Theta[p] + self.L[c] @ Theta[c] @ self.L[c].T
        return Theta

    @cached_property
    def composite_seen(self) -> dict[tuple[int, int], Array]:
        r"""``composite_seen[i, s]`` = :math:`\Theta_i^{s*}`: all that s carries, written in i.

        For i = s and every s that i carries.

        Source: Zaremba 1990, (2.12), :math:`\Theta_i^{s*} = L_s^i\Theta_s^{s*}L_s^{iT}`.
        """
        model = self.model
        seen = {(i, i): Theta for i, Theta in enumerate(self.composite)}
        for c in reversed(range(model.tree.n)):
            p = model.tree.parent[c]
            if p >= 0:
                for s in [c, *model.below[c]]:
                    seen[p, s] = self.L[c] @ seen[c, s] @ self.L[c].T
        return seen
