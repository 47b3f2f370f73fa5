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
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.contact import ContactControl, ContactPhase
from robot_dynamics_ros.constraints.feasibility import starting_configuration
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.program_kernel import ProgramKernel
from robot_dynamics_ros.constraints.signals import offset_duration, quintic_offset
from robot_dynamics_ros.control.laws.computed_torque import drive_settings, with_drives
from robot_dynamics_ros.control.laws.control_law import ExternalEffort, effort_terms
from robot_dynamics_ros.errors import ProgramError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import (
    Array,
    Scalar,
    maximum,
    minimum,
    positive_part,
    select,
    sqrt,
)
from robot_dynamics_ros.symbolic.kernel import Kernel, compile_function


class ProgramEffort:
    """Inverse dynamics with armature, friction and kinematic loops, within effort limits.

    Args:
        tree: The robot.
        inverse_dynamics: Its kernel.
        kernel: The program, evaluated at the state of the efforts.
    """

    def __init__(self, tree: Robot, inverse_dynamics: Kernel, kernel: ProgramKernel) -> None:
        n = tree.n
        self._tree, self._inverse_dynamics, self._kernel = tree, inverse_dynamics, kernel
        self._zeros, self._keep, self._gravity = np.zeros((3, n))
        self._settings, self._excess, self._scale = np.zeros(4), np.zeros(1), np.zeros(1)
        self._sides = sides_of(kernel.program)
        self._add_drives = compile_function(partial(drive_effort, tree), n, settings=4)
        confined = partial(confined_efforts, limit=tree.effort_limit)
        self._confine = compile_function(confined, n, fused=False)

    def configure(self, end: float, parameters: Mapping[str, Any]) -> None:
        """Apply the law's parameters.

        Args:
            end: Time from the velocity of the dynamics to that of the friction, s.
            parameters: Parameters of the law by name.
        """
        self._settings[:] = drive_settings(end, parameters)

    def write(self, q: Array, v: Array, a: Array, out: Array) -> bool:
        r"""Compute :math:`M a + c + g + J_aa` plus friction at the end of the coming period.

        The direction of friction is :math:`\tanh\{[\dot q+ha+w/(1+\dot q^2/v_s^2)]/v_s\}` with the
        velocity w of the program, which dominates where the joint sticks.

        Returns:
            Whether every effort is within its limit; False if one is NaN.
        """
        self._inverse_dynamics(q, v, a, out)
        towards = self._kernel.program_velocity
        self._add_drives(out, v, a, towards, self._settings, out, self._excess)
        if self._sides[1]:
            self._transfer(out)
            return bool(np.all(np.abs(out) <= self._tree.effort_limit))
        return self._excess.item() <= 0.0

    def _transfer(self, out: Array) -> None:
        transfer_passive_efforts(out, self._kernel.transmission, *self._sides)

    def confine(self, q: Array, v: Array, out: Array) -> float:
        """Scale efforts into the limits: the acceleration first, then all terms except gravity.

        Args:
            q: Positions, shape (n,), rad or m.
            v: Velocities, shape (n,), rad/s or m/s.
            out: Finite efforts, shape (n,), N m or N; changed in place.

        Returns:
            The scale s in [0, 1] of the acceleration.
        """
        self.write(q, v, self._zeros, self._keep)
        self._inverse_dynamics(q, self._zeros, self._zeros, self._gravity)
        self._transfer(self._gravity)
        self._confine(out, self._keep, self._gravity, out, self._scale)
        return self._scale.item()

    def split(self, q: Array, v: Array, accelerations: dict[str, Array]) -> dict[str, Array]:
        """Return efforts by term, which add up to the result of :meth:`write` without friction.

        Args:
            q: Positions, shape (n,), rad or m.
            v: Velocities, shape (n,), rad/s or m/s.
            accelerations: Terms of the commanded acceleration by name, each of shape (n,).
        """
        parts = effort_terms(self._inverse_dynamics, self._tree, q, v, accelerations)
        for part in parts.values():
            self._transfer(part)
        return parts

    def inertia_matrix(self, q: Array) -> Array:
        """Return the mass matrix plus armature, new array of shape (n, n)."""
        units = dict(enumerate(np.eye(self._tree.n)))
        columns = effort_terms(self._inverse_dynamics, self._tree, q, q, units)
        return np.array([columns[j] for j in units])


