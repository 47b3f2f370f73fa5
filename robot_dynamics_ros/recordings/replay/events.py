# SPDX-License-Identifier: Apache-2.0
"""What a controller received during a recording, and how it answered: what is replayed.

States, parameters, trajectories and streams; and the recorded reference in place of the
trajectories.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
_EARLY_NS = 50_000_000  # by which a recorder may see an answer before what it answers
_RECOVERED = 'held: states returned'
_RELEASED = 'held: told to go on'


@dataclass(frozen=True, eq=False)
class Event:
    """Something that reached the controller between two states.

    Attributes:
        kind: 'parameters', 'trajectory', 'hold', 'recovery', 'release' from a reaction, 'locked'
            for positions of locked joints, or what streamed, see ``STREAMS``.
        time: On the clock of the bag, ns; at or after that of the state before it.
        content: Parameters by name, or the trajectory message, with the start that was answered.
        before_tick: Whether it came before the answer to that state; by the times in a bag both
            are possible.
        certain: Whether that is known.
        stamped: Whether ``time`` is on the clock of the states' stamps.
    """

    kind: str
    time: int
    content: Any = None
    before_tick: bool = False
    certain: bool = False
    stamped: bool = False

    def turned(self) -> Event:
        """Return the event on the other side of the answer."""
        return replace(self, before_tick=not self.before_tick)


def read_events(reader: RecordingReader) -> tuple[list[Event], int]:
    """Return what the controller of a bag received after its first parameters, by time.

    A trajectory that starts at once begins at the state that its answer names. One that was
    rejected is left out; so is one without an answer, if there are answers to others.

    Returns:
        The events, and how many messages could not be read.
    """
    topics = reader.topics
    names = [t for t in (topics.parameters, topics.trajectory, topics.status) if t]
    names += topics.streams
    events: list[Event] = []
    sent: list[tuple[int, Any]] = []
    answers: list[tuple[int, str]] = []
    known, unreadable = False, 0
    for topic, time, message in reader.bag.messages(*names, strict=False):
        if message is None:
            unreadable += 1
            continue
        if topic == topics.parameters:
            if known:
                events.append(Event('parameters', time, recorded_parameters(message.data)))
            known = True
        elif topic in topics.streams:
            events.append(Event(topics.streams[topic], time, message))
        elif topic == topics.trajectory:
            sent.append((time, message))
        else:
            answers.append((time, str(message.data)))
    recoveries = [entry for entry in answers if entry[1].startswith(_RECOVERED)]
    events += [Event('recovery', time, before_tick=True, certain=True) for time, _ in recoveries]
    releases = [entry for entry in answers if entry[1].startswith(_RELEASED)]
    events += [Event('release', time) for time, _ in releases]
    events += _trajectories(sent, answers)
    return sorted(events, key=lambda event: event.time), unreadable


def locked_events(
    reader: RecordingReader, watch: LockedJointWatch, events: Sequence[Event]
) -> Iterator[Event]:
    """Yield where locked joints leave their place or come back, behind the answer to that state.

    Args:
        reader: Of the bag.
        watch: Of the controller's robot; spent here.
        events: The others, by time; those of parameters may move the model after them.
    """
    waiting = [event for event in events if event.kind == 'parameters']
    for _, time, message in reader.bag.messages(reader.topics.states, strict=False):
        while waiting and waiting[0].time <= time:
            watch.configure(waiting[0].content)
            watch.place(waiting.pop(0).content)
        if message is None or len(message.position) != len(message.name):
            continue
        heard = dict(zip(message.name, message.position.tolist(), strict=True))
        positions = [heard.get(*pair) for pair in zip(watch.names, watch.measured, strict=True)]
        first, before = np.isnan(watch.measured).any(), watch.deviation
        watch.update(np.array(positions))
        if first or bool(before) != bool(watch.deviation):
            yield Event('locked', stamp_ns(message), np.array(positions), stamped=True)


def _trajectories(sent: list[tuple[int, Any]], told: list[tuple[int, str]]) -> list[Event]:
    """Return trajectories that were accepted, or all where none is known to be answered.

    Args:
        sent: Time, ns, and message of each trajectory.
        told: Time, ns, and text of all that the controller said, also of goals by its action.
    """
    events, answered, waiting = [], False, sent
    for time, text in told:
        near = (k for k, (begin, _) in enumerate(waiting) if begin <= time + _EARLY_NS)
        place = next((k for k in near if _answers(text, waiting[k][1])), None)
        if place is None:
            continue
        answered, (begin, message) = True, waiting[place]
        waiting = waiting[place + 1 :]
        if not text.startswith(_REJECTED):
            events.append(_accepted(text, max(begin, time), message))
    return events if answered else [_trajectory(*entry) for entry in sent]


def _answers(text: str, message: Any) -> bool:
    """Return whether a text may be the answer to a trajectory."""
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
    """Return a trajectory; before its start it does not matter when it came."""
    return Event('trajectory', time, message, certain=stamp_ns(message) > time)


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


class RecordedState(NamedTuple):
    """A state, and what was recorded with it.

    Attributes:
        now, end: Time of this state and of the next on the clock of the events, ns.
        stamp: Of this state, ns.
        position, velocity, measured_effort: Shape (n,).
        command: The recorded answer, shape (n,); NaN where none was recorded.
        reference, reference_velocity, reference_acceleration: Shape (n,), likewise.
        answered: Whether the controller answered.
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

    def may_have(self, event: Event) -> bool:
        """Return whether events behind this one, sorted, may have come before the next state."""
        return event.stamped or event.time < self.end

    def is_behind(self, event: Event) -> bool:
        """Return whether an event came before this state was published."""
        return event.time < (self.stamp if event.stamped else self.now)

    def is_within(self, event: Event) -> bool:
        """Return whether an event came between this state and its answer."""
        return event.before_tick and event.time < self.end


