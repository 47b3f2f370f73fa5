# SPDX-License-Identifier: Apache-2.0
"""Streamed inputs and monitoring outputs of a controller.

The outputs are the reference and error of each tick, quantities of the law and external efforts.
"""

from __future__ import annotations

import array
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
from geometry_msgs.msg import WrenchStamped
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, MultiArrayLayout, String
from trajectory_msgs.msg import JointTrajectoryPoint

from robot_dynamics_ros.control.laws.control_law import ConstraintSnapshot
from robot_dynamics_ros.control.loop import ControlLoop
from robot_dynamics_ros.control.requests import STREAMED, compiles
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.topics import STREAMS
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.ros.conversions import (
    PreparedMessage,
    message_class,
    ns_to_stamp,
    state_message,
    trajectory_point,
    wrench_message,
)
from robot_dynamics_ros.ros.node import LATCHED, NEWEST
from robot_dynamics_ros.ros.rclpy_compat import take_message

#: Labels of the entries of ``~/constraint_condition``.
_LABELS = ('sigma_min', 'condition', 'damped', 'scale')
#: Deep, so that a temporarily delayed recorder loses no messages.
MONITOR_QOS = QoSProfile(depth=2000)
#: A recorder that starts later still receives the last activation, and what followed it.
_CHANGES_QOS = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_THROTTLED_HZ = 50
_WARNING_PERIOD_S = 5.0  # between two warnings of a stream
_THROTTLED_NS = NANO // _THROTTLED_HZ
_LOOP = {'reference': JointState, 'error': JointState}
_LAW = {
    'constraint': JointState,
    'constraint_condition': Float64MultiArray,
    'effort_components': JointState,
}
_CONTACT = {'external_effort': JointState}
_CONTACT_AT_FRAME = {'unexplained_effort': JointState, 'external_wrench': WrenchStamped}


class ControllerMonitor:
    """Publishes what a controller does, after the command, on topics that have subscribers.

    Always published, reliable and latched, is ``~/changes`` (String): every change of the session,
    see ``ChangeLog``.

    * ``~/reference``, ``~/error`` (JointState): reference of the tick, with the command as effort,
      and its difference to the state.
    * ``~/constraint`` (JointState): one name per row of f of a program; position is f, velocity
      its rate, effort the multiplier.
    * ``~/constraint_condition`` (Float64MultiArray): smallest singular value of the constraint
      Jacobian, condition number, whether the inverse is damped, and the fraction of the commanded
      acceleration that the effort limits permit.
    * ``~/effort_components`` (JointState): names ``<joint>/<origin>``, effort the component of
      that origin (inertia, coriolis, gravity, friction, task or feedback, null_space).
    * ``~/external_effort`` (JointState): effort of the environment on every joint.
    * ``~/external_wrench`` (WrenchStamped): the wrench at ``wrench_frame`` that explains it.
    * ``~/unexplained_effort`` (JointState): the part that no such wrench explains.

    Those of the law (constraints and components) cost about as much time as a law. They are
    published in every tick if any subscriber is reliable, and at ``_THROTTLED_HZ`` if all are best
    effort.

    Attributes:
        publishers: All publishers by name.

    Args:
        node: The controller.
        session: Its session.
    """

    def __init__(self, node: Node, session: ControllerSession) -> None:
        self._node, self._session = node, session
        self._frame = session.parameters['wrench_frame']
        self._contact = _CONTACT | (_CONTACT_AT_FRAME if self._frame else {})
        kinds = _LOOP | _LAW | self._contact
        self.publishers: dict[str, Any] = {
            name: node.create_publisher(kind, f'~/{name}', MONITOR_QOS)
            for name, kind in kinds.items()
        }
        self._changes = node.create_publisher(String, '~/changes', _CHANGES_QOS)
        joints = session.tree.joint_names
        self._messages = {
            name: PreparedMessage(state_message(joints, effort=name != 'error'))
            for name in (*_LOOP, 'external_effort', 'unexplained_effort')
        }
        self._subscribers, self._next = dict.fromkeys(kinds, 0), cycle(kinds)
        self._counts, self._throttled, self._next_ns = [0, 0, 0], False, 0
        dimension = MultiArrayDimension(label=','.join(_LABELS), size=len(_LABELS), stride=1)
        self._layout = MultiArrayLayout(dim=[dimension])

    def update_count(self, name: str) -> None:
        """Update the number of subscribers of one topic."""
        self._subscribers[name] = self.publishers[name].get_subscription_count()
        if name in self._contact:
            observed = any(self._subscribers[one] for one in self._contact)
            self._session.contact.subscribe(observed)

    def update_counts(self) -> None:
        """Update all numbers of subscribers; each takes a microsecond."""
        for name in self.publishers:
            self.update_count(name)

    def publish(self, stamp_ns: int) -> None:
        """Publish the last tick of the loop and its law, and what changed before it."""
        self.publish_changes()
        self.update_count(next(self._next))  # in turn
        loop = self._session.loop
        reference = loop.reference
        if self._subscribers['reference']:
            values = (reference.position, reference.velocity, loop.effort)
            self._publish_state('reference', values, stamp_ns)
        if self._subscribers['error']:
            errors = reference.position - loop.q, reference.velocity - loop.v, ()
            self._publish_state('error', errors, stamp_ns)
        self._publish_law(loop, stamp_ns)
        self._publish_contact(stamp_ns)

    def publish_changes(self) -> None:
        """Publish the changes of the session that have been dated."""
        dated = self._session.log.dated
        while dated:
            self._changes.publish(String(data=dated.popleft().text()))

    def _publish_contact(self, stamp_ns: int) -> None:
        contact, loop = self._session.contact, self._session.loop
        if not contact.observing:
            return
        contact.update_wrench()
        effort, wrench = contact.observer.effort, contact.wrench
        self._publish_state('external_effort', (loop.q, loop.v, effort), stamp_ns)
        if self._frame and wrench is not None:
            values = (loop.q, loop.v, wrench.residual)
            self._publish_state('unexplained_effort', values, stamp_ns)
            message = wrench_message(self._frame, wrench.wrench, ns_to_stamp(stamp_ns))
            self.publishers['external_wrench'].publish(message)

    def _publish_state(self, name: str, values: tuple[Any, ...], stamp_ns: int) -> None:
        message = self._messages[name]
        for numbers, new in zip(message.doubles, values, strict=True):
            numbers[:] = new
        message.publish(self.publishers[name], stamp_ns)

    def _publish_law(self, loop: ControlLoop, stamp_ns: int) -> None:
        counts = constraint, condition, components = [self._subscribers[name] for name in _LAW]
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
            parts = loop.decompose()
            message = JointState(
                name=[f'{joint}/{origin}' for origin in parts for joint in loop.tree.joint_names],
                effort=_doubles(np.concatenate(list(parts.values()))),
            )
            message.header.stamp = ns_to_stamp(stamp_ns)
            self.publishers['effort_components'].publish(message)

    def _all_best_effort(self) -> bool:
        """Return whether all subscribers of the topics of the law are best effort."""
        topics = [self.publishers[name].topic_name for name in _LAW]
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
        self.publishers['constraint'].publish(message)
        values = [snapshot.sigma_min, snapshot.condition, float(snapshot.damped), snapshot.scale]
        condition = Float64MultiArray(layout=self._layout, data=values)
        self.publishers['constraint_condition'].publish(condition)


