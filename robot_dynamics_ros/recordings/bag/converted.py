# SPDX-License-Identifier: Apache-2.0
"""Recordings of other kinds as messages of a ROS 2 bag: tables, bags of ROS 1, controller states.

A message of a joint trajectory controller's state becomes messages that our own recorder writes:
reference and feedback as joint states, the commanded efforts as one number per joint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.control.topics import force_topic, force_topics
from robot_dynamics_ros.messages import NANO, stamp_ns
from robot_dynamics_ros.recordings.bag.storage import Contents, Definition, RawMessage
from robot_dynamics_ros.recordings.bag.tables import read_table

CONTROLLER_STATE = 'control_msgs/msg/JointTrajectoryControllerState'
_STATE, _NUMBER = 'sensor_msgs/msg/JointState', 'std_msgs/msg/Float64'
_BLOCK = 4096  # messages


class MessageMaker:
    """Makes serialized messages.

    Args:
        types: Type store of the bag library.
    """

    def __init__(self, types: Any) -> None:
        self._types = types

    def state(self, time_ns: int, names: Sequence[str], *columns: Any) -> Any:
        """Return a joint state with positions, velocities and efforts, each (n,) or (0,)."""
        types = self._types.types
        stamp = types['builtin_interfaces/msg/Time'](*divmod(time_ns, NANO))
        header = types['std_msgs/msg/Header'](stamp, '')
        message = types[_STATE](header, list(names), *(np.asarray(x, float) for x in columns))
        return memoryview(self._types.serialize_cdr(message, _STATE))

    def number(self, value: float) -> Any:
        """Return a number."""
        message = self._types.types[_NUMBER](float(value))
        return memoryview(self._types.serialize_cdr(message, _NUMBER))


class TableStorage:
    """A table, one state per row.

    Attributes:
        contents: Topics, counts, and a note on the columns.

    Args:
        path: See :func:`.read_table`.
        types: Type store of the bag library.

    Raises:
        RecordingError: See :func:`.read_table`.
    """

    has_summary = True

    def __init__(self, path: Path, types: Any) -> None:
        self._table, self._make = read_table(path), MessageMaker(types)
        table = self._table
        topics = {'/joint_states': _STATE}
        if 'command' in table.values:
            topics |= {f'/{name}': _NUMBER for name in force_topics(table.joints)}
        if 'reference_position' in table.values:
            topics['/controller/reference'] = _STATE
        counts = dict.fromkeys(topics, len(table.time_ns))
        self.contents = Contents(topics, {}, counts, table.notes, table.units)

    def count_messages(self) -> None:
        """The counts are known."""

    def blocks(self, selects: Callable[[str], bool]) -> Iterator[list[RawMessage]]:
        """Yield the messages of wanted topics row by row, block by block."""
        block: list[RawMessage] = []
        for k, time_ns in enumerate(self._table.time_ns.tolist()):
            block += [x for x in self._messages(k, time_ns) if selects(x[0])]
            if len(block) >= _BLOCK:
                yield block
                block = []
        yield block

    def _messages(self, k: int, time_ns: int) -> Iterator[RawMessage]:
        table = self._table

        def state(*keys: str) -> Any:
            rows = (table.values[key][k] if key in table.values else np.zeros(0) for key in keys)
            return self._make.state(time_ns, table.joints, *rows)

        yield '/joint_states', time_ns, state('position', 'velocity', 'effort')
        if 'reference_position' in table.values:
            reference = state('reference_position', 'reference_velocity', '')
            yield '/controller/reference', time_ns, reference
        if 'command' in table.values:
            for name, value in zip(table.joints, table.values['command'][k], strict=True):
                yield f'/{force_topic(name)}', time_ns, self._make.number(value)


class Ros1Storage:
    """A bag of ROS 1.

    Attributes:
        contents: Topics, definitions and counts.

    Args:
        bag: Reader of the bag library, open.
        types: Its type store of ROS 2; types that only the bag defines are added.
        parse: Returns the types of a definition and its name.
    """

    has_summary = True

    def __init__(self, bag: Any, types: Any, parse: Callable[[str, str], Any]) -> None:
        self._bag, self._types, self._known = bag, types, dict[str, bool]()
        self.contents = Contents({}, {}, {}, [])
        for connection in bag.connections:
            kind = connection.msgtype
            if kind not in types.types:  # the header of ROS 1 has a counter, which is left out
                text = connection.msgdef.data.replace('uint32 seq\n', '')
                types.register(parse(text, kind))
                self.contents.definitions[kind] = Definition('ros2msg', text)
            self.contents.topics[connection.topic] = kind
            counted = self.contents.counts.get(connection.topic, 0) + connection.msgcount
            self.contents.counts[connection.topic] = counted

    def count_messages(self) -> None:
        """The counts are known."""

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
            self.contents.add_loss(f'it is damaged: {error}')
        yield block


class ControllerStates:
    """The topics that states of joint trajectory controllers add to a bag.

    Attributes:
        topics: Message type by topic.
        sources: Topic of the controller's state by added topic.
    """

    def __init__(self, make: MessageMaker) -> None:
        self._make = make
        self.topics: dict[str, str] = {}
        self.sources: dict[str, str] = {}

    def add(self, source: str, first: Any) -> None:
        """Add the topics of a controller, whose first message is given, unless it has no stamp."""
        if not (hasattr(first, 'header') and hasattr(first, 'joint_names')):
            return
        for topic, _, _ in self.messages(source, 0, first):
            self.topics[topic] = _NUMBER if topic.endswith('/cmd_force') else _STATE
            self.sources[topic] = source

    def messages(self, source: str, time_ns: int, state: Any) -> Iterator[RawMessage]:
        """Yield the messages of one state of a controller."""
        names, stamp = [str(name) for name in state.joint_names], stamp_ns(state)
        for topic, fields in _PARTS.items():
            point = next((getattr(state, x) for x in fields if hasattr(state, x)), None)
            if point is None or len(point.positions) != len(names):
                continue
            columns = point.positions, point.velocities, np.zeros(0)
            yield f'{source}/{topic}', time_ns, self._make.state(stamp, names, *columns)
        output = getattr(state, 'output', None)
        if output is not None and len(output.effort) == len(names):
            for name, effort in zip(names, output.effort, strict=True):
                yield f'{source}/{force_topic(name)}', time_ns, self._make.number(effort)


#: Fields of a controller's state since Jazzy, and before, by the topic that they become.
_PARTS: Mapping[str, tuple[str, str]] = {
    'reference': ('reference', 'desired'),
    'feedback': ('feedback', 'actual'),
}
