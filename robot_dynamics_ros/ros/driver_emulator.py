# SPDX-License-Identifier: Apache-2.0
"""Driver emulator: an arm with realistic drives and the topics, units and behaviour of a driver.

Unlike the simulator, which uses SI units and has no delays, a driver has its own units, signs and
joint order, encoders, delayed and lossy links, ripple and breakaway, and possibly its own gravity
compensation. Before the first command and after the last one, its own controller holds the arm,
as that of a real robot does. A driver profile defines this behaviour, so that every profile
can be tested without its arm. Lockstep and real time work as in the simulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.laws.stop_laws import HoldPosition, StopSettings
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.parameters import Values
from robot_dynamics_ros.ros.conversions import state_message
from robot_dynamics_ros.ros.node import serve
from robot_dynamics_ros.ros.node_parameters import EMULATOR
from robot_dynamics_ros.ros.simulated_arm import SimulatedArm
from robot_dynamics_ros.ros.simulator import COMMAND_QOS, Simulator
from robot_dynamics_ros.simulation.imperfections import emulated_plant
from robot_dynamics_ros.simulation.mujoco_plant import require_within_limits
from robot_dynamics_ros.simulation.plant import CommandBuffer, Plant
from robot_dynamics_ros.spatial.scalar import Array

_STIFF = StopSettings(frequency=30.0)  # of the driver's own controller, rad/s
_ROUNDING = 1e-9  # relative tolerance of the rate limit
_MAX_OVERLAY_ERROR = 0.1  # largest deviation of the overlaid positions from the arm, rad or m


class EmulatedArm(SimulatedArm):
    """An arm behind the driver of a profile, with the driver's own controller and reflexes.

    Serves ``~/recover`` (after a reflex).
    """

    has_own_clock = True

    def __init__(self, node: Node, settings: dict[str, Any]) -> None:
        super().__init__(node, settings)
        self._reflex, self._own_holds, self._is_commanded = '', False, False

    def build(self) -> Plant:
        """Build the plant, with the driver's compensation, drives and link."""
        profile, tree = self.driver.profile, self.tree
        compensates, known = profile.compensated_by_driver, profile.payload_known_to_driver
        self.plant, self._driven = emulated_plant(tree, self.settings, compensates, known)
        self._q, self._v, self._own_anchor, self._own_effort = np.zeros((4, tree.n))
        self._last_command = np.full(tree.n, np.nan)
        self._own, self._unused = HoldPosition(tree, None, _STIFF), Reference(tree.n)
        return self.plant

    def message(self) -> JointState:
        """Return the message of a state, with what the driver reports."""
        driver, report = self.driver, self.driver.profile.state
        message = state_message(driver.command_names, effort=report.effort != 'none')
        if driver.differentiates:
            message.velocity = []
        return message

    def open(self) -> None:
        """Subscribe to the positions of a profile that sends them; serve ``~/recover``."""
        if topic := self.driver.profile.command.topic_of_positions:
            self._node.create_subscription(
                Float64MultiArray, topic, self._on_overlaid, COMMAND_QOS
            )
        serve(self._node, Trigger, 'recover', self._on_recover)

    def check(self, settings: Values) -> None:
        """Check the setpoint of the driver's own controller."""
        own_position(self.tree, settings)

    # Commands ------------------------------------------------------------------------------------

    def command(self, places: Sequence[int], efforts: Sequence[float]) -> Sequence[float]:
        """Convert a command from the driver's units."""
        if len(efforts) != len(places):
            return efforts
        driver, command = self.driver, np.zeros(self.tree.n)
        joints = driver.order[places]
        command[joints] = efforts
        return driver.driven_effort(command)[joints].tolist()

    def _on_overlaid(self, message: Float64MultiArray) -> None:
        """Stop with a reflex if the positions sent with the efforts are far from the arm's."""
        self._driven.read(self._q, self._v)
        commanded = np.full(len(self._q), np.nan)
        if len(message.data) == len(commanded):
            commanded[self.driver.order] = message.data
        if not (np.abs(self.driver.position(commanded) - self._q) < _MAX_OVERLAY_ERROR).all():
            self._halt('the positions sent with the efforts are far from those of the arm')

    def admit(self, time: float) -> bool:
        """Let commands take over from the driver's own controller, unless there was a reflex."""
        if self._reflex:
            return False
        if self._own_holds:
            self._own_holds = False
            self._log.info('commands take over from the own controller')
        self._is_commanded = True
        return True

    def _check_rate(self, command: Array) -> None:
        """Stop with a reflex if the command changes faster than the profile allows."""
        command = self.driver.motor_effort(command)
        change = np.abs(command - self._last_command)
        max_change = self.driver.rate_limit * self.plant.period
        too_fast = change > max_change * (1.0 + _ROUNDING)
        self._last_command[:] = command
        if too_fast.any() and self._is_commanded:  # else zero acts, which nobody commanded
            i = int(np.argmax(too_fast))
            self._halt(
                f'the command of {self.driver.names[i]} changed by {change[i]:.3g} in one '
                f'period, more than {max_change[i]:.3g}'
            )

    def _halt(self, reason: str) -> None:
        """Hold the arm until ``~/recover`` is called."""
        self._reflex = reason
        self._log.error(f'reflex: {reason}; holding until ~/recover')
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

    def effort(self, command: Array) -> Array:
        """Return the command, or the effort of the driver's own controller, N m or N."""
        if not self._own_holds and self.settings['rate_check']:
            self._check_rate(command)
        self._is_commanded = False
        if not self._own_holds:
            return command
        q, v = self._q, self._v
        self._driven.read(q, v)
        goal = own_position(self.tree, self.settings)
        if goal is not None and not self._reflex:
            max_step = self.settings['own_speed'] * self.plant.period
            self._own_anchor += np.clip(goal - self._own_anchor, -max_step, max_step)
        self._own.hold_at(self._own_anchor)
        self._own.effort(0.0, q, v, self._unused, self._own_effort)
        self._own_effort -= self._driven.compensation
        return self._own_effort

    def miss_commands(self, buffer: CommandBuffer) -> str:
        """Let the driver's own controller hold the arm."""
        if self.settings['own_controller'] == 'none':
            return super().miss_commands(buffer)
        if self._own_holds:
            return ''
        self._hold_position()
        return 'the own controller holds'

    # States --------------------------------------------------------------------------------------

    def restart(self, *, lockstep: bool) -> None:
        """Begin at the initial state, held by the driver's own controller, not by brakes."""
        self._last_command.fill(np.nan)
        if self._reflex or (self.settings['own_controller'] == 'hold' and not lockstep):
            self._hold_position()

    def write(self, position: Array, velocity: Array, effort: Array) -> None:
        """Write the present state in the driver's units and order."""
        driver, order = self.driver, self.driver.order
        self.plant.read(self._q, self._v)
        position[:] = driver.position_reading(self._q)[order]
        if velocity.size:
            velocity[:] = driver.velocity_reading(self._v)[order]
        if effort.size:
            total = self._driven.effort
            if driver.reports_less:
                total = total - self._driven.compensation
            effort[:] = driver.effort_reading(total)[order]


class DriverEmulator(Simulator):
    """A simulator whose arm has the topics and the behaviour of a driver profile.

    Raises:
        RobotDynamicsError: A parameter, the profile or the description is invalid.
    """

    NAME = 'driver_emulator'
    PARAMETERS = EMULATOR
    ARM = EmulatedArm

    def _read_parameters(self) -> dict[str, Any]:
        settings = super()._read_parameters()
        rate = load_driver_profile(settings['driver_profile']).state.rate_hz
        return settings | {'period': 1.0 / rate}


def own_position(tree: Robot, settings: Values) -> Array | None:
    """Return the setpoint of the driver's own controller; None for the current position.

    Raises:
        ParameterError: A position is outside its limits.
    """
    value = np.array(settings['own_position'])
    if value.size == 1:
        return None
    require_within_limits(tree, 'own_position', value)
    return value
