# SPDX-License-Identifier: Apache-2.0
r"""Computed torque: the model turns a commanded acceleration into efforts.

.. math::

   a_c &= \ddot q_r + K_d\,(\dot q_r - v) + K_p\,(q_r - q) \\
   \tau &= M(q)\,a_c + c(q, v) + g(q) + J_a\,a_c + b\,(v + h a_c) + \tau_c \tanh(v_f / v_s)

With an exact model the error obeys :math:`\ddot e + K_d\dot e + K_p e = 0`, joint by joint.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from robot_dynamics_ros.control.laws import parameter_checks as check
from robot_dynamics_ros.control.laws.control_law import ControlLaw, Reference
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.parameters import Parameter
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import KernelSet, compile_kernel


class ComputedTorque(ControlLaw):
    r"""Inverse dynamics of the reference plus feedback, with drive inertia and friction.

    Both friction velocities are those at the *end* of the coming period h, when a plant that
    steps implicitly applies them: :math:`v + h a_c` for viscous friction, which makes the
    compensation exact for MuJoCo and DART, and for Coulomb friction either that (``measured``) or
    the reference's, :math:`\dot q_r + h \ddot q_r`, which does not chatter around standstill
    (``desired``). Take the reference from a ``ReferenceSampler`` with the same period.

    The gains are ``Kp = w0^2`` and ``Kd = 2 zeta w0``.

    Args:
        tree: The robot as the law shall believe it is, payload included.
        kernels: With ``inverse_dynamics``; compiled from the tree if None.
        parameters: Of ``declared``.

    Raises:
        ParameterError: A parameter is refused.

    Cost: one inverse dynamics and about 5 us for four joints; allocates no array.
    """

    name: ClassVar[str] = 'computed_torque'
    declared: ClassVar[tuple[Parameter, ...]] = (*check.FEEDBACK, *check.FRICTION, check.PERIOD)

    def __init__(
        self, tree: RobotTree, kernels: KernelSet | None = None, **parameters: Any
    ) -> None:
        super().__init__(tree)
        kernels = kernels or compile_kernel(tree, outputs=('inverse_dynamics',))
        self._inverse_dynamics = kernels.inverse_dynamics
        self._acceleration, self._zeros = np.zeros(tree.n), np.zeros(tree.n)
        self._armature = tree.armature.tolist()
        self.set_parameters(parameters)

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Take over gains and friction, see :class:`ControlLaw`."""
        gains = check.gains_of(parameters, self.tree.n)
        self._gains = tuple(zip(*gains, strict=True))
        self._friction = tuple(
            zip(self.tree.damping.tolist(), self.tree.coulomb_friction.tolist(), strict=True)
        )
        if not parameters['friction_compensation']:
            self._friction = ((0.0, 0.0),) * self.tree.n

    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Write the efforts for the coming period, see :class:`ControlLaw`."""
        # Scalars: for a handful of joints ten times cheaper than array operations.
        a_c = self._acceleration
        p_r, v_r = reference.position.tolist(), reference.velocity.tolist()
        a_r, v_m = reference.acceleration.tolist(), v.tolist()
        commanded = []
        for i, (q_i, (Kp, Kd)) in enumerate(zip(q.tolist(), self._gains, strict=True)):
            a_i = a_r[i] + Kd * (v_r[i] - v_m[i]) + Kp * (p_r[i] - q_i)
            a_c[i] = a_i
            commanded.append(a_i)
        self._inverse_dynamics(q, v, a_c, out)
        h, v_s = self.parameters['period'], self.parameters['stiction_velocity']
        follow = self.parameters['friction_velocity'] == 'desired'
        for i, (tau, (b, dry)) in enumerate(zip(out.tolist(), self._friction, strict=True)):
            a_i = commanded[i]
            end = v_m[i] + h * a_i
            sliding = v_r[i] + h * a_r[i] if follow else end
            drive = self._armature[i] * a_i + b * end
            out[i] = tau + drive + dry * math.tanh(sliding / v_s)

    def decompose(self, t: float, q: Array, v: Array, reference: Reference) -> dict[str, Array]:
        """Return inertia, coriolis, gravity, friction and feedback, see :class:`ControlLaw`.

        Inertia and feedback are mass matrix and armature times the reference's acceleration and
        times the feedback's; each shape (n,), N m or N.
        """
        Kp, Kd = np.array(self._gains).T
        a_f = Kd * (reference.velocity - v) + Kp * (reference.position - q)
        still = self._zeros
        gravity, moving, inertia, feedback = (np.zeros(self.tree.n) for _ in range(4))
        self._inverse_dynamics(q, still, still, gravity)
        self._inverse_dynamics(q, v, still, moving)
        self._inverse_dynamics(q, still, reference.acceleration, inertia)
        self._inverse_dynamics(q, still, a_f, feedback)
        h = self.parameters['period']
        end = v + h * (reference.acceleration + a_f)
        follow = self.parameters['friction_velocity'] == 'desired'
        sliding = reference.velocity + h * reference.acceleration if follow else end
        b, dry = np.array(self._friction).T
        armature = self.tree.armature
        return {
            'inertia': inertia - gravity + armature * reference.acceleration,
            'coriolis': moving - gravity,
            'gravity': gravity,
            'friction': b * end + dry * np.tanh(sliding / self.parameters['stiction_velocity']),
            'feedback': feedback - gravity + armature * a_f,
        }
