# SPDX-License-Identifier: Apache-2.0
"""A configured controller: its session with the topics, services and timers of a node."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rclpy.node import Node

from robot_dynamics_ros.control.drivers.driver_interface import robot_and_driver
from robot_dynamics_ros.control.goals import joint_tolerances
from robot_dynamics_ros.control.health import HealthReport, SessionHealth
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model.robot_parameters import with_locked
from robot_dynamics_ros.parameters import Values
from robot_dynamics_ros.ros.controller.parameter_requests import ParameterRequests
from robot_dynamics_ros.ros.controller.session_requests import SessionRequests
from robot_dynamics_ros.ros.controller.trajectory_action import TrajectoryAction
from robot_dynamics_ros.ros.controller_topics import ControllerMonitor
from robot_dynamics_ros.ros.driver_connection import STATE_QOS, DriverConnection
from robot_dynamics_ros.ros.node import STEADY, Rivals, declare_new
from robot_dynamics_ros.ros.rclpy_compat import take_message
from robot_dynamics_ros.ros.spinning import tick_until

_WATCH_PERIOD_S = 0.02  # at which the age of the states is checked


class RunningController:
    """The parts of a controller node that exist only while it is configured.

    Args:
        node: The controller.
        parameters: Its parameters.
        description: URDF text from the topic; used if the parameters name no robot.
        publish_health: Publishes the health immediately.
        action: Serves the goals; None: no action.

    Attributes:
        session: The controller session.
        requests: Makes requests to the session.
        parameters: Checks, applies and publishes its parameters.
        connection: The topics of the driver.

    Raises:
        RobotDynamicsError: A parameter or the description is invalid.
    """

    def __init__(
        self,
        node: Node,
        parameters: Values,
        description: str,
        publish_health: Callable[[], None],
        action: TrajectoryAction | None,
    ) -> None:
        tree, driver = robot_and_driver(parameters, description)
        tolerances = declare_new(node, joint_tolerances(tree.joint_names), 'constraints.')
        parameters = {**parameters, **tolerances}
        simulated = node.get_parameter('use_sim_time').value
        session = ControllerSession(tree, parameters, driver, simulated_time=simulated)
        self.session, self._node, self._log = session, node, node.get_logger()
        self.connection = DriverConnection(session.driver)
        self._publish_health, self._health = publish_health, SessionHealth()
        self.requests = requests = SessionRequests(node, session)
        self.parameters = ParameterRequests(node, session, requests.submit, self._watch)
        self._robot_at = lambda at: robot_and_driver(with_locked(parameters, at), description)[0]
        self.connection.open(node, self._on_state)
        self._rivals = Rivals(node, self.connection.state_topic)
        self._monitor = ControllerMonitor(node, session)
        self._watchdog = node.create_timer(_WATCH_PERIOD_S, self._watch, clock=STEADY)
        self.connection.hear_older(node, lambda: session.controls and self._competitors())
        self._action = action
        self._log.info(f'{tree.name} under {session.loop.law.name}: {self.connection.describe()}')
        for remark in tree.remarks:
            self._log.warning(remark)
        self.parameters.log_law_remarks()
        self.parameters.publish()
        if action is not None:  # last: it remains if anything before fails
            action.serve(requests)

    def close(self) -> None:
        """Finish if the controller is active, and end session and goals, whatever fails."""
        release = [] if self._action is None else [self._action.release]
        for step in (self.finish, self.session.end, self.requests.worker.close, *release):
            try:
                step()
            except Exception as error:
                self._log.error(f'not closed in order: {type(error).__name__}: {error}')

    # States and commands -------------------------------------------------------------------------

    def _on_state(self, content: bytes) -> None:
        reader, state, session = self.connection.reader, self.connection.state, self.session
        stamp, state.arrival_ns = None, time.perf_counter_ns()
        for _ in range(STATE_QOS.depth):  # several nodes may publish joints at the same instant
            if reader.read(content):
                stamp = state.stamp_ns = reader.time_ns(content, self._node.get_clock())
                state.effort = reader.effort() if session.wants_effort else None
            self._check_locked_joints()
            if (taken := self.connection.take()) is None:
                break
            content = taken[0]
        if stamp is None:
            return
        if session.loop.force.frame:
            self.requests.take_wrench()
        if session.update(state):
            self.connection.writer.publish(session.command)
            self._health.count(stamp, time.perf_counter_ns() - state.arrival_ns)
            session.settle()
            if self._action is not None:
                self._action.publish_feedback()
            self._attempt(self._monitor.publish, stamp)
        elif session.repeats > 1 and session.controls and self.connection.has_new_subscriber():
            self.connection.writer.publish(session.command)  # which the new one has missed
            self._monitor.update_counts()
            self._attempt(self._monitor.publish, stamp)
        if session.remarks:
            self.requests.log_remarks()

    def _attempt(self, tell: Callable[..., Any], *args: Any) -> Any:
        """Call what asks law and session; an unexpected error leads to the stop action."""
        try:
            return tell(*args)
        except Exception as error:
            if self.session.fail(error):
                self.connection.writer.publish(self.session.command)

    def _check_locked_joints(self) -> None:
        """Check the positions of the locked joints and react immediately."""
        if not self.session.locked.names:
            return
        before, (names, positions) = self.session.locked.deviation, self.connection.reader.latest
        if len(names) != len(positions):  # the reader tells that
            return
        if self.session.on_locked(positions, names):
            self.connection.writer.publish(self.session.command)
        if bool(before) != bool(self.session.locked.deviation):
            self.requests.log_remarks()
            self._publish_health()

    def _watch(self) -> None:
        """Check the age of the last state; schedule the next check for its timeout."""
        self._monitor.update_counts()
        session, now = self.session, time.perf_counter_ns()
        if session.watch(now, **self.connection.source(self._node)):
            self.connection.writer.publish(session.command)
        self.requests.log_remarks()
        self._watchdog.timer_period_ns = session.patience_ns(now)
        self._watchdog.reset()

    def missing(self) -> str:
        """Return what is missing for the activation; empty if nothing is."""
        self._watch()  # update the message
        if rivals := self._rivals.sentence(self._contradictions):
            return rivals
        if self.session.is_silent(time.perf_counter_ns()):
            return self.session.silence()
        names = self._node.get_parameter('await_listeners').value
        missing = self.connection.missing_subscriber(self._node, [*filter(None, names)])
        return missing or self.session.locked.missing() or self._competitors()

    def activate(self) -> None:
        """Start control.

        Raises:
            ConfigurationError: No fresh state, or a second publisher of states or commands.
        """
        if others := self._competitors() or self._rivals.sentence(self._contradictions):
            raise ConfigurationError('not activated', *others.split('; '))
        self._watch()  # update the message of a refusal
        self._lock_where_measured()
        self.session.activate(time.perf_counter_ns())
        self.connection.begin(self._node)
        self.requests.log_remarks()
        self._answer_state()  # those that came meanwhile, before their age is checked

    def _lock_where_measured(self) -> None:
        """Rebuild the session if a joint locked as ``measured`` stands elsewhere."""
        session, positions = self.session, self.session.locked.positions
        if not session.locked.outdated:
            return
        session.rebuild(self._robot_at(positions))
        text = ', '.join(with_locked({}, positions)['locked'])
        self._log.info(f'locked where measured: {text}')
        self.parameters.publish()
        until = time.monotonic() + session.loop.settings.state_timeout_s
        while not self._answer_state() and time.monotonic() < until:
            time.sleep(1e-3)  # the last state is as old as the rebuilding took

    def _competitors(self) -> str:
        shared = self._node.get_parameter('share_command_topic').value
        return '' if shared else self.connection.competitors(self._node)

    @property
    def _contradictions(self) -> int:
        """Number of states that contradicted the one before."""
        validator = self.session.loop.state.validator
        return validator.contradictions + self.connection.reader.other_layouts

    def finish(self) -> None:
        """Brake if the arm moves, answering states, and deliver a last safe command; below 4 s."""
        is_over = lambda: self.session.mode in (SessionMode.INACTIVE, SessionMode.ENDED)  # noqa: E731
        if is_over():
            return
        try:
            if self.session.deactivate():
                self.connection.writer.publish(self.session.command)
            self.requests.log_remarks()
            self._publish_health()
            tick_until(is_over, self._answer_state, self._watch, _WATCH_PERIOD_S)
            self._monitor.publish_changes()
            self.requests.log_remarks()
        finally:
            if not is_over() and self.session.end():
                self.connection.writer.publish(self.session.command)
            self.connection.flush()

    def _answer_state(self) -> bool:
        """Answer a pending state; return whether there was one."""
        if (taken := take_message(self.connection.states)) is not None:
            self._on_state(taken[0])
        return taken is not None

    def report(self) -> HealthReport:
        """Return the health since the last call."""
        rivals = self._rivals.sentence(self._contradictions, reports=True)
        others = rivals or self._competitors()
        report = self._attempt(self._health.report, self.session, others) or HealthReport(
            'error', self.session.condition, {}
        )
        report.values['states_read_as_messages'] = self.connection.reader.deserialized
        report.values['states_unreadable'] = self.connection.reader.unreadable
        self._log.debug(f'{report.message}; {report.values}')
        return report
