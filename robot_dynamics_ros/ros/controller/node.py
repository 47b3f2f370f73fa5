# SPDX-License-Identifier: Apache-2.0
"""Controller node: parameters and life cycle around a controller session without ROS."""

from __future__ import annotations

from functools import partial
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_msgs.msg import String

from robot_dynamics_ros.control.health import HealthReport
from robot_dynamics_ros.control.modes import SessionMode
from robot_dynamics_ros.control.parts import CONTROLLER
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.parameters import Values
from robot_dynamics_ros.ros.controller.running import RunningController
from robot_dynamics_ros.ros.controller.trajectory_action import TrajectoryAction
from robot_dynamics_ros.ros.node import (
    LATCHED,
    STEADY,
    declare,
    diagnostic_array,
    on_set_parameters,
    values,
)
from robot_dynamics_ros.ros.rclpy_compat import (
    Respond,
    destroy,
    entities,
    lifecycle_state,
    parameter_services,
    refuse_impossible_transitions,
    respond_later,
)
from robot_dynamics_ros.ros.spinning import apply_real_time, freeze_objects

_AUTOSTART_S = 0.02
_WAITING_FOR_CONFIGURE = 'waiting for the transition configure'
_WAITING_FOR_ACTIVATE = 'waiting for the transition activate'
_LOG_PERIOD_S = 5.0  # at which it is said what the node is waiting for


