# SPDX-License-Identifier: Apache-2.0
"""The controller node: one effort command for each joint state, around it the safe shell."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import yaml
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from robot_dynamics_ros.control.loop import ControlLoop, Observation
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.ros.background import beside
from robot_dynamics_ros.ros.controller import parameters as declared
from robot_dynamics_ros.ros.controller.diagnostics import ControllerDiagnostics
from robot_dynamics_ros.ros.controller.payload_service import PayloadService
from robot_dynamics_ros.ros.controller.publishers import ControllerMonitor
from robot_dynamics_ros.ros.controller.setup import ControllerSetup
from robot_dynamics_ros.ros.controller.trajectories import ControllerTrajectories
from robot_dynamics_ros.ros.conversions import stamp_to_ns
from robot_dynamics_ros.ros.parameters import declare, on_set_parameters, values
from robot_dynamics_ros.ros.spinning import spare_what_stays
from robot_dynamics_ros.ros.transitions import refuse_impossible_transitions

T = TypeVar('T')

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
STEADY = Clock(clock_type=ClockType.STEADY_TIME)
_STOP_PERIOD_S = 0.02
_AUTOSTART_PERIOD_S = 0.02
_DELIVERY_TIMEOUT = Duration(seconds=0.3)


class Controller(LifecycleNode):
    """State-driven effort control of one robot.

    Subscribes ``joint_states`` (best effort), ``~/joint_trajectory``, ``robot_description``
    (latched); serves the action ``~/follow_joint_trajectory`` where control_msgs is installed, and
    ``~/carry_payload``. Publishes ``effort_controller/commands`` or ``<joint>/cmd_force`` (or what
    the driver's profile says), then ``~/reference`` (position, velocity, and as effort the
    command), ``~/error``, what ``LawMonitor`` shows of the law, ``/diagnostics`` and, latched,
    ``~/trajectory_status`` and ``~/parameters``.

    Raises:
        RobotDynamicsError: ``autostart`` is set and a parameter or the description is refused.
    """

    def __init__(self) -> None:
        super().__init__('controller')
        declare(self, declared.CONTROLLER)
        self._loop: ControlLoop | None = None
        self._running = False
        self._stopped = False
        self._topic_description = ''
        self._entities: list[Any] = []
        self.create_subscription(String, 'robot_description', self._on_description, LATCHED)
        on_set_parameters(self, self._check_change, self._apply_change)
        refuse_impossible_transitions(self)
        if self._value('autostart'):
            if self._has_description():
                self._configure()
            self._autostart = self.create_timer(
                _AUTOSTART_PERIOD_S, self._start_when_ready, clock=STEADY
            )

    # Life cycle ---------------------------------------------------------------------------------

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the model, build the law, create topics; fail with the reason in the log."""
        try:
            if self._loop is None:
                self._configure()
        except RobotDynamicsError as error:
            self.get_logger().error(f'not configured: {error}')
            return TransitionCallbackReturn.FAILURE
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin at the measured state; fail if there is no fresh one."""
        assert self._loop is not None  # configured
        problem = self._not_ready()
        if problem:
            self.get_logger().error(f'not activated: {problem}')
            return TransitionCallbackReturn.FAILURE
        super().on_activate(state)
        self._loop.start()
        self._running, self._stopped = True, False
        self.get_logger().info(f'active: {self._loop.law.name}')
        return TransitionCallbackReturn.SUCCESS

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Send the stop action's effort, then fall silent."""
        self._send_last_command()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free model and topics."""
        self._release()
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Send the stop action's effort if still active, and free everything."""
        self._send_last_command()
        self._release()
        return super().on_shutdown(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Send the stop action's effort and return to the unconfigured state."""
        self._send_last_command()
        self._release()
        return TransitionCallbackReturn.SUCCESS

    def on_stop(self) -> None:
        """Send the last safe command before the process ends."""
        self._send_last_command()

    # The tick -----------------------------------------------------------------------------------

    def _on_state(self, msg: JointState) -> None:
        begin = time.perf_counter_ns()
        reader, loop = self._reader, self._loop
        if loop is None or not reader.read(msg):
            return
        stamp = stamp_to_ns(msg.header.stamp) or self.get_clock().now().nanoseconds
        self._connection.differentiate(stamp)
        moving = loop.moving
        observation = loop.observe(stamp, reader.q, reader.v)
        if observation is Observation.REFUSED:
            return
        if observation is Observation.REPEATED and not self._simulated:
            return
        self._arrival_ns, self._fresh = begin, True
        if self._stopped or not self._running:
            loop.note_measured_effort(self._connection.motor_effort(msg, self._setup.built.share))
        if not self._running or observation is Observation.REPEATED:
            return
        if self._stopped:
            self._recover()
        elif moving and not loop.moving:
            self._begun_anew()
        loop.tick()
        self._connection.writer.publish(loop.effort)
        self._diagnostics.count(stamp, time.perf_counter_ns() - begin)
        if self._trajectories.action is not None:
            self._trajectories.action.tick()
        self._monitor.publish(loop, msg.header.stamp)

    # Stop and recovery --------------------------------------------------------------------------

    def _watch(self) -> None:
        """Look at the age of the last state, and come back when it could be too old."""
        timeout = int(self._loop.settings.state_timeout_s * 1e9)
        left = timeout - (time.perf_counter_ns() - self._arrival_ns)
        if left <= 0:
            self._on_silence()
        self._watchdog.timer_period_ns = left if left > 0 else timeout
        self._watchdog.reset()

    def _on_silence(self) -> None:
        """Act when no fresh state has come for ``state_timeout_s``; called until one comes."""
        self._fresh = False
        if not self._running:
            return
        if not self._stopped:
            self._stopped = True
            self._stop_timer.reset()
            self._diagnostics.timeouts += 1
            problem = self._silence()
            self.get_logger().error(f'{problem}: stop action {self._loop.settings.stop_action}')
            self._trajectories.abort_goal(problem)
        self._keep_stopping()

    def _keep_stopping(self) -> None:
        if self._running and self._stopped:
            self._loop.stop()
            self._connection.writer.publish(self._loop.effort)
        else:
            self._stop_timer.cancel()

    def _recover(self) -> None:
        self._stopped = False
        self._stop_timer.cancel()
        self._loop.start()
        self._trajectories.announce('held: states returned after a timeout')
        self.get_logger().warning('fresh states again: holding where the arm is')

    def _begun_anew(self) -> None:
        """Tell that a motion ended with a gap or a jump of time between two states."""
        self._trajectories.announce('held: the time of the states jumped')
        self.get_logger().warning('the time of the states jumped: holding where the arm is')

    def _silence(self) -> str:
        """Say that there is no fresh state, and why."""
        return (
            f'no fresh state on {self._connection.states.topic_name} within '
            f'{self._loop.settings.state_timeout_s:g} s{self._silence_reason()}'
        )

    def _silence_reason(self) -> str:
        """Say what is known of why there is no state."""
        unseen, refused = self._reader.unseen(), self._loop.last_refusal
        if unseen:
            return f' (never seen: {", ".join(unseen)})'
        if self._reader.missing_velocity:
            return f' (no velocity for {", ".join(self._reader.missing_velocity)})'
        return f' (last one refused: {refused})' if refused else ''

    def _send_last_command(self) -> None:
        if not self._running:
            return
        self._running = False
        self._loop.stop(final=True)
        self._connection.writer.publish(self._loop.effort)
        self._trajectories.abort_goal('the controller was deactivated')
        self._connection.writer.wait_until_delivered(_DELIVERY_TIMEOUT)

    # Configuration ------------------------------------------------------------------------------

    def _value(self, name: str) -> Any:
        return self.get_parameter(name).value

    def _on_description(self, msg: String) -> None:
        self._topic_description = msg.data

    def _has_description(self) -> bool:
        return bool(
            self._value('robot') or self._value('robot_description') or self._topic_description
        )

    def _start_when_ready(self) -> None:
        """Configure and activate as soon as possible, once."""
        unconfigured = self._loop is None
        if unconfigured and not self._has_description():
            return
        if self._state_machine.current_state[1] == 'unconfigured':
            self.trigger_configure()
        if self._loop is None:
            self._autostart.cancel()
        elif not self._not_ready() and self._heard():
            self._autostart.cancel()
            self.trigger_activate()

    def _heard(self) -> bool:
        """Return whether enough subscribers are matched to the command."""
        wanted = self._value('command_listeners')
        outputs = self._connection.outputs
        return all(output.get_subscription_count() >= wanted for output in outputs)

    def _not_ready(self) -> str:
        """Say why the node cannot be activated now; empty if it can."""
        return '' if self._fresh else self._silence()

    def _configure(self) -> None:
        given = self._given()
        self._setup = setup = ControllerSetup(given, self._topic_description)
        self._connection, loop = setup.connection, setup.built.loop
        self._payload = PayloadService(self, loop, setup.built.load, self._given)
        self._create_topics(setup.driven(given))
        self._trajectories = ControllerTrajectories(
            self,
            loop,
            lambda: self._running,
            self._not_ready,
            lambda: values(self, declared.ACTION),
            self._beside,
        )
        self._loop = loop
        self.get_logger().info(self._connection.describe())
        self._tell_remarks()
        self._publish_parameters()
        spare_what_stays()

    def _given(self) -> dict[str, Any]:
        return values(self, declared.CONTROLLER)

    def _check_change(self, changes: Mapping[str, Any]) -> None:
        """Refuse a change of parameters that could not be applied."""
        if self._loop is None:
            return
        merged = self._given() | dict(changes)
        if self._running and changes.keys() & declared.LAW_CHANGES:
            # A program takes a second to be examined and compiled: the arm stays driven.
            work = partial(self._setup.check, merged, changes)
            self._beside(work)
        else:
            self._setup.check(merged, changes)
        if changes.keys() & declared.PAYLOAD_CHANGES:
            self._payload.check(merged)

    def _beside(self, work: Callable[[], T]) -> T:
        """Do what takes long while states go on being answered."""
        return beside(work, self._take_state, self._watch, _STOP_PERIOD_S)

    def _take_state(self) -> bool:
        """Answer a state that waits; return whether there was one."""
        states = self._connection.states
        with states.handle:
            taken = states.handle.take_message(states.msg_type, states.raw)
        if taken is not None:
            self._on_state(taken[0])
        return taken is not None

    def _tell_remarks(self) -> None:
        for remark in self._loop.law.remarks():
            self.get_logger().warning(remark)

    def _apply_change(self, changes: Mapping[str, Any]) -> None:
        if self._loop is None:
            return
        given = self._given()
        self._setup.apply(given, changes)
        if changes.keys() & declared.LAW_CHANGES:
            self._tell_remarks()
        if changes.keys() & declared.PAYLOAD_CHANGES:
            self._payload.update()
        self._monitor.decimation = given['monitor_decimation']
        if 'state_timeout_s' in changes:
            self._watch()
        self._publish_parameters()

    def _publish_parameters(self) -> None:
        given = self._given()
        given['robot_description'] = ''  # it has a topic of its own
        self._parameters_publisher.publish(String(data=yaml.safe_dump(given)))

    def _create_topics(self, given: Mapping[str, Any]) -> None:
        names = self._setup.tree.joint_names
        self._reader = self._connection.reader
        self._simulated = bool(self._value('use_sim_time'))
        self._fresh, self._arrival_ns = False, 0
        keep = self._entities
        keep += self._connection.open(self, self._on_state)
        self._monitor = ControllerMonitor(self, names, given['monitor_decimation'])
        self._parameters_publisher = self.create_publisher(String, '~/parameters', LATCHED)
        diagnostics_publisher = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self._diagnostics = ControllerDiagnostics(
            self.get_fully_qualified_name(), diagnostics_publisher, self.get_clock()
        )
        self._watchdog = self.create_timer(given['state_timeout_s'], self._watch, clock=STEADY)
        self._stop_timer = self.create_timer(_STOP_PERIOD_S, self._keep_stopping, clock=STEADY)
        self._stop_timer.cancel()
        reporter = self.create_timer(given['diagnostics_period_s'], self._report, clock=STEADY)
        keep += [self._watchdog, self._stop_timer, reporter, self._payload.service]
        keep += self._monitor.publishers
        keep += [self._parameters_publisher, diagnostics_publisher]

    def _report(self) -> None:
        self._diagnostics.publish(self._loop, self._running, self._stopped)

    def _release(self) -> None:
        if self._loop is not None:
            self._trajectories.destroy()
        destroy = {
            'Subscription': self.destroy_subscription,
            'Timer': self.destroy_timer,
            'Service': self.destroy_service,
        }
        for entity in self._entities:
            destroy.get(type(entity).__name__, self.destroy_publisher)(entity)
        self._entities.clear()
        self._loop, self._fresh = None, False
