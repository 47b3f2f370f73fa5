# SPDX-License-Identifier: Apache-2.0
"""Driver emulator: an arm with realistic drives and the topics, units and behaviour of a driver.

Unlike the simulator, which uses SI units and has no delays, a driver has its own units, signs and
joint order, encoders, delayed and lossy links, ripple and breakaway, and possibly its own gravity
compensation. Before the first command and after the last one, its own controller holds the arm,
as that of a real robot does. A driver profile defines this behaviour, so that every profile
can be tested without its arm. Lockstep and real time work as in the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from robot_dynamics_ros.control.drivers.conversion import bind, effort_limits
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.safety.stop_action import StopAction
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.robot_parameters import robot_from_parameters
from robot_dynamics_ros.ros.conversions import state_message
from robot_dynamics_ros.ros.node import serve
from robot_dynamics_ros.ros.node_parameters import EMULATOR
from robot_dynamics_ros.ros.simulator import COMMAND_QOS, Simulator
from robot_dynamics_ros.simulation.imperfections import emulated_plant
from robot_dynamics_ros.simulation.mujoco_plant import require_within_limits
from robot_dynamics_ros.simulation.plant import Plant
from robot_dynamics_ros.spatial.scalar import Array

_OWN_FREQUENCY = 30.0  # natural frequency of the driver's own controller, rad/s
_ROUNDING = 1e-9  # relative tolerance of the rate limit
_MAX_OVERLAY_ERROR = 0.1  # largest deviation of the overlaid positions from the arm, rad or m


class DriverEmulator(Simulator):
    """A simulated robot with the topics of a driver profile.

    Serves the services of the simulator and ``~/recover`` (after a reflex).

    Raises:
        RobotDynamicsError: A parameter, the profile or the description is invalid.
    """

    NAME = 'driver_emulator'
    PARAMETERS = EMULATOR

    # Building ------------------------------------------------------------------------------------

    def _read_parameters(self) -> dict[str, Any]:
        settings = super()._read_parameters()
        self._profile = load_driver_profile(settings['driver_profile'])
        return settings | {'joints': [''], 'period': 1.0 / self._profile.state.rate_hz}

    def _robot(self, description: str) -> RobotTree:
        return robot_from_parameters(self._settings, description, effort_limits(self._profile))

    def _make_plant(self, tree: RobotTree) -> Plant:
        profile = self._profile
        self._driver = bind(profile, tree)
        compensates, known = profile.compensated_by_driver, profile.payload_known_to_driver
        self._linked, self._driven = emulated_plant(tree, self._settings, compensates, known)
        self._q, self._v, self._own_anchor, self._own_effort = np.zeros((4, tree.n))
        self._last_command = np.full(tree.n, np.nan)
        self._reflex, self._own_holds = '', False
        self._own = StopAction('hold', tree, natural_frequency=_OWN_FREQUENCY)
        return self._linked

    def _robot_topics(self, tree: RobotTree) -> tuple[JointState, str, str, Sequence[str], Any]:
        profile, driver = self._profile, self._driver
        names = driver.command_names
        message = state_message(names, effort=profile.state.effort != 'none')
        if profile.state.velocity == 'differentiate':
            message.velocity = []
        form, commands = profile.command.form, driver.command_topics
        return message, profile.state.topic, form, commands, names

    def _create_topics(self, tree: RobotTree) -> None:
        super()._create_topics(tree)
        if self._profile.command.form == 'overlay':
            topic = self._profile.command.topic_of_positions
            self.create_subscription(Float64MultiArray, topic, self._on_overlaid, COMMAND_QOS)
        serve(self, Trigger, 'recover', self._on_recover)

    # Commands ------------------------------------------------------------------------------------

    def _on_command(self, places: Sequence[int], efforts: Sequence[float]) -> None:
        """Store a command, given in the driver's units and order."""
        driver = self._driver
        if len(efforts) == len(places):
            places, command = driver.order[places].tolist(), np.zeros(len(driver.order))
            command[places] = efforts
            efforts = driver.driven_effort(command)[places].tolist()
        super()._on_command(places, efforts)

    def _on_overlaid(self, message: Float64MultiArray) -> None:
        """Stop with a reflex if the positions sent with the efforts are far from the arm's."""
        self._driven.read(self._q, self._v)
        commanded = np.full(len(self._q), np.nan)
        if len(message.data) == len(commanded):
            commanded[self._driver.order] = message.data
        if not (np.abs(self._driver.position(commanded) - self._q) < _MAX_OVERLAY_ERROR).all():
            self._halt('the positions sent with the efforts are far from those of the arm')

    def _on_answer(self) -> None:
        if self._reflex:
            return
        if self._own_holds:
            self._own_holds = False
            self.get_logger().info('commands take over from the own controller')
        super()._on_answer()

    def _check_rate(self, command: Array) -> None:
        """Stop with a reflex if the command changes faster than the profile allows."""
        command = self._driver.motor_effort(command)
        change = np.abs(command - self._last_command)
        max_change = self._driver.rate_limit * self._linked.period
        too_fast = change > max_change * (1.0 + _ROUNDING)
        self._last_command[:] = command
        if too_fast.any():
            i = int(np.argmax(too_fast))
            self._halt(
                f'the command of {self._driver.names[i]} changed by {change[i]:.3g} in one '
                f'period, more than {max_change[i]:.3g}'
            )

    def _halt(self, reason: str) -> None:
        """Hold the arm until ``~/recover`` is called."""
        self._reflex = reason
        self.get_logger().error(f'reflex: {reason}; holding until ~/recover')
        self._hold_position()

    def _on_recover(self, _: Trigger.Request) -> tuple[bool, str]:
        reflex, self._reflex = self._reflex, ''
        return bool(reflex), f'was: {reflex}' if reflex else 'there was no reflex'

    # The driver's own controller -----------------------------------------------------------------

    def _hold_position(self) -> None:
        self._driven.read(self._q, self._v)
        self._own_anchor[:] = self._q
        self._own_holds = True
        self._last_command.fill(np.nan)

    def _effort(self) -> Array:
        if not self._own_holds and self._settings['rate_check']:
            self._check_rate(self._buffer.effort)
        if not self._own_holds:
            return self._buffer.effort
        q, v = self._q, self._v
        self._driven.read(q, v)
        goal = own_position(self._nominal_tree, self._settings)
        if goal is not None and not self._reflex:
            max_step = self._settings['own_speed'] * self._linked.period
            self._own_anchor += np.clip(goal - self._own_anchor, -max_step, max_step)
        self._own.begin(self._own_anchor)
        self._own.effort(q, v, True, self._own_effort)
        self._own_effort -= self._driven.compensation
        return self._own_effort

    def _drop_stale_command(self, now: float) -> None:
        if self._settings['own_controller'] == 'none':
            super()._drop_stale_command(now)
            return
        timeout = self._settings['command_timeout_s']
        if timeout and not self._own_holds and now - self._answered_at > timeout:
            self.get_logger().warning(
                f'{self._peers()}: no command for {timeout:g} s, the own controller holds'
            )
            self._hold_position()

    # States --------------------------------------------------------------------------------------

    def _begins_held(self) -> bool:
        return False  # by its own controller, not by brakes

    def _restart(self) -> None:
        super()._restart()
        if self._settings['own_controller'] == 'hold' and not self._lockstep:
            self._hold_position()

    def _publish_new_state(self) -> None:
        if not self._linked.stale or not self._run.time_ns:
            super()._publish_new_state()

    def _advance(self) -> None:
        super()._advance()
        while self._lockstep and self._linked.stale and not self._paused:
            super()._advance()  # a lost state cannot be answered

    def _write_state(self, now: int) -> int:
        driver, order = self._driver, self._driver.order
        position, velocity, effort = self._state.doubles
        self._run.plant.read(self._q, self._v)
        position[:] = driver.position_reading(self._q)[order]
        if velocity.size:
            velocity[:] = driver.velocity_reading(self._v)[order]
        if effort.size:
            total = self._driven.effort
            if self._profile.state.effort == 'without_compensation':
                total = total - self._driven.compensation
            effort[:] = driver.effort_reading(total)[order]
        return self._origin_ns + now + self._pace.lost * round(self._linked.period * 1e9)

    def _restart_wall_clock(self) -> None:
        super()._restart_wall_clock()
        self._origin_ns = 0
        if not self._lockstep:
            self._origin_ns = self.get_clock().now().nanoseconds - self._run.time_ns

    # Parameters ----------------------------------------------------------------------------------

    def _check_change(self, changes: Mapping[str, Any]) -> None:
        super()._check_change(changes)
        own_position(self._nominal_tree, {**self._settings, **changes})


def own_position(tree: RobotTree, settings: Mapping[str, Any]) -> Array | None:
    """Return the setpoint of the driver's own controller; None for the current position.

    Raises:
        ParameterError: A position is outside its limits.
    """
    value = np.array(settings['own_position'])
    if value.size == 1 < tree.n:
        return None
    require_within_limits(tree, 'own_position', value)
    return value
