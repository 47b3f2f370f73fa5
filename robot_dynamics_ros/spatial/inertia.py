# SPDX-License-Identifier: Apache-2.0
"""Inertia of rigid bodies: shift, rotation, composition, physical consistency."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array, Scalar

#: Rows and columns of the six elements of an inertia tensor: xx, xy, xz, yy, yz, zz.
TENSOR_ELEMENTS = [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]


class RigidBodyInertia(NamedTuple):
    """Mass (kg), centre of mass (3,) (m), tensor about it (3, 3) (kg m^2), in one frame."""

    mass: Scalar
    com: Array
    inertia: Array

    def transformed(self, R_AB: Array, p_AB: Array) -> RigidBodyInertia:
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
