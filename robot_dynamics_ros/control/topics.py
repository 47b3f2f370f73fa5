# SPDX-License-Identifier: Apache-2.0
"""Names and types of the topics of a controller; importable without ROS."""

from __future__ import annotations

import re
from collections.abc import Sequence

from robot_dynamics_ros.errors import ConfigurationError

#: Message types of the streams to a controller, by the last part of the topic name.
STREAMS = {
    'target_joint': 'sensor_msgs/msg/JointState',
    'target_pose': 'geometry_msgs/msg/PoseStamped',
    'target_wrench': 'geometry_msgs/msg/WrenchStamped',
    'measured_wrench': 'geometry_msgs/msg/WrenchStamped',
    'enable_guiding': 'std_msgs/msg/Bool',
    'speed_scaling_input': 'control_msgs/msg/SpeedScalingFactor',
}
#: Wrenches with which a simulated arm is pushed.
PUSHES = 'simulator/push'


#: Topic of the effort of one joint.
FORCE = '{joint}/cmd_force'


def force_topic(joint: str, topic: str = FORCE) -> str:
    """Return the topic of the effort of one joint, its name made valid as a name in ROS.

    Parts of a name in ROS consist of ASCII letters, digits and underscores, and do not begin with
    a digit.

    Args:
        joint: Name of the joint.
        topic: The topic, with ``{joint}`` in place of the name.
    """
    parts = re.sub(r'[^A-Za-z0-9_/]', '_', joint).split('/')
    name = '/'.join(f'_{x}' if x[:1].isdigit() else x for x in parts if x)
    return topic.replace('{joint}', name)


def force_topics(joints: Sequence[str], topic: str = FORCE) -> list[str]:
    """Return the topics of the efforts of some joints, one for each; see :func:`force_topic`.

    Raises:
        ConfigurationError: Two joints have names that are one as a topic.
    """
    topics = [force_topic(joint, topic) for joint in joints]
    for one in topics:
        same = [name for name, other in zip(joints, topics, strict=True) if other == one]
        if len(same) > 1:
            problem = f'would have the same topic {one!r}'
            raise ConfigurationError(f'joints {", ".join(same)}', problem, 'rename one')
    return topics
