# SPDX-License-Identifier: Apache-2.0
r"""Impedance control: the arm acts as a spring and a damper, in its joints or at a frame.

With the error :math:`e = q - q_r` and, at a frame, the deviation :math:`f(q, q_r)` of its pose
from the reference pose (in the reference's axes: position, rotation vector),
:math:`\Gamma = \partial f/\partial q`:

.. math::

   \tau = M\ddot q_r + C(q,\dot q)\,\dot q_r + g - \Gamma^TKf - D\dot e - LPL^T(2\zeta_0\omega_0
   \dot e + \omega_0^2e) + \text{friction}

By default the mass is that of the arm:
:math:`M\ddot e + C\dot e + D\dot e + \Gamma^TKf = \tau_{ext}`. A mass factor s uses the measured
or observed :math:`\tau_{ext}`: with K/s in stiffness and damping and the additional effort
:math:`(1/s-1)\,\tau_{ext}`, the arm has s times its mass, :math:`sM\ddot e+sC\dot e+D\dot
e+\Gamma^TKf=\tau_{ext}`, with the same damping ratios. C is scaled with M, so it does no work.

For a reference at rest, :math:`\tfrac12s\,\dot q^TM\dot q + \tfrac12f^TKf` grows by no more
than the work of the external force: C, formed from Christoffel symbols, does no work, and D is
dissipative. With :math:`M = LL^T` and :math:`A = L^{-1}\Gamma^TK^{1/2}`,

.. math:: D = 2\zeta\,L\,(AA^T)^{1/2}\,L^T

gives every mode of :math:`(M, \Gamma^TK\Gamma)` the damping ratio :math:`\zeta`, in every
configuration and without an inverse of the Jacobian. P projects on the orthogonal complement of
the range of A, so that null-space efforts do not accelerate directions that have a stiffness:
:math:`\Gamma M^{-1}LP = 0`.

A sampled and delayed loop bears no mode beyond a frequency :math:`\omega_{max}` that depends on
period, delay and :math:`\zeta` (see ``sampled_loop``). With the left singular vectors U of A, the
columns of :math:`L^{-T}U` are the modes, the singular values of A their frequencies
:math:`\omega_i`.
Where one is faster, its stiffness is multiplied by :math:`(\omega_{max}/\omega_i)^2`, and its
damping belongs to :math:`\omega_{max}`.

Source: A. Albu-Schäffer, C. Ott, U. Frese, G. Hirzinger, Cartesian impedance control of redundant
robots, ICRA 2003 (damping design). C of Christoffel symbols is bilinear and symmetric:
:math:`C(q,v)w = c(\tfrac{v+w}2) - c(\tfrac{v-w}2)` with :math:`c(v) = C(q,v)v`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial, reduce

import numpy as np

from robot_dynamics_ros.control.laws.computed_torque import FRICTION, SAMPLING, with_drives
from robot_dynamics_ros.control.laws.control_law import LookAhead, ModelLaw, Parts, effort_terms
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.dynamics.joint_terms import inertia_matrix
from robot_dynamics_ros.dynamics.sampled_loop import (
    FeedbackLoop,
    Sampling,
    fastest_frequency,
    scalar_loop,
)
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.kinematics import Motion
from robot_dynamics_ros.parameters import Parameter, Values, spread
from robot_dynamics_ros.spatial.jet import Jet, dot, rotation_error, stack, time_jet
from robot_dynamics_ros.spatial.linear_algebra import (
    cholesky,
    singular_value_decomposition,
    solve_lower,
    squared_norm,
)
from robot_dynamics_ros.spatial.scalar import Array, Scalar, maximum, minimum, sqrt
from robot_dynamics_ros.symbolic.kernel import compile_function
from robot_dynamics_ros.symbolic.outputs import KernelSpec, known_output

P = Parameter
_TINY = 1e-150  # avoids division by zero; below the square of any relevant number
_NO_STIFFNESS = 1e-12  # relative to the sum of squared singular values: below it, no stiffness
_UNLIMITED = 1e9  # rad/s: faster than any mode
_NUMBERS = 10  # inputs of the tick besides the stiffness
_PARTS = ('stiffness', 'damping', 'null_space', 'shaping', 'wrench')
_AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


class Impedance(ModelLaw):
    """Stiffness and damping around the reference, with an optional scaling of the arm's mass.

    The state is predicted with the acceleration of the last period, computed from the velocities,
    so that stiffness and damping have their set values at any period; see :class:`LookAhead`.
    Joint friction is compensated at the measured velocity. If the external effort is unknown, the
    mass is not scaled, and ``status`` reports it. A stiffness that is unstable at the present or
    middle configuration is refused; where the arm moves to one that does not bear it, it is
    limited, and ``notice`` and ``status`` report it.

    Args:
        tree: The model of the robot, payload included.
        kernels: With ``inverse_dynamics``; compiled from the tree if None.
        parameters: By name, see ``declared``.

    Raises:
        UnknownNameError: The robot has no such frame.
        ParameterError: A parameter is rejected, or the stiffness is unstable at the period.

    Cost: two compiled functions; allocates no array.
    """

    name = 'impedance'
    yields = True
    has_memory = False  # only the last velocity
    remainder = 'friction'
    structural = frozenset({'impedance_frame'})
    outputs = ('inverse_dynamics',)
    declared = (
        P('impedance_frame', '', 'Frame of the stiffness of law impedance; empty: joint '
          'stiffness.'),
        P('joint_stiffness', [100.0], 'Joint stiffness of law impedance, without a frame.', 0.0,
          unit='N m/rad or N/m', per_joint=True),
        P('frame_stiffness', [500.0, 500.0, 500.0, 20.0, 20.0, 20.0], 'Stiffness of law impedance '
          'at impedance_frame, in the axes of its reference pose.', 0.0, unit='N/m and N m/rad',
          size=6, entries='along x, y, z, about x, y, z'),
        P('impedance_damping_ratio', 0.7, 'Damping ratio of all modes with stiffness in law '
          'impedance.', 0.0, 10.0),
        P('impedance_mass_factor', 1.0, "Apparent mass in law impedance, relative to the arm's "
          'mass; values other than 1 use measured or observed external efforts.', 0.2, 5.0),
        P('null_space_frequency', 5.0, 'Natural frequency of the critically damped null-space '
          'motion towards the reference in law impedance.', 0.0, unit='rad/s'),
        FRICTION[0],
        FRICTION[2],
        *SAMPLING,
    )  # fmt: skip

    def build(self) -> None:
        """Compile the tick, allocate work arrays; see :class:`ModelLaw`."""
        tree, n = self.tree, self.tree.n
        self._frame = str(self.parameters['impedance_frame'])
        if self._frame:
            tree.moving_frame(self._frame, 'impedance_frame')
        self._chosen = 'frame_stiffness' if self._frame else 'joint_stiffness'
        rows = 6 if self._frame else n
        self._numbers = np.zeros(rows + _NUMBERS)
        self._stiffness, self._gain = np.split(self._numbers, [rows])
        self._dynamics = self.kernels.compile(impedance_dynamics)
        efforts, size = partial(impedance_efforts, tree, self._frame), rows + _NUMBERS
        self._tick = compile_function(efforts, n, mass=n * n, numbers=size)
        self._kept, self._time, self._mass = np.ones(1), math.nan, np.zeros(n * n)
        self._previous, self._load = np.zeros((2, n))
        self._parts = np.zeros((len(_PARTS), n))

    def configure(self, parameters: Values) -> None:
        """Apply all parameters except the frame; see :class:`ControlLaw`."""
        self._stiffness[:] = spread(parameters[self._chosen], len(self._stiffness))
        ratio, sampling = parameters['impedance_damping_ratio'], Sampling.of(parameters)
        self._factor = float(parameters['impedance_mass_factor'])
        self.answers_force = self._factor != 1.0
        fastest = min(fastest_frequency(sampling, ratio, 'measured'), _UNLIMITED)
        ahead = LookAhead(sampling.discretization, sampling.period)
        share = float(parameters['friction_compensation'])
        feedback = ratio, parameters['null_space_frequency'], fastest
        friction = parameters['stiction_velocity'], share
        self._gain[2:] = *feedback, ahead.time, ahead.lead, ahead.end, *friction
        self._fastest, self._period = fastest, sampling.period

    def feedback_loops(self, q: Array) -> Iterator[FeedbackLoop]:
        """Return the fastest mode, and the null-space motion; see :class:`ControlLaw`."""
        parameters, still = self.parameters, np.zeros(self.tree.n)
        L = np.linalg.cholesky(inertia_matrix(self.tree, q))
        J = np.array(_error(self.tree, self._frame, q, still, q, still).J, dtype=float)
        A = np.linalg.solve(L, J.T * np.sqrt(self._stiffness / min(self._factor, 1.0)))
        w, ratio = float(np.linalg.norm(A, 2)), parameters['impedance_damping_ratio']
        subject = f'a mode of {w:.4g} rad/s'
        yield scalar_loop(self._chosen, w, ratio, 'measured', exponent=2.0, subject=subject)
        free = parameters['null_space_frequency']
        yield scalar_loop('null_space_frequency', free, 1.0, 'measured')

    def reset(self, t: float, q: Array, v: Array) -> None:
        """Discard the previous velocity; see :class:`ControlLaw`."""
        self._time, self.notice = math.nan, ''

    def status(self) -> dict[str, str]:
        """Return the apparent mass, and the limited stiffness; see :class:`ControlLaw`."""
        limited = {'limited_stiffness': f'{self._kept[0] ** 2:.0%}'} if self._kept[0] < 1.0 else {}
        if not self.answers_force:
            return limited
        source = 'measured' if self.external.measured else 'observed'
        shaped = f'{self._factor:g} times its own, by {source} external efforts'
        mass = shaped if self.external.known else 'its own: no external effort'
        return {'felt_mass': mass, **limited}

    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Compute the efforts for the coming period; see :class:`ControlLaw`."""
        q_r, v_r, a_r = reference.position, reference.velocity, reference.acceleration
        external, elapsed, self._time = self.external, t - self._time, t
        self._gain[0] = 1.0 / self._factor if external.known else 1.0
        # Of two timestamps that are close by jitter, the velocities are a period apart.
        fits = 0.0 < elapsed < 2.5 * self._period
        self._gain[1] = max(elapsed, self._period) if fits else math.inf
        self._dynamics(q, v, v_r, a_r, self._load, self._mass)
        self._tick(
            q, v, self._previous, q_r, v_r, a_r, self._load, external.effort, external.commanded,
            self._mass, self._numbers, out, self._parts, self._kept, self._previous,
        )  # fmt: skip
        if self._kept.item() < 1.0 and not self.notice:
            self.notice = (
                f'impedance: the stiffness of the fastest mode is limited to '
                f'{self._kept[0] ** 2:.0%} here: {Sampling.of(self.parameters)} bears no mode '
                f'beyond {self._fastest:.4g} rad/s'
            )

    def parts(self, q: Array, v: Array, reference: Reference) -> Parts:
        """Return all parts except friction, which remains; see :class:`ControlLaw`.

        They are inertia, coriolis and gravity of the reference's motion, stiffness, damping,
        null_space, shaping and wrench.
        """
        planned, tree = reference.acceleration, self.tree
        terms = effort_terms(self.kernels.inverse_dynamics, tree, q, v, {'inertia': planned})
        links = terms['inertia'] - tree.armature * planned
        terms['coriolis'] = self._load - terms['gravity'] - links
        return terms | dict(zip(_PARTS, self._parts.copy(), strict=True))


