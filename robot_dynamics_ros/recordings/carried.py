# SPDX-License-Identifier: Apache-2.0
"""The payload that the controller of a recording had, by its parameters and changes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.estimation.regressor import inertial_parameters
from robot_dynamics_ros.model.payload import PAYLOAD, loaded
from robot_dynamics_ros.model.robot_tree import Robot
from robot_dynamics_ros.parameters import checked
from robot_dynamics_ros.recordings.history import Acted, History
from robot_dynamics_ros.recordings.recording import NANO, LoadedPart, Recording, format_time


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


def carried(past: History, run: Recording, tree: Robot) -> Carried:
    """Return the robot with the payload that the recorded controller had.

    Args:
        past: What the controller did.
        run: Its run, from the first state that is evaluated.
        tree: The robot without payload.
    """
    try:
        (_, values), *later = _acted(past, run)
        own = loaded(tree, values) if values else tree
    except RobotDynamicsError as error:
        return Carried(tree, notes=(f'the payload of the controller is not considered: {error}',))
    payload, until, notes = _words(values), math.inf, list[str]()
    if payload:
        notes.append(f'the model carries {payload}, as the recorded controller had it')
    if later:
        stamp, after = later[0]
        until = stamp / NANO
        notes.append(
            f'the payload of the controller changed at {format_time(until)}, from '
            f'{payload or "none"} to {_words(after) or "none"}: the model is judged up to there, '
            f'and what follows with --from {format_time(until).removesuffix(" s")}'
        )
    return Carried(own, until, payload, tuple(notes))


def payloads(past: History, run: Recording, tree: Robot) -> tuple[LoadedPart, ...]:
    """Return the parts of a run with one payload of the controller each; none without a payload.

    Args:
        past: What the controller did.
        run: Its run.
        tree: The robot without payload.

    Raises:
        RobotDynamicsError: A payload is unknown, or does not fit the robot.
    """
    own, parts = inertial_parameters(tree), list[LoadedPart]()
    for since, values in _acted(past, run):
        more = inertial_parameters(loaded(tree, values) if values else tree) - own
        parts.append(LoadedPart(since / NANO, more, _words(values)))
    return tuple(parts) if any(part.payload for part in parts) else ()


def _acted(past: History, run: Recording) -> list[tuple[int, dict[str, Any]]]:
    """Return since when, ns, which payload parameters acted in a run; empty ones: no payload."""
    if past.error is not None:
        raise past.error
    found: list[tuple[int, dict[str, Any]]] = []
    for one in past.acted:
        values = _payload(one)
        if one.since_ns <= run.stamp_ns[0]:
            found = [(one.since_ns, values)]
        elif one.since_ns <= run.stamp_ns[-1] and values != found[-1][1]:
            found.append((one.since_ns, values))
    return found


def _payload(one: Acted) -> dict[str, Any]:
    """Return the checked payload parameters; empty while nothing was carried."""
    own = checked(PAYLOAD, {parameter.name: one.values[parameter.name] for parameter in PAYLOAD})
    return own if one.carries and own['payload_mass'] else {}


def _words(values: Mapping[str, Any]) -> str:
    return f'{values["payload_mass"]:g} kg on {values["payload_frame"]}' if values else ''
