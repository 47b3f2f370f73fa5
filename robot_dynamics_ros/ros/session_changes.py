# SPDX-License-Identifier: Apache-2.0
"""Changes of the controller's session: prepared beside the ticks, committed between two.

What streams to a controller: targets, a force sensor, an enabling switch.

Locked joints in the joint states: what the session is told, and a model that follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from geometry_msgs.msg import PoseStamped, WrenchStamped
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.service import Service
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from std_srvs.srv import SetBool, Trigger

from robot_dynamics_ros.control.changes import (
    ModelChange,
    PayloadChange,
    ReleaseChange,
    WaypointChange,
)
from robot_dynamics_ros.control.modes import SessionChange
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.streamed import STREAMED
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.build import EffortLimit
from robot_dynamics_ros.model.load import measured_joints, robot_from_parameters
from robot_dynamics_ros.ros.conversions import JointStateReader, SerializedStateReader
from robot_dynamics_ros.ros.spinning import beside

#: Time between two looks at the age of the states, s.
WATCH_PERIOD_S = 0.02


class SessionChanges:
    """Lets changes act that services, topics and parameters ask for.

    Serves ``~/carry_payload``, ``~/resume`` and ``~/add_waypoint``.

    Attributes:
        services: To be destroyed with the node's topics.
        announce: Tells those who sent a trajectory what became of it; may be replaced.

    Args:
        node: The controller.
        session: What is changed.
        answer_state: Answers a state that waits; returns whether there was one.
        watch: Looks at the age of the states.
    """

    def __init__(
        self,
        node: Node,
        session: ControllerSession,
        answer_state: Callable[[], bool],
        watch: Callable[[], None],
    ) -> None:
        self._node, self._session = node, session
        self._answer_state, self._watch = answer_state, watch
        self._log = node.get_logger()
        self.announce: Callable[[str], None] = self._log.debug
        self.services = [
            self._serve(SetBool, 'carry_payload', lambda ask: PayloadChange(session, ask.data)),
            self._serve(Trigger, 'resume', lambda _: ReleaseChange(session)),
            self._serve(Trigger, 'add_waypoint', lambda _: WaypointChange(session)),
        ]

    def prepare(self, change: SessionChange) -> None:
        """Prepare a change, beside the ticks if it takes long; errors as of the session."""
        if not change.slow:
            self._session.prepare(change)
            return
        prepare = self._session.prepare
        beside(lambda: prepare(change), self._answer_state, self._watch, WATCH_PERIOD_S)

    def commit(self, change: SessionChange) -> str:
        """Let a prepared change act, and pass on what it ended before what it began."""
        text = self._session.commit(change)
        self.tell()
        return text

    def perform(self, change: SessionChange) -> str:
        """Prepare a change and let it act, see both."""
        self.prepare(change)
        return self.commit(change)

    def tell(self) -> None:
        """Pass on what the session remarks."""
        remarks = self._session.remarks
        while remarks:
            remark = remarks.popleft()
            if remark.level == 'error':  # rclpy wants a line of code for each
                self._log.error(remark.text)
            elif remark.level == 'warning':
                self._log.warning(remark.text)
            else:
                self._log.info(remark.text)
            if remark.status:
                self.announce(remark.status)

    def tell_of_law(self) -> None:
        """Pass on what may surprise in the parameters of the law."""
        for remark in self._session.loop.law.remarks():
            self._log.warning(remark)

    def _serve(self, kind: Any, name: str, change: Callable[[Any], SessionChange]) -> Service:
        """Return a service that makes a change of each request, and says what became of it."""

        def answer(request: Any, response: Any) -> Any:
            try:
                response.message = self.perform(change(request))
                response.success = True
                self._log.info(response.message)
            except RobotDynamicsError as error:
                response.success, response.message = False, str(error)
            return response

        return self._node.create_service(kind, f'~/{name}', answer)


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


_AGAIN_S = 1.0  # after a model that was refused


class LockedJointInput:
    """Positions of the locked joints, in rad or m, from the messages that are read.

    Args:
        session: What decides.
        states: Reads the messages.
        parameters: Parameters of the node.
        description: URDF text from the topic.
        limits: Effort limits of the driver.
    """

    def __init__(
        self,
        session: ControllerSession,
        states: SerializedStateReader,
        parameters: Mapping[str, Any],
        description: str,
        limits: EffortLimit,
    ) -> None:
        self._session, self._states = session, states
        self._parameters, self._description, self._limits = parameters, description, limits
        self._measured = measured_joints(parameters)
        self._reader = JointStateReader(session.locked.names, velocity=False)
        self._deviation, self._not_before = '', 0.0

    def take(self) -> bool:
        """Tell the session of the message read last; return whether there is a command."""
        if not self._reader.joints:
            return False
        self._states.positions_of_others(self._reader)
        return self._session.on_locked(self._reader.q)

    def has_news(self) -> bool:
        """Return whether a joint has left its place or come back since the last call."""
        before, self._deviation = self._deviation, self._session.locked.deviation
        return bool(before) != bool(self._deviation)

    def missing(self) -> str:
        """Say of which joint that shall be measured no position has come; empty: of none."""
        names = self._session.locked.unknown(self._measured)
        return f'no position of locked joint {names[0]!r} has come' if names else ''

    def before_activation(self, perform: Callable[[SessionChange], str]) -> None:
        """Let the model have the joints where they are measured.

        Raises:
            RobotDynamicsError: No position has come, or the model is refused.
        """
        if missing := self.missing():
            raise ConfigurationError('not activated', missing, 'publish it in the joint states')
        if self._session.locked.wants_model or self._session.locked.differs(self._measured):
            perform(self._change())

    def follow(self, perform: Callable[[SessionChange], str]) -> str:
        """Make the model anew if that is wanted; return what to say about it, or nothing."""
        if not self._session.locked.wants_model or time.monotonic() < self._not_before:
            return ''
        try:
            return perform(self._change())
        except RobotDynamicsError as error:
            self._not_before = time.monotonic() + _AGAIN_S
            return str(error)

    def _change(self) -> ModelChange:
        return ModelChange(self._session, self._load)

    def _load(self, positions: Mapping[str, float]) -> RobotTree:
        words = [f'{name}:={position!r}' for name, position in positions.items()]
        parameters = {**self._parameters, 'locked': words}
        return robot_from_parameters(parameters, self._description, self._limits)
