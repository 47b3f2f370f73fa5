# SPDX-License-Identifier: Apache-2.0
"""Replay the controller's session on recorded states, and compare its commands.

Uses the same session object as the node, with the states for which the controller sent commands.
Each change that the controller logged is applied before the first state that it acted on.

A state was answered if its command is in the bag, or a reference with its timestamp, which the
controller publishes with every command. The number of the tick in each change verifies the count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.change_log import Change
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.parts import declared_for
from robot_dynamics_ros.control.requests import prepare_parameters, repeat
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.recordings.recording import NANO, format_time
from robot_dynamics_ros.recordings.replay_source import RecordedReference, ReplaySource
from robot_dynamics_ros.spatial.scalar import Array

#: Changes whose whole effect is a part of the recorded reference.
_OF_REFERENCE = ('trajectory', 'hold', 'target', 'speed')


class _State(NamedTuple):
    """A recorded state with its command and reference.

    Attributes:
        stamp: Timestamp of this state, ns.
        position, velocity, measured_effort: Measured state, shape (n,).
        command: Recorded command, shape (n,); NaN if missing.
        reference, reference_velocity, reference_acceleration: Recorded reference, shape (n,); NaN
            if missing.
        answered: Whether the controller sent a command for this state.
        recorded: Whether that command is in the bag, possibly with values that are not finite.
    """

    stamp: int
    position: Array
    velocity: Array
    measured_effort: Array
    command: Array
    reference: Array
    reference_velocity: Array
    reference_acceleration: Array
    answered: bool
    recorded: bool


def _states(source: ReplaySource) -> Iterator[_State]:
    """Yield the states of a recording."""
    run = source.run
    steps = np.diff(run.stamp_ns)[:, np.newaxis] / NANO
    acceleration = np.diff(run.reference_velocity, axis=0) / np.where(steps > 0.0, steps, 1.0)
    last = acceleration[-1:] if len(acceleration) else 0.0 * run.velocity[:1]
    recorded = np.asarray(run.answer_ns >= 0)
    if not source.recorded:  # another controller may command less often: a command is held
        recorded |= np.isfinite(run.effort).all(axis=1)
    answered = recorded.copy()
    if source.reference_shows_answer:
        answered |= np.asarray(np.isfinite(run.reference_position).all(axis=1))
    columns = (
        *(run.stamp_ns, run.position, run.velocity, run.measured_effort, run.effort),
        *(run.reference_position, run.reference_velocity, np.vstack([acceleration, last])),
        answered,
        recorded,
    )
    return map(_State, *(x.tolist() if x.ndim == 1 else x for x in columns))


@dataclass
class ReplayResult:
    """Result of a replay so far.

    Attributes:
        compared: Number of compared commands.
        early: Number of commands before the first activation in the bag.
        lost: Number of commands of the controller that are missing in the bag.
        first_lost: Time of the state of the first of them, s; NaN if there is none.
        unanswered: Number of states after activation without a command.
        refused: Number of states with a recorded command that the loop rejected.
        reference_error: Largest deviation from the recorded reference, rad or m.
        first, last: Times of the first and last command beyond the tolerance, s, or None.
        out_of_tolerance: Number of commands beyond the tolerance.
        problems: Changes that failed, and ticks that are missing, one sentence each.
    """

    compared: int = 0
    early: int = 0
    lost: int = 0
    first_lost: float = float('nan')
    unanswered: int = 0
    refused: int = 0
    reference_error: float = 0.0
    first: float | None = None
    last: float | None = None
    out_of_tolerance: int = 0
    problems: list[str] = field(default_factory=list)


class _Replay:
    """One replay of a recording.

    Args:
        source: The recording.
        tolerance: Tolerance of the commands, N m or N.
    """

    def __init__(self, source: ReplaySource, tolerance: float) -> None:
        self._source, self._tolerance = source, tolerance
        self._generator = RecordedReference(source.tree) if source.from_reference else None
        self._known = {one.name for one in declared_for(source.tree)}  # of this version
        self._session = self._made(source.parameters)
        self._changes = deque(source.log)
        self._tick: int | None = None  # number of the next tick; None before the first activation
        self._last_reference: Array | None = None
        self._known_fault: Exception | None = None  # of a locked joint that moved
        self._result = ReplayResult()

    def _made(self, parameters: Mapping[str, Any]) -> ControllerSession:
        source, known = self._source, self._known
        own = {name: x for name, x in parameters.items() if name in known}
        return ControllerSession(source.tree, own, source.driver, generator=self._generator)

    def run(self) -> tuple[ReplayResult, Array]:
        """Return the result, and the replayed efforts, shape (N, n), NaN where there are none."""
        source, result = self._source, self._result
        efforts = np.full(source.run.position.shape, np.nan)
        for row, state in enumerate(_states(source)):
            self._apply_until(state.stamp)
            if state.answered and self._tick is None and not source.logged:
                self._observe(state)
                self._session.activate(state.stamp)
                self._tick = 1
            if not self._is_running:
                self._observe(state)
                result.early += state.answered and self._tick is None
                result.refused += state.recorded and self._tick is not None
            elif not state.answered:
                result.unanswered += 1
            elif self._computes_effort(state):
                efforts[row] = self._session.loop.effort
                self._compare(state, efforts[row])
        return result, efforts

    @property
    def _is_running(self) -> bool:
        return self._session.mode is not SessionMode.INACTIVE

    def _computes_effort(self, state: _State) -> bool:
        """Pass an answered state to the session; return whether the session accepts it."""
        assert self._tick is not None  # it is active
        self._tick += 1
        if self._generator is not None:
            self._generator.set_reference(
                state.reference, state.reference_velocity, state.reference_acceleration
            )
        if not self._observe(state):
            self._result.refused += 1
            return False
        self._session.settle()
        self._check_reference(state.reference)
        return True

    def _check_reference(self, reference: Array) -> None:
        """Compare with the recorded reference, if that changed."""
        new = self._last_reference is None or (reference != self._last_reference).any()
        self._last_reference = reference
        if new and np.isfinite(reference).all():
            error = np.abs(self._session.loop.reference.position - reference).max()
            self._result.reference_error = max(self._result.reference_error, float(error))

    def _observe(self, state: _State) -> bool:
        """Pass a state to the session; return whether it computed a command."""
        session, q, v = self._session, state.position, state.velocity
        measured = state.measured_effort if session.wants_effort else None
        answered = session.update(session.driver.state(state.stamp, state.stamp, q, v, measured))
        if session.fault is not None and session.fault is not self._known_fault:
            raise session.fault
        return answered

    def _compare(self, state: _State, effort: Array) -> None:
        result, time = self._result, state.stamp / NANO
        if not state.recorded:
            result.first_lost = float(np.fmin(result.first_lost, time))
            result.lost += 1
            return
        result.compared += 1
        if not np.abs(effort - state.command).max() <= self._tolerance:  # not finite: wrong
            result.out_of_tolerance += 1
            result.first = time if result.first is None else result.first
            result.last = time

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
                self._result.problems.append(f'{change.kind} at {at}: {error}')

    def _check_tick(self, tick: int, at: str) -> None:
        """Compare the number of ticks with that of the controller, and go on with its number."""
        if self._tick not in (None, tick):
            ticks = counted(abs(tick - (self._tick or 0)), 'answered state')
            what = 'are not' if tick > (self._tick or 0) else 'too many are'
            self._result.problems.append(f'{ticks} before {at} {what} in the bag')
        self._tick = tick

    def _activate(self, change: Change) -> None:
        """Begin as the controller did: with all parameters, at its last state."""
        content, first = change.content, change.number == 1
        values = {**content['parameters'], **self._source.overrides}
        if first and self._tick is not None:  # another controller
            self._session = self._made(values)
        self._move_locked_joints(values)
        self._set(values)
        session, state = self._session, content['state']
        for kind, kept in content['kept'].items():
            repeat(session, kind, kept)
        stamp = state['stamp_ns']
        if not session.heard or session.loop.state.stamp_ns != stamp:
            place = np.array(state['q']), np.array(state['v'])
            session.update(session.driver.state(stamp, stamp, *place))
        session.activate(stamp)
        self._tick = change.tick

    def _repeat(self, change: Change) -> None:
        if self._generator is not None and change.kind in _OF_REFERENCE:
            return
        if change.kind == 'parameters':
            self._set({**change.content['values'], **self._source.overrides})
        else:
            repeat(self._session, change.kind, change.content)
        if change.kind == 'locked':
            self._known_fault = self._session.fault

    def _set(self, values: Mapping[str, Any]) -> None:
        own = {name: x for name, x in values.items() if name in self._known}
        prepare_parameters(self._session, own)()

    def _move_locked_joints(self, values: Mapping[str, Any]) -> None:
        """Rebuild the session with the locked joints where new parameters have them."""
        session, locked = self._session, values['locked']
        if locked != session.parameters['locked']:
            tree = self._source.robot_with({'locked': locked})
            if tree.locked != session.tree.locked:
                session.rebuild(tree)


def replay(source: ReplaySource, tolerance: float) -> tuple[ReplayResult, Array]:
    """Replay a recording.

    Args:
        source: The recording.
        tolerance: Tolerance of the commands, N m or N.

    Returns:
        The result, and the replayed efforts, shape (N, n), N m or N; NaN where there are none.

    Raises:
        RobotDynamicsError: A parameter is invalid, or the recording cannot be read.
    """
    return _Replay(source, tolerance).run()
