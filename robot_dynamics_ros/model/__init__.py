# SPDX-License-Identifier: Apache-2.0
"""Robot models as read-only arrays, parents first; frames, closed loops, payloads.

``load_robot``, ``load_arm`` and ``load_mechanism`` create models; ``frame_pose``,
``frame_motion`` and ``frame_jacobian`` compute the kinematics of any frame.
"""

from robot_dynamics_ros.model.arm import load_arm
from robot_dynamics_ros.model.body_tree import BodyFrame
from robot_dynamics_ros.model.dependence import TreeState
from robot_dynamics_ros.model.kinematics import (
    FrameMotion,
    FramePose,
    frame_jacobian,
    frame_motion,
    frame_pose,
)
from robot_dynamics_ros.model.load import load_mechanism, load_robot
from robot_dynamics_ros.model.mechanism import Mechanism
from robot_dynamics_ros.model.payload import Payload
from robot_dynamics_ros.model.robot_tree import Robot, RobotTree

__all__ = [
    'BodyFrame',
    'FrameMotion',
    'FramePose',
    'Mechanism',
    'Payload',
    'Robot',
    'RobotTree',
    'TreeState',
    'frame_jacobian',
    'frame_motion',
    'frame_pose',
    'load_arm',
    'load_mechanism',
    'load_robot',
]
