# SPDX-License-Identifier: Apache-2.0
"""Faults: distortions of the states, and random changes, valid and invalid, of a session."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import yaml
from campaigns.fault_evaluator import CLOSED, NS, WORKING, FaultEvaluator
from campaigns.support import drawn
from followed_arm import duration, goal
from numpy.random import Generator

from robot_dynamics_ros.control.contact_watch import REACTIONS
from robot_dynamics_ros.control.goals import Outcome, ResultCode
from robot_dynamics_ros.control.laws.registry import LAWS
from robot_dynamics_ros.control.laws.stop_laws import STOP_ACTIONS
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.requests import (
    prepare_goal,
    prepare_parameters,
    prepare_payload,
    prepare_target,
    prepare_trajectory,
)
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.model import frame_jacobian
from robot_dynamics_ros.planning.motions import Quintic
from robot_dynamics_ros.spatial.scalar import Array

State = tuple[int, Array, Array]


@dataclass
class Distortion:
    """A distortion of the states for a while.

    Attributes:
        kind: Name of a method that takes the state of a step and returns the delivered states,
            or one of ``SPOILED``.
        rng: Random number generator.
        until: Step at which it ends.
        kept: States to deliver later.
    """

    kind: str
    rng: Generator
    until: int
    kept: list[State] = field(default_factory=list)

    def deliver(self, state: State) -> list[State]:
        """Return the states that are delivered instead of one."""
        return getattr(self, 'spoiled' if self.kind in SPOILED else self.kind)(state)

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
        if self.kept:
            return [state, self.kept.pop()]
        self.kept.append(state)
        return []

    def repeated(self, state: State) -> list[State]:
        """Deliver the same state repeatedly."""
        self.kept = self.kept or [state]
        return self.kept

    def jumping(self, state: State) -> list[State]:
        """Let positions jump occasionally."""
        if self.rng.random() >= 0.2:
            return [state]
        return [(state[0], state[1] + 0.5 * self.rng.normal(size=len(state[1])), state[2])]

    def contradicting(self, state: State) -> list[State]:
        """Add states of another arm from a second publisher."""
        other = np.random.default_rng(self.until).normal(size=len(state[1])) * 0.3
        return [state, (state[0] + 1000, state[1] + other, np.zeros(len(other)))]

    def spoiled(self, state: State) -> list[State]:
        """Replace a value by one that is not finite, impossibly large, or denormal."""
        row = np.array(state[1:])
        place = self.rng.integers(2), self.rng.integers(row.shape[1])
        row[place] = self.rng.choice(SPOILED[self.kind])
        return [(state[0], *row)]

    def frozen(self, state: State) -> list[State]:
        """Keep the values constant while timestamps advance."""
        self.kept = self.kept or [state]
        return [(state[0], *self.kept[0][1:])]

    def inconsistent(self, state: State) -> list[State]:
        """Deliver velocities that contradict the positions."""
        return [(state[0], state[1], state[2] + self.rng.normal(size=len(state[2])))]

    def jitter(self, state: State) -> list[State]:
        """Shift timestamps by up to half a period."""
        return [(state[0] + int(self.rng.integers(-400_000, 400_000)), *state[1:])]

    def silence(self, state: State) -> list[State]:
        """Deliver no states."""
        return []


#: Replacements of a value.
SPOILED = {
    'nan': (math.nan, math.inf, -math.inf),
    'huge': (1e300, -1e300, 1e154, 1e7),
    'denormal': (5e-324, -5e-324, 1e-310),
}
#: Distortions of the states: minimum and maximum duration, periods.
STATE_FAULTS = yaml.safe_load("""
lost: [5, 60]
late: [10, 80]
doubled: [5, 50]
reordered: [6, 50]
repeated: [2, 15]
jumping: [2, 40]
contradicting: [5, 60]
nan: [1, 15]
huge: [1, 15]
denormal: [1, 15]
frozen: [2, 60]
inconsistent: [1, 40]
jitter: [10, 80]
silence: [120, 250]
""")


PROGRAMS = yaml.safe_load("""
scara: [scara_circle, scara_press]
four_dof: [four_dof_moving_plane, four_dof_board]
four_bar: [four_bar_loop]
parallelogram: [parallelogram_loop]
""")
HOSTILE: Mapping[str, Sequence[Any]] = {
    'program': ('a: !!bool x', 'a: 0b_', '/proc/self/mem', 'x' * 5000, 'nosuch', '[' * 900),
    **yaml.safe_load("""
