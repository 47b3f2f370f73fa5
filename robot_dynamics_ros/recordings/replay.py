# SPDX-License-Identifier: Apache-2.0
"""Replay the controller's session on recorded states, and compare its commands.

Uses the same session object as the node, with the states for which the controller sent commands.

The times in a bag do not determine whether an event was received just before or just after the
command for a state. If the commands differ, the replay tries the other order, and keeps it if the
commands then agree for longer. Streamed messages have their own latency and may also have been
received after later states.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.requests import STREAMED, prepare_parameters, prepare_trajectory
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.topics import STREAMS
from robot_dynamics_ros.control.trajectories.points import read_trajectory
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.recordings.recording import NANO, format_time
from robot_dynamics_ros.recordings.replay_source import Event, RecordedReference, ReplaySource
from robot_dynamics_ros.spatial.scalar import Array

#: Receive time of all states: state timeouts are replayed from recorded events, not a clock.
_ARRIVAL_NS = 0
_NO_REFERENCE = ('target_wrench', 'measured_wrench', 'enable_guiding')  # streams without one


class _State(NamedTuple):
    """A recorded state with its command and reference.

    Attributes:
        now, end: Time of this state and of the next on the clock of the events, ns.
        stamp: Timestamp of this state, ns.
        position, velocity, measured_effort: Measured state, shape (n,).
        command: Recorded command, shape (n,); NaN if missing.
        reference, reference_velocity, reference_acceleration: Recorded reference, shape (n,); NaN
            if missing.
        answered: Whether the controller sent a command for this state.
        recorded: Whether that command is in the bag, possibly with values that are not finite.
    """

    now: int
    end: int
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

    def is_after(self, event: Event) -> bool:
        """Return whether an event precedes this state."""
        return event.time < (self.stamp if event.stamped else self.now)


def _states(source: ReplaySource) -> Iterator[_State]:
    """Yield the states of a recording."""
    run = source.run
    clock = run.arrival_ns if source.by_arrival else run.stamp_ns
    period = int(np.median(np.diff(clock))) if len(clock) > 1 else 1
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
        *(clock, np.append(clock[1:], clock[-1:] + period), run.stamp_ns),
        *(run.position, run.velocity, run.measured_effort, run.effort),
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
        lost: Number of commands of the controller that are missing in the bag.
        first_lost: Time of the state of the first of them, s; NaN if there is none.
        unanswered: Number of states after activation without a command.
        refused: Number of states with a recorded command that the loop rejected.
        reference_error: Largest deviation from the recorded reference, rad or m.
        first: Row and time, s, of the first command beyond the tolerance, or None.
        first_ns: Time of that state on the clock of the events, ns.
        agreed_ns: Times of the last two states before it, ns, or of the last states; the effect
            of an event may become visible one state late.
        last: Time of the last command beyond the tolerance, s, or None.
        out_of_tolerance: Number of commands beyond the tolerance.
        problems: Events that failed, one sentence each.
    """

    compared: int = 0
    lost: int = 0
    first_lost: float = float('nan')
    unanswered: int = 0
    refused: int = 0
    reference_error: float = 0.0
    first: tuple[int, float] | None = None
    first_ns: int = 0
    agreed_ns: tuple[int, int] = (0, 0)
    last: float | None = None
    out_of_tolerance: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def agreement(self) -> tuple[float, int]:
        """Row of the first deviation, and minus the number of deviations; larger is better."""
        return np.inf if self.first is None else self.first[0], -self.out_of_tolerance


#: Events, and the state at which the controller was activated, see ``_Replay``.
_Order = tuple[tuple[Event, ...], str]
_Change = Callable[[Event, ReplayResult], Event]


