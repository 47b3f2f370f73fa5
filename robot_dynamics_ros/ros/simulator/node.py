# SPDX-License-Identifier: Apache-2.0
"""Simulator node: a plant with the topics of a real robot.

Lockstep protocol
    State k is published with timestamp ``k * period``. The simulator waits for exactly one command
    that answers it, applies it for one period, publishes state k + 1, and so on, as fast as
    possible; the result depends neither on clocks nor on the machine. A command answers a state if
    it arrives after the state was published; commands already in the queue (of a stop action, for
    example) are dropped. Non-finite commands and commands of the wrong size are rejected and
    counted. An unanswered state is published again with the same timestamp every
    ``republish_period_s`` of wall time, so that a peer that starts late or restarts can continue;
    after ``lockstep_timeout_s`` the missing peer is named.

    While paused, the last command that answers the current state is kept and applied first after
    unpausing, so that the time of unpausing does not matter.

Real time
    The simulator steps at a fixed rate of wall time and holds the last command, as a drive does.
    It catches up on up to ``_CATCH_UP`` late steps at once and counts the others as lost.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from geometry_msgs.msg import WrenchStamped
from rclpy.qos import QoSProfile
from rosgraph_msgs.msg import Clock as ClockMessage
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

from robot_dynamics_ros.errors import PeerTimeoutError, RobotDynamicsError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.payload import payload_from_parameters
from robot_dynamics_ros.model.robot_parameters import robot_from_parameters
from robot_dynamics_ros.parameters import Parameter
from robot_dynamics_ros.ros.conversions import (
    JointStateWriter,
    ns_to_stamp,
    subscribe_commands,
    wrench_message,
    wrench_of,
)
from robot_dynamics_ros.ros.node import STEADY, PackageNode, on_set_parameters
from robot_dynamics_ros.ros.rclpy_compat import take_message
from robot_dynamics_ros.ros.simulator import parameters as declared
from robot_dynamics_ros.ros.simulator.command_buffer import CommandBuffer
from robot_dynamics_ros.simulation.plant import Pace, Plant, SimulationRun
from robot_dynamics_ros.spatial.scalar import Array

STATE_QOS = QoSProfile(depth=2000)  # reliable and deep: a delayed recorder loses no messages
COMMAND_QOS = QoSProfile(depth=10)
_CATCH_UP = 10
_WARN_S = 1.0  # minimum time between two warnings of the same kind


class Simulator(PackageNode):
    """A simulated robot with ROS topics.

    Publishes ``joint_states`` (with the efforts applied during the previous step), ``/clock``,
    ``robot_description`` (latched), and the wrench of a board on the robot on ``wrench_topic``.
    Subscribes to ``effort_controller/commands`` or ``<joint>/cmd_force``, and to
    ``simulator/push``, independent of the node name: an external wrench on the robot
    (WrenchStamped, in the axes and about the origin of the link ``header.frame_id``). Serves
    ``~/pause`` (SetBool), ``~/reset`` (to the initial state, paused) and ``~/step`` (one step
    while paused).

    Attributes:
        finished: Completes when the run is over: end time, missing peer or divergence.

    Raises:
        RobotDynamicsError: A parameter or the description is invalid.
    """

    NAME = 'simulator'
    PARAMETERS: tuple[Parameter, ...] = declared.SIMULATOR

    def __init__(self) -> None:
        super().__init__(self.NAME, self.PARAMETERS)
        self._dropped = self._refusals_logged = 0
        self._begin_with_robot(self._begin)

    def on_stop(self) -> None:
        """Log a summary."""
        if self._ready:
            self._log_summary()

    def _log_summary(self) -> None:
        """Log a summary since the initial state and reset the counters."""
        buffer, run = self._buffer, self._run
        self.get_logger().info(
            f'{run.plant.steps} steps to t = {run.time:.6f} s; commands: {buffer.accepted} '
            f'accepted, {buffer.refused} refused, {self._dropped} dropped; '
            f'{self._pace.lost} steps of real time lost'
        )
        buffer.accepted = buffer.refused = self._dropped = self._pace.lost = 0

    # Building ------------------------------------------------------------------------------------

    def _robot(self, description: str) -> RobotTree:
        return robot_from_parameters(self._settings, description)

    def _make_plant(self, tree: RobotTree) -> Plant:
        plant = declared.exact_plant(tree, self._settings)
        return declared.with_imperfections(plant, self._settings)

    def _begin(self, description: str) -> None:
        settings, tree = self._settings, self._robot(description)
        plant, self._nominal_tree = self._make_plant(tree), tree
        first = declared.initial_state(tree, settings)
        self._run = SimulationRun(plant, *first, settings['end_time_s'])
        self._schedule_payload()
        self._buffer = CommandBuffer(tree, settings['joints'])
        self._clock_ns = round(settings['clock_period'] * 1e9)
        self._lockstep = settings['mode'] == 'lockstep'
        self._paused = settings['start_paused']
        self._pace = Pace(settings['period'] / settings['real_time_factor'], _CATCH_UP)
        self._create_topics(tree)
        # The first log line of a process takes rclpy tens of milliseconds: log before the start.
        self.get_logger().info(
            f'{tree.name}: {settings["mode"]}, steps of {settings["period"]:g} s'
        )
        on_set_parameters(self, self._check_change, self._apply_change)
        self._restart()
        if settings['publish_description'] and not description:
            self._publish_description(tree.xml)

    def _create_topics(self, tree: RobotTree) -> None:
        settings = self._settings
        self._create_robot_topics(tree)
        self._clock_publisher = (
            self.create_publisher(ClockMessage, '/clock', 10)
            if settings['publish_clock']
            else None
        )
        self.create_service(SetBool, '~/pause', self._on_pause)
        self.create_service(Trigger, '~/reset', self._on_reset)
        self.create_service(Trigger, '~/step', self._on_step)
        topic = settings['wrench_topic']
        self._wrenches = self.create_publisher(WrenchStamped, topic, STATE_QOS) if topic else None
        self.create_subscription(WrenchStamped, 'simulator/push', self._on_push, COMMAND_QOS)
        self.create_timer(settings['republish_period_s'], self._on_idle, clock=STEADY)
        if not self._lockstep:
            self.create_timer(self._pace.period, self._on_step_timer, clock=STEADY)

    def _create_robot_topics(self, tree: RobotTree) -> None:
        settings = self._settings
        self._state = JointStateWriter(tree.joint_names, effort=True)
        self._states = self.create_publisher(JointState, 'joint_states', STATE_QOS)
        form, topics = settings['command_form'], ['effort_controller/commands']
        if form == 'per_joint':
            topics = [f'{name}/cmd_force' for name in self._buffer.joints]
        self._subscribe_commands(form, topics)

    def _subscribe_commands(self, form: str, topics: Sequence[str]) -> None:
        self._commands = subscribe_commands(
            self, form, topics, self._on_command, self._on_joint_command, COMMAND_QOS
        )

    def _publish_wrench(self) -> None:
        """Publish the wrench of the board on the robot."""
        plant, stamp = self._run.plant, self._state.message.header.stamp
        if self._wrenches is not None and plant.board_frame:
            wrench = wrench_message(plant.board_frame, plant.board_wrench(), stamp)
            self._wrenches.publish(wrench)

    # Commands ------------------------------------------------------------------------------------

    def _on_command(self, efforts: Sequence[float], _: Sequence[str]) -> None:
        self._process_command(self._buffer.store(efforts))

    def _on_joint_command(self, index: int, effort: float) -> None:
        self._process_command(self._buffer.store_joint(index, effort))

    def _process_command(self, complete: bool) -> None:
        if complete:
            self._answered = True
            self._answered_at = time.monotonic()
            if self._lockstep and not self._paused:
                self._advance()
        elif self._buffer.refused > self._refusals_logged:
            self._refusals_logged = self._buffer.refused
            self.get_logger().warning(
                f'command {self._buffer.refused} refused: {self._buffer.last_refusal}',
                throttle_duration_sec=_WARN_S,
            )

    def _drop_queued(self) -> None:
        """Drop all queued commands: those sent before a state is published do not answer it."""
        self._buffer.expect()
        for subscription in self._commands:
            while take_message(subscription) is not None:
                self._dropped += 1

    def _on_push(self, msg: WrenchStamped) -> None:
        """Apply a push until the next message, at most for ``push_timeout_s``."""
        try:
            self._run.push(msg.header.frame_id, wrench_of(msg), self._settings['push_timeout_s'])
        except RobotDynamicsError as error:
            self.get_logger().warning(f'push refused: {error}', throttle_duration_sec=_WARN_S)

    # Time ----------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Step with the current command and publish the next state."""
        try:
            ended = self._run.advance(self._effort())
        except RobotDynamicsError as error:
            self._end(error=error)
            return
        self._publish_new_state()
        if ended:
            self._paused = True
            self.get_logger().info(f'end of the run: t = {self._run.time:.6f} s')
            if self._settings['on_end'] == 'exit':
                self._end()

    def _effort(self) -> Array:
        """Return the efforts of the next step, shape (n,), N m or N."""
        return self._buffer.effort

    def _restart(self) -> None:
        self._refusals_logged = self._buffer.refused
        self._run.restart()
        self._buffer.clear()
        self._next_clock = 0
        self._restart_wall_clock()
        self._publish_new_state()

    def _publish_new_state(self) -> None:
        now = self._run.time_ns
        self._write_state(now)
        self._answered = False
        self._timeouts = 0
        self._published_at = self._sent_at = time.monotonic()
        if self._lockstep:
            self._drop_queued()
        self._publish_wrench()
        self._states.publish(self._state.message)
        if now >= self._next_clock:
            self._next_clock = now - now % self._clock_ns + self._clock_ns
            self._publish_clock()

    def _publish_clock(self) -> None:
        if self._clock_publisher is not None:
            clock = self._state.message.header.stamp
            self._clock_publisher.publish(ClockMessage(clock=clock))

    def _write_state(self, now: int) -> None:
        """Write the current state with the timestamp ``now``, ns, into the message."""
        state, plant = self._state, self._run.plant
        plant.read(state.position, state.velocity)
        state.effort[:] = plant.effort
        state.message.header.stamp = ns_to_stamp(now)

    def _on_idle(self) -> None:
        """Publish an unanswered or paused state again; check for a missing peer."""
        now = time.monotonic()
        waiting = self._paused or self._lockstep
        if not waiting or now - self._sent_at < self._settings['republish_period_s']:
            return
        self._sent_at = now
        self._states.publish(self._state.message)
        self._publish_clock()
        waited = now - self._published_at
        if (
            not self._paused
            and waited > (self._timeouts + 1) * self._settings['lockstep_timeout_s']
        ):
            self._timeouts += 1
            self._on_peer_timeout(waited)

    def _on_peer_timeout(self, waited: float) -> None:
        error = PeerTimeoutError(
            self._peers(), f'command answering the state at t = {self._run.time:.6f} s', waited
        )
        if self._settings['on_peer_timeout'] == 'exit':
            self._end(error=error)
            return
        self.get_logger().warning(str(error))
        if self._settings['on_peer_timeout'] == 'zero':
            self._buffer.clear()
            self._advance()

    def _peers(self) -> str:
        """Return the names of the command publishers, for messages."""
        topic = self._commands[0].topic_name
        senders = sorted(
            f'{info.node_namespace.rstrip("/")}/{info.node_name}'
            for info in self.get_publishers_info_by_topic(topic)
        )
        if senders:
            return f'{", ".join(senders)}, publisher of {topic}'
        return f'no publisher of {topic}'

    def _on_step_timer(self) -> None:
        """Execute the steps that are due by wall time."""
        if self._paused:
            self._restart_wall_clock()
            return
        now = time.monotonic()
        for _ in range(self._pace.due(now)):
            self._drop_stale_command(now)
            self._advance()
            if self._paused or self.finished.done():
                return

    def _drop_stale_command(self, now: float) -> None:
        timeout = self._settings['command_timeout_s']
        if timeout and now - self._answered_at > timeout and self._buffer.effort.any():
            self._buffer.clear()
            self.get_logger().warning(
                f'{self._peers()}: no command for {timeout:g} s, zero effort is applied',
                throttle_duration_sec=_WARN_S,
            )

    def _restart_wall_clock(self) -> None:
        self._answered_at = time.monotonic()
        self._pace.restart(self._answered_at)

    def _end(self, code: int = 0, error: RobotDynamicsError | None = None) -> None:
        self._paused = True
        super()._end(code, error)

    # Services and parameters ---------------------------------------------------------------------

    def _on_pause(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self._paused = request.data
        response.success = True
        response.message = f'{"paused" if self._paused else "running"} at t = {self._run.time:.6f}'
        if self._lockstep and not self._paused:
            self._published_at = time.monotonic()
            if self._answered:
                self._advance()
        return response

    def _on_reset(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._paused = True
        self._log_summary()
        self._restart()
        response.success, response.message = True, 'at the first state, paused'
        return response

    def _on_step(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success = self._paused and (self._answered or not self._lockstep)
        if response.success:
            self._advance()
            response.message = f'at t = {self._run.time:.6f}'
        elif self._paused:
            response.message = 'no command answers the present state yet'
        else:
            response.message = 'not paused'
        return response

    def _check_change(self, changes: Mapping[str, Any]) -> None:
        merged = {**self._settings, **changes}
        declared.with_model_error(self._nominal_tree, merged)
        self._run.check_payload(payload_from_parameters(merged))

    def _apply_change(self, changes: Mapping[str, Any]) -> None:
        self._settings = self._read_parameters()
        self._run.end_at(self._settings['end_time_s'])
        if changes.keys() & declared.MISMATCH_NAMES:
            self._run.set_robot(declared.with_model_error(self._nominal_tree, self._settings))
        if changes.keys() & declared.PAYLOAD_NAMES:
            self._schedule_payload()

    def _schedule_payload(self) -> None:
        payload = payload_from_parameters(self._settings)
        self._run.schedule_payload(payload, self._settings['payload_time_s'])
