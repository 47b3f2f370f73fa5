# SPDX-License-Identifier: Apache-2.0
"""Names and types of the topics of a controller; importable without ROS."""

from __future__ import annotations

import re

#: Message types of the streams to a controller, by the last part of the topic name.
STREAMS = {
    'target_joint': 'sensor_msgs/msg/JointState',
    'target_pose': 'geometry_msgs/msg/PoseStamped',
    'target_wrench': 'geometry_msgs/msg/WrenchStamped',
    'measured_wrench': 'geometry_msgs/msg/WrenchStamped',
    'enable_guiding': 'std_msgs/msg/Bool',
    'speed_scaling_input': 'control_msgs/msg/SpeedScalingFactor',
}


def force_topic(joint: str) -> str:
    """Return the topic of the effort of one joint, its name made valid as a name in ROS.

    Parts of a name in ROS consist of ASCII letters, digits and underscores, and do not begin with
    a digit.
    """
    parts = re.sub(r'[^A-Za-z0-9_/]', '_', joint).split('/')
    return '/'.join([*(f'_{x}' if x[:1].isdigit() else x for x in parts if x), 'cmd_force'])