class _Replay:
    """One replay of a recording.

    Args:
        source: The recording.
        order: The events, with the times and the order relative to commands to assume; and the
            state at which the controller was activated: 'here', the first state with a command;
            'before', the state before that; 'earlier', that of its first reference; or 'running',
            the first state with a command, without a ramp, as it ran already. Empty to choose
            'here' or 'before', whichever state equals the first reference.
        tolerance: Tolerance of the commands, N m or N.
    """

    def __init__(self, source: ReplaySource, order: _Order, tolerance: float) -> None:
        events, self._activation = order
        self._source, self._tolerance = source, tolerance
        self._generator = RecordedReference(source.tree) if source.from_reference else None
        first = {'activation_ramp_s': 0.0} if self._activation == 'running' else {}
        self._session = ControllerSession(
            source.tree, source.parameters | first, source.driver, generator=self._generator
        )
        self._waiting = sorted(events, key=lambda event: event.time)
        self._row = 0
        self._last_reference: Array | None = None
        self._known_fault: Exception | None = None  # of a locked joint that moved
        self._result = ReplayResult()

    def run(self) -> tuple[ReplayResult, Array]:
        """Return the result, and the replayed efforts, shape (N, n), NaN where there are none."""
        efforts = np.full(self._source.run.position.shape, np.nan)
        for row, state in enumerate(_states(self._source)):
            self._row = row
            if self._is_running:
                self._apply(state)
            if not (state.answered or self._is_running):
                self._observe(state)
            elif state.answered and self._computes_effort(state):
                efforts[row] = self._session.loop.effort
                self._compare(state, efforts[row])
            elif self._is_running:
                self._result.unanswered += 1
        return self._result, efforts

    @property
    def _is_running(self) -> bool:
        return self._session.mode is not SessionMode.INACTIVE

    def _computes_effort(self, state: _State) -> bool:
        """Pass an answered state to the session; return whether the session accepts it."""
        if self._generator is not None:
            self._generator.set_reference(
                state.reference, state.reference_velocity, state.reference_acceleration
            )
        if not self._is_running:
            self._activate(state)
        self._apply(state, before_command=True)
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

    def _activate(self, state: _State) -> None:
        activation, session, early = self._activation, self._session, self._source.first_reference
        if not activation:
            here = bool((state.reference == state.position).all())
            before = not here and bool((state.reference == session.loop.q).all())
            activation = 'before' if before else 'here'
        if activation == 'earlier' and early is not None:
            session.on_state(early[0], _ARRIVAL_NS, early[1], np.zeros(len(early[1])))
        elif activation != 'before' or self._row == 0:
            self._observe(state)
        for event in self._waiting:
            if state.is_after(event) and event.kind == 'parameters':
                self._move_locked_joints(event)
        session.activate(_ARRIVAL_NS)
        prepare_parameters(session, self._source.parameters)()
        self._apply(state)

    def _observe(self, state: _State) -> bool:
        """Pass a state to the session; return whether it computed a command."""
        session, q, v = self._session, state.position, state.velocity
        measured = state.measured_effort if session.wants_effort else None
        answered = session.on_state(state.stamp, _ARRIVAL_NS, q, v, measured)
        if session.fault is not None and session.fault is not self._known_fault:
            raise session.fault
        return answered

    def _compare(self, state: _State, effort: Array) -> None:
        result = self._result
        if not state.recorded:
            result.first_lost = float(np.fmin(result.first_lost, state.stamp / NANO))
            result.lost += 1
            return
        result.compared += 1
        if not np.abs(effort - state.command).max() <= self._tolerance:  # not finite: wrong
            result.out_of_tolerance += 1
            result.last = float(state.stamp) / NANO
            if result.first is None:
                result.first, result.first_ns = (self._row, result.last), state.now
        if result.first is None:
            result.agreed_ns = result.agreed_ns[1], state.now

    # Events -------------------------------------------------------------------------------------

    def _apply(self, state: _State, *, before_command: bool = False) -> None:
        """Apply the waiting events before this state, or between it and its command."""
        near = takewhile(lambda event: event.stamped or event.time < state.end, self._waiting)
        for event in list(near):
            inside = event.before_tick and event.time < state.end
            if not (inside if before_command else state.is_after(event)):
                continue
            self._waiting.remove(event)
            try:
                self._perform(event)
            except RobotDynamicsError as error:
                self._result.problems.append(
                    f'{event.kind} at {format_time(event.time / NANO)}: {error}'
                )

    def _perform(self, event: Event) -> None:
        session = self._session
        if event.kind == 'parameters':
            self._move_locked_joints(event)
            prepare_parameters(session, {**event.content, **self._source.changes})()
        elif event.kind == 'recovery':
            session.fall_silent()
        elif event.kind == 'locked':
            session.on_locked(event.content)
            self._known_fault = session.fault
        elif event.kind == 'release':
            session.resume()
        elif event.kind == 'deactivate':
            session.deactivate()
        elif self._generator is not None and event.kind not in _NO_REFERENCE:
            return  # the effect is part of the recorded reference
        elif event.kind in STREAMED:
            STREAMED[event.kind](session, event.content)()
        else:
            read = read_trajectory(event.content, self._source.tree.joint_names)
            prepare_trajectory(session, *read)()

    def _move_locked_joints(self, event: Event) -> None:
        """Rebuild the session with the locked joints where new parameters have them."""
        session, locked = self._session, event.content['locked']
        if locked != session.parameters['locked']:
            tree = self._source.robot_with({'locked': locked})
            if tree.locked != session.tree.locked:
                session.rebuild(tree)


