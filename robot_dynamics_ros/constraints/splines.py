# SPDX-License-Identifier: Apache-2.0
"""Curves through given points, and the piecewise polynomials of curves and joint motions."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from robot_dynamics_ros.constraints.curves import Curve, Point, number_array, numbers
from robot_dynamics_ros.errors import ParameterError, ShapeError
from robot_dynamics_ros.spatial.scalar import Array, Scalar, select


class Spline(Curve):
    """A cubic spline through points; s is the cumulative chord length, close to the arc length.

    A lap is one pass through all points.

    Args:
        points: Shape (N, k); at least two, consecutive points differ.
        closed: Whether it returns smoothly to the first point and repeats for ``laps``.
        laps: Number of laps of a closed spline; infinite by default.
    """

    formula = False

    def __init__(
        self, points: Sequence[Sequence[float]], closed: bool = False, laps: float = math.inf
    ) -> None:
        # Here: loading scipy takes longer than starting a controller.
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
        self.size, self.lap = table.shape[1], float(knots[-1])
        self._grain = max(float(chords.min()) / 4.0, self.lap / 400.0)
        self.closed = closed
        self.length = self.lap * float(laps) if closed else self.lap

    def sampling_step(self, s: float) -> float:
        """Return a quarter of the shortest chord, or 1/400 of the lap if that is longer."""
        return self._grain

    def at(self, s: Scalar) -> tuple[Point, Point, Point]:
        """Return p, dp/ds and d2p/ds2."""
        if self.closed:
            s = s - self.lap * math.floor(s / self.lap)
        return self._pieces.at(s)

    def symbolic(self, s: Scalar) -> tuple[Point, Point, Point]:
        """Return the same for a symbol s.

        Raises:
            ParameterError: The number of laps is infinite.
        """
        if not math.isfinite(self.length):
            raise ParameterError('laps', math.inf, 'must be finite for a symbolic closed spline')
        ends = [k * self.lap for k in range(1, math.ceil(self.length / self.lap - 1e-12))]
        completed = sum((select(s, end, 0.0, self.lap) for end in ends), start=0)
        return self._pieces.formula(s - completed)


class Waypoints(Curve):
    """A quintic spline through points at given times, at rest at both ends; s is time, s.

    It is continuous up to the fourth derivative; velocity and acceleration are zero at the first
    and the last point.

    Args:
        times: Strictly increasing times, the first 0, s, shape (N,).
        points: Shape (N, k).
    """

    formula = False

    def __init__(self, times: Sequence[float], points: Sequence[Sequence[float]]) -> None:
        from scipy.interpolate import make_interp_spline  # here: see Spline

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
        self.lap, self.knots = self.length, tuple(knots.tolist())

    def sampling_step(self, s: float) -> float:
        """Return an eighth of the time between the adjacent points, s."""
        i = min(max(bisect_right(self.knots, s), 1), len(self.knots) - 1)
        return (self.knots[i] - self.knots[i - 1]) / 8.0

    def at(self, s: Scalar) -> tuple[Point, Point, Point]:
        """Return p, dp/ds and d2p/ds2."""
        return self._pieces.at(s)

    def symbolic(self, s: Scalar) -> tuple[Point, Point, Point]:
        """Return the same for a symbol s."""
        return self._pieces.formula(s)


def _table(name: str, rows: Sequence[Sequence[float]]) -> Array:
    table = number_array(name, rows, 'must be rows of numbers of one length')
    if table.ndim != 2:
        raise ShapeError(name, table.shape, '(points, components)')
    return table


class PiecewisePolynomial:
    r"""A vector-valued piecewise polynomial :math:`p(s) = \sum_{k=0}^5 c_k (s - s_i)^k`.

    The first and the last piece extrapolate beyond the knots.

    Attributes:
        knots: Increasing starts of the pieces, and the end of the last one.
        coefficients: Lowest power first, shape (pieces, components, 6).
        rows: Coefficients of the piece evaluated last, shape (components, 6).
        row: The same, flattened.

    Cost: evaluation allocates no array; the piece evaluated last is found at once.
    """

    def __init__(self, knots: Array, coefficients: Array) -> None:
        self.knots: list[float] = knots.tolist()
        self.coefficients = coefficients
        self._select(0)

    @classmethod
    def of(cls, function: Callable[..., Array], knots: Array, degree: int) -> PiecewisePolynomial:
        """Convert a spline to piecewise polynomials.

        Args:
            function: ``function(s, order)`` returns the derivatives of an order (0: values), shape
                (k, components), at abscissae of shape (k,).
            knots: Knots between pieces, including both ends, shape (pieces + 1,).
            degree: Degree of the pieces, at most 5.
        """
        powers = [function(knots[:-1], k) / math.factorial(k) for k in range(degree + 1)]
        coefficients = np.zeros((*powers[0].shape, 6))
        coefficients[..., : degree + 1] = np.stack(powers, axis=-1)
        return cls(knots, coefficients)

    def piece(self, s: float) -> float:
        """Select the piece of s, which sets ``rows``; return s minus the start of the piece."""
        knots, k = self.knots, self._cursor
        if not knots[k] <= s < knots[k + 1]:
            self._select(min(max(bisect_right(knots, s) - 1, 0), len(knots) - 2))
        return s - knots[self._cursor]

    def at(self, s: float) -> tuple[list[float], list[float], list[float]]:
        """Return p, dp/ds and d2p/ds2, each a list of one number per component."""
        x = self.piece(s)
        return self.evaluated(x, self.rows.tolist())

    def formula(self, s: Scalar) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
        """Return the same for a symbol s, which selects every coefficient.

        Cost: 6 selections for each component of each piece.
        """
        start: Scalar = self.knots[0]
        selected = self.coefficients[0].tolist()
        for knot, piece in zip(self.knots[1:-1], self.coefficients[1:].tolist(), strict=True):
            start = select(s, knot, start, knot)
            selected = [
                [c if c == new else select(s, knot, c, new) for c, new in zip(*rows, strict=True)]
                for rows in zip(selected, piece, strict=True)
            ]
        return self.evaluated(s - start, selected)

    @staticmethod
    def evaluated(
        x: Scalar, rows: Sequence[Sequence[Scalar]] | Array
    ) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
        """Evaluate polynomials of given coefficients and their first two derivatives at x."""
        point, tangent, curvature = [], [], []
        for c0, c1, c2, c3, c4, c5 in rows:
            point.append(c0 + x * (c1 + x * (c2 + x * (c3 + x * (c4 + x * c5)))))
            tangent.append(c1 + x * (2 * c2 + x * (3 * c3 + x * (4 * c4 + x * 5 * c5))))
            curvature.append(2 * c2 + x * (6 * c3 + x * (12 * c4 + x * 20 * c5)))
        return point, tangent, curvature

    def table(self, abscissae: Array) -> tuple[Array, Array, Array]:
        """Return p, dp/ds and d2p/ds2 at many abscissae, each of shape (k, components)."""
        last = len(self.coefficients) - 1
        k = np.clip(np.searchsorted(self.knots, abscissae, side='right') - 1, 0, last)
        rows = self.coefficients[k].transpose(1, 2, 0)
        rates = self.evaluated(abscissae - np.take(self.knots, k), rows)
        point, tangent, curvature = (np.stack(row, axis=-1) for row in rates)
        return point, tangent, curvature

    def begin_with(self, other: PiecewisePolynomial) -> None:
        """Replace the first piece by the first piece of another polynomial."""
        self.coefficients[:1] = other.coefficients[:1]
        self._select(0)

    def _select(self, k: int) -> None:
        """Select piece k."""
        self._cursor = k
        self.rows = self.coefficients[k] if len(self.coefficients) else np.zeros((0, 6))
        self.row = self.rows.reshape(-1)
