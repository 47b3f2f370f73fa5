# SPDX-License-Identifier: Apache-2.0
"""What may change in a running session: trajectories, goals, parameters, payloads.

Each is made between two ticks, prepared in any thread while the ticks go on, and committed between
two ticks; see ``ControllerSession``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from robot_dynamics_ros.control.frame_wrench import TargetWrench
from robot_dynamics_ros.control.goals import prepare_goal
from robot_dynamics_ros.control.modes import SessionEvent
from robot_dynamics_ros.control.session import DECLARED, ControllerSession, SessionChange
from robot_dynamics_ros.control.settings import LoopSettings
from robot_dynamics_ros.control.setup import (
    LAW_CHANGES,
    check_laws,
    concerns_law,
    payload_from_parameters,
)
from robot_dynamics_ros.control.trajectories.prepared import Points
from robot_dynamics_ros.control.trajectories.tolerances import Outcome, ResultCode
from robot_dynamics_ros.control.trajectories.trajectory_file import add_waypoint
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.parameters import checked, counted
from robot_dynamics_ros.spatial.linear_algebra import array
from robot_dynamics_ros.spatial.scalar import Array

_SPEED = 'speed_scaling.initial_scaling_factor'


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
        return f'accepted: {counted(self._count, "point")} from {start * 1e-9:.9f} s'


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
        goals.begin(self._goal, self._end)
        count = counted(len(self._request.trajectory.points), 'point')
        text = f'accepted: goal of {count}, {loop.progress[1]:.3f} s'
        self._session.remark('info', text, text)
        return text

    def _end(self, outcome: Outcome) -> None:
        text = outcome.describe()
        failed = outcome.code is not ResultCode.SUCCESSFUL and not outcome.canceled
        self._session.remark('warning' if failed else 'info', text, text)
        self._ended(outcome)


class TargetChange(SessionChange):
    """Follow a target that streams, joints or a pose.

    Args:
        session: The session.
        read: Returns where the joints shall go, see ``StreamedTargets``.
    """

    subject = 'target'
    event = SessionEvent.FOLLOW

    def __init__(self, session: ControllerSession, read: Callable[[], Array]) -> None:
        self._session, self._read = session, read

    def prepare(self) -> None:
        """Read the target, see :class:`SessionChange`."""
        self._target = self._read()

    def commit(self) -> str:
        """Follow it, see :class:`SessionChange`."""
        session = self._session
        if not session.targets.follow(self._target):
            return ''
        session.goals.abort('replaced by streamed targets')
        return 'following streamed targets'


class SpeedChange(SessionChange):
    """Pass through trajectories more slowly, along the same path; through later ones as well.

    Args:
        session: The session.
        factor: 0 (stand still) to 1 (as asked).
    """

    subject = 'speed_scaling_input'

    def __init__(self, session: ControllerSession, factor: float) -> None:
        self._session, self._factor = session, float(factor)

    def prepare(self) -> None:
        """Check the factor, see :class:`SessionChange`."""
        if not 0.0 <= self._factor <= 1.0:
            raise ConfigurationError(self.subject, f'is {self._factor}', 'give a factor of 0 to 1')

    def commit(self) -> str:
        """Let it count, see :class:`SessionChange`."""
        speed = self._session.loop.speed
        changed, speed.wanted = speed.wanted != self._factor, self._factor
        ends = changed and self._factor in (0.0, 1.0)
        return f'speed scaling: {self._factor:g}' if ends else ''


class WrenchChange(SessionChange):
    """Press with a wrench that streams.

    Args:
        session: The session.
        read: Returns what ``StreamedTargets.wrench`` does.
    """

    subject = 'target wrench'

    def __init__(
        self, session: ControllerSession, read: Callable[[], tuple[TargetWrench, Array, bool]]
    ) -> None:
        self._session, self._read = session, read

    def prepare(self) -> None:
        """Read the wrench, see :class:`SessionChange`."""
        self._wrench = self._read()

    def commit(self) -> str:
        """Press with it, see :class:`SessionChange`."""
        self._session.targets.press(*self._wrench)
        return ''


class MeasuredWrench(SessionChange):
    """Take over what a force sensor tells.

    Args:
        session: The session.
        frame: Link of the sensor.
        wrench: Of the world on the arm there, in its axes, shape (6,), N and N m.
    """

    subject = 'measured wrench'

    def __init__(self, session: ControllerSession, frame: str, wrench: Sequence[float]) -> None:
        self._session, self._frame, self._told = session, frame, wrench

    @property
    def slow(self) -> bool:
        """Whether it is the first one from there, for which code is compiled."""
        return self._frame != self._session.loop.force.frame

    def prepare(self) -> None:
        """Check it, see :class:`SessionChange`."""
        self._wrench = array('measured wrench', self._told, (6,))
        self._efforts = self._session.loop.force.efforts(self._frame)

    def commit(self) -> str:
        """Let it count, see :class:`SessionChange`."""
        self._session.loop.force.feel(self._frame, self._efforts, self._wrench)
        return ''


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
        self._settings = LoopSettings.of(given)
        check_laws(session.tree, given, self.changed)
        needs_law = concerns_law(given, self.changed)
        self._law = session.make_law(given) if needs_law else None
        self._payload = payload_from_parameters(given)
        session.loop.check_payload(self._payload)
        session.contact.check(given)

    def commit(self) -> str:
        """Let them act, see :class:`SessionChange`."""
        session, changed = self._session, self.changed
        if self._law is not None and changed & {'law', *self._law.structural}:
            session.loop.change_law(self._law)
        elif self._law is not None:
            values = self._law.parameters
            session.loop.retune({name: values[name] for name in changed & values.keys()})
        session.loop.change_settings(self._settings)
        if _SPEED in changed:
            session.loop.speed.wanted = self._given[_SPEED]
        session.targets.configure(self._given)
        session.contact.configure(self._given)
        session.locked.configure(self._given)
        session.given = self._given
        held = session.waits_for_enabling
        session.enabling.configure(self._given, session.loop.law)
        if held and not session.loop.law.needs_enabling:
            self.event = SessionEvent.RELEASE
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


class ModelChange(SessionChange):
    """Take over a model whose locked joints are where they stand.

    Args:
        session: The session.
        load: Returns the robot with joints locked at given positions, rad or m, by name.
    """

    subject = 'model'

    def __init__(
        self, session: ControllerSession, load: Callable[[Mapping[str, float]], RobotTree]
    ) -> None:
        self._session, self._load = session, load
        self._locked = session.locked.known()

    def prepare(self) -> None:
        """Load the robot, compile its dynamics and make the law, see :class:`SessionChange`."""
        session = self._session
        self._given, self._carrying = session.given, session.carrying
        self._built = session.built_of(self._load(self._locked))

    def commit(self) -> str:
        """Let it act, see :class:`SessionChange`."""
        session = self._session
        if (session.given, session.carrying) != (self._given, self._carrying):
            raise ConfigurationError('model', 'parameters have changed meanwhile', 'try again')
        session.take_model(self._built)
        words = [f'{name}:={position!r}' for name, position in self._locked.items()]
        session.given = {**session.given, 'locked': words}
        return f'model with {", ".join(words)}'


class EnablingChange(SessionChange):
    """Take a message of the enabling switch.

    Args:
        session: The session.
        pressed: What it says.
    """

    subject = 'enabling'

    def __init__(self, session: ControllerSession, pressed: bool) -> None:
        self._session, self._pressed = session, pressed

    def commit(self) -> str:
        """Let it count, see :class:`SessionChange`."""
        self._session.enable(self._pressed)
        return ''


class WaypointChange(SessionChange):
    """Add where the arm is to the trajectory file of the parameters.

    Args:
        session: The session.
    """

    subject = 'way-point'

    def __init__(self, session: ControllerSession) -> None:
        self._session, self._position = session, session.loop.q.copy()

    def prepare(self) -> None:
        """Write it, see :class:`SessionChange`; what was written stays, whatever comes."""
        session, path = self._session, self._session.given['waypoint_file']
        if not path or not session.heard:
            problem = 'the arm has told no state' if path else 'waypoint_file is empty'
            raise ConfigurationError(self.subject, problem, 'name a file, and wait for states')
        share = session.given['guiding_speed_share']
        self._count = add_waypoint(path, session.tree, self._position, share)

    def commit(self) -> str:
        """Say which it is, see :class:`SessionChange`."""
        return f'{counted(self._count, "point")} in {self._session.given["waypoint_file"]}'


class ReleaseChange(SessionChange):
    """Go back to work after a contact; the only way to, but for a new activation.

    Args:
        session: The session.
    """

    subject = 'resume'
    event = SessionEvent.RELEASE

    def __init__(self, session: ControllerSession) -> None:
        self._session = session

    def commit(self) -> str:
        """Say so; the session does it, see :class:`SessionChange`."""
        self._session.remark('info', 'the reaction has ended', 'held: told to go on')
        return 'going on: holding where the arm is'
