# SPDX-License-Identifier: Apache-2.0
"""Trajectories through points by the rules of joint_trajectory_controller, and their preparation.

``Prepared`` is a checked trajectory; ``Blended`` blends from the reference to a trajectory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.signals import quintic_offset
from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.trajectories.path_speed import SpeedLimit
from robot_dynamics_ros.control.trajectories.spline import JointSpline, Knot, KnotTable
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory, joint_vector
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.spatial.scalar import Array

#: Largest final velocity, rad/s or m/s (messages may be computed in single precision).
REST = 2.0**-23
#: Times of points must be less than this, s: longer ones do not fit into a message.
LONGEST = 2.0**31


class JointWaypoints(JointSpline):
    """Waypoints joined by lines, cubics or quintics, depending on their data.

    The rules are those of ros2_controllers' joint_trajectory_controller. Every point has a
    position. Segments are quintic between points with velocities and accelerations, cubic between
    points with velocities, and linear otherwise (with jumps of the velocity at the points). Times
    are strictly increasing, and the last velocity, if given, is zero. Unlike in
    joint_trajectory_controller, accelerations without velocities are rejected, not ignored.

    Args:
        points: At least one; times in s from the start of the trajectory. A table is checked as a
            whole, which is faster for many points.
        start: Reference at time 0; copied. Required if the first point's time is not 0; otherwise
            the first point is used.
        joint_names: Used in errors only.

    Attributes:
        first: The first point, a table of one row.

    Raises:
        TrajectoryError: A rule is violated; names the point and, if applicable, the joint.
    """

    def __init__(
        self,
        points: Sequence[Knot] | KnotTable,
        start: Reference | None = None,
        joint_names: Sequence[str] | None = None,
    ) -> None:
        table = _checked(points, start, joint_names)
        self.first, self._names = KnotTable(*(column[:1] for column in table)), joint_names
        if self.first.time[0] > 0.0:
            if start is None:
                raise TrajectoryError(
                    'point 0', f'is at {table.time[0]} s', 'give the start, or a point at time 0'
                )
            table = table.after(self._start_knot(start))
        super().__init__(table)

    def first_segment(self, start: Reference) -> JointSpline | None:
        """Return the segment from a start to the first point; None if that is at time 0.

        Args:
            start: See the constructor; copied.
        """
        if self.first.time[0] > 0.0:
            return JointSpline(self.first.after(self._start_knot(start)))
        return None

    def set_start(self, start: Reference) -> None:
        """Change the start; no effect if the first point is at time 0.

        Args:
            start: See the constructor; copied.

        Cost: that of one segment, regardless of the number of points.
        """
        segment = self.first_segment(start)
        if segment is not None:
            self.replace_first_segment(segment)

    def _start_knot(self, start: Reference) -> Knot:
        n = self.first.position.shape[1]
        return Knot(0.0, *(joint_vector('start', row, n, self._names) for row in start.rows))


def _checked(
    points: Sequence[Knot] | KnotTable, start: Reference | None, joint_names: Sequence[str] | None
) -> KnotTable:
    """Return the points as arrays, or raise the error of a violated rule."""
    if len(points.time if isinstance(points, KnotTable) else points) == 0:
        raise TrajectoryError('trajectory', 'has no points', 'give at least one, or use a Hold')
    first = points.position[0] if isinstance(points, KnotTable) else points[0].position
    if len(first) == 0:
        raise TrajectoryError('point 0', 'has no positions', 'every point needs them')
    n = len(joint_names or (first if start is None else start.position))
    if not isinstance(points, KnotTable):
        points = KnotTable.of([_sized(k, point, n, joint_names) for k, point in enumerate(points)])
    _refuse_times(points.time)
    for kind, rows in zip(_KINDS, points.motion, strict=True):
        if rows.shape[1] != n or not np.isfinite(rows).all():
            for k, row in enumerate(rows):
                joint_vector(f'{kind} of point {k}', row, n, joint_names)
    for i in np.flatnonzero(np.abs(points.velocity[-1]) > REST)[:1]:
        joint = joint_names[i] if joint_names else str(i)
        raise TrajectoryError(
            f'point {len(points.time) - 1}',
            f'is the last and moves joint {joint} at {points.velocity[-1, i]:g}',
            'the last velocity must be zero',
        )
    return points


_KINDS = ('position', 'velocity', 'acceleration')


def _sized(k: int, point: Knot, n: int, joint_names: Sequence[str] | None) -> Knot:
    """Return a point as floats, one per joint."""
    vectors: list[Any] = [
        None if row is None else joint_vector(f'{kind} of point {k}', row, n, joint_names)
        for kind, row in zip(_KINDS, point[1:], strict=True)
    ]
    return Knot(float(point.time), *vectors)


def _refuse_times(time: Array) -> None:
    """Check the times of all points, s."""
    for k in np.flatnonzero(~((time >= 0.0) & (time < LONGEST)))[:1]:
        raise TrajectoryError(
            f'point {k}', f'is at {time[k]} s', f'times are 0 to {LONGEST:.0f} s'
        )
    for k in np.flatnonzero(np.diff(time) <= 0.0)[:1]:
        raise TrajectoryError(
            f'point {k + 1}',
            f'is at {time[k + 1]:g} s, point {k} at {time[k]:g} s',
            'times must increase strictly',
        )


_SECOND_NS = 1_000_000_000
_BLEND_MARGIN_S = 2.0  # longer than any period, since samplers also sample the past

#: Times, positions, velocities and accelerations, see ``ReferenceGenerator.follow``.
Points = tuple[Array, Array, Array | None, Array | None]


class ReferenceSnapshot(NamedTuple):
    """Immutable copy of the generator's state at the arrival of a trajectory.

    Attributes:
        reference: The joint reference.
        measured: Measured position, shape (n,), rad or m; None if unknown.
        now_ns: Timestamp of the last state, ns.
        changes: ``ReferenceGenerator.changes``.
    """

    reference: Reference
    measured: Array | None
    now_ns: int
    changes: int


class Prepared(NamedTuple):
    """A checked trajectory that can be followed at once.

    Attributes:
        trajectory: The trajectory, starting at the reference of the snapshot.
        start_ns: Timestamp of its start, ns; 0 for now.
        snapshot: State of the generator at its arrival.
        start_tolerance: Largest step of the reference at its start, rad or m.
        outside: Permitted excess over the position limits before the end, shape (n,), rad or m.
        limit: Speed limit along the path; None: no limit.
    """

    trajectory: JointWaypoints
    start_ns: int
    snapshot: ReferenceSnapshot
    start_tolerance: float
    outside: Array
    limit: SpeedLimit | None = None

    def refuse_past(self, now_ns: int) -> None:
        """Check that the trajectory is not over.

        Raises:
            TrajectoryError: It is over.
        """
        start = self.start_ns or now_ns
        late = (now_ns - start) / _SECOND_NS - self.trajectory.duration
        if late > 0.0:
            raise TrajectoryError(
                'header.stamp',
                f'the trajectory was over {late:.3f} s ago',
                'use a stamp in the future, or 0 for now',
            )

    def refuse_step(
        self, reference: Reference, measured: Array | None, names: Sequence[str]
    ) -> None:
        """Check that a first point at time 0 is near the reference or the measured position.

        Args:
            reference: The reference at the start of the trajectory.
            measured: Measured position, shape (n,), rad or m; None if unknown.
            names: Names of the joints.

        Raises:
            TrajectoryError: It is farther than the start tolerance from both.
        """
        first, most = self.trajectory.first, self.start_tolerance
        begin = first.position[0]
        step = np.abs(begin - reference.position)
        worst = int(np.argmax(step))
        near_arm = measured is not None and bool((np.abs(begin - measured) <= most).all())
        if first.time[0] == 0.0 and step[worst] > most and not near_arm:
            raise TrajectoryError(
                'point 0',
                f'is at time 0 and {step[worst]:.4g} from joint {names[worst]!r} of the reference',
                f'begin within {most:g}, or use a later time',
            )

    def refuse_leap(self, reference: Reference, late: float, names: Sequence[str]) -> None:
        """Check that a trajectory that started in the past is near the reference by now.

        Args:
            reference: The present reference.
            late: Time since its start, s.
            names: Names of the joints.

        Raises:
            TrajectoryError: It is farther than the start tolerance.
        """
        there = Reference(len(names))
        self.trajectory.sample(late, there)
        leap = np.abs(there.position - reference.position)
        worst = int(np.argmax(leap))
        if leap[worst] > self.start_tolerance:
            raise TrajectoryError(
                'header.stamp',
                f'is {late:.3f} s ago, and the trajectory is by now {leap[worst]:.4g} from '
                f'joint {names[worst]!r} of the reference',
                'use a stamp in the future, or 0 for now',
            )


def extrapolate(start: Array, t: float, reference: Reference) -> None:
    """Extrapolate rows of a reference, shape (3, n), by a time, s, at constant acceleration."""
    position, velocity, acceleration = start
    reference.position[:] = position + t * (velocity + 0.5 * t * acceleration)
    reference.velocity[:] = velocity + t * acceleration
    reference.acceleration[:] = acceleration


class Blended(Trajectory):
    """Smooth transition from a moving reference to a trajectory.

    Args:
        trajectory: The trajectory.
        begin: Its time at which the transition starts, s.
        start: Rows of the reference at that time, shape (3, n); extrapolated into the past at
            constant acceleration.
        offset: Offsets of the reference's position and velocity from those of the trajectory.
        seconds: Time in which the offset goes to 0, s; 0: there is none.
    """

    def __init__(
        self,
        trajectory: Trajectory,
        begin: float,
        start: Array,
        offset: tuple[Array, Array],
        seconds: float,
    ) -> None:
        self.n, self.duration = trajectory.n, trajectory.duration
        self._trajectory, self._begin, self._start = trajectory, begin, start
        self._offset, self._seconds = offset, seconds

    def sample(self, t: float, reference: Reference) -> None:
        """Compute the motion at a time; see :class:`Trajectory`."""
        since = t - self._begin
        if since < 0.0:
            extrapolate(self._start, since, reference)
            return
        self._trajectory.sample(t, reference)
        if since < self._seconds:
            reference.rows += quintic_offset(*self._offset, self._seconds, since)

    def after_blend(self, t: float) -> Trajectory:
        """Return what to follow at a time, s: this, or the trajectory after the transition."""
        done = t - self._begin > self._seconds + _BLEND_MARGIN_S
        return self._trajectory if done else self
