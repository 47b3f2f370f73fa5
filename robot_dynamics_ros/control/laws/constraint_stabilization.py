# SPDX-License-Identifier: Apache-2.0
r"""Zaremba's control law, which stabilizes any constraint program f(q, t) = 0.

.. math::

   \ddot q_c &= \Gamma^{+}u + (E-\Gamma^{+}\Gamma)\,v,\qquad
      u = -(\beta+\Gamma_1\dot f+\Gamma_0f) \\
   \tau &= M(q)\,\ddot q_c + c(q,\dot q) + g(q) + J_a\ddot q_c + \text{friction}

For :math:`m\le n` and full rank, :math:`\ddot f+\Gamma_1\dot f+\Gamma_0f=0`.

Source: A. T. Zaremba 1990, (3.1)-(3.5); constraint-stabilization, sections 3 to 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.angles import JointProgram, follow_reference
from robot_dynamics_ros.constraints.contact import ContactPhase, contact_loop, force_gain
from robot_dynamics_ros.constraints.error_dynamics import error_loop, roots
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.program_file import Source, load_program
from robot_dynamics_ros.constraints.program_kernel import ProgramKernel
from robot_dynamics_ros.constraints.reactions import constraint_force
from robot_dynamics_ros.constraints.signals import Followed, quintic_offset
from robot_dynamics_ros.control.laws.computed_torque import FRICTION, SAMPLING
from robot_dynamics_ros.control.laws.control_law import (
    ConstraintSnapshot,
    LookAhead,
    ModelLaw,
    Parts,
    inertia_of,
)
from robot_dynamics_ros.control.laws.program_effort import ContactForces, LeadIn, ProgramEffort
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.dynamics.sampled_loop import FeedbackLoop, Sampling
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.parameters import Parameter, Values
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import KernelSet

P = Parameter
_LEAD_IN_BLEND_S = 0.3  # time over which the remaining error after a lead-in is blended out
# Of a rehearsal: step by the fastest root, duration by the slowest one, and most steps.
_STEP, _DECAY, _MOST_STEPS = 0.2, 4.0, 500
_REHEARSED_S = 0.1  # for which the result of a rehearsal holds, in motion


class ConstraintStabilization(ModelLaw):
    r"""Stabilizes the constraints of a program; its null-space task controls the free motion.

    The program's clock starts at :meth:`reset`, or at the first tick. An initial error decays by
    the program's gains. With ``blend``, the target starts at the measured f and moves to the
    program instead, so that the initial feedback is zero. If the program cannot start at the
    measured position, as a rehearsal shows, all joints are first moved to its start, see
    ``lead_in``.

    Effort limits: the commanded acceleration is scaled by the largest feasible s in [0, 1], which
    keeps its direction; gravity, Coriolis forces and friction are kept. If these alone exceed a
    limit, the acceleration is 0, and all except gravity are scaled.

    The desired friction velocity is that of the program where a joint sticks, so that the joint
    breaks away, and the measured one elsewhere.

    Attributes:
        program: The program.
        followed: Signals of the program that follow the joint reference, with their joint indices.
        efforts: Efforts of an acceleration.
        ahead: Prediction of the state for which the efforts are computed.
        f: Constraint value at the last tick, shape (m,), m or rad.
        f_dot: Its rate, shape (m,), m/s or rad/s.
        Gamma: Its Jacobian, shape (m, n).
        acceleration: Commanded joint acceleration of the last tick, shape (n,), rad/s^2 or m/s^2.
        scale: s of the last tick; 1 within the effort limits.

    Args:
        tree: The model of the robot, payload included.
        kernels: With ``inverse_dynamics``; compiled from the tree if None.
        program: A program, or an argument of ``load_program``. If None or empty: all joints follow
            the joint reference (:math:`\Gamma = E`), which is computed torque at 10 rad/s.
        parameters: Other parameters by name, see ``declared``.

    Raises:
        ProgramError: The program cannot be used.
        ParameterError: A parameter is rejected, or the gains are unstable at the period.

    Cost: one and a half times computed torque, in every configuration; allocates no array.
    """

    name = 'constraint_stabilization'
    remainder = 'friction'
    structural = frozenset({'program'})
    outputs = ('inverse_dynamics',)
    declared = (
        P('program', '', 'Constraint program of law constraint_stabilization: YAML file, YAML '
          'text, or name of a shipped one; empty: follow joint trajectories.'),
        *FRICTION,
        *SAMPLING,
        P('limit_effort', True, 'Whether law constraint_stabilization scales the acceleration to '
          'meet the effort limits, which keeps its direction; otherwise efforts are clipped joint '
          'by joint.'),
        P('lead_in', 0.0, 'Fraction of the velocity limits at which law constraint_stabilization '
          'first moves the joints to the start of the program, if the program cannot start at '
          'the measured position because of a singularity, the effort limits or the velocity '
          'limits; 0: never.',
          0.0, 1.0),
    )  # fmt: skip

    def __init__(
        self,
        tree: Robot,
        kernels: KernelSet | None = None,
        program: Program | Source | None = None,
        **parameters: Any,
    ) -> None:
        given = program if isinstance(program, str) else getattr(program, 'name', '')
        if program is None or program == '':
            program = follow_reference(tree)
        elif not isinstance(program, Program):
            program = load_program(program, tree)
        self.program, self._kernel, self.passive = program, ProgramKernel(program), program.passive
        super().__init__(tree, kernels, program=given, **parameters)

    _running: LeadIn  # goes on as it began, whatever changes

    def build(self) -> None:
        """Compile the efforts, find the signals that follow; see :class:`ModelLaw`."""
        tree, program = self.tree, self.program
        self.efforts = ProgramEffort(tree, self.kernels, self._kernel)
        self.f, self.f_dot, self.Gamma = self._kernel.f, self._kernel.f_dot, self._kernel.Gamma
        n, m = tree.n, program.m
        self.acceleration, self.scale = np.zeros(n), 1.0
        self.followed = [
            (part.signals[0], list(part.joints))
            for part in program.stack.constraints
            if isinstance(part, JointProgram) and isinstance(part.signals[0], Followed)
        ]
        self._contacts = ContactForces(self._kernel, self.external)
        self.follows_reference, self.answers_force = bool(self.followed), bool(program.contacts)
        self._start = math.nan
        self._lead: LeadIn | None = None
        self._never_leads, self._obstacle, self._rehearsed_at = '', '', -math.inf
        self.leading, self._blend = False, program.blend
        self._initial = np.zeros((2, m))
        self._turns, self._turned = np.zeros((2, n))

    def configure(self, parameters: Values) -> None:
        """Apply all parameters except the program; see :class:`ControlLaw`."""
        period, discretization = parameters['period'], parameters['discretization']
        self.ahead = LookAhead(discretization, period)
        self._kernel.look_ahead(self.ahead.time, self.ahead.lead)
        self.efforts.configure(self.ahead.end, parameters)
        share = parameters['lead_in']
        reasons = {
            'lead_in is 0': not share,
            'limit_effort is false': not parameters['limit_effort'],
            'the program follows the joint reference': bool(self.followed),
            'the program closes loops': self.program.passive,
        }
        self._never_leads = next((reason for reason, applies in reasons.items() if applies), '')
        self._lead = (
            None if self._never_leads else LeadIn.to(self.program, share, Sampling.of(parameters))
        )
        if self._lead is None:
            self._never_leads = self._never_leads or 'no start of the program is found'
        rates = np.abs(roots(self.program.G0, self.program.G1))
        step = _STEP / float(rates.max())
        lasting = max(_DECAY / float(rates.min()), self.program.blend)
        self._rehearsed = np.arange(min(math.ceil(lasting / step), _MOST_STEPS)) * step

    @classmethod
    def check(cls, tree: Robot, values: Values) -> None:
        """Check ranges, and that the program can be loaded."""
        super().check(tree, values)
        if values.get('program'):
            load_program(values['program'], tree)

    def feedback_loops(self, q: Array) -> Iterator[FeedbackLoop]:
        """Return the error dynamics, the null-space motion and the pressed surfaces."""
        program, subject = self.program, f'the feedback of program {self.program.name!r}'
        yield error_loop(program.G0, program.G1, subject=subject)
        if program.null_space is not None:
            gains = np.diag(program.null_space.stiffness), np.diag(program.null_space.damping)
            yield error_loop(*gains, subject=f'the null space of program {program.name!r}')
        yield from (loop for loop, _ in self._contact_loops(q))

    def _contact_loops(self, q: Array) -> Iterator[tuple[FeedbackLoop, float]]:
        """Yield the loop of each contact at a position, and its integral gain, 1/s."""
        program, kernel = self.program, self._kernel
        if not program.contacts:
            return
        kernel.run(0.0, q, np.zeros(len(q)))
        A = inertia_of(self.kernels.inverse_dynamics, self.tree, q)
        sampling = Sampling.of(self.parameters)
        for row, contact in program.contacts:
            normal = kernel.Gamma[row]
            mass = 1.0 / float(normal @ np.linalg.solve(A, normal))
            loop = contact_loop(contact.stiffness, mass, float(program.G1[row, row]))
            gain = force_gain(loop, sampling)
            yield loop._replace(integral=np.array([[gain * contact.stiffness]])), gain

    def reset(self, t: float, q: Array, v: Array) -> None:
        """Start the program's clock at a measured state; see :class:`ControlLaw`.

        Args:
            t: Time on the loop's clock at which the program's clock is 0, s.
            q: Measured positions, shape (n,), rad or m.
            v: Measured velocities, shape (n,), rad/s or m/s.
        """
        if not 0.0 <= t - self._rehearsed_at < _REHEARSED_S:
            self.rehearse(t, q, v)
        self._start, self._rehearsed_at = t, -math.inf  # once only
        q = q - self._turns
        self._begin_program(q, v, self.program.blend)
        if self._obstacle and self._lead is not None:
            self._lead.begin(q, v)
            self._running, self._start = self._lead, t + self._lead.duration
            self.leading = True

    def rehearse(self, t: float, q: Array, v: Array) -> None:
        """Find out whether the program can begin at a state; see :class:`ControlLaw`."""
        self._start, self._rehearsed_at, self.leading, self._obstacle = t, t, False, ''
        task, posture = self.program.null_space, q
        if self._lead is not None:
            posture = self._lead.goal
        elif task is not None:
            posture = np.where(task.stiffness > 0.0, task.posture, q)
        self._turns[:] = self._kernel.whole_turns(q, posture)
        if self._lead is not None:
            self._begin_program(q - self._turns, v, self.program.blend)
            self._obstacle = self._rehearse(q.copy(), v.copy())

    def _begin_program(self, q: Array, v: Array, blend: float) -> None:
        """Start the program at a state; blend its initial error out over ``blend`` s."""
        self.acceleration[:], self._blend = 0.0, blend
        zero = np.zeros(self.program.m)
        self._kernel.set_offset(zero, zero, zero)
        self._contacts.reset(self.external, [gain for _, gain in self._contact_loops(q)])
        if blend > 0.0:
            self._kernel.run(0.0, q, v)
            self._initial[:] = self.f, self.f_dot

    def _rehearse(self, q: Array, v: Array) -> str:
        """Return why the program should not begin at a state; empty if nothing is against it.

        The law moves the exact model, in steps that are coarse but short against its gains, until
        the initial error has decayed. Changes the state, shape (n,) each.
        """
        out, reference, fastest = np.zeros(self.tree.n), Reference(self.tree.n), np.abs(v)
        start, step = self._start, float(self._rehearsed[1])
        for time in self._rehearsed.tolist():
            self.effort(start + time, q, v, reference, out)
            if self._kernel.damped:
                return 'its Jacobian would lose rank'
            if self.scale < 1.0:
                j = int(np.argmax(np.abs(out) / self.tree.effort_limit))
                return f'{self.tree.joint_names[j]} would reach its effort limit'
            v += step * self.acceleration
            q += step * v
            np.maximum(fastest, np.abs(v), out=fastest)
        shares = fastest / self.tree.velocity_limit
        j = int(np.argmax(shares))
        name = self.tree.joint_names[j]
        return (
            f'{name} would need {shares[j]:.0%} of its velocity limit' if shares[j] > 1.0 else ''
        )

    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Compute the efforts for the coming period; see :class:`ControlLaw`."""
        if math.isnan(self._start):
            self.reset(t, q, v)
        if self._kernel.turning:
            q = np.subtract(q, self._turns, out=self._turned)
        if self.leading:
            self._move_to_start(t, q, v, out)
            return
        self._set_targets(t, reference)
        self._contacts.begin(t)
        self._kernel.run(self._program_time(t), q, v, self.acceleration)
        self._contacts.update_forces()
        kernel = self._kernel
        self.acceleration[:] = kernel.acceleration
        if self.ahead.time > 0.0:
            q, v = kernel.q, kernel.v
        self._write_efforts(q, v, out)
        self._contacts.add(out)

    def _move_to_start(self, t: float, q: Array, v: Array, out: Array) -> None:
        """Compute the efforts of the motion to the start of the program."""
        lead, kernel, start = self._running, self._kernel, self._start
        kernel.run(0.0, q, v)
        self.acceleration[:] = lead.acceleration(t - start + lead.duration, q, v)
        kernel.program_velocity[:] = lead.velocity
        self._write_efforts(q, v, out)
        if t >= start:
            self.leading = False
            self._begin_program(q, v, max(self.program.blend, _LEAD_IN_BLEND_S))

    def _write_efforts(self, q: Array, v: Array, out: Array) -> None:
        """Compute efforts within their limits; discard the acceleration if it is not finite."""
        self.scale = self.efforts.write(q, v, self.acceleration, out)
        if self.scale == 1.0:
            return
        if math.isfinite(sum(out.tolist())):
            self.acceleration *= self.scale
        else:
            self.acceleration[:], self.scale = 0.0, 1.0

    def _program_time(self, t: float) -> float:
        """Return the program's time for which the effort is computed."""
        return t - self._start + self.ahead.time

    def _set_targets(self, t: float, reference: Reference) -> None:
        """Set the signals that follow the reference, and the offset of the blend."""
        rows = reference.rows.tolist() if self.followed else []
        for signal, joints in self.followed:
            signal.give(*([row[i] for i in joints] for row in rows))
        if self._blend > 0.0:
            f, f_dot = self._initial
            offset = quintic_offset(f, f_dot, self._blend, self._program_time(t))
            self._kernel.set_offset(*offset)

    def parts(self, q: Array, v: Array, reference: Reference) -> Parts:
        """Return all parts except friction, which remains; see :class:`ControlLaw`.

        They are ``inertia`` (feed-forward of the program's motion), ``task`` (feedback of f),
        ``null_space``, ``saturation`` (removed by the effort limits), ``coriolis``, ``gravity``
        and, with contacts, ``contact``.
        """
        if self.leading:
            return self.efforts.split(q, v, {'inertia': self.acceleration})
        if self.ahead.time > 0.0:
            q, v = self._kernel.q, self._kernel.v
        a, solution = self._kernel.acceleration, self._kernel.inverse()
        planned = solution.solve(self._kernel.feed_forward())
        corrected = solution.solve(self._kernel.u) - planned
        origins = {'inertia': planned, 'task': corrected, 'null_space': a - planned - corrected}
        parts = self.efforts.split(q, v, origins)
        whole, sent = np.zeros((2, self.tree.n))
        self.efforts.write(q, v, a, whole, np.full(self.tree.n, np.inf))
        self.efforts.write(q, v, a, sent)
        parts['saturation'] = sent - whole
        if self.program.contacts:
            parts['contact'] = np.zeros(self.tree.n)
            self._contacts.add(parts['contact'])
        return parts

    def constraints(self) -> ConstraintSnapshot:
        """Return the state of the constraints in the last tick. Allocates; not for the tick."""
        kernel, solution = self._kernel, self._kernel.inverse()
        A = inertia_of(self.kernels.inverse_dynamics, self.tree, kernel.q)
        # Reactions if the drives provide only the bias force: Q = b in (2.19).
        zeros = np.zeros(self.tree.n)
        _, multipliers = constraint_force(A, zeros, zeros, kernel.Gamma, -kernel.u)
        return ConstraintSnapshot(
            self.program.stack.rows,
            kernel.f.copy(),
            kernel.f_dot.copy(),
            self._contacts.reactions(multipliers),
            solution.sigma_min,
            solution.condition,
            kernel.damped,
            self.scale,
        )

    @property
    def pressing(self) -> bool:
        """Whether a contact of the program is in phase ``PRESSING``."""
        return any(x.phase is ContactPhase.PRESSING for x in self._contacts.controls.values())

    def status(self) -> dict[str, str]:
        """Return the program's name, largest error, conditioning and contacts as texts."""
        snapshot = self.constraints()
        worst = int(np.argmax(np.abs(snapshot.f)))
        begun = {} if math.isnan(self._start) else {'program_start_s': f'{self._start:.6f}'}
        return {
            'program': self.program.name,
            **begun,
            'largest_f': f'{snapshot.f[worst]:.3e} ({snapshot.rows[worst]})',
            'sigma_min': f'{snapshot.sigma_min:.3e}',
            'condition': f'{snapshot.condition:.3g}',
            'inverse': 'damped' if snapshot.damped else 'exact',
            'effort_scale': f'{snapshot.scale:.3f}',
            **self._contacts.status(),
        }

    def start(self, origin: float = 0.0) -> str:
        """Return whether a lead-in runs, and why none does; see :class:`ControlLaw`."""
        if self._obstacle:
            begin = f'the program begins at t = {origin + self._start:.3f} s'
            text = f'lead-in: {begin}; from where the arm is now, {self._obstacle}'
        else:
            text = f'no lead-in: {self._never_leads or "the program can begin where the arm is"}'
        end = origin + self._start + self.program.end
        return f'{text}; its motion ends at t = {end:.3f} s' if math.isfinite(end) else text

    def remarks(self) -> tuple[str, ...]:
        """Return the remarks on the program."""
        return tuple(f'program {self.program.name!r}: {text}' for text in self.program.remarks)
