# SPDX-License-Identifier: Apache-2.0
"""Through given points at given times, by the rules of joint_trajectory_controller."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.control.control_law import Reference
from robot_dynamics_ros.control.trajectories.checks import joint_vector
from robot_dynamics_ros.control.trajectories.spline import Knot, Spline, segment
from robot_dynamics_ros.errors import TrajectoryError

#: A final velocity up to this counts as rest (messages come from single precision arithmetic).
REST = float(np.finfo(np.float32).eps)
#: No time of a point is this long, in s: more does not fit into a message.
LONGEST = 2.0**31


class Waypoints(Spline):
    """Points joined by lines, cubics or quintics, as the points' data allow.

    The rules are those of ros2_controllers' joint_trajectory_controller: every point has a
    position; between two points that both give velocities the motion is cubic, if both also give
    accelerations quintic, else a straight line at constant velocity (whose velocity jumps at the
    points). Times increase strictly and the last velocity, if given, is zero. Unlike there, an
    acceleration without a velocity is refused instead of ignored.

    Args:
        points: At least one; times in s from the start of the trajectory.
        start: Where the joints are at time 0; copied. Needed if the first point's time is not 0;
            otherwise the first point replaces it.
        joint_names: Used in errors only.

    Raises:
        TrajectoryError: A rule is broken; names the point and, where it applies, the joint.
    """

    def __init__(
        self,
        points: Sequence[Knot],
        start: Reference | None = None,
        joint_names: Sequence[str] | None = None,
    ) -> None:
        knots = _checked(points, start, joint_names)
        self._first, self._names = knots[0], joint_names
        if knots[0].time > 0.0:
            if start is None:
                raise TrajectoryError(
                    'point 0', f'is at {knots[0].time} s', 'give the start, or a point at time 0'
                )
            knots.insert(0, self._start_knot(start))
        super().__init__(knots)

    def begin_at(self, start: Reference) -> None:
        """Begin elsewhere; a first point at time 0 stays what it is.

        Args:
            start: As for the constructor; copied.

        Cost: that of one segment, however many there are.
        """
        if self._first.time > 0.0:
            knot = self._start_knot(start)
            self._segments[0] = segment(knot, self._first)
            self._start = list(knot.position)

    def _start_knot(self, start: Reference) -> Knot:
        n = len(self._first.position)
        p, v, a = (
            joint_vector('start', x, n, self._names)
            for x in (start.position, start.velocity, start.acceleration)
        )
        return Knot(0.0, p, v, a)


def _checked(
    points: Sequence[Knot], start: Reference | None, joint_names: Sequence[str] | None
) -> list[Knot]:
    """Return the points as lists of floats, or say which rule one breaks."""
    if len(points) == 0:
        raise TrajectoryError('trajectory', 'has no points', 'give at least one, or use a Hold')
    n = len(points[0].position) if joint_names is None else len(joint_names)
    if start is not None and joint_names is None:
        n = len(start.position)
    knots: list[Knot] = []
    for k, point in enumerate(points):
        knots.append(_checked_point(k, point, n, joint_names))
        if k > 0 and not knots[k].time > knots[k - 1].time:
            raise TrajectoryError(
                f'point {k}',
                f'is at {knots[k].time:g} s, point {k - 1} at {knots[k - 1].time:g} s',
                'times must increase strictly',
            )
    for i, speed in enumerate(knots[-1].velocity or ()):
        if abs(speed) > REST:
            joint = joint_names[i] if joint_names else str(i)
            raise TrajectoryError(
                f'point {len(knots) - 1}',
                f'is the last and moves joint {joint} at {speed:g}',
                'the last velocity must be zero',
            )
    return knots


def _checked_point(k: int, point: Knot, n: int, joint_names: Sequence[str] | None) -> Knot:
    name = f'point {k}'
    time = float(point.time)
    if not 0.0 <= time < LONGEST:
        raise TrajectoryError(name, f'is at {point.time} s', f'times are 0 to {LONGEST:.0f} s')
    if len(point.position) == 0:
        raise TrajectoryError(name, 'has no positions', 'every point needs them')
    if point.acceleration is not None and point.velocity is None:
        raise TrajectoryError(name, 'has accelerations but no velocities', 'give both')

    def vector(kind: str, value: Sequence[float] | None) -> list[float] | None:
        return None if value is None else joint_vector(f'{kind} of {name}', value, n, joint_names)

    return Knot(
        time,
        joint_vector(f'position of {name}', point.position, n, joint_names),
        vector('velocity', point.velocity),
        vector('acceleration', point.acceleration),
    )
