# SPDX-License-Identifier: Apache-2.0
"""Replay the controller's session on recorded states, and compare its commands.

Uses the same session object as the node, with the states for which the controller sent commands.

The times in a bag do not determine whether an event was received just before or just after the
command for a state. If the commands differ, the replay tries the other order, and keeps it if the
commands then agree for longer. Streamed messages have their own latency and may also have been
received after later states.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile

import numpy as np

from robot_dynamics_ros.control.changes import (
    ModelChange,
    ParameterChange,
    ReleaseChange,
    TrajectoryChange,
)
from robot_dynamics_ros.control.modes import SessionChange, SessionMode
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.settings import LockedJointWatch
from robot_dynamics_ros.control.streamed import STREAMED
from robot_dynamics_ros.control.trajectories.points import read_trajectory
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.recordings.recording import NANO, Recording
from robot_dynamics_ros.recordings.replay.events import (
    Event,
    RecordedReference,
    RecordedState,
    Setup,
    recorded_states,
)
from robot_dynamics_ros.recordings.topics import STREAMS
from robot_dynamics_ros.spatial.scalar import Array

#: Receive time of all states: state timeouts are replayed from recorded events, not a clock.
_ARRIVAL_NS = 0
_NO_REFERENCE = ('target_wrench', 'measured_wrench', 'enable_guiding')  # streams without one


@dataclass
class ReplayResult:
    """Result of a replay so far.

    Attributes:
        compared: Number of compared commands.
        lost: Number of commands of the controller that are missing in the bag.
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
    unanswered: int = 0
    refused: int = 0
    reference_error: float = 0.0
    first: tuple[int, float] | None = None
    first_ns: int = 0
    agreed_ns: tuple[int, int] = (0, 0)
    last: float | None = None
    out_of_tolerance: int = 0
    problems: list[str] = field(default_factory=list)

    def agrees_longer(self, other: ReplayResult) -> bool:
        """Return whether this replay deviates later than another, or equally late but rarer."""
        if self.first is None or other.first is None:
            return self.first is None and other.first is not None
        return (-self.first[0], self.out_of_tolerance) < (-other.first[0], other.out_of_tolerance)


#: Called with a chunk and the replayed efforts, shape (N, n), NaN if none.
Sink = Callable[[Recording, Array], None]


