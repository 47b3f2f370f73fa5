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

Inverse kinematics, all branches: for a wrist at (r, z) in the plane of the arm
(:math:`\rho^2 = r^2 + z^2`) and the pitch :math:`\phi`,

.. math::

   \kappa &= \frac{\rho^2 - a_2^2 - a_3^2}{2 a_2 a_3}, \qquad
   \theta_3 = \operatorname{atan2}(\sigma\sqrt{1 - \kappa^2},\ \kappa), \quad \sigma = \pm1 \\
   \theta_2 &= \operatorname{atan2}(-z, r) - \operatorname{atan2}(a_3 s_3,\ a_2 + a_3 c_3),
   \qquad \theta_4 = \phi - \theta_2 - \theta_3

Replaces Wu et al. 2009, (3) to (17): the paper's derivation omits terms and squares (errata F4 to
F11) and finds one solution of two (full pose) or four (position and pitch).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from robot_dynamics_ros.errors import UnreachableError, known_name
from robot_dynamics_ros.kinematics.solution import (
    ELBOW_SINGULAR,
    Axes,
    Solution,
    components,
    elbow_sine,
    in_axes,
    is_rotation,
    lengths,
    require_frames,
    turned,
    violations,
    wrap,
)
from robot_dynamics_ros.model import FramePose, Robot
from robot_dynamics_ros.spatial.scalar import Array, Scalar, cos, cross, sin
from robot_dynamics_ros.spatial.validation import array, require_numbers

Joints = Array | Sequence[Scalar]
Point = Literal['wrist', 'tool']

#: Reference points of a pose.
POINTS = ('wrist', 'tool')
#: Distance from the waist axis, relative to the reach, below which the waist is treated as free.
SHOULDER_SINGULAR = 1e-9
_ROUNDING = 1e-15  # relative rounding error of a few operations
_DOWN = ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, -1.0, 0.0))  # Rot_x(-90 deg)


@dataclass(frozen=True)
class FourDofGeometry:
    """Geometry of a four-joint arm (waist, shoulder, elbow, wrist pitch).

    Attributes:
        a2: Length of the upper arm, shoulder axis to elbow axis, m.
        a3: Length of the forearm, elbow axis to wrist axis, m.
        tool: Tool point in frame 4, m.
        height: Height of frame {0} above the reference frame of poses, m; 0 as in the paper.
        lower, upper: Joint limits, rad; those of the paper's table by default.
    """

    a2: Scalar = 0.30
    a3: Scalar = 0.25
    tool: tuple[Scalar, Scalar, Scalar] = (0.0, 0.12, 0.0)
    height: Scalar = 0.0
    lower: tuple[float, ...] = (-math.pi / 2, -3 * math.pi / 4, -math.pi / 4, 0.0)
    upper: tuple[float, ...] = (math.pi / 2, -math.pi / 4, math.pi / 6, math.pi / 2)

    @classmethod
    def from_tree(cls, tree: Robot, frame: str = 'tool') -> FourDofGeometry:
        """Return the geometry of a robot model; poses refer to its root link.

        Raises:
            ModelError: The robot does not have this arm's structure, or the axes of the frame are
                not those of the last link.
            UnknownNameError: There is no such frame.
        """
        tool = tree.frame(frame)
        height, a2, a3 = lengths(tree, (0, 2), (2, 0), (3, 0))
        origins = [[0, 0, height], [0, 0, 0], [a2, 0, 0], [a3, 0, 0]]
        same, arm = np.eye(3), 'arm waist-shoulder-elbow-wrist'
        require_frames(tree, tool, arm, origins, [same, np.array(_DOWN), same, same], (False,) * 4)
        x, y, z = tool.p_BF.tolist()
        lower, upper = tree.reference_lower.tolist(), tree.reference_upper.tolist()
        return cls(a2, a3, (x, y, z), height, tuple(lower), tuple(upper))


#: The project's arm with the paper's joint limits: the wrist's reach is a shell 4 cm thick.
FOUR_DOF = FourDofGeometry()

