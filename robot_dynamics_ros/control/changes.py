# SPDX-License-Identifier: Apache-2.0
"""Changes of a running session: trajectories, goals, parameters, payloads.

A change is constructed between two ticks, prepared in any thread while ticks continue, and
committed between two ticks; see ``ControllerSession``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from robot_dynamics_ros.control.goals import Outcome, ResultCode, prepare_goal
from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.modes import SessionChange, SessionEvent, SessionMode
from robot_dynamics_ros.control.payload import PAYLOAD_TRANSITION_S
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.settings import LoopSettings
from robot_dynamics_ros.control.setup import (
    LAW_PARAMETER_NAMES,
    check_laws,
    law_parameters,
    payload_from_parameters,
)
from robot_dynamics_ros.control.trajectories.following import ReferenceSnapshot
from robot_dynamics_ros.control.trajectories.points import add_waypoint
from robot_dynamics_ros.control.trajectories.spline import Points
from robot_dynamics_ros.errors import ConfigurationError, ParameterError, RobotDynamicsError
from robot_dynamics_ros.parameters import checked, counted
from robot_dynamics_ros.spatial.scalar import Array

_MANY = 100  # points of a goal; with more, it is prepared in the background
_SPEED = 'speed_scaling.initial_scaling_factor'
_Read = Callable[[], tuple[Points | None, int]]


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

    def __init__(self, session: ControllerSession, read: _Read, slow: bool = False) -> None:
        super().__init__(session, read, session.loop.generator.snapshot())
        self.slow = slow

    def steps(
        self, session: ControllerSession, read: _Read, snapshot: ReferenceSnapshot
    ) -> Iterator[str]:
        """Read and check the trajectory; follow it. See :class:`SessionChange`."""
        loop, goals = session.loop, session.goals
        points, start_ns = read()
        if points is None:
            self.event = SessionEvent.HOLD
            yield ''
            goals.preempt('empty trajectory')
            loop.hold()
            yield 'held: empty trajectory'
            return
        prepared = loop.generator.prepare(snapshot, points, start_ns)
        yield ''
        start = loop.generator.commit(prepared)
        goals.preempt('trajectory')
        yield f'accepted: {counted(len(points[0]), "point")} from {start * 1e-9:.9f} s'


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
        super().__init__(session, request, ended, session.loop.generator.snapshot())
        self.slow = len(request.trajectory.points) > _MANY

    def steps(
        self,
        session: ControllerSession,
        request: Any,
        ended: Callable[[Outcome], None],
        snapshot: ReferenceSnapshot,
    ) -> Iterator[str]:
        """Check the goal; follow it. See :class:`SessionChange`."""
        loop = session.loop
        goal = prepare_goal(loop, snapshot, request, session.parameters)
        yield ''

        def end(outcome: Outcome) -> None:
            text = outcome.describe()
            asked_for = outcome.canceled or outcome.preempted
            failed = outcome.code is not ResultCode.SUCCESSFUL and not asked_for
            session.remark('warning' if failed else 'info', text, text)
            ended(outcome)

        session.goals.begin(*goal, session.parameters['action_feedback_period'], end)
        count = counted(len(request.trajectory.points), 'point')
        text = f'accepted: goal of {count}, {loop.generator.progress[1]:.3f} s'
        session.remark('info', text, text)
        yield text


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
        old = session.parameters
        self.changed = {key for key, x in values.items() if key in old and old[key] != x}
        position = session.loop.q.copy() if session.heard else None
        super().__init__(session, old | {key: values[key] for key in self.changed}, position)
        # Checking and compiling a program takes about a second.
        self.slow = not {*LAW_PARAMETER_NAMES, 'contact_reaction'}.isdisjoint(self.changed)

    def steps(
        self, session: ControllerSession, parameters: dict[str, Any], position: Array | None
    ) -> Iterator[str]:
        """Check the parameters and build the law; apply them. See :class:`SessionChange`."""
        loop, changed = session.loop, self.changed
        parameters = checked(session.declared, parameters, session.tree.n)
        driven = session.driven(parameters)
        settings = LoopSettings.of(driven)
        check_laws(session.tree, driven, changed)
        needs_law = not {'law', *law_parameters(driven)}.isdisjoint(changed)
        law = session.make_law(driven) if needs_law else None
        if law is not None and position is not None:
            law.require_stable(position, settings.sampling)
        follower = self._made_follower(session, driven)
        payload = payload_from_parameters(driven)
        loop.load.check(payload)
        session.contact.check(driven)
        yield ''
        try:
            if law is not None:
                loop.replace(loop.law, law, later=session.mode is SessionMode.REACTING)
            loop.change_settings(settings)
            if _SPEED in changed:
                loop.generator.speed.target = parameters[_SPEED]
            held = session.waits_for_enabling
            session.configure(parameters, follower)
            if held and not loop.law.needs_enabling:
                self.event = SessionEvent.RELEASE
            if session.carrying and any(name.startswith('payload_') for name in changed):
                loop.set_payload(payload, PAYLOAD_TRANSITION_S)
        except RobotDynamicsError as error:  # unexpected after the checks; may be partly applied
            raise RuntimeError(str(error)) from error
        yield f'changed: {", ".join(sorted(changed)) or "nothing"}'

    def _made_follower(
        self, session: ControllerSession, driven: Mapping[str, Any]
    ) -> ControlLaw | None:
        """Return the new follower; an error names the changed parameters."""
        try:
            return session.make_follower(driven)
        except ParameterError as error:
            problem = f'law computed_torque, which then holds the arm, cannot be built: {error}'
            names = ', '.join(sorted(self.changed))
            raise ConfigurationError(names, problem, 'correct it first') from error


class PayloadChange(SessionChange):
    """Attach or remove the payload of the parameters, for example when a gripper closes or opens.

    Args:
        session: The session.
        carried: Whether the payload is carried from now on.
    """

    subject = 'payload'

    def steps(self, session: ControllerSession, carried: bool) -> Iterator[str]:
        """Check the payload; change it. See :class:`SessionChange`."""
        payload = payload_from_parameters(session.parameters) if carried else None
        session.loop.load.check(payload)
        yield ''
        session.loop.set_payload(payload, PAYLOAD_TRANSITION_S)
        session.carrying = carried
        if payload is None:
            yield 'carrying nothing'
        else:
            yield f'carrying {payload.mass:g} kg on {payload.frame}'


class WaypointChange(SessionChange):
    """Append the present position to the file of parameter ``waypoint_file``.

    Args:
        session: The session.
    """

    subject = 'way-point'
    slow = True

    def __init__(self, session: ControllerSession) -> None:
        super().__init__(session, session.loop.q.copy())

    def steps(self, session: ControllerSession, position: Array) -> Iterator[str]:
        """Write the waypoint, which is not undone later. See :class:`SessionChange`."""
        path = session.parameters['waypoint_file']
        if not path or not session.heard:
            problem = 'no state has been received' if path else 'waypoint_file is empty'
            raise ConfigurationError(self.subject, problem, 'name a file, and wait for states')
        share = session.parameters['guiding_speed_share']
        count = add_waypoint(path, session.tree, position, share)
        yield ''
        yield f'{counted(count, "point")} in {path}'


class ReleaseChange(SessionChange):
    """Resume after a contact; the only way besides a new activation.

    Args:
        session: The session.
    """

    subject = 'resume'
    event = SessionEvent.RELEASE

    def steps(self, session: ControllerSession) -> Iterator[str]:
        """Report the end of the reaction; the session ends it. See :class:`SessionChange`."""
        yield ''
        session.remark('info', 'the reaction has ended', 'held: told to go on')
        yield 'going on: holding where the arm is'
