# SPDX-License-Identifier: Apache-2.0
"""Joint states and numbers straight from their bytes into columns.

The messages of one publisher differ in nothing but the stamp and the numbers, so where these stand
is found once, in the first message, with the bag library's own reading as the judge; all others of
the same bytes elsewhere are then cut into columns at once. A message that fits no known layout is
read by the library.

Layout of CDR (little or big endian by the second byte): 4 bytes of encapsulation; behind them any
number stands at a multiple of its size; a string is its length with a closing 0, then the bytes; a
sequence is its length, then the elements.

Messages of a running loop as bytes: numbers read and overwritten where they stand.

What a layout is, and how one is found, is the same as for recordings, see :mod:`.cdr`. Here it
must be plain little-endian CDR; anything else is left to the middleware's own reading.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.spatial.scalar import Array

#: Reads one message with the bag library; raises RecordingError.
Deserialize = Callable[[Any], Any]

NANO = 1_000_000_000
_MOST_LAYOUTS = 32


class States(NamedTuple):
    """Joint-state messages with the same joints.

    Attributes:
        names: The joints.
        places: Which messages these are, of those that were given; shape (M,), increasing.
        stamp_ns: Stamps of their headers, shape (M,), ns.
        position, velocity, effort: Shape (M, joints); NaN where the message has none.
    """

    names: tuple[str, ...]
    places: Array
    stamp_ns: Array
    position: Array
    velocity: Array
    effort: Array


class Numbers(NamedTuple):
    """Number messages of the same length; ``places`` as in :class:`States`, data (M, length)."""

    places: Array
    data: Array


class MessageLayout(NamedTuple):
    """Where the numbers stand in messages of one kind.

    Attributes:
        names: Joints, of joint states.
        pattern: The first message, shape (size,), bytes.
        fixed: Which of its bytes every message has, shape (size,).
        spans: First byte and count of each sequence of doubles.
        order: '<' or '>'.
    """

    names: tuple[str, ...]
    pattern: Array
    fixed: Array
    spans: tuple[tuple[int, int], ...]
    order: str

    def fits(self, rows: Array) -> Array:
        """Return which rows (M, size) have this layout."""
        return (rows[:, self.fixed] == self.pattern[self.fixed]).all(axis=1)

    def doubles(self, rows: Array, which: int) -> Array:
        """Return one of the sequences of doubles, shape (M, count)."""
        start, count = self.spans[which]
        cut = np.ascontiguousarray(rows[:, start : start + 8 * count])
        return cut.view(f'{self.order}f8').astype(float, copy=False)

    def stamps(self, rows: Array) -> Array:
        """Return the stamps of the headers, shape (M,), ns."""
        cut = np.ascontiguousarray(rows[:, 4:12])
        sec = cut[:, :4].copy().view(f'{self.order}i4')[:, 0].astype(np.int64)
        nanosec = cut[:, 4:].copy().view(f'{self.order}u4')[:, 0].astype(np.int64)
        return sec * NANO + nanosec


class _Walk:
    """Steps over the fields of one message, and marks which bytes are fixed."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 4
        self.order = '<' if data[1] & 1 else '>'
        self.fixed = np.zeros(len(data), dtype=bool)
        self.fixed[:4] = True

    def align(self, size: int) -> None:
        self.at += -(self.at - 4) % size

    def number(self) -> int:
        self.align(4)
        (value,) = struct.unpack_from(f'{self.order}I', self.data, self.at)
        self.fixed[self.at : self.at + 4] = True
        self.at += 4
        return int(value)

    def text(self) -> str:
        size = self.number()
        content = self.data[self.at : self.at + size]
        self.fixed[self.at : self.at + size] = True
        self.at += size
        return content.rstrip(b'\x00').decode()

    def doubles(self) -> tuple[int, int]:
        count = self.number()
        if count:
            self.align(8)
        start = self.at
        self.at += 8 * count
        if self.at > len(self.data):
            raise struct.error('a sequence is longer than its message')
        return start, count


