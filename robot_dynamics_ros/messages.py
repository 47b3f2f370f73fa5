# SPDX-License-Identifier: Apache-2.0
"""Fast decoding of serialized joint states and number messages.

Recordings: the messages of one publisher differ only in the timestamp and the numbers. The byte
offsets of these are determined once, from the first message, and verified against the bag
library's deserialization (:class:`Columns`). All messages with the same bytes elsewhere are then
decoded into columns at once. A message that matches no known layout is deserialized by the
library.

CDR layout (second byte: little or big endian): a 4-byte encapsulation header, after which each
number is aligned to a multiple of its size; a string is its length including the terminating 0,
then the bytes; a sequence is its length, then the elements.

Control loop: :class:`MessageBytes` reads and overwrites the numbers of a message in place, with
the same layouts. It supports plain little-endian CDR only; the middleware deserializes all other
messages.
"""

from __future__ import annotations

import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.spatial.scalar import Array

#: Deserializes one message with the bag library; raises RecordingError.
Deserialize = Callable[[Any], Any]

NANO = 1_000_000_000


def force_topic(joint: str) -> str:
    """Return the topic of the effort of one joint, its name made valid as a name in ROS.

    Parts of a name in ROS consist of ASCII letters, digits and underscores, and do not begin with
    a digit.
    """
    parts = re.sub(r'[^A-Za-z0-9_/]', '_', joint).split('/')
    return '/'.join([*(f'_{x}' if x[:1].isdigit() else x for x in parts if x), 'cmd_force'])


#: Message types of the streams to a controller, by the last part of the topic name.
STREAMS = {
    'target_joint': 'sensor_msgs/msg/JointState',
    'target_pose': 'geometry_msgs/msg/PoseStamped',
    'target_wrench': 'geometry_msgs/msg/WrenchStamped',
    'measured_wrench': 'geometry_msgs/msg/WrenchStamped',
    'enable_guiding': 'std_msgs/msg/Bool',
    'speed_scaling_input': 'control_msgs/msg/SpeedScalingFactor',
}
_MAX_LAYOUTS = 32


class States(NamedTuple):
    """Joint-state messages with the same joints, as columns.

    Attributes:
        names: Joint names.
        places: Indices of these messages in the input, shape (M,), increasing.
        stamp_ns: Header timestamps, shape (M,), ns.
        position, velocity, effort: Shape (M, joints); NaN where the message has no values.
    """

    names: tuple[str, ...]
    places: Array
    stamp_ns: Array
    position: Array
    velocity: Array
    effort: Array


class Numbers(NamedTuple):
    """Number messages of equal length; ``places`` as in :class:`States`, ``data`` (M, length)."""

    places: Array
    data: Array


class MessageLayout(NamedTuple):
    """Byte layout of messages that differ only in the timestamp and the numbers.

    Attributes:
        names: Joint names, for joint states.
        pattern: The first message, shape (size,), bytes.
        fixed: Mask of its bytes that are the same in every message, shape (size,).
        spans: First byte and count of each sequence of doubles.
        order: Byte order, '<' or '>'.
    """

    names: tuple[str, ...]
    pattern: Array
    fixed: Array
    spans: tuple[tuple[int, int], ...]
    order: str

    def fits(self, rows: Array) -> Array:
        """Return the mask of the rows (M, size) that have this layout."""
        return (rows[:, self.fixed] == self.pattern[self.fixed]).all(axis=1)

    def doubles(self, rows: Array, which: int) -> Array:
        """Return one sequence of doubles of all rows, shape (M, count)."""
        start, count = self.spans[which]
        cut = np.ascontiguousarray(rows[:, start : start + 8 * count])
        return cut.view(f'{self.order}f8').astype(float, copy=False)

    def stamps(self, rows: Array) -> Array:
        """Return the header timestamps, shape (M,), ns."""
        cut = np.ascontiguousarray(rows[:, 4:12])
        sec = cut[:, :4].copy().view(f'{self.order}i4')[:, 0].astype(np.int64)
        nanosec = cut[:, 4:].copy().view(f'{self.order}u4')[:, 0].astype(np.int64)
        return sec * NANO + nanosec


