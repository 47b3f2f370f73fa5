# SPDX-License-Identifier: Apache-2.0
"""The controller's end of a driver: topics, units, velocities, and what its profile decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions, QoSPolicyKind
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray

from robot_dynamics_ros.control.drivers.compensation import DriverCompensation
from robot_dynamics_ros.control.drivers.conversion import DriverConversion, bind
from robot_dynamics_ros.control.drivers.file import load_driver_profile
from robot_dynamics_ros.control.drivers.profile import CommandProfile, DriverProfile
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.estimation.filtered_derivative import FilteredDerivative
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.ros.conversions import NANO, EffortWriter, JointStateReader
from robot_dynamics_ros.spatial.scalar import Array

#: Only the newest effort is kept for a driver; more are for a recorder, which loses none then.
_COMMAND_DEPTH = 1
STATE_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
_MESSAGES = {'group': Float64MultiArray, 'per_joint': Float64, 'joint_state': JointState}


def profile_from_parameters(given: Mapping[str, Any]) -> DriverProfile | None:
    """Return the profile that the parameter ``driver_profile`` names; None if it is empty.

    Raises:
        ConfigurationError: It does not exist, or is refused.
    """
    return load_driver_profile(given['driver_profile']) if given['driver_profile'] else None


class DriverConnection:
    """Where states come from and efforts go.

    Args:
        tree: The robot.
        given: The parameters ``joints`` and ``command_form``, for a driver without a profile.
        driver: Its profile in numbers, or None.

    Attributes:
        reader: Takes over the states.
        writer: Sends the efforts, once the topics are open.
        states: The subscription of the states, once the topics are open.
        outputs: The publishers of the efforts, likewise.
        state_topic: Name of the topic of the states.
        command_topics: Names of the topics of the efforts.
        command_kind: Their message type.

    Raises:
        ParameterError: The order of the joints is incomplete.
    """

    writer: EffortWriter
    states: Any
    outputs: list[Any]

    def __init__(
        self, tree: RobotTree, given: Mapping[str, Any], driver: DriverConversion | None
    ) -> None:
        self.driver = driver
        self.state_topic, self._derivative = 'joint_states', None
        if driver is None:
            self._order = _command_order(given['joints'], tree)
            names = [tree.joint_names[i] for i in self._order]
            self._form = given['command_form']
            per_joint = self._form == 'per_joint'
            self.command_topics = [f'{name}/cmd_force' for name in names]
            if not per_joint:
                self.command_topics = [CommandProfile().topic]
        else:
            state = driver.profile.state
            self._order, self._form = driver.order, driver.profile.command.form
            self.command_topics, self.state_topic = list(driver.command_topics), state.topic
            if state.cutoff_hz is not None:
                self._derivative = FilteredDerivative(tree.n, state.cutoff_hz, state.timeout_s)
        self.reader = JointStateReader(tree.joint_names, driver, velocity=self._derivative is None)
        self.command_kind: Any = _MESSAGES[self._form]
        self._origin_ns: int | None = None

    def open(self, node: Node, on_state: Any) -> list[Any]:
        """Create the topics and return what is to be destroyed with them."""
        kind = self.command_kind
        overriding = QoSOverridingOptions([QoSPolicyKind.DEPTH])
        self.outputs = [
            node.create_publisher(kind, topic, _COMMAND_DEPTH, qos_overriding_options=overriding)
            for topic in self.command_topics
        ]
        self.writer = EffortWriter(self.outputs, self._order, self._form, self.driver)
        self.states = node.create_subscription(
            JointState,
            self.state_topic,
            on_state,
            STATE_QOS,
            qos_overriding_options=QoSOverridingOptions.with_default_policies(),
        )
        return [self.states, *self.outputs]

    def differentiate(self, stamp_ns: int) -> None:
        """Write the velocities of the state that was just read, if they do not come in messages.

        Args:
            stamp_ns: Stamp of the state, ns.
        """
        if self._derivative is not None:
            if self._origin_ns is None:
                self._origin_ns = stamp_ns
            elapsed = (stamp_ns - self._origin_ns) / NANO
            self.reader.v[:] = self._derivative.update(elapsed, self.reader.q)

    def motor_effort(self, msg: JointState, share: DriverCompensation | None) -> Array:
        """Return what the motors give according to a state, shape (n,), N m or N; NaN if unknown.

        Args:
            msg: The state that was just read.
            share: What the driver compensates by itself.
        """
        measured = self.reader.effort_of(msg)
        report = 'total' if self.driver is None else self.driver.profile.state.effort
        if report == 'without_compensation' and share is not None:
            return measured + share.update(self.reader.q, self.reader.v)
        return measured if report != 'none' else np.full(len(measured), np.nan)

    def effort_of_command(self, command: Array) -> Array:
        """Return the efforts, N m or N in the model's order, of a command, shape (n,)."""
        ordered = np.empty(len(command))
        ordered[self._order] = command
        return ordered if self.driver is None else self.driver.commanded_effort(ordered)

    def joint_effort_of_command(self, place: int, command: float) -> tuple[int, float]:
        """Return the joint's index and effort, N m or N, of a command for one joint.

        Args:
            place: Which of ``command_topics`` it came on.
            command: In the driver's unit.
        """
        i = int(self._order[place])
        if self.driver is None:
            return i, command
        return i, float(self.driver.effort_scale[i] * command - self.driver.effort_offset[i])

    def describe(self) -> str:
        """Return one sentence on the driver, for the log."""
        if self.driver is None:
            return f'efforts on {", ".join(self.command_topics)}'
        profile = self.driver.profile
        alone = ' and '.join(profile.compensated_by_driver) or 'nothing'
        text = f'driver {profile.name}: it compensates {alone} by itself'
        if self._derivative is not None:
            late = 1e3 * self._derivative.delay(1.0 / profile.state.rate_hz)
            text += f'; velocities are differentiated, {late:.2f} ms late'
        return text


def bound(profile: DriverProfile | None, tree: RobotTree) -> DriverConversion | None:
    """Return a profile in numbers for a robot; None if there is none.

    Raises:
        ConfigurationError: The profile is not one of this robot.
    """
    return None if profile is None else bind(profile, tree)


def _command_order(joints: list[str], tree: RobotTree) -> Array:
    """Return the model index of each commanded joint; refuse an incomplete list."""
    names = [name for name in joints if name] or list(tree.joint_names)
    order = [tree.joint_index(name) for name in names]
    if sorted(order) != list(range(tree.n)):
        known = ', '.join(tree.joint_names)
        raise ParameterError('joints', names, f'must name each of {known} once')
    return np.array(order, dtype=np.intp)