class Replay:
    """One replay of a recording.

    Attributes:
        result: The result so far.

    Args:
        setup: Setup of the replay.
        tolerance: Tolerance of the commands, N m or N.
    """

    def __init__(self, setup: Setup, tolerance: float) -> None:
        self._setup, self._tolerance = setup, tolerance
        self._parameters = {**setup.parameters, **setup.changes}
        self._generator = RecordedReference(setup.tree) if setup.from_reference else None
        first = {'activation_ramp_s': 0.0} if setup.activation == 'running' else {}
        self._session = ControllerSession(
            setup.tree, self._parameters | first, setup.driver, generator=self._generator
        )
        self._waiting = sorted(setup.events, key=lambda event: event.time)
        self._row = 0
        self._last_reference: Array | None = None
        self._known_fault: Exception | None = None  # of a locked joint that moved
        self.result = ReplayResult()

    def run(self, chunks: Iterable[Recording], sink: Sink | None = None) -> ReplayResult:
        """Replay a recording with joints in model order, and return the result."""
        for chunk, states in recorded_states(self._setup, chunks):
            efforts = np.full(chunk.position.shape, np.nan)
            for k, state in enumerate(states):
                step = self._step(state)
                if step is not None:
                    efforts[k] = step
                    self._compare(state, step)
                elif self._is_running:
                    self.result.unanswered += 1
                self._row += 1
            if sink is not None:
                sink(chunk, efforts)
        return self.result

    def _step(self, state: RecordedState) -> Array | None:
        """Return the effort for a state; None if the controller sent no command for it."""
        if self._is_running:
            self._apply(state, state.is_after)
        if state.answered:
            self._set_reference(state)
            return self._compute_effort(state)
        if not self._is_running:
            self._observe(state)
        return None

    @property
    def _is_running(self) -> bool:
        return self._session.mode is not SessionMode.INACTIVE

    def _compute_effort(self, state: RecordedState) -> Array | None:
        """Return the session's effort for a state; None if the session rejects it."""
        if not self._is_running:
            self._activate(state)
        self._apply(state, state.has_before_command)
        if not self._observe(state):
            self.result.refused += 1
            return None
        self._session.settle()
        self._check_reference(state.reference)
        return self._session.loop.effort.copy()

    def _check_reference(self, reference: Array) -> None:
        """Compare with the recorded reference, if that changed since the previous state."""
        new = self._last_reference is None or (reference != self._last_reference).any()
        self._last_reference = reference
        if new and np.isfinite(reference).all():
            error = float(np.abs(self._session.loop.reference.position - reference).max())
            self.result.reference_error = max(self.result.reference_error, error)

    def _activate(self, state: RecordedState) -> None:
        """Activate the session at the state given by ``activation``.

        If that is empty: at this state or the previous one, whichever position equals the first
        reference.
        """
        activation, session = self._setup.activation, self._session
        if not activation:
            here = bool((state.reference == state.position).all())
            before = not here and bool((state.reference == session.loop.q).all())
            activation = 'before' if before else 'here'
        if activation == 'earlier' and self._setup.first_reference is not None:
            stamp, position = self._setup.first_reference
            session.on_state(stamp, _ARRIVAL_NS, position, np.zeros(len(position)))
        elif activation != 'before' or self._row == 0:
            self._observe(state)
        for event in self._waiting:
            if state.is_after(event) and event.kind == 'parameters':
                self._move_locked_joints(event)
        session.activate(_ARRIVAL_NS)
        session.perform(ParameterChange(session, self._parameters))
        self._apply(state, state.is_after)

    def _observe(self, state: RecordedState) -> bool:
        """Pass a state to the session; return whether it computed a command."""
        session = self._session
        measured = state.measured_effort if session.wants_effort else None
        q, v = state.position, state.velocity
        answered = session.on_state(state.stamp, _ARRIVAL_NS, q, v, measured)
        if session.fault is not None and session.fault is not self._known_fault:
            raise session.fault
        return answered

    def _set_reference(self, state: RecordedState) -> None:
        """Set the recorded reference, if that is followed and known."""
        finite = np.isfinite(state.reference).all() and np.isfinite(state.reference_velocity).all()
        if self._generator is not None and finite:
            acceleration = np.nan_to_num(state.reference_acceleration)
            self._generator.set_reference(state.reference, state.reference_velocity, acceleration)

    def _compare(self, state: RecordedState, effort: Array) -> None:
        if not np.isfinite(state.command).all():
            self.result.lost += 1
            return
        self.result.compared += 1
        if np.abs(effort - state.command).max() > self._tolerance:
            self.result.out_of_tolerance += 1
            self.result.last = float(state.stamp) / NANO
            if self.result.first is None:
                self.result.first = (self._row, self.result.last)
                self.result.first_ns = state.now
        if self.result.first is None:
            self.result.agreed_ns = self.result.agreed_ns[1], state.now

    # Events -------------------------------------------------------------------------------------

    def _apply(self, state: RecordedState, due: Callable[[Event], bool]) -> None:
        """Apply the waiting events that are due."""
        near = takewhile(state.may_include, self._waiting)
        for event in [event for event in near if due(event)]:
            self._waiting.remove(event)
            try:
                self._perform(event)
            except RobotDynamicsError as error:
                self.result.problems.append(f'{event.kind} at {event.time / NANO:g} s: {error}')

    def _perform(self, event: Event) -> None:
        session = self._session
        if event.kind == 'parameters':
            self._move_locked_joints(event)
            session.perform(ParameterChange(session, {**event.content, **self._setup.changes}))
        elif event.kind == 'recovery':
            session.fall_silent()
        elif event.kind == 'locked':
            session.on_locked(event.content)
            self._known_fault = session.fault
        elif event.kind == 'release':
            session.perform(ReleaseChange(session))
        elif self._generator is None or event.kind in _NO_REFERENCE:
            # else the effect is part of the recorded reference
            session.perform(self._change(event))

    def _move_locked_joints(self, event: Event) -> None:
        """Move the locked joints of the model to the positions given by new parameters."""
        watch, load = LockedJointWatch(self._session.tree, event.content), self._setup.load
        if load is not None and watch.names and watch.set_positions(event.content):
            changes = {'locked': event.content['locked']}
            self._session.on_locked(watch.modelled)
            self._session.perform(ModelChange(self._session, lambda _: load(changes)))

    def _change(self, event: Event) -> SessionChange:
        """Return the session change of a trajectory or a streamed target."""
        if event.kind in STREAMED:
            return STREAMED[event.kind](self._session, event.content)
        read = partial(read_trajectory, event.content, self._setup.tree.joint_names)
        return TrajectoryChange(self._session, read)


# The order of events -----------------------------------------------------------------------------

_NEAR_NS = 20_000_000  # longest time from a streamed message to a deviation caused by its order
_DELAY_NS = 200_000_000  # longer than the latency of any message
_POSTPONED = 4  # how often to postpone a streamed message past the first deviation

