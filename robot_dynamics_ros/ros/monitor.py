# SPDX-License-Identifier: Apache-2.0
"""Monitor node: compare the efforts of a running robot with its inverse dynamics.

The node only subscribes (best effort, so that no publisher waits for it) and never commands. It
publishes the model efforts of two formulations, their difference, the effort components by origin,
and the residual of the applied efforts. /diagnostics reports whether the residual exceeds its
thresholds, and the gravity vector that would explain it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState

from robot_dynamics_ros.control.drivers.conversion import robot_and_driver
from robot_dynamics_ros.control.drivers.port import DriverPort, velocity_filter
from robot_dynamics_ros.control.setup import driver_share
from robot_dynamics_ros.errors import MissingDependencyError
from robot_dynamics_ros.estimation.effort_model import ORIGINS, Instants
from robot_dynamics_ros.estimation.model_monitor import (
    ModelMonitor,
    Pairing,
    Summary,
    Thresholds,
    evaluate,
    evaluate_difference,
)
from robot_dynamics_ros.messages import NANO, stamp_ns
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.payload import payload_from_parameters, with_payload
from robot_dynamics_ros.ros.conversions import (
    JointStateWriter,
    ns_to_stamp,
    subscribe_commands,
)
from robot_dynamics_ros.ros.driver_connection import DriverConnection
from robot_dynamics_ros.ros.executors import PolledGroup, PollingExecutor, take_pending
from robot_dynamics_ros.ros.node import (
    PASSIVE,
    STEADY,
    PackageNode,
    diagnostic_array,
    on_set_parameters,
)
from robot_dynamics_ros.ros.node_parameters import MONITOR
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_DEPTH = 1000  # of the publishers: all samples of one poll are published in a burst
_MAX_PENDING = 1000  # maximum number of samples that wait for the effort of their timestamp


class MonitorNode(PackageNode):
    """Compares the efforts of a robot with its model.

    Subscribes to the joint states and, depending on ``effort_source``, to the commands. Publishes
    joint states with efforts on ``~/effort``, ``~/other``, ``~/difference``, ``~/residual``,
    ``~/inertia``, ``~/coriolis``, ``~/gravity``, ``~/armature`` and ``~/friction``, and
    ``/diagnostics``.

    Attributes:
        finished: Completes if a description received by topic is invalid.

    Raises:
        RobotDynamicsError: A parameter or the description is invalid.
    """

    make_executor = PollingExecutor

    def __init__(self) -> None:
        super().__init__('monitor', MONITOR)
        self._group, self._polled = PolledGroup(in_bursts=True), list[Subscription]()
        self._stamps, self._instants = list[int](), list[Instants]()
        self._begin_with_robot(self._begin)

    # Building ------------------------------------------------------------------------------------

    def _begin(self, description: str) -> None:
        settings = self._settings
        self._tree, self._driver = robot_and_driver(settings, description)
        port = DriverPort(self._tree, self._driver, settings['joints'])
        self._connection = DriverConnection(port, settings['command_form'])
        self._derivative = velocity_filter(self._tree.n, self._driver)
        self._thresholds = Thresholds.of(
            self._tree, settings['residual_warn'], settings['residual_error']
        )
        self._pairing = Pairing(
            settings['acceleration'], settings['longest_step'], settings['cutoff_hz']
        )
        self._set_payload(settings)
        self._effort = np.full(self._tree.n, np.nan)
        self._origin_ns: int | None = None
        self._last_ns = 0
        self._pending: dict[int, Instants] = {}
        self._unmatched: dict[int, Any] = {}
        self._create_topics()
        on_set_parameters(self, self._check_change, self._apply_change)

    def _set_payload(self, settings: Mapping[str, Any]) -> None:
        """Build the model of the robot with its payload."""
        payload = payload_from_parameters(settings)
        tree = self._tree if payload is None else with_payload(self._tree, payload)
        self._monitor = self._make_monitor(tree)
        gravity = [
            compile_kernel(robot, outputs=('gravity_forces',)).gravity_forces
            for robot in (tree, self._tree)
        ]
        self._share = driver_share(self._tree, self._driver, *gravity)

    def _make_monitor(self, tree: RobotTree) -> ModelMonitor:
        settings = self._settings
        formulation, friction = settings['formulation'], settings['friction']
        try:
            return ModelMonitor(tree, formulation, settings['compare_with'], friction=friction)
        except MissingDependencyError as error:
            self.get_logger().warning(f'no comparison: {error}', once=True)
            return ModelMonitor(tree, formulation, '', friction=friction)

    def _create_topics(self) -> None:
        settings, connection = self._settings, self._connection
        self._subscribe(connection.state_topic, self._on_state, raw=True)
        if settings['effort_source'] == 'reference':
            self._subscribe(f'{settings["controller"]}/reference', self._on_reference)
        elif settings['effort_source'] == 'command':
            self._polled += subscribe_commands(
                self,
                connection.command_form,
                connection.command_topics,
                self._on_command,
                self._on_joint,
                PASSIVE,
                **self._options(),
            )
        self._message = JointStateWriter(self._tree.joint_names, effort=True)
        topics = ('effort', 'other', 'difference', 'residual', *ORIGINS)
        self._topics = {
            name: self.create_publisher(JointState, f'~/{name}', _DEPTH) for name in topics
        }
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self.create_timer(settings['diagnostics_period_s'], self._report, clock=STEADY)

    def _subscribe(self, topic: str, take: Callable[[Any], None], **options: Any) -> None:
        options |= self._options()
        self._polled.append(self.create_subscription(JointState, topic, take, PASSIVE, **options))

    def _options(self) -> dict[str, Any]:
        lost = SubscriptionEventCallbacks(message_lost=self._group.stop_bursts)
        return {'callback_group': self._group, 'event_callbacks': lost}

    # Subscriptions -------------------------------------------------------------------------------

    def poll(self) -> None:
        """Take all messages that have arrived and evaluate them as one batch."""
        for sent, subscription, message in take_pending(self._polled):
            self._sent_ns = sent
            subscription.callback(message)
        if self._stamps:
            self._evaluate_batch()

    def _on_state(self, content: bytes) -> None:
        states, port = self._connection.serialized, self._connection.port
        reader = states.reader
        if not states.read(content):
            return
        stamp = states.stamp_ns or self._sent_ns
        if self._origin_ns is None:
            self._origin_ns = stamp
        elapsed = (stamp - self._origin_ns) / NANO
        port.read(reader.q, reader.v)
        if self._derivative is not None:
            port.v[:] = self._derivative.update(elapsed, port.q)
        if self._settings['effort_source'] == 'measured':
            measured = port.measured_effort(states.effort())
            self._effort = port.motor_effort(measured, port.q, port.v, self._share)
        before, self._last_ns = self._last_ns, stamp
        instant = self._pairing.take(elapsed, port.q, port.v, self._effort)
        if instant is None:
            return
        if self._settings['effort_source'] == 'reference' and self._pairing.name != 'filtered':
            self._await_effort(before, instant)
        else:
            self._add(before, instant)

    def _on_reference(self, msg: JointState) -> None:
        if len(msg.effort) != self._tree.n:
            return
        stamp = stamp_ns(msg)
        self._effort = self._motor_effort(np.array(msg.effort))
        if stamp in self._pending:
            self._add(stamp, _with_effort(self._pending.pop(stamp), self._effort))
        else:
            self._unmatched[stamp] = self._effort
            _drop_oldest(self._unmatched)

    def _await_effort(self, stamp: int, instant: Instants) -> None:
        """Add a sample once the command with its timestamp has been received."""
        if stamp in self._unmatched:
            self._add(stamp, _with_effort(instant, self._unmatched.pop(stamp)))
        else:
            self._pending[stamp] = instant
            _drop_oldest(self._pending)

    def _on_command(self, command: Sequence[float], _: Sequence[str]) -> None:
        if len(command) == self._tree.n:
            effort = self._connection.port.effort_of_command(np.array(command))
            self._effort = self._motor_effort(effort)

    def _on_joint(self, index: int, command: float) -> None:
        self._effort = self._effort.copy()
        i, effort = self._connection.joint_effort_of_command(index, command)
        self._effort[i] = self._motor_effort(effort)[i]

    def _motor_effort(self, commanded: Any) -> Any:
        """Return the motor efforts under a command: the command plus the driver compensation."""
        port = self._connection.port
        share = (
            np.zeros_like(port.q) if self._share is None else self._share.update(port.q, port.v)
        )
        return commanded + share

    # Publishing ----------------------------------------------------------------------------------

    def _add(self, stamp: int, instant: Instants) -> None:
        self._stamps.append(stamp)
        self._instants.append(instant)

    def _evaluate_batch(self) -> None:
        """Evaluate the added samples and publish the topics that have subscribers."""
        instants = Instants.joined(self._instants)
        modelled, other = self._monitor.compare(instants)
        efforts = {'effort': modelled.effort, 'residual': modelled.residual, **modelled.parts}
        if other is not None:
            efforts |= {'other': other, 'difference': modelled.effort - other}
        subscribed = [name for name in efforts if self._topics[name].get_subscription_count()]
        message = self._message
        for k, stamp in enumerate(self._stamps if subscribed else ()):
            message.message.header.stamp = ns_to_stamp(stamp)
            message.position[:], message.velocity[:] = instants.q[k], instants.v[k]
            for name in subscribed:
                message.effort[:] = efforts[name][k]
                self._topics[name].publish(message.message)
        self._stamps.clear()
        self._instants.clear()

    def _report(self) -> None:
        summary = self._monitor.summary()
        verdict = evaluate(summary, self._thresholds, self._tree)
        reports = {'model': (*verdict, self._diagnostic_values(summary))}
        compared = self._monitor.compared
        if compared and summary.count:
            names = (self._settings['formulation'], compared)
            reports['formulations'] = (*evaluate_difference(summary, names), {})
        self._diagnostics.publish(diagnostic_array(self, self._tree.name, reports))

    def _diagnostic_values(self, summary: Summary) -> dict[str, str]:
        entries = {'instants': str(summary.count), 'gaps': str(self._pairing.gaps)}
        for i, name in enumerate(self._tree.joint_names):
            if summary.evaluated[i]:
                entries[f'{name} residual rms'] = f'{summary.rms[i]:.3e}'
                entries[f'{name} residual largest'] = f'{summary.largest[i]:.3e}'
        if summary.gravity is not None:
            fitted = ', '.join(f'{x:.4f}' for x in summary.gravity.fitted)
            entries['gravity that fits best'] = fitted
            entries['residual explained by it'] = f'{100.0 * summary.gravity.explained:.0f} %'
        return entries

    # Parameters ----------------------------------------------------------------------------------

    def _check_change(self, changes: Mapping[str, Any]) -> None:
        payload = payload_from_parameters({**self._settings, **changes})
        if payload is not None:
            with_payload(self._tree, payload)

    def _apply_change(self, changes: Mapping[str, Any]) -> None:
        self._settings = self._read_parameters()
        self._set_payload(self._settings)


def _with_effort(instant: Instants, effort: Any) -> Instants:
    return replace(instant, effort=effort[np.newaxis])


def _drop_oldest(stamps: dict[int, Any]) -> None:
    """Drop the oldest entries that were never matched."""
    while len(stamps) > _MAX_PENDING:
        del stamps[next(iter(stamps))]
