# SPDX-License-Identifier: Apache-2.0
r"""Efforts for the acceleration commanded by a program, for its contacts, and its lead-in.

``ProgramEffort`` handles drives, kinematic loops and effort limits.

``ContactForces`` feeds the contact force forward, :math:`-\Gamma_c^TF`, corrected by the measured
force. The remaining external effort, mainly friction along the surface, is fed forward through a
low pass, limited to ``FRICTION`` times the normal force.

``LeadIn`` moves all joints to the start of a program that cannot start at the present position.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, reduce

import numpy as np

from robot_dynamics_ros.constraints.contact import ContactControl, ContactPhase
from robot_dynamics_ros.constraints.feasibility import solve, starting_configuration
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.program_kernel import ProgramKernel
from robot_dynamics_ros.constraints.signals import offset_duration, quintic_offset
from robot_dynamics_ros.control.laws.computed_torque import drive_settings, with_drives
from robot_dynamics_ros.control.laws.control_law import ExternalEffort, Parts, effort_terms
from robot_dynamics_ros.control.safety.limits import clipped, magnitude
from robot_dynamics_ros.dynamics.sampled_loop import CONTINUOUS, Sampling, fastest_frequency
from robot_dynamics_ros.errors import ProgramError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.parameters import Values
from robot_dynamics_ros.spatial.scalar import Array, Scalar, maximum, select
from robot_dynamics_ros.symbolic.kernel import KernelSet
from robot_dynamics_ros.symbolic.outputs import KernelSpec


class ProgramEffort:
    """Inverse dynamics with armature, friction and kinematic loops, within effort limits.

    Attributes:
        settings: See :func:`program_efforts`, shape (4,).
        limit: Effort limits, shape (n,), N m or N; infinite without ``limit_effort``.

    Args:
        tree: The robot.
        kernels: Its kernels.
        kernel: The program, evaluated at the state of the efforts.
    """

    def __init__(self, tree: Robot, kernels: KernelSet, kernel: ProgramKernel) -> None:
        self._tree, self._kernel, self._dynamics = tree, kernel, kernels.inverse_dynamics
        self.settings, self._scale = np.zeros(4), np.zeros(1)
        self.limit, self._transmission = np.zeros(tree.n), kernel.transmission.reshape(-1)
        self._passive, size = kernel.program.passive, len(self._transmission)
        efforts = partial(program_efforts, tree, self._passive)
        self._efforts = kernels.compile(efforts, transmission=size, settings=4)

    def configure(self, end: float, parameters: Values) -> None:
        """Apply the law's parameters.

        Args:
            end: Time from the velocity of the dynamics to that of the friction, s.
            parameters: Parameters of the law by name.
        """
        self.settings[:] = drive_settings(end, parameters)
        self.limit[:] = self._tree.effort_limit if parameters['limit_effort'] else np.inf

    def write(self, q: Array, v: Array, a: Array, out: Array, limit: Array | None = None) -> float:
        """Write the efforts of :func:`program_efforts` to ``out``; return the scale.

        Args:
            q: Positions, shape (n,), rad or m.
            v: Velocities, shape (n,), rad/s or m/s.
            a: Commanded accelerations, shape (n,), rad/s^2 or m/s^2.
            out: Receives the efforts, shape (n,), N m or N.
            limit: Effort limits, shape (n,); those of the parameters if None.
        """
        self._efforts(
            q, v, a, self._kernel.program_velocity, self._transmission, self.settings,
            self.limit if limit is None else limit, out, self._scale,
        )  # fmt: skip
        return self._scale.item()

    def split(self, q: Array, v: Array, accelerations: Parts) -> Parts:
        """Return efforts by term, which add up to the result of :meth:`write` without friction.

        Args:
            q: Positions, shape (n,), rad or m.
            v: Velocities, shape (n,), rad/s or m/s.
            accelerations: Terms of the commanded acceleration by name, each of shape (n,).
        """
        parts = effort_terms(self._dynamics, self._tree, q, v, accelerations)
        transmission = self._kernel.transmission
        return {name: transferred(self._passive, x, transmission) for name, x in parts.items()}


def program_efforts(
    tree: Robot,
    passive: tuple[int, ...],
    spec: KernelSpec,
    q: Array,
    v: Array,
    a: Array,
    towards: Array,
    transmission: Array,
    settings: Array,
    limit: Array,
) -> tuple[Array, Array]:
    r"""Return :math:`M a + c + g + J_aa` plus friction within limits; numbers or symbols.

    The direction of friction, at the end of the coming period, is
    :math:`\tanh\{[\dot q+ha+w/(1+\dot q^2/v_s^2)]/v_s\}` with the velocity w of the program, which
    dominates where the joint sticks.

    Args:
        tree: The robot, for rotor inertia and friction.
        passive: Joints without a drive.
        spec: The robot's dynamics.
        q: Positions, shape (n,), rad or m.
        v: Velocities, shape (n,), rad/s or m/s.
        a: Commanded accelerations, shape (n,), rad/s^2 or m/s^2.
        towards: w, shape (n,).
        transmission: Of the program, (driven, passive joints), row by row.
        settings: h, v_s, share of the friction, and 1 for w, else 0; see ``drive_settings``.
        limit: Effort limits, shape (n,), N m or N; infinite: none.

    Returns:
        The efforts, shape (n,), and the scale of the acceleration, shape (1,), see
        :func:`confined_efforts`.
    """
    end, v_s, part, break_away = settings
    still, x = np.zeros(tree.n, dtype=int), v / v_s
    away = break_away * towards / (1 + x * x)
    reactions = transmission.reshape(tree.n - len(passive), -1)

    def effort(acceleration: Array) -> Array:
        load, later = spec.formulation.inverse_dynamics(q, v, acceleration), v + end * acceleration
        out = with_drives(tree, load, acceleration, later, later + away, v_s, part)
        return transferred(passive, out, reactions)

    gravity = transferred(passive, spec.formulation.gravity_forces(q), reactions)
    return confined_efforts(effort(a), effort(still), gravity, limit)


def transferred(passive: Sequence[int], effort: Array, transmission: Array) -> Array:
    r"""Return efforts of passive joints transferred to the drives by the reactions of the loop.

    The passive rows of :math:`Q = \tau + \Gamma^TN` give :math:`\Gamma_d^TN = Q_d`, the
    driven ones :math:`\tau = Q_a - \Gamma_a^TN`.

    Args:
        passive: Joints without a drive.
        effort: Efforts, shape (n,), N m or N, numbers or symbols.
        transmission: Of the program, shape (driven, passive joints).
    """
    out = list(effort)
    driven = [i for i in range(len(out)) if i not in passive]
    for i, row in zip(driven, transmission, strict=True):
        out[i] = out[i] - sum(part * out[d] for part, d in zip(row, passive, strict=True))
    for d in passive:
        out[d] = 0.0
    return np.array(out)


def confined_efforts(tau: Array, keep: Array, gravity: Array, limit: Array) -> tuple[Array, Array]:
    """Return efforts within the limits; numbers or symbols.

    Within them, efforts are not changed. The acceleration is scaled first; if the efforts without
    it exceed the limits too, all terms except gravity.

    Args:
        tau: Efforts, shape (n,), N m or N.
        keep: Efforts without the acceleration, shape (n,).
        gravity: Efforts that hold the robot at rest, shape (n,).
        limit: Effort limits, shape (n,).

    Returns:
        The efforts, shape (n,), and the scale of the acceleration, shape (1,).
    """
    beyond, keep_beyond = _excess(tau, limit), _excess(keep, limit)
    scale = largest_scale(keep, tau - keep, limit)
    some = keep + scale * (tau - keep)
    few = gravity + largest_scale(gravity, keep - gravity, limit) * (keep - gravity)
    scaled = clipped(select(0.0, keep_beyond, few, some), limit)
    left = select(0.0, beyond, select(0.0, keep_beyond, 0.0, scale), 1.0)
    return select(0.0, beyond, scaled, tau), np.array([left])


def largest_scale(keep: Array, task: Array, limit: Array) -> Scalar:
    r"""Return the largest s in [0, 1] with :math:`|keep + s\,task| \le limit` in every joint.

    Args:
        keep: The unscaled part of the effort, such as gravity, shape (n,), N m or N.
        task: The scaled part, shape (n,), N m or N.
        limit: Effort limits, positive, shape (n,), N m or N.

    Returns:
        s; 0 if ``keep`` alone reaches a limit in a joint and the task part increases the excess.
        Numbers or symbols.
    """
    scale: Scalar = 1.0
    for base, needed, most in zip(keep, task, limit.tolist(), strict=True):
        size = magnitude(needed)
        room = select(0.0, needed, most - base, most + base)
        # Where the task effort is 0, no scaling is needed; 1 avoids a division by 0.
        part = maximum(room, 0.0) / select(0.0, size, size, 1.0)
        smaller = select(room, size * scale, part, scale)
        scale = select(0.0, size, smaller, scale)
    return scale


def _excess(effort: Array, limit: Array) -> Scalar:
    """Return the largest excess of an effort over its limit; negative if all are within."""
    return reduce(maximum, magnitude(effort) - limit)


#: Largest plausible friction coefficient of a surface.
FRICTION = 1.0
#: Uncertainty of an observed force in addition to that of joint friction, N.
FORCE_UNCERTAINTY = 0.5
_LOW_PASS = 200.0  # 1/s, bandwidth of the friction along the surface
_MAX_STEP_S = 0.02  # s: longer steps are clamped to it


class ContactForces:
    """Force control of the contacts of a program; without contacts, it does nothing.

    Args:
        kernel: Kernel of the program.
        external: External effort on the joints.

    Attributes:
        controls: By the row of f of each contact.
    """

    def __init__(self, kernel: ProgramKernel, external: ExternalEffort) -> None:
        program = kernel.program
        self._kernel, self._external = kernel, external
        self.controls = {row: ContactControl(contact) for row, contact in program.contacts}
        self._along = [i for i in range(program.m) if i not in self.controls]
        self._friction, self._effort = np.zeros(program.m), np.zeros(program.n)
        self._time, self._step = math.nan, 0.0

    def reset(self, external: ExternalEffort, gains: Sequence[float]) -> None:
        """Restart with all contacts in their initial phase, above the surfaces.

        Args:
            external: External effort on the joints.
            gains: Integral gain of each contact, 1/s, see ``force_gain``.
        """
        self._external, self._time = external, math.nan
        self._friction.fill(0.0)
        for control, gain in zip(self.controls.values(), gains, strict=True):
            control.reset(gain)

    def begin(self, t: float) -> None:
        """Set the program's targets normal to the surfaces at a time, s."""
        if not self.controls:
            return
        self._step = min(max(t - self._time, 0.0), _MAX_STEP_S) if t > self._time else 0.0
        self._time, kernel = t, self._kernel
        kernel.external[:] = self._external.effort
        for k, (row, control) in enumerate(self.controls.items()):
            kernel.position_controlled[k] = control.position_controlled
            kernel.breakaway_velocity[k] = control.breakaway_velocity
            kernel.set_row_offset(row, control.position_reference, control.rate)

    def update_forces(self) -> None:
        """Update the forces for the coming period, after the program was evaluated."""
        if not self.controls:
            return
        kernel, h, sensed = self._kernel, self._step, self._external.measured
        f, rate, reaction = kernel.f.tolist(), kernel.f_dot.tolist(), kernel.reaction.tolist()
        normal_force = 0.0
        for row, control in self.controls.items():
            control.advance(h, f[row], rate[row], reaction[row], sensed=sensed)
            self._friction[row] = control.force
            if control.phase is ContactPhase.PRESSING:
                normal_force += max(reaction[row], 0.0)
        part, most = -math.expm1(-_LOW_PASS * h), FRICTION * normal_force
        for i in self._along:
            target = max(-most, min(most, reaction[i]))
            self._friction[i] += part * (target - self._friction[i])

    def add(self, out: Array) -> None:
        """Add the efforts of contact forces and surface friction to ``out``, shape (n,)."""
        if self.controls:
            np.dot(self._friction, self._kernel.Gamma, out=self._effort)
            out -= self._effort

    def reactions(self, multipliers: Array) -> Array:
        """Return multipliers, shape (m,), with the measured or observed reactions of contacts."""
        for row in self.controls:
            multipliers[row] = self._kernel.reaction[row]
        return multipliers

    def status(self) -> dict[str, str]:
        """Return phase and forces of each contact as texts."""
        texts, uncertainty = {}, self.uncertainty() if self.controls else ()
        for row, control in self.controls.items():
            name = self._kernel.program.stack.rows[row]
            texts[f'contact {name}'] = (
                f'{control.phase.value}, {self._kernel.reaction[row]:.2f} N, '
                f'pressing with {control.force:.2f} N +- {uncertainty[row]:.2f} N'
            )
        return texts

    def uncertainty(self) -> Array:
        r"""Return the uncertainty of the reactions, shape (m,): 0 with a sensor.

        Without a sensor, static friction of a joint cannot be distinguished from a contact: the
        uncertainty is the Coulomb friction of all joints, mapped to the rows,
        :math:`|\Gamma^{\#T}|\,\tau_c`, plus ``FORCE_UNCERTAINTY``.
        """
        if self._external.measured:
            return np.zeros(len(self._friction))
        matrix, tree = self._kernel.inverse().matrix(), self._kernel.program.tree
        return np.abs(matrix).T @ tree.coulomb_friction + FORCE_UNCERTAINTY