law: [nosuch, '', 7]
natural_frequency: [[.nan], [-1.0], [1.0, 2.0], x, [1.0e+300]]
payload_mass: [.nan, -1.0, 1.0e+300]
payload_frame: [nosuch]
effort_scale: [0.0, .inf, -1]
activation_ramp_s: [.nan, -1.0, 1.0e+300]
state_timeout_s: [0.0, .nan]
stop_action: [nosuch, null]
"""),
}
#: Values of other parameters.
USUAL = yaml.safe_load("""
damping_ratio: [[0.7], [1.0], [1.5]]
friction_compensation: [true, false]
activation_ramp_s: [0.0, 0.05, 0.2]
discretization: [semi_implicit, zero_order]
state_timeout_s: [0.05, 0.1]
effort_scale: [0.7, 1.0]
stop_effort_share: [0.3, 0.7, 1.0]
effort_rate_limit: [[0.0], [300.0], [2000.0]]
""")

#: A change may only be accepted or rejected with an error of this package.
REJECTED = suppress(RobotDynamicsError)


class FaultChanges(FaultEvaluator):
    """The changes, one method each, selected by name."""

    def _set(self, **values: Any) -> None:
        prepare_parameters(self.session, values)()

    def parameters(self, rng: Generator) -> None:
        """Change several parameters at once."""
        w = self.frequency
        choices = {'natural_frequency': [[w / 1.5], [w], [2.0 * w]], **USUAL}
        for name in rng.choice(list(choices), 3, replace=False):
            with REJECTED:
                self._set(**{name: drawn(choices[name], rng)})

    def hostile_parameters(self, rng: Generator) -> None:
        """Set invalid parameter values."""
        for name, values in HOSTILE.items():
            law = {'law': 'constraint_stabilization'} if name == 'program' else {}
            with REJECTED:
                self._set(**{**law, name: drawn(values, rng)})

    def laws(self, rng: Generator) -> None:
        """Change the law, three times in a row."""
        self.stopped_at = self.now_ns * 1e-9
        for name in rng.choice([name for name, law in LAWS.items() if not law.needs_enabling], 3):
            self._set(law=str(name))

    def guiding(self, rng: Generator) -> None:
        """Press the enabling switch of law hand_guiding once; release it, or let it time out."""
        self.stopped_at = self.now_ns * 1e-9
        self._set(law='hand_guiding', guiding_timeout_s=float(rng.uniform(0.01, 0.1)))
        for pressed in (False, True, *rng.choice([False, True], 2)):
            self.session.enable(bool(pressed))

    def stop_actions(self, rng: Generator) -> None:
        """Change the stop action."""
        self._set(stop_action=str(rng.choice(list(STOP_ACTIONS))))

    def programs(self, rng: Generator) -> None:
        """Start a program, or switch to another law."""
        self.stopped_at = self.now_ns * 1e-9
        names = (*PROGRAMS.get(self.scenario.arm, ()), '')
        self._set(law='constraint_stabilization', program=str(rng.choice(names)))

    def payloads(self, rng: Generator) -> None:
        """Add a payload, and remove it."""
        self.loaded = True
        self._set(payload_mass=float(rng.choice([0.2, 1.0])))
        prepare_payload(self.session, bool(rng.integers(2)))()

    def trajectories(self, rng: Generator) -> None:
        """Send trajectories that begin now, later, in the past, or elsewhere, and invalid ones."""
        for _ in range(rng.integers(1, 4)):
            with REJECTED:
                prepare_trajectory(self.session, *self._motion(rng))()

    def goals(self, rng: Generator) -> None:
        """Send action goals, some of them with tolerances that are violated."""
        for _ in range(rng.integers(1, 3)):
            with REJECTED:
                self._goal(rng)

    def _goal(self, rng: Generator) -> None:
        """Send an action goal; a violated tolerance stops the arm."""
        (times, *rows), start = self._motion(rng)
        names = ('positions', 'velocities', 'accelerations')
        points = [
            (t, dict(zip(names, row, strict=True))) for t, *row in zip(times, *rows, strict=True)
        ]
        joints = self.tree.joint_names
        path = SimpleNamespace(name=joints[0], velocity=0.0, acceleration=0.0,
                               position=float(rng.choice([0.0, 1e-4, math.nan])))  # fmt: skip
        request = goal(points, 1e-6 * start, joints, path_tolerance=[path],
                       goal_time_tolerance=duration(float(rng.choice([0.0, 0.1]))))  # fmt: skip
        prepare_goal(self.session, request, self._ended)()

    def _ended(self, outcome: Outcome) -> None:
        failed = outcome.code is not ResultCode.SUCCESSFUL
        if not outcome.preempted and (failed or outcome.canceled):
            self._after_hold(True)

    def speeds(self, rng: Generator) -> None:
        """Send speed overrides, and invalid ones."""
        for factor in rng.choice([0.0, 0.2, 1.0, math.nan, -1.0, 7.0], 2):
            with REJECTED:
                self.session.set_speed(factor)

    def _goal_position(self, rng: Generator) -> Array:
        return self.middle + 0.4 * self.half * rng.uniform(-1, 1, self.tree.n)

    def _motion(self, rng: Generator) -> tuple[Any, int]:
        """Return times, positions, velocities, accelerations, and the start."""
        here = self.loop.reference.position
        goal = here + np.clip(self._goal_position(rng) - here, -0.4, 0.4)
        last = float(rng.uniform(0.8, 1.5))
        times = np.linspace(float(rng.choice([0.0, 0.2])), last, 25)
        begin = drawn((here, self.q, here + 0.04), rng)
        points, *rates = Quintic(begin, goal, last).table(times)
        if rng.random() < 0.2:
            points[rng.integers(25), 0] = rng.choice([math.nan, 1e300, 50.0])
        stamp = self.now_ns + self.shift
        start = int(rng.choice([0, 0, stamp + 30_000_000, stamp - 400_000_000]))
        return (times, points, *rates), start

    def contacts(self, rng: Generator) -> None:
        """Push a link for a while, under a contact reaction."""
        self._set(contact_reaction=str(rng.choice(list(REACTIONS))))
        frames = [name for name, frame in self.tree.frames.items() if frame.body >= 0]
        frame, w = str(rng.choice(frames)), rng.normal(size=6)
        wrench = w / np.linalg.norm(w) * rng.uniform(0.05, 0.6) * self._bearable(frame)
        self._lasting(rng, 1, lambda: self.plant.push(frame, wrench))

    def _bearable(self, frame: str) -> float:
        """Return the largest force, N, or moment, N m, at a frame within all effort limits."""
        columns = np.linalg.norm(frame_jacobian(self.tree, self.q, frame), axis=0)
        return float((self.tree.effort_limit / np.maximum(columns, 1e-3)).min())

    def resume(self, rng: Generator) -> None:
        """Resume after a contact reaction."""
        self.session.resume()
        self.stopped_at = self.now_ns * 1e-9

    def targets(self, rng: Generator) -> None:
        """Stream targets for a while, including jumps and invalid ones."""
        kind = rng.choice([self._target_joint, self._target_pose, self._target_wrench])
        self._lasting(rng, int(rng.choice([1, 10, 50])), partial(kind, rng))

    def _target_joint(self, rng: Generator) -> None:
        goal = self._odd(self._goal_position(rng), rng)
        prepare_target(self.session, partial(self.session.targets.joints, (), goal))()

    def _target_pose(self, rng: Generator) -> None:
        place, turn = self._odd(rng.normal(size=3), rng), self._odd(rng.normal(size=4), rng)
        with np.errstate(invalid='ignore'):  # 0 times an infinite entry
            turn, axes = rng.choice([0.0, 1.0]) * turn, self._axes(rng)
        prepare_target(self.session, partial(self.session.targets.pose, axes, place, turn))()

    def _target_wrench(self, rng: Generator) -> None:
        axes, wrench = self._axes(rng), self._odd(10.0 * rng.normal(size=6), rng)
        self.session.exert_wrench(axes, wrench)

    def _axes(self, rng: Generator) -> str:
        return str(rng.choice([self.tree.base_link, 'tool', '']))

    def sensed(self, rng: Generator) -> None:
        """Send random measurements of a force sensor at the tool."""

        def send() -> None:
            wrench = self._odd(10.0 * rng.normal(size=6), rng)
            self.session.measure_wrench('tool', wrench)

        self._lasting(rng, 1, send)

    def _odd(self, values: Any, rng: Generator) -> Any:
        """Return the values, occasionally with an invalid one."""
        if rng.random() < 0.1:
            values[rng.integers(len(values))] = rng.choice([math.nan, math.inf, 1e300, 5e-324])
        return values

    def _lasting(self, rng: Generator, every: int, act: Callable[[], None]) -> None:
        """Call ``act`` every ``every`` steps for a while."""
        self.lasting.append((self.step + int(rng.integers(20, 150)), every, act))

    def hold(self, rng: Generator) -> None:
        """Hold: end the current motion."""
        moving = self.loop.generator.moving
        self.session.hold()
        self._after_hold(moving)

    def tolerance(self, rng: Generator) -> None:
        """Stop as a violated tolerance does."""
        if self.session.mode in WORKING:
            self.loop.switch(brake=True)
            self._after_hold(True)

    def cancel(self, rng: Generator) -> None:
        """Cancel the current motion."""
        self.session.cancel_goal()

    def _after_hold(self, moving: bool) -> None:
        self.stopped_at = self.now_ns * 1e-9
        if moving and self.loop.law.follows_reference:
            self.plant.read(self.q, self.v)
            self._note_stop(fresh=True)

    def time_ahead(self, rng: Generator) -> None:
        """Let the timestamps jump ahead by a gap, or by an hour."""
        self.shift += int(rng.choice([150_000_000, 3600 * NS]))

    def time_back(self, rng: Generator) -> None:
        """Let the timestamps jump back."""
        self.shift -= 10 * NS

    def restart(self, rng: Generator) -> None:
        """Deactivate, braking first in motion; the state after that activates."""
        if self.session.deactivate():
            self._evaluate(self.h, final=True)
        if self.session.mode is SessionMode.DEACTIVATING:
            self._note_stop(fresh=True)
        else:
            self.energy = None

    def limits(self, rng: Generator) -> None:
        """Put the arm beyond a limit, in motion."""
        if self.scenario.arm in CLOSED:
            return  # not every position closes a loop
        q = self.middle + 0.5 * self.half * rng.uniform(-1, 1, self.tree.n)
        i = rng.integers(self.tree.n)
        q[i] = self.middle[i] + (self.half[i] + float(rng.uniform(0, 0.02))) * rng.choice([-1, 1])
        self.plant.reset(q, 0.5 * self.tree.velocity_limit * rng.uniform(-1, 1, self.tree.n))
        self.true_ticks = 0


#: Names of the changes, which are the public methods.
CHANGES = tuple(name for name in vars(FaultChanges) if not name.startswith('_'))
