# SPDX-License-Identifier: Apache-2.0
"""Parameters of a configured controller: changes are requests to its session."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import yaml
from rcl_interfaces.srv import SetParameters
from rclpy.node import Node
from std_msgs.msg import String

from robot_dynamics_ros.control.requests import Commit, builds_law, prepare_parameters
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.parameters import Values
from robot_dynamics_ros.ros.node import LATCHED, requested_values
from robot_dynamics_ros.ros.rclpy_compat import Respond

_DUMPER = getattr(yaml, 'CSafeDumper', yaml.SafeDumper)  # the C version if available


class ParameterRequests:
    """Checks, applies and publishes the parameters of a session, latched on ``~/parameters``.

    Args:
        node: The controller.
        session: The session.
        submit: Prepares a request, see ``RequestWorker.submit``.
        watch: Checks the age of the states.
    """

    def __init__(
        self,
        node: Node,
        session: ControllerSession,
        submit: Callable[..., None],
        watch: Callable[[], None],
    ) -> None:
        self._node, self.session, self._submit, self._watch = node, session, submit, watch
        self._log = node.get_logger()
        self._publisher = node.create_publisher(String, '~/parameters', LATCHED)
        self._prepared: Future[Any] | None = None
        self._commit: Commit | None = None
        self._has_new_law, self._published = False, ''

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

        self._submit(partial(self._prepare, values), finish, slow=builds_law(self.session, values))

    def _prepare(self, values: Values) -> Commit:
        """Prepare a change of those that the session has, not of those of ROS."""
        own = {name: x for name, x in values.items() if name in self.session.parameters}
        return prepare_parameters(self.session, own)

    def check(self, changes: Values) -> None:
        """Check a change of parameters, prepared or not; raises RobotDynamicsError."""
        prepared, self._prepared = self._prepared, None
        if prepared is None:
            self._commit = self._prepare(changes)
        else:
            self._commit = prepared.result()
            self._commit.check()
        self._has_new_law = builds_law(self.session, changes)

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
        self.session.simulate_time(self._node.get_parameter('use_sim_time').value)
        self._watch()  # with the new timeout
        self.publish()

    def log_law_remarks(self) -> None:
        """Log the law's warnings about its parameters, and that it takes no program."""
        law = self.session.loop.law
        try:
            remarks = tuple(map(str, law.remarks()))
        except Exception as error:  # of another package; rclpy would end the node
            place = f'law {law.name!r} ({type(law).__module__})'
            remarks = (f'{place} gives no remarks: {type(error).__name__}: {error}',)
        for remark in remarks:
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
            self._publisher.publish(String(data=text))
