# SPDX-License-Identifier: Apache-2.0
"""Topics between a controller and a driver, as the driver profile defines them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rclpy.exceptions import NameValidationException, ParameterException
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions, QoSPolicyKind
from sensor_msgs.msg import JointState

from robot_dynamics_ros.control.drivers.port import DriverPort, velocity_filter
from robot_dynamics_ros.control.drivers.profile import CommandProfile
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.ros.conversions import (
    COMMAND_MESSAGES,
    EffortWriter,
    JointStateReader,
    SerializedStateReader,
)

#: A driver needs only the newest effort; qos_overrides can increase the depth for a recorder.
_COMMAND_DEPTH = 1
STATE_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


class DriverConnection:
    """The state and command topics of a driver.

    Args:
        port: Names, units and order of the joints.
        command_form: The parameter ``command_form``, used without a driver profile.

    Attributes:
        port: As given.
        reader: Merges the states, in the units of the driver.
        serialized: Reads the serialized states that ``states`` receives.
        writer: Publishes commands; available after :meth:`open`.
        states: The subscription of the states; available after :meth:`open`.
        publishers: The publishers of the commands; available after :meth:`open`.
        state_topic: Name of the state topic.
        command_topics: Names of the effort topics.
        command_form: Form of the commands.
    """

    writer: EffortWriter
    states: Any
    publishers: list[Any]
    _subscriber_count, _topic_of_positions = 0, ''  # smallest count of any command topic

    def __init__(self, port: DriverPort, command_form: str) -> None:
        self.port = port
        driver = port.driver
        self._names = [port.names[i] for i in port.order]
        if driver is None:
            self.state_topic, self.command_form = 'joint_states', command_form
            per_joint = command_form == 'per_joint'
            one = [CommandProfile().topic]
            self.command_topics = [f'{x}/cmd_force' for x in self._names] if per_joint else one
        else:
            self.state_topic = driver.profile.state.topic
            self.command_form = driver.profile.command.form
            self.command_topics = [*driver.command_topics]
            self._topic_of_positions = driver.profile.command.topic_of_positions
        self.reader = JointStateReader(port.names, velocity=not port.differentiates)
        self.serialized = SerializedStateReader(self.reader)

    def open(self, node: Node, on_state: Any) -> list[Any]:
        """Create the topics; return the entities to destroy with the connection.

        Args:
            node: The node that owns them.
            on_state: Called with every serialized state.

        Raises:
            ConfigurationError: rclpy rejects a topic.
        """
        kind = COMMAND_MESSAGES[self.command_form]
        overriding = QoSOverridingOptions([QoSPolicyKind.DEPTH])
        self.publishers = []
        for topic in filter(None, (self._topic_of_positions, *self.command_topics)):
            with _naming_topic(topic):
                publisher = node.create_publisher(
                    kind, topic, _COMMAND_DEPTH, qos_overriding_options=overriding
                )
            self.publishers.append(publisher)
        overlaid = self.port.overlaid if self.command_form == 'overlay' else None
        self.writer = EffortWriter(self.publishers, self._names, self.command_form, overlaid)
        with _naming_topic(self.state_topic):
            self.states = node.create_subscription(
                JointState,
                self.state_topic,
                on_state,
                STATE_QOS,
                raw=True,
                qos_overriding_options=QoSOverridingOptions.with_default_policies(),
            )
        return [self.states, *self.publishers]

    def missing_state(self) -> str:
        """Return why there is no complete state, in parentheses; empty if unknown."""
        for what, joints in (
            ('never seen: ', self.reader.missing_joints()),
            ('no velocity for ', self.reader.missing_velocity),
            ('no longer seen: ', self.serialized.stale_joints()),
        ):
            if joints:
                return f' ({what}{", ".join(joints)})'
        return ''

    def has_new_subscriber(self) -> bool:
        """Return whether the commands have more subscribers than at the last call."""
        before = self._subscriber_count
        counts = [publisher.get_subscription_count() for publisher in self.publishers]
        self._subscriber_count = min(counts)
        return self._subscriber_count > before

    def missing_subscriber(self, node: Node, required: Sequence[str]) -> str:
        """Return which required subscriber of the commands is missing; empty if none is.

        Args:
            node: The node that owns the publishers.
            required: Names of nodes that must subscribe, in addition to at least one subscriber.
        """
        for publisher in self.publishers:
            topic = publisher.topic_name
            subscribers = [info.node_name for info in node.get_subscriptions_info_by_topic(topic)]
            missing = [name for name in required if name not in subscribers]
            if missing:
                return f'{", ".join(missing)} does not subscribe to {topic} yet'
            if publisher.get_subscription_count() < (max(len(subscribers), 1) if required else 1):
                return f'{topic} is not connected to a subscriber yet'
        return ''

    def competitors(self, node: Node) -> str:
        """Return which nodes publish the same command; a killed one counts until its lease ends.

        Empty if only this node does.
        """
        for publisher in self.publishers:
            infos = node.get_publishers_info_by_topic(publisher.topic_name)
            if len(infos) > 1:
                names = sorted(f'{x.node_namespace.rstrip("/")}/{x.node_name}' for x in infos)
                return f'{len(infos)} nodes command {publisher.topic_name}: {", ".join(names)}'
        return ''

    def joint_effort_of_command(self, index: int, command: float) -> tuple[int, float]:
        """Return the joint index and the effort, N m or N, of a command for one joint.

        Args:
            index: Index of its topic in ``command_topics``.
            command: The command in the units of the driver.
        """
        commands = np.full(len(self._names), command)
        i = int(self.port.order[index])
        return i, float(self.port.effort_of_command(commands)[i])

    def describe(self) -> str:
        """Return one sentence on the open topics and the driver, for the log."""
        driver = self.port.driver
        topics = ', '.join(publisher.topic_name for publisher in self.publishers)
        text = f'states on {self.states.topic_name}, efforts on {topics}'
        if driver is None:
            return text
        profile = driver.profile
        compensated = ' and '.join(profile.compensated_by_driver) or 'nothing'
        text += f'; driver {profile.name} compensates {compensated}'
        derivative = velocity_filter(len(self._names), driver)
        if derivative is not None:
            delay_ms = 1e3 * derivative.delay(1.0 / profile.state.rate_hz)
            text += f'; velocities are differentiated, delayed by {delay_ms:.2f} ms'
        return text


@contextmanager
def _naming_topic(topic: str) -> Iterator[None]:
    """Convert errors of rclpy into errors that name the topic."""
    try:
        yield
    except (NameValidationException, ParameterException, RuntimeError) as error:
        problem = ' '.join(str(error).partition(', at /')[0].split())
        remedy = "correct the names in it, or its 'qos_overrides'"
        raise ConfigurationError(f'topic {topic!r}', problem, remedy) from error
