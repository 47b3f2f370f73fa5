# SPDX-License-Identifier: Apache-2.0
"""Checks of every command of a session on the plant.

``docs/reliability.md`` defines the guarantees. The evaluator computes independently: gravity and
mass matrix are MuJoCo's, limits and rates those of model and parameters. The robots have no
Coulomb friction, because its compensation is a legitimate step of a law. Not judged are:

* jumps: an activation without a ramp, which lets the law act at once, until the rate limit no
  longer delays it; the last command, which is the stop action's at once; three commands after a
  false state, or after an end stop has thrown the arm back, because the law's output follows
  steps of the states (40 where velocities are differentiated, also after a time jump: the length
  of the filter's memory; longer under a rate limit, which extends it, and a brake returns at the
  rate of a stop); a joint while the guard, with its constant inertia, brakes it, and the command
  after that; a program that an arm cannot follow, because it is singular or beyond the effort
  limits there, or the guard acts, or so many states are lost that its own damping is unstable,
  until that filter has settled and another law has taken over; joints at their motor's limit
  with a driver's share, which is reduced in favour of the share.
* the rate limit: the last command, and joints at their motor's limit with a driver's share, for
  the same reasons.
* both: the first command under a payload or in a closed loop, whose gravity MuJoCo lacks.
* the motor's limit of command and share together: under a payload, which the driver's share
  does not include.
* energy after a stop: while a push or a streamed target adds energy; under a payload and in a
  closed loop, where plant and model differ; while a state is false or may be delayed, so that
  the brake acts at a wrong state; under a program, which continues; without fresh states under
  ``zero``, which leaves the arm to gravity; and where gravity takes more than nine tenths of a
  limit, which leaves little effort for braking.
* rest at the end: under a payload and in a closed loop, as above; while the rate limit or the
  activation ramp acts, which leaves the law less effort than it needs; under a streamed wrench,
  which decays as slowly as it rose; before a law had five times 1/frequency since the end of a
  push; and laws that follow no reference.
* recovery from a contact at the end: under a payload and in a closed loop, which the observer
  does not model and may report as a contact; during an oscillation under the rate limit with
  differentiated, delayed velocities; and after the arm has run into an end stop, which is a
  contact.
* in a jump, the effect of the motion on a law's feedback: as much as braking would cause, 100
  1/s times the change of the momentum between the states that were answered last, or as a
  program's own damping, if that is larger.
* in a closed loop, jumps at the joints without a drive, whose effort reaches no motor.
* the law acting alone at the end: under a streamed wrench, at joints that the guard holds, while
  the rate limit acts, and within 0.05 s after a brake.
* contact surfaces: programs with contact find no board, only pushes and the sensor's readings.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import mujoco
import numpy as np
from samples import shipped_parameters

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface, effort_limits
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.description.shipped import MECHANISMS, shipped_robot
from robot_dynamics_ros.dynamics.joint_terms import joint_inertia
from robot_dynamics_ros.model import Robot, load_robot
from robot_dynamics_ros.recordings.lockstep import SessionOnPlant
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.spatial.scalar import Array

NS = 1_000_000_000
WORKING = (SessionMode.HOLDING, SessionMode.FOLLOWING)
REACTING = (SessionMode.REACTING, SessionMode.DISABLED)
#: Natural frequency of the laws, rad/s, with a driver of this rate, Hz; a stiffer law makes steps
#: itself. Scaled by the rate of a slower driver: at 15 rad/s and 200 Hz pd_gravity oscillates
#: without any fault, where the inertia of a combined motion of two joints is less than of each.
FREQUENCY, RATE = 15.0, 1000.0
#: Guaranteed bounds, in parts of each limit per s: after a change, after a stop; of the reference,
#: in parts of the velocity limits.
CHANGE, STOP, REFERENCE = 50.0, 200.0, 1.5
#: Gain of braking and damping on a change of the momentum, 1/s.
FEEDBACK = 100.0
#: Upper bound of the time between two states, s; time until a stop brakes, s.
LONGEST, STOP_LASTS = 0.05, 0.06
#: Guaranteed bound of a deactivation in motion, s.
DEACTIVATION = 3.5
#: Duration of undisturbed states at the end, in which a session must recover, s.
TAIL = 0.5
#: Time after the last change and the longest ramp from which a law acts alone, s.
RAMPED = 0.05
#: Jump of the timestamps between an activation and the next state, ns.
SHIFTS = (0, 0, 0, 200_000_000, -10 * NS, 10**18, -(10**18))
#: Damping times the time between two states from which the loop oscillates by itself.
UNSTABLE = 2.0
#: Share of the velocity limits below which the arm is at rest after a stop.
AT_REST = 0.01
#: Time that a law needs to return the arm after a push, in parts of 1/frequency.
_SETTLES = 5.0
#: Energy of an arm that comes to rest under its law, J.
SETTLING = 1e-3
ROUNDING = 1.0 + 1e-9


class Fault(NamedTuple):
    """A distortion or a change from a step on; ``seed`` determines its details."""

    step: int
    kind: str
    seed: int


class Scenario(NamedTuple):
    """A scenario; faults and steps can be removed without changing the others."""

    arm: str
    law: str
    stop_action: str
    profile: str
    seed: int
    steps: int
    faults: tuple[Fault, ...]


class BreachError(AssertionError):
    """A guarantee was violated; the message contains the step."""


#: Closed loops; guarantees that need a model of the loop for braking are not evaluated.
CLOSED = tuple(MECHANISMS)


#: Joints moved by a loop have no drive; the pins of the loops, as in the nodes' parameters.
_UNDRIVEN = {'upper_arm_joint': 1.0, 'rod_joint': 1.0}
_PINS = [('arm_pin', 'rod_pin')]


@cache
def load_arm(name: str, profile: str) -> tuple[Robot, DriverInterface | None]:
    """Return an arm without Coulomb friction, and the conversions of a profile or 'none'.

    As in every lockstep, a command acts at once: with the delay of the profile, the observer of
    external efforts would take a step of the command for a contact.
    """
    driver = replace(load_driver_profile(profile), delay=0.0) if profile != 'none' else None
    limits = _UNDRIVEN if name in CLOSED else effort_limits(driver) if driver else None
    tree = load_robot(shipped_robot(name), effort_limit=limits)
    tree = tree.with_changes(coulomb_friction=np.zeros(tree.n))
    return tree, DriverInterface(driver, tree) if driver else None


class FaultEvaluator(SessionOnPlant):
    """A session with its plant, and the checks of every command."""

    shift = now_ns = 50 * NS
    step = true_ticks = restarts = 0
    disturbed = answered_at = struck_at = 0  # times; the first: of the last push or target
    stopped_at = rated_at = braked_at = off_program_step = -math.inf
    longest_ramp = 0.0  # a transfer keeps the duration with which it began
    energy: tuple[int, float, float] | None = None
    alone = braking = silent = False  # the first: whether the law must act alone
    fresh_start = True

    def __init__(self, scenario: Scenario) -> None:
        self.scenario, rng = scenario, np.random.default_rng(scenario.seed)
        self.tree, self.driver = load_arm(scenario.arm, scenario.profile)
        lower, upper = self.tree.position_lower, self.tree.position_upper
        self.middle, self.half = 0.5 * (lower + upper), 0.5 * (upper - lower)
        rate = RATE if self.driver is None else self.driver.profile.state.rate_hz
        self.frequency = w = FREQUENCY * min(1.0, rate / RATE)
        stiffness = (w**2 * joint_inertia(self.tree, self.middle)).tolist()  # of a joint alone
        parameters = {
            'law': scenario.law, 'stop_action': scenario.stop_action, 'state_timeout_s': 0.05,
            'natural_frequency': [w], 'joint_stiffness': stiffness,
            'damping': [k / w for k in stiffness],
            'activation_ramp_s': float(rng.choice([0.0, 0.1, 0.5])),
            'effort_rate_limit': [float(rng.choice([0.0, 0.0, 500.0]))],
            'target_timeout_s': 0.1,
        }  # fmt: skip
        closed = scenario.arm in CLOSED
        nodes = shipped_parameters(scenario.arm) if closed else {}
        parameters['program'] = nodes.get('controller', {}).get('program', '')
        session = ControllerSession(self.tree, parameters, self.driver)
        self.h = session.loop.settings.period
        plant = MujocoPlant(self.tree, self.h, pins=_PINS if closed else ())
        super().__init__(session, plant)
        self.data = mujoco.MjData(self.plant.model)
        self.driven_joints = ~np.isin(self.tree.joint_names, [*_UNDRIVEN])
        begin = self.middle + 0.3 * self.half * rng.uniform(-1, 1, self.tree.n)
        if closed:
            simulated = nodes.get('simulator', {})
            begin = np.array(simulated.get('initial_position', np.zeros(self.tree.n)))
        self.plant.reset(begin)
        self.momentum, self.guarded = np.zeros((2, self.tree.n))
        self.ramped, self.begins = np.zeros((2, self.tree.n), bool)
        self.started = 0  # restarts of the states at the last activation
        self.seen = begin, 0.0 * begin  # the last state of the arm that was answered
        self.truth: dict[int, tuple[Array, Array]] = {}
        self.active: list[Any] = []  # distortions of the states
        self.lasting: list[tuple[int, int, Callable[[], None]]] = []
        self.loaded, self.acting = closed, np.zeros(self.tree.n, dtype=bool)
        self.activation_shift = int(rng.choice(SHIFTS))

    @property
    def loop(self) -> Any:
        """The control loop of the session."""
        return self.session.loop

    def breach(self, problem: str, *numbers: Any) -> None:
        """Raise a :class:`BreachError`."""
        text = ' '.join(np.array2string(np.asarray(x), precision=4) for x in numbers)
        where = f'step {self.step}, {self.loop.law.name}, {self.session.mode.value}'
        raise BreachError(f'{problem}: {text} ({where})')

    def _evaluate(self, dt: float, *, silent: bool = False, final: bool = False) -> None:
        """Check a command, some seconds after the last: finite, within limits, no jump."""
        session, loop, limit = self.session, self.loop, self.tree.effort_limit
        if session.fault is not None:
            self.breach(f'stopped by {type(session.fault).__name__}: {session.fault}')
        sent = session.command, session.driver.overlaid, loop.effort
        if not np.isfinite(sent).all():
            self.breach('not finite', *sent)
        effort = session.driver.effort_of_command(session.command)
        if not (np.abs(effort) <= limit * ROUNDING + 1e-9).all():
            self.breach('beyond the limit', effort, limit)
        share = self._driven(loop.q, loop.v)
        at_sum = (share != 0.0) & (np.abs(np.abs(effort + share) - limit) < 1e-6 * limit)
        check_sum = not self.loaded
        if check_sum and not (np.abs(effort + share) <= limit * (1 + 1e-6)).all():
            self.breach('beyond the motor limit with the share of the driver', effort + share)
        step = np.abs(effort - self.before)
        ramp = CHANGE * max(dt, self.h) * limit
        self.ramped = np.abs(step - ramp) <= (ROUNDING - 1.0) * ramp
        if self.fresh_start and not final:
            self._check_start()
        if not (final or (self.fresh_start and self.loaded)):
            rates = loop.settings.rates(self.tree.n)
            most = rates * min(max(dt, 0.0), 0.1) * ROUNDING + 1e-9
            if ((step > most) & ~at_sum).any():
                self.breach('faster than the rate limit', step, most)
            rated = step > 0.99 * most - 1e-9
            if rated.any():
                self.rated_at = max(self.rated_at, self.now_ns * 1e-9)
            if not silent:
                self._check_continuity(step / limit, max(dt, self.h), at_sum)
            self.begins &= rated
        self.longest_ramp = max(self.longest_ramp, loop.settings.activation_ramp_s)
        if loop.braking:
            self.braked_at = self.now_ns * 1e-9
        self.reference = loop.reference.position.copy()
        self.fresh_start = False
        self.effort = self.before = effort
        self.momentum = self._momentum(*self.seen)

    def _start(self) -> None:
        """Let control begin at the gravity forces, at the last accepted position of the arm."""
        loop = self.loop
        limit = loop.settings.effort_scale * self.tree.effort_limit
        gravity = self._bias(loop.q, 0.0 * loop.q) - self._driven(loop.q, loop.v)
        self.before, self.reference = (
            np.clip(gravity, -limit, limit),
            loop.reference.position.copy(),
        )
        self.begins[:] = loop.settings.activation_ramp_s == 0.0
        self.fresh_start, self.started = True, loop.state.restarts

    def _check_start(self) -> None:
        """Check that the reference begins at the last accepted position of the arm."""
        q = np.clip(self.loop.q, self.tree.position_lower, self.tree.position_upper)
        away = np.abs(self.loop.reference.position - q) / self.tree.velocity_limit
        if (away > REFERENCE * LONGEST).any():
            self.breach('the reference does not begin at the position of the arm', away)
        self.rated_at = self.now_ns * 1e-9 + self.loop.settings.activation_ramp_s

    def _check_continuity(self, step: Array, elapsed: float, at_sum: Array) -> None:
        """Check that neither the command nor the reference jumps."""
        session = self.session
        moved = np.abs(self.loop.reference.position - self.reference) / self.tree.velocity_limit
        if (moved > REFERENCE * elapsed * (1 + 1e-6) + 1e-9).any():
            self.breach('the reference jumps', moved, elapsed)
        lower, upper = self.tree.position_lower, self.tree.position_upper
        if not ((lower < self.q) & (self.q < upper)).all():
            self.true_ticks = 0  # an end stop throws the arm back, with a step of its state
            self.struck_at = self.now_ns
        acted, count = self.acting, self.loop.guard.active
        self.acting, self.guarded[:] = count != self.guarded, count
        guards = acted | self.acting
        since = 40 if session.driver.differentiates else 3  # memory of the filter: 40
        rates = self.loop.settings.rates(self.tree.n)  # which extend the effect of false states
        since += int((2.0 * self.tree.effort_limit / rates).max() / self.h)
        damping = self._damping()
        if self._is_off_program() or damping * elapsed > UNSTABLE:
            self.off_program_step = self.step
        if self.true_ticks < since or self.step - self.off_program_step < since + 40:
            return  # a law may step if its states do
        if self.braking and (np.abs(self.v) > AT_REST * self.tree.velocity_limit).any():
            self.stopped_at = self.now_ns * 1e-9
        else:
            self.braking = False
        returns = since + round(2.0 / (STOP * self.h))  # a brake, from what a false state caused
        recent = self.loop.braking and self.true_ticks < returns
        recent |= self.now_ns * 1e-9 - self.stopped_at < STOP_LASTS
        if self.session.mode is SessionMode.DEACTIVATING:  # which the stop action may end
            recent |= self.loop.acting is self.loop.stop_law
        answer = max(FEEDBACK, damping) * np.abs(self._momentum(*self.seen) - self.momentum)
        answer /= self.tree.effort_limit
        most = (STOP if recent else CHANGE) * elapsed + answer
        judged = self.driven_joints & ~(at_sum | guards | self.begins)
        if ((step > most * ROUNDING + 1e-9) & judged).any():
            self.breach('the command jumps', step, most)

    def _damping(self) -> float:
        """Return the largest damping of an active or fading program, 1/s; 0 for none."""
        laws = self.loop.law, self.loop.transfer.former
        gains = [one.program.G1 for one in laws if hasattr(one, 'program')]
        return max((np.abs(gain).max() for gain in gains), default=0.0)

    def _is_off_program(self) -> bool:
        """Return whether an active or fading program is not followed.

        It is singular or beyond the effort limits there, or the guard acts.
        """
        laws = self.loop.law, self.loop.transfer.former
        programs = [one for law in laws if law is not None if (one := law.constraints())]
        guards = bool(programs) and self.acting.any()
        return bool(guards or any(one.damped or one.scale < 1.0 for one in programs))

    def _check_timeout(self) -> None:
        """Check that missing states have led to the stop action."""
        session = self.session
        running = session.mode in WORKING
        if running and session.is_silent(self.now_ns):
            self.breach('no stop action although states are missing')

    def _check_recovery(self) -> None:
        """Check that valid states are answered at the end, and that the arm has come to rest."""
        mode = self.session.mode
        waits = mode is SessionMode.DISABLED
        struck = self.now_ns - self.struck_at < TAIL * NS  # an end stop is a contact
        swings = self.session.driver.differentiates and self.now_ns * 1e-9 - self.rated_at < TAIL
        # The model contains neither end stops nor payloads, and filtered velocities are delayed.
        waits |= (self.loaded or struck or swings) and mode is SessionMode.REACTING
        if mode not in WORKING and not waits:
            self.breach('has not recovered')
        if self.now_ns + self.shift - self.answered_at > 2 * self.period_ns:
            self.breach('does not answer clean states')
        fast = np.abs(self.v) > 0.1 * self.tree.velocity_limit
        free = not self.loaded and self.now_ns * 1e-9 - self.rated_at > 0.5 * TAIL
        free &= not self.loop.wrench.active  # a streamed wrench decays as slowly as it rose
        free &= (self.now_ns - self.disturbed) * 1e-9 * self.frequency > _SETTLES
        if self.loop.law.follows_reference and free and fast.any():
            self.breach('has not come to rest', self.v)

    def _check_law_effort(self) -> None:
        """Check that the law acts alone, where nothing limits it."""
        loop, mode = self.loop, self.session.mode
        changed = self.now_ns * 1e-9 - max(self.rated_at, self.braked_at) < RAMPED
        if mode not in WORKING or loop.braking or changed:
            return
        limit, share = self.tree.effort_limit, loop.motor_effort() - loop.effort
        permitted = loop.settings.effort_scale * limit
        expected = np.clip(sum(loop.decompose().values()), -limit, limit)
        expected = np.clip(expected - share, -permitted, permitted)
        away = np.abs(loop.effort - expected) / limit
        # A change lasts until the command has met the law, which a tumbling arm delays.
        free = ~self.acting & ~self.ramped & self.driven_joints & (not loop.wrench.active)
        if (away[free] > 1e-9).any():
            self.breach('the effort is not that of the law', loop.effort, expected)

    # Energy -------------------------------------------------------------------------------------

    def _bias(self, q: Array, v: Array) -> Array:
        """Return MuJoCo's bias forces at a state."""
        self.data.qpos[:], self.data.qvel[:] = q, v
        mujoco.mj_forward(self.plant.model, self.data)
        return self.data.qfrc_bias.copy()

    def _driven(self, q: Array, v: Array) -> Array:
        """Return the driver's own share, N m or N; there is no Coulomb friction."""
        share = np.zeros(self.tree.n)
        terms = () if self.driver is None else self.driver.profile.compensated_by_driver
        if 'gravity' in terms:
            share += self._bias(q, share)
        if 'friction' in terms:
            share += self.tree.damping * v
        return share

    def _momentum(self, q: Array, v: Array) -> Array:
        self._bias(q, v)
        momentum = np.zeros(self.tree.n)
        mujoco.mj_mulM(self.plant.model, self.data, momentum, v)
        return momentum

    def _kinetic(self) -> float:
        return float(0.5 * self.v @ self._momentum(self.q, self.v))

    def _note_stop(self, *, fresh: bool) -> None:
        """Record that a stop begins at the present state, and its allowed energy."""
        self.braking = fresh
        if fresh:
            self.stopped_at = self.now_ns * 1e-9
        settings, limit = self.loop.settings, self.tree.effort_limit
        gravity = np.abs(self._bias(self.loop.q, np.zeros(self.tree.n)))
        bears = (gravity < 0.9 * settings.effort_scale * limit).all()
        counts = not self.programmed if fresh else settings.stop_action != 'zero'
        self.energy = None
        distorted = any(one.kind != 'silence' for one in self.active)  # false or delayed states
        if counts and bears and self.true_ticks > 2 and not self.loaded and not distorted:
            work = float(np.abs(self.v) @ limit) * self.h * 2
            self.energy = self.step, self._kinetic() + work + SETTLING, 1.0 if fresh else 0.0

    @property
    def programmed(self) -> bool:
        """Whether a program moves the arm."""
        law = self.loop.law.name == 'constraint_stabilization'
        return bool(law and self.session.parameters['program'])

    def _energy(self) -> None:
        """Check that the kinetic energy does not grow after a stop."""
        if self.energy is None or self.step - self.energy[0] > 0.3 / self.h:
            self.energy = None
            return
        begin, most, fresh = self.energy
        limit, rates = self.tree.effort_limit, self.loop.settings.rates(self.tree.n)
        since = (self.step - begin + 1) * self.h
        slew = np.minimum(rates, STOP * limit) if fresh else rates
        left = np.clip(2.0 * limit - slew * since, 0.0, None)  # not yet the stop's effort
        if not fresh:
            zero = np.zeros(self.tree.n)
            left += np.abs(self._bias(self.q, zero) - self._bias(self.loop.q, zero))
        most += float(np.abs(self.v) @ left) * self.h
        self.energy = begin, most, fresh
        if self._kinetic() > most * 1.01:
            self.breach('the energy grows after a stop', self._kinetic(), most)
