# SPDX-License-Identifier: Apache-2.0
"""What is recorded of a run: topics, how they are subscribed, where their stamps are."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from struct import unpack_from
from typing import Any

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.recordings.topics import STREAMS, WRENCH
from robot_dynamics_ros.ros.conversions import NANO

_DEPTH = 5000  # the most that Fast DDS keeps for a reader by default
_STAMPED = ('std_msgs/Header', 'builtin_interfaces/Time')


@dataclass(frozen=True)
class Topic:
    """What to record.

    Attributes:
        name, kind: Topic and type.
        latched: Whether who comes late gets the last message.
        at_once: Whether whoever offers it has sent it before anything happens.
        by_arrival: Whether its own stamp says nothing of when it acts.
    """

    name: str
    kind: str
    latched: bool = False
    at_once: bool = False
    by_arrival: bool = False


STATES = Topic('joint_states', 'sensor_msgs/msg/JointState')
COMMANDS = Topic('effort_controller/commands', 'std_msgs/msg/Float64MultiArray')


def topics_of(controller: str) -> list[Topic]:
    """Return what is recorded of a run, in the order it has at one time."""
    return [
        STATES,
        COMMANDS,
        Topic(f'{controller}/reference', 'sensor_msgs/msg/JointState'),
        Topic(f'{controller}/joint_trajectory', 'trajectory_msgs/msg/JointTrajectory'),
        Topic(f'{controller}/trajectory_status', 'std_msgs/msg/String', latched=True),
        Topic(f'{controller}/parameters', 'std_msgs/msg/String', latched=True, at_once=True),
        Topic('robot_description', 'std_msgs/msg/String', latched=True, at_once=True),
        *(
            Topic(f'{controller}/{name}', kind, name == 'speed_scaling_input', by_arrival=True)
            for name, kind in STREAMS.items()
            if find_spec(kind.partition('/')[0])
        ),
        Topic('simulator/push', WRENCH, by_arrival=True),
        Topic('/diagnostics', 'diagnostic_msgs/msg/DiagnosticArray'),
    ]


def message_class(kind: str) -> Any:
    """Return the class of a message type such as ``std_msgs/msg/String``.

    Raises:
        ConfigurationError: It is not installed.
    """
    package, _, name = kind.partition('/msg/')
    try:
        return getattr(import_module(f'{package}.msg'), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f'message type {kind!r}', 'is not installed', "give 'package/msg/Type'"
        ) from error


class Stream:
    """One recorded topic: its subscription and what is known of it."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.message_type = message_class(topic.kind)
        fields = list(self.message_type.get_fields_and_field_types().values())
        self.stamped = bool(fields) and fields[0] in _STAMPED and not topic.by_arrival
        self.subscription: Any = None
        self.reliable = True
        self.received = self.lost = 0

    @property
    def name(self) -> str:
        """Full name of the topic."""
        return str(self.subscription.topic_name)

    def qos(self) -> QoSProfile:
        """Return the QoS to subscribe with."""
        return QoSProfile(
            depth=_DEPTH,
            reliability=ReliabilityPolicy.RELIABLE
            if self.reliable
            else ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.TRANSIENT_LOCAL
            if self.topic.latched
            else DurabilityPolicy.VOLATILE,
        )

    def stamp(self, data: bytes) -> int:
        """Return the stamp at the start of a serialized message, ns; 0 if its type has none.

        A Header and a Time both begin with int32 sec, uint32 nanosec, after the 4 bytes of the
        encapsulation header, whose second byte tells the byte order.
        """
        if not self.stamped:
            return 0
        sec, nanosec = unpack_from('<iI' if data[1] & 1 else '>iI', data, 4)
        return int(sec * NANO + nanosec)

    def count_lost(self, event: Any) -> None:
        """Count what the middleware says was lost."""
        self.lost += event.total_count_change
