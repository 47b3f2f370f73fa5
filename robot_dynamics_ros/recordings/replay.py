# SPDX-License-Identifier: Apache-2.0
"""Replay the controller's session on recorded states, and compare its commands.

Uses the same session object as the node, with the states for which the controller sent commands.
Each change that the controller logged is applied before the first state that it acted on.

A state was answered if its command is in the bag, or a reference with its timestamp, which the
controller publishes with every command. The number of the tick in each change verifies the count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.change_log import Change
from robot_dynamics_ros.control.drivers.driver_interface import robot_and_driver
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.parts import declared_for
from robot_dynamics_ros.control.requests import prepare_parameters, repeat
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.setup import DEFAULTS, PARAMETERS
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.errors import RecordingError, RobotDynamicsError
from robot_dynamics_ros.messages import stamp_ns
from robot_dynamics_ros.model import Robot, load_arm, load_robot
from robot_dynamics_ros.model.identified import LOCKED
from robot_dynamics_ros.parameters import checked, counted
from robot_dynamics_ros.recordings.history import recorded_changes
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.recordings.recording import NANO, Recording, format_time
from robot_dynamics_ros.recordings.recording_reader import RecordingReader, with_velocities
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader import positive
from robot_dynamics_ros.yaml_reader.parsing import with_texts

#: References that a replay can follow.
REFERENCES = ('auto', 'recorded')
_AS_RECORDED = RobotChoice()
_COMPARED = ('mass', 'com', 'inertia', 'p_PJ', 'R_PJ', 'axis', 'damping', 'coulomb_friction')


class ReplaySource:
    """A bag, the controller's robot and parameters, and its states in SI units.

    Attributes:
        tree: The robot.
        parameters: Initial parameters of the controller, with the changes of the caller.
        overrides: Parameters that override the recorded ones throughout the replay.
        log: Changes of the controller, from the first activation that can be replayed; without
            one, those after the first state.
        recorded: Whether the bag has parameters of a controller.
        logged: Whether the log begins with an activation.
        driver: Conversion between model and driver units, or None.
        from_reference: Whether to follow the recorded reference instead of the log.
        reference_shows_answer: Whether a state with a reference but no command counts as answered.
        notes: Remarks about the replay, one sentence each.
        run: The recording in model order and units, up to a restart of the clock.
        bag_notes: Remarks about the bag.
        unpaired: Number of commands without a state since the first state, and the time of the
            first of them, s.

    Args:
        bag: The bag.
        overrides: Parameters that override the recorded ones.
        choice: Topics and recorded joints, and a robot if it is not that of the controller.
        reference: One of ``REFERENCES``.

    Raises:
        RobotDynamicsError: The bag cannot be read, or its robot, driver or parameters are invalid.
    """

    def __init__(
        self,
        bag: Path,
        overrides: Mapping[str, Any],
        choice: RobotChoice = _AS_RECORDED,
        *,
        reference: str = 'auto',
    ) -> None:
        self.overrides, self.notes = overrides, list[str]()
        with choice.read(bag) as reader:
            stored, layout = with_texts(reader.parameters), reader.layout
            described = reader.description
            self.log = self._read_log(reader)
        self.logged = bool(self.log) and self.log[0].kind == 'activation'
        self.recorded = self.logged or bool(stored)
        self.reference_shows_answer = self.recorded and layout.references.by_stamp
        if self.logged:
            stored = self.log[0].content['parameters']
        elif stored and reference != 'recorded':
            raise RecordingError(
                f'bag {str(bag)!r}',
                'has parameters of a controller, but no activation on its topic changes: it was '
                'recorded by version 0.2, or only after the activation',
                'record again, or give --reference recorded, which compares less',
            )
        self.parameters = {**self._first_parameters(stored), **overrides}
        merged = checked(PARAMETERS, self.parameters)
        if choice.robot:
            merged |= {'robot': '', 'robot_description': str(robot_file(choice.robot))}
        self._robot = merged, described
        self.tree, self.driver = robot_and_driver(merged, described)
        known = self._joints_with_states(choice.recorded_joints, layout.joints)
        if known and not stored and not self.driver.has_profile and len(known) < self.tree.n:
            merged['joints'] = self.parameters['joints'] = known
            self.tree, _ = robot_and_driver(merged, described)
            self.notes.append('joints without states are locked: choose with --set joints=[...]')
        if gone := sorted(stored.keys() - {one.name for one in declared_for(self.tree)}):
            self.notes.append(f'parameters that no longer exist: {", ".join(gone)}')
        self.notes += [remark for remark in self.tree.remarks if remark.startswith(LOCKED)]
        self.run = self._read(bag, choice, merged['driver_profile'])
        if not stored:
            period = self.run.period
            timeout = {'state_timeout_s': max(0.5, 20.0 * period)}
            usual = {'period': period or DEFAULTS['period'], **timeout}
            self.parameters |= {key: overrides.get(key, value) for key, value in usual.items()}
        if merged['robot'] and described and not _matches(self.tree, described):
            self.notes.append(
                f'the controller used the robot {merged["robot"]!r}, which differs from '
                'the description in the bag; --robot selects another'
            )
        motion = self.run.reference_position
        motion = motion[np.isfinite(motion).all(axis=1)]
        moves = not self.logged and bool((motion != motion[:1]).any())
        self.from_reference = reference == 'recorded' or moves
        if self.from_reference:
            self.notes.append('the recorded reference is followed')

    def _first_parameters(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters at the begin, those that are not recorded by default; note why."""
        if not self.logged:
            self.notes.append(
                'the activation is not in the bag: without its ramp'
                if stored
                else 'the bag has no parameters of a controller: the defaults are used, without '
                'a ramp'
            )
        ramp = {} if self.logged else {'activation_ramp_s': 0.0}
        return {**DEFAULTS, **stored, **ramp}

    def _joints_with_states(self, named: Sequence[str], recorded: Sequence[str]) -> list[str]:
        """Return the joints of the robot whose states are in the bag, by their recorded names."""
        if not named:
            return [name for name in self.tree.joint_names if name in recorded]
        if len(named) >= self.tree.n:
            return []
        arm = load_arm(self.tree.xml, effort_limit=1.0).joint_names  # without its grippers
        return [*arm] if len(arm) == len(named) else []

    def _read_log(self, reader: RecordingReader) -> list[Change]:
        """Return the changes from the first activation whose states are in the bag; note gaps.

        Raises:
            RecordingError: One is of another schema, or was edited.
        """
        bag, topics, log, unreadable = reader.bag, reader.topics, list[Change](), 0
        first = bag.first(topics.states)
        begin = 0 if first is None else stamp_ns(first)
        for change in recorded_changes(reader):
            if isinstance(change, RecordingError):
                raise change
            log += [change] if change else []
            unreadable += change is None
        if unreadable:
            damaged = counted(unreadable, 'damaged change')
            self.notes.append(f'{damaged} of the controller: left out')
        start = next((k for k, change in enumerate(log) if _begins_after(change, begin)), None)
        log = [x for x in log if x.stamp_ns > begin] if start is None else log[start:]
        for before, change in zip(log, log[1:], strict=False):
            if change.number not in (before.number + 1, 1):
                self.notes.append(
                    f'changes {before.number + 1} to {change.number - 1} of the controller are '
                    'not in the bag: a replay is exact until '
                    f'{format_time(before.stamp_ns / NANO)}, or to a later activation'
                )
        return log

    def robot_with(self, changes: Mapping[str, Any]) -> Robot:
        """Return the robot for changed parameters, such as positions of locked joints."""
        merged, described = self._robot
        return robot_and_driver({**merged, **changes}, described)[0]

    def _read(self, bag: Path, choice: RobotChoice, profile: str) -> Recording:
        """Return the recording in model order and units, up to a restart of the clock."""
        tree, more = self.tree, {'joints': self.tree.joint_names}
        if choice.recorded_joints:
            more = {}
        if self.driver.has_profile:
            choice, more = replace(choice, driver_profile=profile, recorded_joints=()), {}
        with choice.read(bag, tree, every_state=True, **more) as reader:
            run = with_velocities(choice.in_model_units(reader, tree), tree.joint_is_continuous)
            self.bag_notes = reader.notes
            self.unpaired = (reader.unpaired[0] + reader.odd_commands, reader.unpaired[1])
            restarts = reader.clock.since_ns
        if not len(restarts):
            return run
        self.notes.append('time went back in the bag: replayed up to there')
        return run.rows(slice(0, int(np.searchsorted(run.stamp_ns, restarts[0]))))


