# SPDX-License-Identifier: Apache-2.0
"""Changes of a session requested by streamed messages, of ROS or of a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.control.modes import SessionChange, SessionEvent
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.targets import TargetWrench
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import array

_MAX_WRENCH = 1e6  # N and N m: larger values are invalid


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
        super().__init__(session, read)
        self.slow = slow

    def steps(self, session: ControllerSession, read: Callable[[], Array]) -> Iterator[str]:
        """Read the target; set it. See :class:`SessionChange`."""
        targets = session.targets
        before, target = targets.shortfall, read()
        yield ''
        if targets.shortfall and not before:
            session.remark('warning', targets.shortfall, targets.shortfall)
        if not targets.follow(target):
            yield ''
        else:
            session.goals.preempt('streamed targets')
            yield 'following streamed targets'


class SpeedChange(SessionChange):
    """Scale the speed of this and later trajectories along the same path.

    Args:
        session: The session.
        factor: Speed factor, from 0 (standstill) to 1 (full speed).
    """

    subject = 'speed_scaling_input'

    def steps(self, session: ControllerSession, factor: float) -> Iterator[str]:
        """Check the factor; apply it. See :class:`SessionChange`."""
        factor, speed = float(factor), session.loop.generator.speed
        if not 0.0 <= factor <= 1.0:
            raise ConfigurationError(self.subject, f'is {factor}', 'give a factor of 0 to 1')
        yield ''
        changed, speed.target = speed.target != factor, factor
        yield f'speed scaling: {factor:g}' if changed and factor in (0.0, 1.0) else ''


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
        super().__init__(session, read)
        self.slow = session.targets.is_at_new_frame  # which is compiled

    def steps(
        self, session: ControllerSession, read: Callable[[], tuple[TargetWrench, Array, bool]]
    ) -> Iterator[str]:
        """Read the wrench; apply it. See :class:`SessionChange`."""
        wrench = read()
        yield ''
        session.targets.apply_wrench(*wrench)
        yield ''


class MeasuredWrench(SessionChange):
    """Process the measurement of a force-torque sensor.

    Args:
        session: The session.
        frame: Link of the sensor.
        wrench: Wrench exerted on the arm at this link, in its axes, shape (6,), N and N m.
    """

    subject = 'measured wrench'

    def __init__(self, session: ControllerSession, frame: str, wrench: Sequence[float]) -> None:
        super().__init__(session, frame, wrench)
        self.slow = frame != session.loop.force.frame  # a new frame is compiled

    def steps(
        self, session: ControllerSession, frame: str, wrench: Sequence[float]
    ) -> Iterator[str]:
        """Check the wrench; store it. See :class:`SessionChange`."""
        values = array('measured wrench', wrench, (6,))
        if np.abs(values).max() > _MAX_WRENCH:
            raise ConfigurationError(self.subject, f'is {values.tolist()}', 'check the sensor')
        efforts = session.loop.force.efforts(frame)
        yield ''
        session.loop.force.store(frame, efforts, values)
        yield ''


class EnablingChange(SessionChange):
    """Process a message of the enabling switch.

    Args:
        session: The session.
        pressed: Whether the switch is pressed.
    """

    subject = 'enabling'

    def steps(self, session: ControllerSession, pressed: bool) -> Iterator[str]:
        """Update the switch. See :class:`SessionChange`."""
        yield ''
        session.enable(pressed)
        yield ''


def _joint(session: ControllerSession, msg: Any) -> TargetChange:
    return TargetChange(session, lambda: session.targets.joints(msg.name, msg.position))


def _pose(session: ControllerSession, msg: Any) -> TargetChange:
    p, x = msg.pose.position, msg.pose.orientation
    position, quaternion = (p.x, p.y, p.z), (x.x, x.y, x.z, x.w)
    frame, q = msg.header.frame_id, session.loop.q.copy()
    return TargetChange(
        session, lambda: session.targets.pose(frame, position, quaternion, q), slow=True
    )


def _wrench(session: ControllerSession, msg: Any) -> WrenchChange:
    frame, q = msg.header.frame_id, session.loop.q.copy()
    return WrenchChange(session, lambda: session.targets.wrench(frame, _numbers(msg), q))


def _numbers(msg: Any) -> tuple[float, ...]:
    """Return force and torque of a WrenchStamped, N and N m."""
    f, m = msg.wrench.force, msg.wrench.torque
    return (f.x, f.y, f.z, m.x, m.y, m.z)


#: Constructors of the change that a message requests, by the last part of the topic.
STREAMED: dict[str, Callable[[ControllerSession, Any], SessionChange]] = {
    'target_joint': _joint,
    'target_pose': _pose,
    'target_wrench': _wrench,
    'measured_wrench': lambda session, msg: MeasuredWrench(
        session, msg.header.frame_id, _numbers(msg)
    ),
    'enable_guiding': lambda session, msg: EnablingChange(session, msg.data),
    'speed_scaling_input': lambda session, msg: SpeedChange(session, msg.factor),
}
