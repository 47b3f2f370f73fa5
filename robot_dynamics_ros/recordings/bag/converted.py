# SPDX-License-Identifier: Apache-2.0
"""Recordings of other kinds as topics of a ROS 2 bag: tables, bags of ROS 1, other messages.

A table, and the state of a joint trajectory controller, have the topics of our own recorder:
reference and feedback as joint states, the commanded efforts as one number per joint. Joint states
in fields of another message, as in franka_msgs/FrankaRobotState, are topics below its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from robot_dynamics_ros.control.topics import force_topic, force_topics
from robot_dynamics_ros.messages import stamp_ns
from robot_dynamics_ros.recordings.bag.storage import Definition, RawMessage, Storage
from robot_dynamics_ros.recordings.bag.tables import read_table
from robot_dynamics_ros.recordings.columns import (
    SINGLE,
    STATE,
    Group,
    TopicGroups,
    state_group,
)
from robot_dynamics_ros.spatial.scalar import Array

CONTROLLER_STATE = 'control_msgs/msg/JointTrajectoryControllerState'
_BLOCK = 4096  # messages, or rows of a table


class TableStorage(Storage):
    """A table, one state per row: columns without messages.

    Args:
        path: See :func:`.read_table`.

    Raises:
        RecordingError: See :func:`.read_table`.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._table = table = read_table(path)
        unknown = np.full(table.values['position'].shape, np.nan)

        def columns(*keys: str) -> Array:
            return np.array([table.values.get(key, unknown) for key in keys])

        self._values = {'/joint_states': columns('position', 'velocity', 'effort')}
        if 'command' in table.values:
            numbers = zip(force_topics(table.joints), table.values['command'].T, strict=True)
            self._values |= {f'/{name}': x.reshape(1, -1, 1) for name, x in numbers}
        if 'reference_position' in table.values:
            reference = columns('reference_position', 'reference_velocity', 'no effort')
            self._values['/controller/reference'] = reference
        self.topics = {x: STATE if len(y) > 1 else SINGLE for x, y in self._values.items()}
        self.counts.update(dict.fromkeys(self.topics, len(table.time_ns)))
        self.losses, self.units = table.notes, table.units

    def columns(self, topics: Sequence[str]) -> Iterator[list[TopicGroups]]:
        """Yield the columns of wanted topics, block by block of the rows."""
        places, names = np.arange(len(self._table.time_ns)), self._table.joints
        for start in range(0, len(places), _BLOCK):
            rows = slice(start, start + _BLOCK)
            time, found = self._table.time_ns[rows], list[TopicGroups]()
            for topic in topics:
                values = self._values[topic][:, rows]
                group = Group(names if len(values) > 1 else (), places[rows], time, time, values)
                found.append((topic, len(time), [group]))
            yield found


class Ros1Storage(Storage):
    """A bag of ROS 1.

    Args:
        bag: Reader of the bag library, open.
        types: Its type store of ROS 2; types that only the bag defines are added.
        parse: Returns the types of a definition and its name.
    """

    def __init__(self, bag: Any, types: Any, parse: Callable[[str, str], Any]) -> None:
        super().__init__()
        self._bag, self._types = bag, types
        for connection in bag.connections:
            kind = connection.msgtype
            if kind not in types.types:  # the header of ROS 1 has a counter, which is left out
                text = connection.msgdef.data.replace('uint32 seq\n', '')
                types.register(parse(text, kind))
                self.definitions[kind] = Definition('ros2msg', text)
            self.topics[connection.topic] = kind
            self.counts[connection.topic] += connection.msgcount

    def blocks(self, selects: Callable[[str], bool]) -> Iterator[list[RawMessage]]:
        """Yield the messages of wanted topics in the order of their times, block by block."""
        chosen = [x for x in self._bag.connections if selects(x.topic)]
        block: list[RawMessage] = []
        try:
            for connection, time_ns, data in self._bag.messages(chosen) if chosen else ():
                converted = self._types.ros1_to_cdr(data, connection.msgtype)
                block.append((connection.topic, time_ns, memoryview(converted)))
                if len(block) >= _BLOCK:
                    yield block
                    block = []
        except Exception as error:  # generated code on bytes that may be anything
            self.add_loss(f'it is damaged: {error}')
        yield block


def message_parts(message: Any, place: int = 0, arrival_ns: int = 0) -> dict[str, Group]:
    """Return what a message holds, by the topics below its own that it becomes.

    These are reference, feedback and commands of a controller's state, and the joint states that
    are fields of any other message; a field without a time of its own has that of the message.
    A controller's state without a stamp, or of another number of values, has none.
    """
    times = np.array([place]), np.array([arrival_ns])
    fields = {x: getattr(message, x) for x in getattr(message, '__dataclass_fields__', ())}
    states = {x: y for x, y in fields.items() if getattr(y, '__msgtype__', '') == STATE}
    of_controller = 'header' in fields and 'joint_names' in fields
    for part, spellings in _PARTS.items() if of_controller else ():
        if point := next((fields[x] for x in spellings if x in fields), None):
            motion = {'position': point.positions, 'velocity': point.velocities, 'effort': ()}
            own = {'header': message.header, 'name': message.joint_names}
            states[part] = SimpleNamespace(**own, **motion)
    stamp = stamp_ns(message) if 'header' in fields else 0
    groups = ((x, state_group(y, *times, stamp)) for x, y in states.items() if len(y.name))
    parts = {x: group for x, group in groups if group is not None}
    output = fields.get('output') if of_controller else None
    if output is not None and len(output.effort) == len(message.joint_names):
        for name, effort in zip(message.joint_names, output.effort, strict=True):
            value = np.full((1, 1, 1), effort)
            parts[force_topic(name)] = Group((), *times, np.array([stamp]), value)
    return parts


def message_columns(messages: Iterable[tuple[Any, int, int]]) -> dict[str, list[Group]]:
    """Return the columns of :func:`message_parts`, with its arguments, by topic below theirs."""
    rows: dict[tuple[str, tuple[str, ...]], list[Group]] = {}
    for message in messages:
        for part, group in message_parts(*message).items():
            rows.setdefault((part, group.names), []).append(group)
    found: dict[str, list[Group]] = {}
    for (part, names), groups in rows.items():  # those with the same joints as one
        _, *times, values = zip(*groups, strict=True)
        columns = [*map(np.concatenate, times), np.concatenate(values, axis=1)]
        found.setdefault(part, []).append(Group(names, *columns))
    return found


#: Fields of a controller's state since Jazzy, and before, by the topic that they become.
_PARTS: Mapping[str, tuple[str, str]] = {
    'reference': ('reference', 'desired'),
    'feedback': ('feedback', 'actual'),
}