def _begins_after(change: Change, stamp_ns: int) -> bool:
    """Return whether a change is an activation, not longer before a state than a timeout."""
    if change.kind != 'activation':
        return False
    given = {**DEFAULTS, **change.content['parameters']}['state_timeout_s']
    timeout = positive('changes of the controller, parameters, state_timeout_s', given)
    return change.stamp_ns + timeout * NANO > stamp_ns


def _matches(tree: Robot, description: str) -> bool:
    """Return whether a description has the same parameters as the tree of a robot, to rounding."""
    try:
        other = load_robot(description, tree.gravity, effort_limit=1.0).tree
    except RobotDynamicsError:
        return False
    same = tree.tree.joint_names == other.joint_names
    return same and all(
        np.allclose(getattr(tree.tree, name), getattr(other, name), rtol=1e-12, atol=1e-15)
        for name in _COMPARED
    )


class RecordedReference(ReferenceGenerator):
    r"""Reference generator that returns the reference recorded at each state.

    The acceleration is not recorded; :math:`(\dot q_{r,k+1} - \dot q_{r,k})/h` equals that of a
    ``ReferenceSampler`` for a plant that holds its effort.

    Args:
        tree: The robot.
    """

    def __init__(self, tree: Robot) -> None:
        super().__init__(tree)
        self._recorded = np.zeros((3, tree.n))

    def set_reference(self, motion: Array) -> None:
        """Set position, velocity, acceleration of the next tick, shape (3, n), if known."""
        if np.isfinite(motion[:2]).all():
            self._recorded[:] = np.nan_to_num(motion)

    def glide(self, q: Array, is_over: bool) -> bool:
        """Return whether braking is over, and the current reference at rest."""
        return is_over and not self.reference.velocity.any()

    def sample(self, stamp_ns: int) -> None:
        """Write the current reference."""
        self._now_ns = stamp_ns
        reference = self.reference
        reference.position[:], reference.velocity[:], reference.acceleration[:] = self._recorded


