# SPDX-License-Identifier: Apache-2.0
"""Joint states and number messages of a bag as columns.

The byte layout of a message (``messages``) is verified against the bag library's deserialization.
All messages with the same bytes elsewhere are then decoded at once. A message that matches no
known layout is deserialized by the library.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.messages import (
    DAMAGED,
    MessageLayout,
    number_layout,
    stamp_ns,
    state_layout,
)
from robot_dynamics_ros.spatial.scalar import Array

STATE = 'sensor_msgs/msg/JointState'
ARRAY = 'std_msgs/msg/Float64MultiArray'
SINGLE = 'std_msgs/msg/Float64'
#: Topic, places in the bag and receive times, ns, (M,), and columns of the readable messages.
TopicColumns = tuple[str, Array, Array, list[Any]]
#: Deserializes one message with the bag library; raises RecordingError.
Deserialize = Callable[[Any], Any]
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
        except DAMAGED:
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
        values = state_values(message)
        if values is None:
            return None
        stamps = np.array([stamp_ns(message)], dtype=np.int64)
        return States(tuple(message.name), np.array([place]), stamps, *values[:, np.newaxis])


def state_values(message: Any) -> Array | None:
    """Return a JointState as :class:`StateColumns` does, shape (3, joints); None: unusable."""
    n = len(message.name)
    if len(message.position) != n or len(message.velocity) not in (0, n):
        return None
    return np.array([
        values if len(values) == n else np.full(n, np.nan)
        for values in (message.position, message.velocity, message.effort)
    ], dtype=float)  # fmt: skip


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
