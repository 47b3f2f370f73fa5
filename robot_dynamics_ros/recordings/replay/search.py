# SPDX-License-Identifier: Apache-2.0
"""A replay with what reached the controller in the order that its commands speak for.

Whether something reached the controller just before or just after it answered a state cannot be
told from the times in a bag. Where the commands differ, the other order is tried, and kept if they
then agree for longer. A streamed message goes its own way through the middleware: it may also have
come after later states.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.replay.events import Event
from robot_dynamics_ros.recordings.replay.run import Replay, ReplayResult, Setup, Sink
from robot_dynamics_ros.recordings.topics import STREAMS

_NEAR_NS = 20_000_000  # between a streamed message and what shows that it came otherwise
_POSTPONED = 4  # how often a streamed message is put behind the state that it cannot have met

#: Makes another setup of one, given how that went.
_OtherWay = Callable[[Setup, ReplayResult], Setup]


def replay(
    setup: Setup,
    chunks: Callable[[], Iterable[Recording]],
    tolerance: float,
    sinks: Callable[[], Iterable[Sink]] = tuple,
) -> ReplayResult:
    """Replay a recording, with its events in the order that the commands speak for.

    Args:
        setup: What is replayed.
        chunks: Returns the recording's parts, anew at every call.
        tolerance: Difference of efforts that counts as none, N m or N; infinite: the order of
            events is taken as it seems.
        sinks: Returns what takes the rows of the replay, for the pass that counts.

    Raises:
        RobotDynamicsError: A parameter is refused, or the recording cannot be read.
    """
    if not tolerance < np.inf:
        return _pass(setup, chunks, tolerance, tuple(sinks()))
    course = _pass(setup, chunks, tolerance)
    for other_way, event in _other_ways(setup):
        if course.first is None:
            break
        if event is not None and abs(event.time - course.first_ns) > _NEAR_NS:
            continue
        candidate = other_way(setup, course)
        other = _pass(candidate, chunks, tolerance)
        if other.agrees_longer(course):
            setup, course = candidate, other
    taking = tuple(sinks())
    return _pass(setup, chunks, tolerance, taking) if taking else course


def _other_ways(setup: Setup) -> Iterator[tuple[_OtherWay, Event | None]]:
    """Yield what could have been otherwise, and the streamed message near which that shows."""
    for begins in ('before', 'here', *(('earlier',) if setup.first_reference else ())):
        yield partial(_begun, begins=begins), None
    kinds = [event.kind for event in setup.events]
    for kind in sorted(STREAMS.keys() & set(kinds)):
        yield partial(_turned, places={i for i, one in enumerate(kinds) if one == kind}), None
    for place, event in enumerate(setup.events):
        if not event.certain:
            streamed = event.kind in STREAMS
            yield partial(_turned, places={place}), event if streamed else None
            for _ in range(_POSTPONED if streamed else 0):
                yield partial(_postponed, place=place), event


def _begun(setup: Setup, _: ReplayResult, begins: str) -> Setup:
    return replace(setup, begins=begins)


def _postponed(setup: Setup, course: ReplayResult, place: int) -> Setup:
    """Return a setup with an event behind the first answer that differs."""
    events = list(setup.events)
    time = max(events[place].time, course.first_ns)
    events[place] = replace(events[place], time=time, before_tick=False)
    return replace(setup, events=tuple(events))


def _turned(setup: Setup, _: ReplayResult, places: Collection[int]) -> Setup:
    """Return a setup with some of its events on the other side of the answer."""
    events = [
        event.turned() if place in places else event for place, event in enumerate(setup.events)
    ]
    return replace(setup, events=tuple(events))


def _pass(
    setup: Setup,
    chunks: Callable[[], Iterable[Recording]],
    tolerance: float,
    sinks: Iterable[Sink] = (),
) -> ReplayResult:
    one = Replay(setup, tolerance)
    one.run(chunks(), sinks)
    return one.course
