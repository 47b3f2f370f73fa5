# SPDX-License-Identifier: Apache-2.0
"""How a bag is to be read, by its first messages: joints, clocks, pairing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import RecordingError, RobotDynamicsError
from robot_dynamics_ros.messages import (
    NANO,
    NumberColumns,
    StateColumns,
    States,
)
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.bag.mcap_storage import Raw
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.recordings.topics import Topics
from robot_dynamics_ros.spatial.scalar import Array

_ENOUGH = 2000  # messages of a topic that tell how it is
_MOSTLY = 0.5  # share of messages that decides
_RARE = 0.75  # commands or references per state below which each counts until the next
_LONGEST_HOLD = 5.0  # usual intervals for which one counts
_CUTOFF_HZ = 20.0
_CUTOFF_SHARE = 0.1  # of the rate of the states, at most


@dataclass(frozen=True)
class BagLayout:
    """How the messages of a bag become rows.

    Attributes:
        joints: Columns.
        order: Position of each joint in the arrays of efforts; empty if there is none to use.
        stamped: Whether the states' own stamps count; else the times of the bag.
        answers: Whether commands have the time of the state they answer; else they are paired by
            arrival.
        command_hold_ns, reference_hold_ns: How long one counts where the next state has none, ns.
        cutoff: Of the velocities that are taken from the positions, Hz; 0 if there are velocities.
        period: Usual time between two states, s.
        notes: Sentences about all this where it is not the usual.
    """

    joints: tuple[str, ...]
    order: tuple[int, ...]
    stamped: bool
    answers: bool
    command_hold_ns: int
    reference_hold_ns: int
    cutoff: float
    period: float
    notes: tuple[str, ...]


class _Sample:
    """The first messages of a bag.

    Attributes:
        names: Joints of the state messages, in the order in which they were met.
        stamps, arrivals: Times of the states, of one publisher (the one met most often), ns.
        commands, references: Arrival of the commands, stamps of the references, ns.
        sizes: Lengths of the arrays of efforts.
        with_velocity: Share of the states that have velocities.
    """

    def __init__(self, bag: BagReader, topics: Topics) -> None:
        self.names: dict[tuple[str, ...], int] = {}
        self.sizes: set[int] = set()
        self._stamps: dict[tuple[str, ...], list[Array]] = {}
        self._arrivals: dict[tuple[str, ...], list[Array]] = {}
        self._commands: list[Array] = []
        self._references: list[Array] = []
        self._velocities = 0
        self._read(bag, topics)
        usual = max(self.names, key=lambda names: self.names[names], default=())
        self.stamps = _joined(self._stamps.get(usual, []))
        self.arrivals = _joined(self._arrivals.get(usual, []))
        self.commands = np.unique(_joined(self._commands))
        self.references = _joined(self._references)
        self.states = sum(self.names.values())
        self.with_velocity = self._velocities / max(1, self.states)

    def _read(self, bag: BagReader, topics: Topics) -> None:
        """Read until enough states are seen, and a command if there is one."""
        awaited = {topics.states, topics.commands, *(topics.joint_commands or {}).values()}
        awaited = {topic for topic in awaited if bag.counts.get(topic)}
        for parts in run_columns(bag, topics):
            for topic, arrival, groups in parts:
                awaited.discard(topic)
                if topic == topics.states:
                    self._take_states(groups, arrival)
                elif topic == topics.reference:
                    self._references += [group.stamp_ns for group in groups]
                else:
                    self._commands.append(arrival)
                    if topic == topics.commands:
                        self.sizes |= {group.data.shape[1] for group in groups}
            if sum(self.names.values()) >= _ENOUGH and not awaited:
                return

    def _take_states(self, groups: Sequence[States], arrival: Array) -> None:
        for group in groups:
            self.names[group.names] = self.names.get(group.names, 0) + len(group.places)
            self._stamps.setdefault(group.names, []).append(group.stamp_ns)
            self._arrivals.setdefault(group.names, []).append(arrival[group.places])
            self._velocities += int(np.isfinite(group.velocity).all(axis=1).sum())


def run_columns(bag: BagReader, topics: Topics) -> Iterator[list[tuple[str, Array, list[Any]]]]:
    """Yield topics, arrivals (M,), ns, and columns of a run's messages, block by block.

    A message that cannot be read is in none of the columns.
    """
    columns = {topic: _message_columns(bag, topics, topic) for topic in topics.of_run()}
    for block in bag.blocks(*columns):
        yield [(topic, times, columns[topic].groups(data)) for topic, times, data in _split(block)]


def _message_columns(bag: BagReader, topics: Topics, topic: str) -> StateColumns | NumberColumns:
    """Return what cuts the messages of a topic into columns."""

    def deserialize(data: Any) -> Any:
        return bag.deserialize(data, bag.topics[topic])

    if topic in (topics.states, topics.reference):
        return StateColumns(deserialize)
    return NumberColumns(deserialize, single=topic != topics.commands)


def _split(block: Sequence[Raw]) -> list[tuple[str, Array, list[Any]]]:
    """Return topic, times in ns and messages of a block, one entry for each topic."""
    times: dict[str, list[int]] = {}
    data: dict[str, list[Any]] = {}
    for topic, time_ns, message in block:
        times.setdefault(topic, []).append(time_ns)
        data.setdefault(topic, []).append(message)
    return [(topic, np.array(times[topic], dtype=np.int64), data[topic]) for topic in times]


def _joined(parts: Sequence[Array]) -> Array:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def make_layout(
    bag: BagReader,
    topics: Topics,
    joints: Sequence[str] = (),
    command_joints: Sequence[str] = (),
    described: Sequence[str] = (),
) -> BagLayout:
    """Look at the first messages and decide.

    Args:
        bag: The bag.
        topics: What is read of it.
        joints: Columns that are wanted; all that are recorded if empty.
        command_joints: Order of the efforts in a command, if known.
        described: Moving joints of the description in the bag, in its order.

    Raises:
        RecordingError: There is no usable state.
    """
    sample = _Sample(bag, topics)
    if not sample.states:
        known = ', '.join(sorted(bag.topics)) or 'none'
        raise RecordingError(
            f'bag {str(bag.path)!r}',
            f'has no states on {topics.states!r}',
            '; '.join([f'its topics: {known}', *bag.losses]),
        )
    recorded = tuple(dict.fromkeys(name for names in sample.names for name in names))
    notes: list[str] = []
    columns = _columns(recorded, tuple(joints), tuple(described), notes)
    stamps, arrivals = sample.stamps, sample.arrivals
    stamped = bool(stamps.any()) and (len(stamps) == 1 or bool(np.diff(stamps).any()))
    if not stamped:
        notes.append('the states have no stamps: the times of the bag are used')
        stamps = arrivals
    period = _interval(stamps)
    cutoff = 0.0
    if sample.with_velocity < _MOSTLY:
        cutoff = min(_CUTOFF_HZ, _CUTOFF_SHARE / period) if period else _CUTOFF_HZ
        notes.append(
            'velocity is not recorded: it is the slope of the positions, zero-phase with a '
            f'cut-off of {cutoff:.3g} Hz'
        )
    answers = (
        bool(np.isin(sample.commands, stamps).mean() >= _MOSTLY) if len(sample.commands) else True
    )
    if not answers:
        notes.append('commands carry no stamp: each answers the last state that came before it')
    return BagLayout(
        columns,
        _command_order(sample, topics, columns, command_joints or described or columns, notes),
        stamped,
        answers,
        _hold(sample.commands, stamps if answers else arrivals, 'commands', notes),
        _hold(sample.references, stamps, 'references', notes),
        cutoff,
        period,
        tuple(notes),
    )


def _columns(
    recorded: tuple[str, ...],
    wanted: tuple[str, ...],
    described: tuple[str, ...],
    notes: list[str],
) -> tuple[str, ...]:
    """Return the joints that become columns."""
    if wanted:
        missing = [name for name in wanted if name not in recorded]
        if missing:
            raise RecordingError(
                f'joints {", ".join(missing)}',
                'are not in the joint states',
                f'recorded are {", ".join(recorded)}; name the recorded joints in the order of '
                'the model',
            )
        return wanted
    if described and set(described) <= set(recorded):
        others = [name for name in recorded if name not in described]
        if others:
            notes.append(f'joints {", ".join(others)} are not in the description: left out')
        return tuple(name for name in recorded if name in described)
    return recorded


def _command_order(
    sample: _Sample,
    topics: Topics,
    columns: tuple[str, ...],
    commanded: Sequence[str],
    notes: list[str],
) -> tuple[int, ...]:
    """Return where the effort of each column stands in an array of efforts."""
    if not topics.commands or not sample.sizes:
        return ()
    names = list(commanded)
    missing = [name for name in columns if name not in names]
    if sample.sizes != {len(names)} or missing:
        sizes = ', '.join(str(size) for size in sorted(sample.sizes))
        notes.append(
            f'commands hold {sizes} numbers, expected are those of {", ".join(names)}: not used; '
            'tell whose they are'
        )
        return ()
    return tuple(names.index(name) for name in columns)


def _interval(stamps: Array) -> float:
    """Return the median time between successive, different stamps, s; 0 if there is none."""
    steps = np.diff(stamps)
    steps = steps[steps > 0]
    return float(np.median(steps)) / NANO if len(steps) else 0.0


def _hold(times: Array, stamps: Array, what: str, notes: list[str]) -> int:
    """Return how long one of them counts, ns: until the next, if there are fewer than states."""
    if len(times) < 2 or len(stamps) < 2:
        return 0
    if what == 'references' and np.isin(times, stamps).mean() >= _MOSTLY:
        return 0  # each is of the state that it answers, and of no other
    inside = (stamps >= times.min()) & (stamps <= times.max())
    if len(times) >= _RARE * inside.sum():
        return 0
    interval = _interval(np.sort(times))
    notes.append(f'there are fewer {what} than states: each counts until the next')
    return int(_LONGEST_HOLD * interval * NANO)


def described_joints(text: str) -> tuple[str, ...]:
    """Return the moving joints of a description in its order; none if it cannot be read."""
    try:
        return load_robot(text, effort_limit=1.0).joint_names if text else ()
    except RobotDynamicsError:
        return ()
