# SPDX-License-Identifier: Apache-2.0
"""Changes of the controller session: prepared in the background, committed between two ticks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rclpy.service import Service
from std_srvs.srv import SetBool, Trigger

from robot_dynamics_ros.control.changes import PayloadChange, ReleaseChange, WaypointChange
from robot_dynamics_ros.control.modes import SessionChange
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.ros.spinning import run_in_background

#: Period at which the age of the states is checked, s.
WATCH_PERIOD_S = 0.02


class SessionChanges:
    """Applies the changes that services, topics and parameters request.

    Serves ``~/carry_payload``, ``~/resume`` and ``~/add_waypoint``.

    Attributes:
        session: The session that is changed.
        services: The services, to be destroyed with the node's topics.
        announce: Publishes the status of a trajectory; may be replaced.

    Args:
        node: The controller.
        session: The session that is changed.
        answer_state: Answers a pending state; returns whether there was one.
        watch: Checks the age of the states.
    """

    def __init__(
        self,
        node: Node,
        session: ControllerSession,
        answer_state: Callable[[], bool],
        watch: Callable[[], None],
    ) -> None:
        self._node, self.session = node, session
        self._answer_state, self._watch = answer_state, watch
        self._log = node.get_logger()
        self.announce: Callable[[str], None] = self._log.debug
        self.services = [
            self._serve(SetBool, 'carry_payload', lambda x: PayloadChange(session, x.data)),
            self._serve(Trigger, 'resume', lambda _: ReleaseChange(session)),
            self._serve(Trigger, 'add_waypoint', lambda _: WaypointChange(session)),
        ]

    def prepare(self, change: SessionChange) -> None:
        """Prepare a change, in the background if it is slow; errors as in the session."""
        if not change.slow:
            self.session.prepare(change)
            return
        prepare = self.session.prepare
        run_in_background(lambda: prepare(change), self._answer_state, self._watch, WATCH_PERIOD_S)

    def commit(self, change: SessionChange) -> str:
        """Commit a change, publish its remarks, such as an aborted goal; return its message."""
        text = self.session.commit(change)
        self.log_remarks()
        return text

    def perform(self, change: SessionChange) -> str:
        """Prepare and commit a change; return its message."""
        self.prepare(change)
        return self.commit(change)

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

    def log_law_remarks(self) -> None:
        """Log the law's warnings about its parameters."""
        for remark in self.session.loop.law.remarks():
            self._log.warning(remark)

    def _serve(self, kind: Any, name: str, change: Callable[[Any], SessionChange]) -> Service:
        """Return a service that performs a change per request and responds with its result."""

        def answer(request: Any, response: Any) -> Any:
            try:
                response.message = self.perform(change(request))
                response.success = True
                self._log.info(response.message)
            except RobotDynamicsError as error:
                response.success, response.message = False, str(error)
            return response

        return self._node.create_service(kind, f'~/{name}', answer)
