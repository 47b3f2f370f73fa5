# SPDX-License-Identifier: Apache-2.0
"""The payload that the controller of a recording had, by its parameters and changes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from robot_dynamics_ros.control.change_log import Change
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.model.payload import PAYLOAD, payload_from_parameters, with_payload
from robot_dynamics_ros.model.robot_tree import Robot
from robot_dynamics_ros.parameters import checked, defaults
from robot_dynamics_ros.recordings.reading import RecordingReader
from robot_dynamics_ros.recordings.recording import NANO, Recording, format_time

_ALWAYS = -(1 << 63)  # before every timestamp, ns


class Carried(NamedTuple):
    """A robot with the payload that its controller had at the begin of a run.

    Attributes:
        tree: The robot with the payload; without one if there was none, or it does not fit.
        until: Time of the first state at which the controller had another payload, s; inf if it
            did not change.
        payload: The payload in words; empty without one.
        notes: What was used, and what changed, one sentence each.
    """

    tree: Robot
    until: float = math.inf
    payload: str = ''
    notes: tuple[str, ...] = ()


def carried(reader: RecordingReader, run: Recording, tree: Robot) -> Carried:
    """Return the robot with the payload that the recorded controller had.

    Args:
        reader: The bag.
        run: Its run, from the first state that is evaluated.
        tree: The robot without payload.
    """
    try:
        history = list(_history(reader))
        begun = [values for stamp, values in history if stamp <= run.stamp_ns[0]]
        values, later = begun[-1], history[len(begun) :]
        loaded = _loaded(tree, values)
    except RobotDynamicsError as error:
        return Carried(tree, notes=(f'the payload of the controller is not considered: {error}',))
    payload, notes = _words(values), list[str]()
    if payload:
        notes.append(f'the model carries {payload}, as the recorded controller had it')
    changes = (one for one in later if one[0] <= run.stamp_ns[-1] and one[1] != values)
    stamp, after = next(changes, (None, values))
    if stamp is None:
        return Carried(loaded, math.inf, payload, tuple(notes))
    until = stamp / NANO
    notes.append(
        f'the payload of the controller changed at {format_time(until)}, from '
        f'{payload or "none"} to {_words(after) or "none"}: the model is judged up to there, '
        f'and what follows with --from {format_time(until).removesuffix(" s")}'
    )
    return Carried(loaded, until, payload, tuple(notes))


def _history(reader: RecordingReader) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield since which timestamp of the states, ns, which payload parameters acted.

    They are empty while nothing was carried. Those of the first activation act from the begin on.

    Raises:
        RobotDynamicsError: A change or parameter cannot be read.
    """
    values, carrying, begun = {**defaults(PAYLOAD), **reader.parameters}, True, False

    def payload() -> dict[str, Any]:
        own = checked(PAYLOAD, {one.name: values[one.name] for one in PAYLOAD})
        return own if carrying and own['payload_mass'] else {}

    yield _ALWAYS, payload()
    topic = reader.topics.changes
    for _, _, message in reader.bag.messages(topic, strict=False) if topic else ():
        if message is None:
            continue
        change = Change.read(message.data)
        if change.kind == 'activation':
            values |= change.content['parameters']
            carrying = change.content['kept'].get('payload', {}).get('carried', True)
        elif change.kind == 'parameters':
            values |= change.content['values']
        elif change.kind == 'payload':
            carrying = change.content['carried']
        else:
            continue
        first = change.kind == 'activation' and not begun
        yield (_ALWAYS if first else change.stamp_ns), payload()
        begun = True


def _loaded(tree: Robot, values: Mapping[str, Any]) -> Robot:
    payload = payload_from_parameters(values) if values else None
    return tree if payload is None else with_payload(tree, payload)


def _words(values: Mapping[str, Any]) -> str:
    return f'{values["payload_mass"]:g} kg on {values["payload_frame"]}' if values else ''
