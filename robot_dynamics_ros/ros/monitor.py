# SPDX-License-Identifier: Apache-2.0
"""Monitor node: compare the efforts of a running robot with its inverse dynamics.

The node only subscribes (best effort, so that no publisher waits for it) and never commands. It
publishes the model efforts of two formulations, their difference, the effort components by origin,
and the residual of the applied efforts. /diagnostics reports whether the residual exceeds its
thresholds, and the gravity vector that would explain it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState

from robot_dynamics_ros.control.drivers.driver_interface import robot_and_driver
from robot_dynamics_ros.control.safety.state_validator import MeasuredState
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
from robot_dynamics_ros.messages import stamp_ns
from robot_dynamics_ros.model.payload import loaded
from robot_dynamics_ros.parameters import Values
from robot_dynamics_ros.ros.conversions import PreparedMessage, state_message
from robot_dynamics_ros.ros.driver_connection import DriverConnection
from robot_dynamics_ros.ros.node import (
    PASSIVE,
    STEADY,
    PackageNode,
    Rivals,
    diagnostic_array,
    on_set_parameters,
)
from robot_dynamics_ros.ros.node_parameters import MONITOR
from robot_dynamics_ros.ros.rclpy_compat import PolledGroup, PollingExecutor, take_pending
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
        self._batch = list[tuple[int, Instants]]()
        self._begin_with_robot(self._begin)

    # Building ------------------------------------------------------------------------------------

    def _begin(self, description: str) -> None:
        settings = self._settings
        self._tree, self._driver = robot_and_driver(settings, description)
        driver = self._driver
        self._connection = DriverConnection(driver)
        self._state = MeasuredState(self._tree, driver.velocity_filter())
        self._state.validator.configure(settings['longest_step'])
        self._thresholds = Thresholds.of(
            self._tree, settings['residual_warn'], settings['residual_error']
        )
        self._pairing = Pairing(
            settings['acceleration'], settings['longest_step'], settings['cutoff_hz']
        )
        self._set_payload()
        self._effort = np.full(self._tree.n, np.nan)
        self._last_ns = 0
        self._waiting: dict[int, dict[str, Any]] = {}  # by timestamp
        self._create_topics()
        check = lambda changes: loaded(self._tree, {**self._settings, **changes})  # noqa: E731
        on_set_parameters(self, check, self._apply_change)

    def _set_payload(self) -> None:
        """Build the model of the robot with its payload."""
        settings = self._settings
        tree = loaded(self._tree, settings)
        make = partial(ModelMonitor, tree, settings['formulation'], friction=settings['friction'])
        try:
            self._monitor = make(settings['compare_with'])
        except MissingDependencyError as error:
            self.get_logger().warning(f'no comparison: {error}', once=True)
            self._monitor = make('')
        self._driver.compensate(
            *(
                compile_kernel(robot, outputs=('gravity_forces',)).gravity_forces
                for robot in (tree, self._tree)
            )
        )

    def _create_topics(self) -> None:
        settings, connection = self._settings, self._connection
        self._subscribe(connection.state_topic, self._on_state, raw=True)
        self._rivals = Rivals(self, connection.state_topic)
        if settings['effort_source'] == 'reference':
            self._subscribe(f'{settings["controller"]}/reference', self._on_reference)
        elif settings['effort_source'] == 'command':
            options = self._options()
            self._polled += connection.subscribe_commands(
                self, self._on_command, PASSIVE, **options
            )
        self._message = PreparedMessage(state_message(self._tree.joint_names))
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
        if self._batch:
            self._evaluate_batch()

    def _on_state(self, content: bytes) -> None:
        reader, driver = self._connection.reader, self._driver
        if not reader.read(content):
            return
        stamp = reader.stamp_ns or self._sent_ns
        driver.read(reader.q, reader.v)
        state, repetitions = self._state, self._state.repetitions.count
        if not state.take(stamp, driver.q, driver.v).usable or (
            state.repetitions.count > repetitions
        ):
            return  # of a second publisher, or of a driver slower than its publisher
        elapsed, driver.v[:] = state.time, state.v
        if self._settings['effort_source'] == 'measured':
            self._effort = driver.total_effort(reader.effort(), driver.q, driver.v)
        before, self._last_ns = self._last_ns, stamp
        instant = self._pairing.take(elapsed, state.q, state.v, self._effort)
        if instant is None:
            return
        if self._settings['effort_source'] == 'reference' and self._pairing.name != 'filtered':
            self._match(before, instant=instant)
        else:
            self._batch.append((before, instant))

    def _on_reference(self, msg: JointState) -> None:
        if len(msg.effort) != self._tree.n:
            return
        self._effort = self._motor_effort(np.array(msg.effort))
        self._match(stamp_ns(msg), effort=self._effort)

    def _match(self, stamp: int, **part: Any) -> None:
        """Add a sample once both ``instant`` and ``effort`` of a timestamp have been received."""
        both = self._waiting.pop(stamp, {}) | part
        if len(both) == 2:
            effort = both['effort'][np.newaxis]
            self._batch.append((stamp, replace(both['instant'], effort=effort)))
            return
        self._waiting[stamp] = both
        if len(self._waiting) > _MAX_PENDING:
            del self._waiting[next(iter(self._waiting))]

    def _on_command(self, places: Sequence[int], efforts: Sequence[float]) -> None:
        if len(efforts) != len(places):
            return
        command, joints = np.zeros(self._tree.n), self._driver.order[places]
        command[places], self._effort = efforts, self._effort.copy()
        commanded = self._driver.effort_of_command(command)
        self._effort[joints] = self._motor_effort(commanded)[joints]

    def _motor_effort(self, commanded: Any) -> Any:
        """Return the motor efforts under a command: the command plus the driver compensation."""
        return commanded + self._driver.compensation(self._driver.q, self._driver.v)

    # Publishing ----------------------------------------------------------------------------------

    def _evaluate_batch(self) -> None:
        """Evaluate the added samples and publish the topics that have subscribers."""
        stamps, samples = zip(*self._batch, strict=True)
        self._batch.clear()
        instants = Instants.joined(list(samples))
        modelled, other = self._monitor.compare(instants)
        efforts = {'effort': modelled.effort, 'residual': modelled.residual, **modelled.parts}
        if other is not None:
            efforts |= {'other': other, 'difference': modelled.effort - other}
        subscribed = [name for name in efforts if self._topics[name].get_subscription_count()]
        position, velocity, effort = self._message.doubles
        for k, stamp in enumerate(stamps if subscribed else ()):
            position[:], velocity[:] = instants.q[k], instants.v[k]
            for name in subscribed:
                effort[:] = efforts[name][k]
                self._message.publish(self._topics[name], stamp)

    def _report(self) -> None:
        summary = self._monitor.summary()
        verdict = evaluate(summary, self._thresholds, self._tree)
        reports = {'model': (*verdict, self._diagnostic_values(summary))}
        count = self._state.validator.contradictions + self._connection.reader.other_layouts
        if rivals := self._rivals.sentence(count, reports=True):
            reports['states'] = 'warning', f'{rivals}; those that jump are left out', {}
        compared = self._monitor.compared
        if compared and summary.count:
            names = (self._settings['formulation'], compared)
            reports['formulations'] = (*evaluate_difference(summary, names), {})
        self._diagnostics.publish(diagnostic_array(self, self._tree.name, reports))

    def _diagnostic_values(self, summary: Summary) -> dict[str, str]:
        entries = {'instants': str(summary.count), 'gaps': str(self._pairing.gaps)}
        entries['states_repeated'] = str(self._state.repetitions.count)
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

    def _apply_change(self, changes: Values) -> None:
        self._settings = self._read_parameters()
        self._set_payload()