class Columns(ABC):
    """Cuts messages of one topic into columns; those that are damaged are left out.

    Args:
        deserialize: Reads one message with the bag library.
    """

    def __init__(self, deserialize: Deserialize) -> None:
        self._deserialize = deserialize
        self._layouts: dict[int, list[MessageLayout]] = {}

    def groups(self, messages: Sequence[Any]) -> list[Any]:
        """Return the messages as columns, a group for each layout."""
        sizes = np.fromiter(map(len, messages), dtype=np.int64, count=len(messages))
        groups: list[Any] = []
        for size in np.unique(sizes).tolist():
            index = np.flatnonzero(sizes == size)
            joined = b''.join(messages[i] for i in index.tolist())
            self._take(index, np.frombuffer(joined, np.uint8).reshape(len(index), size), groups)
        return groups

    def _take(self, index: Array, rows: Array, groups: list[Any]) -> None:
        """Cut messages of one size; learn the layouts that are missing."""
        known = self._layouts.setdefault(rows.shape[1], [])
        for layout in known:
            fits = layout.fits(rows)
            if fits.any():
                groups.append(self._columns(layout, index[fits], rows[fits]))
                index, rows = index[~fits], rows[~fits]
        while len(index):
            first = rows[0].tobytes()
            learnt = self._learn(first) if len(known) < _MOST_LAYOUTS else None
            if learnt is None:
                one = self._one(index[0], first)
                groups += [] if one is None else [one]
                index, rows = index[1:], rows[1:]
                continue
            known.append(learnt)
            fits = learnt.fits(rows)
            groups.append(self._columns(learnt, index[fits], rows[fits]))
            index, rows = index[~fits], rows[~fits]

    def _learn(self, data: bytes) -> MessageLayout | None:
        """Return the layout of a message, or None if columns differ from the library's reading."""
        try:
            layout = self._layout(data)
            message = self._deserialize(data)
        except (RecordingError, struct.error, IndexError, UnicodeDecodeError):
            return None
        row = np.frombuffer(data, np.uint8)[np.newaxis]
        return layout if self._same(layout, row, message) else None

    def _one(self, place: int, data: bytes) -> Any:
        """Return a message as the library reads it, or None if that is nothing to use."""
        try:
            return self._read(place, self._deserialize(data))
        except RecordingError:
            return None

    @abstractmethod
    def _layout(self, data: bytes) -> MessageLayout:
        """Return where the numbers of a message stand."""

    @abstractmethod
    def _read(self, place: int, message: Any) -> Any:
        """Return the columns of one message as the library reads it, or None without use."""

    @abstractmethod
    def _same(self, layout: MessageLayout, row: Array, message: Any) -> bool:
        """Return whether a layout cuts out of a row what the library reads."""

    @abstractmethod
    def _columns(self, layout: MessageLayout, index: Array, rows: Array) -> Any:
        """Return the columns of messages of one layout."""


def state_layout(data: bytes) -> MessageLayout:
    """Return where the numbers of a sensor_msgs/JointState stand.

    Raises:
        struct.error, IndexError, UnicodeDecodeError: The bytes are none.
    """
    walk = _Walk(data)
    walk.at += 8  # the stamp
    walk.text()  # the frame
    names = tuple(walk.text() for _ in range(walk.number()))
    spans = (walk.doubles(), walk.doubles(), walk.doubles())
    return MessageLayout(names, np.frombuffer(data, np.uint8), walk.fixed, spans, walk.order)


def number_layout(data: bytes, *, single: bool) -> MessageLayout:
    """Return where the numbers of a std_msgs/Float64MultiArray stand; ``single``: of a Float64.

    Raises:
        struct.error, IndexError, UnicodeDecodeError: The bytes are none.
    """
    walk = _Walk(data)
    if single:
        span = (walk.at, 1)
    else:
        for _ in range(walk.number()):
            walk.text()
            walk.number()
            walk.number()
        walk.number()
        span = walk.doubles()
    return MessageLayout((), np.frombuffer(data, np.uint8), walk.fixed, (span,), walk.order)


