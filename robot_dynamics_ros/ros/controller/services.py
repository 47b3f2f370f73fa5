# SPDX-License-Identifier: Apache-2.0
"""Services, parameters and streamed messages of a controller: requests to its session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

import yaml
from rcl_interfaces.srv import SetParameters
from rclpy.node import Node
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from robot_dynamics_ros.control.requests import (
    STREAMED,
    Apply,
    Commit,
    builds_law,
    compiles,
    prepare_parameters,
    prepare_payload,
    prepare_waypoint,
)
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.topics import STREAMS
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError
from robot_dynamics_ros.model.robot_parameters import with_locked
from robot_dynamics_ros.ros.controller.worker import Finish, RequestWorker
from robot_dynamics_ros.ros.conversions import message_class
from robot_dynamics_ros.ros.node import LATCHED, NEWEST, STEADY, requested_values
from robot_dynamics_ros.ros.rclpy_compat import Respond, respond_later

_DUMPER = getattr(yaml, 'CSafeDumper', yaml.SafeDumper)  # the C version if available
_POLL_PERIOD_S = 0.005  # at which the end of a slow preparation is noticed
_WARNING_PERIOD_S = 5.0  # between two warnings of refused messages


class SessionServices:
    """Makes the requests of services, topics and parameters to a session.

    Serves ``~/carry_payload``, ``~/resume`` and ``~/add_waypoint``. Publishes, latched, the active
    parameters on ``~/parameters`` and what becomes of a trajectory on ``~/trajectory_status``.

    Attributes:
        session: The session.

    Args:
        node: The controller.
        session: The session.
        watch: Checks the age of the states.
    """

    def __init__(self, node: Node, session: ControllerSession, watch: Callable[[], None]) -> None:
        self._node, self.session, self._watch = node, session, watch
        self._worker = RequestWorker()
        self._poll = node.create_timer(_POLL_PERIOD_S, self._proceed, clock=STEADY)
        self._poll.cancel()
        self._log = node.get_logger()
        self._publisher, self._status = (
            node.create_publisher(String, f'~/{name}', LATCHED)
            for name in ('parameters', 'trajectory_status')
        )
        self._prepared: Future[Any] | None = None
        self._commit: Commit | None = None
        self._has_new_law = False
        self._published = ''
        self._serve(SetBool, 'carry_payload', lambda x: prepare_payload(session, x.data))
        self._serve(Trigger, 'resume', lambda _: session.resume)
        self._serve(Trigger, 'add_waypoint', lambda _: prepare_waypoint(session), slow=True)
        for name, kind in STREAMS.items():
            self._subscribe(name, kind)

    def submit(self, prepare: Callable[[], Apply], finish: Finish, **options: Any) -> None:
        """Prepare a request, and finish it between two ticks; see ``RequestWorker.submit``."""
        self._worker.submit(prepare, finish, **options)
        if self._worker.busy:
            self._poll.reset()

    def _proceed(self) -> None:
        self._worker.proceed()
        if not self._worker.busy:
            self._poll.cancel()

    def close(self) -> None:
        """Refuse what is being prepared."""
        self._worker.close()

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
            else:
                self._log.info(remark.text)
            if remark.status:
                self.announce(remark.status)

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

    # Streamed messages --------------------------------------------------------------------------

    def _subscribe(self, name: str, kind: str) -> None:
        """Subscribe to a stream, unless its message type is not installed.

        * ``~/target_joint`` (JointState): target positions.
        * ``~/target_pose`` (PoseStamped): pose of ``target_frame`` in the frame of any link.
        * ``~/target_wrench`` (WrenchStamped): wrench that the arm shall exert at ``target_frame``,
          in the axes of any link.
        * ``~/measured_wrench`` (WrenchStamped): wrench of the environment on the arm at the
          sensor's link, in its axes.
        * ``~/enable_guiding`` (Bool): whether the enabling switch is pressed.
        * ``~/speed_scaling_input`` (SpeedScalingFactor), if control_msgs is installed: as in
          joint_trajectory_controller.
        """
        # that of joint_trajectory_controller
        qos = LATCHED if name == 'speed_scaling_input' else NEWEST
        with suppress(ConfigurationError):  # control_msgs is not installed
            message = message_class(kind)
            self._node.create_subscription(message, f'~/{name}', partial(self._take, name), qos)

    def _take(self, name: str, msg: Any) -> None:
        """Act on a streamed message: at once, also while requests are prepared, if it is fast."""
        prepare = partial(STREAMED[name], self.session, msg)
        if compiles(self.session, name, msg):
            self.submit(prepare, self._finish_stream, slow=True, replaces=name)
            return
        self._apply_stream(prepare)

    def _finish_stream(self, prepared: Future[Apply]) -> None:
        self._apply_stream(prepared.result)

    def _apply_stream(self, prepare: Callable[[], Apply]) -> None:
        try:
            if text := prepare()():
                self._log.info(text)
        except RobotDynamicsError as error:
            self._log.warning(f'refused: {error}', throttle_duration_sec=_WARNING_PERIOD_S)
        self.log_remarks()

    def log_law_remarks(self) -> None:
        """Log the law's warnings about its parameters."""
        for remark in self.session.loop.law.remarks():
            self._log.warning(remark)

    # Parameters ---------------------------------------------------------------------------------

    def set_parameters(
        self, set_now: Callable[[Any, Any], Any], request: Any, response: Any, respond: Respond
    ) -> None:
        """Set parameters as a service of rclpy does, after a slow part in the thread.

        Args:
            set_now: The callback of the service.
            request: Parameters to be set at once, or one after the other.
            response: The response.
            respond: Sends the response.
        """
        if isinstance(request, SetParameters.Request):
            rest = list(request.parameters)

            def set_next() -> None:
                if not rest:
                    respond(response)
                    return
                one = SetParameters.Request(parameters=[rest.pop(0)])
                self._set(one, lambda: add(set_now(one, SetParameters.Response())))

            def add(result: Any) -> None:
                response.results = [*response.results, *result.results]
                set_next()

            set_next()
        else:
            self._set(request, lambda: respond(set_now(request, response)))

    def _set(self, request: Any, set_now: Callable[[], None]) -> None:
        """Prepare a change of parameters, then set them."""
        values = requested_values(self._node, request.parameters)

        def finish(prepared: Future[Any]) -> None:
            self._prepared = prepared
            set_now()
            self._prepared = None

        prepare = partial(prepare_parameters, self.session, values)
        self.submit(prepare, finish, slow=builds_law(self.session, values))

    def check_parameters(self, changes: Mapping[str, Any]) -> None:
        """Check a change of parameters, prepared or not; raises RobotDynamicsError."""
        prepared, self._prepared = self._prepared, None
        if prepared is None:
            self._commit = prepare_parameters(self.session, changes)
        else:
            self._commit = prepared.result()
            self._commit.check()
        self._has_new_law = builds_law(self.session, changes)

    def apply_parameters(self) -> None:
        """Commit the checked change of parameters, or log why it fails; publish the parameters."""
        commit, self._commit = self._commit, None
        assert commit is not None  # rclpy applies only checked changes
        try:
            self._log.info(commit())
        except RobotDynamicsError as error:  # rclpy would end the node
            self._log.error(str(error))
        if self._has_new_law:
            self.log_law_remarks()
        self._watch()  # with the new timeout
        self.publish_parameters()

    def publish_parameters(self) -> None:
        """Publish the active parameters, ``measured`` as it was, if they have changed.

        Otherwise a new subscriber could lose a message that is replaced at once.
        """
        values = with_locked(self.session.parameters, self.session.locked.taken)
        values['robot_description'] = ''  # has its own topic
        text = yaml.dump(values, Dumper=_DUMPER)
        if text != self._published:
            self._published = text
            self._publisher.publish(String(data=text))
