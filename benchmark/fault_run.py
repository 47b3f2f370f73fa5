# SPDX-License-Identifier: Apache-2.0
"""One scenario of the campaign of faults: a session on the MuJoCo plant, in lockstep, and a judge.

What a breach is stands in ``docs/reliability.md``. The judge has numbers of its own: gravity and
the mass matrix are MuJoCo's, limits and rates those of model and parameters. The robots have no
Coulomb friction, whose compensation is a step that belongs to a law.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import mujoco
import numpy as np

from robot_dynamics_ros.control.changes import ParameterChange, PayloadChange, TrajectoryChange
from robot_dynamics_ros.control.drivers.conversion import DriverConversion, bind, effort_limits
from robot_dynamics_ros.control.drivers.file import load_driver_profile
from robot_dynamics_ros.control.laws.registry import LAWS
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.safety import STOP_ACTIONS, StateVerdict
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

NS = 1_000_000_000
#: As declared, in parts of each limit per s: after a change, after a stop; of the reference, in
#: parts of the velocity limits.
CHANGE, STOP, REFERENCE = 50.0, 200.0, 1.5
#: A longer time between two states counts as this, s; so long a stop takes until it brakes, s.
LONGEST, STOP_LASTS = 0.05, 0.06
#: Below this part of the velocity limits a stop has brought the arm to rest.
AT_REST = 0.01
#: Clean states at the end, s, in which a session must be back.
TAIL = 0.5
#: Energy of an arm that comes to rest under its law, J.
SETTLING = 1e-3
ROUNDING = 1.0 + 1e-9

Vector = Any
State = tuple[int, Vector, Vector]
PROGRAMS = {'scara': 'scara_circle', 'four_dof': 'four_dof_moving_plane'}
HOSTILE: Mapping[str, tuple[Any, ...]] = {
    'program': ('a: !!bool x', 'a: 0b_', '/proc/self/mem', 'x' * 5000, 'nosuch', '[' * 900),
    'law': ('nosuch', '', 7),
    'natural_frequency': ([math.nan], [-1.0], [1.0, 2.0], 'x', [1e300]),
    'payload_mass': (math.nan, -1.0, 1e300),
    'payload_frame': ('nosuch',),
    'effort_scale': (0.0, math.inf, -1),
    'activation_ramp_s': (math.nan, -1.0, 1e300),
    'state_timeout_s': (0.0, math.nan),
    'stop_action': ('nosuch', None),
}


@dataclass(frozen=True)
class Fault:
    """What goes wrong, or is asked for, from a step on; ``seed`` decides the rest of it."""

    step: int
    kind: str
    seed: int


@dataclass(frozen=True)
class Scenario:
    """What is run; faults can be left out and steps cut off without a change of the others."""

    arm: str
    law: str
    stop_action: str
    profile: str
    seed: int
    steps: int
    faults: tuple[Fault, ...]


class BreachError(AssertionError):
    """A promise was not kept; says at which step."""


@cache
def _arm(name: str, profile: str) -> tuple[RobotTree, DriverConversion | None]:
    driver = load_driver_profile(profile) if profile != 'none' else None
    tree = load_robot(shipped_robot(name), effort_limit=effort_limits(driver) if driver else None)
    tree = tree.with_changes(coulomb_friction=np.zeros(tree.n))
    return tree, bind(driver, tree) if driver else None


# Faults of the states ---------------------------------------------------------------------------


@dataclass
class Distortion:
    """What happens to the states for a while.

    Attributes:
        kind: Name of a method, which takes the states of a step and returns what arrives.
        rng: For what is drawn.
        until: Step at which it ends.
        kept: States that come later.
    """

    kind: str
    rng: np.random.Generator
    until: int
    kept: list[State] = field(default_factory=list)

    def lost(self, state: State) -> list[State]:
        """Lose two thirds of the states."""
        return [state] if self.rng.random() < 0.33 else []

    def late(self, state: State) -> list[State]:
        """Deliver every state some periods later."""
        self.kept.append(state)
        return [self.kept.pop(0)] if len(self.kept) > 3 else []

    def doubled(self, state: State) -> list[State]:
        """Deliver every state twice."""
        return [state, state]

    def reordered(self, state: State) -> list[State]:
        """Deliver the later of two states first."""
        self.kept.append(state)
        arrived = self.kept[::-1] if len(self.kept) == 2 else []
        if arrived:
            self.kept = []
        return arrived

    def repeated(self, state: State) -> list[State]:
        """Deliver one state over and over."""
        self.kept = self.kept or [state]
        return self.kept

    def jumping(self, state: State) -> list[State]:
        """Let positions be elsewhere now and then."""
        return [self._moved(state, 0.5)] if self.rng.random() < 0.2 else [state]

    def contradicting(self, state: State) -> list[State]:
        """Let another publisher tell of another arm."""
        other = np.random.default_rng(self.until).normal(size=len(state[1])) * 0.3
        return [state, (state[0] + 1000, state[1] + other, np.zeros(len(other)))]

    def nan(self, state: State) -> list[State]:
        """Spoil a number."""
        return [self._spoiled(state, (math.nan, math.inf, -math.inf))]

    def huge(self, state: State) -> list[State]:
        """Put in a number that no arm has."""
        return [self._spoiled(state, (1e300, -1e300, 1e154, 1e7))]

    def denormal(self, state: State) -> list[State]:
        """Put in a number next to nothing."""
        return [self._spoiled(state, (5e-324, -5e-324, 1e-310))]

    def frozen(self, state: State) -> list[State]:
        """Let the values stand still while stamps go on."""
        self.kept = self.kept or [state]
        return [(state[0], *self.kept[0][1:])]

    def inconsistent(self, state: State) -> list[State]:
        """Tell velocities that are not those of the positions."""
        return [(state[0], state[1], state[2] + self.rng.normal(size=len(state[2])))]

    def jitter(self, state: State) -> list[State]:
        """Shift stamps by up to half a period."""
        return [(state[0] + int(self.rng.integers(-400_000, 400_000)), *state[1:])]

    def silence(self, state: State) -> list[State]:
        """Let nothing arrive."""
        return []

    def _moved(self, state: State, scale: float) -> State:
        return state[0], state[1] + scale * self.rng.normal(size=len(state[1])), state[2]

    def _spoiled(self, state: State, values: tuple[float, ...]) -> State:
        row = np.array(state[1:])
        row[self.rng.integers(2), self.rng.integers(row.shape[1])] = self.rng.choice(values)
        return state[0], row[0], row[1]


#: Of the states: how many periods each lasts at least and at most.
STATE_FAULTS = {
    'lost': (5, 60), 'late': (10, 80), 'doubled': (5, 50), 'reordered': (6, 50),
    'repeated': (2, 15), 'jumping': (2, 40), 'contradicting': (5, 60), 'nan': (1, 15),
    'huge': (1, 15), 'denormal': (1, 15), 'frozen': (2, 60), 'inconsistent': (1, 40),
    'jitter': (10, 80), 'silence': (120, 250),
}  # fmt: skip


class FaultTrial:
    """A session, its plant, what is done to them, and what is demanded of every command."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario, rng = scenario, np.random.default_rng(scenario.seed)
        self.tree, self.driver = _arm(scenario.arm, scenario.profile)
        given = {
            'law': scenario.law, 'stop_action': scenario.stop_action, 'state_timeout_s': 0.05,
            'natural_frequency': [15.0], 'damping': [1.0],
            'activation_ramp_s': float(rng.choice([0.0, 0.1])),
            'effort_rate_limit': [float(rng.choice([0.0, 0.0, 500.0]))],
        }  # fmt: skip
        self.session = ControllerSession(self.tree, given, self.driver)
        self.h = self.session.loop.settings.period
        self.period = round(self.h * NS)
        self.plant = MujocoPlant(self.tree, self.h)
        self.data = mujoco.MjData(self.plant.model)
        lower, upper = self.tree.position_lower, self.tree.position_upper
        self.middle, self.half = 0.5 * (lower + upper), 0.5 * (upper - lower)
        self.plant.reset(self.middle + 0.3 * self.half * rng.uniform(-1, 1, self.tree.n))
        self.q, self.v = np.zeros(self.tree.n), np.zeros(self.tree.n)
        self.step, self.shift, self.now = 0, 50 * NS, 50 * NS
        self.truth: dict[int, tuple[Vector, Vector]] = {}
        self.active: list[Distortion] = []
        self.answered = self.commanded = 0
        self.braking = False
        self.stopped_at, self.true_ticks, self.heavy = -math.inf, 0, False
        self.energy: tuple[int, float, float] | None = None
        self.effort = np.zeros(self.tree.n)
        self.fresh_start, self.guarded, self.restarts = True, 0, 0

    @property
    def loop(self) -> Any:
        """The tick of the session."""
        return self.session.loop

    def run(self) -> None:
        """Run the scenario.

        Raises:
            BreachError: A promise was not kept.
        """
        todo = sorted(self.scenario.faults, key=lambda one: one.step)
        tail = round(TAIL / self.h)
        for step in range(self.scenario.steps + tail):
            self.step = step
            while todo and todo[0].step <= self.step < self.scenario.steps:
                self._begin(todo.pop(0))
            if self.step == self.scenario.steps:
                self.active.clear()
            if self.step == self.scenario.steps + 30:  # so long may it take to believe again
                self._try(self.hold, np.random.default_rng(0))
            self._advance()
        self._recovered()

    def _begin(self, fault: Fault) -> None:
        rng = np.random.default_rng(fault.seed)
        self.energy = None
        if fault.kind in STATE_FAULTS:
            last = self.step + int(rng.integers(*STATE_FAULTS[fault.kind], endpoint=True))
            self.active.append(Distortion(fault.kind, rng, last))
        else:
            self._try(getattr(self, fault.kind), rng)

    def _try(self, change: Callable[[np.random.Generator], None], rng: Any) -> None:
        """Ask for something, which may be refused with a reason, and not with anything else."""
        try:
            change(rng)
        except RobotDynamicsError:
            return

    # One step -----------------------------------------------------------------------------------

    def _advance(self) -> None:
        self.plant.read(self.q, self.v)
        self.now += self.period
        stamp = self.now + self.shift
        self.truth[stamp] = self.q.copy(), self.v.copy()
        self.active = [one for one in self.active if one.until > self.step]
        states: list[State] = [(stamp, *self.truth[stamp])]
        for one in self.active:
            states = [new for state in states for new in getattr(one, one.kind)(state)]
        for state in states:
            self._deliver(state)
        mode = self.session.mode
        if self.session.watch(self.now):
            self._judge(0.02, silent=True)
            if mode is not SessionMode.STOPPED:
                self._note_stop(fresh=False)
        self._silent()
        self._energy()
        self.plant.step(np.clip(self.effort + self._driven(self.q), *self._limits()))

    def _limits(self) -> tuple[Vector, Vector]:
        return -self.tree.effort_limit, self.tree.effort_limit

    def _deliver(self, state: State) -> None:
        session, (stamp, q, v) = self.session, state
        x, y = (
            (q, v)
            if self.driver is None
            else (self.driver.position_reading(q), self.driver.velocity_reading(v))
        )
        mode, changes = session.mode, self.loop.changes
        measured = self.effort if self.driver is None else self.driver.effort_reading(self.effort)
        with np.errstate(all='ignore'):
            sent = session.on_reading(stamp, self.now, x, y, measured)
        if mode is SessionMode.INACTIVE and not session.is_silent(self.now):
            session.activate(self.now)
            self.fresh_start = True
        if not sent:
            return
        self._believed(stamp)
        elapsed = abs(stamp - self.answered) / NS
        gap = not 0 < stamp - self.answered <= self.loop.settings.state_timeout_s * NS
        restarts = self.loop.monitor.counts[StateVerdict.RESTARTED]
        back = mode is SessionMode.STOPPED or gap or restarts != self.restarts
        self.restarts = restarts
        if back and not self.fresh_start:
            self._note_stop(fresh=True)
        self.answered = stamp
        self._judge(self.h if back else elapsed, elapsed=max(elapsed, self.h))
        if self.loop.changes != changes and not back:  # a tolerance, or the end of a glide
            self.energy = None
        session.settle()

    def _believed(self, stamp: int) -> None:
        """Count how many believed states in a row were those of the arm; none may be no number."""
        if not (np.abs([self.loop.q, self.loop.v]) <= 1e6).all():
            self.breach('an impossible state is believed', self.loop.q, self.loop.v)
        true = self.truth.get(stamp)
        same = true is not None and np.allclose(self.loop.q, true[0], atol=1e-9)
        if same and true is not None and not self.session.port.differentiates:
            same = np.allclose(self.loop.v, true[1], atol=1e-9)
        self.true_ticks = self.true_ticks + 1 if same else 0
        if not same:
            self.energy = None

    # What is demanded ---------------------------------------------------------------------------

    def breach(self, said: str, *numbers: Any) -> None:
        """Raise a breach."""
        text = ' '.join(np.array2string(np.asarray(x), precision=4) for x in numbers)
        where = f'step {self.step}, {self.loop.law.name}, {self.session.mode.value}'
        raise BreachError(f'{said}: {text} ({where})')

    def _judge(self, dt: float, elapsed: float = LONGEST, *, silent: bool = False,
               final: bool = False) -> None:  # fmt: skip
        """Demand of a command what holds for every one."""
        session, loop, limit = self.session, self.loop, self.tree.effort_limit
        if session.fault is not None:
            self.breach(f'stopped by {type(session.fault).__name__}: {session.fault}')
        if not (np.isfinite(session.command).all() and np.isfinite(loop.effort).all()):
            self.breach('not finite', session.command)
        effort = session.port.effort_of_command(session.command)
        if not (np.abs(effort) <= limit * ROUNDING + 1e-9).all():
            self.breach('beyond the limit', effort, limit)
        share = self._driven(loop.q)
        at_sum = np.abs(np.abs(effort + share) - limit) < 1e-6 * limit
        check_sum = not (self.heavy or loop.settings.stop_action == 'zero')
        if check_sum and not (np.abs(effort + share) <= limit * (1 + 1e-6)).all():
            self.breach('beyond the motor limit with the share of the driver', effort + share)
        step = np.abs(effort - self.effort)
        if not (self.fresh_start or final):
            rates = loop.settings.rates(self.tree.n)
            most = rates * min(max(dt, 0.0), 0.1) * ROUNDING + 1e-9
            if ((step > most) & ~(at_sum & (share != 0.0))).any():
                self.breach('faster than the rate limit', step, most)
            if not silent:
                self._smooth(step / limit, min(elapsed, LONGEST), at_sum)
        self.reference = loop.reference.position.copy()
        self.effort, self.fresh_start = effort, False

    def _smooth(self, step: Vector, elapsed: float, at_sum: Vector) -> None:
        """Demand that neither the command nor the reference jumps."""
        session = self.session
        moved = np.abs(self.loop.reference.position - self.reference) / self.tree.velocity_limit
        if (moved > REFERENCE * elapsed * (1 + 1e-6) + 1e-9).any():
            self.breach('the reference jumps', moved, elapsed)
        guarded, self.guarded = self.guarded, int(self.loop.guard.active.sum())
        since = 40 if session.port.differentiates else 3  # the filter forgets within 40
        rates = self.loop.settings.rates(self.tree.n)  # which make what was false last longer
        since += int((2.0 * self.tree.effort_limit / rates).max() / self.h)
        if self.true_ticks < since or guarded != self.guarded or self.programmed:
            return  # a law may step where its states do, or its program; and so may the guard
        if self.braking and (np.abs(self.v) > AT_REST * self.tree.velocity_limit).any():
            self.stopped_at = self.now * 1e-9
        else:
            self.braking = False
        recent = self.now * 1e-9 - self.stopped_at < STOP_LASTS
        most = STOP if recent else CHANGE
        if ((step > most * elapsed * ROUNDING + 1e-9) & ~at_sum).any():
            self.breach('the command jumps', step, most * elapsed)

    def _silent(self) -> None:
        """Demand that silence has led to the stop action."""
        session = self.session
        running = session.mode in (SessionMode.HOLDING, SessionMode.FOLLOWING)
        if running and session.is_silent(self.now):
            self.breach('no stop action though the states are silent')

    def _recovered(self) -> None:
        """Demand that clean states are answered at the end, and that the arm has come to rest."""
        mode = self.session.mode
        if mode not in (SessionMode.HOLDING, SessionMode.FOLLOWING):
            self.breach('has not recovered')
        if self.now + self.shift - self.answered > 2 * self.period:
            self.breach('does not answer clean states')
        fast = np.abs(self.v) > 0.1 * self.tree.velocity_limit
        if self.loop.law.follows_reference and not self.heavy and fast.any():
            self.breach('has not come to rest', self.v)

    # Energy -------------------------------------------------------------------------------------

    def _at(self, q: Vector, v: Vector) -> Vector:
        """Return MuJoCo's bias forces at a state."""
        self.data.qpos[:], self.data.qvel[:] = q, v
        mujoco.mj_forward(self.plant.model, self.data)
        return self.data.qfrc_bias.copy()

    def _driven(self, q: Vector) -> Vector:
        """Return what the driver gives by itself."""
        if self.driver is None or 'gravity' not in self.driver.profile.compensated_by_driver:
            return np.zeros(self.tree.n)
        return self._at(q, np.zeros(self.tree.n))

    def _kinetic(self) -> float:
        self._at(self.q, self.v)
        momentum = np.zeros(self.tree.n)
        mujoco.mj_mulM(self.plant.model, self.data, momentum, self.v)
        return float(0.5 * self.v @ momentum)

    def _note_stop(self, *, fresh: bool) -> None:
        """Note that a stop begins at the present state, and how much energy it may have."""
        self.braking = fresh
        if fresh:
            self.stopped_at = self.now * 1e-9
        settings, limit = self.loop.settings, self.tree.effort_limit
        gravity = np.abs(self._at(self.loop.q, np.zeros(self.tree.n)))
        bears = (gravity < 0.9 * settings.effort_scale * limit).all()
        counts = not self.programmed if fresh else settings.stop_action != 'zero'
        self.energy = None
        if counts and bears and self.true_ticks > 2 and not self.heavy and not self.active_lies:
            work = float(np.abs(self.v) @ limit) * self.h * 2
            self.energy = self.step, self._kinetic() + work + SETTLING, 1.0 if fresh else 0.0

    @property
    def programmed(self) -> bool:
        """Whether a program moves the arm, by itself."""
        law = self.loop.law.name == 'constraint_stabilization'
        return bool(law and self.session.given['program'])

    @property
    def active_lies(self) -> bool:
        """Whether states are not what they say, or may be late."""
        return any(one.kind != 'silence' for one in self.active)

    def _energy(self) -> None:
        """Demand that the energy of the motion does not grow after a stop."""
        if self.energy is None or self.step - self.energy[0] > 0.3 / self.h:
            self.energy = None
            return
        begin, most, fresh = self.energy
        limit, rates = self.tree.effort_limit, self.loop.settings.rates(self.tree.n)
        since = (self.step - begin + 1) * self.h
        slew = np.minimum(rates, STOP * limit) if fresh else rates
        left = np.clip(2.0 * limit - slew * since, 0.0, None)  # not yet what the stop asks for
        if not fresh:
            zero = np.zeros(self.tree.n)
            left += np.abs(self._at(self.q, zero) - self._at(self.loop.q, zero))
        most += float(np.abs(self.v) @ left) * self.h
        self.energy = begin, most, fresh
        if self._kinetic() > most * 1.01:
            self.breach('the energy grows after a stop', self._kinetic(), most)

    # Changes ------------------------------------------------------------------------------------

    def _set(self, **values: Any) -> None:
        self.session.perform(ParameterChange(self.session, values))

    def _put(self, values: Mapping[str, Any], rng: np.random.Generator) -> None:
        self._set(**values)

    def parameters(self, rng: np.random.Generator) -> None:
        """Change several parameters at once."""
        choices: dict[str, tuple[Any, ...]] = {
            'natural_frequency': ([10.0], [15.0], [30.0]), 'damping_ratio': ([0.7], [1.0], [1.5]),
            'friction_compensation': (True, False), 'activation_ramp_s': (0.0, 0.05, 0.2),
            'discretization': ('semi_implicit', 'zero_order'), 'state_timeout_s': (0.05, 0.1),
            'effort_scale': (0.7, 1.0), 'stop_effort_share': (0.3, 0.7, 1.0),
            'activation_effort': ('gravity', 'measured', 'zero'),
            'effort_rate_limit': ([0.0], [300.0], [2000.0]),
        }  # fmt: skip
        for name in rng.choice(list(choices), 3, replace=False):
            values = choices[name]
            self._try(partial(self._put, {name: values[rng.integers(len(values))]}), rng)

    def hostile_parameters(self, rng: np.random.Generator) -> None:
        """Send what no parameter can be."""
        for name, values in HOSTILE.items():
            law = {'law': 'constraint_stabilization'} if name == 'program' else {}
            value = values[rng.integers(len(values))]
            self._try(partial(self._put, {**law, name: value}), rng)

    def laws(self, rng: np.random.Generator) -> None:
        """Change the law, three times in a row."""
        self.stopped_at = self.now * 1e-9
        for name in rng.choice(list(LAWS), 3):
            self._set(law=str(name))

    def stop_actions(self, rng: np.random.Generator) -> None:
        """Change the stop action."""
        self._set(stop_action=str(rng.choice(list(STOP_ACTIONS))))

    def programs(self, rng: np.random.Generator) -> None:
        """Run a program, or leave it."""
        self.stopped_at = self.now * 1e-9
        name = str(rng.choice([PROGRAMS.get(self.scenario.arm, ''), '']))
        self._set(law='constraint_stabilization', program=name)

    def payloads(self, rng: np.random.Generator) -> None:
        """Take something, and drop it."""
        self.heavy = True
        self._set(payload_mass=float(rng.choice([0.2, 1.0])))
        self.session.perform(PayloadChange(self.session, bool(rng.integers(2))))

    def trajectories(self, rng: np.random.Generator) -> None:
        """Send trajectories that begin now, later, some time ago, or elsewhere, and wrong ones."""
        for _ in range(rng.integers(1, 4)):
            self._try(self.trajectory, rng)

    def trajectory(self, rng: np.random.Generator) -> None:
        """Send one, smooth, with a goal within reach."""
        here = self.loop.reference.position
        goal = self.middle + 0.4 * self.half * rng.uniform(-1, 1, self.tree.n)
        goal = here + np.clip(goal - here, -0.4, 0.4)
        last = float(rng.uniform(0.8, 1.5))
        times = np.linspace(float(rng.choice([0.0, 0.2])), last, 25)
        x = times / last
        s, ds = x**3 * (10 - 15 * x + 6 * x**2), 30 * x**2 * (1 - x) ** 2 / last
        dds = 60 * x * (1 - x) * (1 - 2 * x) / last**2
        begin = (here, self.q, here + 0.04)[rng.integers(3)]
        points = begin + np.outer(s, goal - begin)
        if rng.random() < 0.2:
            points[rng.integers(25), 0] = rng.choice([math.nan, 1e300, 50.0])
        read = (times, points, np.outer(ds, goal - begin), np.outer(dds, goal - begin))
        stamp = self.now + self.shift
        start = int(rng.choice([0, 0, stamp + 30_000_000, stamp - 400_000_000]))
        self.session.perform(TrajectoryChange(self.session, lambda: (read, start)))

    def hold(self, rng: np.random.Generator) -> None:
        """Give up what is followed."""
        moving = self.loop.moving
        self.session.perform(TrajectoryChange(self.session, lambda: (None, 0)))
        self._after_hold(moving)

    def tolerance(self, rng: np.random.Generator) -> None:
        """Stop as a violated tolerance does."""
        if self.session.mode in (SessionMode.HOLDING, SessionMode.FOLLOWING):
            self.loop.hold_here()
            self._after_hold(True)

    def cancel(self, rng: np.random.Generator) -> None:
        """Cancel what is followed."""
        self.session.cancel_goal()

    def _after_hold(self, moving: bool) -> None:
        self.stopped_at = self.now * 1e-9
        if moving and self.loop.law.follows_reference:
            self.plant.read(self.q, self.v)
            self._note_stop(fresh=True)

    def time_ahead(self, rng: np.random.Generator) -> None:
        """Let the stamps be ahead by a gap, or by an hour."""
        self.shift += int(rng.choice([150_000_000, 3600 * NS]))

    def time_back(self, rng: np.random.Generator) -> None:
        """Let the stamps go back."""
        self.shift -= 10 * NS

    def restart(self, rng: np.random.Generator) -> None:
        """Deactivate; the next state activates."""
        if self.session.deactivate():
            self._judge(self.h, final=True)
        self.energy = None

    def limits(self, rng: np.random.Generator) -> None:
        """Let the arm be found beyond a limit, in motion."""
        q = self.middle + 0.5 * self.half * rng.uniform(-1, 1, self.tree.n)
        i = rng.integers(self.tree.n)
        q[i] = self.middle[i] + (self.half[i] + float(rng.uniform(0, 0.02))) * rng.choice([-1, 1])
        self.plant.reset(q, 0.5 * self.tree.velocity_limit * rng.uniform(-1, 1, self.tree.n))
        self.true_ticks = 0


CHANGES = (
    'parameters', 'hostile_parameters', 'laws', 'stop_actions', 'programs', 'payloads',
    'trajectories', 'hold', 'tolerance', 'cancel', 'time_ahead', 'time_back', 'restart', 'limits',
)  # fmt: skip
FAULTS = (*STATE_FAULTS, *CHANGES)


def breach_of(scenario: Scenario) -> str:
    """Run a scenario; return what was not kept, or nothing."""
    try:
        FaultTrial(scenario).run()
    except BreachError as breach:
        return str(breach)
    except Exception as error:  # nothing may leave a session
        return f'{type(error).__name__}: {error}'
    return ''
