# SPDX-License-Identifier: Apache-2.0
"""Topics of a controller besides states and commands: monitoring outputs and streamed inputs.

Outputs are the reference and error of each tick, quantities of the law and external efforts.
Inputs are targets, a force sensor and an enabling switch.
"""

from __future__ import annotations

import array
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped, WrenchStamped
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, MultiArrayDimension, MultiArrayLayout

from robot_dynamics_ros.control.laws.control_law import ConstraintSnapshot
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.modes import SessionChange
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.streamed import STREAMED
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.ros.conversions import (
    JointStateWriter,
    PreparedMessage,
    ns_to_stamp,
    wrench_message,
)
from robot_dynamics_ros.ros.node import LATCHED, NEWEST

#: Labels of the entries of ``~/constraint_condition``.
_LABELS = ('sigma_min', 'condition', 'damped', 'scale')
#: Deep, so that a temporarily delayed recorder loses no messages.
MONITOR_QOS = QoSProfile(depth=2000)
_THROTTLED_HZ = 50
_THROTTLED_NS = 1_000_000_000 // _THROTTLED_HZ


class CountedPublisher:
    """A publisher with a cached number of subscribers.

    Attributes:
        publisher: The publisher.
        subscribers: Number of subscribers at the last :meth:`update_count`.

    Args:
        publisher: Any publisher.
    """

    def __init__(self, publisher: Any) -> None:
        self.publisher, self.subscribers = publisher, 0

    def update_count(self) -> None:
        """Update the number of subscribers, which takes a microsecond."""
        self.subscribers = self.publisher.get_subscription_count()


class ControllerMonitor:
    """Publishes ``~/reference``, ``~/error`` and the topics of :class:`LawMonitor`.

    Attributes:
        decimation: Number of ticks per published message; may be changed.
        publishers: Their subscriber counts must be updated; to be destroyed with the node's
            topics.

    Args:
        node: The controller.
        joints: Joint names.
        decimation: Number of ticks per published message.
    """

    def __init__(self, node: Node, joints: tuple[str, ...], decimation: int) -> None:
        self.decimation = self._countdown = decimation
        self._reference = PreparedMessage(JointStateWriter(joints, effort=True).message)
        self._error = PreparedMessage(JointStateWriter(joints, effort=False).message)
        self._reference_publisher, self._error_publisher = (
            CountedPublisher(node.create_publisher(JointState, f'~/{name}', MONITOR_QOS))
            for name in ('reference', 'error')
        )
        self._law = LawMonitor(node)
        self.publishers = (self._reference_publisher, self._error_publisher, *self._law.publishers)

    def publish(self, loop: ControlLoop, stamp_ns: int) -> None:
        """Publish the last tick, after its command, on the topics that have subscribers."""
        self._countdown -= 1
        if self._countdown > 0:
            return
        self._countdown = self.decimation
        reference = loop.reference
        if self._reference_publisher.subscribers:
            position, velocity, effort = self._reference.doubles
            position[:], velocity[:] = reference.position, reference.velocity
            effort[:] = loop.effort
            self._reference.publish(self._reference_publisher.publisher, stamp_ns)
        if self._error_publisher.subscribers:
            position, velocity, _ = self._error.doubles
            np.subtract(reference.position, loop.q, out=position)
            np.subtract(reference.velocity, loop.v, out=velocity)
            self._error.publish(self._error_publisher.publisher, stamp_ns)
        self._law.publish(loop, stamp_ns)


class LawMonitor:
    """Publishes the constraints of a program and the effort components.

    * ``~/constraint`` (JointState): one name per row of f; position is f, velocity its rate,
      effort the multiplier.
    * ``~/constraint_condition`` (Float64MultiArray): smallest singular value of the constraint
      Jacobian, condition number, whether the inverse is damped, and the fraction of the commanded
      acceleration that the effort limits permit.
    * ``~/effort_components`` (JointState): names ``<joint>/<origin>``, effort the component of
      that origin (inertia, coriolis, gravity, friction, task or feedback, null_space).

    These cost about as much time as a law. They are published in every tick if any subscriber is
    reliable, and at ``_THROTTLED_HZ`` if all are best effort.
    """

    def __init__(self, node: Node) -> None:
        self._node, self._throttled = node, False
        self._counts = [0, 0, 0]
        self._next_ns = 0
        self._constraint = node.create_publisher(JointState, '~/constraint', MONITOR_QOS)
        self._condition = node.create_publisher(
            Float64MultiArray, '~/constraint_condition', MONITOR_QOS
        )
        self._components = node.create_publisher(JointState, '~/effort_components', MONITOR_QOS)
        publishers = (self._constraint, self._condition, self._components)
        self.publishers = tuple(CountedPublisher(x) for x in publishers)
        self._layout = MultiArrayLayout(
            dim=[MultiArrayDimension(label=','.join(_LABELS), size=len(_LABELS), stride=1)]
        )

    def publish(self, loop: ControlLoop, stamp_ns: int) -> None:
        """Publish the topics that have subscribers, after the command."""
        counts = constraint, condition, components = [x.subscribers for x in self.publishers]
        if counts != self._counts:
            self._counts, self._throttled = counts, self._all_best_effort()
        if self._throttled and stamp_ns and 0 < self._next_ns - stamp_ns <= _THROTTLED_NS:
            return
        self._next_ns = stamp_ns + _THROTTLED_NS
        if constraint or condition:
            snapshot = loop.law.constraints()
            if snapshot is not None:
                self._publish_constraint(snapshot, stamp_ns)
        if components:
            self._publish_components(loop, stamp_ns)

    def _all_best_effort(self) -> bool:
        """Return whether all subscribers are best effort."""
        topics = [one.publisher.topic_name for one in self.publishers]
        infos = [x for topic in topics for x in self._node.get_subscriptions_info_by_topic(topic)]
        reliability = {info.qos_profile.reliability for info in infos}
        complete = len(infos) >= sum(self._counts)
        return complete and reliability == {ReliabilityPolicy.BEST_EFFORT}

    def _publish_constraint(self, snapshot: ConstraintSnapshot, stamp_ns: int) -> None:
        message = JointState(
            name=list(snapshot.rows),
            position=_doubles(snapshot.f),
            velocity=_doubles(snapshot.f_dot),
            effort=_doubles(snapshot.multipliers),
        )
        message.header.stamp = ns_to_stamp(stamp_ns)
        self._constraint.publish(message)
        values = [snapshot.sigma_min, snapshot.condition, float(snapshot.damped), snapshot.scale]
        self._condition.publish(Float64MultiArray(layout=self._layout, data=values))

    def _publish_components(self, loop: ControlLoop, stamp_ns: int) -> None:
        parts = loop.decompose()
        message = JointState(
            name=[f'{joint}/{origin}' for origin in parts for joint in loop.tree.joint_names],
            effort=_doubles(np.concatenate(list(parts.values()))),
        )
        message.header.stamp = ns_to_stamp(stamp_ns)
        self._components.publish(message)


