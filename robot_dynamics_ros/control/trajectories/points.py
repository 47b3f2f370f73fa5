# SPDX-License-Identifier: Apache-2.0
"""Conversion of trajectory messages to arrays; trajectory files.

A file has the fields of trajectory_msgs/JointTrajectory as YAML. It can be published directly:
``ros2 topic pub --once TOPIC trajectory_msgs/msg/JointTrajectory "$(cat FILE)"``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
import yaml

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.constraints.signals import offset_duration
from robot_dynamics_ros.control.trajectories.spline import JointWaypoints, Points
from robot_dynamics_ros.control.trajectories.trajectory import Reference, Trajectory
from robot_dynamics_ros.errors import TrajectoryError, shown
from robot_dynamics_ros.messages import NANO, stamp_ns
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader import Section
from robot_dynamics_ros.yaml_reader.parsing import file_text, parse_yaml


def read_trajectory(
    msg: Any, joints: Sequence[str], others: Array | None = None
) -> tuple[Points | None, int]:
    """Return the result of ``trajectory_arrays`` and the start time, ns.

    The result is None without points, the start time 0 for now. Raises the errors of
    ``trajectory_arrays``.
    """
    points = trajectory_arrays(msg, joints, others) if len(msg.points) else None
    return points, stamp_ns(msg)


def trajectory_arrays(msg: Any, joints: Sequence[str], others: Array | None = None) -> Points:
    """Return the points of a JointTrajectory in the order of the model.

    Args:
        msg: trajectory_msgs/JointTrajectory with at least one point, or an object with its fields.
        joints: The model's joints; the message must name each exactly once.
        others: Positions of joints that are not named, shape (n,), rad or m; None: all joints must
            be named.

    Returns:
        Times (k,) in s, positions, velocities and accelerations (k, n); None for those that no
        point has.

    Raises:
        TrajectoryError: Names are missing, unknown or duplicate, or a point has a wrong size or an
            effort, which the law computes itself.
    """
    names = list(msg.joint_names)
    _check_names(names, joints, partial=others is not None)
    columns = [names.index(name) for name in joints if name in names]
    after = [point.time_from_start for point in msg.points]
    times = np.array([t.sec for t in after]) + np.array([t.nanosec for t in after]) * 1e-9
    _refuse_efforts(msg.points, names)
    table = [_rows_of(msg.points, field, columns) for field in _FIELDS]
    if all(rows is None for rows in table):
        raise _wrong_size(0, 0, _FIELDS[0], len(columns))
    if others is not None and len(names) < len(joints):
        at = [i for i, name in enumerate(joints) if name in names]
        rest = (others, 0.0 * others, 0.0 * others)
        table = [_expanded(*pair, at) for pair in zip(table, rest, strict=True)]
    return Points(times, *table)


_FIELDS = ('positions', 'velocities', 'accelerations')


def _expanded(rows: Array | None, others: Array, at: list[int]) -> Any:
    """Expand rows of some joints to all joints."""
    if rows is None:
        return None
    expanded = np.tile(others, (len(rows), 1))
    expanded[:, at] = rows
    return expanded


def _check_names(names: Sequence[str], joints: Sequence[str], *, partial: bool = False) -> None:
    for name in names:
        if name not in joints:
            raise TrajectoryError(
                f'joint {name!r}', 'is not controlled here', f'known: {", ".join(joints)}'
            )
        if names.count(name) > 1:
            raise TrajectoryError(f'joint {name!r}', 'is named twice', 'name every joint once')
    missing = [name for name in joints if name not in names]
    if missing and (not partial or not names):
        raise TrajectoryError(
            f'joints {", ".join(missing)}', 'are missing', 'a trajectory must name every joint'
        )


def _rows_of(points: Sequence[Any], field: str, columns: list[int]) -> Any:
    """Return a field of all points, shape (k, n); None if it is empty in all of them."""
    rows = [getattr(point, field) for point in points]
    sizes = [len(row) for row in rows]
    if not any(sizes):
        return None
    if sizes.count(len(columns)) != len(sizes):
        index = next(k for k, size in enumerate(sizes) if size != len(columns))
        raise _wrong_size(index, sizes[index], field, len(columns))
    # Several times as fast as an array of the rows, for which the control thread would wait.
    table = np.fromiter(chain.from_iterable(rows), float).reshape(len(rows), len(columns))
    return table[:, columns]


def _wrong_size(index: int, size: int, field: str, n: int) -> TrajectoryError:
    remedy = f'give {n}, one per joint'
    return TrajectoryError(f'point {index}', f'has {size} {field}', remedy)


def _refuse_efforts(points: Sequence[Any], names: Sequence[str]) -> None:
    """Check that no point has an effort, other than 0."""
    for k, efforts in enumerate(getattr(point, 'effort', ()) for point in points):
        if len(efforts) not in (0, len(names)):
            raise _wrong_size(k, len(efforts), 'effort', len(names))
        for name, effort in zip(names, efforts, strict=False):
            if effort != 0.0:
                raise TrajectoryError(
                    f'point {k}',
                    f'has an effort of {effort:g} for joint {name!r}',
                    'leave effort empty: the law computes it',
                )


_MIN_DURATION_S = 0.5  # shortest time between two waypoints, s
# Files -------------------------------------------------------------------------------------------


def trajectory_text(trajectory: Trajectory, joints: Sequence[str], step: float) -> str:
    """Return a trajectory as the YAML text of a message.

    Args:
        trajectory: Trajectory with a finite duration.
        joints: Names of its joints.
        step: Time between two points, s; the last step may be shorter.

    Raises:
        TrajectoryError: The number of joints or the step is invalid.
    """
    if len(joints) != trajectory.n or not 0.0 < step < trajectory.duration:
        raise TrajectoryError(
            'trajectory',
            f'has {trajectory.n} joints and lasts {trajectory.duration:g} s',
            f'{len(joints)} joints and a step of {step:g} s do not fit',
        )
    times = trajectory.instants(step)
    return _message_text(joints, Points(times, *trajectory.table(times)))


def add_waypoint(path: str, tree: Robot, position: Array, share: float) -> int:
    """Append a point at rest to a trajectory file; the file is replaced atomically.

    Args:
        path: The file; created if it does not exist.
        tree: The robot of the file.
        position: Joint positions, shape (n,), rad or m.
        share: Fraction of the velocity limits that the quintic from the last point reaches.

    Returns:
        The number of points in the file.

    Raises:
        TrajectoryError: The file is not a trajectory of the robot, or cannot be written.
    """
    joints, points = tree.joint_names, Points.at_rest([0.0], position[np.newaxis])
    if os.path.exists(path):
        points = _read_points(path, joints)
        JointWaypoints(points, joint_names=joints)
        last, fastest = points.position[-1], share * tree.velocity_limits()
        way = tree.nearest_turn(position, last) - last
        time = points.time[-1] + max(_MIN_DURATION_S, offset_duration(way, fastest))
        points = points.with_point(len(points.time), time, (position, 0.0, 0.0))
    _replace(path, _message_text(joints, points))
    return len(points.time)


def _replace(path: str, text: str) -> None:
    """Replace a file atomically."""
    part = f'{path}.part'
    try:
        with open(part, 'w', encoding='utf-8') as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        culprit = f'trajectory file {shown(path)}'
        problem = f'cannot be written ({error.strerror})'
        raise TrajectoryError(culprit, problem, 'name another file, or free disk space') from error


def _message_text(joints: Sequence[str], points: Points) -> str:
    given = zip(_FIELDS, points[1:], strict=True)
    columns = {name: x.tolist() for name, x in given if x is not None}
    entries: list[dict[str, Any]] = []
    for k, time in enumerate(points.time.tolist()):
        seconds, rest = divmod(round(time * NANO), NANO)
        after = {'sec': seconds, 'nanosec': rest}
        entries.append({name: x[k] for name, x in columns.items()} | {'time_from_start': after})
    message = {'joint_names': list(joints), 'points': entries}
    return str(yaml.safe_dump(message, sort_keys=False, default_flow_style=None, width=1000))


def trajectory_of_file(
    path: str | os.PathLike[str],
    joints: Sequence[str],
    continuous: Array | None = None,
    start: Reference | None = None,
) -> JointWaypoints:
    """Return the trajectory of a file, with its joints in the given order.

    Args:
        path: YAML of a JointTrajectory.
        joints: Names of the robot's joints.
        continuous: Whether each joint is continuous, see :class:`JointWaypoints`.
        start: Where the arm is at time 0; None: the first point must be at time 0.

    Raises:
        TrajectoryError: The file cannot be read, has other joints, or is invalid.
    """
    return JointWaypoints(_read_points(path, joints), start, joints, continuous)


def _read_points(path: str | os.PathLike[str], joints: Sequence[str]) -> Points:
    """Return the points of a file, with joints in the given order; see ``trajectory_of_file``."""
    culprit = f'trajectory file {shown(os.fspath(path))}'
    with read.reported_as(TrajectoryError):
        content = parse_yaml(file_text(os.fspath(path), 'trajectory file'), culprit)
        message = Section(culprit, content)
        names = message.take('joint_names', read.names)
        if sorted(names) != sorted(joints):
            raise TrajectoryError(
                culprit, f'moves {", ".join(names)}', f'the robot has {", ".join(joints)}'
            )
        points = message.take('points', _read_rows)
    return trajectory_arrays(SimpleNamespace(joint_names=names, points=points), joints)


def _read_rows(place: str, value: Any) -> list[SimpleNamespace]:
    """Return the points of a file with the fields of those of a message."""
    given = enumerate(read.entries(place, value, 'points'))
    return [_read_point(f'{place}, point {k}', point) for k, point in given]


def _read_numbers(place: str, value: Any) -> list[float]:
    return read.numbers(place, value) if value != [] else []


def _read_duration(place: str, value: Any) -> SimpleNamespace:
    """Read seconds: a number, or the fields of a message."""
    fields = value if isinstance(value, dict) else {'sec': value}
    return _read_fields(place, fields)


_read_fields = read.built(
    lambda sec=0.0, nanosec=0.0: SimpleNamespace(sec=sec, nanosec=nanosec),
    {},
    dict.fromkeys(('sec', 'nanosec'), read.number),
)
_read_point = read.built(
    lambda time, position, velocities=(), accelerations=(), effort=(): SimpleNamespace(
        time_from_start=time,
        positions=position,
        velocities=velocities,
        accelerations=accelerations,
        effort=effort,
    ),
    {
        'time_from_start': _read_duration,
        'positions': _read_numbers,
    },
    dict.fromkeys(('velocities', 'accelerations', 'effort'), _read_numbers),
)
