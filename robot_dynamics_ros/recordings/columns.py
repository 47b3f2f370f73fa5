# SPDX-License-Identifier: Apache-2.0
"""Joint states and number messages of a bag as columns.

The byte layout of a message (``messages``) is verified against the bag library's deserialization.
All messages with the same bytes elsewhere are then decoded at once. A message that matches no
known layout is deserialized by the library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import RecordingError
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


class Group(NamedTuple):
    """Messages of one topic with the same joints, or the same number of values, as columns.

    Attributes:
        names: Joint names of joint states, or of commands that have some; empty for numbers.
        place: Places of these messages in the bag, shape (M,), increasing.
        arrival_ns: Receive times, shape (M,), ns.
        stamp_ns: Header timestamps, shape (M,), ns; of numbers and commands their receive times.
        values: Position, velocity and effort, shape (3, M, joints), NaN where a message has no
            values; of numbers and commands shape (1, M, count).
    """

    names: tuple[str, ...]
    place: Array
    arrival_ns: Array
    stamp_ns: Array
    values: Array


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
            rows, known = np.frombuffer(joined, np.uint8).reshape(len(index), size), 0
            layouts = self._layouts.setdefault(size, [])
            while len(index):
                times = place[index], arrival_ns[index]
                if known == len(layouts) and not self._learns(layouts, rows[:1]):
                    one = self._decode_one(rows[0].tobytes(), *(x[:1] for x in times))
                    groups += [] if one is None else [one]
                    index, rows = index[1:], rows[1:]
                    continue
                fits = layouts[known].fits(rows)
                if fits.any():
                    groups.append(
                        self._columns(layouts[known], rows[fits], *(x[fits] for x in times))
                    )
                index, rows, known = index[~fits], rows[~fits], known + 1
        return groups

    def _learns(self, layouts: list[MessageLayout], row: Array) -> bool:
        """Add the layout of a message, unless it disagrees with the library's decoding."""
        if len(layouts) == _MAX_LAYOUTS:
            return False
        zero = np.zeros(1, dtype=np.int64)
        try:
            layout = self._read_layout(row.tobytes())
        except DAMAGED:
            return False
        expected = self._decode_one(row.tobytes(), zero, zero)
        if expected is None:
            return False
        pairs = zip(self._columns(layout, row, zero, zero), expected, strict=True)
        agrees = all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)
        layouts += [layout] if agrees else []
        return agrees

    def _decode_one(self, data: bytes, place: Array, arrival_ns: Array) -> Group | None:
        """Return the columns of a message that the library decodes; None if it is unusable."""
        try:
            message = self._deserialize(data)
        except RecordingError:
            return None
        if self._of_states:
            return state_group(message, place, arrival_ns)
        names = tuple(getattr(message, self._fields[0], ()))
        values = np.array(getattr(message, self._fields[1]), dtype=float).reshape(1, 1, -1)
        if getattr(message, 'interface_name', 'effort') != 'effort':
            return None
        known = len(names) == values.size or not self._fields[0]
        return Group(names, place, arrival_ns, arrival_ns, values) if known else None

    def _columns(
        self, layout: MessageLayout, rows: Array, place: Array, arrival_ns: Array
    ) -> Group:
        """Return the columns of messages of one layout."""
        layout = layout if self._of_states else layout._replace(spans=layout.spans[-1:])
        n = len(layout.names) if self._fields[0] else layout.spans[0][1]
        values = np.full((len(layout.spans), len(rows), n), np.nan)
        for i, (_, count) in enumerate(layout.spans):
            if count == n:
                values[i] = layout.doubles(rows, i)
        stamps = layout.stamps(rows) if self._of_states else arrival_ns
        return Group(layout.names, place, arrival_ns, stamps, values)


def state_group(message: Any, place: Array, arrival_ns: Array) -> Group | None:
    """Return a JointState as :class:`Decoder` does, None if it is unusable.

    Args:
        message: The message.
        place: Its place in the bag, shape (1,).
        arrival_ns: Its receive time, shape (1,), ns.
    """
    n = len(message.name)
    if len(message.position) != n or len(message.velocity) not in (0, n):
        return None
    values = np.array([
        x if len(x) == n else np.full(n, np.nan)
        for x in (message.position, message.velocity, message.effort)
    ], dtype=float)  # fmt: skip
    stamps = np.array([stamp_ns(message)], dtype=np.int64)
    return Group(tuple(message.name), place, arrival_ns, stamps, values[:, np.newaxis])
