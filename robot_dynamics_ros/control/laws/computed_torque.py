# SPDX-License-Identifier: Apache-2.0
r"""Computed torque: the model turns a commanded acceleration into efforts.

.. math::

   a_c &= \ddot q_r + K_d\,(\dot q_r - v) + K_p\,(q_r - q) \\
   \tau &= M(q)\,a_c + c(q, v) + g(q) + J_a\,a_c + \tau_f(v + h a_c, \tanh(v_f / v_s))

With the friction :math:`\tau_f` of ``dynamics.joint_terms``, :math:`b\,(v + h a_c)` above all,
and an exact model the error obeys :math:`\ddot e + K_d\dot e + K_p e = 0`, joint by joint.

However stiff the damping is: a plant that takes it at the end of the step gives
:math:`(M + J_a + h b)\,a = \tau - c - g - b v`, so an effort computed with :math:`b v` alone acts
scaled by :math:`(M + h b)^{-1} M`, a 250th where :math:`h b / M = 250`. With
:math:`b\,(v + h a_c)` the right side is :math:`(M + J_a + h b)\,a_c`, hence :math:`a = a_c`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from robot_dynamics_ros.control.laws import parameter_checks as check
from robot_dynamics_ros.control.laws.control_law import ControlLaw, Reference
from robot_dynamics_ros.dynamics.joint_terms import JointTerms, smooth_direction
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.parameters import Parameter
from robot_dynamics_ros.spatial.scalar import Array, select
from robot_dynamics_ros.symbolic.kernel import KernelSet, compile_function, compile_kernel


class ComputedTorque(ControlLaw):
    r"""Inverse dynamics of the reference plus feedback, with drive inertia and friction.

    Both friction velocities are those at the *end* of the coming period h, when a plant that
    steps implicitly applies them: :math:`v + h a_c` for viscous friction, which makes the
    compensation exact for MuJoCo and DART, and for the direction either that (``measured``) or
    the reference's, :math:`\dot q_r + h \ddot q_r`, which does not chatter around standstill
    (``desired``). Take the reference from a ``ReferenceSampler`` with the same period.

    The gains are ``Kp = w0^2`` and ``Kd = 2 zeta w0``.

    Args:
        tree: The robot as the law shall believe it is, payload included.
        kernels: With ``inverse_dynamics``; compiled from the tree if None.
        parameters: Of ``declared``.

    Raises:
        ParameterError: A parameter is refused.

    Cost: one inverse dynamics and about 0.5 us; allocates no array.
    """

    name: ClassVar[str] = 'computed_torque'
    declared: ClassVar[tuple[Parameter, ...]] = (*check.FEEDBACK, *check.FRICTION, check.PERIOD)

    def __init__(
        self, tree: RobotTree, kernels: KernelSet | None = None, **parameters: Any
    ) -> None:
        super().__init__(tree)
        kernels = kernels or compile_kernel(tree, outputs=('inverse_dynamics',))
        self._inverse_dynamics = kernels.inverse_dynamics
        n = tree.n
        self._acceleration, self._zeros, self._model = np.zeros(n), np.zeros(n), np.zeros(n)
        self._gains, self._settings = np.zeros(2 * n), np.zeros(4)
        of_joints = dict.fromkeys(('q', 'v', 'q_r', 'v_r', 'a_r'), n)
        self._feedback = compile_function(
            'feedback', of_joints | {'gains': 2 * n}, {'a': (n,)}, feedback, fused=False
        )
        of_joints = dict.fromkeys(('model', 'v', 'a', 'v_r', 'a_r'), n)
        self._add_drives = compile_function(
            'drives',
            of_joints | {'settings': 4},
            {'tau': (n,)},
            lambda *arrays: [drives(tree, *arrays)],
            fused=False,
        )
        self.set_parameters(parameters)

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Take over gains and friction, see :class:`ControlLaw`."""
        self._gains[:] = np.ravel(check.gains_of(parameters, self.tree.n))
        self._settings[:] = check.drive_settings(parameters['period'], parameters)

    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Write the efforts for the coming period, see :class:`ControlLaw`."""
        a, v_r, a_r = self._acceleration, reference.velocity, reference.acceleration
        self._feedback(q, v, reference.position, v_r, a_r, self._gains, a)
        self._inverse_dynamics(q, v, a, self._model)
        self._add_drives(self._model, v, a, v_r, a_r, self._settings, out)

    def decompose(self, t: float, q: Array, v: Array, reference: Reference) -> dict[str, Array]:
        """Return inertia, coriolis, gravity, friction and feedback, see :class:`ControlLaw`.

        Inertia and feedback are mass matrix and armature times the reference's acceleration and
        times the feedback's; each shape (n,), N m or N.
        """
        Kp, Kd = self._gains.reshape(2, -1)
        a_f = Kd * (reference.velocity - v) + Kp * (reference.position - q)
        still = self._zeros
        gravity, moving, inertia, feedback = (np.zeros(self.tree.n) for _ in range(4))
        self._inverse_dynamics(q, still, still, gravity)
        self._inverse_dynamics(q, v, still, moving)
        self._inverse_dynamics(q, still, reference.acceleration, inertia)
        self._inverse_dynamics(q, still, a_f, feedback)
        armature, a_r = self.tree.armature, reference.acceleration
        parts = {
            'inertia': inertia - gravity + armature * a_r,
            'coriolis': moving - gravity,
            'gravity': gravity,
            'feedback': feedback - gravity + armature * a_f,
        }
        load = moving + inertia + feedback - 2.0 * gravity
        whole = drives(self.tree, load, v, a_r + a_f, reference.velocity, a_r, self._settings)
        return {**parts, 'friction': whole - sum(parts.values(), self._zeros)}


def feedback(q: Array, v: Array, q_r: Array, v_r: Array, a_r: Array, gains: Array) -> list[Array]:
    """Return the commanded acceleration, over numbers or symbols; ``gains``: Kp, then Kd."""
    Kp, Kd = gains.reshape(2, -1)
    return [a_r + Kd * (v_r - v) + Kp * (q_r - q)]


def drives(
    tree: RobotTree, model: Array, v: Array, a: Array, v_r: Array, a_r: Array, settings: Any
) -> Array:
    """Return the model's efforts with those of the drives, over numbers or symbols.

    Args:
        tree: The robot, for rotor inertia and friction.
        model: Efforts of the model, shape (n,), N m or N.
        v: Measured velocities, shape (n,).
        a: Commanded accelerations, shape (n,).
        v_r: Velocities of the reference, shape (n,).
        a_r: Its accelerations, shape (n,).
        settings: h, v_s, the part of the friction, and whether its direction is that of the
            reference's velocity.
    """
    h, v_s, part, follow = settings
    end, planned = v + h * a, v_r + h * a_r
    sliding = [select(0.0, follow, x, y) for x, y in zip(planned, end, strict=True)]
    friction = JointTerms.of(tree).friction(end, model, smooth_direction(np.array(sliding), v_s))
    return model + tree.armature * a + part * friction
