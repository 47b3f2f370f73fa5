# SPDX-License-Identifier: Apache-2.0
"""Joint splines: polynomials of degree 1, 3 or 5 by the rules of joint_trajectory_controller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.curves import PiecewisePolynomial, polynomial, quintic
from robot_dynamics_ros.control.safety.state_validator import MAX_POSITION
from robot_dynamics_ros.control.trajectories.trajectory import Reference, Trajectory, joint_vector
from robot_dynamics_ros.errors import ParameterError, TrajectoryError
from robot_dynamics_ros.model.joint_limits import TURN
from robot_dynamics_ros.spatial.scalar import Array, errstate
from robot_dynamics_ros.spatial.validation import array
from robot_dynamics_ros.symbolic.kernel import Kernel, compile_function

#: Number of pieces that resolves the extrema of a quintic to 0.1 %.
MOST_PIECES = 32


_KINDS = ('position', 'velocity', 'acceleration')


class Points(NamedTuple):
    """Points of a trajectory as arrays, all with the same kind of data, see ``JointWaypoints``.

    Attributes:
        time: Times from the start of the trajectory, shape (k,), s.
        position: Shape (k, n), rad or m; None: to be integrated from the others.
        velocity: Shape (k, n), rad/s or m/s; None: not given.
        acceleration: Shape (k, n), rad/s^2 or m/s^2; None: not given.
    """

    time: Array
    position: Any
    velocity: Array | None = None
    acceleration: Array | None = None

    @classmethod
    def at_rest(cls, time: Sequence[float], position: Array) -> Points:
        """Return points without velocity and acceleration."""
        still = np.zeros_like(position)
        return cls(np.array(time, dtype=float), position, still, still)

    def with_point(self, place: int, time: float, motion: Sequence[Any]) -> Points:
        """Return the points with another one before a place.

        Args:
            place: From 0 to k, which is the end.
            time: Its time, s.
            motion: Its position, velocity and acceleration, shape (n,) each, of which those are
                used that the other points have.
        """
        values = zip(self, (time, *motion), strict=True)
        return Points._make(
            x if x is None else np.insert(1.0 * x, place, y, axis=0) for x, y in values
        )

    @errstate(all='ignore')  # what is not finite is refused by the polynomials
    def unwound(self, continuous: Array) -> Points:
        """Return the points with the steps of continuous joints that their velocities suggest.

        Their positions are angles: of the equivalent steps to the next point the one nearest to
        the mean velocity times the duration is taken, without velocities the shortest.

        Args:
            continuous: Whether each joint is continuous, shape (n,).
        """
        way, v = -np.diff(self.position, axis=0), self.velocity
        if v is not None:
            way += 0.5 * (v[:-1] + v[1:]) * np.diff(self.time)[:, np.newaxis]
        position, turns = self.position.copy(), np.round(way / TURN) * continuous
        position[1:] += TURN * np.cumsum(turns, axis=0)
        return self._replace(position=position)

    @errstate(all='ignore')
    def coefficients(self) -> Array:
        """Return the polynomials between the points, lowest power first, shape (k - 1, 6, n).

        Raises:
            TrajectoryError: One is beyond the range of numbers; names the point at its end.
        """
        h, given = np.diff(self.time)[:, None], [x for x in self[1:] if x is not None]
        ends = [x[:-1] for x in given] + [x[1:] for x in given]
        count, n = self.position.shape
        coefficients = np.zeros((count - 1, 6, n))
        for power, column in enumerate(_POLYNOMIALS[len(given)](h, *ends)):
            coefficients[:, power] = column
        for k in np.flatnonzero(~np.isfinite(coefficients).all(axis=(1, 2)))[:1]:
            raise TrajectoryError(
                f'point {k + 1}',
                f'is {h[k, 0]:.3g} s after the one before, and their motion is not finite',
                'give smaller values or more time',
            )
        return coefficients


def as_points(points: Any, n: int) -> Points:
    """Return points of n joints, copies of arrays or lists: what was checked cannot change.

    Raises:
        ShapeError, ParameterError: They are not arrays or lists of these shapes.
    """
    if not isinstance(points, Sequence) or len(points) != 4:
        expected = 'must be times, positions, velocities and accelerations (or None)'
        raise ParameterError('points', points, expected)
    times, shape = array('times', points[0], ('k',), finite=False).copy(), (len(points[0]), n)
    given = zip(_KINDS, points[1:], strict=True)
    q, v, a = (x if x is None else array(kind, x, shape, finite=False).copy() for kind, x in given)
    return Points(times, q, v, a)


@errstate(all='ignore')
def integrated(points: Points, start: Reference) -> Points:
    """Return points with the positions that they lack, by the trapezoidal rule from a start.

    As in joint_trajectory_controller, velocities that are missing too are integrated first.

    Args:
        points: Times, no positions, velocities or None, accelerations or None, not both.
        start: Reference at time 0.
    """
    times, _, velocity, acceleration = points
    half = 0.5 * np.diff(times, prepend=0.0)[:, np.newaxis]

    def integral(first: Array, rate: Array, rates: Array) -> Array:
        before = np.vstack([rate[np.newaxis], rates[:-1]])
        return first + np.cumsum(half * (before + rates), axis=0)

    if velocity is None:
        assert acceleration is not None  # see above
        velocity = integral(start.velocity, start.acceleration, acceleration)
    position = integral(start.position, start.velocity, velocity)
    return Points(times, position, velocity, acceleration)


def _cubic(h: Array, p: Array, v: Array, P: Array, V: Array) -> tuple[Array, ...]:
    """Return the cubics from (p, v) to (P, V) in h seconds, lowest power first."""
    d = (P - p) / h
    return p, v, (3.0 * d - 2.0 * v - V) / h, (v + V - 2.0 * d) / (h * h)


#: Functions that join two points, by the number of arrays that they give.
_POLYNOMIALS: dict[int, Callable[..., tuple[Array, ...]]] = {
    1: lambda h, p, P: (p, (P - p) / h),
    2: _cubic,
    3: quintic,
}


def extrapolate(rows: Array, t: float, reference: Reference) -> None:
    """Extrapolate rows of a reference, shape (3, n), by a time, s, at constant acceleration."""
    reference.rows[:] = rows
    if rows[1:].any():
        reference.position += t * (rows[1] + 0.5 * t * rows[2])
        reference.velocity += t * rows[2]


class JointSpline(Trajectory):
    """Trajectory of checked points joined by polynomials.

    Args:
        points: At least one point, with strictly increasing times from 0.
    """

    def __init__(self, points: Points) -> None:
        self.n, self._times = points.position.shape[1], points.time.tolist()
        self.duration, self._x = self._times[-1], np.zeros(1)
        before, after = np.zeros((2, 1, 6, self.n))  # the motion outside of the points
        before[:, 0], after[:, 0] = points.position[[0, -1]]
        coefficients = np.concatenate([before, points.coefficients(), after])
        knots = np.concatenate([points.time[:1], points.time, [np.inf]])
        self._pieces = PiecewisePolynomial(knots, coefficients)
        self._polynomials = polynomials(self.n)

    def sample(self, t: float, reference: Reference) -> None:
        """Compute the motion at a time; see :class:`Trajectory`."""
        self._x[0], row = self._pieces.piece(t)
        self._polynomials(
            row, self._x, reference.position, reference.velocity, reference.acceleration
        )

    def instants(self, step: float) -> Array:
        """Return the times of the points and of 1 to 31 instants between them.

        Even the shortest segment is sampled in its middle, since two points at rest do not bound
        the motion between them. See :class:`Trajectory`.
        """
        times = np.array(self._times)
        span = np.diff(times)
        pieces = np.clip(np.ceil(span / step), 2.0, MOST_PIECES)
        counts = pieces.astype(np.intp)
        # Number of the piece within its segment that ends at each instant: 1, 2, ... 1, 2, 3, ...
        piece = np.arange(1, counts.sum() + 1) - np.repeat(np.cumsum(counts) - counts, counts)
        begin, whole, parts = (np.repeat(x, counts) for x in (times[:-1], span, pieces))
        return np.concatenate([times[:1], begin + whole * piece / parts])

    def table(self, times: Array) -> tuple[Array, Array, Array]:
        """Return positions, velocities and accelerations at times (k,), s, each shape (k, n)."""
        return self._pieces.table(times)


@cache
def polynomials(n: int) -> Kernel:
    """Compile n polynomials of fifth degree with their first two derivatives.

    The kernel's arguments are the coefficients, shape (6 n,), x, shape (1,), and the three
    results, each shape (n,).
    """

    def motion(rows: Array, x: Array) -> tuple[Array, ...]:
        return polynomial(x[0], rows.reshape(6, -1))

    return compile_function(motion, n, rows=6 * n, x=1, fused=False)


#: Largest final velocity, rad/s or m/s (messages may be computed in single precision).
REST = 2.0**-23
#: Times of points must be less than this, s: longer ones do not fit into a message.
LONGEST = 2.0**31


class JointWaypoints(JointSpline):
    """Waypoints joined by lines, cubics or quintics, depending on their data.

    The rules are those of ros2_controllers' joint_trajectory_controller. Every point has a
    position. Segments are quintic if the points have velocities and accelerations, cubic if they
    have velocities, and linear otherwise (with jumps of the velocity at the points). Times
    are strictly increasing, and the last velocity, if given, is zero unless it may move. Unlike
    in joint_trajectory_controller, accelerations without velocities are rejected, not ignored.
    Where start or end move, that motion goes on before and after at constant acceleration: it is
    sampled for a plant at up to two periods around them.

    Args:
        points: At least one point.
        start: Reference at time 0; copied. Required if the first point's time is not 0; otherwise
            the first point is used.
        joint_names: Used in errors only.
        continuous: Whether each joint is continuous, shape (n,); None if none is. Such a joint
            takes the short way to the first point and between points, see ``Points.unwound``.
        moving_end: Whether the last velocity need not be zero.

    Attributes:
        duration: Time of the last point, s.
        first: The first point, arrays of one row.

    Raises:
        TrajectoryError: A rule is violated; names the point and, if applicable, the joint.
    """

    def __init__(
        self,
        points: Points,
        start: Reference | None = None,
        joint_names: Sequence[str] | None = None,
        continuous: Array | None = None,
        moving_end: bool = False,
    ) -> None:
        _check(points, start, joint_names, moving_end=moving_end)
        if continuous is not None and not continuous.any():
            continuous = None
        if continuous is not None:
            for k, i in np.argwhere(np.abs(points.position * continuous) > MAX_POSITION)[:1]:
                raise TrajectoryError(
                    f'point {k}',
                    f'turns joint {joint_names[i] if joint_names else i} to '
                    f'{points.position[k, i]:g} rad',
                    'give an angle: a continuous joint takes the nearest turn',
                )
            points = points.unwound(continuous)
        self.first = Points._make(x if x is None else x[:1] for x in points)
        self._continuous, self._names = continuous, joint_names
        if self.first.time[0] > 0.0:
            if start is None:
                raise TrajectoryError(
                    'point 0', f'is at {points.time[0]} s', 'give the start, or a point at time 0'
                )
            points = self._after(start, points)
        super().__init__(points)
        v = points.velocity
        if v is not None and np.abs(v[-1]).max() > REST:
            self._pieces.coefficients[-1, 1] = v[-1]
        if start is not None:
            self.set_start(start)

    def set_start(self, start: Reference) -> JointSpline | None:
        """Change the start; continuous joints take the short way from it to the first point.

        Args:
            start: See the constructor; copied.

        Returns:
            The segment from the start to the first point; None if that is at time 0.

        Cost: that of one segment, regardless of the number of points.
        """
        points = self._after(start, self.first)
        if self._continuous is not None:
            turned = points.unwound(self._continuous).position[1:] - self.first.position
            if turned.any():
                self.first = self.first._replace(position=self.first.position + turned)
                self._pieces.coefficients[:, 0] += turned[0]
                points = self._after(start, self.first)
        (before, after), begins = self._pieces.coefficients[:2], self.first.time[0] == 0.0
        segment = None if begins else JointSpline(points)
        rows = [0.0 if x is None else x[0] for x in self.first[1:]] if begins else start.rows
        for power, row in enumerate(rows):
            before[power] = row
        before[2] *= 0.5
        if segment is not None:
            after[:] = segment._pieces.coefficients[1]
        return segment

    def continue_back(self) -> None:
        """Go on before the beginning, which is sampled, too, as the line after it."""
        self._pieces.coefficients[0] = self._pieces.coefficients[1]

    def _after(self, start: Reference, points: Points) -> Points:
        """Return points with a start at time 0."""
        n = self.first.position.shape[1]
        rows = [joint_vector('start', row, n, self._names) for row in start.rows]
        return points.with_point(0, 0.0, rows)


def _check(
    points: Points,
    start: Reference | None,
    joint_names: Sequence[str] | None,
    *,
    moving_end: bool,
) -> None:
    """Raise the error of a violated rule."""
    if not len(points.time):
        raise TrajectoryError('trajectory', 'has no points', 'give at least one')
    if points.position is None:
        raise TrajectoryError('point 0', 'has no positions', 'every point needs them')
    if points.velocity is None and points.acceleration is not None:
        raise TrajectoryError('point 0', 'has accelerations but no velocities', 'give both')
    n = len(joint_names or (points.position[0] if start is None else start.position))
    _refuse_times(points.time)
    for kind, rows in zip(_KINDS, points[1:], strict=True):
        if rows is not None and not (rows.shape[1] == n and np.isfinite(rows).all()):
            for k, row in enumerate(rows):
                joint_vector(f'{kind} of point {k}', row, n, joint_names)
    last = np.zeros(n) if moving_end or points.velocity is None else points.velocity[-1]
    for i in np.flatnonzero(np.abs(last) > REST)[:1]:
        joint = joint_names[i] if joint_names else str(i)
        raise TrajectoryError(
            f'point {len(points.time) - 1}',
            f'is the last and moves joint {joint} at {last[i]:g}',
            'it must be zero, unless allow_nonzero_velocity_at_trajectory_end is set',
        )


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
