# SPDX-License-Identifier: Apache-2.0
"""Services, trajectories and streams of a controller: requests to its session.

Each is prepared, at once or in a thread, and acts between two ticks; what it says goes to its
sender and the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from rclpy.node import Node
from rclpy.serialization import deserialize_message
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from robot_dynamics_ros.control.request_worker import Finish, Prepare, RequestWorker
from robot_dynamics_ros.control.requests import (
    Apply,
    prepare_message,
    prepare_payload,
    prepare_waypoint,
    tared,
)
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import RobotDynamicsError, TrajectoryError
from robot_dynamics_ros.messages import from_start
from robot_dynamics_ros.ros.controller_topics import subscribe_streams
from robot_dynamics_ros.ros.conversions import leading_stamp_ns
from robot_dynamics_ros.ros.node import LATCHED, STEADY, set_own
from robot_dynamics_ros.ros.rclpy_compat import Respond, respond_later

_POLL_PERIOD_S = 0.005  # at which the end of a slow preparation is noticed
#: Messages of more bytes (some hundred points) are deserialized in the background.
_LONG_MESSAGE = 16_384

Done = Callable[[str], Any]
Refused = Callable[[RobotDynamicsError], Any]


class SessionRequests:
    """Makes all requests to a session but the goals of the action.

    Serves ``~/carry_payload``, ``~/resume``, ``~/add_waypoint`` and ``~/tare_wrench``. Subscribes
    to ``~/joint_trajectory`` (an empty one means: stop and hold), and to the streamed inputs.
    Publishes, latched, what becomes of a trajectory on ``~/trajectory_status``.

    Attributes:
        session: The session.
        take_wrench: Takes a measured wrench that has arrived, before its state is answered.
        worker: Prepares the requests.

    Args:
        node: The controller.
        session: The session.
    """

    def __init__(self, node: Node, session: ControllerSession) -> None:
        self._node, self.session = node, session
        self._log, self.worker = node.get_logger(), RequestWorker()
        self._poll = node.create_timer(_POLL_PERIOD_S, self._proceed, clock=STEADY)
        self._poll.cancel()
        self._status = node.create_publisher(String, '~/trajectory_status', LATCHED)
        self._serve(SetBool, 'carry_payload', lambda x: prepare_payload(session, x.data))
        self._serve(Trigger, 'resume', lambda _: session.resume)
        self._serve(Trigger, 'add_waypoint', lambda _: prepare_waypoint(session), slow=True)
        self._serve(Trigger, 'tare_wrench', lambda _: self._tare)
        take, kind = self._take_trajectory, JointTrajectory
        # As bytes, because the deserialization of a long message is slow.
        node.create_subscription(kind, '~/joint_trajectory', take, 1, raw=True)
        self.take_wrench = subscribe_streams(node, session, self.request, self.act)

    def submit(self, prepare: Prepare, finish: Finish, **options: Any) -> None:
        """Prepare a request, and finish it between two ticks; see ``RequestWorker.submit``."""
        self.worker.submit(prepare, finish, **options)
        if self.worker.busy:
            self._poll.reset()

    def _proceed(self) -> None:
        self.worker.proceed()
        if not self.worker.busy:
            self._poll.cancel()

    def request(
        self,
        prepare: Prepare,
        done: Done,
        refused: Refused,
        **options: Any,
    ) -> None:
        """Submit a request; tell what it returns, or why it is refused."""
        self.submit(prepare, lambda made: self.act(made.result, done, refused), **options)

    def act(
        self,
        prepared: Prepare,
        done: Done,
        refused: Refused,
    ) -> None:
        """Let a request act now, whatever is being prepared."""
        try:
            text = prepared()()
        except RobotDynamicsError as error:
            refused(error)
            self.log_remarks()
        else:
            self.log_remarks()  # they may announce the end of what came before
            done(text)

    def log_remarks(self) -> None:
        """Log the remarks of the session and announce their statuses."""
        remarks = self.session.remarks
        while remarks:
            remark = remarks.popleft()
            if remark.level == 'error':  # rclpy allows only one severity per line of code
                self._log.error(remark.text)
            elif remark.level == 'warning':
                self._log.warning(remark.text)
            elif remark.level == 'info':
                self._log.info(remark.text)
            if remark.status:
                self._announce(remark.status)

    def _announce(self, text: str) -> None:
        """Publish the status of a trajectory."""
        self._status.publish(String(data=text))

    def _serve(
        self, kind: Any, name: str, prepare: Callable[[Any], Apply], *, slow: bool = False
    ) -> None:
        """Serve a service: a request to the session per call, with its result as response."""

        def act(request: Any, response: Any, respond: Respond) -> None:
            def done(text: str) -> None:
                response.message, response.success = text, True
                self._log.info(text)
                respond(response)

            def refused(error: RobotDynamicsError) -> None:
                response.message = str(error)
                respond(response)

            self.request(partial(prepare, request), done, refused, slow=slow)

        respond_later(self._node.create_service(kind, f'~/{name}', lambda *_: None), act)

    def _tare(self) -> str:
        """Set the parameter ``sensor_bias`` of the node to what the sensor measures."""
        parameters, text = tared(self.session, time.perf_counter_ns())
        set_own(self._node, parameters)
        return text

    def _take_trajectory(self, content: bytes) -> None:
        def refused(error: RobotDynamicsError) -> None:
            start = from_start(leading_stamp_ns(content))
            self._announce(f'rejected: {error} [trajectory {start}]')
            self._log.warning(f'trajectory rejected: {error}')

        follow = partial(prepare_message, self.session)
        if len(content) > _LONG_MESSAGE:
            self.request(lambda: follow(_read(content)), self._announce, refused, slow=True)
            return
        try:
            message = _read(content)
        except TrajectoryError as error:
            refused(error)
            return
        if message.points:
            self.request(partial(follow, message), self._announce, refused)
        else:  # at once
            self.act(lambda: self.session.hold, self._announce, refused)


def _read(content: bytes) -> JointTrajectory:
    try:
        return deserialize_message(content, JointTrajectory)
    except RuntimeError as error:
        remedy = 'send a trajectory_msgs/msg/JointTrajectory'
        raise TrajectoryError('trajectory', f'cannot be read: {error}', remedy) from error