def sides_of(program: Program) -> tuple[list[int], tuple[int, ...]]:
    """Return the joints of a program that are driven, and those without a drive."""
    return [i for i in range(program.n) if i not in program.passive], program.passive


def transfer_passive_efforts(
    out: Array, transmission: Array, driven: Sequence[int], passive: Sequence[int]
) -> None:
    r"""Transfer efforts of passive joints to the drives through the reactions of the loop.

    The passive rows of :math:`Q = \tau + \Gamma^TN` give :math:`\Gamma_d^TN = Q_d`, the
    driven ones :math:`\tau = Q_a - \Gamma_a^TN`.

    Args:
        out: Efforts, shape (n,), N m or N, numbers or symbols; changed in place.
        transmission: Of the program, shape (driven, passive joints).
        driven: Driven joints, see :func:`sides_of`.
        passive: The others.
    """
    for k, i in enumerate(driven):
        for j, d in enumerate(passive):
            out[i] = out[i] - transmission[k, j] * out[d]
    for d in passive:
        out[d] = 0.0


def drive_effort(
    tree: Robot, model: Array, v: Array, a: Array, towards: Array, settings: Array
) -> tuple[Array, Array]:
    """Return efforts with armature and friction, and the sum of their excess over the limits."""
    end, v_s, part, break_away = settings
    x, later = v / v_s, v + end * a
    sliding = later + break_away * towards / (1 + x * x)
    efforts = with_drives(tree, model, a, later, sliding, v_s, part)
    excess: Scalar = 0
    for tau, limit in zip(efforts, tree.effort_limit.tolist(), strict=True):
        excess = excess + positive_part(sqrt(tau * tau) - limit)
    return efforts, np.array([excess])


def confined_efforts(tau: Array, keep: Array, gravity: Array, limit: Array) -> tuple[Array, Array]:
    """Return efforts within the limits; numbers or symbols.

    Within them, efforts are not changed. The acceleration is scaled first; if the efforts without
    it exceed the limits too, all terms except gravity.

    Args:
        tau: Efforts, shape (n,), N m or N.
        keep: Efforts without the acceleration, shape (n,).
        gravity: Efforts that hold the robot at rest, shape (n,).
        limit: Effort limits, shape (n,); numbers.

    Returns:
        The efforts, shape (n,), and the scale of the acceleration, shape (1,).
    """
    beyond, keep_beyond = _excess(tau, limit), _excess(keep, limit)
    scale = largest_scale(keep, tau - keep, limit)
    some = keep + scale * (tau - keep)
    few = gravity + largest_scale(gravity, keep - gravity, limit) * (keep - gravity)
    scaled = clipped(
        [select(0.0, keep_beyond, *pair) for pair in zip(few, some, strict=True)], limit
    )
    efforts = [select(0.0, beyond, *pair) for pair in zip(scaled, tau, strict=True)]
    left = select(0.0, beyond, select(0.0, keep_beyond, 0.0, scale), 1.0)
    return np.array(efforts), np.array([left])


def clipped(effort: Sequence[Scalar] | Array, limit: Array) -> Array:
    """Return efforts clipped to their limits, shape (n,) each; numbers or symbols."""
    pairs = zip(effort, limit.tolist(), strict=True)
    return np.array([minimum(maximum(tau, -most), most) for tau, most in pairs])


def largest_scale(keep: Array, task: Array, limit: Array) -> Scalar:
    r"""Return the largest s in [0, 1] with :math:`|keep + s\,task| \le limit` in every joint.

    Args:
        keep: The unscaled part of the effort, such as gravity, shape (n,), N m or N.
        task: The scaled part, shape (n,), N m or N.
        limit: Effort limits, positive, shape (n,), N m or N; numbers.

    Returns:
        s; 0 if ``keep`` alone reaches a limit in a joint and the task part increases the excess.
        Numbers or symbols.
    """
    scale: Scalar = 1.0
    for base, needed, most in zip(keep, task, limit.tolist(), strict=True):
        size = maximum(needed, -needed)
        room = select(0.0, needed, most - base, most + base)
        # Where the task effort is 0, no scaling is needed; 1 avoids a division by 0.
        part = maximum(room, 0.0) / select(0.0, size, size, 1.0)
        smaller = select(room, size * scale, part, scale)
        scale = select(0.0, size, smaller, scale)
    return scale


