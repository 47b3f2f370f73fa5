# SPDX-License-Identifier: Apache-2.0
"""Reference, error and law of the controller's ticks, for whoever listens."""

from __future__ import annotations

import numpy as np
from builtin_interfaces.msg import Time
from rclpy.node import Node
from sensor_msgs.msg import JointState

from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.ros.controller.law_topics import MONITOR_QOS, LawMonitor
from robot_dynamics_ros.ros.conversions import JointStateWriter


class ControllerMonitor:
    """Publishes ``~/reference``, ``~/error`` and what :class:`LawMonitor` shows.

    Attributes:
        decimation: Every how many ticks; may be changed.
        publishers: To be destroyed with the node's topics.

    Args:
        node: The controller.
        joints: Their names.
        decimation: As above.
    """

    def __init__(self, node: Node, joints: tuple[str, ...], decimation: int) -> None:
        self.decimation = self._left = decimation
        self._reference = JointStateWriter(joints, effort=True)
        self._error = JointStateWriter(joints, effort=False)
        self._reference_publisher = node.create_publisher(JointState, '~/reference', MONITOR_QOS)
        self._error_publisher = node.create_publisher(JointState, '~/error', MONITOR_QOS)
        self._law = LawMonitor(node)
        self.publishers = (
            self._reference_publisher,
            self._error_publisher,
            *self._law.publishers,
        )

    def publish(self, loop: ControlLoop, stamp: Time) -> None:
        """Publish the last tick to whoever listens; the command has left already."""
        self._left -= 1
        if self._left > 0:
            return
        self._left = self.decimation
        reference, error = self._reference, self._error
        if self._reference_publisher.get_subscription_count():
            reference.message.header.stamp = stamp
            reference.position[:] = loop.reference.position
            reference.velocity[:] = loop.reference.velocity
            reference.effort[:] = loop.effort
            self._reference_publisher.publish(reference.message)
        if self._error_publisher.get_subscription_count():
            error.message.header.stamp = stamp
            np.subtract(loop.reference.position, loop.q, out=error.position)
            np.subtract(loop.reference.velocity, loop.v, out=error.velocity)
            self._error_publisher.publish(error.message)
        self._law.publish(loop, stamp)