#: The same arm with the project's wide limits.
FOUR_DOF_WIDE = FourDofGeometry(
    lower=(-math.pi / 2, -math.pi, -3 * math.pi / 4, -math.pi / 2),
    upper=(math.pi / 2, 0.0, 3 * math.pi / 4, math.pi / 2),
)


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
        ShapeError, ParameterError, NonFiniteError: q is not four finite numbers or symbols.
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
        ShapeError, ParameterError, NonFiniteError: q is not four finite numbers or symbols.
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
        ShapeError, ParameterError, NonFiniteError: q or v is not four finite numbers or symbols.
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
    return np.vstack([J[:3], [0, 1, 1, 1]])


def inverse_pose(
    R: Array | Sequence[Sequence[float]],
    p: Array | Sequence[float],
    geometry: FourDofGeometry = FOUR_DOF,
    *,
    tolerance: float = 1e-9,
) -> list[Solution]:
    """Return the solutions for a full pose of the wrist (frame 4), at most two.

    A branch name combines 'front' or 'back' (the wrist in front of or behind the waist axis, in
    the waist's forward direction) with 'up' or 'down' (the elbow above or below the line from
    shoulder to wrist).

    Args:
        R: Rotation of frame 4 in the base frame, shape (3, 3); columns n, o, a.
        p: Wrist position in the base frame, shape (3,), m.
        geometry: Geometry of the arm.
        tolerance: On the feasibility of the pose, and on the cosine of theta3 beyond [-1, 1].

    Returns:
        The solutions with their status, including those outside the joint limits.

    Raises:
        UnreachableError: R is not a rotation, the wrist axis is not horizontal, or the position
            is off the plane of the arm or out of reach.
        ShapeError: R or p has the wrong shape.

    Source: four-dof-arm, section 3.1; errata F4 to F11.
    """
    R = array('R', R, (3, 3), finite=False)
    p = array('p', p, (3,), finite=False)
    if not (is_rotation(R, tolerance) and np.isfinite(p).all()):
        raise UnreachableError('wrist pose', 'R is not a rotation matrix, or p is not finite')
    (n_z, o_z, a_z), (a_x, a_y), (x, y, z) = R[2].tolist(), R[:2, 2].tolist(), p.tolist()
    if abs(a_z) > tolerance:
        raise UnreachableError(
            'wrist pose', f'four joints keep the wrist axis horizontal; here a_z = {a_z:.6g}'
        )
    t1 = math.atan2(-a_x, a_y)
    c1, s1 = math.cos(t1), math.sin(t1)
    offset = -s1 * x + c1 * y
    if abs(offset) > tolerance:
        raise UnreachableError(
            'wrist pose', f'the position is {offset:.6g} m off the plane across the wrist axis'
        )
    r, phi = c1 * x + s1 * y, math.atan2(-n_z, -o_z)
    return _planar(
        t1, r, z - float(geometry.height), phi, geometry, tolerance, f'wrist at {_text(p)}', r
    )


