# SPDX-License-Identifier: Apache-2.0
"""The trajectory node: plans one motion, hands it to the controller, and starts the simulation.

The order is: robot and present state are known; the controller is active; whoever must be ready
says so; the trajectory is sent and accepted; the simulator's end is set; the simulator runs. In a
lockstep simulation that waits paused, with an absolute ``start_time_s``, the result therefore does
not depend on when anything was started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration
from lifecycle_msgs.srv import GetState
from rcl_interfaces.srv import SetParameters
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from robot_dynamics_ros.errors import PeerTimeoutError, RobotDynamicsError, TrajectoryError
from robot_dynamics_ros.model.from_parameters import robot_from_parameters
from robot_dynamics_ros.model.robot_tree import STANDARD_GRAVITY, RobotTree
from robot_dynamics_ros.ros.conversions import JointStateReader, ns_to_stamp
from robot_dynamics_ros.ros.parameters import declare, values
from robot_dynamics_ros.ros.trajectory_plan import NANO, TRAJECTORY, SampledTrajectory, make_plan

STEADY = Clock(clock_type=ClockType.STEADY_TIME)
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
STATE_QOS = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
_TICK_S = 0.02
_RESEND_S = 1.0
_ACTIVE = 3  # lifecycle_msgs/State.PRIMARY_STATE_ACTIVE

Steps = Iterator[None]


class TrajectorySender(Node):
    """Sends one trajectory on ``<controller>/joint_trajectory``.

    Attributes:
        finished: Completes when all is sent (if the node ends then), or something failed.

    Raises:
        RobotDynamicsError: A parameter or the description is refused.
    """

    def __init__(self) -> None:
        super().__init__('trajectory')
        declare(self, TRAJECTORY)
        self.finished = Future()
        self._settings = values(self, TRAJECTORY) | {'gravity': list(STANDARD_GRAVITY)}
        self._tree: RobotTree | None = None
        self._reader: JointStateReader | None = None
        self._measured: Any = None
        self._statuses: list[str] = []
        controller = self._settings['controller']
        if self._settings['robot'] or self._settings['robot_description']:
            self._know(robot_from_parameters(self._settings))
        else:
            self.create_subscription(String, 'robot_description', self._on_description, LATCHED)
        self.create_subscription(
            JointState, self._settings['state_topic'], self._on_state, STATE_QOS
        )
        self.create_subscription(
            String, f'{controller}/trajectory_status', self._on_status, LATCHED
        )
        self._publisher = self.create_publisher(
            JointTrajectory, f'{controller}/joint_trajectory', 1
        )
        self._steps = self._all_steps()
        self._timer = self.create_timer(_TICK_S, self._proceed, clock=STEADY)

    # What is heard ------------------------------------------------------------------------------

    def _on_description(self, msg: String) -> None:
        if self._tree is None:
            try:
                self._know(robot_from_parameters(self._settings, msg.data))
            except RobotDynamicsError as error:
                self._fail(error)

    def _know(self, tree: RobotTree) -> None:
        self._tree, self._reader = tree, JointStateReader(tree.joint_names)

    def _on_state(self, msg: JointState) -> None:
        if self._measured is None and self._reader is not None and self._reader.read(msg):
            self._measured = self._reader.q.copy()

    def _on_status(self, msg: String) -> None:
        self._statuses.append(msg.data)

    # The order of things ------------------------------------------------------------------------

    def _proceed(self) -> None:
        """Go on with the steps as far as they can go now."""
        try:
            next(self._steps)
        except StopIteration:
            self._timer.cancel()
            if self._settings['exit_when_done'] and not self.finished.done():
                self.finished.set_result(0)
        except RobotDynamicsError as error:
            self._fail(error)

    def _fail(self, error: RobotDynamicsError) -> None:
        self._timer.cancel()
        if not self.finished.done():
            self.finished.set_exception(error)

    def _all_steps(self) -> Steps:
        settings = self._settings
        yield from self._until(lambda: self._tree, 'robot_description', 'robot')
        yield from self._until(
            lambda: self._measured is not None, settings['state_topic'], 'state'
        )
        nothing = settings['kind'] == 'none'
        plan = None if nothing else make_plan(self._tree, settings, self._measured)
        if settings['confirm']:
            yield from self._until_active()
        for name in filter(None, settings['ready_services']):
            yield from self._until_ready(name)
        if plan is not None:
            yield from self._send(plan)
        if settings['unpause_simulator']:
            yield from self._unpause()

    def _send(self, plan: SampledTrajectory) -> Steps:
        settings = self._settings
        yield from self._until(self._controller_listens, settings['controller'], 'subscription')
        message = self._message(plan)
        yield from self._deliver(message)
        start = message.header.stamp.sec + message.header.stamp.nanosec / NANO
        if settings['end_simulator']:
            yield from self._end_simulator(start + plan.duration + settings['settle_s'])
        self.get_logger().info(
            f'sent {settings["kind"]}: {len(message.points)} points from t = {start:.6f} s to '
            f't = {start + plan.duration:.6f} s, after an approach of {plan.approach:.6f} s'
        )

    def _until(self, condition: Callable[[], Any], peer: str, awaited: str) -> Steps:
        """Wait until a condition holds.

        Raises:
            PeerTimeoutError: It does not within ``timeout_s``.
        """
        seconds = self._settings['timeout_s']
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise PeerTimeoutError(peer, awaited, seconds)
            yield

    def _call(self, kind: Any, name: str, request: Any) -> Iterator[None]:
        """Call a service; the value of the iteration is the response.

        A server drops its response if it has not discovered the client's end of the connection
        yet, so the request is repeated; what is asked here may be done twice.
        """
        client = self.create_client(kind, name)
        yield from self._until(client.service_is_ready, name, 'service')
        calls, again = [], 0.0

        def answered() -> bool:
            nonlocal again
            if time.monotonic() > again:
                again = time.monotonic() + _RESEND_S
                calls.append(client.call_async(request))
            return any(call.done() for call in calls)

        yield from self._until(answered, name, 'response')
        self.destroy_client(client)
        return next(call.result() for call in calls if call.done())

    def _until_active(self) -> Steps:
        controller, state = self._settings['controller'], None
        end = time.monotonic() + self._settings['timeout_s']
        while state is None or state.current_state.id != _ACTIVE:
            if state is not None and time.monotonic() > end:
                raise PeerTimeoutError(
                    controller,
                    f'activation (it is {state.current_state.label})',
                    self._settings['timeout_s'],
                )
            state = yield from self._call(GetState, f'{controller}/get_state', GetState.Request())

    def _until_ready(self, name: str) -> Steps:
        answer = None
        end = time.monotonic() + self._settings['timeout_s']
        while answer is None or not answer.success:
            if answer is not None and time.monotonic() > end:
                raise PeerTimeoutError(
                    name, f'readiness ({answer.message})', self._settings['timeout_s']
                )
            answer = yield from self._call(Trigger, name, Trigger.Request())

    def _controller_listens(self) -> bool:
        name = self._settings['controller'].rpartition('/')[2]
        topic = self._publisher.topic_name
        listeners = [info.node_name for info in self.get_subscriptions_info_by_topic(topic)]
        return name in listeners and self._publisher.get_subscription_count() >= len(listeners)

    def _deliver(self, message: JointTrajectory) -> Steps:
        """Send; if the controller shall confirm, until it does.

        Raises:
            TrajectoryError: It was rejected; says why.
            PeerTimeoutError: It was not answered.
        """
        if not self._settings['confirm']:
            self._publisher.publish(message)
            return
        self._statuses.clear()
        end, again = time.monotonic() + self._settings['timeout_s'], 0.0
        while not self._statuses:
            now = time.monotonic()
            if now > end:
                raise PeerTimeoutError(
                    self._settings['controller'],
                    'answer to the trajectory',
                    self._settings['timeout_s'],
                )
            if now > again:
                self._publisher.publish(message)
                again = now + _RESEND_S
            yield
        if not self._statuses[-1].startswith('accepted'):
            raise TrajectoryError(
                'trajectory',
                f'was not accepted by {self._settings["controller"]}',
                self._statuses[-1],
            )

    def _end_simulator(self, end: float) -> Steps:
        parameter = Parameter('end_time_s', value=end).to_parameter_msg()
        request = SetParameters.Request(parameters=[parameter])
        name = f'{self._settings["simulator"]}/set_parameters'
        answer = yield from self._call(SetParameters, name, request)
        if not answer.results[0].successful:
            raise TrajectoryError(
                'end_time_s', answer.results[0].reason, 'set it at the simulator'
            )

    def _unpause(self) -> Steps:
        name = f'{self._settings["simulator"]}/pause'
        yield from self._call(SetBool, name, SetBool.Request(data=False))

    def _message(self, plan: SampledTrajectory) -> JointTrajectory:
        settings = self._settings
        start_ns = round(settings['start_time_s'] * NANO)
        if not start_ns:
            delay = round(settings['start_delay_s'] * NANO)
            start_ns = self.get_clock().now().nanoseconds + delay
        message = JointTrajectory(joint_names=list(self._tree.joint_names))
        message.header.stamp = ns_to_stamp(start_ns)
        message.points = [
            JointTrajectoryPoint(
                positions=position,
                velocities=velocity,
                accelerations=acceleration,
                time_from_start=Duration(sec=t // NANO, nanosec=t % NANO),
            )
            for t, position, velocity, acceleration in zip(
                plan.times_ns,
                *(np.asarray(rows).tolist() for rows in (plan.position, plan.velocity)),
                plan.acceleration.tolist(),
                strict=True,
            )
        ]
        return message