class MotionState:
    """The motion as joint_trajectory_controller tells it, on ``~/controller_state``.

    Args:
        node: The controller.
        session: Its session.

    Raises:
        ImportError: control_msgs is not installed.
    """

    def __init__(self, node: Node, session: ControllerSession) -> None:
        from control_msgs.msg import JointTrajectoryControllerState as State

        self._node, self._session, self._due_ns = node, session, 0
        self._message = State(joint_names=list(session.tree.joint_names))
        self._publisher = node.create_publisher(State, '~/controller_state', 1)

    def points(self, header: Any) -> tuple[JointTrajectoryPoint, ...]:
        """Set the timestamp of a header; return the reference, the measured point, the error."""
        loop = self._session.loop
        reference, elapsed = loop.reference, max(loop.generator.progress[0], 0.0)
        since = round(elapsed * NANO)
        header.stamp = self._node.get_clock().now().to_msg()
        return (
            trajectory_point(since, *reference.rows),
            trajectory_point(since, loop.q, loop.v),
            trajectory_point(since, reference.position - loop.q, reference.velocity - loop.v),
        )

    def publish_if_due(self) -> None:
        """Publish the state of the last tick, at ``_THROTTLED_HZ``."""
        now = time.monotonic_ns()
        if now < self._due_ns or not self._publisher.get_subscription_count():
            return
        self._due_ns = now + _THROTTLED_NS
        loop, state = self._session.loop, self._message
        state.reference, state.feedback, state.error = self.points(state.header)
        since = state.reference.time_from_start
        state.output = JointTrajectoryPoint(time_from_start=since, effort=loop.effort.tolist())
        state.speed_scaling_factor = loop.generator.speed.factor
        self._publisher.publish(state)


def _doubles(values: Any) -> array.array[float]:
    return array.array('d', np.asarray(values, dtype=float).tobytes())


def subscribe_streams(
    node: Node,
    session: ControllerSession,
    request: Callable[..., None],
    act: Callable[..., None],
) -> Callable[[], None]:
    """Subscribe to the streamed inputs whose message types are installed.

    * ``~/target_joint`` (JointState): target positions.
    * ``~/target_pose`` (PoseStamped): target pose of ``target_frame`` in the frame of any link.
    * ``~/target_wrench`` (WrenchStamped): wrench that the arm shall exert at ``target_frame``, in
      the axes of any link.
    * ``~/measured_wrench`` (WrenchStamped): wrench of the environment on the arm at the sensor's
      link, in its axes.
    * ``~/enable_guiding`` (Bool): whether the enabling switch is pressed.
    * ``~/speed_scaling_input`` (SpeedScalingFactor), if control_msgs is installed: as in
      joint_trajectory_controller.

    Args:
        node: The controller.
        session: The session.
        request: Submits a request, see ``SessionRequests.request``.
        act: Lets a request act now, also while others are being prepared.

    Returns:
        Takes a measured wrench that has arrived, before its state is answered.
    """

    def subscribe(name: str) -> Any:
        log = node.get_logger().get_child(name)  # whose throttle silences no other

        def done(text: str) -> None:
            if text:
                node.get_logger().info(text)

        def refused(error: RobotDynamicsError) -> None:
            log.warning(f'refused: {error}', throttle_duration_sec=_WARNING_PERIOD_S)

        def take(message: Any) -> None:
            prepare = partial(STREAMED[name], session, message)
            if compiles(session, name, message):
                request(prepare, done, refused, slow=True, replaces=name)
            else:
                act(prepare, done, refused)

        # that of joint_trajectory_controller
        qos = LATCHED if name == 'speed_scaling_input' else NEWEST
        with suppress(ConfigurationError):
            return node.create_subscription(message_class(STREAMS[name]), f'~/{name}', take, qos)

    wrenches = {name: subscribe(name) for name in STREAMS}['measured_wrench']

    def take_wrench() -> None:
        if (taken := take_message(wrenches)) is not None:
            wrenches.callback(taken[0])

    return take_wrench
