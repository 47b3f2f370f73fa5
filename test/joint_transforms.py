# SPDX-License-Identifier: Apache-2.0
"""Derivatives of the screw vectors by the product rule, joint by joint, without any theorem.

Every coordinate enters through one 6x6 transform, whose derivatives of any order are known in
closed form (the n-th derivative of cos q is cos(q + n pi/2), a slide is linear). A derivative of
a product of transforms then is a product with some factors differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np


def skew(a):
    """Return the matrix whose columns are a x e_i."""
    return np.cross(a, np.eye(3)).T


class JointTransforms:
    """The wrench transforms of a tree at a position, and their derivatives."""

    def __init__(self, tree, q) -> None:
        self.tree, self.q = tree, q
        self.f = np.zeros((tree.n, 6))
        for i in range(tree.n):
            start = 0 if tree.prismatic[i] else 3
            self.f[i, start : start + 3] = tree.axis[i]

    def outward(self, t: int, order: int) -> np.ndarray:
        """Return the derivative of L from body t to its parent."""
        C, corner = self._blocks(t, order)
        return np.block([[C, np.zeros((3, 3))], [corner, C]])

    def inward(self, t: int, order: int) -> np.ndarray:
        """Return the derivative of L from the parent to body t."""
        C, corner = self._blocks(t, order)
        return np.block([[C.T, np.zeros((3, 3))], [corner.T, C.T]])

    def _blocks(self, t: int, order: int):
        tree, R, a = self.tree, self.tree.R_PJ[t], self.tree.axis[t]
        if tree.prismatic[t]:
            O = tree.p_PJ[t] + R @ a * self.q[t] if order == 0 else R @ a
            return R * (order == 0), skew(O) @ R * (order <= 1)
        c = np.cos(self.q[t] + order * np.pi / 2)
        s = np.sin(self.q[t] + order * np.pi / 2)
        fixed = np.outer(a, a)
        C = R @ (fixed * (order == 0) + (np.eye(3) - fixed) * c + skew(a) * s)
        return C, skew(tree.p_PJ[t]) @ C

    def path(self, above: int, below: int) -> list[int] | None:
        """Return the bodies after `above` up to `below`, or None if one does not carry the other.

        The base is -1.
        """
        found, body = [], below
        while body != above:
            if body < 0:
                return None
            found.append(body)
            body = self.tree.parent[body]
        return found[::-1]

    def wrench_transform(self, i: int, k: int, by: Sequence[int]) -> np.ndarray:
        """Return a derivative of L from body k to body i, where i carries k."""
        path = self.path(i, k)
        if any(t not in path for t in by):
            return np.zeros((6, 6))
        L = np.eye(6)
        for t in path:
            L = L @ self.outward(t, by.count(t))
        return L

    def l(self, k: int, i: int, by: Sequence[int]) -> np.ndarray:  # noqa: E743
        """Return a derivative of l_k^i by definition; i = -1 is the gravity column."""
        if self.path(i, k) is None:
            return np.zeros(6)
        f = self.f[i] if i >= 0 else np.concatenate([self.tree.gravity, np.zeros(3)])
        return self.wrench_transform(i, k, by).T @ f

    def g(self, k: int, i: int, by: Sequence[int]) -> np.ndarray:
        """Return a derivative of g_k^i by definition."""
        path = self.path(k, i)
        if path is None or any(t not in path for t in by):
            return np.zeros(6)
        L = np.eye(6)
        for t in reversed(path):
            L = L @ self.inward(t, by.count(t))
        return L.T @ self.f[i]

    def mises(self, k: int) -> np.ndarray:
        """Return the inertia of body k about its origin."""
        m, r = self.tree.mass[k], skew(self.tree.com[k])
        return np.block([[m * np.eye(3), -m * r], [m * r, self.tree.inertia[k] - m * r @ r]])

    def composite(self, i: int, by: Sequence[int]) -> np.ndarray:
        """Return a derivative of the inertia of all that joint i carries, in body i."""
        total = np.zeros((6, 6))
        for k in range(self.tree.n):
            if self.path(i, k) is None:
                continue
            for side in product((True, False), repeat=len(by)):
                left = [t for t, at in zip(by, side, strict=True) if at]
                right = [t for t, at in zip(by, side, strict=True) if not at]
                total += (
                    self.wrench_transform(i, k, left)
                    @ self.mises(k)
                    @ self.wrench_transform(i, k, right).T
                )
        return total

    def mass_matrix(self, by: Sequence[int] = ()) -> np.ndarray:
        """Return a derivative of A by definition (2.6): the sum over all bodies."""
        n = self.tree.n
        A = np.zeros((n, n))
        for k in range(n):
            for side in product((True, False), repeat=len(by)):
                left = [t for t, at in zip(by, side, strict=True) if at]
                right = [t for t, at in zip(by, side, strict=True) if not at]
                L = np.array([self.l(k, i, left) for i in range(n)])
                A += L @ self.mises(k) @ np.array([self.l(k, j, right) for j in range(n)]).T
        return A