def impedance_dynamics(
    spec: KernelSpec, q: Array, v: Array, v_r: Array, a_r: Array
) -> tuple[Array, Array]:
    r"""Return :math:`M\ddot q_r+C(q,\dot q)\,\dot q_r+g`, (n,), and M, (n * n,); traceable.

    Args:
        spec: The robot's dynamics.
        q: Joint positions, shape (n,), rad or m.
        v: Joint velocities, shape (n,), rad/s or m/s.
        v_r: Velocities of the reference, shape (n,).
        a_r: Accelerations of the reference, shape (n,), rad/s^2 or m/s^2.
    """
    dynamics, gravity = spec.formulation.inverse_dynamics, spec.formulation.gravity_forces(q)
    swing = dynamics(q, 0.5 * (v - v_r), 0 * v)
    (mass,) = known_output('mass_matrix').compute(spec, q)
    return dynamics(q, 0.5 * (v + v_r), a_r) - swing + gravity, mass.ravel()


def impedance_efforts(
    tree: Robot,
    frame: str,
    q: Array,
    v: Array,
    previous: Array,
    q_r: Array,
    v_r: Array,
    a_r: Array,
    load: Array,
    external: Array,
    commanded: Array,
    mass: Array,
    numbers: Array,
) -> tuple[Array, ...]:
    """Return efforts, (n,), their ``_PARTS``, (5, n), ``kept`` of the spring, and v; traceable.

    Args:
        tree: The robot.
        frame: Frame of the stiffness; empty: joint stiffness.
        q: Joint positions, shape (n,), rad or m.
        v: Joint velocities, shape (n,), rad/s or m/s.
        previous: Joint velocities of the last tick, shape (n,), rad/s or m/s.
        q_r: Positions of the reference, shape (n,).
        v_r: Velocities of the reference, shape (n,).
        a_r: Accelerations of the reference, shape (n,).
        load: Efforts of the reference's motion, shape (n,), N m or N.
        external: External efforts, shape (n,), N m or N.
        commanded: Efforts of a wrench that the arm shall exert, shape (n,).
        mass: Mass matrix without armature, row by row, shape (n * n,).
        numbers: Stiffness of each row; factor of forces, time since the last tick (infinite: no
            acceleration), the settings of :func:`spring_formulas`, three times of
            :class:`LookAhead`, the velocity scale of Coulomb friction, and the compensated share
            of the friction.
    """
    stiffness, others = np.split(numbers, [-_NUMBERS])
    gain, elapsed, *feedback, time, lead, end, v_s, share = others
    a = (v - previous) / elapsed
    ahead = q + (v + a * (time / 2)) * time, v + a * lead
    *springs, kept = spring_formulas(
        tree, frame, *ahead, q_r, v_r, mass.reshape(tree.n, -1), gain * stiffness, feedback
    )
    parts = *springs, (gain - 1) * external, gain * commanded
    sliding = v + a * end
    driven = with_drives(tree, sum(parts[:-1], load), a_r, sliding, sliding, v_s, share)
    return driven + parts[-1], np.array(parts), kept, v


