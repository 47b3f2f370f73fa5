# SPDX-License-Identifier: Apache-2.0
"""The changes that streamed messages ask for, whoever made the messages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from robot_dynamics_ros.control.changes import (
    EnablingChange,
    MeasuredWrench,
    SpeedChange,
    TargetChange,
    WrenchChange,
)
from robot_dynamics_ros.control.session import ControllerSession, SessionChange


def _joint(session: ControllerSession, msg: Any) -> TargetChange:
    return TargetChange(session, partial(session.targets.joints, msg.name, msg.position))


def _pose(session: ControllerSession, msg: Any) -> TargetChange:
    p, x = msg.pose.position, msg.pose.orientation
    place, turn = (p.x, p.y, p.z), (x.x, x.y, x.z, x.w)
    return TargetChange(session, partial(session.targets.pose, msg.header.frame_id, place, turn))


def _wrench(session: ControllerSession, msg: Any) -> WrenchChange:
    read = partial(session.targets.wrench, msg.header.frame_id, _numbers(msg))
    return WrenchChange(session, read)


def _measured(session: ControllerSession, msg: Any) -> MeasuredWrench:
    return MeasuredWrench(session, msg.header.frame_id, _numbers(msg))


def _enabling(session: ControllerSession, msg: Any) -> EnablingChange:
    return EnablingChange(session, msg.data)


def _speed(session: ControllerSession, msg: Any) -> SpeedChange:
    return SpeedChange(session, msg.factor)


def _numbers(msg: Any) -> tuple[float, ...]:
    """Return force and torque of a WrenchStamped, N and N m."""
    f, m = msg.wrench.force, msg.wrench.torque
    return (f.x, f.y, f.z, m.x, m.y, m.z)


#: By the last word of the topic: the change of a session that a message asks for.
STREAMED: dict[str, Callable[[ControllerSession, Any], SessionChange]] = {
    'target_joint': _joint,
    'target_pose': _pose,
    'target_wrench': _wrench,
    'measured_wrench': _measured,
    'enable_guiding': _enabling,
    'speed_scaling_input': _speed,
}
