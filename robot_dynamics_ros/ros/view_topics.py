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
from robot_dynamics_ros.ros.node import LATCHED, NEWEST
from robot_dynamics_ros.ros.rclpy_compat import PolledGroup, take_message
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
_TEXTS = ('robot_description', 'controller/parameters', 'controller/trajectory_status')
_WRENCHES = {'external': 'controller/external_wrench', 'push': 'simulator/push'}
#: Types of the topics of an arm besides its states.
_TOPICS: dict[str, Any] = {
    'controller/reference': JointState,
    'controller/constraint': JointState,
    'controller/constraint_condition': Float64MultiArray,
    'controller/effort_components': JointState,
    **dict.fromkeys(_WRENCHES.values(), WrenchStamped),
    **dict.fromkeys(_TEXTS, String),
}


class ArmTopics:
    """The topics of one arm and its controller, polled so that no message wakes the process.

    Attributes:
        description: URDF text; empty until received.
        parameters: Parameters of the controller, by name; empty until received.

    Args:
        node: The viewer.
        space: Namespace of the arm, with a trailing slash.
        states: Topic of the joint states within it.
        group: Callback group of polled subscriptions.
    """

    def __init__(self, node: Any, space: str, states: str, group: PolledGroup) -> None:
        self.description, self.parameters = '', dict[str, Any]()
        self._controller, self._states = f'{space}controller'.lstrip('/'), states
        self._subscriptions = {
            name: node.create_subscription(
                kind,
                f'{space}{name}',
                lambda _: None,
                LATCHED if name in _TEXTS else NEWEST,
                callback_group=group,
            )
            for name, kind in {states: JointState, **_TOPICS}.items()
        }
        self._received: dict[str, tuple[float, Any]] = {}  # time of arrival and newest message
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
        new = set()
        for name, subscription in self._subscriptions.items():
            while (taken := take_message(subscription)) is not None:
                self._received[name] = time.monotonic(), taken[0]
                new.add(name)
        if 'robot_description' in new:
            self.description = self._newest('robot_description').data
        if 'controller/parameters' in new:
            self.parameters = yaml_mapping(self._newest('controller/parameters').data)
        return self._states in new

    def _newest(self, name: str, seconds: float = math.inf) -> Any:
        """Return the newest message of a topic if it is younger than ``seconds``, else None."""
        received_at, message = self._received.get(name, (-math.inf, None))
        return message if time.monotonic() - received_at < seconds else None

    def _state(self, name: str) -> JointState:
        """Return the newest joint state that the controller publishes in each tick, or none."""
        return self._newest(f'controller/{name}', _TOPIC_TIMEOUT_S) or JointState()

    def instant(self) -> ArmInstant:
        """Return the state of the arm in the newest messages, and what is missing."""
        state = self._newest(self._states) or JointState()
        reference, constraint = self._state('reference'), self._state('constraint')
        condition = self._newest('controller/constraint_condition', _TOPIC_TIMEOUT_S)
        parts, health = self._state('effort_components'), self._latest_health()
        seconds = stamp_ns(state) / NANO
        position = dict(zip(state.name, state.position, strict=False))
        efforts = (zip(x.name, x.effort, strict=False) for x in (state, reference))
        measured, commanded = map(dict, efforts)
        return ArmInstant(
            time=seconds,
            position=position,
            reference=dict(zip(reference.name, reference.position, strict=False)),
            effort=commanded or measured,
            components=by_origin(parts.name, parts.effort),
            f=dict(zip(constraint.name, constraint.position, strict=False)),
            sigma_min=condition.data[0] if condition and len(condition.data) else math.nan,
            wrenches={
                kind: (x.header.frame_id, wrench_of(x))
                for kind, topic in _WRENCHES.items()
                if (x := self._newest(topic, _WRENCH_TIMEOUT_S))
            },
            touched=self._flash.link(self._health, time.monotonic()),
            program_time=seconds - _number(health.get('program_start_s')),
            status=health,
            alarm=self._alarm(position),
        )

    def _alarm(self, position: Mapping[str, float]) -> str:
        age = time.monotonic() - self._received.get(self._states, (-math.inf,))[0]
        if age > _STATE_TIMEOUT_S:
            seconds = '' if math.isinf(age) else f' for {age:.0f} s'
            return f'no joint states on {self._subscriptions[self._states].topic_name}{seconds}'
        unknown = [name for name, x in position.items() if not math.isfinite(x)]
        return f'non-finite positions: {", ".join(unknown)}' if unknown else ''

    def _latest_health(self) -> dict[str, str]:
        age = time.monotonic() - self._diagnosed_at
        status = self._newest('controller/trajectory_status')
        trajectory = {'trajectory': status.data} if status and status.data else {}
        if math.isinf(age):
            return trajectory
        if age > _TOPIC_TIMEOUT_S:
            message = f'no diagnostics from {self._controller} for {age:.0f} s'
            return {'level': 'error', 'message': message, **trajectory}
        return {**self._health, **trajectory}


def _number(text: str | None) -> float:
    try:
        return float(text or 'nan')
    except ValueError:
        return math.nan
