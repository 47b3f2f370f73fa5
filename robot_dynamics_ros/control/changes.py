# SPDX-License-Identifier: Apache-2.0
"""What may change in a running session: trajectories, goals, parameters, payloads.

Each is made between two ticks, prepared in any thread while the ticks go on, and committed between
two ticks; see ``ControllerSession``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from robot_dynamics_ros.control.goals import prepare_goal
from robot_dynamics_ros.control.modes import SessionEvent
from robot_dynamics_ros.control.session import DECLARED, ControllerSession, SessionChange
from robot_dynamics_ros.control.setup import (
    LAW_CHANGES,
    check_laws,
    concerns_law,
    loop_settings,
    payload_from_parameters,
)
from robot_dynamics_ros.control.trajectories.reference_generator import Points
from robot_dynamics_ros.control.trajectories.tolerances import Outcome
from robot_dynamics_ros.parameters import checked


class TrajectoryChange(SessionChange):
    """Follow a trajectory; one without points brings the reference to rest.

    Args:
        session: The session.
        read: Returns points, or None if there are none, and the stamp of their start, ns, 0 for
            now; see ``message_arrays.read_trajectory``.
    """

    subject = 'trajectory'
    event = SessionEvent.FOLLOW

    def __init__(
        self, session: ControllerSession, read: Callable[[], tuple[Points | None, int]]
    ) -> None:
        self._session, self._read, self._moment = session, read, session.loop.moment()

    def prepare(self) -> None:
        """Read and check the trajectory, see :class:`SessionChange`."""
        points, start_ns = self._read()
        if points is None:
            self.event = SessionEvent.HOLD
            return
        self._count = len(points[0])
        self._prepared = self._session.loop.prepare(self._moment, points, start_ns)

    def commit(self) -> str:
        """Follow it, see :class:`SessionChange`."""
        loop, goals = self._session.loop, self._session.goals
        if self.event is SessionEvent.HOLD:
            goals.abort('replaced by an empty trajectory on the topic')
            loop.hold()
            return 'held: empty trajectory'
        start = loop.commit(self._prepared)
        goals.abort('replaced by a trajectory on the topic')
        return f'accepted: {self._count} points from {start * 1e-9:.9f} s'


class GoalChange(SessionChange):
    """Follow a goal.

    Args:
        session: The session.
        request: The goal, see ``prepare_goal``.
        ended: Called once with how it ended, if it was taken.
    """

    subject = 'trajectory'
    event = SessionEvent.FOLLOW

    def __init__(
        self, session: ControllerSession, request: Any, ended: Callable[[Outcome], None]
    ) -> None:
        self._session, self._request, self._ended = session, request, ended
        self._moment = session.loop.moment()

    def prepare(self) -> None:
        """Check the goal, see :class:`SessionChange`."""
        session = self._session
        self._goal = prepare_goal(session.loop, self._moment, self._request, session.given)

    def commit(self) -> str:
        """Follow it, see :class:`SessionChange`."""
        goals, loop = self._session.goals, self._session.loop
        goals.begin(self._goal, self._ended)
        count = len(self._request.trajectory.points)
        return f'following a goal of {count} points, {loop.progress[1]:.3f} s'


class ParameterChange(SessionChange):
    """Set parameters; a new law is made only if one of its own differs.

    Attributes:
        changed: Names of those that differ.

    Args:
        session: The session.
        values: By name; those that the session does not have are ignored.
    """

    subject = 'parameters'

    def __init__(self, session: ControllerSession, values: Mapping[str, Any]) -> None:
        self._session, given = session, session.given
        self.changed = {key for key, x in values.items() if key in given and given[key] != x}
        self._given = given | {key: values[key] for key in self.changed}

    @property
    def slow(self) -> bool:
        """Whether preparing it takes long: a program is examined and compiled for a second."""
        return not LAW_CHANGES.isdisjoint(self.changed)

    def prepare(self) -> None:
        """Check the parameters and make the law, see :class:`SessionChange`."""
        session = self._session
        self._given = checked(DECLARED, self._given, session.tree.n)
        given = session.driven(self._given)
        self._settings = loop_settings(given)
        check_laws(session.tree, given, self.changed)
        needs_law = concerns_law(given, self.changed)
        self._law = session.make_law(given) if needs_law else None
        self._payload = payload_from_parameters(given)
        session.loop.check_payload(self._payload)

    def commit(self) -> str:
        """Let them act, see :class:`SessionChange`."""
        session, changed = self._session, self.changed
        if self._law is not None and changed & {'law', 'program'}:
            session.loop.change_law(self._law)
        elif self._law is not None:
            values = self._law.parameters
            session.loop.retune({name: values[name] for name in changed & values.keys()})
        session.loop.change_settings(self._settings)
        session.given = self._given
        if session.carrying and any(name.startswith('payload_') for name in changed):
            session.loop.carry(self._payload, self._given['payload_transition_s'])
        return f'changed: {", ".join(sorted(changed)) or "nothing"}'


class PayloadChange(SessionChange):
    """Carry what the payload parameters describe, or nothing, as a gripper closes and opens.

    Args:
        session: The session.
        carried: Which of both.
    """

    subject = 'payload'

    def __init__(self, session: ControllerSession, carried: bool) -> None:
        self._session, self._carried = session, carried

    def prepare(self) -> None:
        """Check the payload, see :class:`SessionChange`."""
        self._payload = payload_from_parameters(self._session.given) if self._carried else None
        self._session.loop.check_payload(self._payload)

    def commit(self) -> str:
        """Carry it, see :class:`SessionChange`."""
        session, payload = self._session, self._payload
        session.loop.carry(payload, session.given['payload_transition_s'])
        session.carrying = self._carried
        if payload is None:
            return 'carrying nothing'
        return f'carrying {payload.mass:g} kg on {payload.frame}'
