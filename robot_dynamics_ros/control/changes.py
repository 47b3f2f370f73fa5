# SPDX-License-Identifier: Apache-2.0
"""Changes of a running session: trajectories, goals, parameters, payloads, models.

A change is constructed between two ticks, prepared in any thread while ticks continue, and
committed between two ticks; see ``ControllerSession``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from robot_dynamics_ros.control.goals import prepare_goal
from robot_dynamics_ros.control.loop import CHANGE_SLEW
from robot_dynamics_ros.control.modes import SessionChange, SessionEvent
from robot_dynamics_ros.control.parts import DECLARED, Followers
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.settings import LoopSettings
from robot_dynamics_ros.control.setup import (
    LAW_PARAMETER_NAMES,
    check_laws,
    law_parameters,
    payload_from_parameters,
)
from robot_dynamics_ros.control.trajectories.points import add_waypoint
from robot_dynamics_ros.control.trajectories.tolerances import Outcome, ResultCode
from robot_dynamics_ros.control.trajectories.waypoints import Points
from robot_dynamics_ros.errors import ConfigurationError, ParameterError, RobotDynamicsError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.parameters import checked, counted

_MANY = 100  # points of a goal; with more, it is prepared in the background
_AGAIN_NS = 1_000_000_000  # delay before a retry after a rejected model
_SPEED = 'speed_scaling.initial_scaling_factor'


class TrajectoryChange(SessionChange):
    """Follow a trajectory; one without points brings the reference to rest.

    Args:
        session: The session.
        read: Returns the points, or None if there are none, and the start time, ns, 0 for now;
            see ``points.read_trajectory``.
        slow: Whether ``read`` is slow.
    """

    subject = 'trajectory'
    event = SessionEvent.FOLLOW

    def __init__(
        self,
        session: ControllerSession,
        read: Callable[[], tuple[Points | None, int]],
        slow: bool = False,
    ) -> None:
        super().__init__(session)
        self._read, self._snapshot, self.slow = read, session.loop.generator.snapshot(), slow

    def prepare(self) -> None:
        """Read and check the trajectory; see :class:`SessionChange`."""
        points, start_ns = self._read()
        if points is None:
            self.event = SessionEvent.HOLD
            return
        self._count = len(points[0])
        self._prepared = self._session.loop.generator.prepare(self._snapshot, points, start_ns)

    def commit(self) -> str:
        """Start to follow the trajectory; see :class:`SessionChange`."""
        loop, goals = self._session.loop, self._session.goals
        if self.event is SessionEvent.HOLD:
            goals.abort('replaced by an empty trajectory on the topic')
            loop.hold()
            return 'held: empty trajectory'
        start = loop.generator.commit(self._prepared)
        goals.abort('replaced by a trajectory on the topic')
        return f'accepted: {counted(self._count, "point")} from {start * 1e-9:.9f} s'


class GoalChange(SessionChange):
    """Follow a goal.

    Args:
        session: The session.
        request: The goal, see ``prepare_goal``.
        ended: Called once with the outcome, if the goal was accepted.
    """

    subject = 'trajectory'
    event = SessionEvent.FOLLOW

    def __init__(
        self, session: ControllerSession, request: Any, ended: Callable[[Outcome], None]
    ) -> None:
        super().__init__(session)
        self._request, self._ended = request, ended
        self._snapshot = session.loop.generator.snapshot()
        self.slow = len(request.trajectory.points) > _MANY

    def prepare(self) -> None:
        """Check the goal; see :class:`SessionChange`."""
        session = self._session
        self._goal = prepare_goal(session.loop, self._snapshot, self._request, session.parameters)

    def commit(self) -> str:
        """Start to follow the goal; see :class:`SessionChange`."""
        goals, loop = self._session.goals, self._session.loop
        period = self._session.parameters['action_feedback_period']
        goals.begin(*self._goal, period, self._end)
        count = counted(len(self._request.trajectory.points), 'point')
        text = f'accepted: goal of {count}, {loop.generator.progress[1]:.3f} s'
        self._session.remark('info', text, text)
        return text

    def _end(self, outcome: Outcome) -> None:
        text = outcome.describe()
        failed = outcome.code is not ResultCode.SUCCESSFUL and not outcome.canceled
        self._session.remark('warning' if failed else 'info', text, text)
        self._ended(outcome)


class ParameterChange(SessionChange):
    """Set parameters; the law is rebuilt only if ``law`` or one of its parameters changes.

    Attributes:
        changed: Names of the parameters whose values differ.

    Args:
        session: The session.
        values: By name; names that the session does not have are ignored.
    """

    subject = 'parameters'

    def __init__(self, session: ControllerSession, values: Mapping[str, Any]) -> None:
        super().__init__(session)
        old = session.parameters
        self.changed = {key for key, x in values.items() if key in old and old[key] != x}
        self._parameters = old | {key: values[key] for key in self.changed}
        # Checking and compiling a program takes about a second.
        self.slow = not {*LAW_PARAMETER_NAMES, 'contact_reaction'}.isdisjoint(self.changed)

    def prepare(self) -> None:
        """Check the parameters and build the law; see :class:`SessionChange`."""
        session = self._session
        self._parameters = checked(DECLARED, self._parameters, session.tree.n)
        driven = session.driven(self._parameters)
        self._settings = LoopSettings.of(driven)
        check_laws(session.tree, driven, self.changed)
        needs_law = not {'law', *law_parameters(driven)}.isdisjoint(self.changed)
        self._law = session.make_law(driven) if needs_law else None
        self._followers = self._made_followers(driven)
        self._payload = payload_from_parameters(driven)
        session.loop.load.check(self._payload)
        session.contact.check(driven)

    def _made_followers(self, driven: Mapping[str, Any]) -> Followers:
        """Return the new followers; an error names the changed parameters."""
        try:
            return self._session.make_followers(driven)
        except ParameterError as error:
            problem = f'law computed_torque, which then holds the arm, cannot be built: {error}'
            names = ', '.join(sorted(self.changed))
            raise ConfigurationError(names, problem, 'correct it first') from error

    def commit(self) -> str:
        """Apply the parameters; see :class:`SessionChange`."""
        try:
            return self._act()
        except RobotDynamicsError as error:  # unexpected after ``prepare``; may be partly applied
            raise RuntimeError(str(error)) from error

    def _act(self) -> str:
        session, changed = self._session, self.changed
        if self._law is not None and changed & {'law', *self._law.structural}:
            session.loop.change_law(self._law)
        elif self._law is not None:
            values = self._law.parameters
            own = {name: values[name] for name in changed & values.keys()}
            session.loop.law.set_parameters(own)
            session.loop.limiter.soften(CHANGE_SLEW)
        session.loop.change_settings(self._settings)
        if _SPEED in changed:
            session.loop.generator.speed.target = self._parameters[_SPEED]
        held = session.waits_for_enabling
        session.configure(self._parameters, self._followers)
        if session.loop.reaction is not None:  # its gains may have changed
            session.loop.limiter.soften(CHANGE_SLEW)
        if held and not session.loop.law.needs_enabling:
            self.event = SessionEvent.RELEASE
        if session.carrying and any(name.startswith('payload_') for name in changed):
            session.loop.set_payload(self._payload, self._parameters['payload_transition_s'])
        return f'changed: {", ".join(sorted(changed)) or "nothing"}'


class PayloadChange(SessionChange):
    """Attach or remove the payload of the parameters, for example when a gripper closes or opens.

    Args:
        session: The session.
        carried: Whether the payload is carried from now on.
    """

    subject = 'payload'

    def __init__(self, session: ControllerSession, carried: bool) -> None:
        super().__init__(session)
        self._carried = carried

    def prepare(self) -> None:
        """Check the payload; see :class:`SessionChange`."""
        self._payload = (
            payload_from_parameters(self._session.parameters) if self._carried else None
        )
        self._session.loop.load.check(self._payload)

    def commit(self) -> str:
        """Change the payload; see :class:`SessionChange`."""
        session, payload = self._session, self._payload
        session.loop.set_payload(payload, session.parameters['payload_transition_s'])
        session.carrying = self._carried
        if payload is None:
            return 'carrying nothing'
        return f'carrying {payload.mass:g} kg on {payload.frame}'


class ModelChange(SessionChange):
    """Replace the model by one with the locked joints at their measured positions.

    Args:
        session: The session.
        load: Returns the robot with joints locked at given positions, rad or m, by name.
    """

    subject = 'model'
    slow = True

    def __init__(
        self, session: ControllerSession, load: Callable[[Mapping[str, float]], RobotTree]
    ) -> None:
        super().__init__(session)
        self._load = load
        self._locked = session.locked.positions()

    def prepare(self) -> None:
        """Load the robot, compile its dynamics and build the law; see :class:`SessionChange`."""
        session = self._session
        self._parameters, self._carrying = session.parameters, session.carrying
        self._other = session.built_of(self._load(self._locked))

    def commit(self) -> str:
        """Replace the model; see :class:`SessionChange`."""
        session = self._session
        if (session.parameters, session.carrying) != (self._parameters, self._carrying):
            raise ConfigurationError('model', 'parameters have changed meanwhile', 'try again')
        session.take_model(self._other)
        session.parameters = with_locked(session.parameters, self._locked)
        return f'model with {", ".join(session.parameters["locked"])}'


def with_locked(parameters: Mapping[str, Any], positions: Mapping[str, float]) -> dict[str, Any]:
    """Return parameters with joints locked at given positions, rad or m, by name."""
    words = [f'{name}:={position!r}' for name, position in positions.items()]
    return {**parameters, 'locked': words}


class LockedJointModel:
    """Updates the model of a session to the measured positions of locked joints.

    Args:
        session: The session.
        load: See :class:`ModelChange`.
        measured: Names of the joints that are locked at their position at activation.
        perform: Prepares and commits a change; returns a sentence that describes it.
    """

    def __init__(
        self,
        session: ControllerSession,
        load: Callable[[Mapping[str, float]], RobotTree],
        measured: tuple[str, ...],
        perform: Callable[[SessionChange], str],
    ) -> None:
        self._session, self._load, self._measured = session, load, measured
        self._perform, self._deviation, self._not_before_ns = perform, '', 0

    def has_news(self) -> bool:
        """Return whether a deviation has begun or ended since the last call."""
        before, self._deviation = self._deviation, self._session.locked.deviation
        return bool(before) != bool(self._deviation)

    def missing(self) -> str:
        """Return an error text if a position in ``measured`` is unknown; empty otherwise."""
        names = self._session.locked.unmeasured(self._measured)
        return f'no position of locked joint {names[0]!r} was received' if names else ''

    def before_activation(self) -> None:
        """Update the model to the measured positions before activation.

        Raises:
            RobotDynamicsError: A position is unknown, or the model is rejected.
        """
        if missing := self.missing():
            raise ConfigurationError('not activated', missing, 'publish it in the joint states')
        if self._session.locked.needs_model or self._session.locked.differs(self._measured):
            self._perform(ModelChange(self._session, self._load))

    def follow(self, now_ns: int) -> str:
        """Update the model if required; return a sentence about it, or an empty string.

        Args:
            now_ns: Time on a steady clock, ns; after a rejection, a retry takes place no earlier
                than one second later.
        """
        if not self._session.locked.needs_model or now_ns < self._not_before_ns:
            return ''
        try:
            return self._perform(ModelChange(self._session, self._load))
        except RobotDynamicsError as error:
            self._not_before_ns = now_ns + _AGAIN_NS
            return str(error)


class WaypointChange(SessionChange):
    """Append the present position to the file of parameter ``waypoint_file``.

    Args:
        session: The session.
    """

    subject = 'way-point'
    slow = True

    def __init__(self, session: ControllerSession) -> None:
        super().__init__(session)
        self._position = session.loop.q.copy()

    def prepare(self) -> None:
        """Write the waypoint, which is not undone later; see :class:`SessionChange`."""
        session, path = self._session, self._session.parameters['waypoint_file']
        if not path or not session.heard:
            problem = 'no state has been received' if path else 'waypoint_file is empty'
            raise ConfigurationError(self.subject, problem, 'name a file, and wait for states')
        share = session.parameters['guiding_speed_share']
        self._count = add_waypoint(path, session.tree, self._position, share)

    def commit(self) -> str:
        """Return the number of waypoints in the file; see :class:`SessionChange`."""
        return f'{counted(self._count, "point")} in {self._session.parameters["waypoint_file"]}'


class ReleaseChange(SessionChange):
    """Resume after a contact; the only way besides a new activation.

    Args:
        session: The session.
    """

    subject = 'resume'
    event = SessionEvent.RELEASE

    def commit(self) -> str:
        """Report the end of the reaction; the session ends it. See :class:`SessionChange`."""
        self._session.remark('info', 'the reaction has ended', 'held: told to go on')
        return 'going on: holding where the arm is'
