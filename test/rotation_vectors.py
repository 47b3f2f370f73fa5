# SPDX-License-Identifier: Apache-2.0
"""The exponential of a rotation vector and the derivative of the logarithm, in closed form."""

from __future__ import annotations

import math

import numpy as np

from robot_dynamics_ros.spatial.rotation import rotation_about
from robot_dynamics_ros.spatial.scalar import Array, cross_matrix


def rotation_from_vector(phi: Array) -> Array:
    """Return the rotation by the angle ``|phi|`` (rad) about ``phi``, shape (3, 3)."""
    angle = math.sqrt(float(phi @ phi))
    if angle < 1e-12:
        return np.eye(3) + cross_matrix(phi)
    return rotation_about(phi / angle, angle)


def right_jacobian_inverse(phi: Array) -> Array:
    r"""Return :math:`J_r^{-1}(\varphi)`, with
    :math:`\dot\varphi = J_r^{-1}(\varphi)\,\omega` for body-axes :math:`\omega`.

    :math:`J_r^{-1}=E+\tfrac12\langle\varphi\rangle
    +\Big(\tfrac1{\theta^2}-\tfrac{1+\cos\theta}{2\theta\sin\theta}\Big)\langle\varphi\rangle^2`,
    :math:`\theta=|\varphi|<\pi`.

    Args:
        phi: Rotation vector, shape (3,), rad.

    Returns:
        New array, shape (3, 3).

    Source: constraint-stabilization, section 2.1 (full pose).
    """
    K = cross_matrix(phi)
    return np.eye(3) + 0.5 * K + log_curvature(math.sqrt(float(phi @ phi))) * (K @ K)


def log_curvature(theta: float) -> float:
    r"""Return :math:`1/\theta^2 - (1+\cos\theta)/(2\theta\sin\theta)`; 1/12 at 0.

    Args:
        theta: Angle in [0, pi), rad.
    """
    if theta < 1e-2:
        t2 = theta * theta
        return 1.0 / 12.0 + t2 / 720.0 + t2 * t2 / 30240.0
    return 1.0 / theta**2 - (1.0 + math.cos(theta)) / (2.0 * theta * math.sin(theta))
