# SPDX-License-Identifier: Apache-2.0
"""Replay the controller's session on recorded states, and compare its commands.

Uses the same session object as the node, with the states for which the controller sent commands.
Each change that the controller logged is applied before the first state that it acted on.

A state was answered if its command is in the bag, or a reference with its timestamp, which the
controller publishes with every command. The number of the tick in each change verifies the count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
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
        self._known = {one.name for one in declared_for(source.tree)}  # of this version
        self._session = self._made(source.parameters)
        self._changes = deque(source.log)
        self._tick: int | None = None  # number of the next tick; None before the first activation
        self._last_reference: Array | None = None
        self._known_fault: Exception | None = None  # of a locked joint that moved
        self._reference_error, self._problems = 0.0, list[str]()
        steps = np.diff(run.stamp_ns)[:, np.newaxis] / NANO
        acceleration = np.diff(run.reference_velocity, axis=0) / np.where(steps > 0.0, steps, 1.0)
        last = acceleration[-1:] if len(acceleration) else 0.0 * run.velocity[:1]
        motion = run.reference_position, run.reference_velocity, np.vstack([acceleration, last])
        self._reference = np.stack(motion, axis=1)

    def _made(self, parameters: Mapping[str, Any]) -> ControllerSession:
        source, known = self._source, self._known
        own = {name: x for name, x in parameters.items() if name in known}
        return ControllerSession(source.tree, own, source.driver, generator=self._generator)

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
            elif self._computes_effort(k):
                efforts[k] = self._session.loop.effort
                outcome[k] = 'compared' if recorded[k] else 'lost'
            else:
                outcome[k] = 'refused'
        return ReplayResult(efforts, outcome, self._reference_error, self._problems)

    def _computes_effort(self, k: int) -> bool:
        """Pass answered state k to the session; return whether the session accepts it."""
        assert self._tick is not None  # it is active
        self._tick += 1
        if self._generator is not None:
            self._generator.set_reference(self._reference[k])
        if not self._observe(k):
            return False
        self._session.settle()
        self._check_reference(self._reference[k, 0])
        return True

    def _check_reference(self, reference: Array) -> None:
        """Compare with the recorded reference, if that changed."""
        new = self._last_reference is None or (reference != self._last_reference).any()
        self._last_reference = reference
        if new and np.isfinite(reference).all():
            error = np.abs(self._session.loop.reference.position - reference).max()
            self._reference_error = max(self._reference_error, float(error))

    def _observe(self, k: int) -> bool:
        """Pass state k to the session; return whether it computed a command."""
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
        values = {**content['parameters'], **self._source.overrides}
        if first and self._tick is not None:  # another controller
            self._session = self._made(values)
        self._move_locked_joints(values)
        repeat(self._session, 'activation', {**content, 'parameters': values})
        self._tick = change.tick

    def _repeat(self, change: Change) -> None:
        if self._generator is not None and change.kind in _OF_REFERENCE:
            return
        if change.kind == 'parameters':
            values = {**change.content['values'], **self._source.overrides}
            self._set(values, change.content.get('rehearsed'))
        else:
            repeat(self._session, change.kind, change.content)
        if change.kind == 'locked':
            self._known_fault = self._session.fault

    def _set(self, values: Mapping[str, Any], rehearsed: Array | None = None) -> None:
        own = {name: x for name, x in values.items() if name in self._known}
        prepare_parameters(self._session, own, rehearsed)()

    def _move_locked_joints(self, values: Mapping[str, Any]) -> None:
        """Rebuild the session with the locked joints where new parameters have them."""
        session, locked = self._session, values['locked']
        if locked != session.parameters['locked']:
            tree = self._source.robot_with({'locked': locked})
            if tree.locked != session.tree.locked:
                session.rebuild(tree)


def replay(source: ReplaySource) -> ReplayResult:
    """Replay a recording.

    Raises:
        RobotDynamicsError: A parameter is invalid, or the recording cannot be read.
    """
    return _Replay(source).run()