#: rad/s, critically damped: the gains of a law without a program, or half of what is stable.
_FREQUENCY = 10.0
_SHORTEST_S = 0.5


class LeadIn:
    """Smooth motion of all joints to the start of a program.

    Attributes:
        goal: As given.
        duration: Duration of the motion, s.
        velocity: Target velocity of the last tick, shape (n,), rad/s or m/s.

    Args:
        goal: Start of the program, shape (n,), rad or m.
        speed: Largest joint velocities, shape (n,), rad/s or m/s.
        sampling: Of the loop; the gains are at most half as fast as it bears.
    """

    def __init__(self, goal: Array, speed: Array, sampling: Sampling = CONTINUOUS) -> None:
        self.duration, self.goal, self._speed = 0.0, goal, speed
        self._frequency = min(_FREQUENCY, 0.5 * fastest_frequency(sampling, 1.0, 'none'))
        self.velocity, self._distance, self._rate = np.zeros((3, len(goal)))

    @classmethod
    def to(cls, program: Program, share: float, sampling: Sampling) -> LeadIn | None:
        """Return the motion to the start of a program, above its contacts; None if none is found.

        Args:
            program: The program.
            share: Fraction of the velocity limits.
            sampling: Of the loop; the gains are at most half as fast as it bears.
        """
        try:
            goal = starting_configuration(program)
        except ProgramError:
            return None
        above = np.zeros(program.m)
        for row, contact in program.contacts:
            above[row] = contact.clearance
        goal, _ = solve(program, goal, 0.0, above)
        return cls(goal, share * program.tree.velocity_limits(), sampling)

    def begin(self, q: Array, v: Array) -> None:
        """Start the motion at a state, each of shape (n,)."""
        self._distance[:], self._rate[:] = q - self.goal, v
        self.duration = max(offset_duration(self._distance, self._speed, v), _SHORTEST_S)

    def acceleration(self, time: float, q: Array, v: Array) -> Array:
        """Return the joint acceleration, new array of shape (n,), at a time since start, s."""
        offset, rate, acceleration = quintic_offset(
            self._distance, self._rate, self.duration, time
        )
        error, error_rate, w = self.goal + offset - q, rate - v, self._frequency
        self.velocity[:] = rate
        return acceleration + w * (2.0 * error_rate + w * error)
