# SPDX-License-Identifier: Apache-2.0
"""Services and streamed messages of a controller: requests to its session, and its remarks."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from rclpy.node import Node
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from robot_dynamics_ros.control.request_worker import Finish, RequestWorker
from robot_dynamics_ros.control.requests import Apply, prepare_payload, prepare_waypoint, tared
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.ros.controller_topics import subscribe_streams
from robot_dynamics_ros.ros.node import LATCHED, STEADY, set_own
from robot_dynamics_ros.ros.rclpy_compat import Respond, respond_later

_POLL_PERIOD_S = 0.005  # at which the end of a slow preparation is noticed


class SessionServices:
    """Makes the requests of services and streamed messages to a session, and prepares all others.

    Serves ``~/carry_payload``, ``~/resume``, ``~/add_waypoint`` and ``~/tare_wrench``. Publishes,
    latched, what becomes of a trajectory on ``~/trajectory_status``.

    Attributes:
        session: The session.

    Args:
        node: The controller.
        session: The session.
    """

    def __init__(self, node: Node, session: ControllerSession) -> None:
        self._node, self.session = node, session
        self.worker = RequestWorker()
        self._poll = node.create_timer(_POLL_PERIOD_S, self._proceed, clock=STEADY)
        self._poll.cancel()
        self._log = node.get_logger()
        self._status = node.create_publisher(String, '~/trajectory_status', LATCHED)
        self._serve(SetBool, 'carry_payload', lambda x: prepare_payload(session, x.data))
        self._serve(Trigger, 'resume', lambda _: session.resume)
        self._serve(Trigger, 'add_waypoint', lambda _: prepare_waypoint(session), slow=True)
        self._serve(Trigger, 'tare_wrench', lambda _: self._tare)
        self.take_wrench = subscribe_streams(node, session, self.submit, self.log_remarks)

    def submit(self, prepare: Callable[[], Apply], finish: Finish, **options: Any) -> None:
        """Prepare a request, and finish it between two ticks; see ``RequestWorker.submit``."""
        self.worker.submit(prepare, finish, **options)
        if self.worker.busy:
            self._poll.reset()

    def _proceed(self) -> None:
        self.worker.proceed()
        if not self.worker.busy:
            self._poll.cancel()

    def announce(self, text: str) -> None:
        """Publish the status of a trajectory."""
        self._status.publish(String(data=text))

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
                self.announce(remark.status)

    def _tare(self) -> str:
        """Set the parameter ``sensor_bias`` of the node to what the sensor measures."""
        parameters, text = tared(self.session, time.perf_counter_ns())
        set_own(self._node, parameters)
        return text

    def _serve(
        self, kind: Any, name: str, prepare: Callable[[Any], Apply], *, slow: bool = False
    ) -> None:
        """Serve a service: a request to the session per call, with its result as response."""

        def act(request: Any, response: Any, respond: Respond) -> None:
            def finish(prepared: Future[Apply]) -> None:
                try:
                    response.message, response.success = prepared.result()(), True
                    self._log.info(response.message)
                except RobotDynamicsError as error:
                    response.message = str(error)
                respond(response)
                self.log_remarks()

            self.submit(partial(prepare, request), finish, slow=slow)

        respond_later(self._node.create_service(kind, f'~/{name}', lambda *_: None), act)
