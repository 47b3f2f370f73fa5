# SPDX-License-Identifier: Apache-2.0
r"""Inertia and screws of rigid bodies, for numbers or symbols.

Inertia: shift, rotation, composition, physical consistency. Screws: the 6-vectors and 6x6
operators of Zaremba 1990.

A twist ``[v; w]`` and a wrench ``[F; M]`` are expressed in the axes of a frame, with the pole at
its origin and the linear part first; their scalar product is power. Notation of the paper:

==============================  =========================  =====================================
here                            paper                      meaning
==============================  =========================  =====================================
``wrench_transform(R, p)``      :math:`L_k^i`              wrench coordinates, k to i
``wrench_transform(R, p).T``    :math:`L_k^{iT}`           twist coordinates, i to k
``inverse_transform(L)``        :math:`L_i^k`              wrench coordinates, i to k
``bracket(a)``                  :math:`\langle a\rangle`   force cross product ``a x*``
``bracket(a).T``                                           negative motion cross product ``a x``
``exchange_matrix()``           :math:`G`                  swaps the linear and angular parts
``mises_matrix(...)``           :math:`\Theta_k^k`         spatial inertia about the origin
==============================  =========================  =====================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import ShapeError
from robot_dynamics_ros.spatial.scalar import (
    Array,
    Scalar,
    common_dtype,
    cross_matrix,
    identity,
    zeros,
)

#: Rows and columns of the six elements of an inertia tensor: xx, xy, xz, yy, yz, zz.
TENSOR_ELEMENTS = [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]


class RigidBodyInertia(NamedTuple):
    """Mass (kg), centre of mass (3,) (m), tensor about it (3, 3) (kg m^2), in one frame."""

    mass: Scalar
    com: Array
    inertia: Array

    def seen_from(self, R_AB: Array, p_AB: Array) -> RigidBodyInertia:
        """Return the inertia expressed in frame A, given the pose of its frame B in A."""
        return RigidBodyInertia(
            self.mass, p_AB + R_AB @ self.com, rotate_inertia(R_AB, self.inertia)
        )


def point_mass_inertia(mass: Scalar, p: Array) -> Array:
    r"""Return the inertia tensor about the origin of a point mass at p.

    :math:`m\,(p^Tp\,\mathbf 1_3 - p\,p^T)`

    Args:
        mass: kg.
        p: Position, shape (3,), m.

    Returns:
        New array, shape (3, 3), kg m^2.

    Source: newton-euler-lagrange, section 2 (parallel axes).
    """
    return mass * ((p @ p) * np.eye(3, dtype=int) - np.outer(p, p))


def shift_inertia(inertia_C: Array, mass: Scalar, p_C: Array) -> Array:
    r"""Return the inertia tensor about another point, in parallel axes.

    :math:`{}^AI = {}^CI + m\,(P_C^TP_C\,\mathbf 1_3 - P_CP_C^T)`

    Args:
        inertia_C: Tensor about the centre of mass, shape (3, 3), kg m^2.
        mass: kg.
        p_C: Position of the centre of mass from the new point, tensor axes, shape (3,), m.

    Source: newton-euler-lagrange, section 2; one of the two points must be the centre of mass
    (erratum N19).
    """
    return inertia_C + point_mass_inertia(mass, p_C)


def rotate_inertia(R_AB: Array, inertia_B: Array) -> Array:
    r"""Return the inertia tensor about the same point in rotated axes, :math:`R\,I\,R^T`.

    Source: newton-euler-lagrange, section 2 (erratum N20).
    """
    return R_AB @ inertia_B @ R_AB.T


def pseudo_inertia(mass: float, moment: Array, inertia_O: Array) -> Array:
    r"""Return the pseudo-inertia matrix, positive definite for a physically consistent body.

    It is the integral of :math:`[x;1][x;1]^T` over the mass:

    .. math:: P = \begin{pmatrix}\tfrac12\mathrm{tr}(I)E - I & m c\\ m c^T & m\end{pmatrix}

    Args:
        mass: kg.
        moment: First moment of mass :math:`m c`, shape (3,), kg m.
        inertia_O: Inertia tensor about the origin, shape (3, 3), kg m^2.

    Returns:
        New array, shape (4, 4).

    Source: Wensing, Kim and Slotine 2018.
    """
    P = np.empty((4, 4))
    P[:3, :3] = 0.5 * np.trace(inertia_O) * np.eye(3) - inertia_O
    P[:3, 3] = P[3, :3] = moment
    P[3, 3] = mass
    return P


def body_parameters(body: RigidBodyInertia) -> Array:
    """Return the ten inertial parameters of a body, new array (10,).

    Mass, first moment and the tensor about the origin of the body frame, in the order of
    ``TENSOR_ELEMENTS``; the dynamics are linear in them.
    """
    about_origin = shift_inertia(body.inertia, body.mass, body.com)
    return np.concatenate([[body.mass], body.mass * body.com, about_origin[TENSOR_ELEMENTS]])


def body_inertia(block: Array) -> RigidBodyInertia:
    """Return the inertia of ten parameters, in the same frame; the mass is not zero."""
    mass, com = float(block[0]), block[1:4] / block[0]
    return RigidBodyInertia(mass, com, shift_inertia(tensor_of(block), -mass, com))


def tensor_of(block: Array) -> Array:
    """Return the inertia tensor (3, 3) about the body origin from ten parameters, kg m^2."""
    return symmetric_tensor(block[4:])


def symmetric_tensor(elements: Sequence[float] | Array) -> Array:
    """Return the symmetric tensor (3, 3) of six numbers in the order of ``TENSOR_ELEMENTS``."""
    tensor = np.empty((3, 3))
    tensor[TENSOR_ELEMENTS] = tensor.T[TENSOR_ELEMENTS] = elements
    return tensor


def combine(parts: Iterable[RigidBodyInertia]) -> RigidBodyInertia:
    """Return the inertia of rigidly connected bodies, all expressed in one frame.

    If the total mass is 0, the centre of mass is the origin.
    """
    bodies = list(parts)
    if len(bodies) == 1:
        return bodies[0]
    mass = sum(body.mass for body in bodies)
    moment = sum((body.mass * body.com for body in bodies), np.zeros(3))
    com = moment / mass if mass != 0.0 else moment
    inertia = sum(
        (shift_inertia(body.inertia, body.mass, body.com - com) for body in bodies),
        np.zeros((3, 3)),
    )
    return RigidBodyInertia(mass, com, inertia)


def inconsistency(inertia: Array, tolerance: float = 1e-9) -> str:
    """Return why an inertia tensor about the centre of mass is not physically consistent.

    Args:
        inertia: Symmetric tensor, shape (3, 3), kg m^2.
        tolerance: Relative tolerance of the triangle inequality, for rounded values in files.

    Returns:
        The reason; an empty string if the tensor is consistent.
    """
    moments = np.linalg.eigvalsh(inertia)
    listed = ', '.join(f'{moment:.6g}' for moment in moments)
    if not moments[0] > 0.0:
        return f'is not positive definite (principal moments {listed})'
    if moments[2] > (moments[0] + moments[1]) * (1.0 + tolerance):
        return f'breaks the triangle inequality (principal moments {listed})'
    return ''


# Screws ------------------------------------------------------------------------------------------


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


def bracket(a: Array | Sequence[Scalar]) -> Array:
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


def axis_vector(axis: Array, prismatic: bool) -> Array:
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


def mises_matrix(mass: Scalar, com: Array, inertia: Array) -> Array:
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