# The replay -------------------------------------------------------------------------------------

#: Changes whose whole effect is a part of the recorded reference.
_OF_REFERENCE = ('trajectory', 'hold', 'target', 'speed')


class ReplayResult(NamedTuple):
    """Result of a replay.

    Attributes:
        efforts: Replayed efforts, shape (N, n), N m or N; NaN where there are none.
        outcome: What became of each state, shape (N,): 'compared' with its recorded command;
            'lost': that command is missing in the bag; 'unanswered' after activation; 'refused'
            by the loop although it was answered; 'early': answered before the first activation in
            the bag; else empty.
        reference_error: Largest deviation from the recorded reference, rad or m.
        problems: Changes that failed, and ticks that are missing, one sentence each.
    """

    efforts: Array
    outcome: Array
    reference_error: float
    problems: list[str]


class _Replay:
    """One replay of a recording.

    Args:
        source: The recording.
    """

    def __init__(self, source: ReplaySource) -> None:
        self._source, run = source, source.run
        self._generator = RecordedReference(source.tree) if source.from_reference else None
        self._session = self._made(source.parameters)
        self._changes = deque(source.log)
        self._tick: int | None = None  # number of the next tick; None before the first activation
        self._known_fault: Exception | None = None  # of a locked joint that moved
        self._problems = list[str]()
        steps = np.diff(run.stamp_ns)[:, np.newaxis] / NANO
        acceleration = np.diff(run.reference_velocity, axis=0) / np.where(steps > 0.0, steps, 1.0)
        last = acceleration[-1:] if len(acceleration) else 0.0 * run.velocity[:1]
        motion = run.reference_position, run.reference_velocity, np.vstack([acceleration, last])
        self._reference = np.stack(motion, axis=1)

    def _made(self, parameters: Mapping[str, Any]) -> ControllerSession:
        source, own = self._source, self._own(parameters)
        return ControllerSession(source.tree, own, source.driver, generator=self._generator)

    def _own(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that this version knows."""
        known = {one.name for one in declared_for(self._source.tree)}
        return {name: x for name, x in parameters.items() if name in known}

    def run(self) -> ReplayResult:
        """Pass all states to the session."""
        source, run = self._source, self._source.run
        recorded = np.asarray(run.answer_ns >= 0)
        if not source.recorded:  # another controller may command less often: a command is held
            recorded |= np.isfinite(run.effort).all(axis=1)
        answered = recorded.copy()
        if source.reference_shows_answer:
            answered |= np.asarray(np.isfinite(run.reference_position).all(axis=1))
        efforts, outcome = np.full(run.position.shape, np.nan), np.full(len(run.time), '', '<U10')
        last_reference: Array | None = None
        reference_error = 0.0
        for k, stamp in enumerate(run.stamp_ns.tolist()):
            self._apply_until(stamp)
            if answered[k] and self._tick is None and not source.logged:
                self._observe(k)
                self._session.activate(stamp)
                self._tick = 1
            if self._session.mode is SessionMode.INACTIVE:
                self._observe(k)
                if self._tick is None:
                    outcome[k] = 'early' if answered[k] else ''
                else:
                    outcome[k] = 'refused' if recorded[k] else ''
            elif not answered[k]:
                outcome[k] = 'unanswered'
            else:
                assert self._tick is not None  # it is active
                self._tick += 1
                if self._generator is not None:
                    self._generator.set_reference(self._reference[k])
                if not (self._observe(k) or self._observe(k, begins_again=True)):
                    outcome[k] = 'refused'
                    continue
                self._session.settle()
                outcome[k] = 'compared' if recorded[k] else 'lost'
                efforts[k] = self._session.loop.effort
                reference = self._reference[k, 0]
                new = last_reference is None or (reference != last_reference).any()
                last_reference = reference
                if new and np.isfinite(reference).all():
                    error = np.abs(self._session.loop.reference.position - reference).max()
                    reference_error = max(reference_error, float(error))
        return ReplayResult(efforts, outcome, reference_error, self._problems)

    def _observe(self, k: int, *, begins_again: bool = False) -> bool:
        """Pass state k to the session; return whether it computed a command.

        One that is answered after a jump follows a refused one, which has no command: it begins
        again.
        """
        if begins_again:
            self._session.loop.state.validator.begin_again()
        session, run, stamp = self._session, self._source.run, int(self._source.run.stamp_ns[k])
        measured = run.measured_effort[k] if session.wants_effort else None
        state = session.driver.state(stamp, stamp, run.position[k], run.velocity[k], measured)
        answered = session.update(state)
        if session.fault is not None and session.fault is not self._known_fault:
            raise session.fault
        return answered

    # Changes ------------------------------------------------------------------------------------

    def _apply_until(self, stamp: int) -> None:
        """Apply the changes that act on the tick of a state, or on an earlier one."""
        while self._changes and self._changes[0].stamp_ns <= stamp:
            change = self._changes.popleft()
            at = format_time(change.stamp_ns / NANO)
            try:
                if change.kind == 'activation':
                    self._activate(change)
                else:
                    self._check_tick(change.tick, at)
                    self._repeat(change)
            except RobotDynamicsError as error:
                self._problems.append(f'{change.kind} at {at}: {error}')

    def _check_tick(self, tick: int, at: str) -> None:
        """Compare the number of ticks with that of the controller, and go on with its number."""
        if self._tick not in (None, tick):
            ticks = counted(abs(tick - (self._tick or 0)), 'answered state')
            what = 'are not' if tick > (self._tick or 0) else 'too many are'
            self._problems.append(f'{ticks} before {at} {what} in the bag')
        self._tick = tick

    def _activate(self, change: Change) -> None:
        """Begin as the controller did: with all parameters, at its last state."""
        content, first = change.content, change.number == 1
        values = {**DEFAULTS, **content['parameters'], **self._source.overrides}
        if first and self._tick is not None:  # another controller
            self._session = self._made(values)
        if (locked := values['locked']) != self._session.parameters['locked']:
            tree = self._source.robot_with({'locked': locked})
            if tree.locked != self._session.tree.locked:
                self._session.rebuild(tree)
        repeat(self._session, 'activation', {**content, 'parameters': values})
        self._tick = change.tick

    def _repeat(self, change: Change) -> None:
        if self._generator is not None and change.kind in _OF_REFERENCE:
            return
        if change.kind == 'parameters':
            own = self._own({**change.content['values'], **self._source.overrides})
            prepare_parameters(self._session, own, change.content.get('rehearsed'))()
        else:
            repeat(self._session, change.kind, change.content)
        if change.kind == 'locked':
            self._known_fault = self._session.fault


def replay(source: ReplaySource) -> ReplayResult:
    """Replay a recording.

    Raises:
        RobotDynamicsError: A parameter is invalid, or the recording cannot be read.
    """
    return _Replay(source).run()
