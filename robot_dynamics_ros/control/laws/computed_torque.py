# SPDX-License-Identifier: Apache-2.0
r"""Computed torque: inverse dynamics of a commanded acceleration; feedback and friction of laws.

.. math::

   a_c &= \ddot q_r + K_d\,(\dot q_r - v) + K_p\,(q_r - q) \\
   \tau &= M(q)\,a_c + c(q, v) + g(q) + J_a\,a_c + \tau_f(v + h a_c, \tanh(v_f / v_s))

With the friction :math:`\tau_f` of ``dynamics.joint_terms``, mainly :math:`b\,(v + h a_c)`, and an
exact model, the error of each joint obeys :math:`\ddot e + K_d\dot e + K_p e = 0`.

This holds for stiff damping too. A plant that applies damping at the end of the step gives
:math:`(M + J_a + h b)\,a = \tau - c - g - b v`, so an effort computed with :math:`b v` alone is
scaled by :math:`(M + h b)^{-1} M`, about 1/250 where :math:`h b / M = 250`. With
:math:`b\,(v + h a_c)` the right side is :math:`(M + J_a + h b)\,a_c`, hence :math:`a = a_c`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from robot_dynamics_ros.control.laws.control_law import ModelLaw, effort_terms
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.dynamics.joint_terms import JointTerms, smooth_direction
from robot_dynamics_ros.dynamics.sampled_loop import DISCRETIZATIONS, FeedbackLoop, scalar_loop
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.parameters import Parameter, spread
from robot_dynamics_ros.spatial.scalar import Array, Scalar, select
from robot_dynamics_ros.symbolic.kernel import Kernel, compile_function

P = Parameter

#: Parameters of the feedback of joint errors.
FEEDBACK = (
    P('natural_frequency', [10.0], 'Natural frequency of the error dynamics.', 0.0, unit='rad/s',
      per_joint=True),
    P('damping_ratio', [1.0], 'Damping ratio of the error dynamics.', 0.0, per_joint=True),
)  # fmt: skip
#: Parameters of the compensation of joint friction, identified terms included.
FRICTION = (
    P('friction_compensation', True, 'Whether joint friction is compensated.'),
    P('friction_velocity', 'desired', 'Velocity that gives the direction of the compensated '
      'Coulomb friction: desired (of the reference or the program; does not chatter at rest) or '
      'measured.', choices=('desired', 'measured')),
    P('stiction_velocity', 1e-3, 'Velocity scale of the smooth sign of Coulomb friction.', 1e-9,
      unit='rad/s or m/s'),
)  # fmt: skip
#: Parameters that the loop sets; the defaults are those of a continuous loop.
PERIOD = P('period', 0.0, 'Time between two commands; 0: continuous.', 0.0,
           unit='s')  # fmt: skip
DISCRETIZATION = P('discretization', 'continuous', 'Time discretization of the plant.',
                   choices=DISCRETIZATIONS)  # fmt: skip
DELAY = P('delay', 0.0, 'Time from a state until its effort acts.', 0.0, unit='periods')
VELOCITY_CUTOFF = P('velocity_cutoff_hz', 0.0, 'Cut-off frequency of velocities that are derived '
                    'from positions; 0: velocities are measured.', 0.0, unit='Hz')  # fmt: skip
#: Those that determine the stability of a sampled loop.
SAMPLING = (PERIOD, DISCRETIZATION, DELAY, VELOCITY_CUTOFF)


def gains_of(parameters: Mapping[str, Any], n: int) -> tuple[Array, Array]:
    r"""Return :math:`K_p = \omega_0^2` (1/s^2) and :math:`K_d = 2\zeta\omega_0` (1/s) per joint.

    Args:
        parameters: Those of ``FEEDBACK`` by name.
        n: Number of joints.
    """
    w, zeta = (spread(parameters[one.name], n) for one in FEEDBACK)
    Kp = [x * x for x in w]  # numbers overflow without a warning
    return np.array(Kp), np.array([2.0 * x * y for x, y in zip(zeta, w, strict=True)])


def drive_settings(end: float, parameters: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the parameters of ``FRICTION`` as inputs of compiled functions such as ``drives``.

    Args:
        end: Time from the velocity of the dynamics to that of the friction, s.
        parameters: Parameters of the law by name.
    """
    return (
        end,
        parameters['stiction_velocity'],
        float(parameters['friction_compensation']),
        float(parameters['friction_velocity'] == 'desired'),
    )