class _FieldReader:
    """Steps through the fields of one message and marks the fixed bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.offset = data, 4
        self.order = '<' if data[1] & 1 else '>'
        self.fixed = np.zeros(len(data), dtype=bool)
        self.fixed[:4] = True

    def align(self, size: int) -> None:
        self.offset += -(self.offset - 4) % size

    def number(self) -> int:
        self.align(4)
        (value,) = struct.unpack_from(f'{self.order}I', self.data, self.offset)
        self.fixed[self.offset : self.offset + 4] = True
        self.offset += 4
        return int(value)

    def text(self) -> str:
        size = self.number()
        content = self.data[self.offset : self.offset + size]
        self.fixed[self.offset : self.offset + size] = True
        self.offset += size
        return content.rstrip(b'\x00').decode()

    def doubles(self) -> tuple[int, int]:
        count = self.number()
        if count:
            self.align(8)
        start = self.offset
        self.offset += 8 * count
        if self.offset > len(self.data):
            raise struct.error('a sequence is longer than its message')
        return start, count


class Columns(ABC):
    """Decodes the messages of one topic into columns, without the damaged ones.

    Args:
        deserialize: Deserializes one message with the bag library.
    """

    def __init__(self, deserialize: Deserialize) -> None:
        self._deserialize = deserialize
        self._layouts: dict[int, list[MessageLayout]] = {}

    def groups(self, messages: Sequence[Any]) -> list[Any]:
        """Return the messages as columns, one group per layout."""
        sizes = np.fromiter(map(len, messages), dtype=np.int64, count=len(messages))
        groups: list[Any] = []
        for size in np.unique(sizes).tolist():
            index = np.flatnonzero(sizes == size)
            joined = b''.join(messages[i] for i in index.tolist())
            self._decode(index, np.frombuffer(joined, np.uint8).reshape(len(index), size), groups)
        return groups

    def _decode(self, index: Array, rows: Array, groups: list[Any]) -> None:
        """Decode messages of one size; determine new layouts as needed."""
        layouts = self._layouts.setdefault(rows.shape[1], [])
        for layout in layouts:
            fits = layout.fits(rows)
            if fits.any():
                groups.append(self._columns(layout, index[fits], rows[fits]))
                index, rows = index[~fits], rows[~fits]
        while len(index):
            first = rows[0].tobytes()
            new = self._new_layout(first) if len(layouts) < _MAX_LAYOUTS else None
            if new is None:
                columns = self._decode_one(index[0], first)
                groups += [] if columns is None else [columns]
                index, rows = index[1:], rows[1:]
                continue
            layouts.append(new)
            fits = new.fits(rows)
            groups.append(self._columns(new, index[fits], rows[fits]))
            index, rows = index[~fits], rows[~fits]

    def _new_layout(self, data: bytes) -> MessageLayout | None:
        """Return the layout of a message; None if it disagrees with the library's decoding."""
        try:
            layout = self._layout(data)
        except _DAMAGED:
            return None
        expected = self._decode_one(0, data)
        if expected is None:
            return None
        row = np.frombuffer(data, np.uint8)[np.newaxis]
        columns = self._columns(layout, np.zeros(1, dtype=int), row)
        pairs = zip(map(np.asarray, columns), map(np.asarray, expected), strict=True)
        return layout if all(a.tobytes() == b.tobytes() for a, b in pairs) else None

    def _decode_one(self, place: int, data: bytes) -> Any:
        """Return the columns of a message that the library decodes; None if it is unusable."""
        try:
            return self._read(place, self._deserialize(data))
        except RecordingError:
            return None

    @abstractmethod
    def _layout(self, data: bytes) -> MessageLayout:
        """Return the byte layout of a message."""

    @abstractmethod
    def _read(self, place: int, message: Any) -> Any:
        """Return the columns of one deserialized message; None if it is unusable."""

    @abstractmethod
    def _columns(self, layout: MessageLayout, index: Array, rows: Array) -> Any:
        """Return the columns of messages of one layout."""


def state_layout(data: bytes) -> MessageLayout:
    """Return the byte layout of a sensor_msgs/JointState.

    Raises:
        struct.error, IndexError, UnicodeDecodeError: The bytes are not such a message.
    """
    reader = _FieldReader(data)
    reader.offset += 8  # timestamp
    reader.text()  # frame_id
    names = tuple(reader.text() for _ in range(reader.number()))
    spans = (reader.doubles(), reader.doubles(), reader.doubles())
    return MessageLayout(names, np.frombuffer(data, np.uint8), reader.fixed, spans, reader.order)


def number_layout(data: bytes, *, single: bool) -> MessageLayout:
    """Return the byte layout of a std_msgs/Float64MultiArray, with ``single`` of a Float64.

    Raises:
        struct.error, IndexError, UnicodeDecodeError: The bytes are not such a message.
    """
    reader = _FieldReader(data)
    if single:
        span = (reader.offset, 1)
    else:
        for _ in range(reader.number()):
            reader.text()
            reader.number()
            reader.number()
        reader.number()
        span = reader.doubles()
    return MessageLayout((), np.frombuffer(data, np.uint8), reader.fixed, (span,), reader.order)


