# SPDX-License-Identifier: Apache-2.0
r"""Closed-form kinematics of the SCARA: joints R R P R, z3 and z4 pointing down.

With :math:`\psi = \theta_1 + \theta_2 - \theta_4` (the yaw of the tool):

.. math::

   {}^0_4T = \begin{pmatrix} c_\psi & s_\psi & 0 & L_1 c_1 + L_2 c_{12} \\
   s_\psi & -c_\psi & 0 & L_1 s_1 + L_2 s_{12} \\ 0 & 0 & -1 & -d_3 \\ 0 & 0 & 0 & 1
   \end{pmatrix}

Source: Cui 2013, (3), (4), checked by multiplication and differentiation (S11: correct).
Forward kinematics, Jacobian and bias acceleration accept numbers or symbols.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.errors import UnreachableError
from robot_dynamics_ros.kinematics.solution import (
    ELBOW_SINGULAR,
    Axes,
    Solution,
    components,
    elbow_sine,
    in_axes,
    lengths,
    require_frames,
    violations,
    wrap,
)
from robot_dynamics_ros.model import FramePose, Robot
from robot_dynamics_ros.spatial.scalar import Array, Scalar, cos, sin
from robot_dynamics_ros.spatial.validation import array, require_numbers


@dataclass(frozen=True)
class ScaraGeometry:
    """Lengths and joint limits of a SCARA.

    Attributes:
        L1: Distance from axis 1 to axis 2, m.
        L2: Distance from axis 2 to axis 3, m.
        height: Height of frame {0} above the reference frame of poses, m; 0 as in the paper.
        lower, upper: Joint limits, rad, rad, m, rad.
    """

    L1: Scalar = 0.325
    L2: Scalar = 0.275
    height: Scalar = 0.0
    lower: tuple[float, ...] = (-2.30, -2.53, 0.0, -6.28)
    upper: tuple[float, ...] = (2.30, 2.53, 0.25, 6.28)

    @classmethod
    def from_tree(cls, tree: Robot, frame: str = 'tool') -> ScaraGeometry:
        """Return the geometry of a robot model; poses refer to its root link.

        Raises:
            ModelError: The robot does not have this SCARA's structure, or the frame is not {4}.
            UnknownNameError: There is no such frame.
        """
        tool = tree.frame(frame)
        height, L1, L2 = lengths(tree, (0, 2), (1, 0), (2, 0))
        origins = [[0, 0, height], [L1, 0, 0], [L2, 0, 0], [0, 0, 0]]
        down, up = np.diag([1.0, -1.0, -1.0]), np.eye(3)
        prismatic, arm = (False, False, True, False), 'SCARA R R P R'
        require_frames(tree, tool, arm, origins, [up, up, down, up], prismatic, np.zeros(3))
        lower, upper = tree.reference_lower.tolist(), tree.reference_upper.tolist()
        return cls(L1, L2, height, tuple(lower), tuple(upper))


SCARA = ScaraGeometry()


def forward(q: Array | Sequence[Scalar], geometry: ScaraGeometry = SCARA) -> FramePose:
    """Return the pose of the tool (frame {4}).

    Args:
        q: theta1, theta2 (rad), d3 (m), theta4 (rad).
        geometry: Geometry of the arm.

    Returns:
        New arrays ``R_WF`` (3, 3), mapping tool to base components, and ``p_WF`` (3,), m.

    Raises:
        ShapeError, ParameterError, NonFiniteError: q is not four finite numbers or symbols.

    Source: Cui 2013, (3).
    """
    t1, t2, d3, t4 = components('q', q, 4)
    L1, L2 = geometry.L1, geometry.L2
    c, s = cos(t1 + t2 - t4), sin(t1 + t2 - t4)
    R = np.array([[c, s, 0], [s, -c, 0], [0, 0, -1]])
    x = L1 * cos(t1) + L2 * cos(t1 + t2)
    y = L1 * sin(t1) + L2 * sin(t1 + t2)
    return FramePose(R, np.array([x, y, geometry.height - d3]))


def jacobian(
    q: Array | Sequence[Scalar], geometry: ScaraGeometry = SCARA, *, frame: Axes = 'base'
) -> Array:
    r"""Return the Jacobian of the tool, linear rows first, shape (6, 4).

    The determinant of rows 1, 2, 3, 6 in base axes is :math:`L_1 L_2 \sin\theta_2`.

    Args:
        q: theta1, theta2 (rad), d3 (m), theta4 (rad).
        geometry: Geometry of the arm.
        frame: Axes in which velocities are expressed, 'base' or 'tool'; the reference point is
            the tool's origin in both cases.

    Raises:
        ShapeError, ParameterError, NonFiniteError: q is not four finite numbers or symbols.
        UnknownNameError: The axes are unknown.

    Source: Cui 2013, (4).
    """
    t1, t2, _, _ = components('q', q, 4)
    x2, y2 = geometry.L2 * cos(t1 + t2), geometry.L2 * sin(t1 + t2)
    x, y = geometry.L1 * cos(t1) + x2, geometry.L1 * sin(t1) + y2
    J = np.array(
        [
            [-y, -y2, 0, 0],
            [x, x2, 0, 0],
            [0, 0, -1, 0],
            [0, 0, 0, 0],
            [0, 0, 0, 0],
            [1, 1, 0, -1],
        ]
    )
    return in_axes(frame, forward(q, geometry).R_WF, J)


def bias_acceleration(
    q: Array | Sequence[Scalar],
    v: Array | Sequence[Scalar],
    geometry: ScaraGeometry = SCARA,
    *,
    frame: Axes = 'base',
) -> Array:
    r"""Return the bias acceleration of the tool, :math:`\dot J v`, shape (6,).

    :math:`-(L_1 c_1\dot\theta_1^2 + L_2 c_{12} W^2,\ L_1 s_1\dot\theta_1^2 + L_2 s_{12} W^2,
    0, 0, 0, 0)`, :math:`W = \dot\theta_1 + \dot\theta_2`.

    Args:
        q: Joint positions, rad, rad, m, rad.
        v: Joint velocities, rad/s, rad/s, m/s, rad/s.
        geometry: Geometry of the arm.
        frame: Axes in which the (classical) acceleration is expressed, 'base' or 'tool'.

    Raises:
        ShapeError, ParameterError, NonFiniteError: q or v is not four finite numbers or symbols.
        UnknownNameError: The axes are unknown.

    Source: the rate of Cui 2013, (4) (not in the paper).
    """
    t1, t2, _, _ = components('q', q, 4)
    v = components('v', v, 4)
    w1, W = v[0] * v[0], (v[0] + v[1]) * (v[0] + v[1])
    x = geometry.L1 * cos(t1) * w1 + geometry.L2 * cos(t1 + t2) * W
    y = geometry.L1 * sin(t1) * w1 + geometry.L2 * sin(t1 + t2) * W
    bias = np.array([-x, -y, 0, 0, 0, 0])
    return in_axes(frame, forward(q, geometry).R_WF, bias)


def inverse(
    position: Array | Sequence[float],
    yaw: float,
    geometry: ScaraGeometry = SCARA,
    *,
    current: Array | Sequence[float] | None = None,
    tolerance: float = 1e-9,
) -> list[Solution]:
    """Return the solutions for a tool position and yaw: 'right' (theta2 >= 0) and 'left'.

    For 'right', the elbow is to the right of the line from axis 1 to the tool, as for a right arm.
    Where the branches meet (stretched or folded), only one is returned, marked singular.

    Args:
        position: Tool position in the base frame, shape (3,), m.
        yaw: psi = theta1 + theta2 - theta4, rad: the angle of the tool's x axis from base x.
        geometry: Geometry of the arm.
        current: Joint positions that supply theta1 where it is free (tool on axis 1, possible only
            if L1 = L2); zeros if None.
        tolerance: Maximum excess of the cosine of theta2 over [-1, 1] that is clamped.

    Returns:
        One or two solutions with their status, including those outside the joint limits.

    Raises:
        UnreachableError: The position is out of reach, or an argument is not finite.
        ShapeError: The position does not have three elements.

    Source: Cui 2013, (3), solved for the joints by the law of cosines (not in the paper).
    """
    require_numbers(yaw=yaw)
    x, y, z = array('position', position, (3,), finite=False).tolist()
    if not all(map(math.isfinite, (x, y, z, yaw))):
        raise UnreachableError('tool target', 'it is not finite')
    L1, L2 = float(geometry.L1), float(geometry.L2)
    r2 = x * x + y * y
    kappa = (r2 - L1 * L1 - L2 * L2) / (2.0 * L1 * L2)
    if abs(kappa) > 1.0 + tolerance:
        raise UnreachableError(
            f'tool position ({x:.6g}, {y:.6g}, {z:.6g})',
            f'{math.sqrt(r2):.6g} m from axis 1; reach is {abs(L1 - L2):.6g} to {L1 + L2:.6g} m',
        )
    sine = elbow_sine(kappa)
    free = math.sqrt(r2) < tolerance * (L1 + L2)
    singular = (('elbow',) if sine < ELBOW_SINGULAR else ()) + (('shoulder',) if free else ())
    solutions = []
    for branch, s2 in (('right', sine), ('left', -sine)):
        t2 = math.atan2(s2, kappa)
        bearing = math.atan2(y, x) - math.atan2(L2 * s2, L1 + L2 * kappa)
        t1 = wrap(bearing) if not free else float(current[0]) if current is not None else 0.0
        q = np.array([t1, t2, float(geometry.height) - z, wrap(t1 + t2 - yaw)])
        limits = violations(q, geometry.lower, geometry.upper)
        solutions.append(Solution(q, branch, singular, limits))
    return solutions[:1] if sine == 0.0 else solutions


def inverse_pose(
    R: Array | Sequence[Sequence[float]],
    position: Array | Sequence[float],
    geometry: ScaraGeometry = SCARA,
    *,
    current: Array | Sequence[float] | None = None,
    tolerance: float = 1e-9,
) -> list[Solution]:
    """Return the solutions for a full pose, whose tool axis must point straight down.

    Args:
        R: Rotation of the tool in the base frame, shape (3, 3).
        position: As in :func:`inverse`.
        geometry: Geometry of the arm.
        current: As in :func:`inverse`.
        tolerance: As in :func:`inverse`; also on the tool axis and the orthogonality of R.

    Raises:
        UnreachableError: The tool axis does not point down, R is not a rotation, or as in
            :func:`inverse`.
        ShapeError: R or the position has the wrong shape.
    """
    R = array('R', R, (3, 3), finite=False)
    yaw = math.atan2(R[1, 0], R[0, 0])
    c, s = math.cos(yaw), math.sin(yaw)
    if not np.abs(R - [[c, s, 0.0], [s, -c, 0.0], [0.0, 0.0, -1.0]]).max() <= tolerance:
        raise UnreachableError('tool pose', 'a SCARA keeps its tool axis pointing straight down')
    return inverse(position, yaw, geometry, current=current, tolerance=tolerance)
