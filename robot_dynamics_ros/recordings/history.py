# SPDX-License-Identifier: Apache-2.0
"""What a recorded controller did, carried and followed, by its parameters and its changes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.constraints.signals import Followed
from robot_dynamics_ros.control.change_log import Change
from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.control.laws.registry import known_laws
from robot_dynamics_ros.control.setup import DEFAULTS
from robot_dynamics_ros.errors import RecordingError, RobotDynamicsError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.payload import PAYLOAD, loaded
from robot_dynamics_ros.parameters import checked
from robot_dynamics_ros.recordings.recording import NANO, Recording
from robot_dynamics_ros.recordings.recording_reader import RecordingReader
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader.parsing import with_texts

_ALWAYS = -(1 << 63)  # before every timestamp, ns
_ROUNDING = 1e-9  # rad or m
_LAW = 'law '  # begins the words for a law that lets a hand move the arm
#: Kinds of the changes that are told of; others, as a measured wrench, may come with every state.
_ACTS = ('activation', 'brake', 'deactivate', 'parameters', 'payload', 'reaction', 'resume',
         'silence')  # fmt: skip


class Acted(NamedTuple):
    """A controller from a state on.

    Attributes:
        since_ns: Timestamp of that state, ns; before every one at the begin of the recording.
        kind: Kind of the change that it began with; empty at the begin of the recording.
        changed: Names of the parameters that were changed.
        values: All parameters by name.
        carries: Whether it carried its payload.
        floats: Whether the arm was compliant after a contact.
    """

    since_ns: int
    kind: str
    changed: frozenset[str]
    values: Mapping[str, Any]
    carries: bool
    floats: bool = False


class History(NamedTuple):
    """What a controller did, in order, and the error of the last change that is not readable."""

    acted: Sequence[Acted]
    error: RobotDynamicsError | None = None


def history(reader: RecordingReader) -> History:
    """Return what the controller of a bag did, on the clock of the run that was read.

    Its first parameters act from the begin on, or those of an activation that is its first change.
    Changes go forward in time: one that goes back belongs behind a restart of the clock, or, if
    there is none in the run, behind its end.

    Args:
        reader: The bag, of which the run was read.
    """
    now = Acted(_ALWAYS, '', frozenset(), {**DEFAULTS, **with_texts(reader.parameters)}, True)
    unread: RobotDynamicsError | None = None
    acted, last = [now], _ALWAYS
    shifts = [0, *reader.clock.shift_ns.tolist()]
    ends = [*reader.clock.since_ns.tolist(), math.inf]
    for change in recorded_changes(reader):
        if not isinstance(change, Change):
            unread = change or unread
            continue
        now = _after(now, change)
        begins = now.kind == 'activation'  # at a state that may be older than the last change,
        back = -1 if begins and change.number == 1 else NANO  # but not of another controller
        while shifts and not last - back <= now.since_ns + shifts[0] < ends[0]:
            del shifts[0], ends[0]
        if not shifts:
            break
        first, last = last == _ALWAYS, now.since_ns + shifts[0]
        if change.kind in _ACTS:
            acted.append(now._replace(since_ns=_ALWAYS if begins and first else last))
    return History(acted, unread)


def recorded_changes(reader: RecordingReader) -> Iterator[Change | RecordingError | None]:
    """Yield the changes of a controller, the error of what is none, None for a damaged message."""
    topic = reader.topics.changes
    messages = reader.bag.messages(topic) if topic else ()
    for k, (_, _, message) in enumerate(messages, 1):
        try:
            yield message and Change.read(message.data, f'record {k} on {topic}')
        except RecordingError as error:
            yield error


def _after(before: Acted, change: Change) -> Acted:
    """Return what a controller is after a change."""
    _, _, _, values, carries, floats = before
    content, since_ns, changed = change.content, change.stamp_ns, frozenset[str]()
    if change.kind == 'activation':  # its law begins at the state before the first tick
        since_ns = content['state']['stamp_ns']
        values = {**values, **content['parameters']}
        carries = content['kept'].get('payload', {}).get('carried', True)
    elif change.kind == 'parameters':
        changed, values = frozenset(content['values']), {**values, **content['values']}
    elif change.kind == 'payload':
        carries = content['carried']
    if change.kind in ('reaction', 'resume', 'activation'):
        floats = change.kind == 'reaction' and values['contact_reaction'] == 'float'
    return Acted(since_ns, change.kind, changed, values, carries, floats)


def runs_program(values: Mapping[str, Any]) -> bool:
    """Return whether a controller with these parameters runs a program of constraints."""
    return values['law'] == ConstraintStabilization.name and bool(values['program'])


def followed(acted: Sequence[Acted], run: Recording, tree: Robot) -> tuple[Recording, list[str]]:
    """Return a run without the joint reference where the controller did not follow it, and notes.

    Args:
        acted: What the controller did.
        run: Its run.
        tree: The robot.
    """
    follows, others = _follows(acted, run, tree)
    if not others:
        return run, []
    reference = run.reference_position, run.reference_velocity
    position, velocity = (np.where(follows[:, np.newaxis], x, np.nan) for x in reference)
    run = replace(run, reference_position=position, reference_velocity=velocity)
    when = ' while it acted' if follows.any() else ''
    notes = [
        f'{" and ".join(others)} of the controller followed no joint reference: tracking is not '
        f'evaluated{when}'
    ]
    if any(other.startswith(_LAW) for other in others):
        notes.append('the force of a hand that moved the arm is an error of the model here')
    return run, notes


def _follows(acted: Sequence[Acted], run: Recording, tree: Robot) -> tuple[Array, list[str]]:
    """Return at which of N states the law follows the joint reference.

    Returns:
        Mask, shape (N,); what did not follow the reference at the other states, in words.
    """
    follows, ends = np.ones(len(run.time), dtype=bool), [one.since_ns for one in acted[1:]]
    others, away = dict[str, None](), False
    for one, end_ns in zip(acted, [*ends, np.inf], strict=True):
        rows = np.flatnonzero((run.stamp_ns >= one.since_ns) & (run.stamp_ns < end_ns))
        if not len(rows):
            continue
        if other := 'reaction float' if one.floats else _other_than_reference(one.values, tree):
            follows[rows], others[other], away = False, None, True
        elif away:  # the arm brakes, and its reference glides to it and rests there
            error = np.abs(run.reference_position[rows] - run.position[rows])
            glides = (run.reference_velocity[rows] != 0.0).any(axis=1)
            there = np.flatnonzero(
                (error.max(axis=1) < _ROUNDING) | ~glides & np.logical_or.accumulate(glides)
            )
            away = not len(there)
            follows[rows[: None if away else there[0]]] = False
    return follows, [*others]


def _other_than_reference(values: Mapping[str, Any], tree: Robot) -> str:
    """Return the law or program that does not follow the joint reference; empty if one does."""
    law = known_laws().get(str(values['law']))  # a recorded value may be damaged
    if law is not None and not law.follows_reference:
        return f'{_LAW}{law.name}'
    if law is not ConstraintStabilization:
        return ''
    try:
        program = load_program(values['program'], tree, check=False)
    except RobotDynamicsError:  # of another robot, which is told elsewhere
        return 'a program'
    follows = any(isinstance(x, Followed) for x in program.stack.signals)
    return '' if follows else f'program {program.name!r}'


# Payload ----------------------------------------------------------------------------------------


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
            f'the payload of the controller changed at {run.told(until)}, from '
            f'{payload or "none"} to {_words(after) or "none"}: the model is judged up to there, '
            f'and what follows with --from {run.told(until).removesuffix(" s")}'
        )
    return Carried(own, until, payload, tuple(notes))


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
