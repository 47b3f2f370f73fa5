# SPDX-License-Identifier: Apache-2.0
r"""Motors that move joints together: ball-screw splines, differential wrists, belts over an elbow.

With the motors' positions :math:`\theta` and efforts :math:`\tau_m`,

.. math::

   q = A\,\theta + o, \qquad \dot q = A\,\dot\theta, \qquad \tau_m = A^T \tau, \qquad
   \tau_m^T \dot\theta = \tau^T \dot q,

the last by virtual work: no transmission gives or takes power. A limit of each motor makes a
polytope of the efforts at the joints, :math:`|A^T \tau|_k \le L_k`; a command outside is scaled,
so that its direction is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.spatial.scalar import Array

#: Above this the small differences of large motor efforts would move a joint: no gear is so.
WORST_CONDITION = 1e3


@dataclass(frozen=True)
class TransmissionProfile:
    """Joints that share motors, in a driver profile.

    Attributes:
        joints: Names in the model, m of them; their rows in the profile are those of the motors.
        matrix: A, m rows of m: rad or m of a joint (row) for 1 rad or m of a motor (column).
        offset: o, rad or m of each joint where all motors are at 0; empty: 0.
        motor_effort_limit: Largest magnitude of each motor's effort, N m or N; empty: none.
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
    """Return the condition of a matrix whatever the units of its rows and columns are."""
    rows = np.abs(a).max(axis=1, keepdims=True)
    scaled = a / np.where(rows > 0.0, rows, 1.0)
    columns = np.abs(scaled).max(axis=0, keepdims=True)
    scaled = scaled / np.where(columns > 0.0, columns, 1.0)
    return float(np.linalg.cond(scaled)) if np.isfinite(scaled).all() else float('inf')


class Transmission:
    """One transmission in numbers; vectors are those of all joints, which it changes in place.

    Attributes:
        places: Index in the model of each of its joints, shape (m,).
        limit: Largest effort of each motor, shape (m,), N m or N; infinite where any.

    Args:
        profile: What it was made from.
        joint_names: Of the model.
    """

    def __init__(self, profile: TransmissionProfile, joint_names: Sequence[str]) -> None:
        m = len(profile.joints)
        self.places = np.array([joint_names.index(x) for x in profile.joints], dtype=np.intp)
        self._a = np.array(profile.matrix, dtype=float)
        self._inverse = np.linalg.inv(self._a)
        self._transposed = np.ascontiguousarray(self._a.T)
        self._offset = np.array(profile.offset or [0.0] * m)
        self.limit = np.array(profile.motor_effort_limit or [np.inf] * m)
        self._taken, self._mixed = np.zeros(m), np.zeros(m)

    def positions_of_joints(self, values: Array) -> None:
        """Turn positions of motors, shape (..., n), into those of joints."""
        values[..., self.places] = values[..., self.places] @ self._a.T + self._offset

    def positions_of_motors(self, values: Array) -> None:
        """Turn positions of joints, shape (..., n), into those of motors."""
        part = values[..., self.places] - self._offset
        values[..., self.places] = part @ self._inverse.T

    def velocities_of_joints(self, values: Array) -> None:
        """Turn velocities of motors, shape (..., n), into those of joints."""
        values[..., self.places] = values[..., self.places] @ self._a.T

    def velocities_of_motors(self, values: Array) -> None:
        """Turn velocities of joints, shape (..., n), into those of motors."""
        values[..., self.places] = values[..., self.places] @ self._inverse.T

    def efforts_of_joints(self, values: Array) -> None:
        """Turn efforts of motors, shape (..., n), into those of joints."""
        values[..., self.places] = values[..., self.places] @ self._inverse

    def efforts_of_motors(self, values: Array) -> None:
        """Turn efforts of joints, shape (..., n), into those of motors."""
        values[..., self.places] = values[..., self.places] @ self._a

    def clip(self, motors: Array) -> None:
        """Bring efforts of motors, shape (n,), within their limits."""
        motors[self.places] = np.clip(motors[self.places], -self.limit, self.limit)

    def rates_of_joints(self, rates: Array) -> None:
        r"""Turn bounds of the motors' change of effort, shape (n,), into bounds for the joints.

        They are those of a box within the polytope: each motor's bound in equal parts for the
        joints that load it. Where motors have limits too, half of it is left for the change that
        scaling makes: a motor at its limit changes the others by :math:`L_k \dot u_l / L_l`.
        """
        most, loads = rates[self.places], np.abs(self._a)
        if np.isfinite(self.limit).all():
            most = 0.5 * self.limit * (most / self.limit).min()
        shared = most / (loads > 0.0).sum(axis=0)
        with np.errstate(divide='ignore'):
            rates[self.places] = (shared / loads).min(axis=1)

    def within_limits(self, effort: Array, share: Array | None = None) -> float:
        """Scale the joints' efforts, shape (n,), so that no motor passes its limit.

        Args:
            effort: Commanded, N m or N.
            share: What the driver adds by itself, N m or N at the joints; None: nothing.

        Returns:
            The factor, 1 where all are within their limits; 0 where the share alone is not.
        """
        factor = 1.0
        commanded = self._of_motors(effort)
        added = [0.0] * len(commanded) if share is None else self._of_motors(share)
        for u, own, limit in zip(commanded, added, self.limit.tolist(), strict=True):
            room = limit - max(own if u > 0.0 else -own, 0.0)
            if abs(u) > room:
                factor = min(factor, max(room, 0.0) / abs(u))
        if factor < 1.0:
            for i in self.places:
                effort[i] *= factor
        return factor

    def _of_motors(self, efforts: Array) -> list[float]:
        np.take(efforts, self.places, out=self._taken, mode='clip')
        np.dot(self._transposed, self._taken, out=self._mixed)
        return self._mixed.tolist()
