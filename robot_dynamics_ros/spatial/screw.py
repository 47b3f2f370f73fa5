# SPDX-License-Identifier: Apache-2.0
r"""Screw algebra: the 6-vectors and 6x6 operators of Zaremba 1990, for numbers or symbols.

A twist ``[v; w]`` and a wrench ``[F; M]`` are expressed in the axes of a frame, with the pole at
its origin and the linear part first; their scalar product is power. Notation of the paper:

==============================  =========================  =====================================
here                            paper                      meaning
==============================  =========================  =====================================
``wrench_transform(R, p)``      :math:`L_k^i`              wrench coordinates, k to i
``wrench_transform(R, p).T``    :math:`L_k^{iT}`           twist coordinates, i to k
``inverse_transform(L)``        :math:`L_i^k`              wrench coordinates, i to k
``force_cross(a)``              :math:`\langle a\rangle`   force cross product ``a x*``
``force_cross(a).T``                                       negative motion cross product ``a x``
``exchange_matrix()``           :math:`G`                  swaps the linear and angular parts
``spatial_inertia(...)``        :math:`\Theta_k^k`         spatial inertia (Mises) about the origin
==============================  =========================  =====================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import ShapeError
from robot_dynamics_ros.spatial.inertia import shift_inertia
from robot_dynamics_ros.spatial.scalar import (
    Array,
    Scalar,
    common_dtype,
    cross_matrix,
    identity,
    zeros,
)


def wrench_transform(R: Array, p: Array) -> Array:
    r"""Return the operator that transforms a wrench from frame k to frame i.

    .. math:: L_k^i = \begin{pmatrix} C_k^i & 0\\ \langle O_k^i\rangle C_k^i & C_k^i\end{pmatrix}

    Its transpose transforms a twist from i to k. Transforms compose like rotations:
    :math:`L_k^i = L_j^i L_k^j`.

    Args:
        R: :math:`C_k^i`, shape (3, 3): maps components in k to components in i.
        p: :math:`O_k^i`, shape (3,), m: from the origin of i to that of k, in axes of i.

    Returns:
        New array, shape (6, 6).

    Source: Zaremba 1990, section 1 (before (1.5)).
    """
    return _lower_triangular(R, cross_matrix(p) @ R)


def inverse_transform(L: Array) -> Array:
    r"""Return :math:`L_i^k = (L_k^i)^{-1} = G L_k^{iT} G`, shape (6, 6), without division."""
    return _lower_triangular(L[:3, :3].T, L[3:, :3].T)


def force_cross(a: Array | Sequence[Scalar]) -> Array:
    r"""Return the cross product matrix of a 3-vector or a twist.

    For a 3-vector, :math:`\langle a\rangle b = a\times b`. For a twist :math:`a = [a_1; a_2]`,

    .. math::
        \langle a\rangle = \begin{pmatrix}\langle a_2\rangle & 0\\
        \langle a_1\rangle & \langle a_2\rangle\end{pmatrix}

    maps a wrench that is constant in a frame moving with twist a to its rate of change;
    :math:`-\langle a\rangle^T` does the same for a twist.

    Args:
        a: Shape (3,) or (6,).

    Returns:
        New array, shape (3, 3) or (6, 6).

    Raises:
        ShapeError: a has another shape.

    Source: Zaremba 1990, section 1; its identities are (1.7).
    """
    if len(a) == 3:
        return cross_matrix(a)
    if len(a) != 6:
        raise ShapeError('a', np.shape(a), '(3,) or (6,)')
    return _lower_triangular(cross_matrix(a[3:]), cross_matrix(a[:3]))


def exchange_matrix(dtype: Any = float) -> Array:
    r"""Return :math:`G = \begin{pmatrix}0 & E\\ E & 0\end{pmatrix}`, shape (6, 6).

    It reorders ``[v; w]`` to ``[w; v]`` and back.
    """
    return np.roll(identity(6, dtype), 3, axis=0)


def motion_subspace(axis: Array, prismatic: bool) -> Array:
    r"""Return the joint axis screw :math:`f^i`: the twist at unit joint velocity, body frame.

    The paper's axis numbers 1 to 6, a single 1 in row :math:`n_i`, are the special cases of a
    translation along (1, 2, 3) or a rotation about (4, 5, 6) a coordinate axis.

    Args:
        axis: Unit axis, shape (3,).
        prismatic: Whether the joint is prismatic, ``[axis; 0]``, or revolute, ``[0; axis]``.

    Returns:
        New array, shape (6,).
    """
    f = zeros(6, common_dtype(axis))
    f[slice(0, 3) if prismatic else slice(3, 6)] = axis
    return f


def spatial_inertia(mass: Scalar, com: Array, inertia: Array) -> Array:
    r"""Return the spatial inertia matrix of a body about the origin of its frame.

    .. math::
        \Theta = \begin{pmatrix} mE & m\langle r_c\rangle^T\\
        m\langle r_c\rangle & J\end{pmatrix},
        \qquad J = J_c - m\langle r_c\rangle\langle r_c\rangle

    Args:
        mass: kg.
        com: Centre of mass :math:`r_c` in the body frame, shape (3,), m.
        inertia: Tensor :math:`J_c` about the centre of mass, frame axes, shape (3, 3), kg m^2.

    Returns:
        New array, shape (6, 6), symmetric; positive definite for a real body.

    Source: Zaremba 1990, (2.2). The paper does not state the pole of its inertia tensor; J is
    about the origin of the frame (erratum Z11).
    """
    Theta = zeros((6, 6), common_dtype(mass, com, inertia))
    moment = mass * cross_matrix(com)
    Theta[:3, :3] = mass * identity(3, Theta.dtype)
    Theta[:3, 3:] = moment.T
    Theta[3:, :3] = moment
    Theta[3:, 3:] = shift_inertia(inertia, mass, com)
    return Theta


def _lower_triangular(diagonal: Array, corner: Array) -> Array:
    """Return ``[[diagonal, 0], [corner, diagonal]]`` of 3x3 blocks."""
    matrix = zeros((6, 6), common_dtype(diagonal, corner))
    matrix[:3, :3] = matrix[3:, 3:] = diagonal
    matrix[3:, :3] = corner
    return matrix
