# SPDX-License-Identifier: Apache-2.0
"""Topics around a controller: what it shows to whoever listens, and what streams to it.

It shows its ticks, its law and external efforts; targets, a force sensor and an enabling switch
stream to it.
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
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
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

#: Labels of ``~/constraint_condition``, in its order.
CONDITION = ('sigma_min', 'condition', 'damped', 'scale')
#: Deep, so that a recorder that is held up for a while loses nothing.
MONITOR_QOS = QoSProfile(depth=2000)
_SELDOM_HZ = 50
_SELDOM_NS = 1_000_000_000 // _SELDOM_HZ


class HeardPublisher:
    """A publisher, and how many listened to it when that was last looked at.

    Attributes:
        publisher: As given.
        listeners: Their number.

    Args:
        publisher: Any.
    """

    def __init__(self, publisher: Any) -> None:
        self.publisher, self.listeners = publisher, 0

    def look(self) -> None:
        """Ask the middleware, which takes a microsecond."""
        self.listeners = self.publisher.get_subscription_count()


class ControllerMonitor:
    """Publishes ``~/reference``, ``~/error`` and what :class:`LawMonitor` shows.

    Attributes:
        decimation: Every how many ticks; may be changed.
        heard: Its publishers, to be looked at, and destroyed with the node's topics.

    Args:
        node: The controller.
        joints: Their names.
        decimation: As above.
    """

    def __init__(self, node: Node, joints: tuple[str, ...], decimation: int) -> None:
        self.decimation = self._left = decimation
        self._reference = PreparedMessage(JointStateWriter(joints, effort=True).message)
        self._error = PreparedMessage(JointStateWriter(joints, effort=False).message)
        self._to_reference, self._to_error = (
            HeardPublisher(node.create_publisher(JointState, f'~/{name}', MONITOR_QOS))
            for name in ('reference', 'error')
        )
        self._law = LawMonitor(node)
        self.heard = (self._to_reference, self._to_error, *self._law.heard)

    def publish(self, loop: ControlLoop, stamp_ns: int) -> None:
        """Publish the last tick to whoever listens; the command has left already."""
        self._left -= 1
        if self._left > 0:
            return
        self._left = self.decimation
        reference = loop.reference
        if self._to_reference.listeners:
            position, velocity, effort = self._reference.doubles
            position[:], velocity[:] = reference.position, reference.velocity
            effort[:] = loop.effort
            self._reference.publish(self._to_reference.publisher, stamp_ns)
        if self._to_error.listeners:
            position, velocity, _ = self._error.doubles
            np.subtract(reference.position, loop.q, out=position)
            np.subtract(reference.velocity, loop.v, out=velocity)
            self._error.publish(self._to_error.publisher, stamp_ns)
        self._law.publish(loop, stamp_ns)


class LawMonitor:
    """Publishes the constraints of a program and the efforts by origin.

    * ``~/constraint`` (JointState): a name per row of f; position f, velocity its rate, effort
      the multiplier.
    * ``~/constraint_condition`` (Float64MultiArray): smallest singular value of the constraint
      Jacobian, condition, whether the inverse is damped, share that the effort limits let through.
    * ``~/effort_components`` (JointState): names ``<joint>/<origin>``, effort the part of that
      origin (inertia, coriolis, gravity, friction, task or feedback, null_space).

    They cost about what a law does: who listens best effort, and so may miss some, gets them
    ``_SELDOM_HZ`` times a second, who listens reliably with each tick.
    """

    def __init__(self, node: Node) -> None:
        self._node, self._seldom = node, False
        self._listeners: tuple[int, ...] = (0, 0, 0)
        self._next_ns = 0
        self._constraint = node.create_publisher(JointState, '~/constraint', MONITOR_QOS)
        self._condition = node.create_publisher(
            Float64MultiArray, '~/constraint_condition', MONITOR_QOS
        )
        self._components = node.create_publisher(JointState, '~/effort_components', MONITOR_QOS)
        self.publishers = (self._constraint, self._condition, self._components)
        self.heard = tuple(HeardPublisher(x) for x in self.publishers)
        self._layout = MultiArrayLayout(
            dim=[MultiArrayDimension(label=','.join(CONDITION), size=len(CONDITION), stride=1)]
        )

    def publish(self, loop: ControlLoop, stamp_ns: int) -> None:
        """Publish what there are listeners for; the command has left already."""
        constraint, condition, components = listeners = tuple([x.listeners for x in self.heard])
        if listeners != self._listeners:
            self._listeners, self._seldom = listeners, self._all_may_miss_some()
        if self._seldom and stamp_ns and 0 < self._next_ns - stamp_ns <= _SELDOM_NS:
            return
        self._next_ns = stamp_ns + _SELDOM_NS
        if constraint or condition:
            seen = loop.law.constraints()
            if seen is not None:
                self._publish_constraint(seen, stamp_ns)
        if components:
            self._publish_components(loop, stamp_ns)

    def _all_may_miss_some(self) -> bool:
        """Return whether everybody listens best effort."""
        topics = [publisher.topic_name for publisher in self.publishers]
        known = [x for topic in topics for x in self._node.get_subscriptions_info_by_topic(topic)]
        reliability = {info.qos_profile.reliability for info in known}
        complete = len(known) >= sum(self._listeners)
        return complete and reliability == {ReliabilityPolicy.BEST_EFFORT}

    def _publish_constraint(self, seen: ConstraintSnapshot, stamp_ns: int) -> None:
        message = JointState(
            name=list(seen.rows),
            position=_doubles(seen.f),
            velocity=_doubles(seen.f_dot),
            effort=_doubles(seen.multipliers),
        )
        message.header.stamp = ns_to_stamp(stamp_ns)
        self._constraint.publish(message)
        values = [seen.sigma_min, seen.condition, float(seen.damped), seen.scale]
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
        self._session, self._frame = session, session.parameters['wrench_frame']
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


# What streams to it ------------------------------------------------------------------------------

#: Only the newest counts, and one that is lost is followed by another.
STREAM = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
#: As joint_trajectory_controller subscribes it.
SPEED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_SECONDS = 5.0  # between two warnings of one stream
_STREAMS: dict[str, tuple[Any, QoSProfile]] = {
    'target_joint': (JointState, STREAM),
    'target_pose': (PoseStamped, STREAM),
    'target_wrench': (WrenchStamped, STREAM),
    'measured_wrench': (WrenchStamped, STREAM),
    'enable_guiding': (Bool, STREAM),
}


def subscribe_streams(
    node: Node, session: ControllerSession, perform: Callable[[SessionChange], str]
) -> list[Any]:
    """Let what streams to a controller act; return the subscriptions.

    Subscribes ``~/target_joint`` (JointState: positions), ``~/target_pose`` (PoseStamped, of
    ``target_frame`` in the base) and ``~/target_wrench`` (WrenchStamped: what the arm shall press
    with at ``target_frame``, in its axes or those of the base); and ``~/measured_wrench``
    (WrenchStamped: what the world does to the arm at the sensor's link, in its axes), and
    ``~/enable_guiding`` (Bool: whether the enabling switch is pressed). Where control_msgs is
    installed, ``~/speed_scaling_input`` (SpeedScalingFactor, as joint_trajectory_controller).

    Args:
        node: The controller.
        session: Its session.
        perform: Prepares a change, in the background if that takes long, and commits it.
    """
    log, streams = node.get_logger(), dict(_STREAMS)
    with suppress(ImportError):
        from control_msgs.msg import SpeedScalingFactor

        streams['speed_scaling_input'] = SpeedScalingFactor, SPEED

    def on_message(name: str, msg: Any) -> None:
        try:
            text = perform(STREAMED[name](session, msg))
            if text:
                log.info(text)
        except RobotDynamicsError as error:
            log.warning(f'refused: {error}', throttle_duration_sec=_SECONDS)

    return [
        node.create_subscription(kind, f'~/{name}', partial(on_message, name), profile)
        for name, (kind, profile) in streams.items()
    ]