class ComputedTorque(ModelLaw):
    r"""Inverse dynamics of the reference plus feedback, with drive inertia and friction.

    Friction is compensated at velocities at the *end* of the coming period h, where a plant with
    implicit steps applies it. Viscous friction is computed at :math:`v + h a_c`, which makes the
    compensation exact for MuJoCo and DART. The direction of Coulomb friction is that of the same
    velocity (``measured``) or of the reference, :math:`\dot q_r + h \ddot q_r`, which does not
    chatter at standstill (``desired``). Use a ``ReferenceSampler`` with the same period.

    The gains are ``Kp = w0^2`` and ``Kd = 2 zeta w0``.

    Args:
        tree: The model of the robot, payload included.
        kernels: With ``inverse_dynamics``; compiled from the tree if None.
        parameters: By name, see ``declared``.

    Raises:
        ParameterError: A parameter is rejected.

    Cost: one inverse dynamics and about 0.5 us; allocates no array.
    """

    name = 'computed_torque'
    outputs = ('inverse_dynamics',)
    has_memory = False
    remainder = 'friction'
    declared = (*FEEDBACK, *FRICTION, *SAMPLING)

    def build(self) -> None:
        """Compile the feedback and the drives; see :class:`ModelLaw`."""
        tree, n = self.tree, self.tree.n
        self._inverse_dynamics = self._kernels.inverse_dynamics
        self._acceleration, self._model = np.zeros((2, n))
        self._gains, self._settings = np.zeros(2 * n), np.zeros(4)
        self._feedback = compile_feedback(n)
        self._add_drives = compile_function(partial(drives, tree), n, settings=4, fused=False)

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Apply gains and friction parameters; see :class:`ControlLaw`."""
        self._gains[:] = np.ravel(gains_of(parameters, self.tree.n))
        self._settings[:] = drive_settings(parameters['period'], parameters)

    def feedback_loops(self, q: Array) -> Iterator[FeedbackLoop]:
        """Return the error dynamics of each joint, which an exact model decouples."""
        w0, ratios = (spread(self.parameters[one.name], self.tree.n) for one in FEEDBACK)
        rows = [*zip(w0, ratios, strict=True)]
        for w, zeta in dict.fromkeys(rows):
            i = rows.index((w, zeta))
            subject = f'with damping_ratio {zeta:g} joint {self.tree.joint_names[i]!r}'
            yield scalar_loop('natural_frequency', w, zeta, subject=subject)

    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Compute the efforts for the coming period; see :class:`ControlLaw`."""
        a, v_r, a_r = self._acceleration, reference.velocity, reference.acceleration
        self._feedback(q, v, reference.position, v_r, a_r, self._gains, a)
        self._inverse_dynamics(q, v, a, self._model)
        self._add_drives(self._model, v, a, v_r, a_r, self._settings, out)

    def parts(self, q: Array, v: Array, reference: Reference) -> dict[str, Array]:
        """Return inertia, feedback, coriolis and gravity; friction remains.

        Inertia and feedback are the mass matrix with armature times the acceleration of the
        reference and of the feedback. See :class:`ControlLaw`.
        """
        planned = reference.acceleration
        origins = {'inertia': planned, 'feedback': self._acceleration - planned}
        return effort_terms(self._inverse_dynamics, self.tree, q, v, origins)


def compile_feedback(n: int) -> Kernel:
    """Return :func:`feedback` for n joints, with the result as last argument."""
    return compile_function(feedback, n, gains=2 * n, fused=False)


def feedback(q: Array, v: Array, q_r: Array, v_r: Array, a_r: Array, gains: Array) -> Array:
    """Return the commanded acceleration, for numbers or symbols; ``gains``: Kp, then Kd."""
    Kp, Kd = gains.reshape(2, -1)
    return a_r + Kd * (v_r - v) + Kp * (q_r - q)


def drives(
    tree: Robot, model: Array, v: Array, a: Array, v_r: Array, a_r: Array, settings: Any
) -> Array:
    """Return efforts of the model plus those of the drives, for numbers or symbols.

    Args:
        tree: The robot, for rotor inertia and friction.
        model: Efforts of the model, shape (n,), N m or N.
        v: Measured velocities, shape (n,), rad/s or m/s.
        a: Commanded accelerations, shape (n,), rad/s^2 or m/s^2.
        v_r: Velocities of the reference, shape (n,).
        a_r: Accelerations of the reference, shape (n,).
        settings: h, v_s, factor of the friction, and 1 if its direction is that of the reference
            velocity, else 0; see ``drive_settings``.
    """
    h, v_s, part, follow = settings
    end, planned = v + h * a, v_r + h * a_r
    sliding = [select(0.0, follow, x, y) for x, y in zip(planned, end, strict=True)]
    return with_drives(tree, model, a, end, np.array(sliding), v_s, part)


def with_drives(
    tree: Robot, load: Array, a: Array, v: Array, sliding: Array, v_s: Scalar, part: Scalar
) -> Array:
    """Return efforts of the links plus armature and friction, for numbers or symbols.

    Args:
        tree: The robot.
        load: Efforts of the links, shape (n,), N m or N.
        a: Accelerations, shape (n,), rad/s^2 or m/s^2.
        v: Velocities of the friction, shape (n,), rad/s or m/s.
        sliding: Velocities that give the direction of Coulomb friction, shape (n,).
        v_s: Velocity scale of this direction, rad/s or m/s.
        part: Share of the friction.
    """
    friction = JointTerms.of(tree).compensation(v, load, smooth_direction(sliding, v_s))
    return load + tree.armature * a + part * friction
