# SPDX-License-Identifier: Apache-2.0
r"""Closed-form kinematics of the four-joint arm: waist, shoulder, elbow, wrist pitch.

Axes 2, 3, 4 are parallel; negative :math:`\theta_2` raises the arm. With
:math:`\theta_{23} = \theta_2 + \theta_3`, :math:`\phi = \theta_2 + \theta_3 + \theta_4` and

.. math:: r = a_2 c_2 + a_3 c_{23}, \qquad z = -a_2 s_2 - a_3 s_{23}

(r is the *signed* distance of the wrist from the waist axis):

.. math::

   {}^0T_4 = \begin{pmatrix} c_1c_\phi & -c_1s_\phi & -s_1 & c_1r \\
   s_1c_\phi & -s_1s_\phi & c_1 & s_1r \\ -s_\phi & -c_\phi & 0 & z \\ 0 & 0 & 0 & 1
   \end{pmatrix} = \begin{pmatrix} n & o & a & p \\ 0 & 0 & 0 & 1 \end{pmatrix}

Poses refer to the wrist (frame 4) unless the tool point, fixed in frame 4, is selected. Source: Wu
et al. 2009; the inverse and columns 1 to 3 of the Jacobian are corrected (errata F4 to F16).
Forward kinematics, Jacobian and bias acceleration accept numbers or symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from robot_dynamics_ros.errors import known_name
from robot_dynamics_ros.kinematics.four_dof_inverse import (
    FOUR_DOF,
    FOUR_DOF_WIDE,
    POINTS,
    FourDofGeometry,
    inverse,
    inverse_pose,
)
from robot_dynamics_ros.kinematics.solution import components, in_axes, turned
from robot_dynamics_ros.model import FramePose
from robot_dynamics_ros.spatial.scalar import Array, Scalar, cos, cross, sin

__all__ = [
    'FOUR_DOF',
    'FOUR_DOF_WIDE',
    'FourDofGeometry',
    'bias_acceleration',
    'forward',
    'inverse',
    'inverse_pose',
    'jacobian',
    'task_jacobian',
]

Joints = Array | Sequence[Scalar]
Axes = Literal['base', 'tool']
Point = Literal['wrist', 'tool']


def forward(
    q: Joints, geometry: FourDofGeometry = FOUR_DOF, *, point: Point = 'wrist'
) -> FramePose:
    """Return the rotation of frame 4 and the position of the wrist or tool point.

    Args:
        q: theta1 to theta4, rad.
        geometry: Geometry of the arm.
        point: 'wrist' (origin of frame 4) or 'tool' (the geometry's tool point).

    Returns:
        New arrays ``R_WF`` (3, 3), mapping frame 4 to base components, and ``p_WF`` (3,), m.

    Raises:
        ShapeError: q does not have four elements.
        UnknownNameError: The point is unknown.

    Source: Wu et al. 2009, (2).
    """
    t1, t2, t3, t4 = components('q', q, 4)
    c1, s1, phi = cos(t1), sin(t1), t2 + t3 + t4
    c, s = cos(phi), sin(phi)
    r = geometry.a2 * cos(t2) + geometry.a3 * cos(t2 + t3)
    z = -geometry.a2 * sin(t2) - geometry.a3 * sin(t2 + t3)
    R = np.array([[c1 * c, -c1 * s, -s1], [s1 * c, -s1 * s, c1], [-s, -c, 0]])
    p = np.array([c1 * r, s1 * r, geometry.height + z])
    if known_name('point', point, POINTS) == 'tool':
        p = p + R @ np.array(geometry.tool)
    return FramePose(R, p)


def jacobian(
    q: Joints,
    geometry: FourDofGeometry = FOUR_DOF,
    *,
    frame: Axes = 'base',
    point: Point = 'wrist',
) -> Array:
    r"""Return the Jacobian, linear rows first, shape (6, 4).

    For the wrist, in the axes of frame 4 and of the base frame:

    .. math::

       {}^4J = \begin{pmatrix} 0 & a_2s_{34}+a_3s_4 & a_3s_4 & 0 \\
       0 & a_2c_{34}+a_3c_4 & a_3c_4 & 0 \\ r & 0 & 0 & 0 \\ -s_\phi & 0 & 0 & 0 \\
       -c_\phi & 0 & 0 & 0 \\ 0 & 1 & 1 & 1 \end{pmatrix}, \qquad
       {}^0J = \begin{pmatrix} -s_1r & c_1z & -c_1a_3s_{23} & 0 \\
       c_1r & s_1z & -s_1a_3s_{23} & 0 \\ 0 & -r & -a_3c_{23} & 0 \\
       0 & -s_1 & -s_1 & -s_1 \\ 0 & c_1 & c_1 & c_1 \\ 1 & 0 & 0 & 0 \end{pmatrix}

    Args:
        q: theta1 to theta4, rad.
        geometry: Geometry of the arm.
        frame: Axes in which velocities are expressed: 'base', or 'tool' (those of frame 4).
        point: Reference point, 'wrist' or 'tool'.

    Raises:
        ShapeError: q does not have four elements.
        UnknownNameError: The axes or the point are unknown.

    Source: Wu et al. 2009, (18) to (25); columns 1 to 3 corrected (errata F12 to F16).
    """
    t1, t2, t3, t4 = components('q', q, 4)
    a2, a3, phi = geometry.a2, geometry.a3, t2 + t3 + t4
    r = a2 * cos(t2) + a3 * cos(t2 + t3)
    J = np.array(
        [
            [0, a2 * sin(t3 + t4) + a3 * sin(t4), a3 * sin(t4), 0],
            [0, a2 * cos(t3 + t4) + a3 * cos(t4), a3 * cos(t4), 0],
            [r, 0, 0, 0],
            [-sin(phi), 0, 0, 0],
            [-cos(phi), 0, 0, 0],
            [0, 1, 1, 1],
        ]
    )
    if known_name('point', point, POINTS) == 'tool':
        lever = [cross(J[3:, j], geometry.tool) for j in range(4)]
        J = np.concatenate([J[:3] + np.array(lever).T, J[3:]])
    if known_name('axes', frame, ('base', 'tool')) == 'tool':
        return J
    return turned(forward(q, geometry).R_WF, J)


def bias_acceleration(
    q: Joints,
    v: Joints,
    geometry: FourDofGeometry = FOUR_DOF,
    *,
    frame: Axes = 'base',
    point: Point = 'wrist',
) -> Array:
    r"""Return the bias acceleration :math:`{}^0\dot J\dot\theta`, shape (6,).

    With :math:`\omega_2 = \dot\theta_2`, :math:`\omega_{23} = \dot\theta_2 + \dot\theta_3`,
    :math:`\dot r = -a_2s_2\omega_2 - a_3s_{23}\omega_{23}`,
    :math:`R_b = -a_2c_2\omega_2^2 - a_3c_{23}\omega_{23}^2 - r\dot\theta_1^2`,
    :math:`T_b = 2\dot r\dot\theta_1` and
    :math:`Z_b = a_2s_2\omega_2^2 + a_3s_{23}\omega_{23}^2`, the bias acceleration of the wrist is

    .. math:: [c_1R_b - s_1T_b,\ s_1R_b + c_1T_b,\ Z_b,\
              -c_1\dot\theta_1\dot\phi,\ -s_1\dot\theta_1\dot\phi,\ 0]^T .

    Args:
        q: theta1 to theta4, rad.
        v: Joint velocities, rad/s.
        geometry: Geometry of the arm.
        frame: Axes of the (classical) acceleration: 'base', or 'tool' (those of frame 4).
        point: Reference point, 'wrist' or 'tool'.

    Raises:
        ShapeError: q or v does not have four elements.
        UnknownNameError: The axes or the point are unknown.

    Source: four-dof-arm, section 4 (not in the paper).
    """
    t1, t2, t3, _ = components('q', q, 4)
    v = components('v', v, 4)
    c1, s1 = cos(t1), sin(t1)
    w1, w2, w23, w_phi = v[0], v[1], v[1] + v[2], v[1] + v[2] + v[3]
    x2, x3 = geometry.a2 * cos(t2), geometry.a3 * cos(t2 + t3)
    y2, y3 = geometry.a2 * sin(t2), geometry.a3 * sin(t2 + t3)
    R_b = -x2 * w2 * w2 - x3 * w23 * w23 - (x2 + x3) * w1 * w1
    T_b = -2 * (y2 * w2 + y3 * w23) * w1
    linear = np.array([c1 * R_b - s1 * T_b, s1 * R_b + c1 * T_b, y2 * w2 * w2 + y3 * w23 * w23])
    angular = np.array([-c1 * w1 * w_phi, -s1 * w1 * w_phi, 0])
    R = forward(q, geometry).R_WF
    if known_name('point', point, POINTS) == 'tool':
        lever, w = R @ np.array(geometry.tool), np.array([-s1 * w_phi, c1 * w_phi, w1])
        linear = linear + cross(angular, lever) + cross(w, cross(w, lever))
    return in_axes(frame, R, np.concatenate([linear, angular]))


def task_jacobian(
    q: Joints, geometry: FourDofGeometry = FOUR_DOF, *, point: Point = 'wrist'
) -> Array:
    r"""Return the Jacobian of position and pitch :math:`(p_x, p_y, p_z, \phi)`, shape (4, 4).

    For the wrist its determinant is :math:`a_2\,a_3\,s_3\,r`. The bias acceleration of the task is
    the linear part of :func:`bias_acceleration`, and 0 for the pitch.

    Args:
        q: theta1 to theta4, rad.
        geometry: Geometry of the arm.
        point: Reference point, 'wrist' or 'tool'.

    Source: four-dof-arm, section 4 (square task).
    """
    J = jacobian(q, geometry, point=point)
    return np.concatenate([J[:3], np.array([[0, 1, 1, 1]])])
