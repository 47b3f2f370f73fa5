# SPDX-License-Identifier: Apache-2.0
"""Joint states and number messages of a bag as columns.

The byte layout of a message (``messages``) is verified against the bag library's deserialization.
All messages with the same bytes elsewhere are then decoded at once. A message that matches no
known layout is deserialized by the library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.accumulate import ColumnTable
from robot_dynamics_ros.messages import (
    DAMAGED,
    MessageLayout,
    command_layout,
    number_layout,
    stamp_ns,
    state_layout,
)
from robot_dynamics_ros.spatial.scalar import Array

STATE = 'sensor_msgs/msg/JointState'
ARRAY = 'std_msgs/msg/Float64MultiArray'
SINGLE = 'std_msgs/msg/Float64'
COMMAND = 'control_msgs/msg/JointCommand'
#: Fields of names and efforts of the messages that command all joints, by their kinds.
COMMANDS = {ARRAY: ('', 'data'), STATE: ('name', 'effort'), COMMAND: ('joint_names', 'values')}
#: Deserializes one message with the bag library; raises RecordingError.
Deserialize = Callable[[Any], Any]
_MAX_LAYOUTS = 32


@dataclass(frozen=True, eq=False)
class Rows(ColumnTable):
    """Messages as columns.

    Attributes:
        place: Places of these messages in the bag, shape (M,), increasing.
        stamp_ns: Header timestamps, shape (M,), ns; of numbers and commands their receive times.
        arrival_ns: Receive times, shape (M,), ns.
        values: Position, velocity and effort, shape (M, 3, joints), NaN where a message has no
            values; of numbers and commands shape (M, 1, count).
    """

    place: Array
    stamp_ns: Array
    arrival_ns: Array
    values: Array

    @classmethod
    def empty(cls, *shape: int) -> Rows:
        """Return no rows, for values of a shape."""
        times = np.zeros(0, dtype=np.int64)
        return cls(times, times, times, np.zeros((0, *shape)))


class Group(NamedTuple):
    """Messages of one topic with the same joints; no names: of numbers."""

    names: tuple[str, ...]
    rows: Rows


#: A topic, the number of its messages in a block, and the readable ones.
TopicGroups = tuple[str, int, list[Group]]


class Decoder:
    """Decodes the messages of one topic into columns, without the damaged ones.

    Drops a joint state whose number of positions differs from the number of names, or whose number
    of velocities is neither 0 nor that number. A different number of efforts is treated as none,
    and drops a command with names.

    Args:
        kind: ``STATE``, ``SINGLE``, or one of ``COMMANDS``.
        deserialize: Deserializes one message with the bag library.
        commands: Whether only the efforts of joint states count.
    """

    def __init__(self, kind: str, deserialize: Deserialize, *, commands: bool = False) -> None:
        self._deserialize, self._of_states = deserialize, kind == STATE and not commands
        self._fields = COMMANDS.get(kind, COMMANDS[ARRAY])
        numbers = partial(number_layout, single=kind == SINGLE)
        self._read_layout = {STATE: state_layout, COMMAND: command_layout}.get(kind, numbers)
        self._layouts: dict[int, list[MessageLayout]] = {}

    def groups(self, messages: Sequence[Any], place: Array, arrival_ns: Array) -> list[Group]:
        """Return serialized messages as columns, one group per layout; arguments as of these."""
        sizes = np.fromiter(map(len, messages), dtype=np.int64, count=len(messages))
        groups: list[Group] = []
        for size in np.unique(sizes).tolist():
            index = np.flatnonzero(sizes == size)
            joined = b''.join(messages[i] for i in index.tolist())
            data, known = np.frombuffer(joined, np.uint8).reshape(len(index), size), 0
            layouts = self._layouts.setdefault(size, [])
            while len(index):
                times = place[index], arrival_ns[index]
                more = known < _MAX_LAYOUTS  # else each message would be decoded twice
                if known < len(layouts) or (more and self._learns(layouts, data[:1])):
                    fits = layouts[known].fits(data)
                    if fits.any():
                        some = data[fits], *(x[fits] for x in times)
                        groups.append(self._columns(layouts[known], *some))
                    index, data, known = index[~fits], data[~fits], known + 1
                else:
                    one = self._decode_one(data[0].tobytes(), *(x[:1] for x in times))
                    groups += [one] if one else []
                    index, data = index[1:], data[1:]
        return groups

    def _learns(self, layouts: list[MessageLayout], data: Array) -> bool:
        """Add the layout of a message, unless it disagrees with the library's decoding."""
        content, zero = data.tobytes(), np.zeros(1, dtype=np.int64)
        try:
            layout = self._read_layout(content)
        except DAMAGED:
            return False
        expected = self._decode_one(content, zero, zero)
        if expected is None:
            return False
        names, rows = self._columns(layout, data, zero, zero)
        same = names == expected.names and all(
            a.tobytes() == b.tobytes()
            for a, b in zip(vars(rows).values(), vars(expected.rows).values(), strict=True)
        )
        layouts += [layout] if same else []
        return same

    def _decode_one(self, data: bytes, place: Array, arrival_ns: Array) -> Group | None:
        """Return the columns of a message that the library decodes; None if it is unusable."""
        try:
            message = self._deserialize(data)
        except RecordingError:
            return None
        if self._of_states:
            fields = message.position, message.velocity, message.effort
            return state_group(message, message.name, fields, place, arrival_ns)
        names = tuple(getattr(message, self._fields[0], ()))
        values = np.array(getattr(message, self._fields[1]), dtype=float).reshape(1, 1, -1)
        known = len(names) == values.size or not self._fields[0]
        if not known or getattr(message, 'interface_name', 'effort') != 'effort':
            return None
        return Group(names, Rows(place, arrival_ns, arrival_ns, values))

    def _columns(
        self, layout: MessageLayout, data: Array, place: Array, arrival_ns: Array
    ) -> Group:
        """Return the columns of messages of one layout."""
        layout = layout if self._of_states else layout._replace(spans=layout.spans[-1:])
        n = len(layout.names) if self._fields[0] else layout.spans[0][1]
        values = np.full((len(data), len(layout.spans), n), np.nan)
        for i, (_, count) in enumerate(layout.spans):
            if count == n:
                values[:, i] = layout.doubles(data, i)
        stamps = layout.stamps(data) if self._of_states else arrival_ns
        return Group(layout.names, Rows(place, stamps, arrival_ns, values))


def state_group(
    message: Any, names: Sequence[str], fields: Sequence[Any], place: Array, arrival_ns: Array
) -> Group | None:
    """Return a joint state as :class:`Decoder` does, None if it is unusable.

    Args:
        message: The message, for its timestamp.
        names: Its joints.
        fields: Its positions, velocities and efforts.
        place: Its place in the bag, shape (1,).
        arrival_ns: Its receive time, shape (1,), ns.
    """
    n, unknown = len(names), np.full(len(names), np.nan)
    if len(fields[0]) != n or len(fields[1]) not in (0, n):
        return None
    values = np.array([[x if len(x) == n else unknown for x in fields]], dtype=float)
    stamps = np.array([stamp_ns(message)], dtype=np.int64)
    return Group(tuple(names), Rows(place, stamps, arrival_ns, values))
