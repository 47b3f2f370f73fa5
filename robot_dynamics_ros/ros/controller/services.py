# SPDX-License-Identifier: Apache-2.0
"""Services and parameters of a controller: changes of its session, slow ones in the background."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import yaml
from rclpy.node import Node
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from robot_dynamics_ros.control.changes import (
    ParameterChange,
    PayloadChange,
    ReleaseChange,
    WaypointChange,
)
from robot_dynamics_ros.control.modes import SessionChange
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.model.robot_parameters import with_locked
from robot_dynamics_ros.ros.node import LATCHED, serve
from robot_dynamics_ros.ros.spinning import run_in_background

_DUMPER = getattr(yaml, 'CSafeDumper', yaml.SafeDumper)  # the C version if available
#: Period at which the age of the states is checked, s.
WATCH_PERIOD_S = 0.02


class SessionServices:
    """Applies the changes that services, topics and parameters request.

    Serves ``~/carry_payload``, ``~/resume`` and ``~/add_waypoint``. Publishes, latched, the active
    parameters on ``~/parameters`` and what becomes of a trajectory on ``~/trajectory_status``.

    Attributes:
        session: The session that is changed.

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
        self._publisher, self._status = (
            node.create_publisher(String, f'~/{name}', LATCHED)
            for name in ('parameters', 'trajectory_status')
        )
        self._prepared: ParameterChange | None = None
        self._published = ''
        self._serve(SetBool, 'carry_payload', lambda x: PayloadChange(session, x.data))
        self._serve(Trigger, 'resume', lambda _: ReleaseChange(session))
        self._serve(Trigger, 'add_waypoint', lambda _: WaypointChange(session))

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

    def log_law_remarks(self) -> None:
        """Log the law's warnings about its parameters."""
        for remark in self.session.loop.law.remarks():
            self._log.warning(remark)

    def check_parameters(self, changes: Mapping[str, Any]) -> None:
        """Prepare a parameter change; errors as in ``ControllerSession.prepare``."""
        self._prepared = None
        change = ParameterChange(self.session, changes)
        self.prepare(change)
        self._prepared = change

    def apply_parameters(self) -> None:
        """Commit the prepared parameter change, or log why it fails; publish the parameters."""
        change, self._prepared = self._prepared, None
        assert change is not None  # rclpy applies only checked changes
        try:
            self._log.info(self.session.commit(change))
        except RobotDynamicsError as error:  # rclpy would end the node
            self._log.error(str(error))
        if change.slow:
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

    def _serve(self, kind: Any, name: str, change: Callable[[Any], SessionChange]) -> None:
        """Serve a service that performs a change per request and responds with its result."""

        def act(request: Any) -> tuple[bool, str]:
            try:
                text = self.perform(change(request))
            except RobotDynamicsError as error:
                return False, str(error)
            self._log.info(text)
            return True, text

        serve(self._node, kind, name, act)
