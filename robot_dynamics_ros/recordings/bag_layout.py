# SPDX-License-Identifier: Apache-2.0
"""Infer from the first messages how to read a bag: joints, clock, pairing of commands."""

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
from robot_dynamics_ros.recordings.bag.mcap_storage import RawMessage
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.recordings.topics import Topics
from robot_dynamics_ros.spatial.scalar import Array

_SAMPLE_STATES = 2000  # states to inspect
_MAJORITY = 0.5  # fraction of messages that decides
_RARE = 0.75  # commands or references per state below which each is held until the next
_LONGEST_HOLD = 5.0  # longest hold, in median intervals
_CUTOFF_HZ = 20.0
_CUTOFF_SHARE = 0.1  # largest cutoff, as a fraction of the state rate


@dataclass(frozen=True)
class BagLayout:
    """How to convert the messages of a bag to rows.

    Attributes:
        joints: Joint names, one per column.
        order: Index of each joint in the effort arrays; empty if no effort array is usable.
        stamped: Whether to use the timestamps of the states, rather than the bag's receive times.
        by_stamp: Whether a command has the time of the state it was computed from; else commands
            are paired with states by arrival.
        command_hold_ns, reference_hold_ns: How long a value is held for later states that have
            none, ns.
        cutoff: Low-pass cutoff of velocities differentiated from positions, Hz; 0 if the
            velocities are recorded.
        period: Median time between states, s.
        notes: Remarks about unusual properties, one sentence each.
    """

    joints: tuple[str, ...]
    order: tuple[int, ...]
    stamped: bool
    by_stamp: bool
    command_hold_ns: int
    reference_hold_ns: int
    cutoff: float
    period: float
    notes: tuple[str, ...]


class _Sample:
    """Statistics of the first messages of a bag.

    Attributes:
        names: Tuples of joint names of the state messages, in order of appearance.
        states: Number of state messages.
        stamps, arrivals: Timestamps and receive times of the states from the most frequent
            publisher, ns.
        commands, references: Receive times of the commands, timestamps of the references, ns.
        sizes: Lengths of the effort arrays.
        with_velocity: Fraction of the states that have velocities.
    """

    def __init__(self, bag: BagReader, topics: Topics) -> None:
        self.states, self.sizes = 0, set[int]()
        self._clocks: dict[tuple[str, ...], list[Array]] = {}
        self._commands: list[Array] = []
        self._references: list[Array] = []
        self._velocities = 0
        self._read(bag, topics)
        clocks: list[Array] = [np.hstack(parts) for parts in self._clocks.values()]
        self.names = tuple(self._clocks)
        usual = max(clocks, key=np.size, default=np.zeros((2, 0), dtype=np.int64))
        self.stamps, self.arrivals = usual[0], usual[1]
        self.commands = np.unique(_joined(self._commands))
        self.references = _joined(self._references)
        self.with_velocity = self._velocities / max(1, self.states)

    def _read(self, bag: BagReader, topics: Topics) -> None:
        """Read until there are enough states, and a command if the bag has any."""
        missing = {topics.states, topics.commands, *topics.joint_commands.values()}
        missing = {topic for topic in missing if bag.counts.get(topic)}
        for parts in run_columns(bag, topics):
            for topic, arrival, groups in parts:
                missing.discard(topic)
                if topic == topics.states:
                    self._add_states(groups, arrival)
                elif topic == topics.reference:
                    self._references += [group.stamp_ns for group in groups]
                else:
                    self._commands.append(arrival)
                    if topic == topics.commands:
                        self.sizes |= {group.data.shape[1] for group in groups}
            if self.states >= _SAMPLE_STATES and not missing:
                return

    def _add_states(self, groups: Sequence[States], arrival: Array) -> None:
        for group in groups:
            self.states += len(group.places)
            clocks = np.stack([group.stamp_ns, arrival[group.places]])
            self._clocks.setdefault(group.names, []).append(clocks)
            self._velocities += int(np.isfinite(group.velocity).all(axis=1).sum())


def run_columns(bag: BagReader, topics: Topics) -> Iterator[list[tuple[str, Array, list[Any]]]]:
    """Yield topic, receive times (M,), ns, and columns of a run's messages, block by block.

    The columns omit messages that cannot be read.
    """
    columns = {topic: _message_columns(bag, topics, topic) for topic in topics.of_states()}
    for block in bag.blocks(*columns):
        yield [(topic, times, columns[topic].groups(data)) for topic, times, data in _split(block)]