def spring_formulas(
    tree: Robot,
    frame: str,
    q: Array,
    v: Array,
    q_r: Array,
    v_r: Array,
    mass: Array,
    stiffness: Array,
    feedback: Sequence[Scalar],
) -> tuple[Array, ...]:
    """Return efforts of spring, damper and null-space motion, each (n,), and a ratio; traceable.

    The ratio, shape (1,), is that of the frequency of the fastest mode to the desired one; below 1
    where it is limited.

    Args:
        tree: The robot.
        frame: Frame of the stiffness; empty: joint stiffness.
        q: Joint positions, shape (n,), rad or m.
        v: Joint velocities, shape (n,), rad/s or m/s.
        q_r: Positions of the reference, shape (n,).
        v_r: Velocities of the reference, shape (n,).
        mass: Mass matrix without armature, shape (n, n).
        stiffness: Of each row, shape (n,) or (6,).
        feedback: Damping ratio, frequency of the null-space motion, and largest frequency of a
            mode, rad/s.
    """
    ratio, w, fastest = feedback
    f = _error(tree, frame, q, v, q_r, v_r)
    root = sqrt(stiffness)
    L = cholesky(mass + np.diag(tree.armature))
    A = solve_lower(L, f.J.T * root)
    lengths, U = _modes(A)
    kept = fastest / maximum(lengths, fastest)
    error_rate = L.T @ (v - v_r)
    along = U.T @ error_rate
    damper = L @ (U @ (2 * ratio * kept * lengths * along))
    removed = L @ (U @ ((1 - kept * kept) * (U.T @ (A @ (root * f.value)))))
    desired = L.T @ (2 * w * (v - v_r) + w * w * (q - q_r))
    reached = (
        lengths * lengths / (lengths * lengths + _NO_STIFFNESS * squared_norm(lengths) + _TINY)
    )
    free = L @ (desired - U @ (reached * (U.T @ desired)))
    least = np.array([reduce(minimum, kept)])
    return removed - f.J.T @ (stiffness * f.value), -damper, -free, least


