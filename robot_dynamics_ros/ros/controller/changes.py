# SPDX-License-Identifier: Apache-2.0
"""Changes of the controller's session: prepared in the background, committed between two."""

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

#: Time between two looks at the age of the states, s.
WATCH_PERIOD_S = 0.02


class SessionChanges:
    """Lets changes act that services, topics and parameters ask for.

    Serves ``~/carry_payload``, ``~/resume`` and ``~/add_waypoint``.

    Attributes:
        session: As given.
        services: To be destroyed with the node's topics.
        announce: Tells those who sent a trajectory what became of it; may be replaced.

    Args:
        node: The controller.
        session: What is changed.
        answer_state: Answers a state that waits; returns whether there was one.
        watch: Looks at the age of the states.
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
            self._serve(SetBool, 'carry_payload', lambda ask: PayloadChange(session, ask.data)),
            self._serve(Trigger, 'resume', lambda _: ReleaseChange(session)),
            self._serve(Trigger, 'add_waypoint', lambda _: WaypointChange(session)),
        ]

    def prepare(self, change: SessionChange) -> None:
        """Prepare a change, in the background if it takes long; errors as of the session."""
        if not change.slow:
            self.session.prepare(change)
            return
        prepare = self.session.prepare
        run_in_background(lambda: prepare(change), self._answer_state, self._watch, WATCH_PERIOD_S)

    def commit(self, change: SessionChange) -> str:
        """Let a prepared change act, and pass on what it ended before what it began."""
        text = self.session.commit(change)
        self.tell()
        return text

    def perform(self, change: SessionChange) -> str:
        """Prepare a change and let it act, see both."""
        self.prepare(change)
        return self.commit(change)

    def tell(self) -> None:
        """Pass on what the session remarks."""
        remarks = self.session.remarks
        while remarks:
            remark = remarks.popleft()
            if remark.level == 'error':  # rclpy wants a line of code for each
                self._log.error(remark.text)
            elif remark.level == 'warning':
                self._log.warning(remark.text)
            else:
                self._log.info(remark.text)
            if remark.status:
                self.announce(remark.status)

    def tell_of_law(self) -> None:
        """Pass on what may surprise in the parameters of the law."""
        for remark in self.session.loop.law.remarks():
            self._log.warning(remark)

    def _serve(self, kind: Any, name: str, change: Callable[[Any], SessionChange]) -> Service:
        """Return a service that makes a change of each request, and says what became of it."""

        def answer(request: Any, response: Any) -> Any:
            try:
                response.message = self.perform(change(request))
                response.success = True
                self._log.info(response.message)
            except RobotDynamicsError as error:
                response.success, response.message = False, str(error)
            return response

        return self._node.create_service(kind, f'~/{name}', answer)