# The order of events -----------------------------------------------------------------------------

_NEAR_NS = 20_000_000  # longest time from a streamed message to a deviation caused by its order
_DELAY_NS = 200_000_000  # longer than the latency of any message
_POSTPONED = 4  # how often to postpone a streamed message past the first deviation


def replay(source: ReplaySource, tolerance: float) -> tuple[ReplayResult, Array]:
    """Replay a recording with the order of events that agrees best with its commands.

    Args:
        source: The recording.
        tolerance: Tolerance of the commands, N m or N; infinite to keep the order of events
            given by their times.

    Returns:
        The result, and the replayed efforts, shape (N, n), N m or N; NaN where there are none.

    Raises:
        RobotDynamicsError: A parameter is invalid, or the recording cannot be read.
    """
    best = _Best(source, tolerance)
    if tolerance < np.inf:
        best.improve()
    return best.result, best.efforts


class _Best:
    """The order of events that agrees best so far, and result and efforts of its replay."""

    def __init__(self, source: ReplaySource, tolerance: float) -> None:
        self._source, self._tolerance = source, tolerance
        self.order: _Order = tuple(source.events), 'running' if source.started_before else ''
        self.result, self.efforts = _Replay(source, self.order, tolerance).run()

    def improve(self) -> None:
        """Try other orders until all commands agree."""
        for order in self._others():
            if self.result.first is None:
                break
            result, efforts = _Replay(self._source, order, self._tolerance).run()
            if result.agreement > self.result.agreement:
                self.order, self.result, self.efforts = order, result, efforts

    def _others(self) -> Iterator[_Order]:
        """Yield orders to try, each a variant of the best one until then."""
        activations = ['before', 'here']
        if self._source.first_reference is not None:
            activations.append('earlier')
        for activation in activations:
            yield self.order[0], activation
        events = self._source.events
        both: list[_Change] = [partial(_postponed, past=False), partial(_postponed, past=True)]
        for kind in sorted(STREAMS.keys() & {event.kind for event in events}):
            places = {i for i, event in enumerate(events) if event.kind == kind}
            yield self._changed(places, _swapped)
            yield self._changed(places, _delayed)
            here = self.result.first_ns - 1
            times = (self.order[0][i].time for i in places)
            ahead = min((time for time in times if time > here), default=here) - here
            yield self._changed(places, partial(_advanced, by_ns=ahead))
            for since in (0, 1):
                yield self._changed(places, partial(_unheard, since=since))
        for place, event in enumerate(events):
            if event.certain:
                continue
            streamed = event.kind in STREAMS
            for change in [_swapped, *both * _POSTPONED] if streamed else [_swapped]:
                if not streamed or abs(event.time - self.result.first_ns) <= _NEAR_NS:
                    yield self._changed({place}, change)

    def _changed(self, places: Collection[int], change: _Change) -> _Order:
        """Return the best order with some of the events changed."""
        events, activation = self.order
        changed = (change(x, self.result) if i in places else x for i, x in enumerate(events))
        return tuple(changed), activation


def _swapped(event: Event, _: ReplayResult) -> Event:
    """Return an event in the opposite order relative to the command."""
    return replace(event, before_tick=not event.before_tick)


def _delayed(event: Event, result: ReplayResult) -> Event:
    """Return an event of a stream that is delayed from the first deviation on.

    The next deviation then shows when its first message was received.
    """
    return replace(event, time=event.time + _DELAY_NS * (event.time >= result.first_ns - _NEAR_NS))


def _advanced(event: Event, result: ReplayResult, by_ns: int) -> Event:
    """Return an event of a stream that is advanced from the first deviation on."""
    return replace(event, time=event.time - by_ns * (event.time >= result.first_ns - 1))


def _unheard(event: Event, result: ReplayResult, since: int) -> Event:
    """Return an event of a stream that the controller received only since the deviation.

    Its publisher may have been connected with the recorder earlier than with the controller.

    ``since`` is the index in ``agreed_ns`` of the state after which it was received.
    """
    return replace(event, time=max(event.time, result.agreed_ns[since]))


def _postponed(event: Event, result: ReplayResult, *, past: bool) -> Event:
    """Return an event moved to just before or just past the first deviation."""
    due = result.first_ns if past else result.agreed_ns[1]
    return replace(event, time=max(event.time, due), before_tick=False)