def _modes(A: Array) -> tuple[Array, Array]:
    """Return singular values and left singular vectors of a matrix, padded with zeros."""
    n, rows = A.shape
    B, U = singular_value_decomposition(A.T if rows > n else A)
    lengths = np.array([sqrt(column @ column + _TINY) for column in B.T])
    return lengths, U if rows > n else B / lengths


def _error(tree: Robot, frame: str, q: Array, v: Array, q_r: Array, v_r: Array) -> Jet:
    """Return the deviation of joints or frame from the reference, in the reference's axes."""
    motion = Motion(tree, q, v)
    if not frame:
        return motion.joints(np.eye(tree.n)) - time_jet(q_r, v_r, np.zeros(tree.n), tree.n)
    target = Motion(tree, q_r, v_r)
    offset = motion.point(frame) - _as_input(target.point(frame))
    x_r, y_r, z_r = (_as_input(target.axis(frame, axis)) for axis in _AXES)
    x, y, z = (motion.axis(frame, axis) for axis in _AXES)
    position = stack([dot(axis, offset) for axis in (x_r, y_r, z_r)])
    return stack([position, rotation_error((x_r, y_r, z_r), (x, y, z))])


def _as_input(jet: Jet) -> Jet:
    """Return a quantity of the reference as a given function of time, independent of q."""
    return time_jet(jet.value, jet.rate, np.zeros(len(jet.value)), len(jet.J[0]))
