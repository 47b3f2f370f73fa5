# SPDX-License-Identifier: Apache-2.0
"""Joint splines: piecewise polynomials of degree 1, 3 or 5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.curves import PiecewisePolynomial
from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import Kernel, compile_function

#: Number of pieces that resolves the extrema of a quintic to 0.1 %.
MOST_PIECES = 32


class Knot(NamedTuple):
    """State of all joints at one time.

    Attributes:
        time: Time from the start of the trajectory, s.
        position: One number per joint, rad or m.
        velocity: One number per joint, rad/s or m/s, or None.
        acceleration: One number per joint, rad/s^2 or m/s^2, or None; requires a velocity.
    """

    time: float
    position: Sequence[float]
    velocity: Sequence[float] | None = None
    acceleration: Sequence[float] | None = None


class KnotTable(NamedTuple):
    """Knots as arrays.

    Attributes:
        time: Times from the start of the trajectory, shape (k,), s.
        position: Shape (k, n), rad or m.
        velocity: Shape (k, n), rad/s or m/s; zero if not given.
        acceleration: Shape (k, n), rad/s^2 or m/s^2; zero if not given.
        degree: Degree of the polynomials that a knot's data permit, shape (k,): 1 without
            velocity, 3 with velocity, 5 with velocity and acceleration.
    """

    time: Array
    position: Array
    velocity: Array
    acceleration: Array
    degree: Array

    @classmethod
    def uniform(
        cls, time: Array, position: Array, velocity: Array | None, acceleration: Array | None
    ) -> KnotTable:
        """Return a table of knots with the same kind of data.

        Raises:
            TrajectoryError: Accelerations are given without velocities.
        """
        degree = _degree('point 0', velocity, acceleration)
        zeros = np.zeros_like(position)
        return cls(
            time,
            position,
            zeros if velocity is None else velocity,
            zeros if acceleration is None else acceleration,
            np.full(len(time), degree),
        )

    @classmethod
    def of(cls, knots: Sequence[Knot]) -> KnotTable:
        """Return a table of knots of equal sizes, which may have different kinds of data.

        Raises:
            TrajectoryError: A knot has an acceleration without a velocity.
        """
        still = [0.0] * len(knots[0].position)
        rows = [
            (
                knot.time,
                knot.position,
                still if knot.velocity is None else knot.velocity,
                still if knot.acceleration is None else knot.acceleration,
                _degree(f'point {k}', knot.velocity, knot.acceleration),
            )
            for k, knot in enumerate(knots)
        ]
        return cls(*map(np.array, zip(*rows, strict=True)))

    def after(self, first: Knot) -> KnotTable:
        """Return the table with another knot in front."""
        pairs = zip(KnotTable.of([first]), self, strict=True)
        return KnotTable(*map(np.concatenate, pairs))

    def coefficients(self) -> Array:
        """Return the polynomials between the knots, lowest power first, shape (k - 1, n, 6).

        A polynomial is quintic if both knots have an acceleration, cubic if both have a velocity,
        else linear.
        """
        h = np.diff(self.time)[:, None]
        degree = np.minimum(self.degree[:-1], self.degree[1:])
        coefficients = np.zeros((*self.position[1:].shape, 6))
        for known in set(degree.tolist()):
            rows = np.flatnonzero(degree == known)
            data = self.motion[: (known + 1) // 2]
            ends = (x[rows + end] for end in (0, 1) for x in data)
            terms = _POLYNOMIALS[known](h[rows], *ends)
            for power, column in enumerate(terms):
                coefficients[rows, :, power] = column
        return coefficients

    @property
    def motion(self) -> tuple[Array, Array, Array]:
        """Position, velocity and acceleration."""
        return self.position, self.velocity, self.acceleration


def _degree(name: str, velocity: Any, acceleration: Any) -> int:
    """Return the degree that the data of a point permit, see :class:`KnotTable`."""
    if velocity is None and acceleration is not None:
        raise TrajectoryError(name, 'has accelerations but no velocities', 'give both')
    return 1 if velocity is None else 3 if acceleration is None else 5


def _linear(h: Array, p: Array, P: Array) -> tuple[Array, ...]:
    """Return the lines from p to P in h seconds, lowest power first."""
    return p, (P - p) / h


def _cubic(h: Array, p: Array, v: Array, P: Array, V: Array) -> tuple[Array, ...]:
    """Return the cubics from (p, v) to (P, V) in h seconds, lowest power first."""
    d = (P - p) / h
    return p, v, (3.0 * d - 2.0 * v - V) / h, (v + V - 2.0 * d) / (h * h)


def _quintic(
    h: Array, p: Array, v: Array, a: Array, P: Array, V: Array, A: Array
) -> tuple[Array, ...]:
    """Return the quintics from (p, v, a) to (P, V, A) in h seconds, lowest power first."""
    # Residuals of the first three terms, scaled to the unit interval.
    d = P - p - h * (v + 0.5 * a * h)
    e = (V - v - a * h) * h
    f = (A - a) * h * h
    h3 = h * h * h
    return (
        p,
        v,
        0.5 * a,
        (10.0 * d - 4.0 * e + 0.5 * f) / h3,
        (-15.0 * d + 7.0 * e - f) / (h3 * h),
        (6.0 * d - 3.0 * e + 0.5 * f) / (h3 * h * h),
    )


#: Functions that join two knots, by degree, see ``KnotTable.degree``.
_POLYNOMIALS: dict[int, Callable[..., tuple[Array, ...]]] = {1: _linear, 3: _cubic, 5: _quintic}


class JointSpline(Trajectory):
    """Trajectory of checked knots joined by polynomials.

    Args:
        knots: At least one, with strictly increasing times from 0 and equal numbers of joints.
    """

    def __init__(self, knots: Sequence[Knot] | KnotTable) -> None:
        table = knots if isinstance(knots, KnotTable) else KnotTable.of(knots)
        self.n = table.position.shape[1]
        self._pieces = PiecewisePolynomial(table.time, table.coefficients())
        self._polynomials, self._x = polynomials(self.n), np.zeros(1)
        self.duration = self._times[-1]
        self._start: list[float] = table.position[0].tolist()
        self._end: list[float] = table.position[-1].tolist()

    @property
    def _times(self) -> list[float]:
        return self._pieces.knots

    def sample(self, t: float, reference: Reference) -> None:
        """Compute the motion at a time; see :class:`Trajectory`."""
        if not 0.0 <= t < self.duration:
            self._rest(self._end if t >= self.duration else self._start, reference)
            return
        pieces, x = self._pieces, self._x
        x[0] = pieces.piece(t)
        self._polynomials(
            pieces.row, x, reference.position, reference.velocity, reference.acceleration
        )

    def instants(self, step: float) -> Array:
        """Return the times of the knots and of 1 to 31 points between them.

        Even the shortest segment is sampled in its middle, since two knots at rest do not bound
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
        if not len(self._pieces.coefficients):
            return super().table(times)
        position, velocity, acceleration = self._pieces.table(times)
        for outside, rest in ((times < 0.0, self._start), (times >= self.duration, self._end)):
            position[outside], velocity[outside], acceleration[outside] = rest, 0.0, 0.0
        return position, velocity, acceleration

    def replace_first_segment(self, segment: JointSpline) -> None:
        """Replace the first segment by that of another spline with one segment."""
        self._pieces.begin_with(segment._pieces)
        self._start = segment._start

    @staticmethod
    def _rest(position: list[float], reference: Reference) -> None:
        reference.position[:] = position
        reference.velocity.fill(0.0)
        reference.acceleration.fill(0.0)


@cache
def polynomials(n: int) -> Kernel:
    """Compile n polynomials of fifth degree with their first two derivatives.

    The kernel's arguments are the coefficients, shape (6 n,), x, shape (1,), and the three
    results, each shape (n,).
    """
    return compile_function(
        'polynomials',
        {'rows': 6 * n, 'x': 1},
        dict.fromkeys(('position', 'velocity', 'acceleration'), (n,)),
        lambda rows, x: [
            np.array(row) for row in PiecewisePolynomial.evaluated(x[0], rows.reshape(-1, 6))
        ],
        fused=False,
    )
