# SPDX-License-Identifier: Apache-2.0
"""What the controller is to follow: by topic, and by action where control_msgs is there."""

from __future__ import annotations

from functools import partial
from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import deserialize_message
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from robot_dynamics_ros.control.changes import TrajectoryChange
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.message_arrays import read_trajectory
from robot_dynamics_ros.errors import RobotDynamicsError, TrajectoryError
from robot_dynamics_ros.ros.controller.trajectory_action import TrajectoryAction
from robot_dynamics_ros.ros.session_changes import SessionChanges

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
#: A message of more bytes, some hundred points, is read beside the ticks.
_LONG = 16_384


class ControllerTrajectories:
    """Takes trajectories for a session and says what became of them.

    Subscribes ``~/joint_trajectory``, publishes, latched, ``~/trajectory_status``; serves
    ``~/follow_joint_trajectory``. An empty trajectory on the topic means: come to rest and hold.
    The messages are taken as bytes, for a long one takes long to be made objects of.

    Args:
        node: The controller.
        session: Its session.
        changes: Lets changes of it act.
    """

    def __init__(self, node: Node, session: ControllerSession, changes: SessionChanges) -> None:
        self._node, self._session, self._changes = node, session, changes
        self._status = node.create_publisher(String, '~/trajectory_status', LATCHED)
        self._subscription = node.create_subscription(
            JointTrajectory, '~/joint_trajectory', self._on_trajectory, 1, raw=True
        )
        self._action: TrajectoryAction | None = None
        try:
            self._action = TrajectoryAction(node, session, changes)
        except ImportError:
            node.get_logger().info(
                'control_msgs is not installed: no action ~/follow_joint_trajectory; '
                'the topic ~/joint_trajectory is there'
            )

    def announce(self, text: str) -> None:
        """Publish a status."""
        self._status.publish(String(data=text))

    def publish_feedback(self) -> None:
        """Publish how a goal of the action is followed if it is time for that."""
        if self._action is not None:
            self._action.publish_feedback()

    def destroy(self) -> None:
        """Abort the goal, and free topics and action."""
        if self._action is not None:
            self._action.destroy()
        self._node.destroy_subscription(self._subscription)
        self._node.destroy_publisher(self._status)

    def _on_trajectory(self, content: bytes) -> None:
        read = partial(_read, content, self._session.tree.joint_names)
        change = TrajectoryChange(self._session, read, len(content) > _LONG)
        try:
            self._changes.prepare(change)
            self.announce(self._changes.commit(change))
        except RobotDynamicsError as error:
            self.announce(f'rejected: {error}')
            self._node.get_logger().warning(f'trajectory rejected: {error}')


def _read(content: bytes, joints: tuple[str, ...]) -> Any:
    try:
        msg = deserialize_message(content, JointTrajectory)
    except RuntimeError as error:
        raise TrajectoryError('trajectory', f'cannot be read: {error}') from error
    return read_trajectory(msg, joints)
