# SPDX-License-Identifier: Apache-2.0
"""Inputs of a replay: recorded states, and events such as parameters, trajectories and streams.

Also the recorded reference, which can replace the trajectories.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.drivers.conversion import DriverConversion
from robot_dynamics_ros.control.settings import LockedJointWatch
from robot_dynamics_ros.control.trajectories.reference_generator import ReferenceGenerator
from robot_dynamics_ros.messages import stamp_ns
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.recording import NANO, Recording
from robot_dynamics_ros.recordings.recording_reader import RecordingReader, recorded_parameters
from robot_dynamics_ros.spatial.scalar import Array

_ACCEPTED = re.compile(r'accepted: (\d+) points? from (-?\d+)\.(\d{9}) s')
_HELD = 'held: empty trajectory'
_REJECTED = 'rejected: '
_EARLY_NS = 50_000_000  # how much earlier than a trajectory its response may be recorded
_RECOVERED = 'held: states returned'
_RELEASED = 'held: told to go on'


@dataclass(frozen=True, eq=False)
class Event:
    """An event received by the controller between two states.

    Attributes:
        kind: 'parameters', 'trajectory', 'hold', 'recovery', 'release' from a reaction, 'locked'
            for positions of locked joints, or a stream, see ``STREAMS``.
        time: Time on the clock of the bag, ns; not before that of the previous state.
        content: Parameters by name, positions of locked joints, or the received message (a
            trajectory with the start that the controller reported).
        before_tick: Whether the controller received it before computing the command for the
            previous state; the times in a bag do not determine the order.
        certain: Whether that order is known.
        stamped: Whether ``time`` is on the clock of the state timestamps.
    """

    kind: str
    time: int
    content: Any = None
    before_tick: bool = False
    certain: bool = False
    stamped: bool = False


def read_events(reader: RecordingReader) -> tuple[list[Event], int]:
    """Read the events received by the controller after its first parameters, sorted by time.

    A trajectory without a start time starts at the time reported in the controller's response.
    Rejected trajectories are omitted, and so are those without a response if others have one.

    Returns:
        The events, and the number of messages that could not be read.
    """
    topics = reader.topics
    names = [t for t in (topics.parameters, topics.trajectory, topics.status) if t]
    names += topics.streams
    events: list[Event] = []
    trajectories: list[tuple[int, Any]] = []
    responses: list[tuple[int, str]] = []
    has_parameters, unreadable = False, 0
    for topic, time, message in reader.bag.messages(*names, strict=False):
        if message is None:
            unreadable += 1
            continue
        if topic == topics.parameters:
            if has_parameters:
                events.append(Event('parameters', time, recorded_parameters(message.data)))
            has_parameters = True
        elif topic in topics.streams:
            events.append(Event(topics.streams[topic], time, message))
        elif topic == topics.trajectory:
            trajectories.append((time, message))
        else:
            responses.append((time, str(message.data)))
    recoveries = [entry for entry in responses if entry[1].startswith(_RECOVERED)]
    events += [Event('recovery', time, before_tick=True, certain=True) for time, _ in recoveries]
    releases = [entry for entry in responses if entry[1].startswith(_RELEASED)]
    events += [Event('release', time) for time, _ in releases]
    events += _trajectories(trajectories, responses)
    return sorted(events, key=lambda event: event.time), unreadable


def locked_events(
    reader: RecordingReader, watch: LockedJointWatch, events: Sequence[Event]
) -> Iterator[Event]:
    """Yield an event whenever a locked joint leaves its configured position or returns to it.

    Args:
        reader: Reader of the bag.
        watch: Watch of the locked joints of the controller's robot; modified.
        events: The other events, sorted by time; parameters may change the configured positions.
    """
    waiting = [event for event in events if event.kind == 'parameters']
    for _, time, message in reader.bag.messages(reader.topics.states, strict=False):
        while waiting and waiting[0].time <= time:
            watch.configure(waiting[0].content)
            watch.set_positions(waiting.pop(0).content)
        if message is None or len(message.position) != len(message.name):
            continue
        by_name = dict(zip(message.name, message.position.tolist(), strict=True))
        positions = [by_name.get(*pair) for pair in zip(watch.names, watch.measured, strict=True)]
        first, before = np.isnan(watch.measured).any(), watch.deviation
        watch.update(np.array(positions))
        if first or bool(before) != bool(watch.deviation):
            yield Event('locked', stamp_ns(message), np.array(positions), stamped=True)


def _trajectories(sent: list[tuple[int, Any]], responses: list[tuple[int, str]]) -> list[Event]:
    """Return events of the accepted trajectories, or of all if none has a response.

    Args:
        sent: Time, ns, and message of each trajectory.
        responses: Time, ns, and text of all status messages, including those about action goals.
    """
    events, has_response, waiting = [], False, sent
    for time, text in responses:
        near = (k for k, (begin, _) in enumerate(waiting) if begin <= time + _EARLY_NS)
        place = next((k for k in near if _is_response(text, waiting[k][1])), None)
        if place is None:
            continue
        has_response, (begin, message) = True, waiting[place]
        waiting = waiting[place + 1 :]
        if not text.startswith(_REJECTED):
            events.append(_accepted(text, max(begin, time), message))
    return events if has_response else [_trajectory(*entry) for entry in sent]


def _is_response(text: str, message: Any) -> bool:
    """Return whether a status text can be the response to a trajectory."""
    accepted = _ACCEPTED.match(text)
    if accepted:
        return int(accepted[1]) == len(message.points)
    return text.startswith(_REJECTED) or (text.startswith(_HELD) and not message.points)


def _accepted(text: str, time: int, message: Any) -> Event:
    accepted = _ACCEPTED.match(text)
    if accepted is None:
        return Event('hold', time, message)
    if stamp_ns(message):
        return _trajectory(time, message)
    start = message.header.stamp
    start.sec, start.nanosec = int(accepted[2]), int(accepted[3])
    return Event('trajectory', stamp_ns(message), message, certain=True, stamped=True)


def _trajectory(time: int, message: Any) -> Event:
    """Return a trajectory event; its order is irrelevant if it starts later than received."""
    return Event('trajectory', time, message, certain=stamp_ns(message) > time)


@dataclass(frozen=True, eq=False)
class Setup:
    """Setup of a replay.

    Attributes:
        tree: Robot model of the controller.
        parameters: Initial parameters of the controller.
        changes: Parameters that override the recorded ones throughout the replay.
        events: Later events, sorted by time.
        driver: Conversion between model and driver units, or None.
        from_reference: Whether to follow the recorded reference instead of the trajectories.
        by_arrival: Whether to order events and states by receive time, not by timestamp.
        activation: State at which the controller was activated: 'here', the first state with a
            command; 'before', the state before that; 'earlier', that of its first reference; or
            'running', the first state with a command, without a ramp, as it ran already. Empty to
            choose 'here' or 'before', whichever state equals the first reference.
        first_reference: Timestamp, ns, and positions, shape (n,), of the first reference if it is
            older than all states; else None.
        reference_shows_answer: Whether a state with a reference but no command counts as answered.
        load: Returns the robot for changed parameters ``locked``.
    """

    tree: RobotTree
    parameters: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    driver: DriverConversion | None = None
    from_reference: bool = False
    by_arrival: bool = False
    activation: str = ''
    first_reference: tuple[int, Array] | None = None
    reference_shows_answer: bool = False
    load: Callable[[Mapping[str, Any]], RobotTree] | None = None


class RecordedState(NamedTuple):
    """A recorded state with its command and reference.

    Attributes:
        now, end: Time of this state and of the next on the clock of the events, ns.
        stamp: Timestamp of this state, ns.
        position, velocity, measured_effort: Measured state, shape (n,).
        command: Recorded command, shape (n,); NaN if missing.
        reference, reference_velocity, reference_acceleration: Recorded reference, shape (n,); NaN
            if missing.
        answered: Whether the controller sent a command for this state.
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

    def may_include(self, event: Event) -> bool:
        """Return whether this event or later ones may precede the next state."""
        return event.stamped or event.time < self.end

    def is_after(self, event: Event) -> bool:
        """Return whether an event precedes this state."""
        return event.time < (self.stamp if event.stamped else self.now)

    def has_before_command(self, event: Event) -> bool:
        """Return whether an event lies between this state and its command."""
        return event.before_tick and event.time < self.end


