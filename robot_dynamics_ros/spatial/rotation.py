# SPDX-License-Identifier: Apache-2.0
"""Rotations: elementary, axis-angle, roll-pitch-yaw, logarithm."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.spatial.scalar import (
    Array,
    Scalar,
    cos,
    cross_matrix,
    sin,
)
from robot_dynamics_ros.spatial.validation import array, unit

_GIMBAL_LOCK = 1e-12  # cosine of the pitch below which roll and yaw are not separated
_E = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
_SNAP = 4.0 * sys.float_info.epsilon


def rotation_about(axis: Array, angle: Scalar) -> Array:
    r"""Return the rotation by an angle about a unit axis.

    :math:`C(\alpha) = E + (1-\cos\alpha)\langle k\rangle\langle k\rangle
    + \sin\alpha\langle k\rangle`

    Args:
        axis: Unit axis k, shape (3,).
        angle: Angle in rad; a number or a symbol.

    Returns:
        New array, shape (3, 3): maps components in the rotated frame to the fixed frame.

    Source: Zaremba 1990, (1.1).
    """
    K = cross_matrix(axis)
    return _E + (K @ K) * (1 - cos(angle)) + K * sin(angle)


def rotation_from_rpy(roll: float, pitch: float, yaw: float) -> Array:
    r"""Return :math:`R_z(yaw) R_y(pitch) R_x(roll)`, the URDF's fixed-axis convention.

    Entries within rounding error of -1, 0 or 1 are set to that value, so that quarter turns
    written with 16 digits are exact and are folded in generated code.

    Args:
        roll: Rotation about x, rad.
        pitch: Rotation about y, rad.
        yaw: Rotation about z, rad.

    Returns:
        New array, shape (3, 3): maps child components to parent components.
    """
    cr, sr = math.cos(roll), math.sin(roll)
    cp, sp = math.cos(pitch), math.sin(pitch)
    cy, sy = math.cos(yaw), math.sin(yaw)
    R = np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )
    nearest = np.round(R)
    return np.where(np.abs(R - nearest) < _SNAP, nearest, R) + 0.0


def roll_pitch_yaw(R: Array) -> tuple[float, float, float]:
    """Return the fixed-axis angles (rad) of a rotation, the inverse of ``rotation_from_rpy``.

    In gimbal lock (roll and yaw about the same axis), yaw is 0. Roll is that of the rotation
    without its yaw, so that both together are exact near it, too.

    Raises:
        ShapeError, ParameterError: R is not of shape (3, 3), or not of numbers.
    """
    R = array('R', R, (3, 3), finite=False)
    cosine = math.hypot(R[0, 0], R[1, 0])  # of the pitch
    yaw = math.atan2(R[1, 0], R[0, 0]) if cosine > _GIMBAL_LOCK else 0.0
    c, s = math.cos(yaw), math.sin(yaw)
    roll = math.atan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1])
    return roll, math.atan2(-R[2, 0], cosine), yaw


def rotation_vector(R: Array) -> Array:
    r"""Return the rotation vector :math:`\log(R)^\vee`, of length in [0, pi] rad.

    Args:
        R: Rotation matrix, shape (3, 3).

    Returns:
        New array, shape (3,), rad. At an angle of pi, one of the two equivalent vectors.

    Raises:
        ShapeError, ParameterError: R is not of shape (3, 3), or not of numbers.
    """
    R = array('R', R, (3, 3), finite=False)
    vee = 0.5 * np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    s = math.sqrt(vee @ vee)
    c = 0.5 * (R[0, 0] + R[1, 1] + R[2, 2] - 1.0)
    angle = math.atan2(s, c)
    if angle < 1e-8:
        return vee
    if math.pi - angle > 1e-6:
        return vee * (angle / s)
    # Near pi the symmetric part determines the axis: R + R^T = 2 (c E + (1 - c) k k^T).
    kk = (0.5 * (R + R.T) - c * np.eye(3)) / (1.0 - c)
    column = int(np.argmax(np.diag(kk)))
    axis = kk[:, column] / math.sqrt(kk[column, column])
    return angle * axis * (1.0 if vee @ axis >= 0.0 else -1.0)


def roll_pitch_upright(down: Sequence[float] | Array) -> tuple[float, float]:
    """Return roll and pitch, rad, about fixed axes, of a frame in which ``down`` points along -z.

    Args:
        down: Direction in the turned frame, shape (3,), not zero.

    Raises:
        ShapeError, ParameterError, NonFiniteError: As of :func:`unit`.
    """
    x, y, z = (-unit('down', down)).tolist()
    return math.atan2(y, z), -math.atan2(x, math.hypot(y, z))


def quaternion_xyzw(R: Array) -> Array:
    """Return the unit quaternion x, y, z, w of a rotation, new array, shape (4,)."""
    phi = rotation_vector(R)
    half = 0.5 * math.sqrt(float(phi @ phi))
    return np.array([*(0.5 * np.sinc(half / math.pi) * phi), math.cos(half)])


def rotation_from_xyzw(quaternion: Array) -> Array:
    """Return the rotation matrix, shape (3, 3), of a nonzero quaternion x, y, z, w.

    Raises:
        ShapeError, ParameterError, NonFiniteError: It is not of shape (4,), or not of numbers.
    """
    quaternion = array('quaternion', quaternion, (4,))
    scaled = quaternion / np.abs(quaternion).max()  # avoids overflow and underflow of the norm
    x, y, z, w = scaled / math.sqrt(float(scaled @ scaled))
    axial = np.array([x, y, z])
    K = cross_matrix(axial)
    return np.eye(3) + 2.0 * w * K + 2.0 * (K @ K)
