# SPDX-License-Identifier: Apache-2.0
"""Topics between a controller and a driver, as the driver profile defines them.

Also a passive node that collects the states, and optionally commands, of a driver in its units.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from rclpy.clock import Clock
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions, QoSPolicyKind
from sensor_msgs.msg import JointState

from robot_dynamics_ros.control.drivers.driver_interface import ArmState, DriverInterface
from robot_dynamics_ros.errors import ConfigurationError, PeerTimeoutError
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.ros.conversions import (
    EffortWriter,
    JointStateReader,
    command_message,
    efforts_of,
)
from robot_dynamics_ros.ros.node import (
    PASSIVE,
    STEADY,
    PackageNode,
    Rivals,
    publisher_names,
)
from robot_dynamics_ros.ros.rclpy_compat import taker, with_info
from robot_dynamics_ros.ros.spinning import refusing, run
from robot_dynamics_ros.spatial.scalar import Array

#: A driver needs only the newest effort; qos_overrides can increase the depth for a recorder.
_COMMAND_DEPTH = 1
_CLOCKS_AGREE_S = 1.0
_DISCOVERY_S, _LOOK_PERIOD_S = 3.0, 0.1
_ALONE = 'end one, or set share_command_topic'
_REMEDY = "correct the names in it, or its 'qos_overrides'"  # of a topic
_NO_NUMBER = 2**64 - 1  # of a middleware that does not number its messages
_DELIVERY_TIMEOUT = Duration(seconds=0.3)
STATE_QOS = QoSProfile(depth=16, reliability=ReliabilityPolicy.BEST_EFFORT)
_PROGRESS_PERIOD_S, _TIMEOUT_S = 1.0, 10.0  # of collecting states


class DriverConnection:
    """The state and command topics of a driver.

    Args:
        driver: Names, units and order of the joints, topics and form of the commands.

    Attributes:
        driver: As given.
        reader: Reads the serialized states that ``states`` receives, in the units of the driver.
        state: The last state, for the controller to fill.
        writer: Publishes commands; available after :meth:`open`.
        states: The subscription of the states; available after :meth:`open`.
        take: Takes a further state that waits, and its info; likewise.
        publishers: The publishers of the commands; available after :meth:`open`.
        state_topic: Name of the state topic.
    """

    writer: EffortWriter
    states: Any
    publishers: list[Any]
    _subscriber_count = 0  # smallest count of any command topic
    _began_at = 0.0
    _heard: Any = None  # the subscription of the commands, while another node publishes them

    def __init__(self, driver: DriverInterface) -> None:
        self.driver, self.state_topic = driver, driver.profile.state.topic
        self.reader = JointStateReader(driver.names, velocity=not driver.differentiates)
        self.state = ArmState(0, 0, self.reader.q, self.reader.v)

    def open(self, node: Node, on_state: Any) -> None:
        """Create the topics.

        Args:
            node: The node that owns them.
            on_state: Called with every serialized state.

        Raises:
            ConfigurationError: rclpy rejects a topic.
        """
        driver, command = self.driver, self.driver.profile.command
        names, form = driver.command_names, command.form
        kind = type(command_message(form, names))
        overriding = QoSOverridingOptions([QoSPolicyKind.DEPTH])
        self.publishers = []
        for topic in filter(None, (command.topic_of_positions, *driver.command_topics)):
            with refusing(f'topic {topic!r}', RuntimeError, remedy=_REMEDY):
                publisher = node.create_publisher(
                    kind, topic, _COMMAND_DEPTH, qos_overriding_options=overriding
                )
            self.publishers.append(publisher)
        overlaid = driver.overlaid if form == 'overlay' else None
        now_ns = partial(self.command_stamp_ns, node.get_clock())
        self.writer = EffortWriter(self.publishers, names, form, overlaid, now_ns)
        with refusing(f'topic {self.state_topic!r}', RuntimeError, remedy=_REMEDY):
            self.states = node.create_subscription(
                JointState,
                self.state_topic,
                on_state,
                STATE_QOS,
                raw=True,
                qos_overriding_options=QoSOverridingOptions.with_default_policies(),
            )
        self.take = taker(self.states)

    def command_stamp_ns(self, clock: Clock) -> int:
        """Return the time of a command, ns: that of its state if simulated time was not received.

        Args:
            clock: The clock of the node.
        """
        return int(clock.now().nanoseconds) or self.reader.stamp_ns

    def flush(self) -> None:
        """Wait until the commands are delivered, or for some tenths of a second."""
        for publisher in self.publishers:
            publisher.wait_for_all_acked(_DELIVERY_TIMEOUT)

    def source(self, node: Node) -> dict[str, Any]:
        """Return the arguments of ``ControllerSession.watch`` on the topic of the states.

        Args:
            node: The node that owns the topics.
        """
        topic = self.states.topic_name
        ended = not self.reader.missing_joints() and not node.count_publishers(topic)
        problem = 'its publisher has ended' if ended else self.reader.problem()
        return {'source': topic, 'problem': problem, 'has_ended': ended}

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
        """Return which nodes publish the same command, and after ``; `` what to do about it.

        A killed one counts until its lease ends. Empty if only this node does.
        """
        for publisher in self.publishers:
            names = publisher_names(node, publisher.topic_name)
            if len(names) > 1:
                topic = publisher.topic_name
                return f'{len(names)} nodes publish {topic}: {", ".join(names)}; {_ALONE}'
        return ''

    def begin(self, node: Node) -> None:
        """Note that commands begin; warn if the clock of the node is not that of the states."""
        self._began_at = time.monotonic()
        self.has_new_subscriber()
        now = node.get_clock().now().nanoseconds
        ahead = (self.state.stamp_ns - now) / NANO
        if now and abs(ahead) > _CLOCKS_AGREE_S:
            where = 'ahead of' if ahead > 0.0 else 'behind'
            node.get_logger().warning(
                f'the states are stamped {abs(ahead):.3g} s {where} the clock of this node: check '
                'use_sim_time here and at the driver, and that the clocks of both machines agree'
            )

    def hear_older(self, node: Any, competitors: Callable[[], str | bool]) -> None:
        """Deactivate a node if another one, discovered late, commanded before it.

        Of two that answer the same states, the one that has sent more commands began earlier.
        Nothing is heard any more once other nodes have had the time to be discovered.

        Args:
            node: The lifecycle node that owns the publishers.
            competitors: Returns which nodes publish the commands besides this one, if it is
                active; empty if none does.
        """

        def on_command(info: Mapping[str, Any]) -> None:
            is_older = self.writer.sent < info['publication_sequence_number'] < _NO_NUMBER
            if is_older and (others := competitors()):
                node.get_logger().error(f'deactivated: {others}')
                node.trigger_deactivate()

        def look() -> None:
            is_new = time.monotonic() - self._began_at < _DISCOVERY_S
            if self._heard is not None and not is_new:
                node.destroy_subscription(self._heard)
                self._heard = None
            elif self._heard is None and is_new and competitors():
                publisher, hear = self.publishers[-1], with_info(on_command)
                kind, topic = publisher.msg_type, publisher.topic_name
                with suppress(RuntimeError):  # a security policy may forbid it
                    self._heard = node.create_subscription(kind, topic, hear, PASSIVE, raw=True)

        node.create_timer(_LOOK_PERIOD_S, look, clock=STEADY)

    def subscribe_commands(
        self, node: Node, take: Callable[..., None], qos: Any, **options: Any
    ) -> list[Any]:
        """Subscribe to the commands, in the units of the driver; return the subscriptions.

        Args:
            node: The subscribing node.
            take: Called with indices of joints in the order of a command, of all or of one, and
                their efforts, see :func:`efforts_of`.
            qos: QoS of the subscriptions.
            options: Further options of the subscriptions.
        """
        driver = self.driver
        form, names = driver.profile.command.form, driver.command_names

        def on_message(places: Sequence[int], msg: Any) -> None:
            take(places, efforts_of(msg, form, names))

        kind, every = type(command_message(form, names)), range(len(names))
        places = [[i] for i in every] if form == 'per_joint' else [every]
        return [
            node.create_subscription(kind, topic, partial(on_message, at), qos, **options)
            for at, topic in zip(places, driver.command_topics, strict=True)
        ]

    def describe(self) -> str:
        """Return one sentence on the open topics and the driver, for the log."""
        profile = self.driver.profile
        topics = ', '.join(publisher.topic_name for publisher in self.publishers)
        text = f'states on {self.states.topic_name}, efforts on {topics}'
        if not self.driver.has_profile:
            return text
        compensated = ' and '.join(profile.compensated_by_driver) or 'nothing'
        text += f'; driver {profile.name} compensates {compensated}'
        derivative = self.driver.velocity_filter()
        if derivative is not None:
            delay_ms = 1e3 * derivative.delay(1.0 / profile.state.rate_hz)
            text += f'; velocities are differentiated, delayed by {delay_ms:.2f} ms'
        return text


Columns = tuple[Array, Array, Array, Array]


class StateCollector(PackageNode):
    """Collects states for a given time.

    Attributes:
        finished: Completes after this time, or with an error if no state arrives.

    Args:
        driver, seconds, commands: See :func:`collect_states`.
        rows: Receives times (s), positions, velocities and efforts, in the units and signs of the
            driver and the order of the model.
    """

    def __init__(
        self, driver: DriverInterface, seconds: float, commands: bool, rows: list[Columns]
    ) -> None:
        super().__init__('commissioning')
        self._rows, self._seconds, self._use_commands = rows, seconds, commands
        connection = DriverConnection(driver)
        self._topic, self._reader = connection.state_topic, connection.reader
        self._order = driver.order
        self._command = np.full(len(driver.names), np.nan)
        self._started_at, self._first_ns, self._last_ns = time.monotonic(), 0, -1
        self._rivals = Rivals(self, self._topic)
        self.create_subscription(JointState, self._topic, self._on_state, PASSIVE, raw=True)
        if commands:
            connection.subscribe_commands(self, self._on_command, PASSIVE)
        self.create_timer(_PROGRESS_PERIOD_S, self._check_progress, clock=STEADY)

    def _on_command(self, places: Sequence[int], commands: Sequence[float]) -> None:
        if len(commands) == len(places):
            self._command[self._order[places]] = commands

    def _on_state(self, content: bytes) -> None:
        reader = self._reader
        if not reader.read(content):
            return
        stamp = reader.stamp_ns or self.get_clock().now().nanoseconds
        self._rivals.note(stamp, content)
        if stamp <= self._last_ns:
            return
        self._first_ns, self._last_ns = self._first_ns or stamp, stamp
        effort = self._command.copy() if self._use_commands else reader.effort()
        elapsed = np.array([(stamp - self._first_ns) / NANO])
        self._rows.append((elapsed, reader.q.copy(), reader.v.copy(), effort))

    def _check_progress(self) -> None:
        elapsed = time.monotonic() - self._started_at
        if rivals := self._rivals.sentence():
            self._end(ConfigurationError(self._topic, *rivals.split('; ')))
        elif not self._rows and elapsed > min(self._seconds, _TIMEOUT_S):
            peer = f'{self._topic} ({self._reader.problem()})'
            self._end(PeerTimeoutError(peer, 'state of all joints', elapsed))
        elif elapsed > self._seconds:
            self._end()
        else:
            left = self._seconds - elapsed
            print(f'{len(self._rows)} states, {left:.0f} s left', file=sys.stderr, flush=True)


def collect_states(
    driver: DriverInterface, seconds: float, *, commands: bool, args: list[str]
) -> Columns | int:
    """Collect the states of a driver.

    Args:
        driver: The driver profile bound to the robot.
        seconds: Duration, s.
        commands: Whether efforts are taken from the commands instead of the states.
        args: Arguments of rclpy.

    Returns:
        Times (N,), s; positions, velocities and efforts (N, n) in the units and signs of the
        driver, NaN if missing; or the exit code on failure.
    """
    rows: list[Columns] = []
    code = run(lambda: StateCollector(driver, seconds, commands, rows), args)
    if code or not rows:
        return code or 1
    time_, x, y, effort = (np.array(column) for column in zip(*rows, strict=True))
    return time_[:, 0], x, y, effort