def _message_columns(bag: BagReader, topics: Topics, topic: str) -> StateColumns | NumberColumns:
    """Return the converter from messages of a topic to columns."""

    def deserialize(data: Any) -> Any:
        return bag.deserialize(data, bag.topics[topic])

    if topic in (topics.states, topics.reference):
        return StateColumns(deserialize)
    return NumberColumns(deserialize, single=topic != topics.commands)


def _split(block: Sequence[RawMessage]) -> list[tuple[str, Array, list[Any]]]:
    """Group a block by topic: return topic, times (M,), ns, and messages."""
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
    """Infer the layout of a bag from its first messages.

    Args:
        bag: The bag.
        topics: Topics of the robot.
        joints: Joints to read, one per column; if empty, those of the description that are
            recorded, else all recorded ones.
        command_joints: Joint order of the efforts in a command, if known.
        described: Moving joints of the description in the bag, in its order.

    Raises:
        RecordingError: The bag has no states, or lacks a requested joint.
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
        notes.append('the states have no timestamps: the times of the bag are used')
        stamps = arrivals
    period = _interval(stamps)
    cutoff = 0.0
    if sample.with_velocity < _MAJORITY:
        cutoff = min(_CUTOFF_HZ, _CUTOFF_SHARE / period) if period else _CUTOFF_HZ
        notes.append(
            'velocity is not recorded: differentiated from the positions, zero-phase with a '
            f'cutoff of {cutoff:.3g} Hz'
        )
    commands = sample.commands
    by_stamp = not len(commands) or bool(np.isin(commands, stamps).mean() >= _MAJORITY)
    if not by_stamp:
        notes.append('commands have no timestamp: each is paired with the last state before it')
    return BagLayout(
        columns,
        _command_order(sample, topics, columns, command_joints or described or columns, notes),
        stamped,
        by_stamp,
        _hold_ns(commands, stamps if by_stamp else arrivals, 'commands', notes),
        _hold_ns(sample.references, stamps, 'references', notes),
        cutoff,
        period,
        tuple(notes),
    )


def _columns(
    recorded: tuple[str, ...],
    requested: tuple[str, ...],
    described: tuple[str, ...],
    notes: list[str],
) -> tuple[str, ...]:
    """Return the joints to read, one per column."""
    if requested:
        missing = [name for name in requested if name not in recorded]
        if missing:
            raise RecordingError(
                f'joints {", ".join(missing)}',
                'are not in the joint states',
                f'recorded are {", ".join(recorded)}; name the recorded joints in the order of '
                'the model',
            )
        return requested
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
    """Return the index of each column's effort in the effort arrays."""
    if not topics.commands or not sample.sizes:
        return ()
    names = list(commanded)
    missing = [name for name in columns if name not in names]
    if sample.sizes != {len(names)} or missing:
        sizes = ', '.join(str(size) for size in sorted(sample.sizes))
        notes.append(
            f'commands have {sizes} values, expected one for each of {", ".join(names)}: '
            'not used; name their joints'
        )
        return ()
    return tuple(names.index(name) for name in columns)


def _interval(stamps: Array) -> float:
    """Return the median positive time between successive timestamps, s; 0 if there is none."""
    steps = np.diff(stamps)
    steps = steps[steps > 0]
    return float(np.median(steps)) / NANO if len(steps) else 0.0


def _hold_ns(times: Array, stamps: Array, what: str, notes: list[str]) -> int:
    """Return how long to hold commands or references, ns; 0 if as frequent as the states."""
    if len(times) < 2 or len(stamps) < 2:
        return 0
    if what == 'references' and np.isin(times, stamps).mean() >= _MAJORITY:
        return 0  # each has the timestamp of the state it belongs to
    inside = (stamps >= times.min()) & (stamps <= times.max())
    if len(times) >= _RARE * inside.sum():
        return 0
    interval = _interval(np.sort(times))
    notes.append(f'there are fewer {what} than states: each is held until the next')
    return int(_LONGEST_HOLD * interval * NANO)


def described_joints(text: str) -> tuple[str, ...]:
    """Return the moving joints of a description in its order; empty if it cannot be read."""
    try:
        return load_robot(text, effort_limit=1.0).joint_names if text else ()
    except RobotDynamicsError:
        return ()
