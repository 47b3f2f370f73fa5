# SPDX-License-Identifier: Apache-2.0
"""What the controller is told to follow: by topic, and by action where control_msgs is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import deserialize_message
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.trajectories.message_arrays import trajectory_arrays
from robot_dynamics_ros.control.trajectories.reference_generator import Prepared
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError, TrajectoryError
from robot_dynamics_ros.ros.background import Beside
from robot_dynamics_ros.ros.controller.trajectory_action import TrajectoryAction
from robot_dynamics_ros.ros.conversions import stamp_to_ns

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
#: A message of more bytes, some hundred points, is read beside the ticks.
_LONG = 16_384


class ControllerTrajectories:
    """Takes trajectories for a loop and says what became of them.

    Subscribes ``~/joint_trajectory``, publishes, latched, ``~/trajectory_status``; serves
    ``~/follow_joint_trajectory``. An empty trajectory on the topic means: come to rest and hold.
    The messages are taken as bytes, for a long one takes long to be made objects of.

    Args:
        node: The controller.
        loop: Its loop.
        is_running: Whether the controller is active.
        not_ready: Says why nothing can be followed now, empty if it can.
        tolerances: Returns the parameters of the action.
        beside: Does work while the ticks go on.

    Attributes:
        action: The action, whose ``tick`` wants to be called; None without control_msgs.
    """

    def __init__(
        self,
        node: Node,
        loop: ControlLoop,
        is_running: Callable[[], bool],
        not_ready: Callable[[], str],
        tolerances: Callable[[], dict[str, Any]],
        beside: Beside,
    ) -> None:
        self._node, self._loop, self._is_running, self._beside = node, loop, is_running, beside
        self._not_ready = not_ready
        self._status = node.create_publisher(String, '~/trajectory_status', LATCHED)
        self._subscription = node.create_subscription(
            JointTrajectory, '~/joint_trajectory', self._on_trajectory, 1, raw=True
        )
        self.action = self._make_action(tolerances)

    def announce(self, text: str) -> None:
        """Publish a status."""
        self._status.publish(String(data=text))

    def abort_goal(self, reason: str) -> None:
        """Abort the goal of the action, if one is being followed."""
        if self.action is not None:
            self.action.abort(reason)

    def destroy(self) -> None:
        """Abort the goal, and free topics and action."""
        if self.action is not None:
            self.action.destroy()
            self.action = None
        self._node.destroy_subscription(self._subscription)
        self._node.destroy_publisher(self._status)

    def _make_action(self, tolerances: Callable[[], dict[str, Any]]) -> TrajectoryAction | None:
        try:
            return TrajectoryAction(
                self._node,
                self._loop,
                self._is_running,
                self._not_ready,
                tolerances,
                self._beside,
            )
        except ImportError:
            self._node.get_logger().info(
                'control_msgs is not installed: no action ~/follow_joint_trajectory; '
                'the topic ~/joint_trajectory is there'
            )
            return None

    def _on_trajectory(self, content: bytes) -> None:
        try:
            self.announce(self._take(content))
        except RobotDynamicsError as error:
            self.announce(f'rejected: {error}')
            self._node.get_logger().warning(f'trajectory rejected: {error}')

    def _take(self, content: bytes) -> str:
        """Let the loop follow a trajectory; return what to announce."""
        if not self._is_running():
            raise ConfigurationError('trajectory', 'the controller is not active', 'activate it')
        loop = self._loop
        moment = loop.moment()

        def prepare() -> tuple[int, Prepared | None]:
            msg = _read(content)
            if not msg.points:
                return 0, None
            points = trajectory_arrays(msg, loop.tree.joint_names)
            start_ns = stamp_to_ns(msg.header.stamp)
            return len(msg.points), loop.prepare(moment, points, start_ns)

        count, prepared = self._beside(prepare) if len(content) > _LONG else prepare()
        if prepared is None:
            self.abort_goal('replaced by an empty trajectory on the topic')
            loop.hold()
            return 'held: empty trajectory'
        start = loop.commit(prepared)
        self.abort_goal('replaced by a trajectory on the topic')
        return f'accepted: {count} points from {start * 1e-9:.9f} s'


def _read(content: bytes) -> Any:
    try:
        return deserialize_message(content, JointTrajectory)
    except RuntimeError as error:
        raise TrajectoryError('trajectory', f'cannot be read: {error}') from error
