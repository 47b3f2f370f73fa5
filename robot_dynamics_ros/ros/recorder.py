# SPDX-License-Identifier: Apache-2.0
"""Recorder node: write the topics of a run to a bag, with times on the clock of the states.

Messages stay serialized from the network to the bag. ``recordings/timestamp_assignment.py``
explains the time that each message is recorded with. This module also lists the recorded topics,
their QoS and the location of their timestamps.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_srvs.srv import Trigger

from robot_dynamics_ros.control.topics import PUSHES, STREAMS
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.recordings.bag.reader import BagWriter
from robot_dynamics_ros.recordings.timestamp_assignment import TimestampAssigner
from robot_dynamics_ros.ros.conversions import (
    COMMAND_KINDS,
    leading_stamp_ns,
    message_class,
)
from robot_dynamics_ros.ros.node import STEADY, PackageNode, Rivals, serve
from robot_dynamics_ros.ros.node_parameters import RECORDER
from robot_dynamics_ros.ros.rclpy_compat import PolledGroup, PollingExecutor, take_pending
from robot_dynamics_ros.ros.spinning import EXIT_FAILED, refusing

_JOINING_S = 1.0  # after the first message of a topic
_DEPTH = 5000  # default limit of Fast DDS for one reader
COMMANDS = 'effort_controller/commands'
_NO_STAMP = bytes(8)  # or that of simulated time 0
_STAMPED = ('std_msgs/Header', 'builtin_interfaces/Time')


@dataclass(eq=False)
class Stream:
    """One recorded topic: its subscription and counters.

    Attributes:
        topic, kind: Topic name as given, and message type.
        latched: Whether late subscribers receive the last message.
        at_startup: Whether publishers send it at startup, so that ``~/ready`` requires it.
        by_arrival: Whether the header timestamp is unrelated to when the message takes effect.
        periodic: Whether it is published in every control period.
        reliable: Whether it is subscribed to reliably.
        received, lost: Number of messages.
        missed: Number of messages that were lost while joining a running publisher.

    Raises:
        ConfigurationError: The message type is not installed.
    """

    topic: str
    kind: str
    latched: bool = False
    at_startup: bool = False
    by_arrival: bool = False
    periodic: bool = False
    subscription: Any = None
    reliable, first_at = True, math.inf
    received = lost = missed = 0

    def __post_init__(self) -> None:
        self.message_type = message_class(self.kind)
        fields = list(self.message_type.get_fields_and_field_types().values())
        by_arrival = self.by_arrival or self.kind == COMMAND_KINDS['joint_command']
        self.stamped = bool(fields) and fields[0] in _STAMPED and not by_arrival

    @property
    def name(self) -> str:
        """Full name of the topic."""
        return str(self.subscription.topic_name)

    def qos(self) -> QoSProfile:
        """Return the QoS to subscribe with."""
        qos = QoSProfile(depth=_DEPTH)  # reliable
        if not self.reliable:
            qos.reliability = ReliabilityPolicy.BEST_EFFORT
        if self.latched:
            qos.durability = DurabilityPolicy.TRANSIENT_LOCAL
        return qos

    def count(self, now: float) -> None:
        """Count a message that arrived at a time, s."""
        if not self.received:
            self.first_at = now
        self.received += 1

    def count_lost(self, number: int, now: float) -> None:
        """Count messages that the middleware reports as lost at a time, s.

        A publisher that keeps only its last message overwrites some while a reader joins it.
        """
        if now < self.first_at + _JOINING_S:
            self.missed += number
        else:
            self.lost += number

    def stamp(self, data: bytes) -> int:
        """Return the timestamp of a serialized message, ns; 0 if its type has none."""
        return leading_stamp_ns(data) if self.stamped else 0


def streams_of(controller: str, states: str) -> list[Stream]:
    """Return the topics of a run, in the order in which messages of equal time are recorded."""
    return [
        Stream(states, 'sensor_msgs/msg/JointState', periodic=True),
        Stream(COMMANDS, 'std_msgs/msg/Float64MultiArray', periodic=True),
        Stream(f'{controller}/reference', 'sensor_msgs/msg/JointState', periodic=True),
        Stream(f'{controller}/joint_trajectory', 'trajectory_msgs/msg/JointTrajectory'),
        Stream(f'{controller}/trajectory_status', 'std_msgs/msg/String', latched=True),
        Stream(f'{controller}/parameters', 'std_msgs/msg/String', latched=True, at_startup=True),
        Stream(f'{controller}/changes', 'std_msgs/msg/String', latched=True, at_startup=True),
        Stream('robot_description', 'std_msgs/msg/String', latched=True, at_startup=True),
        *(
            Stream(f'{controller}/{name}', kind, name == 'speed_scaling_input', by_arrival=True)
            for name, kind in STREAMS.items()
            if find_spec(kind.partition('/')[0])
        ),
        Stream(PUSHES, 'geometry_msgs/msg/WrenchStamped', by_arrival=True),
        Stream('/diagnostics', 'diagnostic_msgs/msg/DiagnosticArray'),
    ]


_CHECK_PERIOD_S = 0.1
#: At the end: largest number of polls, and of empty ones in a row after which nothing is in
#: transit; the middleware, or the sender, may have had no processor during one of them.
_MAX_FINAL_POLLS, _EMPTY_POLLS = 10, 3


class Recorder(PackageNode):
    """Records joint states, commands, references, descriptions, parameters and diagnostics.

    Messages that peers repeat while a simulator is paused or unanswered are recorded once. The
    service ``~/ready`` succeeds once states and commands have arrived, and also the controller
    parameters and the robot description if these topics have publishers.

    Attributes:
        finished: Completes when the recording is over; its result is the exit code.

    Raises:
        RobotDynamicsError: The bag already exists, or a message type is not installed.
    """

    make_executor = PollingExecutor

    def __init__(self) -> None:
        super().__init__('recorder', RECORDER)
        settings = self._settings
        self._max_ns = round(settings['max_duration_s'] * NANO)
        self._first_ns: int | None = None
        self._clock_topic = self.resolve_topic_name('/clock')
        self._begins_at_zero: bool | None = None  # the clock of the states; None: unknown
        self._end_sent = sys.maxsize
        self._newest_ns = 0
        streams = streams_of(settings['controller'], settings['state_topic'])
        self._untyped = list[str]()
        if settings['record_clock']:
            streams.append(Stream('/clock', 'rosgraph_msgs/msg/Clock'))
        extra = [text.split() for text in settings['extra_topics'] if text.strip()]
        for name in ('controller', 'state_topic'):
            with refusing(f'{name}: {settings[name]!r}', RuntimeError):
                self.resolve_topic_name(settings[name])
        for topic, *kind in extra:
            with refusing(f'extra_topics: {topic!r}', RuntimeError):
                self.resolve_topic_name(topic)
            if kind:
                streams.append(Stream(topic, ' '.join(kind)))
            else:
                self._untyped.append(topic)
        self._bag = BagWriter(settings['bag'] or time.strftime('bag_%Y_%m_%d-%H_%M_%S'))
        self._stamper = TimestampAssigner(self._bag.write)
        self._streams = list[Stream]()
        self._rivals = Rivals(self, settings['state_topic'])
        self._group = PolledGroup(in_bursts=settings['best_effort'] and not extra)
        for stream in streams:
            stream.reliable = not (settings['best_effort'] and stream.periodic)
            self._add_stream(stream)
        serve(self, Trigger, 'ready', self._on_ready)
        self.create_timer(_CHECK_PERIOD_S, self._on_timer, clock=STEADY)
        self.get_logger().info(f'recording to {self._bag.path}')

    def on_stop(self) -> None:
        """Close the bag if a signal ends the recording."""
        if not self.finished.done():
            self._end(self._close())

    def _close(self) -> int:
        """Record the messages still in transit, close the bag, report; return the exit code."""
        empty, polls = 0, 0
        while empty < _EMPTY_POLLS and polls < _MAX_FINAL_POLLS:
            time.sleep(_CHECK_PERIOD_S)
            empty, polls = 0 if self.poll() else empty + 1, polls + 1
        self._stamper.close()
        self._write_latency()
        self._bag.close()
        return EXIT_FAILED if self._report() and self._settings['fail_on_loss'] else 0

    def _add_stream(self, stream: Stream) -> None:
        self._subscribe(stream)
        if stream.name in self._bag.counts:
            self.destroy_subscription(stream.subscription)
            return
        self._bag.add_topic(stream.name, stream.kind, latched=stream.latched)
        self._stamper.add_topic(stream.name)
        self._streams.append(stream)

    def _subscribe(self, stream: Stream) -> None:
        if stream.subscription is not None:
            self.poll()
            self.destroy_subscription(stream.subscription)
        stream.subscription = self.create_subscription(
            stream.message_type,
            stream.topic,
            partial(self._record, stream),
            stream.qos(),
            callback_group=self._group,
            event_callbacks=SubscriptionEventCallbacks(
                message_lost=partial(self._on_lost, stream)
            ),
            raw=True,
        )

    def _on_lost(self, stream: Stream, event: Any) -> None:
        """Count the messages that the middleware reports as lost."""
        stream.count_lost(event.total_count_change, time.monotonic())
        self._group.stop_bursts()

    # Messages ------------------------------------------------------------------------------------

    def poll(self) -> int:
        """Record all messages that have arrived; return their number."""
        pending = take_pending([stream.subscription for stream in self._streams])
        for sent, subscription, data in pending:
            subscription.callback(data, sent)
        return len(pending)

    def _record(self, stream: Stream, data: bytes, sent: int) -> None:
        stream.count(time.monotonic())
        stamp = stream.stamp(data)
        if sent >= self._end_sent:
            return
        if stream is not self._streams[0]:
            self._stamper.add(stream.name, sent, stamp, data)
            return
        if data[4:12] == _NO_STAMP:
            if self._begins_at_zero is None:
                self._begins_at_zero = self.count_publishers(self._clock_topic) > 0
            stamp = 0 if self._begins_at_zero else sent
        self._newest_ns = stamp
        self._rivals.note(stamp, data)
        if self._first_ns is None or stamp < self._first_ns:
            self._first_ns = stamp
        if not self._max_ns or stamp - self._first_ns <= self._max_ns:
            self._stamper.add_state(stream.name, sent, stamp, data)
        else:
            self._end_sent = sent

    # Peers ---------------------------------------------------------------------------------------

    def _on_timer(self) -> None:
        """Look up unknown types, switch to best effort where required, end if due."""
        if self._end_sent < sys.maxsize:
            self._end(self._close())
            return
        if self._settings['progress']:
            print(f'progress {self._newest_ns / NANO:.6f}', flush=True)
        if rivals := self._rivals.sentence():
            self.get_logger().warning(rivals, once=True)
        known = dict(self.get_topic_names_and_types()) if self._untyped else {}
        for name in tuple(self._untyped):
            kinds = known.get(self.resolve_topic_name(name))
            if kinds:
                self._untyped.remove(name)
                try:
                    self._add_stream(Stream(name, kinds[0]))
                except ConfigurationError as error:  # the run goes on without it
                    self.get_logger().error(f'{name} is not recorded: {error}')
        for stream in self._streams:
            infos = self.get_publishers_info_by_topic(stream.name)
            offered = {info.qos_profile.reliability for info in infos}
            if stream.reliable and ReliabilityPolicy.BEST_EFFORT in offered:
                stream.reliable = False
                self.get_logger().warning(f'{stream.name} is offered as best effort')
                self._subscribe(stream)

    def _on_ready(self, _: Trigger.Request) -> tuple[bool, str]:
        missing = [
            stream.name
            for stream in self._streams
            if not stream.received
            and (
                stream in self._streams[:2]
                or (stream.at_startup and self.count_publishers(stream.name))
            )
        ]
        return not missing, f'no message yet on {", ".join(missing)}' if missing else 'recording'

    def _write_latency(self) -> None:
        """Write the latencies from state to command to the bag's metadata."""
        for stream in self._streams:
            times = sorted(self._stamper.latencies_ns.get(stream.name, ()))
            if not times or stream.stamped or stream.latched or stream.by_arrival:
                continue
            for percent in (50, 99):
                value = times[percent * (len(times) - 1) // 100]
                remark = f'{stream.name} latency_p{percent}_us'
                self._bag.add_remark(remark, f'{value * 1e-3:.1f}')

    def _report(self) -> int:
        """Log what was recorded; return how many messages were lost."""
        log = self.get_logger()
        for stream in self._streams:
            if stream.received:
                missed = f', {stream.missed} missed while joining' if stream.missed else ''
                log.info(
                    f'{stream.name}: {self._bag.counts[stream.name]} recorded, '
                    f'{self._stamper.repeated[stream.name]} repeated (left out), '
                    f'{stream.lost} lost{missed}'
                )
        lost = sum(stream.lost for stream in self._streams)
        if lost:
            log.error(f'{lost} messages were lost: the recorder could not keep up')
        if self._stamper.jumps:
            log.warning(f'time went back {self._stamper.jumps} times')
        states, commands, reference, *_ = self._streams
        silent = [(topic, 'extra_topics') for topic in self._untyped]
        if not self._stamper.states:
            silent.append((states.name, 'state_topic'))
        if reference.received and not (commands.received or self._settings['extra_topics'][0]):
            silent.append((commands.name, 'extra_topics'))
        for topic, parameter in silent:
            remedy = f'remap it to what is published, or name that by {parameter}'
            log.warning(f'no message received on {topic}: {remedy}')
        log.info(f'closed {self._bag.path}')
        return lost
