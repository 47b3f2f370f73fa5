# SPDX-License-Identifier: Apache-2.0
"""Topics of one arm, polled when the viewer draws, so that no message wakes the process."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String

from robot_dynamics_ros.messages import NANO, stamp_ns
from robot_dynamics_ros.ros.conversions import wrench_of
from robot_dynamics_ros.ros.executors import PolledGroup
from robot_dynamics_ros.ros.node import LATCHED, NEWEST
from robot_dynamics_ros.ros.rclpy_compat import take_message
from robot_dynamics_ros.viewing.arm import (
    ArmInstant,
    ContactFlash,
    by_origin,
    diagnostic_status,
)
from robot_dynamics_ros.yaml_reader.parsing import yaml_mapping

_STATE_TIMEOUT_S = 1.0  # maximum age of states
_WRENCH_TIMEOUT_S = 0.5  # maximum age of wrenches
_TOPIC_TIMEOUT_S = 3.0  # maximum age of diagnostics and of topics published in each tick


class PolledTopic:
    """The newest message of a topic and its time of arrival."""

    def __init__(self, node: Any, kind: Any, topic: str, qos: Any, group: Any) -> None:
        self.message: Any = None
        self.received_at = -math.inf
        self.subscription = node.create_subscription(
            kind, topic, lambda _: None, qos, callback_group=group
        )

    def poll(self) -> bool:
        """Take all new messages; return whether there was one."""
        updated = False
        while (taken := take_message(self.subscription)) is not None:
            self.message, updated = taken[0], True
        if updated:
            self.received_at = time.monotonic()
        return updated

    def newest(self, seconds: float) -> Any:
        """Return the newest message if it is younger than ``seconds``, else None."""
        return self.message if time.monotonic() - self.received_at < seconds else None


class ArmTopics:
    """The topics of one arm and its controller.

    Attributes:
        description: URDF text; empty until received.
        parameters: Parameters of the controller, by name; empty until received.
        status: Status of the last trajectory.

    Args:
        node: The viewer.
        space: Namespace of the arm, with a trailing slash.
        states: Topic of the joint states within it.
        group: Callback group of polled subscriptions.
    """

    def __init__(self, node: Any, space: str, states: str, group: PolledGroup) -> None:
        def topic(kind: Any, name: str, qos: Any = NEWEST) -> PolledTopic:
            return PolledTopic(node, kind, f'{space}{name}', qos, group)

        self.description, self.status = '', ''
        self.parameters: Mapping[str, Any] = {}
        self._controller = f'{space}controller'.lstrip('/')
        self._states = topic(JointState, states)
        self._reference = topic(JointState, 'controller/reference')
        self._constraint = topic(JointState, 'controller/constraint')
        self._condition = topic(Float64MultiArray, 'controller/constraint_condition')
        self._components = topic(JointState, 'controller/effort_components')
        self._wrenches = {
            'external': topic(WrenchStamped, 'controller/external_wrench'),
            'push': topic(WrenchStamped, 'simulator/push'),
        }
        self._description = topic(String, 'robot_description', LATCHED)
        self._parameters = topic(String, 'controller/parameters', LATCHED)
        self._status = topic(String, 'controller/trajectory_status', LATCHED)
        self._fast = (
            self._states,
            self._reference,
            self._constraint,
            self._condition,
            self._components,
            *self._wrenches.values(),
        )
        self._flash = ContactFlash()
        self._health: dict[str, str] = {}
        self._diagnosed_at = -math.inf

    def take_diagnostics(self, message: DiagnosticArray) -> None:
        """Extract the status of the arm's controller from a /diagnostics message."""
        for status in message.status:
            if status.name == f'{self._controller}: control loop':
                self._health = diagnostic_status(status)
                self._diagnosed_at = time.monotonic()
                self._flash.update(self._health, self._diagnosed_at)

    def poll(self) -> bool:
        """Take the newest messages; return whether there is a new state."""
        self._poll_texts()
        return [topic.poll() for topic in self._fast][0]

    def _poll_texts(self) -> None:
        if self._description.poll():
            self.description = self._description.message.data
        if self._status.poll():
            self.status = self._status.message.data
        if self._parameters.poll():
            self.parameters = yaml_mapping(self._parameters.message.data)

    def instant(self) -> ArmInstant:
        """Return the state of the arm in the newest messages, and what is missing."""
        state = self._states.message or JointState()
        reference = self._reference.newest(_TOPIC_TIMEOUT_S) or JointState()
        constraint = self._constraint.newest(_TOPIC_TIMEOUT_S) or JointState()
        condition = self._condition.newest(_TOPIC_TIMEOUT_S)
        parts = self._components.newest(_TOPIC_TIMEOUT_S) or JointState()
        health = self._latest_health()
        seconds = stamp_ns(state) / NANO
        position = dict(zip(state.name, state.position, strict=False))
        return ArmInstant(
            time=seconds,
            position=position,
            reference=dict(zip(reference.name, reference.position, strict=False)),
            effort=_efforts(reference) or _efforts(state),
            components=by_origin(parts.name, parts.effort),
            f=dict(zip(constraint.name, constraint.position, strict=False)),
            sigma_min=condition.data[0] if condition and len(condition.data) else math.nan,
            wrenches={
                kind: (x.header.frame_id, wrench_of(x))
                for kind, topic in self._wrenches.items()
                if (x := topic.newest(_WRENCH_TIMEOUT_S))
            },
            touched=self._flash.link(self._health, time.monotonic()),
            program_time=seconds - _number(health.get('program_start_s')),
            status=health,
            alarm=self._alarm(position),
        )

    def _alarm(self, position: Mapping[str, float]) -> str:
        age = time.monotonic() - self._states.received_at
        if age > _STATE_TIMEOUT_S:
            seconds = '' if math.isinf(age) else f' for {age:.0f} s'
            return f'no joint states on {self._states.subscription.topic_name}{seconds}'
        unknown = [name for name, x in position.items() if not math.isfinite(x)]
        return f'non-finite positions: {", ".join(unknown)}' if unknown else ''

    def _latest_health(self) -> dict[str, str]:
        age = time.monotonic() - self._diagnosed_at
        trajectory = {'trajectory': self.status} if self.status else {}
        if math.isinf(age):
            return trajectory
        if age > _TOPIC_TIMEOUT_S:
            message = f'no diagnostics from {self._controller} for {age:.0f} s'
            return {'level': 'error', 'message': message, **trajectory}
        return {**self._health, **trajectory}


def _efforts(message: JointState) -> dict[str, float]:
    return dict(zip(message.name, message.effort, strict=False))


def _number(text: str | None) -> float:
    try:
        return float(text or 'nan')
    except ValueError:
        return math.nan
