# SPDX-License-Identifier: Apache-2.0
"""Trajectory node: plan one motion, send it to the controller, start the simulation.

Sequence: receive robot and current state; wait until the controller is active and the ready
services succeed; send the trajectory and wait for its acceptance; set the simulator's end time;
unpause the simulator; stay until the motion has begun, or with ``wait`` until it has ended. If
missing states discarded it before it began, it is planned and sent again in simulated time; on a
real arm this is an error.

So the result of a lockstep simulation that starts paused, with an absolute ``start_time_s``,
does not depend on the start times of the processes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError, TrajectoryError
from robot_dynamics_ros.messages import NANO, from_start, stamp_ns
from robot_dynamics_ros.model.payload import loaded
from robot_dynamics_ros.model.robot_parameters import robot_from_parameters
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.planning.trajectory_plan import (
    TRAJECTORY,
    SampledTrajectory,
    check_motion,
    is_possible,
    make_plan,
)
from robot_dynamics_ros.ros.conversions import JointStateReader, ns_to_stamp, trajectory_point
from robot_dynamics_ros.ros.node import (
    NEWEST,
    Rivals,
    SequenceNode,
    Steps,
    publisher_names,
)

#: Of the statuses: none from before. The controller keeps one, which may be an end that has
#: replaced the answer; each names its trajectory, so that the last one tells all.
_DEPTH = 100
#: Statuses of the controller after which a motion that had not begun is over.
_DISCARDED = ('held: states returned', 'held: the time of the states')
_OTHERS = ('accepted', 'goal')  # of another trajectory
#: Statuses after which a motion is over, the first of them as planned.
_OVER = ('reached', 'aborted', 'held', 'ended')
_ELSEWHERE = 'of the reference'  # in answers of a controller that has the arm elsewhere
_MAX_REPEATS = 3
_BEGUN_S = 0.5  # wall time of states after the start, in which a status may still arrive
_SILENT_S = 5.0  # wall time without states, after which their simulator has ended or stands still
_TELL_S = 10.0  # wall time between lines on a motion that is waited for
_ROUNDING_NS = 1000
_AT_START = 0.01  # rad or m: an arm that is nearer to the start has not moved
_OTHER_UNITS = 'if the driver has its own names, signs or units, set state_topic to'


class TrajectorySender(SequenceNode):
    """Sends one trajectory on ``<controller>/joint_trajectory``.

    Attributes:
        finished: Completes once everything is sent (if ``exit_when_done``), or on failure.

    Raises:
        RobotDynamicsError: A parameter or the description is invalid.
    """

    def __init__(self) -> None:
        super().__init__('trajectory', TRAJECTORY)
        self._tree: Any = None
        self._reader: JointStateReader | None = None
        self._rivals = Rivals(self, self._settings['state_topic'])
        self._measured: Any = None
        self._stamp_ns, self._arrived_at = 0, 0.0
        self._statuses: list[str] = []
        self._mine = ''  # how statuses name the trajectory that was sent last
        controller = self._settings['controller']
        self._moves = self._settings['kind'] != 'none'
        if self._settings['wait'] and not self._settings['confirm']:
            raise ConfigurationError('wait', 'needs the status of the trajectory', 'set confirm')
        if self._moves:
            self._begin_with_robot(self._load_robot)
        self.create_subscription(
            JointState, self._settings['state_topic'], self._on_state, NEWEST, raw=True
        )
        self.create_subscription(
            String,
            f'{controller}/trajectory_status',
            lambda msg: self._statuses.append(msg.data),
            _DEPTH,
        )
        self._publisher = self.create_publisher(
            JointTrajectory, f'{controller}/joint_trajectory', 1
        )
        self._begin_steps(self._all_steps(), ends=self._settings['exit_when_done'])

    # Subscriptions -------------------------------------------------------------------------------

    def _load_robot(self, description: str) -> None:
        robot = robot_from_parameters(self._settings, description)
        self._tree = loaded(robot, self._settings)
        check_motion(self._tree, self._settings)
        self._reader = JointStateReader(self._tree.joint_names)

    def _on_state(self, content: bytes) -> None:
        if self._reader is not None and self._reader.read(content):
            self._measured = self._reader.q.copy()
            self._stamp_ns = self._reader.stamp_ns or self.get_clock().now().nanoseconds
            self._arrived_at = time.monotonic()
            self._rivals.note(self._stamp_ns, content)

    def _end(self, outcome: int | RobotDynamicsError = 0) -> None:
        layouts = self._reader.other_layouts if self._reader is not None else 0
        if outcome and (rivals := self._rivals.sentence(layouts)):
            outcome = ConfigurationError('motion', rivals, str(outcome))  # which it explains
        super()._end(outcome)

    def on_stop(self) -> None:
        """An interrupt leaves a motion that is waited for without its end: say what it does."""
        if self._settings['wait'] and not self.finished.done():
            stop = f'an empty trajectory on {self._publisher.topic_name} ends it'
            goes_on = 'its sender was interrupted, and the controller goes on', stop
            unsent = 'was interrupted before it was sent', 'send it again'
            self._end(TrajectoryError('motion', *(goes_on if self._mine else unsent)))

    # Sequence ------------------------------------------------------------------------------------

    def _all_steps(self) -> Steps:
        plan = (yield from self._plan()) if self._moves else None
        settings = self._settings
        if settings['confirm']:
            yield from self._wait_until_active(settings['controller'])
        for name in filter(None, settings['ready_services']):
            yield from self._repeat_until_done(name, partial(self._ask_readiness, name))
        start_ns = 0 if plan is None else (yield from self._send(plan))
        if settings['unpause_simulator']:
            name = f'{settings["simulator"]}/pause'
            yield from self._call(SetBool, name, SetBool.Request(data=False))
        if settings['confirm'] and not settings['end_simulator']:
            for _ in range(_MAX_REPEATS):
                if plan is None or not (reason := (yield from self._discarded(plan, start_ns))):
                    break
                if not self.get_parameter('use_sim_time').value:
                    raise TrajectoryError('motion', f'has not begun: {reason}', 'send it again')
                self.get_logger().warning(f'the motion has not begun: {reason}; it is sent again')
                plan = yield from self._plan()
                start_ns = yield from self._send(plan, again=True)
        if settings['wait'] and plan is not None:
            yield from self._wait_for_end(start_ns / NANO + plan.duration)
            if settings['end_simulator']:
                end_ns = start_ns + round((plan.duration + settings['settle_s']) * NANO)
                while not self._simulator_ended(end_ns):
                    yield

    def _simulator_ended(self, end_ns: int) -> bool:
        """Return whether the states have come to the end of a simulation, ns, or stopped."""
        if time.monotonic() > self._arrived_at + _SILENT_S:
            return True
        states = self._settings['state_topic']
        return self._stamp_ns >= end_ns - _ROUNDING_NS or not publisher_names(self, states)

    def _wait_for_end(self, end: float) -> Steps:
        """Wait until the controller has reported the end of the motion that it accepted.

        Args:
            end: When it is due, s.

        Raises:
            TrajectoryError: It was not reached; gives the reason.
            PeerTimeoutError: No states arrive any more.
        """
        ends: list[str] = []
        while not ends:
            since = self._statuses[self._statuses.index(self._answers()[0]) :]
            ends = [  # of this motion, also by another trajectory
                text
                for text in since
                if text.startswith(_OVER if self._mine in text else (*_OVER, *_OTHERS))
            ]
            self.get_logger().info(
                f'in motion: t = {self._stamp_ns / NANO:.1f} s of {end:.1f} s',
                throttle_duration_sec=_TELL_S,
                skip_first=True,
            )
            self._check_timeout(self._arrived_at, self._settings['state_topic'], 'new state')
            yield
        reached = f'{_OVER[0]}{self._subject}', f'{self._subject.rstrip("]")}, reached]'
        if not ends[0].endswith(reached):
            why = ends[0].removesuffix(self._subject)
            raise TrajectoryError('motion', f'was not completed: {why}', 'send it again')
        self.get_logger().info('the motion is completed')

    def _discarded(self, plan: SampledTrajectory, start_ns: int) -> Steps:
        """Wait until a motion has begun; return why it was discarded before, or nothing.

        States later than the start show that it has begun, unless the controller reports meanwhile
        that it holds an arm which is still at the start.

        Raises:
            PeerTimeoutError: The states do not return.
        """
        begun_at = math.inf
        while time.monotonic() < begun_at + _BEGUN_S:
            if self._stamp_ns >= start_ns and begun_at == math.inf:
                begun_at = self._arrived_at
            held = [text for text in self._answers() if text.startswith(_DISCARDED)]
            if held and np.abs(self._measured - plan.position[0]).max() < _AT_START:
                return held[-1].removesuffix(self._subject)
            self._check_timeout(self._arrived_at, self._settings['state_topic'], 'new state')
            yield
        return ''

    def _ask_readiness(self, name: str) -> Steps:
        answer = yield from self._call(Trigger, name, Trigger.Request())
        return '' if answer.success else f'readiness ({answer.message})'

    def _plan(self) -> Steps:
        """Plan the motion once the robot and its current state are known.

        Raises:
            TrajectoryError: It is not possible; says so if the state is not, either.
        """
        yield from self._wait_for('robot_description', 'robot', lambda: self._tree)
        states = self._settings['state_topic']
        yield from self._wait_for(states, 'state', lambda: self._measured is not None)
        start = self._measured
        try:
            return make_plan(self._tree, self._settings, start)
        except TrajectoryError as refusal:
            if is_possible(self._tree, self._settings, start):
                raise
            problem = f'{refusal.problem}; {states} begins at {np.round(start, 3).tolist()}'
            remedy = f'{refusal.remedy}; {self._other_units()}'
            raise TrajectoryError(refusal.culprit, problem, remedy) from refusal

    def _other_units(self) -> str:
        return f'{_OTHER_UNITS} {self._settings["controller"]}/reference'

    def _wait_for(self, topic: str, awaited: str, condition: Callable[[], Any]) -> Steps:
        """Wait for messages of a topic; errors say why none could be used."""
        begin = time.monotonic()
        while not condition():
            why = 'no publisher discovered so far; start a driver or simulator in this namespace'
            if publisher_names(self, topic):
                why = self._reader.problem() if self._reader else ''
                why += why and f'; {self._other_units()}'
            self._check_timeout(begin, topic, f'{awaited} ({why})' if why else awaited)
            yield

    def _send(self, plan: SampledTrajectory, *, again: bool = False) -> Steps:
        """Send a motion; return its start, ns."""
        settings = self._settings
        for remark in plan.remarks:
            self.get_logger().warning(remark)
        yield from self._wait_until(
            self._controller_subscribed,
            settings['controller'],
            'subscription of one node of this name',
        )
        message = self._message(plan, again=again)
        yield from self._deliver(message)
        start_ns = stamp_ns(message)
        start = start_ns / NANO
        if settings['end_simulator']:
            yield from self._end_simulator(start + plan.duration + settings['settle_s'])
        count = counted(len(message.points), 'point')
        approach = f', after an approach of {plan.approach:.6f} s' if plan.approach else ''
        self.get_logger().info(
            f'sent {settings["kind"]}: {count} from t = {start:.6f} s to '
            f't = {start + plan.duration:.6f} s{approach}; it '
            f'needs {plan.effort_share:.0%} of the effort limit of joint {plan.heaviest!r}'
        )
        return start_ns

    def _controller_subscribed(self) -> bool:
        name = self._settings['controller'].rpartition('/')[2]
        topic = self._publisher.topic_name
        subscribers = [info.node_name for info in self.get_subscriptions_info_by_topic(topic)]
        alone = subscribers.count(name) == 1  # of two, one may reject what the other obeys
        return alone and self._publisher.get_subscription_count() >= len(subscribers)

    def _deliver(self, message: JointTrajectory) -> Steps:
        """Send the trajectory; with ``confirm``, repeat until the controller has answered.

        Raises:
            TrajectoryError: The controller rejected it; gives the reason.
            PeerTimeoutError: The controller did not answer.
        """
        if not self._settings['confirm']:
            self._publisher.publish(message)
            return
        self._statuses.clear()
        self._mine = f' {from_start(stamp_ns(message))}'
        controller = self._settings['controller']
        yield from self._wait_until(
            self._answers,
            controller,
            'answer to the trajectory',
            lambda: self._publisher.publish(message),
        )
        answer = self._answers()[0].removesuffix(self._subject)
        if answer.startswith('rejected'):  # an end without the answer follows an acceptance
            if _ELSEWHERE in answer:
                answer += f'; {self._other_units()}'
            raise TrajectoryError('trajectory', f'was not accepted by {controller}', answer)

    @property
    def _subject(self) -> str:
        """How statuses after the answer end."""
        return f' [trajectory{self._mine}]'

    def _answers(self) -> list[str]:
        """Return the statuses of the trajectory that was sent last."""
        return [text for text in self._statuses if self._mine in text]

    def _end_simulator(self, end: float) -> Steps:
        parameter = Parameter('end_time_s', value=end).to_parameter_msg()
        request = SetParameters.Request(parameters=[parameter])
        name = f'{self._settings["simulator"]}/set_parameters'
        answer = yield from self._call(SetParameters, name, request)
        if not answer.results[0].successful:
            raise TrajectoryError(
                'end_time_s', answer.results[0].reason, 'set it at the simulator'
            )

    def _message(self, plan: SampledTrajectory, *, again: bool) -> JointTrajectory:
        settings = self._settings
        start_ns = 0 if again else round(settings['start_time_s'] * NANO)
        if not start_ns:
            start_ns = self._stamp_ns + round(settings['start_delay_s'] * NANO)
        message = trajectory_message(self._tree.joint_names, plan)
        message.header.stamp = ns_to_stamp(start_ns)
        return message


def trajectory_message(joints: Sequence[str], plan: SampledTrajectory) -> JointTrajectory:
    """Return the message of a sampled trajectory; its timestamp 0 means to start on receipt."""
    points = zip(plan.times_ns, plan.position, plan.velocity, plan.acceleration, strict=True)
    message = JointTrajectory(joint_names=list(joints))
    message.points = [trajectory_point(*point) for point in points]
    return message
