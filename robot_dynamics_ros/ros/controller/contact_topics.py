# SPDX-License-Identifier: Apache-2.0
"""External efforts of the controller's arm, for whoever listens."""

from __future__ import annotations

from geometry_msgs.msg import WrenchStamped
from rclpy.node import Node
from sensor_msgs.msg import JointState

from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.ros.controller_monitor import MONITOR_QOS, HeardPublisher
from robot_dynamics_ros.ros.conversions import JointStateWriter, ns_to_stamp, wrench_message
from robot_dynamics_ros.ros.serialized import PreparedMessage


class ContactMonitor:
    """Publishes external efforts and what explains them; they are observed while anybody listens.

    * ``~/external_effort`` (JointState): what the world does to every joint.
    * ``~/external_wrench`` (WrenchStamped): the wrench at ``wrench_frame`` that explains it.
    * ``~/unexplained_effort`` (JointState): what no wrench there explains.

    Attributes:
        heard: Its publishers, to be looked at, and destroyed with the node's topics.

    Args:
        node: The controller.
        session: Its session.
    """

    def __init__(self, node: Node, session: ControllerSession) -> None:
        joints = session.tree.joint_names
        self._session, self._frame = session, session.given['wrench_frame']
        self._efforts = [
            PreparedMessage(JointStateWriter(joints, effort=True).message) for _ in range(2)
        ]
        names = ('external_effort', 'unexplained_effort') if self._frame else ('external_effort',)
        self._joints = [node.create_publisher(JointState, f'~/{x}', MONITOR_QOS) for x in names]
        self._wrench = (
            node.create_publisher(WrenchStamped, '~/external_wrench', MONITOR_QOS)
            if self._frame
            else None
        )
        publishers = [*self._joints, *([self._wrench] if self._wrench else [])]
        self.heard = [HeardPublisher(x) for x in publishers]

    def publish(self, stamp_ns: int) -> None:
        """Publish what the last tick has shown; the command has left already."""
        contact = self._session.contact
        contact.wanted = any([x.listeners for x in self.heard])
        if not contact.observing:
            return
        contact.explain()
        rest = [] if contact.wrench is None else [contact.wrench.rest]
        arrays = [contact.observer.effort, *rest]
        loop = self._session.loop
        for publisher, message, effort in zip(self._joints, self._efforts, arrays, strict=False):
            for values, new in zip(message.doubles, (loop.q, loop.v, effort), strict=True):
                values[:] = new
            message.publish(publisher, stamp_ns)
        if self._wrench is not None and contact.wrench is not None:
            stamp = ns_to_stamp(stamp_ns)
            self._wrench.publish(wrench_message(self._frame, contact.wrench.wrench, stamp))
