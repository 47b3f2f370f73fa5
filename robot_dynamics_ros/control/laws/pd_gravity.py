# SPDX-License-Identifier: Apache-2.0
r"""PD control with gravity compensation, with gains comparable to computed torque.

.. math:: \tau = g(q) + \bar M\,\{K_p\,(q_r - q) + K_d\,(\dot q_r - v)\}

:math:`\bar M` is the diagonal of the mass matrix plus armature at a constant home position. There,
the same natural frequency and damping ratio give the same stiffness as computed torque.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from robot_dynamics_ros.control.laws import parameter_checks as check
from robot_dynamics_ros.control.laws.computed_torque import compile_feedback
from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.laws.gravity_compensation import GravityLaw
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.parameters import Parameter
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import KernelSet


def joint_inertia(tree: RobotTree, home: Array) -> Array:
    """Return the diagonal of the mass matrix plus armature at a position, (n,), kg m^2 or kg."""
    return _joint_inertia(tree, np.asarray(home, dtype=float).tobytes()).copy()


@lru_cache(maxsize=8)  # several parts of a controller need the same result
def _joint_inertia(tree: RobotTree, home: bytes) -> Array:
    q = np.frombuffer(home)
    return np.diag(make_formulation('newton_euler', tree).mass_matrix(q)) + tree.armature


class PdGravity(GravityLaw):
    """Proportional-derivative feedback plus gravity compensation.

    Globally stable at a constant reference for any positive gains. It follows a moving reference
    with a lag, since inertia, Coriolis forces and friction are not fed forward.

    The gains are ``Kp = w0^2`` and ``Kd = 2 zeta w0``; unstable gains at the period are rejected.

    Args:
        tree: The model of the robot, payload included.
        kernels: With ``gravity_forces``; compiled from the tree if None.
        parameters: By name, see ``declared``.

    Raises:
        ParameterError: A parameter is rejected.

    Cost: one gravity kernel and about 0.2 us; allocates no array.
    """

    name: ClassVar[str] = 'pd_gravity'
    declared: ClassVar[tuple[Parameter, ...]] = (
        *check.FEEDBACK,
        Parameter('home', [0.0], 'Position, one entry per joint, at which law pd_gravity computes '
                  'the inertia; a single number: the middle of the joint limits.',
                  unit='rad or m', per_joint=True),
        check.PERIOD,
    )  # fmt: skip

    def __init__(
        self, tree: RobotTree, kernels: KernelSet | None = None, **parameters: Any
    ) -> None:
        self._gains, self._feedback = np.zeros(2 * tree.n), compile_feedback(tree.n)
        super().__init__(tree, kernels, **parameters)

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Apply gains and home position; see :class:`ControlLaw`."""
        Kp, Kd = check.gains_of(parameters, self.tree.n)
        home = np.array(parameters['home'])
        if home.size < self.tree.n:
            home = self.tree.middle
        inertia = joint_inertia(self.tree, home)
        self._gains[:] = np.concatenate([inertia * Kp, inertia * Kd])

    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Compute the efforts for the coming period; see :class:`ControlLaw`."""
        self._gravity_forces(q, out)
        desired, rate = reference.position, reference.velocity
        self._feedback(q, v, desired, rate, out, self._gains, out)

    def decompose(self, t: float, q: Array, v: Array, reference: Reference) -> dict[str, Array]:
        """Return gravity and feedback, shape (n,), N m or N; see :class:`ControlLaw`."""
        gravity, whole = self.gravity(q), np.zeros(self.tree.n)
        self.effort(t, q, v, reference, whole)
        return {'gravity': gravity, 'feedback': whole - gravity}
