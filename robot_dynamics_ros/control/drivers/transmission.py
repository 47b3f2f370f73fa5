# SPDX-License-Identifier: Apache-2.0
r"""Transmissions that couple joints: ball-screw splines, differential wrists, belt drives.

With the motors' positions :math:`\theta` and efforts :math:`\tau_m`,

.. math::

   q = A\,\theta + o, \qquad \dot q = A\,\dot\theta, \qquad \tau_m = A^T \tau, \qquad
   \tau_m^T \dot\theta = \tau^T \dot q,

the last by virtual work: a transmission is lossless. The limits of the motors form a polytope of
joint efforts, :math:`|A^T \tau|_k \le L_k`; a command outside is scaled, which keeps its
direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.spatial.scalar import Array

#: Largest permitted condition number; above it, joint efforts are differences of large numbers.
WORST_CONDITION = 1e3


@dataclass(frozen=True)
class TransmissionProfile:
    """Profile of joints that share motors.

    Attributes:
        joints: Names of the m joints in the model; their entries in the driver profile are for the
            motors.
        matrix: A, shape (m, m): rad or m of a joint (row) per rad or m of a motor (column).
        offset: o, joint positions where all motors are at 0, rad or m; empty: 0.
        motor_effort_limit: Largest effort of each motor, N m or N; empty: no limit.
    """

    joints: tuple[str, ...]
    matrix: tuple[tuple[float, ...], ...]
    offset: tuple[float, ...] = ()
    motor_effort_limit: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        m, a = len(self.joints), self.matrix
        if not m or len(a) != m or any(len(row) != m for row in a):
            self._refuse(f'has rows of {[len(row) for row in a]}', f'give {m} rows of {m} numbers')
        for key in ('offset', 'motor_effort_limit'):
            values = getattr(self, key)
            if values and (len(values) != m or not np.isfinite(values).all()):
                self._refuse(f'is {list(values)}', f'give {m} finite numbers', key)
        if any(limit <= 0.0 for limit in self.motor_effort_limit):
            self._refuse(f'is {list(self.motor_effort_limit)}', 'must be positive',
                         'motor_effort_limit')  # fmt: skip
        condition = _condition(np.array(a, dtype=float))
        if not condition <= WORST_CONDITION:
            self._refuse(
                f'is singular or nearly so, condition {condition:.3g}',
                'the motors must move the joints independently of each other; correct its rows '
                '(joints) and columns (motors)',
            )

    def _refuse(self, problem: str, remedy: str, key: str = 'matrix') -> None:
        names = ', '.join(self.joints) or 'of no joints'
        raise ConfigurationError(f'transmission {names}, {key}', problem, remedy)


def _condition(a: Array) -> float:
    """Return the condition number of a matrix after scaling of its rows and columns."""
    with np.errstate(invalid='ignore'):  # of a row or column of zeros
        for axis in (1, 0):
            a = a / np.abs(a).max(axis=axis, keepdims=True)
    return float(np.linalg.cond(a)) if np.isfinite(a).all() else float('inf')


class Transmission:
    """One transmission: matrices by which rows of its joints or motors, shape (..., m), multiply.

    Attributes:
        places: Index in the model of each of its joints, shape (m,).
        matrix: A, shape (m, m), see ``TransmissionProfile``.
        velocities_of_joints, velocities_of_motors, efforts_of_joints, efforts_of_motors: From
            those of the motors or joints, shape (m, m).
        origin: Positions of the motors where the joints are at 0, shape (m,), rad or m.
        limit: Largest effort of each motor, shape (m,), N m or N; infinite if unlimited.

    Args:
        profile: The profile.
        joint_names: Joint names of the model.
    """

    def __init__(self, profile: TransmissionProfile, joint_names: Sequence[str]) -> None:
        m = len(profile.joints)
        self.places = np.array([joint_names.index(x) for x in profile.joints], dtype=np.intp)
        self.matrix = self.efforts_of_motors = np.array(profile.matrix, dtype=float)
        self.efforts_of_joints = np.linalg.inv(self.matrix)
        self.velocities_of_joints = self.matrix.T
        self.velocities_of_motors = self.efforts_of_joints.T
        self.origin = -np.array(profile.offset or [0.0] * m) @ self.velocities_of_motors
        self.limit = np.array(profile.motor_effort_limit or [np.inf] * m, dtype=float)

    def rates_of_joints(self, rates: Array) -> None:
        r"""Convert effort rate limits of the motors, shape (n,), to limits of the joints.

        The result is a box within the polytope: each motor's limit is divided equally among the
        joints that load it. If motors have effort limits too, half of the rate is reserved for
        the change due to scaling: a motor at its limit changes the others by
        :math:`L_k \dot u_l / L_l`.
        """
        most, loads = rates[self.places], np.abs(self.matrix)
        if np.isfinite(self.limit).all():
            most = 0.5 * self.limit * (most / self.limit).min()
        shared = most / (loads > 0.0).sum(axis=0)
        with np.errstate(divide='ignore'):
            rates[self.places] = (shared / loads).min(axis=1)
