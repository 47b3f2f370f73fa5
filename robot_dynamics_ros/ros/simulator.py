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
    Before the first command it holds the arm, as brakes do, so that controller and motion can be
    started one by one; parameter ``hold_until_command``. It catches
    up on up to ``_CATCH_UP`` late steps at once and counts the others as lost.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from geometry_msgs.msg import WrenchStamped
from rclpy.qos import QoSProfile
from rosgraph_msgs.msg import Clock as ClockMessage
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

from robot_dynamics_ros.control.topics import PUSHES
from robot_dynamics_ros.errors import PeerTimeoutError, RobotDynamicsError
from robot_dynamics_ros.messages import wrench_of
from robot_dynamics_ros.model.payload import payload_from_parameters
from robot_dynamics_ros.parameters import Parameter, Values, checked
from robot_dynamics_ros.ros import node_parameters as declared
from robot_dynamics_ros.ros.conversions import PreparedMessage, ns_to_stamp, wrench_message
from robot_dynamics_ros.ros.driver_connection import DriverConnection
from robot_dynamics_ros.ros.node import (
    STEADY,
    PackageNode,
    on_set_parameters,
    publisher_names,
    serve,
)
from robot_dynamics_ros.ros.rclpy_compat import take_message
from robot_dynamics_ros.ros.simulated_arm import SimulatedArm
from robot_dynamics_ros.simulation.imperfections import with_model_error
from robot_dynamics_ros.simulation.mujoco_plant import initial_state
from robot_dynamics_ros.simulation.plant import CommandBuffer, Pace, SimulationRun

STATE_QOS = QoSProfile(depth=2000)  # reliable and deep: a delayed recorder loses no messages
COMMAND_QOS = QoSProfile(depth=10)
_CATCH_UP = 10
_CLOCK_NS = 10_000_000  # simulated time between two /clock messages
_WARN_S = 1.0  # minimum time between two warnings of the same kind


