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

from collections.abc import Iterator
from functools import partial

import numpy as np

from robot_dynamics_ros.control.laws.control_law import ModelLaw, Parts, effort_terms
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.dynamics.joint_terms import JointTerms, smooth_direction
from robot_dynamics_ros.dynamics.sampled_loop import DISCRETIZATIONS, FeedbackLoop, scalar_loop
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.parameters import Parameter, Values, spread
from robot_dynamics_ros.spatial.scalar import Array, Scalar, select
from robot_dynamics_ros.symbolic.outputs import KernelSpec

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
      10.0, unit='rad/s or m/s'),
)  # fmt: skip
#: Parameters that the loop sets, and that determine the stability of a sampled loop; the defaults
#: are those of a continuous one.
SAMPLING = (
    P('period', 0.0, 'Time between two commands; 0: continuous.', 0.0, unit='s'),
    P('discretization', 'continuous', 'Time discretization of the plant.',
      choices=DISCRETIZATIONS),
    P('delay', 0.0, 'Time from a state until its effort acts.', 0.0, unit='periods'),
    P('velocity_cutoff_hz', 0.0, 'Cut-off frequency of velocities that are derived from '
      'positions; 0: velocities are measured.', 0.0, unit='Hz'),
)  # fmt: skip


def gains_of(parameters: Values, n: int) -> tuple[Array, Array]:
    r"""Return :math:`K_p = \omega_0^2` (1/s^2) and :math:`K_d = 2\zeta\omega_0` (1/s) per joint.

    Args:
        parameters: Those of ``FEEDBACK`` by name.
        n: Number of joints.
    """
    w, zeta = (spread(parameters[one.name], n) for one in FEEDBACK)
    Kp = [x * x for x in w]  # numbers overflow without a warning
    return np.array(Kp), np.array([2.0 * x * y for x, y in zip(zeta, w, strict=True)])


def drive_settings(end: float, parameters: Values) -> tuple[float, ...]:
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

    Attributes:
        gains: ``Kp = w0^2``, 1/s^2, then ``Kd = 2 zeta w0``, 1/s, shape (2 n,).
        settings: See :func:`computed_torque`, shape (4,).

    Args:
        tree: The model of the robot, payload included.
        kernels: With ``inverse_dynamics``; compiled from the tree if None.
        parameters: By name, see ``declared``.

    Raises:
        ParameterError: A parameter is rejected.

    Cost: one compiled function; allocates no array.
    """

    name = 'computed_torque'
    outputs = ('inverse_dynamics',)
    has_memory = False
    remainder = 'friction'
    declared = (*FEEDBACK, *FRICTION, *SAMPLING)

    def build(self) -> None:
        """Compile the efforts; see :class:`ModelLaw`."""
        kernels, n = self.kernels, self.tree.n
        self._acceleration, self.gains, self.settings = np.zeros(n), np.zeros(2 * n), np.zeros(4)
        efforts = partial(computed_torque, self.tree)
        self._efforts = kernels.compile(efforts, gains=2 * n, settings=4)

    def configure(self, parameters: Values) -> None:
        """Apply gains and friction parameters; see :class:`ControlLaw`."""
        self.gains[:] = np.ravel(gains_of(parameters, self.tree.n))
        self.settings[:] = drive_settings(parameters['period'], parameters)

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
        self._efforts(
            q, v, reference.position, reference.velocity, reference.acceleration,
            self.gains, self.settings, out, self._acceleration,
        )  # fmt: skip

    def parts(self, q: Array, v: Array, reference: Reference) -> Parts:
        """Return inertia, feedback, coriolis and gravity; friction remains.

        Inertia and feedback are the mass matrix with armature times the acceleration of the
        reference and of the feedback. See :class:`ControlLaw`.
        """
        planned = reference.acceleration
        origins = {'inertia': planned, 'feedback': self._acceleration - planned}
        return effort_terms(self.kernels.inverse_dynamics, self.tree, q, v, origins)


def feedback(q: Array, v: Array, q_r: Array, v_r: Array, a_r: Array, gains: Array) -> Array:
    """Return the commanded acceleration, for numbers or symbols; ``gains``: Kp, then Kd."""
    Kp, Kd = gains.reshape(2, -1)
    return a_r + Kd * (v_r - v) + Kp * (q_r - q)


def computed_torque(
    tree: Robot,
    spec: KernelSpec,
    q: Array,
    v: Array,
    q_r: Array,
    v_r: Array,
    a_r: Array,
    gains: Array,
    settings: Array,
) -> tuple[Array, Array]:
    """Return efforts and commanded accelerations, shape (n,) each, for numbers or symbols.

    Args:
        tree: The robot, for rotor inertia and friction.
        spec: Its dynamics.
        q: Measured positions, shape (n,), rad or m.
        v: Measured velocities, shape (n,), rad/s or m/s.
        q_r: Positions of the reference, shape (n,).
        v_r: Velocities of the reference, shape (n,).
        a_r: Accelerations of the reference, shape (n,), rad/s^2 or m/s^2.
        gains: Kp, then Kd, shape (2 n,).
        settings: h, v_s, factor of the friction, and 1 if its direction is that of the reference
            velocity, else 0; see ``drive_settings``.
    """
    h, v_s, part, follow = settings
    a = feedback(q, v, q_r, v_r, a_r, gains)
    end, planned = v + h * a, v_r + h * a_r
    sliding = select(0.0, follow, planned, end)
    load = spec.formulation.inverse_dynamics(q, v, a)
    return with_drives(tree, load, a, end, sliding, v_s, part), a


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
