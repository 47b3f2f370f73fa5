# SPDX-License-Identifier: Apache-2.0
"""Run a controller's session and a plant in lockstep, without ROS: one command per state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from robot_dynamics_ros.control.drivers.conversion import DriverConversion
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.description.shipped import share_directory
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.recording import NANO
from robot_dynamics_ros.simulation.plant import Plant
from robot_dynamics_ros.yaml_reader.parsing import read_yaml


@cache
def shipped_parameters(robot: str) -> dict[str, dict[str, Any]]:
    """Return the parameters of an arm's file by node; empty if it has none."""
    path = share_directory() / 'config' / f'{robot}.yaml'
    content = read_yaml(path, robot) if path.is_file() else {}
    return {node.rpartition('/')[2]: row['ros__parameters'] for node, row in content.items()}


class SessionOnPlant:
    """A session that reads a plant through its driver, and commands it.

    Attributes:
        session: The controller.
        plant: The commanded plant.
        q, v: The last state, shape (n,), rad or m and rad/s or m/s.
        effort: The last command to the driver, shape (n,), N m or N.
        now_ns: Time of the last state, ns.
        period_ns: Time between two states, ns.

    Args:
        plant: The plant, in its initial state.
        tree: The robot of the controller.
        parameters: Parameters of the controller.
        driver: Conversions of the driver; None: no driver.
        late_ns: Age of the timestamps at arrival, ns.
    """

    def __init__(
        self,
        plant: Plant,
        tree: RobotTree,
        parameters: Mapping[str, Any],
        driver: DriverConversion | None = None,
        late_ns: int = 0,
    ) -> None:
        self.session, self.plant = ControllerSession(tree, parameters, driver), plant
        self._driver, self._late_ns = driver, late_ns
        self.period_ns = round(plant.period * NANO)
        self.q, self.v, self.effort = (np.zeros(tree.n) for _ in range(3))
        self.now_ns = 0

    def activate(self) -> None:
        """Activate the session at the present state, which is not answered yet."""
        self.answer()
        self.session.activate(self.now_ns)

    def answer(self) -> None:
        """Let the session answer the current state."""
        self.plant.read(self.q, self.v)
        driver, now, x, y = self._driver, self.now_ns, self.q, self.v
        if driver is not None:
            x, y = driver.position_reading(x), driver.velocity_reading(y)
        if self.session.on_reading(now - self._late_ns, now, x, y):
            self._send()
            self.session.settle()

    def watch(self) -> None:
        """Start and repeat the stop action when states are missing for too long."""
        if self.session.watch(self.now_ns):
            self._send()

    def _send(self) -> None:
        self.effort = self.session.port.effort_of_command(self.session.command)

    def act(self) -> None:
        """Apply the last command for a period."""
        self.plant.step(self.effort)

    def run(self, steps: int) -> Iterator[int]:
        """Run steps, answering every state; yield the step number after each."""
        for k in range(steps):
            self.now_ns += self.period_ns
            self.answer()
            self.act()
            yield k

    def settle(self, seconds: float) -> None:
        """Run for a time, s."""
        for _ in self.run(round(seconds * NANO / self.period_ns)):
            pass