#: Returns a variant of a setup, given the result of its replay.
_Variant = Callable[[Setup, ReplayResult], Setup]


def replay(
    setup: Setup, chunks: Callable[[], Iterable[Recording]], tolerance: float, sink: Sink
) -> ReplayResult:
    """Replay a recording with the order of events that agrees best with its commands.

    Args:
        setup: Setup of the replay.
        chunks: Returns a new iterator over the parts of the recording at every call.
        tolerance: Tolerance of the commands, N m or N; infinite to keep the order of events
            given by their times.
        sink: Receives the rows of the final replay.

    Raises:
        RobotDynamicsError: A parameter is invalid, or the recording cannot be read.
    """
    if tolerance < np.inf:
        setup = _in_best_order(setup, chunks, tolerance)
    return Replay(setup, tolerance).run(chunks(), sink)


def _in_best_order(
    setup: Setup, chunks: Callable[[], Iterable[Recording]], tolerance: float
) -> Setup:
    result = Replay(setup, tolerance).run(chunks())
    for variant, event in _variants(setup):
        if result.first is None:
            break
        if event is not None and abs(event.time - result.first_ns) > _NEAR_NS:
            continue
        candidate = variant(setup, result)
        other = Replay(candidate, tolerance).run(chunks())
        if other.agrees_longer(result):
            setup, result = candidate, other
    return setup


def _variants(setup: Setup) -> Iterator[tuple[_Variant, Event | None]]:
    """Yield variants of a setup, each with the streamed message it concerns, or None."""
    for activation in ('before', 'here', *(('earlier',) if setup.first_reference else ())):
        yield partial(_with_activation, activation=activation), None
    kinds = [event.kind for event in setup.events]
    for kind in sorted(STREAMS.keys() & set(kinds)):
        yield partial(_reordered, places={i for i, one in enumerate(kinds) if one == kind}), None
        yield partial(_delayed, kind=kind), None
        yield partial(_advanced, kind=kind), None
        for since in (0, 1):
            yield partial(_unheard, kind=kind, since=since), None
    for place, event in enumerate(setup.events):
        if not event.certain:
            streamed = event.kind in STREAMS
            yield partial(_reordered, places={place}), event if streamed else None
            for _ in range(_POSTPONED if streamed else 0):
                yield partial(_postponed, place=place, past=False), event
                yield partial(_postponed, place=place, past=True), event


def _with_activation(setup: Setup, _: ReplayResult, activation: str) -> Setup:
    return replace(setup, activation=activation)


def _postponed(setup: Setup, result: ReplayResult, place: int, past: bool) -> Setup:
    """Return a setup with an event moved to just before or just past the first deviation."""
    events, time = list(setup.events), result.first_ns if past else result.agreed_ns[1]
    events[place] = replace(events[place], time=max(events[place].time, time), before_tick=False)
    return replace(setup, events=tuple(events))


def _unheard(setup: Setup, result: ReplayResult, kind: str, since: int) -> Setup:
    """Return a setup in which the controller received a stream only since the deviation.

    Its publisher may have been connected with the recorder earlier than with the controller.

    ``since`` is the index in ``agreed_ns`` of the state after which it was received.
    """
    time = result.agreed_ns[since]
    events = [
        replace(event, time=max(event.time, time)) if event.kind == kind else event
        for event in setup.events
    ]
    return replace(setup, events=tuple(events))


def _delayed(setup: Setup, result: ReplayResult, kind: str) -> Setup:
    """Return a setup with a stream delayed from the first deviation on.

    The next deviation then shows when its first message was received.
    """
    return _shifted(setup, kind, result.first_ns - _NEAR_NS, _DELAY_NS)


def _advanced(setup: Setup, result: ReplayResult, kind: str) -> Setup:
    """Return a setup with a stream advanced so that its next message precedes the deviation."""
    here = result.first_ns - 1
    coming = [one.time for one in setup.events if one.kind == kind and one.time > here]
    return _shifted(setup, kind, here, here - min(coming, default=here))


def _shifted(setup: Setup, kind: str, since_ns: int, by_ns: int) -> Setup:
    events = [
        replace(one, time=one.time + by_ns) if one.kind == kind and one.time >= since_ns else one
        for one in setup.events
    ]
    return replace(setup, events=tuple(events))


def _reordered(setup: Setup, _: ReplayResult, places: Collection[int]) -> Setup:
    """Return a setup with some events in the opposite order relative to the command."""
    events = [
        replace(event, before_tick=event.before_tick != (place in places))
        for place, event in enumerate(setup.events)
    ]
    return replace(setup, events=tuple(events))