def _excess(effort: Array, limit: Array) -> Scalar:
    """Return the largest excess of an effort over its limit; negative if all are within."""
    return reduce(maximum, (maximum(x, -x) - most for x, most in zip(effort, limit, strict=True)))


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
        controls: One per contact.
    """

    def __init__(self, kernel: ProgramKernel, external: ExternalEffort) -> None:
        program = kernel.program
        self._kernel, self._external = kernel, external
        self._rows = [row for row, _ in program.contacts]
        self._along = [i for i in range(program.m) if i not in self._rows]
        self.controls = [ContactControl(contact) for _, contact in program.contacts]
        self._pairs = [*zip(self._rows, self.controls, strict=True)]
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
        for control, gain in zip(self.controls, gains, strict=True):
            control.reset(gain)

    def begin(self, t: float) -> None:
        """Set the program's targets normal to the surfaces at a time, s."""
        if not self._pairs:
            return
        self._step = min(max(t - self._time, 0.0), _MAX_STEP_S) if t > self._time else 0.0
        self._time, kernel = t, self._kernel
        kernel.external[:] = self._external.effort
        for k, (row, control) in enumerate(self._pairs):
            kernel.position_controlled[k] = control.position_controlled
            kernel.breakaway_velocity[k] = control.breakaway_velocity
            kernel.set_row_offset(row, control.position_reference, control.rate)

    def update_forces(self) -> None:
        """Update the forces for the coming period, after the program was evaluated."""
        if not self._pairs:
            return
        kernel, h, sensed = self._kernel, self._step, self._external.measured
        f, rate, reaction = kernel.f.tolist(), kernel.f_dot.tolist(), kernel.reaction.tolist()
        normal_force = 0.0
        for row, control in self._pairs:
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
        if self._pairs:
            np.dot(self._friction, self._kernel.Gamma, out=self._effort)
            out -= self._effort

    def reactions(self, multipliers: Array) -> Array:
        """Return multipliers, shape (m,), with the measured or observed reactions of contacts."""
        if self._pairs:
            multipliers[self._rows] = self._kernel.reaction[self._rows]
        return multipliers

    def status(self) -> dict[str, str]:
        """Return phase and forces of each contact as texts."""
        texts, uncertainty = {}, self.uncertainty() if self._pairs else ()
        for row, control in self._pairs:
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


_FREQUENCY = 10.0  # rad/s, critically damped: the gains of a law without a program
_SHORTEST_S = 0.5
_STEPS = 5  # Newton steps, over distances of millimetres


class LeadIn:
    """Smooth motion of all joints to the start of a program.

    Attributes:
        duration: Duration of the motion, s.
        velocity: Target velocity of the last tick, shape (n,), rad/s or m/s.

    Args:
        goal: Start of the program, shape (n,), rad or m.
        speed: Largest joint velocities, shape (n,), rad/s or m/s.
    """

    def __init__(self, goal: Array, speed: Array) -> None:
        self.duration, self._goal, self._speed = 0.0, goal, speed
        self.velocity, self._distance, self._rate = np.zeros((3, len(goal)))

    @classmethod
    def to(cls, program: Program, share: float) -> LeadIn | None:
        """Return the motion to the start of a program; None if no start is found.

        Args:
            program: The program.
            share: Fraction of the velocity limits.
        """
        try:
            goal = _above_contacts(program, starting_configuration(program))
        except ProgramError:
            return None
        return cls(goal, share * program.tree.velocity_limits())

    def begin(self, q: Array, v: Array) -> None:
        """Start the motion at a state, each of shape (n,)."""
        self._distance[:], self._rate[:] = q - self._goal, v
        self.duration = max(offset_duration(self._distance, self._speed, v), _SHORTEST_S)

    def acceleration(self, time: float, q: Array, v: Array) -> Array:
        """Return the joint acceleration, new array of shape (n,), at a time since start, s."""
        offset, rate, acceleration = quintic_offset(
            self._distance, self._rate, self.duration, time
        )
        error, error_rate = self._goal + offset - q, rate - v
        self.velocity[:] = rate
        return acceleration + _FREQUENCY * (2.0 * error_rate + _FREQUENCY * error)


def _above_contacts(program: Program, q: Array) -> Array:
    """Return a start with the rows of contacts at their clearance, shape (n,), rad or m."""
    target = np.zeros(program.m)
    for row, contact in program.contacts:
        target[row] = contact.clearance
    for _ in range(_STEPS if program.contacts else 0):
        state = program.stack.evaluate(q, 0.0 * q, 0.0)
        q = q - np.linalg.lstsq(state.Gamma, state.f - target, rcond=None)[0]
    return q