def inverse(
    p: Array | Sequence[float],
    pitch: float,
    geometry: FourDofGeometry = FOUR_DOF,
    *,
    point: str = 'wrist',
    current: Array | Sequence[float] | None = None,
    tolerance: float = 1e-9,
) -> list[Solution]:
    """Return the solutions for a position of the wrist or tool point and a pitch, at most four.

    Args:
        p: Position in the base frame, shape (3,), m.
        pitch: phi = theta2 + theta3 + theta4, rad.
        geometry: Geometry of the arm.
        point: 'wrist' (origin of frame 4) or 'tool' (the geometry's tool point).
        current: Joint positions, rad, that supply theta1 where it is free (point on the waist
            axis) and theta2 where it is free (wrist on the shoulder axis); zeros if None.
        tolerance: Maximum excess of the cosine of theta3 over [-1, 1] that is clamped, in addition
            to the rounding error of a point at the minimum distance from the waist axis.

    Returns:
        The solutions with their status, including those outside the joint limits; branch names as
        in :func:`inverse_pose`.

    Raises:
        UnreachableError: No branch reaches the position, or an argument is not finite.
        ShapeError: p does not have three elements.
        UnknownNameError: The point is unknown.

    Source: four-dof-arm, section 3.2; erratum F11.
    """
    require_numbers(pitch=pitch)
    x, y, z = array('p', p, (3,), finite=False).tolist()
    if not all(map(math.isfinite, (x, y, z, pitch))):
        raise UnreachableError('target', 'it is not finite')
    tool = known_name('point', point, POINTS) == 'tool'
    t_x, t_y, t_z = map(float, geometry.tool) if tool else (0.0, 0.0, 0.0)
    target = f'{point} at {_text((x, y, z))}'
    horizontal = x * x + y * y - t_z * t_z
    reach = float(geometry.a2) + float(geometry.a3)
    rounding = _ROUNDING * (reach + math.hypot(x, y, z) + abs(t_z))  # error of the position, m
    margin = rounding * (2.0 * math.hypot(x, y) + rounding)  # error of ``horizontal``, m^2
    if horizontal < -margin:
        raise UnreachableError(target, f'closer than {abs(t_z):.6g} m to the waist axis')
    c, s = math.cos(pitch), math.sin(pitch)
    solutions: list[Solution] = []
    reasons: list[str] = []
    distance = math.sqrt(max(horizontal, 0.0))
    uncertain = math.sqrt(distance * distance + margin) - distance
    free = distance < SHOULDER_SINGULAR * reach
    for eta in (1.0, -1.0):
        r_t = eta * distance
        t1 = math.atan2(y, x) - math.atan2(t_z, r_t)
        if free and t_z == 0.0:
            t1 = 0.0 if current is None else float(current[0])
        # From the point to the wrist, in the plane of the arm: n and o rotated by the pitch.
        r, z_w = r_t - (c * t_x - s * t_y), z - float(geometry.height) + s * t_x + c * t_y
        # The derivative of the cosine of theta3 with respect to r is r / (a2 a3).
        slack = tolerance + abs(r) * uncertain / float(geometry.a2 * geometry.a3)
        try:
            solutions += _planar(t1, r, z_w, pitch, geometry, slack, target, r_t, current)
        except UnreachableError as refusal:
            reasons.append(refusal.reason)
        if free:
            break
    if not solutions:
        raise UnreachableError(target, ', '.join(dict.fromkeys(reasons)))
    return solutions


def _planar(
    t1: float,
    r: float,
    z: float,
    phi: float,
    geometry: FourDofGeometry,
    tolerance: float,
    target: str,
    lever: float,
    current: Array | Sequence[float] | None = None,
) -> list[Solution]:
    """Return the elbow branches of the planar two-link arm.

    ``lever`` is the signed distance of the reference point from the waist axis; ``target`` is
    named in errors.
    """
    a2, a3 = float(geometry.a2), float(geometry.a3)
    reach = a2 + a3
    rho = math.sqrt(r * r + z * z)
    kappa = (rho * rho - a2 * a2 - a3 * a3) / (2.0 * a2 * a3)
    if abs(kappa) > 1.0 + tolerance:
        raise UnreachableError(
            target,
            f'the wrist would be {rho:.6g} m from the shoulder; '
            f'reach is {abs(a2 - a3):.6g} to {reach:.6g} m',
        )
    sine = elbow_sine(kappa)
    singular = (('elbow',) if sine < ELBOW_SINGULAR else ()) + (
        ('shoulder',) if abs(lever) < SHOULDER_SINGULAR * reach else ()
    )
    side = 'back' if r < 0.0 else 'front'
    solutions = []
    for sigma in (1.0, -1.0) if sine > 0.0 else (1.0,):
        t3 = math.atan2(sigma * sine, kappa)
        t2 = math.atan2(-z, r) - math.atan2(a3 * sigma * sine, a2 + a3 * kappa)
        if rho < SHOULDER_SINGULAR * reach:
            t2 = 0.0 if current is None else float(current[1])
        q = np.array([wrap(t1), wrap(t2), t3, wrap(phi - t2 - t3)])
        # A positive theta3 bends the forearm clockwise, viewed with r to the right and z up.
        height = 'up' if (sigma > 0.0) == (r >= 0.0) else 'down'
        limits = violations(q, geometry.lower, geometry.upper)
        solutions.append(Solution(q, f'{side}_{height}', singular, limits))
    return solutions


def _text(p: Sequence[float] | Array) -> str:
    return '({:.6g}, {:.6g}, {:.6g})'.format(*p)
