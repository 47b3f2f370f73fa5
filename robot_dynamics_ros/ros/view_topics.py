# SPDX-License-Identifier: Apache-2.0
"""Topics of one arm, polled when the viewer draws, so that no message wakes the process.

What is drawn together belongs to one instant: messages are paired by their timestamps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String

from robot_dynamics_ros.messages import NANO, wrench_of
from robot_dynamics_ros.ros.conversions import leading_stamp_ns
from robot_dynamics_ros.ros.node import LATCHED, Rivals
from robot_dynamics_ros.ros.rclpy_compat import PolledGroup, take_message
from robot_dynamics_ros.viewing.arm import (
    ArmInstant,
    ContactFlash,
    Numbers,
    begins_anew,
    by_origin,
    diagnostic_status,
    number,
)
from robot_dynamics_ros.yaml_reader.parsing import yaml_mapping

_INACTIVE = 'ended: the controller was deactivated'  # of a former activation once it is active
_STATE_TIMEOUT_S = 1.0  # maximum age of states
_WRENCH_TIMEOUT_S = 0.5  # maximum age of wrenches
_RIVALS_PERIOD_S = 1.0  # at which contradicting publishers of the states are looked for
_TOPIC_TIMEOUT_S = 3.0  # maximum age of diagnostics and of topics published in each tick
#: Messages of a stream that are kept to be paired: at 2 kHz, more than two polls of the monitor.
_DEPTH = 256
_RECENT = QoSProfile(depth=_DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT)
_TEXTS = ('robot_description', 'controller/parameters', 'controller/trajectory_status')
_WRENCHES = {'external': 'controller/external_wrench', 'push': 'simulator/push'}
_REFERENCE, _COMPONENTS, _CONSTRAINT, _CONDITION = (
    f'controller/{name}'
    for name in ('reference', 'effort_components', 'constraint', 'constraint_condition')
)
#: Topics that the controller stamps with the time of the state that it answers.
_PAIRED = (_REFERENCE, _COMPONENTS, _CONSTRAINT)
#: Types of the streams of an arm besides its states.
_STREAMS: dict[str, Any] = {
    **dict.fromkeys(_PAIRED, JointState),
    _CONDITION: Float64MultiArray,
    **dict.fromkeys(_WRENCHES.values(), WrenchStamped),
}


def by_name(state: JointState, field: str) -> dict[str, float]:
    """Return the numbers of a field of a joint state by name."""
    return dict(zip(state.name, getattr(state, field), strict=False))


class RecentMessages:
    """The last messages of a topic, serialized, by timestamp.

    Attributes:
        received_at: Time of the last arrival, s; the time of the subscription before.
        messages: Serialized messages by timestamp, ns, in the order of arrival.
        note: Called with the timestamp of each message, ns, and its content.
    """

    def __init__(self, node: Any, kind: Any, topic: str, group: PolledGroup) -> None:
        self._kind, self._stamped = kind, hasattr(kind, 'header')
        self.note: Callable[[int, bytes], None] = lambda *_: None
        self.subscription = node.create_subscription(
            kind, topic, lambda _: None, _RECENT, callback_group=group, raw=True
        )
        self.received_at, self.messages = time.monotonic(), dict[int, bytes]()
        self._last = 0

    def poll(self) -> bool:
        """Take what has arrived; return whether there was a message."""
        new = False
        while (taken := take_message(self.subscription)) is not None:
            new, data = True, taken[0]
            stamp = leading_stamp_ns(data) if self._stamped else 0
            if stamp < self._last:  # the clock began anew
                self.messages.clear()
            self.note(stamp, data)
            self._last = stamp
            self.messages.pop(stamp, None)
            self.messages[stamp] = data
        if new:
            self.received_at = time.monotonic()
            for stamp in list(self.messages)[:-_DEPTH]:
                del self.messages[stamp]
        return new

    def at(self, stamp: int) -> Any:
        """Return the message with a timestamp, ns; an empty one if none can be read."""
        if (data := self.messages.get(stamp)) is not None:
            with suppress(RuntimeError):  # it is no message of the type
                return deserialize_message(data, self._kind)
        return self._kind()

    def is_fresh(self, seconds: float) -> bool:
        """Return whether a message arrived within a time, s."""
        return bool(self.messages) and time.monotonic() - self.received_at < seconds

    def newest(self, seconds: float) -> Any:
        """Return the newest message if it arrived within a time, s; else an empty one."""
        return self.at(self._last) if self.is_fresh(seconds) else self._kind()


class ArmTopics:
    """The topics of one arm and its controller, polled so that no message wakes the process.

    Attributes:
        description: URDF text; empty until received.
        parameters: Parameters of the controller, by name; empty until received.
        space: As given.

    Args:
        node: The viewer.
        space: Namespace of the arm, with a trailing slash.
        states: Topic of the joint states within it.
    """

    def __init__(self, node: Any, space: str, states: str) -> None:
        self.description, self.parameters, self.space = '', dict[str, Any](), space
        self._controller, self._states = f'{space}controller'.lstrip('/'), f'{space}{states}'
        self._node, self._bursts = node, PolledGroup(in_bursts=True)
        group = PolledGroup()
        self._texts = {
            name: node.create_subscription(
                String, f'{space}{name}', lambda _: None, LATCHED, callback_group=group
            )
            for name in _TEXTS
        }
        self._streams: dict[str, RecentMessages] = {}
        self._rivals, self._rivalry, self._asked_at = Rivals(node, self._states), '', -math.inf
        self._answer = ''  # to the last trajectory
        self._answered_at = self._configured_at = -math.inf  # as they were sent
        self._anew = False  # a run has begun, whose parameters are to come
        self._flash = ContactFlash()
        self._health: dict[str, str] = {}
        self._diagnosed_at = -math.inf

    def watch(self, on: bool) -> None:
        """Subscribe to the streams, or end their subscriptions."""
        if on == bool(self._streams):
            return
        for stream in self._streams.values():
            self._node.destroy_subscription(stream.subscription)
        topics = {'states': (JointState, self._states)}
        topics |= {name: (kind, f'{self.space}{name}') for name, kind in _STREAMS.items()}
        self._streams = {
            name: RecentMessages(self._node, *topic, self._bursts)
            for name, topic in topics.items()
            if on
        }
        if on:
            self._streams['states'].note = self._rivals.note

    def take_diagnostics(self, message: DiagnosticArray) -> None:
        """Extract the status of the arm's controller from a /diagnostics message."""
        for status in message.status:
            if status.name == f'{self._controller}: control loop':
                before, self._health = self._health, diagnostic_status(status)
                self._anew |= begins_anew(before, self._health)
                self._diagnosed_at = time.monotonic()
                self._flash.update(self._health, self._diagnosed_at)

    def poll(self) -> bool:
        """Take the messages that have arrived; return whether there is a new state."""
        for name, subscription in self._texts.items():
            while (taken := take_message(subscription)) is not None:
                self._take_text(name, taken[0].data, taken[1]['source_timestamp'])
        return 'states' in [name for name, stream in self._streams.items() if stream.poll()]

    def _take_text(self, name: str, text: str, sent_ns: float) -> None:
        if name == 'robot_description':
            self.description = text
        elif name == 'controller/parameters':
            self.parameters, self._configured_at = yaml_mapping(text), sent_ns
        else:
            self._answer, self._answered_at = text, sent_ns

    def _common_stamp(self) -> tuple[int, set[str]]:
        """Return the newest timestamp, ns, of a state with its paired topics, and their names."""
        stamps, paired = list(self._streams['states'].messages), set[str]()
        for name in _PAIRED:
            stream = self._streams[name]
            both = [stamp for stamp in stamps if stamp in stream.messages]
            if both and stream.is_fresh(_TOPIC_TIMEOUT_S):
                stamps = both
                paired.add(name)
        return (stamps[-1] if stamps else 0), paired

    def instant(self) -> ArmInstant:
        """Return the newest instant of the arm whose messages are known; what is missing."""
        stamp, paired = self._common_stamp()
        state, health = self._streams['states'].at(stamp), self._latest_health()
        reference, parts, constraint = (
            self._streams[name].at(stamp if name in paired else -1) for name in _PAIRED
        )
        condition = self._streams[_CONDITION].newest(_TOPIC_TIMEOUT_S)
        seconds = stamp / NANO
        position, measured = by_name(state, 'position'), by_name(state, 'effort')
        wrenches = {
            kind: self._streams[topic].newest(_WRENCH_TIMEOUT_S)
            for kind, topic in _WRENCHES.items()
        }
        return ArmInstant(
            time=seconds if position else math.nan,
            position=position,
            reference=by_name(reference, 'position'),
            velocity=by_name(state, 'velocity'),
            effort=by_name(reference, 'effort') or measured,
            measured=measured,
            components=by_origin(parts.name, parts.effort),
            f=by_name(constraint, 'position'),
            sigma_min=condition.data[0] if len(condition.data) else math.nan,
            wrenches={
                kind: (x.header.frame_id, wrench_of(x))
                for kind, x in wrenches.items()
                if x.header.frame_id
            },
            touched=self._flash.link(self._health, time.monotonic()),
            program_time=seconds - number(health.get('program_start_s')),
            status=health,
            alarm=self._alarm(position),
        )

    def _alarm(self, position: Numbers) -> str:
        now, states = time.monotonic(), self._streams['states']
        if now > self._asked_at + _RIVALS_PERIOD_S:
            self._asked_at = now
            self._rivalry = self._rivals.sentence(reports=True)
        if self._rivalry:
            return self._rivalry
        age = now - states.received_at
        if age > _STATE_TIMEOUT_S:
            return f'no joint states on {self._states} for {age:.0f} s'
        if list(states.messages) == [0] and self._streams[_REFERENCE].messages:
            return f'{self._states} has no timestamps: nothing can be compared with it'
        unknown = [name for name, x in position.items() if not math.isfinite(x)]
        return f'non-finite positions: {", ".join(unknown)}' if unknown else ''

    def _latest_health(self) -> dict[str, str]:
        age = time.monotonic() - self._diagnosed_at
        if self._anew and self._answered_at < self._configured_at:
            self._answer, self._anew = '', False  # of the run before
        past = self._answer.startswith(_INACTIVE) and 'activated_s' in self._health
        trajectory = {'trajectory': self._answer} if self._answer and not past else {}
        if math.isinf(age):
            return trajectory
        if age > _TOPIC_TIMEOUT_S:
            message = f'no diagnostics from {self._controller} for {age:.0f} s'
            return {'level': 'error', 'message': message, 'stale': 'yes', **trajectory}
        return {**self._health, **trajectory}
