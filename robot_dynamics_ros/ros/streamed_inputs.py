# SPDX-License-Identifier: Apache-2.0
"""What streams to a controller: targets, a force sensor, an enabling switch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from geometry_msgs.msg import PoseStamped, WrenchStamped
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.session_change import SessionChange
from robot_dynamics_ros.control.streamed import STREAMED
from robot_dynamics_ros.errors import RobotDynamicsError

#: Only the newest counts, and one that is lost is followed by another.
STREAM = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
#: As joint_trajectory_controller subscribes it.
SPEED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_SECONDS = 5.0  # between two warnings of one stream
_TYPES = {
    'target_joint': JointState,
    'target_pose': PoseStamped,
    'target_wrench': WrenchStamped,
    'measured_wrench': WrenchStamped,
    'enable_guiding': Bool,
}


class StreamedInputs:
    """Takes streamed targets for a session.

    Subscribes ``~/target_joint`` (JointState: positions), ``~/target_pose`` (PoseStamped, of
    ``target_frame`` in the base) and ``~/target_wrench`` (WrenchStamped: what the arm shall press
    with at ``target_frame``, in its axes or those of the base); and ``~/measured_wrench``
    (WrenchStamped: what the world does to the arm at the sensor's link, in its axes), and
    ``~/enable_guiding`` (Bool: whether the enabling switch is pressed). Where control_msgs is
    installed, ``~/speed_scaling_input`` (SpeedScalingFactor, as joint_trajectory_controller).

    Attributes:
        subscriptions: To be destroyed with the node's topics.

    Args:
        node: The controller.
        session: Its session.
        perform: Prepares a change, beside the ticks if that takes long, and commits it.
    """

    def __init__(
        self,
        node: Node,
        session: ControllerSession,
        perform: Callable[[SessionChange], str],
    ) -> None:
        self._log, self._session, self._perform = node.get_logger(), session, perform
        self.subscriptions: list[Any] = [
            node.create_subscription(kind, f'~/{name}', partial(self._on_message, name), STREAM)
            for name, kind in _TYPES.items()
        ]
        with suppress(ImportError):
            from control_msgs.msg import SpeedScalingFactor

            speed = 'speed_scaling_input'
            heard = partial(self._on_message, speed)
            self.subscriptions.append(
                node.create_subscription(SpeedScalingFactor, f'~/{speed}', heard, SPEED)
            )

    def _on_message(self, name: str, msg: Any) -> None:
        change = STREAMED[name](self._session, msg)
        try:
            text = self._perform(change)
            if text:
                self._log.info(text)
        except RobotDynamicsError as error:
            self._log.warning(f'refused: {error}', throttle_duration_sec=_SECONDS)