def recorded_states(
    setup: Setup, chunks: Iterable[Recording]
) -> Iterator[tuple[Recording, Iterator[RecordedState]]]:
    """Yield each chunk of a recording with an iterator of its states."""
    previous: Recording | None = None
    following: Iterable[Recording | None] = chain(chunks, (None,))
    for chunk in following:
        if previous is not None:
            yield previous, _states(setup, previous, _acceleration(previous, chunk))
        previous = chunk


def _states(setup: Setup, chunk: Recording, acceleration: Array) -> Iterator[RecordedState]:
    clock = chunk.arrival_ns if setup.by_arrival else chunk.stamp_ns
    last = clock[-1:] + int(np.median(np.diff(clock))) if len(clock) > 1 else clock + 1
    answered = np.asarray(np.isfinite(chunk.effort).all(axis=1))
    if setup.reference_shows_answer:
        answered |= np.asarray(np.isfinite(chunk.reference_position).all(axis=1))
    columns = (
        *(clock.tolist(), np.append(clock[1:], last).tolist(), chunk.stamp_ns.tolist()),
        *(chunk.position, chunk.velocity, chunk.measured_effort, chunk.effort),
        *(chunk.reference_position, chunk.reference_velocity, acceleration),
        answered.tolist(),
    )
    return map(RecordedState, *columns)


def _acceleration(chunk: Recording, following: Recording | None) -> Array:
    """Return the reference acceleration from each state to the next, shape (N, n)."""
    stamps, velocity = chunk.stamp_ns, chunk.reference_velocity
    if following is not None:
        stamps = np.append(stamps, following.stamp_ns[:1])
        velocity = np.vstack([velocity, following.reference_velocity[:1]])
    steps = np.diff(stamps)[:, np.newaxis] / NANO
    acceleration = np.diff(velocity, axis=0) / np.where(steps > 0.0, steps, 1.0)
    if following is None:  # repeat the last acceleration
        last = acceleration[-1:] if len(acceleration) else np.zeros((1, acceleration.shape[1]))
        acceleration = np.vstack([acceleration, last])
    return acceleration


class RecordedReference(ReferenceGenerator):
    r"""Reference generator that returns the reference recorded at each state.

    The acceleration is not recorded; :math:`(\dot q_{r,k+1} - \dot q_{r,k})/h` equals that of a
    ``ReferenceSampler`` for a plant that holds its effort.

    Args:
        tree: The robot.
    """

    def __init__(self, tree: RobotTree) -> None:
        super().__init__(tree)
        self._recorded = np.zeros((3, tree.n))

    def set_reference(self, position: Array, velocity: Array, acceleration: Array) -> None:
        """Set the reference of the next tick, each of shape (n,)."""
        self._recorded[:] = position, velocity, acceleration

    def glide(self, q: Array, dt: float) -> bool:
        """Return whether the current reference is at rest."""
        return not self.reference.velocity.any()

    def sample(self, stamp_ns: int) -> None:
        """Write the current reference."""
        self._now_ns = stamp_ns
        reference = self.reference
        reference.position[:], reference.velocity[:], reference.acceleration[:] = self._recorded
