# SPDX-License-Identifier: Apache-2.0
"""What a controller received during a recording: parameters, trajectories, and how it answered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.recordings.reading import RecordingReader, recorded_parameters
from robot_dynamics_ros.recordings.recording import NANO

_ACCEPTED = re.compile(r'^accepted: \d+ points from (-?\d+)\.(\d{9}) s')
_RECOVERED = 'held: states returned'


@dataclass(frozen=True)
class Event:
    """Something that reached the controller between two states.

    Attributes:
        kind: 'parameters', 'trajectory', 'hold' or 'recovery'.
        time: On the clock of the bag, ns; at or after that of the state before it.
        content: Parameters by name, or the trajectory message.
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
    found: list[Event] = []
    sent: list[tuple[int, Any]] = []
    answers: list[tuple[int, str]] = []
    known, unreadable = False, 0
    for topic, time, message in _messages(reader, names):
        if message is None:
            unreadable += 1
            continue
        if topic == topics.parameters:
            if known:
                found.append(Event('parameters', time, recorded_parameters(message.data)))
            known = True
        elif topic == topics.trajectory:
            sent.append((time, message))
        else:
            answers.append((time, str(message.data)))
    recoveries = [entry for entry in answers if entry[1].startswith(_RECOVERED)]
    found += [Event('recovery', time, before_tick=True, certain=True) for time, _ in recoveries]
    answers = [entry for entry in answers if entry not in recoveries]
    found += _trajectories(sent, answers)
    return sorted(found, key=lambda event: event.time), unreadable


def first_reference(reader: RecordingReader) -> tuple[int, dict[str, float]] | None:
    """Return the stamp of the first reference, ns, and its positions by joint; None without."""
    for _, _, message in _messages(reader, [reader.topics.reference]):
        if message is None or len(message.position) != len(message.name):
            return None
        return _stamp(message), dict(zip(message.name, message.position.tolist(), strict=True))
    return None


def _messages(reader: RecordingReader, topics: Sequence[str]) -> Iterator[tuple[str, int, Any]]:
    """Yield topic, time in ns and message; None for one that cannot be read."""
    for block in reader.bag.blocks(*topics):
        for topic, time, data in block:
            try:
                yield topic, time, reader.bag.deserialize(data, reader.bag.topics[topic])
            except RecordingError:
                yield topic, time, None


def _trajectories(sent: list[tuple[int, Any]], answers: list[tuple[int, str]]) -> list[Event]:
    found = []
    for place, (time, message) in enumerate(sent):
        told = answers[place] if place < len(answers) else None
        if told is None:
            if not answers:
                found.append(_trajectory(time, message))
            continue
        accepted = _ACCEPTED.match(told[1])
        if not message.points:
            found.append(Event('hold', max(time, told[0])))
        elif accepted and not _stamp(message):
            start = int(accepted[1]) * NANO + int(accepted[2])
            found.append(Event('trajectory', start, message, certain=True, stamped=True))
        elif accepted:
            found.append(_trajectory(max(time, told[0]), message))
    return found


def _trajectory(time: int, message: Any) -> Event:
    """Return a trajectory; before its start it does not matter when it came."""
    return Event('trajectory', time, message, certain=_stamp(message) > time)


def _stamp(message: Any) -> int:
    stamp = message.header.stamp
    return int(stamp.sec) * NANO + int(stamp.nanosec)
