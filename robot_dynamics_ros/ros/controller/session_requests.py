# SPDX-License-Identifier: Apache-2.0
"""Services, parameters, trajectories and streams of a controller: requests to its session.

Each is prepared, at once or in a thread, and acts between two ticks; what it says goes to its
sender and the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

import yaml
from rcl_interfaces.srv import SetParameters
from rclpy.node import Node
from rclpy.serialization import deserialize_message
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from robot_dynamics_ros.control.request_worker import Finish, RequestWorker
from robot_dynamics_ros.control.requests import (
    STREAMED,
    Apply,
    Commit,
    builds_law,
    compiles,
    prepare_message,
    prepare_parameters,
    prepare_payload,
    prepare_waypoint,
    tared,
)
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.topics import STREAMS
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError, TrajectoryError
from robot_dynamics_ros.messages import from_start
from robot_dynamics_ros.ros.conversions import leading_stamp_ns, message_class
from robot_dynamics_ros.ros.node import LATCHED, NEWEST, STEADY, requested_values, set_own
from robot_dynamics_ros.ros.rclpy_compat import Respond, respond_later, take_message

_POLL_PERIOD_S = 0.005  # at which the end of a slow preparation is noticed
_WARNING_PERIOD_S = 5.0  # between two warnings of a stream
#: Messages of more bytes (some hundred points) are deserialized in the background.
_LONG_MESSAGE = 16_384
_DUMPER = getattr(yaml, 'CSafeDumper', yaml.SafeDumper)  # the C version if available


class SessionRequests:
    """Makes all requests to a session but the goals of the action.

    Serves ``~/carry_payload``, ``~/resume``, ``~/add_waypoint`` and ``~/tare_wrench``. Subscribes
    to ``~/joint_trajectory`` (an empty one means: stop and hold), and to the streamed inputs whose
    message types are installed:

    * ``~/target_joint`` (JointState): target positions.
    * ``~/target_pose`` (PoseStamped): target pose of ``target_frame`` in the frame of any link.
    * ``~/target_wrench`` (WrenchStamped): wrench that the arm shall exert at ``target_frame``, in
      the axes of any link.
    * ``~/measured_wrench`` (WrenchStamped): wrench of the environment on the arm at the sensor's
      link, in its axes.
    * ``~/enable_guiding`` (Bool): whether the enabling switch is pressed.
    * ``~/speed_scaling_input`` (SpeedScalingFactor), if control_msgs is installed: as in
      joint_trajectory_controller.

    Publishes, latched, what becomes of a trajectory on ``~/trajectory_status``, and the parameters
    of the session on ``~/parameters``.

    Attributes:
        session: The session.
        worker: Prepares the requests.

    Args:
        node: The controller.
        session: The session.
        watch: Checks the age of the states.
    """

    def __init__(self, node: Node, session: ControllerSession, watch: Callable[[], None]) -> None:
        self._node, self.session, self._watch = node, session, watch
        self._log, self.worker = node.get_logger(), RequestWorker()
        self._poll = node.create_timer(_POLL_PERIOD_S, self._proceed, clock=STEADY)
        self._poll.cancel()
        self._status, self._parameters = (
            node.create_publisher(String, f'~/{name}', LATCHED)
            for name in ('trajectory_status', 'parameters')
        )
        self._prepared: Future[Any] | None = None
        self._commit: Commit | None = None
        self._has_new_law, self._published = False, ''
        self._serve(SetBool, 'carry_payload', lambda x: prepare_payload(session, x.data))
        self._serve(Trigger, 'resume', lambda _: session.resume)
        self._serve(Trigger, 'add_waypoint', lambda _: prepare_waypoint(session), slow=True)
        self._serve(Trigger, 'tare_wrench', lambda _: self._tare)
        take, kind = self._take_trajectory, JointTrajectory
        # As bytes, because the deserialization of a long message is slow.
        node.create_subscription(kind, '~/joint_trajectory', take, 1, raw=True)
        self._streams = {name: self._subscribe(name) for name in STREAMS}

    def submit(self, prepare: Callable[[], Apply], finish: Finish, **options: Any) -> None:
        """Prepare a request, and finish it between two ticks; see ``RequestWorker.submit``."""
        self.worker.submit(prepare, finish, **options)
        if self.worker.busy:
            self._poll.reset()

    def _proceed(self) -> None:
        self.worker.proceed()
        if not self.worker.busy:
            self._poll.cancel()

    def _request(
        self,
        prepare: Callable[[], Apply],
        done: Callable[[str], Any],
        refused: Callable[[RobotDynamicsError], Any],
        **options: Any,
    ) -> None:
        """Submit a request; tell what it returns, or why it is refused."""
        self.submit(prepare, lambda made: self._act(made.result, done, refused), **options)

    def _act(
        self,
        prepared: Callable[[], Apply],
        done: Callable[[str], Any],
        refused: Callable[[RobotDynamicsError], Any],
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

    # Services ------------------------------------------------------------------------------------

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

            self._request(partial(prepare, request), done, refused, slow=slow)

        respond_later(self._node.create_service(kind, f'~/{name}', lambda *_: None), act)

    def _tare(self) -> str:
        """Set the parameter ``sensor_bias`` of the node to what the sensor measures."""
        parameters, text = tared(self.session, time.perf_counter_ns())
        set_own(self._node, parameters)
        return text

    # Topics --------------------------------------------------------------------------------------

    def _take_trajectory(self, content: bytes) -> None:
        def refused(error: RobotDynamicsError) -> None:
            start = from_start(leading_stamp_ns(content))
            self._announce(f'rejected: {error} [trajectory {start}]')
            self._log.warning(f'trajectory rejected: {error}')

        follow = partial(prepare_message, self.session)
        if len(content) > _LONG_MESSAGE:
            self._request(lambda: follow(_read(content)), self._announce, refused, slow=True)
            return
        try:
            message = _read(content)
        except TrajectoryError as error:
            refused(error)
            return
        if message.points:
            self._request(partial(follow, message), self._announce, refused)
        else:  # at once
            self._act(lambda: self.session.hold, self._announce, refused)

    def _subscribe(self, name: str) -> Any:
        """Subscribe to a streamed input; None if its message type is not installed.

        Fast ones act at once, also while requests are being prepared.
        """
        log = self._log.get_child(name)  # whose throttle silences no other

        def done(text: str) -> None:
            if text:
                self._log.info(text)

        def refused(error: RobotDynamicsError) -> None:
            log.warning(f'refused: {error}', throttle_duration_sec=_WARNING_PERIOD_S)

        def take(message: Any) -> None:
            prepare = partial(STREAMED[name], self.session, message)
            if compiles(self.session, name, message):
                self._request(prepare, done, refused, slow=True, replaces=name)
            else:
                self._act(prepare, done, refused)

        # that of joint_trajectory_controller
        qos = LATCHED if name == 'speed_scaling_input' else NEWEST
        with suppress(ConfigurationError):
            kind = message_class(STREAMS[name])
            return self._node.create_subscription(kind, f'~/{name}', take, qos)

    def take_wrench(self) -> None:
        """Take a measured wrench that has arrived, before its state is answered."""
        wrenches = self._streams['measured_wrench']
        if (taken := take_message(wrenches)) is not None:
            wrenches.callback(taken[0])

    # Parameters ----------------------------------------------------------------------------------

    def set(
        self, set_now: Callable[[Any, Any], Any], request: Any, response: Any, respond: Respond
    ) -> None:
        """Set parameters as a service of rclpy does, after a slow part in the thread.

        Args:
            set_now: The callback of the service.
            request: Parameters to be set at once, or one after the other.
            response: The response.
            respond: Sends the response.
        """
        if not isinstance(request, SetParameters.Request):
            self._set(request, lambda: respond(set_now(request, response)))
            return
        rest = list(request.parameters)

        def set_next() -> None:
            if not rest:
                respond(response)
                return
            one = SetParameters.Request(parameters=[rest.pop(0)])

            def set_one() -> None:
                set_now(one, response)  # which appends its result
                set_next()

            self._set(one, set_one)

        set_next()

    def _set(self, request: Any, set_now: Callable[[], None]) -> None:
        """Prepare a change of parameters, then set them."""
        try:
            values = requested_values(self._node, request.parameters)
        except RobotDynamicsError:  # the reason for which they are refused
            set_now()
            return

        def finish(prepared: Future[Any]) -> None:
            self._prepared = prepared
            set_now()
            self._prepared = None

        self.submit(partial(self._prepare, values), finish, slow=builds_law(self.session, values))

    def _prepare(self, values: Mapping[str, Any]) -> Commit:
        """Prepare a change of those that the session has, not of those of ROS."""
        own = {name: x for name, x in values.items() if name in self.session.parameters}
        return prepare_parameters(self.session, own)

    def check(self, changes: Mapping[str, Any]) -> None:
        """Check a change of parameters, prepared or not; raises RobotDynamicsError."""
        prepared, self._prepared = self._prepared, None
        if prepared is None:
            self._commit = self._prepare(changes)
        else:
            self._commit = prepared.result()
            self._commit.check()
        self._has_new_law = builds_law(self.session, changes) or 'program' in changes

    def apply(self) -> None:
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
        self.publish()

    def log_law_remarks(self) -> None:
        """Log the law's warnings about its parameters, and that it takes no program."""
        law = self.session.loop.law
        for remark in law.remarks():
            self._log.warning(remark)
        if self.session.parameters['program'] and 'program' not in law.parameters:
            self._log.warning(
                f"parameter 'program' has no effect under law {law.name}; "
                'set law to constraint_stabilization'
            )

    def publish(self) -> None:
        """Publish the active parameters, ``measured`` as it was, if they have changed.

        Otherwise a new subscriber could lose a message that is replaced at once.
        """
        text = yaml.dump(self.session.published_parameters(), Dumper=_DUMPER)
        if text != self._published:
            self._published = text
            self._parameters.publish(String(data=text))


def _read(content: bytes) -> JointTrajectory:
    try:
        return deserialize_message(content, JointTrajectory)
    except RuntimeError as error:
        remedy = 'send a trajectory_msgs/msg/JointTrajectory'
        raise TrajectoryError('trajectory', f'cannot be read: {error}', remedy) from error
