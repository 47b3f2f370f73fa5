# SPDX-License-Identifier: Apache-2.0
r"""Model of real drives: internal compensation, torque ripple, cogging, stiction.

.. math::

   \tau = (\tau_c + \tau_{driver})\,(1 + r \sin N q) + c \sin(N q + 1)

with the command :math:`\tau_c`, the enabled terms of the driver's internal compensation
:math:`\tau_{driver} = g(q) + b v + \tau_d \tanh(v/v_s)`, ripple r, cogging c and spatial angular
frequency N. Coulomb friction is larger at rest (Stribeck),
:math:`\tau_d\,(1 + (s - 1)\,e^{-(v/v_b)^2})` with the breakaway factor s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.payload import Payload, with_payload
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.simulation.plant import WrappedPlant, per_joint
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

COMPENSATIONS = ('gravity', 'friction')
_BREAKAWAY_VELOCITY = 0.01  # rad/s or m/s
_COGGING_PHASE = 1.0  # rad, so that ripple and cogging are out of phase


@dataclass(frozen=True, eq=False)
class Drives:
    """The drives of one robot; one number for all joints, or an array of shape (n,).

    Attributes:
        ripple: r, fraction of the effort.
        cogging: c, N m or N.
        periods: N, spatial angular frequency, rad per rad or m.
        breakaway: s, at least 1.
        compensates: Terms that the driver compensates internally; any of ``COMPENSATIONS``.
        payload_known: Whether its gravity compensation includes the payload.
    """

    ripple: Any = 0.0
    cogging: Any = 0.0
    periods: Any = 20.0
    breakaway: Any = 1.0
    compensates: tuple[str, ...] = ()
    payload_known: bool = True


class DrivenPlant(WrappedPlant):
    """A plant with imperfect drives that may compensate some terms internally.

    Attributes:
        plant: The plant inside.
        compensation: Internal compensation during the last step, shape (n,), N m or N.

    Args:
        plant: The plant.
        drives: Its drives.
        model: The robot model of the driver; the initial robot of the plant if None.

    Raises:
        ParameterError: A value is invalid.
    """

    plant: MujocoPlant

    def __init__(self, plant: MujocoPlant, drives: Drives, model: RobotTree | None = None) -> None:
        super().__init__(plant)
        self._drives, self._unloaded = drives, plant.tree if model is None else model
        for term in drives.compensates:
            if term not in COMPENSATIONS:
                raise ParameterError('compensates', term, f'known: {", ".join(COMPENSATIONS)}')
        self._ripple, self._cogging, self._periods, self._breakaway = (
            per_joint(name, getattr(drives, name), self.tree.n)
            for name in ('ripple', 'cogging', 'periods', 'breakaway')
        )
        if (self._breakaway < 1.0).any():
            raise ParameterError('breakaway', drives.breakaway, 'must be at least 1')
        self._friction = JointTerms.of(self._unloaded.with_changes(drive_friction={}))
        self._set_gravity_model(self._unloaded)
        n = self.tree.n
        self.compensation = np.zeros(n)
        self._q, self._v = np.zeros(n), np.zeros(n)

    def _reset_state(self) -> None:
        self.compensation.fill(0.0)

    def step(self, effort: Array) -> None:
        """Advance by one period with a command; see :meth:`Plant.step`."""
        q, v = self._q, self._v
        command = self._checked('effort', effort)
        self.plant.read(q, v)
        self._compensate(q, v)
        angle = self._periods * q
        acting = (command + self.compensation) * (1.0 + self._ripple * np.sin(angle))
        acting += self._cogging * np.sin(angle + _COGGING_PHASE)
        if (self._breakaway > 1.0).any():
            slow = np.exp(-np.square(v / _BREAKAWAY_VELOCITY))
            level = self.plant.tree.coulomb_friction * (1.0 + (self._breakaway - 1.0) * slow)
            self.plant.set_coulomb_friction(level)
        self._advance(acting)

    def set_payload(self, payload: Payload | None) -> None:
        """Replace the payload; see :meth:`Plant.set_payload`."""
        super().set_payload(payload)
        if self._drives.payload_known and payload is not None:
            self._set_gravity_model(with_payload(self._unloaded, payload))
        else:
            self._set_gravity_model(self._unloaded)

    def _set_gravity_model(self, model: RobotTree) -> None:
        """Set the model of the driver's gravity compensation."""
        self._gravity = None
        if 'gravity' in self._drives.compensates:
            self._gravity = compile_kernel(model, outputs=('gravity_forces',)).gravity_forces

    def _compensate(self, q: Array, v: Array) -> None:
        self.compensation.fill(0.0)
        if self._gravity is not None:
            self._gravity(q, self.compensation)
        if 'friction' in self._drives.compensates:
            self.compensation += self._friction.friction(v)
