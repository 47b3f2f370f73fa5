# SPDX-License-Identifier: Apache-2.0
"""The controller's own loop on recorded states: what it would have commanded.

The same object as in the node, fed with the states that the controller answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any

import numpy as np

from robot_dynamics_ros.control.changes import (
    ModelChange,
    ParameterChange,
    ReleaseChange,
    TrajectoryChange,
)
from robot_dynamics_ros.control.drivers.conversion import DriverConversion
from robot_dynamics_ros.control.modes import SessionChange, SessionMode
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.settings import LockedJointWatch
from robot_dynamics_ros.control.streamed import STREAMED
from robot_dynamics_ros.control.trajectories.points import read_trajectory
from robot_dynamics_ros.control.trajectories.waypoints import Points
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.recording import NANO, Recording
from robot_dynamics_ros.recordings.replay.events import Event, RecordedReference
from robot_dynamics_ros.spatial.scalar import Array

#: A silence is an event of the recording here, not of a clock.
_ARRIVAL_NS = 0
_NO_REFERENCE = ('target_wrench', 'measured_wrench', 'enable_guiding')  # what leads none


@dataclass(frozen=True, eq=False)
class Setup:
    """What is replayed.

    Attributes:
        tree: The robot that the controller believes in.
        parameters: Its parameters at the start.
        changes: Parameters that are set otherwise than recorded, all the time.
        events: What it received later.
        driver: What stands between model and driver, or None.
        from_reference: Whether the recorded reference is followed instead of the trajectories.
        by_arrival: Whether events and states meet on the clock of their arrival.
        begins: Where the controller began: 'here', at the first state that it answered, 'before',
            at the state before that, 'earlier', at its first reference, or 'running', at the first
            answer without a ramp, as it ran already; empty: at whichever of the first two the
            first reference is, as that is where it began.
        first_reference: Stamp (ns) and positions, shape (n,), of the first reference, if that is
            older than every state; else None.
        reference_shows_answer: Whether a recorded reference tells of an answer without a command.
        load: Returns the robot for other parameters ``locked``.
    """

    tree: RobotTree
    parameters: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    driver: DriverConversion | None = None
    from_reference: bool = False
    by_arrival: bool = False
    begins: str = ''
    first_reference: tuple[int, Array] | None = None
    reference_shows_answer: bool = False
    load: Callable[[Mapping[str, Any]], RobotTree] | None = None


@dataclass
class ReplayResult:
    """What came of a replay, so far.

    Attributes:
        compared: Commands that were compared.
        lost: Answers of the controller whose command is not in the bag.
        unanswered: States behind the first answer that have none.
        refused: States that the loop did not believe though the controller answered.
        reference_error: Largest difference to the recorded reference, rad or m.
        first: Place and time (s) of the first command beyond the tolerance, or None.
        first_ns: When that state came, on the clock of the events, ns.
        last: Time of the last one, s, or None.
        beyond: How many there are.
        problems: What could not be done, one sentence each.
    """

    compared: int = 0
    lost: int = 0
    unanswered: int = 0
    refused: int = 0
    reference_error: float = 0.0
    first: tuple[int, float] | None = None
    first_ns: int = 0
    last: float | None = None
    beyond: int = 0
    problems: list[str] = field(default_factory=list)

    def agrees_longer(self, other: ReplayResult) -> bool:
        """Return whether it differs from the recording later than another, or less often."""
        if self.first is None or other.first is None:
            return self.first is None and other.first is not None
        return (-self.first[0], self.beyond) < (-other.first[0], other.beyond)


@dataclass(frozen=True)
class _StateTimes:
    """A state: its time and that of the next on the clock of the events, and its stamp, ns."""

    now: int
    stamp: int
    end: int

    def may_have(self, event: Event) -> bool:
        """Return whether events behind this one, sorted, may have come before the next state."""
        return event.stamped or event.time < self.end

    def is_behind(self, event: Event) -> bool:
        """Return whether an event came before this state was published."""
        return event.time < (self.stamp if event.stamped else self.now)

    def is_within(self, event: Event) -> bool:
        """Return whether an event came between this state and its answer."""
        return event.before_tick and event.time < self.end


#: Called with the rows of a chunk and the efforts of the replay for each, NaN where none.
Sink = Callable[[Recording, Array], None]


class Replay:
    """One pass of a loop over a recording.

    Attributes:
        course: What came of it.

    Args:
        setup: What is replayed.
        tolerance: Difference of efforts that counts as none, N m or N.
    """

    def __init__(self, setup: Setup, tolerance: float) -> None:
        self._setup, self._tolerance = setup, tolerance
        self._parameters = {**setup.parameters, **setup.changes}
        self._generator = RecordedReference(setup.tree) if setup.from_reference else None
        first = {'activation_ramp_s': 0.0} if setup.begins == 'running' else {}
        self._session = ControllerSession(
            setup.tree, self._parameters | first, setup.driver, generator=self._generator
        )
        self._waiting = sorted(setup.events, key=lambda event: event.time)
        self._row = 0
        self._last_reference: Array | None = None
        self._known_fault: Exception | None = None  # of a locked joint that moved
        self.course = ReplayResult()

    def run(self, chunks: Iterable[Recording], sinks: Iterable[Sink] = ()) -> ReplayResult:
        """Feed a recording, its joints in the order of the model; return how it compares."""
        sinks = tuple(sinks)
        for chunk, acceleration in _with_acceleration(chunks):
            efforts = np.full(chunk.position.shape, np.nan)
            for k, step in enumerate(self._steps(chunk, acceleration)):
                if step is not None:
                    efforts[k] = step
                    self._compare(chunk, k, step)
                elif self._is_running:
                    self.course.unanswered += 1
                self._row += 1
            for sink in sinks:
                sink(chunk, efforts)
        return self.course

    def _steps(self, chunk: Recording, acceleration: Array) -> Iterator[Array | None]:
        """Yield the effort for each state of a chunk; None for one that was not answered."""
        clock = chunk.arrival_ns if self._setup.by_arrival else chunk.stamp_ns
        answered = np.asarray(np.isfinite(chunk.effort).all(axis=1))
        if self._setup.reference_shows_answer:
            answered |= np.asarray(np.isfinite(chunk.reference_position).all(axis=1))
        last = clock[-1:] + int(np.median(np.diff(clock))) if len(clock) > 1 else clock + 1
        ends = np.concatenate([clock[1:], last])
        for k, is_answered in enumerate(answered.tolist()):
            instant = _StateTimes(int(clock[k]), int(chunk.stamp_ns[k]), int(ends[k]))
            if self._is_running:
                self._apply(instant, instant.is_behind)
            if self._generator is not None and is_answered:
                self._show(chunk, k, acceleration[k])
            if is_answered:
                yield self._answer(chunk, k, instant)
            else:
                if not self._is_running:
                    self._observe(chunk, k)
                yield None

    @property
    def _is_running(self) -> bool:
        return self._session.mode is not SessionMode.INACTIVE

    def _answer(self, chunk: Recording, k: int, instant: _StateTimes) -> Array | None:
        """Return the session's answer to a state that the controller answered."""
        if not self._is_running:
            self._activate(chunk, k, instant)
        self._apply(instant, instant.is_within)
        if not self._observe(chunk, k):
            self.course.refused += 1
            return None
        self._session.settle()
        self._check_reference(chunk.reference_position[k])
        return self._session.loop.effort.copy()

    def _check_reference(self, reference: Array) -> None:
        """Compare with the recorded reference; one that is held counts where it is new."""
        new = self._last_reference is None or (reference != self._last_reference).any()
        self._last_reference = reference
        if new and np.isfinite(reference).all():
            error = float(np.abs(self._session.loop.reference.position - reference).max())
            self.course.reference_error = max(self.course.reference_error, error)

    def _activate(self, chunk: Recording, k: int, instant: _StateTimes) -> None:
        """Start the loop where the controller did: at this state, or at the one before.

        The first reference is the position at which it started.
        """
        begins, session = self._setup.begins, self._session
        if not begins:
            held = chunk.reference_position[k]
            here = bool((held == chunk.position[k]).all())
            before = not here and bool((held == session.loop.q).all())
            begins = 'before' if before else 'here'
        if begins == 'earlier' and self._setup.first_reference is not None:
            stamp, position = self._setup.first_reference
            session.on_state(stamp, _ARRIVAL_NS, position, np.zeros(len(position)))
        elif begins != 'before' or self._row == 0:
            self._observe(chunk, k)
        for event in self._waiting:
            if instant.is_behind(event) and event.kind == 'parameters':
                self._follow_locked(event)
        session.activate(_ARRIVAL_NS)
        session.perform(ParameterChange(session, self._parameters))
        self._apply(instant, instant.is_behind)

    def _observe(self, chunk: Recording, k: int) -> bool:
        """Show the session a state; return whether it answered."""
        stamp, session = int(chunk.stamp_ns[k]), self._session
        measured = chunk.measured_effort[k] if session.wants_effort else None
        q, v = chunk.position[k], chunk.velocity[k]
        answered = session.on_state(stamp, _ARRIVAL_NS, q, v, measured)
        if session.fault is not None and session.fault is not self._known_fault:
            raise session.fault
        return answered

    def _show(self, chunk: Recording, k: int, acceleration: Array) -> None:
        assert self._generator is not None  # only called with one
        position, velocity = chunk.reference_position[k], chunk.reference_velocity[k]
        if np.isfinite(position).all() and np.isfinite(velocity).all():
            self._generator.show(position, velocity, np.nan_to_num(acceleration))

    def _compare(self, chunk: Recording, k: int, effort: Array) -> None:
        if not np.isfinite(chunk.effort[k]).all():
            self.course.lost += 1
            return
        self.course.compared += 1
        if np.abs(effort - chunk.effort[k]).max() > self._tolerance:
            self.course.beyond += 1
            self.course.last = float(chunk.time[k])
            if self.course.first is None:
                clock = chunk.arrival_ns if self._setup.by_arrival else chunk.stamp_ns
                self.course.first = (self._row, self.course.last)
                self.course.first_ns = int(clock[k])

    # Events -------------------------------------------------------------------------------------

    def _apply(self, instant: _StateTimes, due: Callable[[Event], bool]) -> None:
        """Take in what has reached the controller meanwhile."""
        near = takewhile(instant.may_have, self._waiting)
        for event in [event for event in near if due(event)]:
            self._waiting.remove(event)
            try:
                self._take(event)
            except RobotDynamicsError as error:
                self.course.problems.append(f'{event.kind} at {event.time / NANO:g} s: {error}')

    def _take(self, event: Event) -> None:
        session = self._session
        if event.kind == 'parameters':
            self._follow_locked(event)
            session.perform(ParameterChange(session, {**event.content, **self._setup.changes}))
        elif event.kind == 'recovery':
            session.fall_silent()
        elif event.kind == 'locked':
            session.on_locked(event.content)
            self._known_fault = session.fault
        elif event.kind == 'release':
            session.perform(ReleaseChange(session))
        elif self._generator is None or event.kind in _NO_REFERENCE:
            # else the recorded reference tells what came of it
            session.perform(self._change(event))

    def _follow_locked(self, event: Event) -> None:
        """Let the model have the locked joints where new parameters have them."""
        watch, load = LockedJointWatch(self._session.tree, event.content), self._setup.load
        if load is not None and watch.names and watch.place(event.content):
            words = {'locked': event.content['locked']}
            self._session.on_locked(watch.modelled)
            self._session.perform(ModelChange(self._session, lambda _: load(words)))

    def _change(self, event: Event) -> SessionChange:
        """Return what a trajectory or a streamed target changes."""
        if event.kind in STREAMED:
            return STREAMED[event.kind](self._session, event.content)
        return TrajectoryChange(self._session, partial(self._read, event))

    def _read(self, event: Event) -> tuple[Points | None, int]:
        """Return points and start of a trajectory; none of a hold."""
        if event.kind == 'hold':
            return None, 0
        points, start_ns = read_trajectory(event.content, self._setup.tree.joint_names)
        return points, event.time if event.stamped else start_ns


def _with_acceleration(chunks: Iterable[Recording]) -> Iterator[tuple[Recording, Array]]:
    """Yield chunks with the acceleration of their reference, from each state to the next."""
    held: Recording | None = None
    for chunk in chunks:
        if held is not None:
            yield held, _acceleration(held, chunk.rows(slice(0, 1)))
        held = chunk
    if held is not None:
        yield held, _acceleration(held, None)


def _acceleration(chunk: Recording, following: Recording | None) -> Array:
    whole = chunk if following is None else chunk.followed_by(following)
    steps = np.diff(whole.stamp_ns)[:, np.newaxis] / NANO
    acceleration = np.diff(whole.reference_velocity, axis=0) / np.where(steps > 0.0, steps, 1.0)
    if following is None:  # of the last state nothing is known; it goes on
        last = acceleration[-1:] if len(acceleration) else np.zeros((1, acceleration.shape[1]))
        acceleration = np.vstack([acceleration, last])
    return acceleration
