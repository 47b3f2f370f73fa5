# SPDX-License-Identifier: Apache-2.0
"""A configured controller: its session between the topics, services and timers of a node."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import yaml
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool

from robot_dynamics_ros.control.changes import ParameterChange, PayloadChange
from robot_dynamics_ros.control.drivers.conversion import effort_limits
from robot_dynamics_ros.control.health import SessionHealth
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.session import ControllerSession, SessionChange
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError
from robot_dynamics_ros.model.from_parameters import robot_from_parameters
from robot_dynamics_ros.ros.controller.diagnostics import diagnostic_array
from robot_dynamics_ros.ros.controller.publishers import ControllerMonitor
from robot_dynamics_ros.ros.controller.trajectories import LATCHED, ControllerTrajectories
from robot_dynamics_ros.ros.conversions import stamp_to_ns
from robot_dynamics_ros.ros.driver_connection import (
    DriverConnection,
    bound,
    profile_from_parameters,
)
from robot_dynamics_ros.ros.rclpy_compat import take_message
from robot_dynamics_ros.ros.spinning import beside

STEADY = Clock(clock_type=ClockType.STEADY_TIME)
_WATCH_PERIOD_S = 0.02
_DELIVERY_TIMEOUT = Duration(seconds=0.3)


class RunningController:
    """Everything of a controller node that comes with its configuration and goes with it.

    Args:
        node: The controller.
        given: Its parameters.
        description: URDF text from the topic; used if the parameters name no robot.

    Attributes:
        session: What decides.

    Raises:
        RobotDynamicsError: A parameter or the description is refused.
    """

    def __init__(self, node: Node, given: Mapping[str, Any], description: str) -> None:
        profile = profile_from_parameters(given)
        limits = None if profile is None else effort_limits(profile)
        tree = robot_from_parameters(given, description, limits)
        simulated = bool(node.get_parameter('use_sim_time').value)
        driver = bound(profile, tree)
        self.session = session = ControllerSession(tree, given, driver, simulated_time=simulated)
        self._node, self._log = node, node.get_logger()
        self._connection = DriverConnection(session.port, given['command_form'])
        self._health, self._prepared = SessionHealth(), dict[str, ParameterChange]()
        self._open(node, given)
        self._trajectories = ControllerTrajectories(node, session, self._perform)
        self._log.info(self._connection.describe())
        self._tell_of_law()
        self._publish_parameters()

    def _open(self, node: Node, given: Mapping[str, Any]) -> None:
        """Create topics, timers and the service."""
        self._monitor = ControllerMonitor(
            node, self.session.tree.joint_names, given['monitor_decimation']
        )
        self._parameters = node.create_publisher(String, '~/parameters', LATCHED)
        self._diagnostics = node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self._watchdog = node.create_timer(_WATCH_PERIOD_S, self._watch, clock=STEADY)
        self._entities = [
            *self._connection.open(node, self._on_state),
            *self._monitor.publishers,
            *(self._parameters, self._diagnostics, self._watchdog),
            node.create_timer(given['diagnostics_period_s'], self._report, clock=STEADY),
            node.create_service(SetBool, '~/carry_payload', self._on_carry),
        ]

    def close(self) -> None:
        """Send the last command if that is due, and free everything."""
        self.finish()
        self.session.end()
        self._trajectories.destroy()
        destroy = {
            'Subscription': self._node.destroy_subscription,
            'Timer': self._node.destroy_timer,
            'Service': self._node.destroy_service,
        }
        for entity in self._entities:
            destroy.get(type(entity).__name__, self._node.destroy_publisher)(entity)

    # States and commands ------------------------------------------------------------------------

    def _on_state(self, msg: JointState) -> None:
        begin = time.perf_counter_ns()
        reader, session = self._connection.reader, self.session
        if not reader.read(msg):
            return
        stamp = stamp_to_ns(msg.header.stamp) or self._node.get_clock().now().nanoseconds
        effort = reader.effort_of(msg) if session.wants_effort else None
        if session.on_reading(stamp, begin, reader.q, reader.v, effort):
            self._connection.writer.publish(session.command)
            self._health.count(stamp, time.perf_counter_ns() - begin)
            session.settle()
            self._trajectories.publish_feedback()
            self._monitor.publish(session.loop, msg.header.stamp)
        if session.remarks:
            self._tell()

    def _watch(self) -> None:
        """Look at the age of the last state, and come back when it could be too old."""
        session, now = self.session, time.perf_counter_ns()
        if session.mode is SessionMode.ENDED:  # this call was waiting when it was closed
            return
        session.source = f'{self._connection.states.topic_name}{self._connection.absence()}'
        if session.watch(now):
            self._connection.writer.publish(session.command)
        self._tell()
        self._watchdog.timer_period_ns = session.patience_ns(now)
        self._watchdog.reset()

    def awaits(self, listeners: int) -> str:
        """Say what is missing for the activation; empty if nothing is.

        Args:
            listeners: How many subscribers every command needs.
        """
        self._watch()  # so that it says what is known
        if self.session.is_silent(time.perf_counter_ns()):
            return self.session.silence()
        heard = min(x.get_subscription_count() for x in self._connection.outputs)
        if heard < listeners:
            return f'{heard} of {listeners} subscribers of the command'
        return self._rivals()

    def activate(self) -> None:
        """Begin to control.

        Raises:
            ConfigurationError: There is no fresh state, or somebody else commands the same topic.
        """
        rivals = self._rivals()
        if rivals:
            raise ConfigurationError('not activated', rivals, 'end it, or set share_command_topic')
        self._watch()  # so that a refusal says what is known
        self.session.activate(time.perf_counter_ns())
        self._tell()

    def _rivals(self) -> str:
        shared = self._node.get_parameter('share_command_topic').value
        return '' if shared else self._connection.rivals(self._node)

    def finish(self) -> None:
        """Send a last safe command if the controller is active, and wait until it has arrived."""
        if self.session.deactivate():
            self._connection.writer.publish(self.session.command)
            self._tell()
            self._connection.writer.wait_until_delivered(_DELIVERY_TIMEOUT)

    # Changes ------------------------------------------------------------------------------------

    def check_change(self, changes: Mapping[str, Any]) -> None:
        """Prepare a change of parameters; errors as in ``ControllerSession.prepare``."""
        self._prepared.clear()
        change = ParameterChange(self.session, changes)
        self._prepare(change, change.slow)
        self._prepared['parameters'] = change

    def apply_change(self) -> None:
        """Let the change of parameters act that was prepared."""
        change = self._prepared.pop('parameters')
        self.session.commit(change)
        if change.slow:
            self._tell_of_law()
        self._monitor.decimation = self.session.given['monitor_decimation']
        self._watch()
        self._publish_parameters()

    def _on_carry(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        try:
            response.message = self._perform(PayloadChange(self.session, request.data), False)
            response.success = True
            self._log.info(response.message)
        except RobotDynamicsError as error:
            response.success, response.message = False, str(error)
        return response

    def _perform(self, change: SessionChange, slow: bool) -> str:
        """Let a change act; one that takes long is prepared beside the ticks."""
        self._prepare(change, slow)
        return self.session.commit(change)

    def _prepare(self, change: SessionChange, slow: bool) -> None:
        if not slow:
            self.session.prepare(change)
            return
        beside(lambda: self.session.prepare(change), self._take, self._watch, _WATCH_PERIOD_S)

    def _take(self) -> bool:
        """Answer a state that waits; return whether there was one."""
        taken = take_message(self._connection.states)
        if taken is not None:
            self._on_state(taken[0])
        return taken is not None

    # What is reported ---------------------------------------------------------------------------

    def _tell(self) -> None:
        """Pass on what the session remarks."""
        remarks = self.session.remarks
        while remarks:
            remark = remarks.popleft()
            if remark.level == 'error':  # rclpy wants a line of code for each
                self._log.error(remark.text)
            elif remark.level == 'warning':
                self._log.warning(remark.text)
            else:
                self._log.info(remark.text)
            if remark.status:
                self._trajectories.announce(remark.status)

    def _tell_of_law(self) -> None:
        for remark in self.session.loop.law.remarks():
            self._log.warning(remark)

    def _publish_parameters(self) -> None:
        given = {**self.session.given, 'robot_description': ''}  # that has a topic of its own
        self._parameters.publish(String(data=yaml.safe_dump(given)))

    def _report(self) -> None:
        session = self.session
        if session.mode is SessionMode.ENDED:
            return
        report = self._health.report(session)
        array = diagnostic_array(self._node, session.tree.name, report)
        self._diagnostics.publish(array)