def _doubles(values: Any) -> array.array[float]:
    return array.array('d', np.asarray(values, dtype=float).tobytes())


class ContactMonitor:
    """Publishes external efforts and the wrench that explains them, estimated on demand.

    * ``~/external_effort`` (JointState): effort of the environment on every joint.
    * ``~/external_wrench`` (WrenchStamped): the wrench at ``wrench_frame`` that explains it.
    * ``~/unexplained_effort`` (JointState): the part that no such wrench explains.

    Attributes:
        publishers: Their subscriber counts must be updated; to be destroyed with the node's
            topics.

    Args:
        node: The controller.
        session: Its session.
    """

    def __init__(self, node: Node, session: ControllerSession) -> None:
        joints = session.tree.joint_names
        self._session, self._frame = session, session.parameters['wrench_frame']
        self._messages = [
            PreparedMessage(JointStateWriter(joints, effort=True).message) for _ in range(2)
        ]
        names = ('external_effort', 'unexplained_effort') if self._frame else ('external_effort',)
        self._efforts = [node.create_publisher(JointState, f'~/{x}', MONITOR_QOS) for x in names]
        self._wrench = (
            node.create_publisher(WrenchStamped, '~/external_wrench', MONITOR_QOS)
            if self._frame
            else None
        )
        publishers = [*self._efforts, *([self._wrench] if self._wrench else [])]
        self.publishers = [CountedPublisher(x) for x in publishers]

    def publish(self, stamp_ns: int) -> None:
        """Publish the estimates of the last tick, after its command."""
        contact = self._session.contact
        contact.subscribed = any([x.subscribers for x in self.publishers])
        if not contact.observing:
            return
        contact.update_wrench()
        rest = [] if contact.wrench is None else [contact.wrench.residual]
        arrays = [contact.observer.effort, *rest]
        loop = self._session.loop
        for publisher, message, effort in zip(self._efforts, self._messages, arrays, strict=False):
            for values, new in zip(message.doubles, (loop.q, loop.v, effort), strict=True):
                values[:] = new
            message.publish(publisher, stamp_ns)
        if self._wrench is not None and contact.wrench is not None:
            stamp = ns_to_stamp(stamp_ns)
            self._wrench.publish(wrench_message(self._frame, contact.wrench.wrench, stamp))


# Streamed inputs ---------------------------------------------------------------------------------

_WARNING_PERIOD_S = 5.0  # between two warnings
_STREAMS: dict[str, Any] = {
    'target_joint': JointState,
    'target_pose': PoseStamped,
    'target_wrench': WrenchStamped,
    'measured_wrench': WrenchStamped,
    'enable_guiding': Bool,
}
#: Its QoS is that in joint_trajectory_controller.
_SPEED = 'speed_scaling_input'


def subscribe_streams(
    node: Node, session: ControllerSession, perform: Callable[[SessionChange], str]
) -> list[Any]:
    """Subscribe a controller to its streamed inputs; return the subscriptions.

    * ``~/target_joint`` (JointState): target positions.
    * ``~/target_pose`` (PoseStamped): target pose of ``target_frame`` in the base frame.
    * ``~/target_wrench`` (WrenchStamped): wrench that the arm shall exert at ``target_frame``, in
      the axes of this frame or of the base.
    * ``~/measured_wrench`` (WrenchStamped): wrench of the environment on the arm at the sensor's
      link, in its axes.
    * ``~/enable_guiding`` (Bool): whether the enabling switch is pressed.
    * ``~/speed_scaling_input`` (SpeedScalingFactor), if control_msgs is installed: as in
      joint_trajectory_controller.

    Args:
        node: The controller.
        session: Its session.
        perform: Prepares a change, in the background if it is slow, and commits it.
    """
    log, streams = node.get_logger(), dict(_STREAMS)
    with suppress(ImportError):
        from control_msgs.msg import SpeedScalingFactor

        streams[_SPEED] = SpeedScalingFactor

    def on_message(name: str, msg: Any) -> None:
        try:
            text = perform(STREAMED[name](session, msg))
            if text:
                log.info(text)
        except RobotDynamicsError as error:
            log.warning(f'refused: {error}', throttle_duration_sec=_WARNING_PERIOD_S)

    return [
        node.create_subscription(
            kind, f'~/{name}', partial(on_message, name), LATCHED if name == _SPEED else NEWEST
        )
        for name, kind in streams.items()
    ]
