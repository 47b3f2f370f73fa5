# SPDX-License-Identifier: Apache-2.0
"""The arm of a simulator: its plant and driver, its states and commands in SI units."""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import Any

from rclpy.node import Node
from sensor_msgs.msg import JointState

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface, robot_and_driver
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.parameters import Values
from robot_dynamics_ros.ros.conversions import state_message
from robot_dynamics_ros.simulation.imperfections import with_imperfections, with_model_error
from robot_dynamics_ros.simulation.mujoco_plant import plant_from_parameters
from robot_dynamics_ros.simulation.plant import CommandBuffer, Plant
from robot_dynamics_ros.spatial.scalar import Array


class SimulatedArm:
    """An arm with a perfect driver: SI units, no delay, brakes until the first command.

    Attributes:
        settings: Parameters of the simulator by name; replaced when they change.
        tree: The robot as described.
        driver: Its driver: names, units and order of the joints in states and commands.
        plant: The plant, see :meth:`build`.
        has_own_clock: Whether states have the time of the node's clock; else simulated time.

    Args:
        node: The simulator, for logs, topics and services.
        settings: See above.
    """

    has_own_clock = False
    tree: Robot
    driver: DriverInterface
    plant: Plant

    def __init__(self, node: Node, settings: dict[str, Any]) -> None:
        self._node, self._log, self.settings = node, node.get_logger(), settings
        self._held = False

    def load(self, description: str) -> Robot:
        """Load robot and driver, by parameters or from the text of a description."""
        self.tree, self.driver = robot_and_driver(self.settings, description)
        return self.tree

    def build(self) -> Plant:
        """Build and return the plant."""
        settings = self.settings
        plant = plant_from_parameters(with_model_error(self.tree, settings), settings)
        imperfect = with_imperfections(plant, settings)
        self.plant = plant if imperfect.imperfections.perfect else imperfect
        return self.plant

    def message(self) -> JointState:
        """Return the message of a state, for :meth:`write` to fill in."""
        tree = self.tree
        message = state_message([*tree.joint_names, *tree.locked])
        message.position[tree.n :] = array.array('d', tree.locked.values())
        return message

    def open(self) -> None:
        """Create further topics and services."""

    def check(self, settings: Values) -> None:
        """Check new settings; raises ParameterError."""

    # Commands ------------------------------------------------------------------------------------

    def command(self, places: Sequence[int], efforts: Sequence[float]) -> Sequence[float]:
        """Return the efforts of a received command, N m or N, in the order of the command."""
        return efforts

    def admit(self, time: float) -> bool:
        """Return whether a command that answers a state acts; called at a simulated time, s."""
        if self._held:
            self._held = False
            self._log.info(f'first command at t = {time:.6f} s: released')
        return True

    def effort(self, command: Array) -> Array | None:
        """Return the efforts of the next step, shape (n,), N m or N; None: brakes hold the arm."""
        return None if self._held else command

    def miss_commands(self, buffer: CommandBuffer) -> str:
        """React to missing commands; return what happens, '' if it has already happened."""
        if not buffer.effort.any():
            return ''
        buffer.clear()
        return 'zero effort is applied'

    # States --------------------------------------------------------------------------------------

    def restart(self, *, lockstep: bool) -> None:
        """Begin at the initial state."""
        self._held = self.settings['hold_until_command'] and not lockstep
        if self._held:
            self._log.info('holding the arm until the first command')

    def write(self, position: Array, velocity: Array, effort: Array) -> None:
        """Write the present state into the arrays of a message; the joints come first."""
        n = self.tree.n
        self.plant.read(position[:n], velocity[:n])
        effort[:n] = self.plant.effort
