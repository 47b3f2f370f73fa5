# SPDX-License-Identifier: Apache-2.0
"""A recording as a bag: the topics and times that our recorder writes, without ROS.

For runs in one process (simulations, tests, what-if), so that they are kept and read like any
other. Numbers are written bit for bit.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.recordings.bag.reader import BagWriter
from robot_dynamics_ros.recordings.recording import NANO, Recording
from robot_dynamics_ros.spatial.scalar import Array

STATES, REFERENCE = '/joint_states', '/controller/reference'
COMMANDS, DESCRIPTION = '/effort_controller/commands', '/robot_description'

_STATE, _ARRAY, _TEXT = (
    'sensor_msgs/msg/JointState',
    'std_msgs/msg/Float64MultiArray',
    'std_msgs/msg/String',
)


def write_recording(path: str | os.PathLike[str], recording: Recording) -> None:
    """Write a recording into a new bag.

    Args:
        path: The bag's folder, which must not exist.
        recording: Rows without a finite command or reference get none.

    Raises:
        RecordingError: There is a file or folder of that name.
        MissingDependencyError: rosbags is not installed.
    """
    n, joints = len(recording.joints), recording.joints
    stamps = recording.stamp_ns.tolist()
    with BagWriter(path) as bag:
        bag.add_topic(STATES, _STATE)
        bag.add_topic(COMMANDS, _ARRAY)
        bag.add_topic(REFERENCE, _STATE)
        if recording.description:
            bag.add_topic(DESCRIPTION, _TEXT, latched=True)
            bag.write(DESCRIPTION, stamps[0], _Cdr().text(recording.description).bytes())
        measured = np.where(np.isfinite(recording.measured_effort).all(axis=1), n, 0).tolist()
        for k, stamp in enumerate(stamps):
            effort = recording.measured_effort[k, : measured[k]]
            data = _joint_state(
                stamp, joints, recording.position[k], recording.velocity[k], effort
            )
            bag.write(STATES, stamp, data)
            if np.isfinite(recording.reference_position[k]).all():
                place = recording.reference_position[k], recording.reference_velocity[k]
                bag.write(REFERENCE, stamp, _joint_state(stamp, joints, *place, effort[:0]))
            if np.isfinite(recording.effort[k]).all():
                # An empty layout: no dimensions, no offset.
                command = _Cdr().number('I', 0).number('I', 0).doubles(recording.effort[k])
                bag.write(COMMANDS, stamp, command.bytes())


def _joint_state(
    stamp: int,
    names: Sequence[str],
    position: Array,
    velocity: Array,
    effort: Array,
) -> bytes:
    """Return a serialized sensor_msgs/msg/JointState."""
    data = _Cdr().number('i', stamp // NANO).number('I', stamp % NANO).text('')
    data.number('I', len(names))
    for name in names:
        data.text(name)
    return data.doubles(position).doubles(velocity).doubles(effort).bytes()


class _Cdr:
    """Little-endian CDR: any number stands at a multiple of its size behind the header."""

    def __init__(self) -> None:
        self._data = bytearray()

    def _align(self, size: int) -> None:
        self._data += bytes(-len(self._data) % size)

    def number(self, kind: str, value: int) -> _Cdr:
        """Append a number of 4 bytes, kind as in struct."""
        self._align(4)
        self._data += struct.pack(f'<{kind}', value)
        return self

    def text(self, value: str) -> _Cdr:
        """Append a string."""
        encoded = value.encode('utf-8') + b'\0'
        self.number('I', len(encoded))
        self._data += encoded
        return self

    def doubles(self, values: Array) -> _Cdr:
        """Append a sequence of doubles."""
        array = np.asarray(values, dtype='<f8')
        self.number('I', len(array))
        if len(array):
            self._align(8)
            self._data += array.tobytes()
        return self

    def bytes(self) -> bytes:
        """Return the message with its encapsulation header."""
        return b'\x00\x01\x00\x00' + bytes(self._data)
