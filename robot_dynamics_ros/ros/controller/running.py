# SPDX-License-Identifier: Apache-2.0
"""A configured controller: its session with the topics, services and timers of a node."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Any

from rclpy.duration import Duration
from rclpy.node import Node

from robot_dynamics_ros.control.changes import LockedJointModel, with_locked
from robot_dynamics_ros.control.drivers.conversion import effort_limits
from robot_dynamics_ros.control.health import HealthReport, SessionHealth
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model.load import measured_joints, robot_from_parameters
from robot_dynamics_ros.ros.controller.changes import WATCH_PERIOD_S, SessionChanges
from robot_dynamics_ros.ros.controller.parameter_changes import (
    ConstraintParameters,
    ParameterChanges,
)
from robot_dynamics_ros.ros.controller.trajectories import ControllerTrajectories
from robot_dynamics_ros.ros.controller_topics import (
    ContactMonitor,
    ControllerMonitor,
    subscribe_streams,
)
from robot_dynamics_ros.ros.conversions import JointStateReader
from robot_dynamics_ros.ros.driver_connection import (
    DriverConnection,
    bound,
    profile_from_parameters,
)
from robot_dynamics_ros.ros.node import STEADY
from robot_dynamics_ros.ros.rclpy_compat import destroy, take_message

_LONGEST = 200  # characters of a parameter in the log
_DELIVERY_TIMEOUT = Duration(seconds=0.3)


class RunningController:
    """The parts of a controller node that exist only while it is configured.

    Args:
        node: The controller.
        parameters: Its parameters.
        description: URDF text from the topic; used if the parameters name no robot.
        constraints: Aliases of some parameters.
        tell_health: Publishes the health immediately.

    Attributes:
        session: The controller session.
        parameters: Applies parameter changes.

    Raises:
        RobotDynamicsError: A parameter or the description is invalid.
    """

    def __init__(
        self,
        node: Node,
        parameters: Mapping[str, Any],
        description: str,
        constraints: ConstraintParameters,
        tell_health: Callable[[], None],
    ) -> None:
        profile = profile_from_parameters(parameters)
        limits = None if profile is None else effort_limits(profile)
        tree = robot_from_parameters(parameters, description, limits)
        simulated, driver = node.get_parameter('use_sim_time').value, bound(profile, tree)
        constraints.configure(parameters, tree.joint_names)
        parameters = {**parameters, **constraints.own}
        session = ControllerSession(tree, parameters, driver, simulated_time=simulated)
        self.session, self._node, self._log = session, node, node.get_logger()
        self._connection = DriverConnection(session.port, parameters['command_form'])
        self._states = self._connection.serialized
        self._tell_health, self._health = tell_health, SessionHealth()
        self._changes = changes = SessionChanges(node, session, self._take, self._watch)
        self._locked = JointStateReader(session.locked.names, velocity=False)
        self._model = LockedJointModel(
            session,
            lambda at: robot_from_parameters(with_locked(parameters, at), description, limits),
            measured_joints(parameters),
            changes.perform,
        )
        self.parameters = ParameterChanges(node, changes, constraints)
        self._open(node, parameters)
        self._trajectories = ControllerTrajectories(node, session, changes)
        changes.announce = self._trajectories.announce
        self._log.info(f'{tree.name} under {session.loop.law.name}: {self._connection.describe()}')
        for name, value in session.parameters.items():
            self._log.debug(f'{name}: {str(value)[:_LONGEST]}')
        changes.tell_of_law()
        self.parameters.publish()

    def _open(self, node: Node, parameters: Mapping[str, Any]) -> None:
        """Create topics and timers."""
        self._monitor = ControllerMonitor(
            node, self.session.tree.joint_names, parameters['monitor_decimation']
        )
        self._contact = ContactMonitor(node, self.session)
        self._heard = [*self._monitor.heard, *self._contact.heard]
        self._next_heard = cycle(self._heard)
        self._watchdog = node.create_timer(WATCH_PERIOD_S, self._on_timer, clock=STEADY)
        self._entities = [
            *self._connection.open(node, self._on_state),
            *(one.publisher for one in self._heard),
            *subscribe_streams(node, self.session, self._changes.perform),
            *(self.parameters.publisher, self._watchdog, *self._changes.services),
        ]

    def close(self) -> None:
        """Send the last command if the controller is active, and release everything."""
        self.finish()
        self.session.end()
        self._trajectories.destroy()
        destroy(self._node, self._entities)

    @property
    def states(self) -> Any:
        """The subscription of the states."""
        return self._connection.states

    # States and commands -------------------------------------------------------------------------

    def _on_state(self, content: bytes) -> None:
        begin = time.perf_counter_ns()
        states, reader, session = self._states, self._connection.reader, self.session
        if not states.read(content):
            self._look_at_locked()
            return
        stamp = states.stamp_ns or self._node.get_clock().now().nanoseconds
        effort = states.effort() if session.wants_effort else None
        if session.on_reading(stamp, begin, reader.q, reader.v, effort):
            self._connection.writer.publish(session.command)
            self._health.count(stamp, time.perf_counter_ns() - begin)
            session.settle()
            self._trajectories.publish_feedback()
            next(self._next_heard).look()
            self._monitor.publish(session.loop, states.stamp_ns)
            self._contact.publish(states.stamp_ns)
        elif session.repeats > 1:
            self._repeat_answer()
        self._look_at_locked()
        if session.remarks:
            self._changes.tell()

    def _look_at_locked(self) -> None:
        """Check the positions of the locked joints and react immediately."""
        if self._locked.joints:
            self._states.positions_of_others(self._locked)
            if self.session.on_locked(self._locked.q):
                self._connection.writer.publish(self.session.command)
        if self._model.has_news():
            self._changes.tell()
            self._tell_health()

    def _repeat_answer(self) -> None:
        """Repeat the answer to a repeated state if a new subscriber has missed it."""
        if self.session.controls and self._connection.has_new_listener():
            self._connection.writer.publish(self.session.command)
            self._look_for_listeners()
            self._monitor.publish(self.session.loop, self._states.stamp_ns)

    def _look_for_listeners(self) -> None:
        """Update all subscriber counts; each tick updates only one of them."""
        for one in self._heard:
            one.look()

    def _on_timer(self) -> None:
        """Check the age of the states, and update the model."""
        self._watch()
        if text := self._model.follow(time.perf_counter_ns()):
            self._log.warning(text)
            self.parameters.publish()
            self._tell_health()

    def _watch(self) -> None:
        """Check the age of the last state; schedule the next check for its timeout."""
        self._look_for_listeners()
        session, now = self.session, time.perf_counter_ns()
        if session.mode is SessionMode.ENDED:  # this call was pending when the session was closed
            return
        session.source = f'{self._connection.states.topic_name}{self._connection.absence()}'
        if session.watch(now):
            self._connection.writer.publish(session.command)
        self._changes.tell()
        self._watchdog.timer_period_ns = session.patience_ns(now)
        self._watchdog.reset()

    def awaits(self) -> str:
        """Return what is missing for the activation; empty if nothing is."""
        self._watch()  # update the message
        if self.session.is_silent(time.perf_counter_ns()):
            return self.session.silence()
        awaited = self._node.get_parameter('await_listeners').value
        unheard = self._connection.unheard(self._node, [name for name in awaited if name])
        return unheard or self._model.missing() or self._rivals()

    def activate(self) -> None:
        """Start control.

        Raises:
            ConfigurationError: There is no fresh state, or another node publishes commands.
        """
        if rivals := self._rivals():
            raise ConfigurationError('not activated', rivals, 'end it, or set share_command_topic')
        self._watch()  # update the message of a refusal
        self._model.before_activation()
        self.parameters.publish()
        self.session.activate(time.perf_counter_ns())
        self._connection.has_new_listener()
        self._changes.tell()

    def _rivals(self) -> str:
        shared = self._node.get_parameter('share_command_topic').value
        return '' if shared else self._connection.rivals(self._node)

    def finish(self) -> None:
        """Send a last safe command if the controller is active, and wait for its delivery."""
        if self.session.deactivate():
            self._connection.writer.publish(self.session.command)
            self._changes.tell()
            self._connection.writer.wait_until_delivered(_DELIVERY_TIMEOUT)

    def apply_change(self, changes: Mapping[str, Any]) -> None:
        """Apply the parameter change that was checked."""
        self.parameters.apply(changes)
        self._monitor.decimation = self.session.parameters['monitor_decimation']
        self._watch()
        self.parameters.publish()

    def _take(self) -> bool:
        """Answer a pending state; return whether there was one."""
        taken = take_message(self._connection.states)
        if taken is not None:
            self._on_state(taken[0])
        return taken is not None

    def report(self) -> HealthReport:
        """Return the health since the last call."""
        report = self._health.report(self.session)
        report.values['states_read_as_messages'] = self._states.as_messages
        report.values['states_unreadable'] = self._states.unreadable
        self._log.debug(f'{report.message}; {report.values}')
        return report
