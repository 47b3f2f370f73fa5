# SPDX-License-Identifier: Apache-2.0
"""A recording as a bag: the topics and times that our recorder writes, without ROS.

For runs in one process (simulations, tests, what-if), so that they are kept and read like any
other. Numbers are written bit for bit.
"""

from __future__ import annotations

import os

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
    flat = np.ascontiguousarray  # a table's row may not be
    n, stamps = len(recording.joints), recording.stamp_ns.tolist()
    measured = np.where(np.isfinite(recording.measured_effort).all(axis=1), n, 0).tolist()
    with BagWriter(path) as bag:

        def write_state(topic: str, stamp: int, *numbers: Array) -> None:
            time = bag.message('builtin_interfaces/msg/Time', *divmod(stamp, NANO))
            header = bag.message('std_msgs/msg/Header', time, '')
            message = bag.message(_STATE, header, list(recording.joints), *map(flat, numbers))
            bag.write_message(topic, stamp, message)

        bag.add_topic(STATES, _STATE)
        bag.add_topic(COMMANDS, _ARRAY)
        bag.add_topic(REFERENCE, _STATE)
        if recording.description:
            bag.add_topic(DESCRIPTION, _TEXT, latched=True)
            bag.write_message(DESCRIPTION, stamps[0], bag.message(_TEXT, recording.description))
        layout = bag.message('std_msgs/msg/MultiArrayLayout', [], 0)
        for k, stamp in enumerate(stamps):
            effort = recording.measured_effort[k, : measured[k]]
            write_state(STATES, stamp, recording.position[k], recording.velocity[k], effort)
            if np.isfinite(recording.reference_position[k]).all():
                place = recording.reference_position[k], recording.reference_velocity[k]
                write_state(REFERENCE, stamp, *place, effort[:0])
            if np.isfinite(recording.effort[k]).all():
                command = bag.message(_ARRAY, layout, flat(recording.effort[k]))
                bag.write_message(COMMANDS, stamp, command)