class Simulator(PackageNode):
    """A simulated robot with ROS topics.

    Publishes ``joint_states`` (with the efforts applied during the previous step, and the locked
    joints), ``/clock``, ``robot_description`` (latched), and the wrench of a board on the robot
    on ``wrench_topic``.
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
    ARM: type[SimulatedArm] = SimulatedArm

    def __init__(self) -> None:
        super().__init__(self.NAME, self.PARAMETERS)
        self._dropped, self._warned_at = 0, 0.0  # of a missing peer
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

    def _begin(self, description: str) -> None:
        arm = self._arm = self.ARM(self, self._settings)
        tree = arm.load(description)
        settings = self._settings = checked(self.PARAMETERS, self._settings, tree.n)
        arm.settings = settings
        first = initial_state(tree, settings)
        self._run = SimulationRun(arm.build(), *first, settings['end_time_s'])
        self._schedule_payload()
        self._buffer = CommandBuffer(tree, arm.driver.order)
        self._lockstep = settings['mode'] == 'lockstep'
        self._paused = settings['start_paused']
        self._pace = Pace(settings['period'] / settings['real_time_factor'], _CATCH_UP)
        self._create_topics()
        # The first log line of a process takes rclpy tens of milliseconds: log before the start.
        self.get_logger().info(
            f'{tree.name}: {settings["mode"]}, steps of {settings["period"]:g} s'
        )
        for remark in tree.remarks:
            self.get_logger().warning(remark)
        on_set_parameters(self, self._check_change, self._apply_change)
        self._restart()
        if settings['publish_description'] and not description:
            self._publish_description(tree.xml)

    def _create_topics(self) -> None:
        settings, arm = self._settings, self._arm
        topics = DriverConnection(arm.driver)
        self._state = PreparedMessage(arm.message())
        self._clock_publisher = (  # before the states: a recorder then knows whose time they have
            self.create_publisher(ClockMessage, '/clock', 10)
            if settings['publish_clock']
            else None
        )
        self._states = self.create_publisher(JointState, topics.state_topic, STATE_QOS)
        self._commands = topics.subscribe_commands(self, self._on_command, COMMAND_QOS)
        serve(self, SetBool, 'pause', self._on_pause)
        serve(self, Trigger, 'reset', self._on_reset)
        serve(self, Trigger, 'step', self._on_step)
        topic = settings['wrench_topic']
        self._wrenches = self.create_publisher(WrenchStamped, topic, STATE_QOS) if topic else None
        self.create_subscription(WrenchStamped, PUSHES, self._on_push, COMMAND_QOS)
        self.create_timer(settings['republish_period_s'], self._on_idle, clock=STEADY)
        if not self._lockstep:
            self.create_timer(self._pace.period, self._on_step_timer, clock=STEADY)
        arm.open()

    # Commands ------------------------------------------------------------------------------------

    def _on_command(self, places: Sequence[int], efforts: Sequence[float]) -> None:
        refused = self._buffer.refused
        if self._buffer.store(places, self._arm.command(places, efforts)):
            self._on_answer()
        elif self._buffer.refused > refused:
            self.get_logger().warning(
                f'command {self._buffer.refused} refused: {self._buffer.last_refusal}',
                throttle_duration_sec=_WARN_S,
            )

    def _on_answer(self) -> None:
        """React to a command that answers the current state."""
        if not self._arm.admit(self._run.time):
            return
        self._answered = True
        self._answered_at = time.monotonic()
        if self._lockstep and not self._paused:
            self._advance()

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
        """Step with the current command until the next state, and publish it."""
        self._step()
        while self._lockstep and self._run.plant.stale and not self._paused:
            self._step()  # a lost state cannot be answered

    def _step(self) -> None:
        try:
            ended = self._run.advance(self._arm.effort(self._buffer.effort))
        except RobotDynamicsError as error:
            self._end(error)
            return
        self._publish_new_state()
        if ended:
            self._paused = True
            self.get_logger().info(f'end of the run: t = {self._run.time:.6f} s')
            if self._settings['on_end'] == 'exit':
                self._end()

    def _restart(self) -> None:
        self._run.restart()
        self._buffer.clear()
        self._arm.restart(lockstep=self._lockstep)
        self._next_clock = 0
        self._restart_wall_clock()
        self._publish_new_state()

    def _publish_new_state(self) -> None:
        now = self._run.time_ns
        if self._run.plant.stale and now:
            return
        self._arm.write(*self._state.doubles)
        self._stamp_ns = now + self._origin_ns
        if self._arm.has_own_clock:
            self._stamp_ns += self._pace.lost * round(self._settings['period'] * 1e9)
        self._answered = False
        self._published_at = self._sent_at = time.monotonic()
        if self._lockstep:
            self._drop_queued()
        plant = self._run.plant
        if self._wrenches is not None and plant.board_frame:
            stamp = ns_to_stamp(self._stamp_ns)
            wrench = wrench_message(plant.board_frame, plant.board_wrench(), stamp)
            self._wrenches.publish(wrench)
        self._state.publish(self._states, self._stamp_ns)
        if now >= self._next_clock:
            self._next_clock = now - now % _CLOCK_NS + _CLOCK_NS
            self._publish_clock()

    def _publish_clock(self) -> None:
        if self._clock_publisher is not None:
            self._clock_publisher.publish(ClockMessage(clock=ns_to_stamp(self._stamp_ns)))

    def _on_idle(self) -> None:
        """Publish an unanswered or paused state again; check for a missing peer."""
        now = time.monotonic()
        waiting = self._paused or self._lockstep
        if not waiting or now - self._sent_at < self._settings['republish_period_s']:
            return
        self._sent_at = now
        self._state.publish(self._states)
        self._publish_clock()
        since = max(self._published_at, self._warned_at)
        if not self._paused and now - since > self._settings['lockstep_timeout_s']:
            self._warned_at = now
            self._on_peer_timeout(now - self._published_at)

    def _on_peer_timeout(self, waited: float) -> None:
        error = PeerTimeoutError(
            self._peers(), f'command answering the state at t = {self._run.time:.6f} s', waited
        )
        if self._settings['on_peer_timeout'] == 'exit':
            self._end(error)
            return
        self.get_logger().warning(str(error))
        if self._settings['on_peer_timeout'] == 'zero':
            self._buffer.clear()
            self._advance()

    def _peers(self) -> str:
        """Return the names of the command publishers, for messages."""
        topic = self._commands[0].topic_name
        if senders := publisher_names(self, topic):
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
        if not timeout or now - self._answered_at <= timeout:
            return
        if text := self._arm.miss_commands(self._buffer):
            self.get_logger().warning(
                f'{self._peers()}: no command for {timeout:g} s, {text}',
                throttle_duration_sec=_WARN_S,
            )

    def _restart_wall_clock(self) -> None:
        self._answered_at = time.monotonic()
        self._pace.restart(self._answered_at)
        self._origin_ns = 0
        if self._arm.has_own_clock and not self._lockstep:
            self._origin_ns = self.get_clock().now().nanoseconds - self._run.time_ns

    def _end(self, outcome: int | RobotDynamicsError = 0) -> None:
        self._paused = True
        super()._end(outcome)

    # Services and parameters ---------------------------------------------------------------------

    def _on_pause(self, request: SetBool.Request) -> tuple[bool, str]:
        self._paused = request.data
        text = f'{"paused" if self._paused else "running"} at t = {self._run.time:.6f}'
        if self._lockstep and not self._paused:
            self._published_at = time.monotonic()
            if self._answered:
                self._advance()
        return True, text

    def _on_reset(self, _: Trigger.Request) -> tuple[bool, str]:
        self._paused = True
        self._log_summary()
        self._restart()
        return True, 'at the first state, paused'

    def _on_step(self, _: Trigger.Request) -> tuple[bool, str]:
        if not self._paused:
            return False, 'not paused'
        if self._lockstep and not self._answered:
            return False, 'no command answers the present state yet'
        self._advance()
        return True, f'at t = {self._run.time:.6f}'

    def _check_change(self, changes: Values) -> None:
        tree = self._arm.tree
        merged = checked(self.PARAMETERS, {**self._settings, **changes}, tree.n)
        with_model_error(tree, merged)
        self._arm.check(merged)
        self._run.check_payload(payload_from_parameters(merged))

    def _apply_change(self, changes: Values) -> None:
        self._settings = self._arm.settings = self._read_parameters()
        if 'end_time_s' in changes:
            self._run.end_at(self._settings['end_time_s'])
        if changes.keys() & {one.name for one in declared.MISMATCH}:
            self._run.set_robot(with_model_error(self._arm.tree, self._settings))
        if changes.keys() & {one.name for one in declared.SIMULATED_PAYLOAD}:
            self._schedule_payload()

    def _schedule_payload(self) -> None:
        payload = payload_from_parameters(self._settings)
        self._run.schedule_payload(payload, self._settings['payload_time_s'])
