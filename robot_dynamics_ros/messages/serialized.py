# SPDX-License-Identifier: Apache-2.0
"""Messages of a running loop as bytes: numbers read and overwritten where they stand.

What a layout is, and how one is found, is the same as for recordings, see :mod:`.cdr`. Here it
must be plain little-endian CDR; anything else is left to the middleware's own reading.
"""

from __future__ import annotations

import struct

import numpy as np

from robot_dynamics_ros.messages.cdr import NANO, MessageLayout, number_layout, state_layout
from robot_dynamics_ros.spatial.scalar import Array

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
