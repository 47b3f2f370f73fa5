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
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import KernelSet, compile_kernel

#: Where the velocity of the Coulomb friction that is compensated comes from.
FRICTION_VELOCITIES = ('reference', 'measured')


class ComputedTorque(ControlLaw):
    r"""Inverse dynamics of the reference plus feedback, with drive inertia and friction.

    Both friction velocities are those at the *end* of the coming period h, when a plant that
    steps implicitly applies them: :math:`v + h a_c` for viscous friction, which makes the
    compensation exact for MuJoCo and DART, and for Coulomb friction either that (``measured``) or
    the reference's, :math:`\dot q_r + h \ddot q_r`, which does not chatter around standstill
    (``reference``). Take the reference from a ``ReferenceSampler`` with the same period.

    Parameters (one number for all joints or one per joint where so said):
        natural_frequency: w0 per joint, rad/s; ``Kp = w0^2``.
        damping_ratio: zeta per joint; ``Kd = 2 zeta w0``.
        friction: Whether friction is compensated.
        friction_velocity: 'reference' or 'measured', for the dry part.
        stiction_velocity: Width of the smooth sign of Coulomb friction, rad/s or m/s.
        period: Time between two commands, s; 0 if the loop counts as continuous.

    Args:
        tree: The robot as the law shall believe it is, payload included.
        kernels: With ``inverse_dynamics``; compiled from the tree if None.
        parameters: As above.

    Raises:
        ParameterError: A parameter is refused.

    Cost: one inverse dynamics and about 5 us for four joints; allocates no array.
    """

    name: ClassVar[str] = 'computed_torque'

    def __init__(
        self, tree: RobotTree, kernels: KernelSet | None = None, **parameters: Any
    ) -> None:
        super().__init__(tree)
        kernels = kernels or compile_kernel(tree, outputs=('inverse_dynamics',))
        self._inverse_dynamics = kernels.inverse_dynamics
        self._acceleration, self._zeros = np.zeros(tree.n), np.zeros(tree.n)
        self._armature = tree.armature.tolist()
        self.parameters: dict[str, Any] = {
            'natural_frequency': [10.0] * tree.n,
            'damping_ratio': [1.0] * tree.n,
            'friction': True,
            'friction_velocity': 'reference',
            'stiction_velocity': 1e-3,
            'period': 0.0,
        }
        self.set_parameters(parameters)

    def set_parameters(self, values: Mapping[str, Any]) -> None:
        """Change parameters between two ticks, see :class:`ControlLaw`."""
        check.known_names(values, self.parameters, self.name)
        new, n = {**self.parameters, **values}, self.tree.n
        new['natural_frequency'] = check.per_joint(
            'natural_frequency', new['natural_frequency'], n
        )
        new['damping_ratio'] = check.per_joint('damping_ratio', new['damping_ratio'], n)
        new['friction'] = check.switch('friction', new['friction'])
        new['friction_velocity'] = check.choice(
            'friction_velocity', new['friction_velocity'], FRICTION_VELOCITIES
        )
        new['stiction_velocity'] = check.number(
            'stiction_velocity', new['stiction_velocity'], positive=True
        )
        new['period'] = check.number('period', new['period'])
        gains = check.feedback_gains(new['natural_frequency'], new['damping_ratio'], new['period'])
        self.parameters = new
        self._gains = tuple(zip(*gains, strict=True))
        self._friction = tuple(
            zip(self.tree.damping.tolist(), self.tree.coulomb_friction.tolist(), strict=True)
        )
        if not new['friction']:
            self._friction = ((0.0, 0.0),) * n

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
        follow = self.parameters['friction_velocity'] == 'reference'
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
        follow = self.parameters['friction_velocity'] == 'reference'
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