class Controller(LifecycleNode):
    """State-driven effort controller of one robot, a ROS interface of ``ControllerSession``.

    Subscribes to ``joint_states`` (best effort), ``~/joint_trajectory`` and ``robot_description``
    (latched). Serves ``~/carry_payload`` and, if control_msgs is installed, the action
    ``~/follow_joint_trajectory``. Publishes ``effort_controller/commands`` or
    ``<joint>/cmd_force`` (or the topics of the driver profile), then ``~/reference`` (position,
    velocity, and the command as effort), ``~/error``, the other topics of ``ControllerMonitor``,
    ``/diagnostics`` and, latched, ``~/trajectory_status`` and ``~/parameters``.

    Raises:
        RobotDynamicsError: ``autostart`` is set and a parameter or the description is invalid.
    """

    def __init__(self) -> None:
        super().__init__('controller')
        declare(self, CONTROLLER)
        self._run: RunningController | None = None
        self._topic_description, self._missing = '', _WAITING_FOR_CONFIGURE
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        period = self._value('diagnostics_period_s')
        self.create_timer(period, self._report, clock=STEADY)
        self.create_subscription(String, 'robot_description', self._on_description, LATCHED)
        on_set_parameters(self, self._check_change, self._apply_change)
        for service in parameter_services(self):
            respond_later(service, partial(self._set_parameters, service.callback))
        refuse_impossible_transitions(self)
        self._action: TrajectoryAction | None = None
        try:
            self._action = TrajectoryAction(self)
        except ImportError:
            self.get_logger().info(
                'control_msgs is not installed: no action ~/follow_joint_trajectory; '
                'the topic ~/joint_trajectory is available'
            )
        self._autostart = self.create_timer(_AUTOSTART_S, self._start_when_ready, clock=STEADY)
        if not self._value('autostart'):
            self._autostart.cancel()
        elif self._has_description():
            self._configure()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the model, build the session, create topics; on failure log the reason."""
        try:
            if self._run is None:
                self._configure()
                freeze_objects()  # now, because no state is read in the meantime
        except Exception as error:
            return self._refused('configured', error)
        self._missing = _WAITING_FOR_ACTIVATE
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start control at the measured state; fail if there is no fresh state."""
        assert self._run is not None  # configured
        self._missing = _WAITING_FOR_ACTIVATE
        try:
            self._run.activate()
        except Exception as error:
            return self._refused('activated', error)
        self._autostart.cancel()  # it activates only once
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Brake if the arm moves, send the stop action's effort, then stop commanding."""
        assert self._run is not None  # configured
        try:
            self._run.finish()
        except Exception as error:
            return self._refused('deactivated', error)
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Release model and topics."""
        self._release()
        self.get_logger().info('cleaned up')
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Send the stop action's effort if still active, and release everything."""
        self._release()
        self.get_logger().info('shut down')
        return super().on_shutdown(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Send the stop action's effort and return to the unconfigured state, with the reason."""
        self._release(self._missing)
        return TransitionCallbackReturn.SUCCESS

    def on_stop(self) -> None:
        """Brake and send the last safe command if still active; end the goal."""
        if self._run is not None:
            self._run.close()
        if self._action is not None:
            self._action.destroy()

    def _refused(self, what: str, error: Exception) -> TransitionCallbackReturn:
        """Tell why a transition fails, also by an unexpected error, which rclpy would not log."""
        expected = isinstance(error, RobotDynamicsError)
        text = str(error).removeprefix(f'not {what}: ')
        self._missing = text if expected else f'{type(error).__name__}: {text}'
        self.get_logger().error(f'not {what}: {self._missing}')
        if expected or self._run is None:
            return TransitionCallbackReturn.FAILURE
        return TransitionCallbackReturn.ERROR  # it may be partly active

    def _value(self, name: str) -> Any:
        return self.get_parameter(name).value

    def _on_description(self, msg: String) -> None:
        self._topic_description = msg.data

    def _has_description(self) -> bool:
        robot = self._value('robot') or self._value('robot_description')
        return bool(robot or self._topic_description)

    def _start_when_ready(self) -> None:
        """Configure and activate once, as soon as everything required is available."""
        if self._run is None and not self._has_description():
            self._log_missing('no robot: set robot, or publish robot_description')
            return
        if lifecycle_state(self) == 'unconfigured':
            self.trigger_configure()
        if self._run is None:
            self._autostart.cancel()
            return
        if missing := self._run.missing():
            self._log_missing(missing)
            return
        self.trigger_activate()
        if self._run is None or not self._run.missing():  # a refusal would be permanent
            self._autostart.cancel()

    def _log_missing(self, missing: str) -> None:
        """Log every few seconds what the node is waiting for."""
        self._missing, text = missing, f'not active yet: {missing}'
        self.get_logger().warning(text, throttle_duration_sec=_LOG_PERIOD_S, skip_first=True)

    def _report(self) -> None:
        """Publish the health of the controller, or what it is waiting for, on /diagnostics."""
        robot, report = '', HealthReport('warning', '', {})
        if self._run is not None:
            robot, report = self._run.session.tree.name, self._run.report()
        if self._run is None or self._run.session.mode is SessionMode.INACTIVE:
            report = HealthReport('warning', f'not active: {self._missing}', report.values)
        self._diagnostics.publish(diagnostic_array(self, robot, {'control loop': report}))

    def _configure(self) -> None:
        parameters = values(self, CONTROLLER)
        apply_real_time(
            parameters['thread_priority'], parameters['cpu_affinity'], parameters['lock_memory']
        )
        before = entities(self)
        try:
            self._run = RunningController(
                self, parameters, self._topic_description, self._report, self._action
            )
        finally:
            self._opened = entities(self, but=before)
            if self._run is None:
                destroy(self, self._opened)

    def _release(self, missing: str = _WAITING_FOR_CONFIGURE) -> None:
        self._autostart.cancel()  # it would undo a cleanup
        if self._run is not None:
            self._run.close()
            destroy(self, self._opened)  # not /clock, which rclpy may have subscribed to since
        self._run, self._missing = None, missing

    def _set_parameters(self, set_now: Any, request: Any, response: Any, respond: Respond) -> None:
        """Set parameters by a callback of rclpy, once those of the session are prepared."""
        if self._run is None:
            respond(set_now(request, response))
        else:
            self._run.parameters.set(set_now, request, response, respond)

    def _check_change(self, changes: Values) -> None:
        """Raise an error for a parameter change that cannot be applied."""
        if self._run is not None:
            self._run.parameters.check(changes)

    def _apply_change(self, _: Values) -> None:
        if self._run is not None:
            self._run.parameters.apply()