class StateColumns(Columns):
    """Columns of sensor_msgs/JointState.

    Drops a message whose number of positions differs from the number of names, or whose number of
    velocities is neither 0 nor that number. A different number of efforts is treated as none.
    """

    def _layout(self, data: bytes) -> MessageLayout:
        return state_layout(data)

    def _columns(self, layout: MessageLayout, index: Array, rows: Array) -> States:
        n = len(layout.names)
        columns = [
            layout.doubles(rows, i) if layout.spans[i][1] else np.full((len(rows), n), np.nan)
            for i in range(3)
        ]
        return States(layout.names, index, layout.stamps(rows), *columns)

    def _read(self, place: int, message: Any) -> States | None:
        names, n = tuple(message.name), len(message.name)
        if len(message.position) != n or len(message.velocity) not in (0, n):
            return None
        rows = [
            np.array(values, dtype=float) if len(values) == n else np.full(n, np.nan)
            for values in (message.position, message.velocity, message.effort)
        ]
        stamps = np.array([stamp_ns(message)], dtype=np.int64)
        return States(names, np.array([place]), stamps, *(row[np.newaxis] for row in rows))


class NumberColumns(Columns):
    """Columns of std_msgs/Float64MultiArray, with ``single`` of std_msgs/Float64."""

    def __init__(self, deserialize: Deserialize, *, single: bool) -> None:
        super().__init__(deserialize)
        self._single = single

    def _layout(self, data: bytes) -> MessageLayout:
        return number_layout(data, single=self._single)

    def _columns(self, layout: MessageLayout, index: Array, rows: Array) -> Numbers:
        return Numbers(index, layout.doubles(rows, 0))

    def _read(self, place: int, message: Any) -> Numbers:
        values = np.atleast_1d(np.array(message.data, dtype=float))
        return Numbers(np.array([place]), values[np.newaxis])


def stamp_ns(message: Any) -> int:
    """Return the header timestamp of a message, ns."""
    stamp = message.header.stamp
    return int(stamp.sec) * NANO + int(stamp.nanosec)


#: Encapsulation header of plain little-endian CDR: representation identifier, options (none).
PLAIN = b'\x00\x01\x00\x00'
_STAMP = struct.Struct('<iI')
_STAMP_OFFSET = 4
_DAMAGED = (struct.error, IndexError, UnicodeDecodeError)


class MessageBytes:
    """The bytes of one message, with its numbers as array views.

    Attributes:
        names: Joint names, for joint states.
        doubles: Views of its sequences of doubles; for joint states position, velocity, effort.

    Args:
        data: A message in plain CDR.
        layout: Its byte layout.
    """

    def __init__(self, data: bytes, layout: MessageLayout) -> None:
        self.names, self._size = layout.names, len(data)
        # Numbers are aligned relative to the fourth byte.
        aligned = np.zeros(1 + -(-len(data) // 8), dtype=float).view(np.uint8)
        stored = aligned[_STAMP_OFFSET : _STAMP_OFFSET + len(data)]
        self._bytes = stored.data
        self._bytes[:] = data
        padding = ~layout.fixed  # the middleware leaves it uninitialized
        for start, count in ((_STAMP_OFFSET, 1), *layout.spans):
            padding[start : start + 8 * count] = False
        stored[padding] = 0
        self.doubles: tuple[Array, ...] = tuple(
            stored[start : start + 8 * count].view(float) for start, count in layout.spans
        )
        self._fixed = int.from_bytes((layout.fixed * np.uint8(255)).tobytes(), 'little')
        self._pattern = int.from_bytes(data, 'little') & self._fixed

    def take(self, data: bytes) -> bool:
        """Copy a message if it differs only in timestamp and numbers; return whether it does."""
        if (
            len(data) != self._size
            or int.from_bytes(data, 'little') & self._fixed != self._pattern
        ):
            return False
        self._bytes[:] = data
        return True

    @property
    def stamp_ns(self) -> int:
        """Header timestamp of joint states, ns."""
        seconds, nanoseconds = _STAMP.unpack_from(self._bytes, _STAMP_OFFSET)
        return int(seconds) * NANO + int(nanoseconds)

    @stamp_ns.setter
    def stamp_ns(self, stamp_ns: int) -> None:
        _STAMP.pack_into(self._bytes, _STAMP_OFFSET, stamp_ns // NANO, stamp_ns % NANO)

    def content(self) -> bytes:
        """Return a copy of the message."""
        return self._bytes.tobytes()


def message_bytes(data: bytes, layout: Callable[[bytes], MessageLayout]) -> MessageBytes | None:
    """Return a message with array views; None if it is not plain CDR, or damaged.

    Args:
        data: The message.
        layout: ``state_layout`` or ``number_layout``.
    """
    if data[:4] != PLAIN:
        return None
    try:
        return MessageBytes(data, layout(data))
    except _DAMAGED:
        return None
