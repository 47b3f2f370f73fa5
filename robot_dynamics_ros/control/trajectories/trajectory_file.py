# SPDX-License-Identifier: Apache-2.0
"""Trajectories in files: the fields of trajectory_msgs/JointTrajectory as YAML.

Such a file can be sent as it is: ``ros2 topic pub --once TOPIC
trajectory_msgs/msg/JointTrajectory "$(cat FILE)"``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import yaml

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.control.trajectories.spline import Knot
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.control.trajectories.waypoints import JointWaypoints
from robot_dynamics_ros.errors import TrajectoryError, shown
from robot_dynamics_ros.yaml_reader import Section

_NANO = 1_000_000_000
_Row = tuple[float, list[float], list[float] | None, list[float] | None]


def trajectory_text(trajectory: Trajectory, joints: Sequence[str], step: float) -> str:
    """Return a trajectory as the YAML text of a message.

    Args:
        trajectory: With a finite duration.
        joints: Names of its joints.
        step: Time between two points, s; the last one may come sooner.

    Raises:
        TrajectoryError: The number of joints or the step does not fit.
    """
    if len(joints) != trajectory.n or not 0.0 < step < trajectory.duration:
        raise TrajectoryError(
            'trajectory',
            f'has {trajectory.n} joints and lasts {trajectory.duration:g} s',
            f'{len(joints)} joints and a step of {step:g} s do not fit',
        )
    times = trajectory.instants(step)
    position, velocity, acceleration = trajectory.table(times)
    points: list[dict[str, Any]] = []
    for k, time in enumerate(times.tolist()):
        seconds, rest = divmod(round(time * _NANO), _NANO)
        points.append(
            {
                'positions': position[k].tolist(),
                'velocities': velocity[k].tolist(),
                'accelerations': acceleration[k].tolist(),
                'time_from_start': {'sec': seconds, 'nanosec': rest},
            }
        )
    message = {'joint_names': list(joints), 'points': points}
    return str(yaml.safe_dump(message, sort_keys=False, default_flow_style=None, width=1000))


def read_trajectory(path: str | os.PathLike[str], joints: Sequence[str]) -> JointWaypoints:
    """Return the trajectory of a file, its joints in the given order.

    Args:
        path: YAML of a JointTrajectory whose first point is at time 0.
        joints: Names of the robot's joints.

    Raises:
        TrajectoryError: The file cannot be read, its joints are others, or a rule is broken.
    """
    culprit = f'trajectory file {shown(os.fspath(path))}'
    with read.reported_as(TrajectoryError):
        message = Section(
            culprit, read.parse_yaml(read.file_text(os.fspath(path), 'trajectory file'), culprit)
        )
        named = message.take('joint_names', read.names)
        rows = message.take('points', _rows)
    if sorted(named) != sorted(joints):
        raise TrajectoryError(
            culprit, f'moves {", ".join(named)}', f'the robot has {", ".join(joints)}'
        )
    order = [named.index(name) for name in joints]

    def ordered(values: list[float] | None) -> list[float] | None:
        if values is not None and len(values) != len(order):
            raise TrajectoryError(
                culprit, f'has a point of {len(values)} numbers', f'{len(order)} joints are named'
            )
        return None if values is None else [values[i] for i in order]

    knots = [
        Knot(time, ordered(position) or [], ordered(velocity), ordered(acceleration))
        for time, position, velocity, acceleration in rows
    ]
    return JointWaypoints(knots, joint_names=joints)


def _rows(place: str, value: Any) -> list[_Row]:
    if not isinstance(value, list):
        raise TrajectoryError(place, f'is {shown(value)}', 'give a list of points')
    return [_row(f'{place}, point {k}', point) for k, point in enumerate(value)]


def _row(place: str, point: Any) -> _Row:
    """Return time, positions, velocities and accelerations of a point of a message."""
    section = Section(place, point)
    after = section.take('time_from_start', Section)
    time = after.take('sec', read.number, 0.0) + after.take('nanosec', read.number, 0.0) / _NANO
    return (
        time,
        section.take('positions', _list),
        section.maybe('velocities', _list) or None,
        section.maybe('accelerations', _list) or None,
    )


def _list(place: str, value: Any) -> list[float]:
    return read.numbers(place, value) if value != [] else []
