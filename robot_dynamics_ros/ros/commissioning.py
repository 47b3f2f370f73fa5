# SPDX-License-Identifier: Apache-2.0
"""A passive node that records states, and optionally commands, of a driver in its own units."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np
from sensor_msgs.msg import JointState

from robot_dynamics_ros.control.drivers.conversion import DriverConversion
from robot_dynamics_ros.errors import PeerTimeoutError
from robot_dynamics_ros.messages import NANO, stamp_ns
from robot_dynamics_ros.ros.conversions import (
    JointStateReader,
    subscribe_commands,
)
from robot_dynamics_ros.ros.node import PASSIVE, STEADY, PackageNode
from robot_dynamics_ros.ros.spinning import run
from robot_dynamics_ros.spatial.scalar import Array

_PROGRESS_PERIOD_S = 1.0
_TIMEOUT_S = 10.0

Columns = tuple[Array, Array, Array, Array]


class StateCollector(PackageNode):
    """Collects states for a given time.

    Attributes:
        finished: Completes after this time, or with an error if no state arrives.

    Args:
        driver, seconds, commands: See :func:`collect_states`.
        rows: Receives times (s), positions, velocities and efforts, in the units and signs of the
            driver and the order of the model.
    """

    def __init__(
        self, driver: DriverConversion, seconds: float, commands: bool, rows: list[Columns]
    ) -> None:
        super().__init__('commissioning')
        self._rows = rows
        n = len(driver.names)
        self._driver, self._seconds, self._use_commands = driver, seconds, commands
        velocity = driver.profile.state.velocity == 'message'
        self._reader = JointStateReader(driver.names, velocity=velocity)
        self._command = np.full(n, np.nan)
        self._started_at, self._first_ns, self._last_ns = time.monotonic(), 0, -1
        self.create_subscription(JointState, driver.profile.state.topic, self._on_state, PASSIVE)
        if commands:
            self._subscribe_commands()
        self.create_timer(_PROGRESS_PERIOD_S, self._check_progress, clock=STEADY)

    def _subscribe_commands(self) -> None:
        form, topics = self._driver.profile.command.form, self._driver.command_topics
        subscribe_commands(self, form, topics, self._on_command, self._on_joint, PASSIVE)

    def _on_command(self, command: Sequence[float], _: Sequence[str]) -> None:
        if len(command) == len(self._command):
            self._command[self._driver.order] = command

    def _on_joint(self, index: int, command: float) -> None:
        self._command[self._driver.order[index]] = command

    def _on_state(self, msg: JointState) -> None:
        if not self._reader.read(msg):
            return
        stamp = stamp_ns(msg) or self.get_clock().now().nanoseconds
        if stamp <= self._last_ns:
            return
        self._first_ns = self._first_ns or stamp
        self._last_ns = stamp
        effort = self._command.copy() if self._use_commands else self._reader.effort_of(msg.effort)
        x, y = self._reader.q.copy(), self._reader.v.copy()
        self._rows.append((np.array([(stamp - self._first_ns) / NANO]), x, y, effort))

    def _check_progress(self) -> None:
        elapsed = time.monotonic() - self._started_at
        if not self._rows and elapsed > _TIMEOUT_S:
            missing = ', '.join(self._reader.missing_joints()) or 'all joints at once'
            topic = self._driver.profile.state.topic
            self._end(error=PeerTimeoutError(topic, f'state of {missing}', elapsed))
        elif elapsed > self._seconds:
            self._end()
        else:
            left = self._seconds - elapsed
            print(f'{len(self._rows)} states, {left:.0f} s left', file=sys.stderr, flush=True)


def collect_states(
    driver: DriverConversion, seconds: float, *, commands: bool, args: list[str]
) -> Columns | int:
    """Collect the states of a driver.

    Args:
        driver: The driver profile bound to the robot.
        seconds: Duration, s.
        commands: Whether efforts are taken from the commands instead of the states.
        args: Arguments of rclpy.

    Returns:
        Times (N,), s; positions, velocities and efforts (N, n) in the units and signs of the
        driver, NaN if missing; or the exit code on failure.
    """
    rows: list[Columns] = []
    code = run(lambda: StateCollector(driver, seconds, commands, rows), args)
    if code or not rows:
        return code or 1
    time_, x, y, effort = (np.array(column) for column in zip(*rows, strict=True))
    return time_[:, 0], x, y, effort
