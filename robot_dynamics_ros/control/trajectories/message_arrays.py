# SPDX-License-Identifier: Apache-2.0
"""The points of a trajectory message as arrays, whoever made the message."""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.messages.cdr import stamp_ns
from robot_dynamics_ros.spatial.scalar import Array


def read_trajectory(
    msg: Any, joints: Sequence[str], others: Array | None = None
) -> tuple[tuple[Array, Array, Array | None, Array | None] | None, int]:
    """Return what ``trajectory_arrays`` does, None without points, and the stamp of the start.

    The stamp is in ns, 0 for now; errors as in ``trajectory_arrays``.
    """
    points = trajectory_arrays(msg, joints, others) if len(msg.points) else None
    return points, stamp_ns(msg)


def trajectory_arrays(
    msg: Any, joints: Sequence[str], others: Array | None = None
) -> tuple[Array, Array, Array | None, Array | None]:
    """Return the points of a JointTrajectory in the order of the model.

    Args:
        msg: trajectory_msgs/JointTrajectory with at least one point.
        joints: The model's joints; the message must name each exactly once.
        others: Where joints stay that it does not name, shape (n,), rad or m; None: it must.

    Returns:
        Times (k,) in s, positions (k, n), velocities (k, n) or None, accelerations (k, n) or None.

    Raises:
        TrajectoryError: Names are missing, unknown or repeated, or a point has a wrong size.
    """
    names = list(msg.joint_names)
    _check_names(names, joints, partial=others is not None)
    columns = [names.index(name) for name in joints if name in names]
    after = [point.time_from_start for point in msg.points]
    times = np.array([t.sec for t in after]) + np.array([t.nanosec for t in after]) * 1e-9
    position = _rows(msg.points, 'positions', columns, required=True)
    velocity = _rows(msg.points, 'velocities', columns, required=False)
    acceleration = _rows(msg.points, 'accelerations', columns, required=False)
    assert position is not None  # required
    if others is not None and len(names) < len(joints):
        at = [i for i, name in enumerate(joints) if name in names]
        return times, *(
            _completed(rows, at, x)
            for rows, x in ((position, others), (velocity, 0 * others), (acceleration, 0 * others))
        )
    return times, position, velocity, acceleration


def _completed(rows: Array | None, at: Sequence[int], others: Array) -> Any:
    """Return rows for all joints, from those for some."""
    if rows is None:
        return None
    completed = np.tile(others, (len(rows), 1))
    completed[:, list(at)] = rows
    return completed


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


def _rows(
    points: Sequence[Any], field: str, columns: list[int], *, required: bool
) -> Array | None:
    rows = [getattr(point, field) for point in points]
    sizes = [len(row) for row in rows]
    if not required and not any(sizes):
        return None
    if sizes.count(len(columns)) != len(sizes):
        index = next(k for k, size in enumerate(sizes) if size != len(columns))
        raise TrajectoryError(
            f'point {index}', f'has {sizes[index]} {field}', f'give {len(columns)}, one per joint'
        )
    if all(type(row) is array.array and row.typecode == 'd' for row in rows):
        # As rclpy has them: their bytes, a fourth of the time of reading row by row.
        table = np.frombuffer(b''.join(rows)).reshape(len(rows), len(columns))
    else:
        table = np.array(rows, dtype=float)
    return table[:, columns]
