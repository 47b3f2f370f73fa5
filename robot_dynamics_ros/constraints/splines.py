# SPDX-License-Identifier: Apache-2.0
"""Curves through given points: in space, or at given times."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.constraints.curves import Curve, Point, numbers
from robot_dynamics_ros.constraints.piecewise import PiecewisePolynomial
from robot_dynamics_ros.errors import ParameterError, ShapeError
from robot_dynamics_ros.spatial.scalar import Array, Scalar, select


class Spline(Curve):
    """A cubic spline through points; s is the length of the chords, so the speed is nearly even.

    Args:
        points: Shape (N, k); at least two, neighbours differ.
        closed: Whether it returns smoothly to the first point and goes on for ``laps``.
        laps: How often a closed spline is run; infinite by default.
    """

    formula = False

    def __init__(
        self, points: Sequence[Sequence[float]], closed: bool = False, laps: float = math.inf
    ) -> None:
        # Late: it takes longer than a controller's start.
        from scipy.interpolate import CubicSpline

        table = _table('points', points)
        if closed:
            table = np.vstack([table, table[:1]])
        chords = np.linalg.norm(np.diff(table, axis=0), axis=1)
        if len(table) < 2 or not np.all(chords > 0.0):
            raise ParameterError('points', points, 'give at least two; neighbours must differ')
        knots = np.concatenate([[0.0], np.cumsum(chords)])
        ends = 'periodic' if closed else 'natural'
        self._pieces = PiecewisePolynomial.of(CubicSpline(knots, table, bc_type=ends), knots, 3)
        self.size, self._lap = table.shape[1], float(knots[-1])
        self._grain = max(float(chords.min()) / 4.0, self._lap / 400.0)
        self.closed = closed
        self.length = self._lap * float(laps) if closed else self._lap

    @property
    def lap(self) -> float:
        """Once through all points."""
        return self._lap

    def grain(self, s: float) -> float:
        """Return a quarter of the shortest chord, m, or a 400th of the lap if that is longer."""
        return self._grain

    def at(self, s: Scalar) -> tuple[Point, Point, Point]:
        """Return p, dp/ds and d2p/ds2."""
        if self.closed:
            s = s - self._lap * math.floor(s / self._lap)
        return self._pieces.at(s)

    def symbolic(self, s: Scalar) -> tuple[Point, Point, Point]:
        """Return the same at a symbol s.

        Raises:
            ParameterError: It is run without end.
        """
        if not math.isfinite(self.length):
            raise ParameterError('laps', math.inf, 'as a formula a closed spline needs an end')
        ends = [k * self._lap for k in range(1, math.ceil(self.length / self._lap - 1e-12))]
        gone = sum((select(s, end, 0.0, self._lap) for end in ends), start=0)
        return self._pieces.formula(s - gone)


class Waypoints(Curve):
    """Through points at given times, at rest at both ends; s is time, s.

    A quintic spline: continuous up to the fourth derivative, velocity and acceleration zero at
    the first and the last point.

    Args:
        times: s, strictly increasing, first 0, shape (N,).
        points: Shape (N, k).
    """

    formula = False

    def __init__(self, times: Sequence[float], points: Sequence[Sequence[float]]) -> None:
        from scipy.interpolate import make_interp_spline  # late, as above

        table, knots = _table('points', points), np.array(numbers('times', times))
        if len(knots) != len(table) or len(knots) < 2 or np.any(np.diff(knots) <= 0.0):
            raise ParameterError('times', list(times), 'one per point, strictly increasing')
        if knots[0] != 0.0:
            raise ParameterError('times', list(times), 'must begin with 0')
        rest = np.zeros(table.shape[1])
        ends = [(1, rest), (2, rest)]
        spline = make_interp_spline(knots, table, k=5, bc_type=(ends, ends))
        self._pieces = PiecewisePolynomial.of(spline, np.unique(spline.t), 5)
        self.size, self.length = table.shape[1], float(knots[-1])
        self.knots = tuple(knots.tolist())

    def grain(self, s: float) -> float:
        """Return an eighth of the time between the neighbouring points, s."""
        i = min(max(bisect_right(self.knots, s), 1), len(self.knots) - 1)
        return (self.knots[i] - self.knots[i - 1]) / 8.0

    def at(self, s: Scalar) -> tuple[Point, Point, Point]:
        """Return p, dp/ds and d2p/ds2."""
        return self._pieces.at(s)

    def symbolic(self, s: Scalar) -> tuple[Point, Point, Point]:
        """Return the same at a symbol s."""
        return self._pieces.formula(s)


def _table(name: str, rows: Sequence[Sequence[float]]) -> Array:
    try:
        table = np.array(rows, dtype=float)
    except (TypeError, ValueError):
        raise ParameterError(name, rows, 'must be rows of numbers of one length') from None
    if table.ndim != 2:
        raise ShapeError(name, table.shape, '(points, components)')
    if not np.all(np.isfinite(table)):
        raise ParameterError(name, rows, 'must be finite')
    return table