def recorded_states(
    setup: Setup, chunks: Iterable[Recording]
) -> Iterator[tuple[Recording, Iterator[RecordedState]]]:
    """Yield chunks of a recording with their states."""
    held: Recording | None = None
    following: Iterable[Recording | None] = chain(chunks, (None,))
    for chunk in following:
        if held is not None:
            yield held, _states(setup, held, _acceleration(held, chunk))
        held = chunk


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
    """Return the acceleration of the reference (N, n), from each state to the next."""
    stamps, velocity = chunk.stamp_ns, chunk.reference_velocity
    if following is not None:
        stamps = np.append(stamps, following.stamp_ns[:1])
        velocity = np.vstack([velocity, following.reference_velocity[:1]])
    steps = np.diff(stamps)[:, np.newaxis] / NANO
    acceleration = np.diff(velocity, axis=0) / np.where(steps > 0.0, steps, 1.0)
    if following is None:  # of the last state nothing is known; it goes on
        last = acceleration[-1:] if len(acceleration) else np.zeros((1, acceleration.shape[1]))
        acceleration = np.vstack([acceleration, last])
    return acceleration


class RecordedReference(ReferenceGenerator):
    r"""Shows the loop the reference that was recorded at each state.

    The acceleration was not recorded; :math:`(\dot q_{r,k+1} - \dot q_{r,k})/h` is the one that a
    ``ReferenceSampler`` gives for a plant that holds its effort.

    Args:
        tree: The robot.
    """

    def __init__(self, tree: RobotTree) -> None:
        super().__init__(tree)
        self._shown = np.zeros((3, tree.n))

    def show(self, position: Array, velocity: Array, acceleration: Array) -> None:
        """Give the reference of the next tick, each of shape (n,)."""
        self._shown[:] = position, velocity, acceleration

    def glide(self, q: Array, dt: float) -> bool:
        """Return whether the reference that was shown is at rest."""
        return not self.reference.velocity.any()

    def sample(self, stamp_ns: int) -> None:
        """Write the reference that was shown."""
        self._now_ns = stamp_ns
        reference = self.reference
        reference.position[:], reference.velocity[:], reference.acceleration[:] = self._shown
