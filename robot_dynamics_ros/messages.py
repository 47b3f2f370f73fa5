# SPDX-License-Identifier: Apache-2.0
"""Byte layouts of serialized joint states and number messages, read and written in place.

The messages of one publisher differ only in the timestamp and the numbers, whose byte offsets are
determined once, from the first message.

CDR layout (second byte: little or big endian): a 4-byte encapsulation header, after which each
number is aligned to a multiple of its size; a string is its length including the terminating 0,
then the bytes; a sequence is its length, then the elements.

:class:`MessageBytes` reads and overwrites the numbers of a message in place. It supports plain
little-endian CDR only; the middleware deserializes all other messages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array

NANO = 1_000_000_000


def from_start(stamp_ns: int) -> str:
    """Return how texts name a trajectory: by the timestamp of its start, ns, in s."""
    seconds = f'{stamp_ns // NANO}.{stamp_ns % NANO:09d}'.rstrip('0').rstrip('.')
    return f'from {seconds} s'


def wrench_of(message: Any) -> Array:
    """Return force and moment of a WrenchStamped in its axes, shape (6,), N and N m."""
    f, m = message.wrench.force, message.wrench.torque
    return np.array([f.x, f.y, f.z, m.x, m.y, m.z])


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

    def doubles(self, count: int | None = None) -> tuple[int, int]:
        """Step over doubles, or a sequence of them; return the first byte and their count."""
        if count is None:
            count = self.number()
        if count:
            self.align(8)
        start = self.offset
        self.offset += 8 * count
        if self.offset > len(self.data):
            raise struct.error('a sequence is longer than its message')
        return start, count

    def layout(self, names: tuple[str, ...], *spans: tuple[int, int]) -> MessageLayout:
        """Return the layout of the message."""
        pattern = np.frombuffer(self.data, np.uint8)
        return MessageLayout(names, pattern, self.fixed, spans, self.order)

    def names(self) -> tuple[str, ...]:
        """Read a header, and return the list of names that follows it."""
        self.offset += 8  # timestamp
        self.text()  # frame_id
        return tuple(self.text() for _ in range(self.number()))


def state_layout(data: bytes) -> MessageLayout:
    """Return the byte layout of a sensor_msgs/JointState.

    Raises:
        struct.error, IndexError, UnicodeDecodeError: The bytes are not such a message.
    """
    reader = _FieldReader(data)
    return reader.layout(reader.names(), *(reader.doubles() for _ in range(3)))


def command_layout(data: bytes) -> MessageLayout:
    """Return the byte layout of a control_msgs/JointCommand.

    Raises:
        struct.error, IndexError, UnicodeDecodeError: The bytes are not such a message.
    """
    reader = _FieldReader(data)
    names = reader.names()
    reader.text()  # interface_name
    return reader.layout(names, reader.doubles())


def number_layout(data: bytes, *, single: bool) -> MessageLayout:
    """Return the byte layout of a std_msgs/Float64MultiArray, with ``single`` of a Float64.

    Raises:
        struct.error, IndexError, UnicodeDecodeError: The bytes are not such a message.
    """
    reader = _FieldReader(data)
    if single:
        return reader.layout((), reader.doubles(1))
    for _ in range(reader.number()):
        reader.text()
        reader.number()
        reader.number()
    reader.number()
    return reader.layout((), reader.doubles())


def stamp_ns(message: Any) -> int:
    """Return the header timestamp of a message, ns."""
    stamp = message.header.stamp
    return int(stamp.sec) * NANO + int(stamp.nanosec)


#: Encapsulation header of plain little-endian CDR: representation identifier, options (none).
PLAIN = b'\x00\x01\x00\x00'
_STAMP = struct.Struct('<iI')
_STAMP_OFFSET = 4
#: Errors of bytes that are not a message of the type.
DAMAGED = (struct.error, IndexError, UnicodeDecodeError)


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
        layout: ``state_layout``, ``command_layout`` or ``number_layout``.
    """
    if data[:4] != PLAIN:
        return None
    try:
        return MessageBytes(data, layout(data))
    except DAMAGED:
        return None