class StateColumns(Columns):
    """Columns of sensor_msgs/JointState.

    A message whose positions are not as many as its names is of no use; nor is one with some
    velocities. Efforts of another number are taken as none.
    """

    def _layout(self, data: bytes) -> MessageLayout:
        return state_layout(data)

    def _same(self, layout: MessageLayout, row: Array, message: Any) -> bool:
        fields = (message.position, message.velocity, message.effort)
        counts = [count for _, count in layout.spans]
        n = len(layout.names)
        return (
            layout.names == tuple(message.name)
            and counts[0] == n
            and all(count in (0, n) for count in counts[1:])
            and layout.stamps(row)[0] == stamp_ns(message)
            and all(layout.doubles(row, i).tobytes() == f.tobytes() for i, f in enumerate(fields))
        )

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
    """Columns of std_msgs/Float64MultiArray, or with ``single`` of std_msgs/Float64."""

    def __init__(self, deserialize: Deserialize, *, single: bool) -> None:
        super().__init__(deserialize)
        self._single = single

    def _layout(self, data: bytes) -> MessageLayout:
        return number_layout(data, single=self._single)

    def _same(self, layout: MessageLayout, row: Array, message: Any) -> bool:
        values = np.atleast_1d(np.asarray(message.data, dtype=float))
        return layout.doubles(row, 0).tobytes() == values.tobytes()

    def _columns(self, layout: MessageLayout, index: Array, rows: Array) -> Numbers:
        return Numbers(index, layout.doubles(rows, 0))

    def _read(self, place: int, message: Any) -> Numbers:
        values = np.atleast_1d(np.array(message.data, dtype=float))
        return Numbers(np.array([place]), values[np.newaxis])


def stamp_ns(message: Any) -> int:
    """Return the stamp in a message's header, ns."""
    stamp = message.header.stamp
    return int(stamp.sec) * NANO + int(stamp.nanosec)


#: First bytes of a message in plain little-endian CDR: its kind, and options, which are none.
PLAIN = b'\x00\x01\x00\x00'
_STAMP = struct.Struct('<iI')
_STAMP_AT = 4
_DAMAGED = (struct.error, IndexError, UnicodeDecodeError)


class MessageBytes:
    """The bytes of one message, with its numbers as arrays.

    Attributes:
        names: Joints, of joint states.
        doubles: Its sequences of doubles, arrays over the bytes: of joint states position,
            velocity, effort.

    Args:
        data: A message in plain CDR.
        layout: Where its numbers stand.
    """

    def __init__(self, data: bytes, layout: MessageLayout) -> None:
        self.names, self._size = layout.names, len(data)
        # Numbers are aligned from the fourth byte on.
        aligned = np.zeros(1 + -(-len(data) // 8), dtype=float).view(np.uint8)
        stored = aligned[_STAMP_AT : _STAMP_AT + len(data)]
        self._bytes = stored.data
        self._bytes[:] = data
        self.doubles: tuple[Array, ...] = tuple(
            stored[start : start + 8 * count].view(float) for start, count in layout.spans
        )
        self._fixed = int.from_bytes((layout.fixed * np.uint8(255)).tobytes(), 'little')
        self._pattern = int.from_bytes(data, 'little') & self._fixed

    def take(self, data: bytes) -> bool:
        """Take over another message if it differs in stamp and numbers only; return whether."""
        if (
            len(data) != self._size
            or int.from_bytes(data, 'little') & self._fixed != self._pattern
        ):
            return False
        self._bytes[:] = data
        return True

    @property
    def stamp_ns(self) -> int:
        """The stamp of the header, of joint states, ns."""
        seconds, nanoseconds = _STAMP.unpack_from(self._bytes, _STAMP_AT)
        return int(seconds) * NANO + int(nanoseconds)

    @stamp_ns.setter
    def stamp_ns(self, stamp_ns: int) -> None:
        _STAMP.pack_into(self._bytes, _STAMP_AT, stamp_ns // NANO, stamp_ns % NANO)

    def content(self) -> bytes:
        """Return the message, new."""
        return self._bytes.tobytes()


def state_bytes(data: bytes) -> MessageBytes | None:
    """Return a sensor_msgs/JointState with its numbers; None if its layout is another one."""
    if data[:4] != PLAIN:
        return None
    try:
        return MessageBytes(data, state_layout(data))
    except _DAMAGED:
        return None


def number_bytes(data: bytes, *, single: bool) -> MessageBytes | None:
    """Return a std_msgs/Float64MultiArray, with ``single`` a Float64; None: another layout."""
    if data[:4] != PLAIN:
        return None
    try:
        return MessageBytes(data, number_layout(data, single=single))
    except _DAMAGED:
        return None
