# SPDX-License-Identifier: Apache-2.0
"""Trajectories in files: the fields of trajectory_msgs/JointTrajectory as YAML.

Such a file can be sent as it is: ``ros2 topic pub --once TOPIC
trajectory_msgs/msg/JointTrajectory "$(cat FILE)"``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from robot_dynamics_ros.control.trajectories.spline import Knot
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.control.trajectories.waypoints import JointWaypoints
from robot_dynamics_ros.errors import TrajectoryError

_NANO = 1_000_000_000


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
    culprit = f'trajectory file {os.fspath(path)!r}'
    try:
        message = yaml.safe_load(Path(path).read_text(encoding='utf-8'))
        named = [str(name) for name in message['joint_names']]
        rows = [_row(point) for point in message['points']]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise TrajectoryError(culprit, f'cannot be read: {error}', 'give a YAML file') from error
    except (KeyError, TypeError, ValueError) as error:
        raise TrajectoryError(
            culprit, f'is no JointTrajectory: {error!r}', 'give joint_names and points'
        ) from error
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


def _row(
    point: dict[str, Any],
) -> tuple[float, list[float], list[float] | None, list[float] | None]:
    """Return time, positions, velocities and accelerations of a point of a message."""
    after = point['time_from_start']
    time = float(after.get('sec', 0)) + float(after.get('nanosec', 0)) / _NANO
    velocity, acceleration = (
        [float(x) for x in point[key]] if point.get(key) else None
        for key in ('velocities', 'accelerations')
    )
    return time, [float(x) for x in point['positions']], velocity, acceleration
