# SPDX-License-Identifier: Apache-2.0
r"""Theorems 1 to 3 of Zaremba 1990: derivatives of any order from cross products only.

The indices may be in any order and may repeat; an index that the quantity does not depend on
gives exactly zero. The theorems are stated for a chain; on a tree, "between i and k" means on
the path from i to k.
"""

from __future__ import annotations

from collections.abc import Sequence

from robot_dynamics_ros.dynamics.screw_terms import ScrewGeometry
from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.spatial.scalar import Array, zeros
from robot_dynamics_ros.spatial.screw import bracket


def l_derivative(x: ScrewGeometry, k: int, i: int, indices: Sequence[int] = ()) -> Array:
    r"""Return a derivative of :math:`l_k^i`, column i of the body Jacobian of body k.

    For sorted indices :math:`t_1\le\dots\le t_p`, all in :math:`[i+1, k]`,

    .. math::
        (l_k^i)^{t_1\dots t_p} = \langle l_k^{t_p}\rangle^T\cdots\langle l_k^{t_1}\rangle^T l_k^i

    with the smallest index adjacent to :math:`l_k^i`; zero if *any* index is out of range.

    Args:
        x: Geometry of the robot at given joint positions.
        k: Body in whose axes the column is expressed.
        i: Joint of the column; -1 for the gravity column :math:`l_k^0`.
        indices: Joints to differentiate with respect to, any number, in any order.

    Returns:
        New array, shape (6,).

    Raises:
        UnknownNameError: An index is not a joint of the robot.

    Source: Zaremba 1990, theorem 1, (1.14) to (1.16); range by erratum Z8, superscripts by Z6.
    """
    _check(x, k, *indices, *([i] if i != -1 else []))
    if not _carries(x, i, k) or not all(_between(x, i, t, k) for t in indices):
        return zeros(6, x.dtype)
    column = x.l[k, i] if i >= 0 else x.l0[k]
    for t in sorted(indices):
        column = bracket(x.l[k, t]).T @ column
    return column.copy()


def g_derivative(x: ScrewGeometry, k: int, i: int, indices: Sequence[int] = ()) -> Array:
    r"""Return a derivative of :math:`g_k^i`, the axis of joint i expressed in body k.

    For sorted indices :math:`t_1\le\dots\le t_p`, all in :math:`[k+1, i-1]`,

    .. math::
        (g_k^i)^{t_1\dots t_p} =
        (-1)^p\langle g_k^{t_1}\rangle^T\cdots\langle g_k^{t_p}\rangle^T g_k^i

    with the largest index adjacent to :math:`g_k^i`; zero if any index is out of range. An index
    equal to k is out of range, because the axis moves with k, although the formula does not vanish
    there (erratum Z10).

    Args:
        x: Geometry of the robot at given joint positions.
        k: Body in whose axes the vector is expressed.
        i: The joint.
        indices: Joints to differentiate with respect to, any number, in any order.

    Returns:
        New array, shape (6,).

    Raises:
        UnknownNameError: An index is not a joint of the robot.

    Source: Zaremba 1990, theorem 2, (1.22) and (1.23), errata Z6 and Z10.
    """
    _check(x, k, i, *indices)
    if not x.carries[k, i] or not all(_between(x, k, t, i) and t != i for t in indices):
        return zeros(6, x.dtype)
    vector = x.g[k, i]
    for t in sorted(indices, reverse=True):
        vector = -bracket(x.g[k, t]).T @ vector
    return vector.copy()


def composite_inertia_derivative(x: ScrewGeometry, i: int, indices: Sequence[int] = ()) -> Array:
    r"""Return a derivative of :math:`\Theta_i^{i*}`, the composite inertia carried by joint i.

    For sorted indices :math:`i<t_1\le\dots\le t_p`, starting from :math:`\Theta_i^{t_p*}`, apply

    .. math:: M \mapsto \langle g_i^{t}\rangle M + M\langle g_i^{t}\rangle^T

    for :math:`t = t_p, t_{p-1}, \dots, t_1`. Zero if any index is not outboard of i, or if two
    indices are on different branches, since no body moves with both.

    Args:
        x: Geometry of the robot at given joint positions.
        i: The joint, and the body in whose frame the inertia is expressed.
        indices: Joints to differentiate with respect to, any number, in any order.

    Returns:
        New array, shape (6, 6), symmetric.

    Raises:
        UnknownNameError: An index is not a joint of the robot.

    Source: Zaremba 1990, theorem 3, (2.11) and (2.13); range by erratum Z15.
    """
    outward = sorted(indices)
    _check(x, i, *indices)
    path = [i, *outward]
    on_one_path = all(x.carries[s, t] for s, t in zip(path, outward, strict=False))
    if not on_one_path or i in outward:
        return zeros((6, 6), x.dtype)
    Theta = x.composite_seen[i, path[-1]]
    for t in reversed(outward):
        half = bracket(x.g[i, t]) @ Theta
        Theta = half + half.T
    return Theta.copy()


def _carries(x: ScrewGeometry, i: int, k: int) -> bool:
    return i == -1 or bool(x.carries[i, k])


def _between(x: ScrewGeometry, i: int, t: int, k: int) -> bool:
    """Return whether i < t <= k on the path from i to k."""
    return t != i and _carries(x, i, t) and bool(x.carries[t, k])


def _check(x: ScrewGeometry, *joints: int) -> None:
    known = range(x.n)
    for index in joints:
        if index not in known:
            raise UnknownNameError('joint number', index, map(str, known))
