# SPDX-License-Identifier: Apache-2.0
"""Changes of a session requested by streamed messages, of ROS or of a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from robot_dynamics_ros.control.frame_wrench import TargetWrench
from robot_dynamics_ros.control.modes import SessionChange, SessionEvent
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.spatial.linear_algebra import array
from robot_dynamics_ros.spatial.scalar import Array


class TargetChange(SessionChange):
    """Follow a streamed target: joint positions or a pose.

    Args:
        session: The session.
        read: Returns target positions of the joints, see ``StreamedTargets``.
        slow: Whether ``read`` is slow.
    """

    subject = 'target'
    event = SessionEvent.FOLLOW

    def __init__(
        self, session: ControllerSession, read: Callable[[], Array], slow: bool = False
    ) -> None:
        super().__init__(session)
        self._read, self.slow = read, slow

    def prepare(self) -> None:
        """Read the target; see :class:`SessionChange`."""
        self._target = self._read()

    def commit(self) -> str:
        """Set the target; see :class:`SessionChange`."""
        session = self._session
        if not session.targets.follow(self._target):
            return ''
        session.goals.abort('replaced by streamed targets')
        return 'following streamed targets'


class SpeedChange(SessionChange):
    """Scale the speed of this and later trajectories along the same path.

    Args:
        session: The session.
        factor: Speed factor, from 0 (standstill) to 1 (full speed).
    """

    subject = 'speed_scaling_input'

    def __init__(self, session: ControllerSession, factor: float) -> None:
        super().__init__(session)
        self._factor = float(factor)

    def prepare(self) -> None:
        """Check the factor; see :class:`SessionChange`."""
        if not 0.0 <= self._factor <= 1.0:
            raise ConfigurationError(self.subject, f'is {self._factor}', 'give a factor of 0 to 1')

    def commit(self) -> str:
        """Apply the factor; see :class:`SessionChange`."""
        speed = self._session.loop.generator.speed
        changed, speed.target = speed.target != self._factor, self._factor
        at_end = changed and self._factor in (0.0, 1.0)
        return f'speed scaling: {self._factor:g}' if at_end else ''


class WrenchChange(SessionChange):
    """Apply a streamed wrench.

    Args:
        session: The session.
        read: Returns the result of ``StreamedTargets.wrench``.
    """

    subject = 'target wrench'

    def __init__(
        self, session: ControllerSession, read: Callable[[], tuple[TargetWrench, Array, bool]]
    ) -> None:
        super().__init__(session)
        self._read = read

    def prepare(self) -> None:
        """Read the wrench; see :class:`SessionChange`."""
        self._wrench = self._read()

    def commit(self) -> str:
        """Apply the wrench; see :class:`SessionChange`."""
        self._session.targets.apply_wrench(*self._wrench)
        return ''


class MeasuredWrench(SessionChange):
    """Process the measurement of a force-torque sensor.

    Args:
        session: The session.
        frame: Link of the sensor.
        wrench: Wrench exerted on the arm at this link, in its axes, shape (6,), N and N m.
    """

    subject = 'measured wrench'

    def __init__(self, session: ControllerSession, frame: str, wrench: Sequence[float]) -> None:
        super().__init__(session)
        self._frame, self._numbers = frame, wrench
        self.slow = frame != session.loop.force.frame  # a new frame is compiled

    def prepare(self) -> None:
        """Check the wrench; see :class:`SessionChange`."""
        self._wrench = array('measured wrench', self._numbers, (6,))
        self._efforts = self._session.loop.force.efforts(self._frame)

    def commit(self) -> str:
        """Store the measurement; see :class:`SessionChange`."""
        self._session.loop.force.store(self._frame, self._efforts, self._wrench)
        return ''


class EnablingChange(SessionChange):
    """Process a message of the enabling switch.

    Args:
        session: The session.
        pressed: Whether the switch is pressed.
    """

    subject = 'enabling'

    def __init__(self, session: ControllerSession, pressed: bool) -> None:
        super().__init__(session)
        self._pressed = pressed

    def commit(self) -> str:
        """Update the switch; see :class:`SessionChange`."""
        self._session.enable(self._pressed)
        return ''


def _joint(session: ControllerSession, msg: Any) -> TargetChange:
    return TargetChange(session, partial(session.targets.joints, msg.name, msg.position))


def _pose(session: ControllerSession, msg: Any) -> TargetChange:
    p, x = msg.pose.position, msg.pose.orientation
    position, quaternion = (p.x, p.y, p.z), (x.x, x.y, x.z, x.w)
    read = partial(session.targets.pose, msg.header.frame_id, position, quaternion)
    return TargetChange(session, read, slow=True)


def _wrench(session: ControllerSession, msg: Any) -> WrenchChange:
    read = partial(session.targets.wrench, msg.header.frame_id, _numbers(msg))
    return WrenchChange(session, read)


def _measured(session: ControllerSession, msg: Any) -> MeasuredWrench:
    return MeasuredWrench(session, msg.header.frame_id, _numbers(msg))


def _numbers(msg: Any) -> tuple[float, ...]:
    """Return force and torque of a WrenchStamped, N and N m."""
    f, m = msg.wrench.force, msg.wrench.torque
    return (f.x, f.y, f.z, m.x, m.y, m.z)


#: Constructors of the change that a message requests, by the last part of the topic.
STREAMED: dict[str, Callable[[ControllerSession, Any], SessionChange]] = {
    'target_joint': _joint,
    'target_pose': _pose,
    'target_wrench': _wrench,
    'measured_wrench': _measured,
    'enable_guiding': lambda session, msg: EnablingChange(session, msg.data),
    'speed_scaling_input': lambda session, msg: SpeedChange(session, msg.factor),
}
