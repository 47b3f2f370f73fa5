# SPDX-License-Identifier: Apache-2.0
"""Parametric curves, also through given points, and piecewise polynomials of joint motions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.spatial.scalar import Array, Scalar, cos, select, sin
from robot_dynamics_ros.spatial.validation import array, perpendicular, require_positive, unit

#: Coordinates, and what else is one number after the other.
Numbers = Sequence[float]
#: p(s), dp/ds and d2p/ds2, each of shape (size,).
Path = tuple[Array, Array, Array]

ORIGIN, UP = (0.0, 0.0, 0.0), (0.0, 0.0, 1.0)
#: Sampling intervals per lap.
PARTS = 40
#: Share of its speed along the chords below which a spline goes slower than asked.
_BEND = 0.7
#: Error of dp/ds at the quarters of a piece for which the speed is right to 0.1 % between them,
#: too; how often a piece may be halved.
_ACCURACY, _HALVINGS = 5e-4, 8


class Curve(ABC):
    """A twice continuously differentiable curve p(s) with s from 0 to ``length``.

    It is evaluated in two steps, as a ``Signal``: ``numbers`` contains all branches (which piece
    is active), ``sample`` is an expression in these numbers without branches.

    Attributes:
        size: Number of components of p.
        count: Number of values passed from the first step to the second.
        length: Upper limit of s, in the unit of s; infinite for an unbounded curve.
        lap: The interval of s that covers the whole curve once.
        grain: Sampling step that resolves the shape of the curve.
        knots: Values of s at which pieces meet.
    """

    size: int
    count: int = 1
    length: float
    lap: float
    grain: float
    knots: tuple[float, ...] = ()

    def sampling_step(self, s: float) -> float:
        """Return the sampling step at s that resolves the shape of the curve."""
        return self.grain

    def numbers(self, s: Scalar) -> list[Scalar]:
        """Return the ``count`` numbers that describe the curve at s."""
        return [s]

    def formula(self, s: Scalar) -> list[Scalar]:
        """Return the same numbers as branch-free expressions in a symbol s."""
        return self.numbers(s)

    @abstractmethod
    def sample(self, numbers: Sequence[Scalar]) -> Path:
        """Return p, dp/ds and d2p/ds2 from the numbers or symbols."""

    def at(self, s: Scalar) -> Path:
        """Return p, dp/ds and d2p/ds2."""
        return self.sample(self.numbers(s))


class Line(Curve):
    """A straight line from one point to another; s is the arc length.

    Raises:
        ParameterError: The two points coincide.
    """

    def __init__(self, start: Numbers, end: Numbers) -> None:
        self.start = array('from', start, ('numbers',))
        self.size = len(self.start)
        step = array('to', end, (self.size,)) - self.start
        self.length = self.lap = math.sqrt(float(step @ step))
        if not self.length > 0.0:
            raise ParameterError('to', list(end), 'must differ from the start of the line')
        self.direction, self.grain = step / self.length, self.lap / PARTS

    def sample(self, numbers: Sequence[Scalar]) -> Path:
        """Return p, dp/ds and d2p/ds2."""
        return self.start + numbers[0] * self.direction, self.direction, np.zeros(self.size)


class Linear(Line):
    """An unbounded linear function p = start + rate * s; s is time, s; a lap is ten seconds.

    It is sampled so that no component changes by more than 0.05 (rad or m).
    """

    def __init__(self, start: Numbers, rate: Numbers) -> None:
        self.start, self.length, self.lap = array('from', start, ('numbers',)), math.inf, 10.0
        self.size = len(self.start)
        self.direction = array('rate', rate, (self.size,))
        fastest = float(np.abs(self.direction).max())
        self.grain = 0.05 / fastest if fastest else self.lap


class Circle(Curve):
    """A circle in space; s is the arc length. A lap is the circumference, at most the length.

    Args:
        center: Centre, m, shape (3,).
        radius: Radius, m.
        normal: Axis; s increases counterclockwise about it, shape (3,).
        toward: Direction from the centre to the start (only its component perpendicular to the
            normal is used), shape (3,).
        laps: Number of laps; infinite by default.

    Raises:
        ParameterError: The radius or ``laps`` is not positive, or ``toward`` is parallel to the
            normal.
    """

    size = 3

    def __init__(
        self,
        center: Numbers,
        radius: float,
        normal: Numbers = UP,
        toward: Numbers | None = None,
        laps: float = math.inf,
    ) -> None:
        require_positive(radius=radius)
        if not laps > 0.0:
            raise ParameterError('laps', laps, 'must be positive')
        self.center, self.radius = array('center', center, (3,)), float(radius)
        circumference = 2.0 * math.pi * self.radius
        self.length = circumference * float(laps)
        self.lap = min(self.length, circumference)
        self.grain = self.lap / PARTS
        n = unit('normal', normal)
        e = array('toward', toward, (3,)) if toward is not None else perpendicular(n)
        e = unit('toward across the normal', e - n * (n @ e))
        self._e, self._g = self.radius * e, self.radius * np.cross(n, e)

    def sample(self, numbers: Sequence[Scalar]) -> Path:
        """Return p, dp/ds and d2p/ds2."""
        k = 1.0 / self.radius
        c, d = cos(numbers[0] * k), sin(numbers[0] * k)
        radial = c * self._e + d * self._g
        return self.center + radial, k * (c * self._g - d * self._e), -k * k * radial


class Lissajous(Curve):
    r"""Sinusoids :math:`p_i = c_i + A_i\sin(2\pi\nu_i s + \varphi_i)`; s is time, s.

    A lap is the period of the slowest component, at most the length. It is the period of the curve
    if the other frequencies are integer multiples. It is sampled for the fastest component.

    Args:
        center: :math:`c`, shape (k,).
        amplitude: :math:`A`, shape (k,).
        frequency: :math:`\nu`, shape (k,), Hz.
        phase: :math:`\varphi`, shape (k,), rad; 0 by default.
        duration: Upper limit of s, s; infinite by default.
    """

    def __init__(
        self,
        center: Numbers,
        amplitude: Numbers,
        frequency: Numbers,
        phase: Numbers | None = None,
        duration: float = math.inf,
    ) -> None:
        self.center, self.length = array('center', center, ('numbers',)), float(duration)
        self.size = len(self.center)
        phase = [0.0] * self.size if phase is None else phase
        named = {'amplitude': amplitude, 'frequency': frequency, 'phase': phase}
        self._A, nu, self._phase = (array(x, named[x], (self.size,)) for x in named)
        self._omega = 2.0 * math.pi * nu
        frequencies = np.abs(nu[(nu != 0.0) & (self._A != 0.0)]).tolist() or [1.0]
        self.lap = min(1.0 / min(frequencies), self.length)
        self.grain = 1.0 / (PARTS * max(frequencies))

    def sample(self, numbers: Sequence[Scalar]) -> Path:
        """Return p, dp/ds and d2p/ds2."""
        w, angle = self._omega, self._omega * numbers[0] + self._phase
        sine, cosine = (self._A * [wave(x) for x in angle] for wave in (sin, cos))
        return self.center + sine, w * cosine, -w * w * sine


class Spline(Curve):
    """A cubic spline through points; s is the arc length, to 0.1 %. A lap passes all points.

    At a bend by more than about 90 degrees between two chords it is slower, to rest where the
    curve turns back, so that d2p/ds2 stays bounded; see :func:`even_pieces`. Of a single component
    s is the sum of the distances between the points. It is sampled at a quarter of the shortest
    chord, or 1/400 of the lap if that is longer.

    Args:
        points: Shape (N, k); at least two, consecutive points differ.
        closed: Whether it returns smoothly to the first point and repeats for ``laps``.
        laps: Number of laps of a closed spline; infinite by default.

    Raises:
        ParameterError: ``laps`` is not positive, or given for an open spline.
    """

    def __init__(
        self, points: Sequence[Numbers], closed: bool = False, laps: float = math.inf
    ) -> None:
        # Here: loading scipy takes longer than starting a controller.
        from scipy.interpolate import CubicSpline

        if not laps > 0.0 or laps < math.inf and not closed:
            raise ParameterError('laps', laps, 'must be positive, and of a closed spline')
        table = array('points', points, ('points', 'components'))
        if closed:
            table = np.vstack([table, table[:1]])
        chords = np.linalg.norm(np.diff(table, axis=0), axis=1)
        if len(table) < 2 or not np.all(chords > 0.0):
            raise ParameterError('points', points, 'give at least two; neighbours must differ')
        knots = np.concatenate([[0.0], np.cumsum(chords)])
        spline = CubicSpline(knots, table, bc_type='periodic' if closed else 'natural')
        if table.shape[1] > 1:
            self._follow(even_pieces(spline, knots))
        else:
            self._follow(PiecewisePolynomial.of(spline, knots, 3))
        self.grain = max(float(chords.min()) / 4.0, self.lap / 400.0)
        self.closed = closed
        self.length = self.lap * float(laps) if closed else self.lap

    def _follow(self, pieces: PiecewisePolynomial) -> None:
        self._pieces, self.size, self.lap = pieces, pieces.coefficients.shape[2], pieces.knots[-1]
        self.count = 1 + 6 * self.size

    def numbers(self, s: Scalar) -> list[Scalar]:
        """Return s from the start of its piece, and the coefficients of that."""
        if self.closed:
            s = s - self.lap * math.floor(s / self.lap)
        x, row = self._pieces.piece(s)
        return [x, *row.tolist()]

    def formula(self, s: Scalar) -> list[Scalar]:
        """Return the same numbers for a symbol s.

        Raises:
            ParameterError: The number of laps is infinite.
        """
        if not math.isfinite(self.length):
            raise ParameterError('laps', math.inf, 'must be finite for a symbolic closed spline')
        ends = [k * self.lap for k in range(1, math.ceil(self.length / self.lap - 1e-12))]
        completed = sum((select(s, end, 0.0, self.lap) for end in ends), start=0)
        return self._pieces.formula(s - completed)

    def sample(self, numbers: Sequence[Scalar]) -> Path:
        """Return p, dp/ds and d2p/ds2."""
        return polynomial(numbers[0], np.reshape(numbers[1:], (6, -1)))


class Waypoints(Spline):
    """A quintic spline through points at given times, at rest at both ends; s is time, s.

    It is continuous up to the fourth derivative; velocity and acceleration are zero at the first
    and the last point.

    Args:
        times: Strictly increasing times, the first 0, s, shape (N,).
        points: Shape (N, k).
    """

    closed = False

    def __init__(self, times: Numbers, points: Sequence[Numbers]) -> None:
        from scipy.interpolate import make_interp_spline  # here: see Spline

        table = array('points', points, ('points', 'components'))
        knots = array('times', times, ('points',))
        if len(knots) != len(table) or len(knots) < 2 or np.any(np.diff(knots) <= 0.0):
            raise ParameterError('times', list(times), 'one per point, strictly increasing')
        if knots[0] != 0.0:
            raise ParameterError('times', list(times), 'must begin with 0')
        rest = np.zeros(table.shape[1])
        ends = [(1, rest), (2, rest)]
        spline = make_interp_spline(knots, table, k=5, bc_type=(ends, ends))
        self._follow(PiecewisePolynomial.of(spline, np.unique(spline.t), 5))
        self.length, self.knots = self.lap, tuple(knots.tolist())

    def sampling_step(self, s: float) -> float:
        """Return an eighth of the time between the adjacent points, s."""
        i = min(max(bisect_right(self.knots, s), 1), len(self.knots) - 1)
        return (self.knots[i] - self.knots[i - 1]) / 8.0


class PiecewisePolynomial:
    r"""A vector-valued piecewise polynomial :math:`p(s) = \sum_{k=0}^5 c_k (s - s_i)^k`.

    The first and the last piece extrapolate beyond the knots.

    Attributes:
        knots: Increasing starts of the pieces, and the end of the last one.
        coefficients: Lowest power first, shape (pieces, 6, components).

    Cost: the piece selected last is found at once, without a new array. Any number of threads may
    use a polynomial.
    """

    def __init__(self, knots: Array, coefficients: Array) -> None:
        self.knots: list[float] = knots.tolist()
        self.coefficients = coefficients
        self._last = math.inf, math.inf, coefficients  # start and end of a piece, its row

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
        powers += [np.zeros_like(powers[0])] * (5 - degree)
        return cls(knots, np.stack(powers, axis=1))

    def piece(self, s: float) -> tuple[float, Array]:
        """Return s minus the start of its piece, and the coefficients of that, flattened."""
        start, end, row = self._last
        if not start <= s < end:
            k = min(max(bisect_right(self.knots, s) - 1, 0), len(self.knots) - 2)
            start, end = self.knots[k : k + 2]
            row = self.coefficients[k].reshape(-1)
            self._last = start, end, row
        return s - start, row

    def formula(self, s: Scalar) -> list[Scalar]:
        """Return the same, all in one list, for a symbol s.

        Cost: 6 selections for each component of each piece.
        """
        start, row = self.knots[0], self.coefficients[0].ravel()
        for knot, piece in zip(self.knots[1:-1], self.coefficients[1:], strict=True):
            start, row = select(s, knot, start, knot), select(s, knot, row, piece.ravel())
        return [s - start, *row]

    def table(self, abscissae: Array) -> Path:
        """Return p, dp/ds and d2p/ds2 at many abscissae, each of shape (k, components)."""
        last = len(self.coefficients) - 1
        k = np.clip(np.searchsorted(self.knots, abscissae, side='right') - 1, 0, last)
        x = abscissae - np.take(self.knots, k)
        return polynomial(x[:, np.newaxis], self.coefficients[k].swapaxes(0, 1))


def polynomial(x: Scalar, coefficients: Sequence[Array] | Array) -> Path:
    """Return a polynomial of fifth degree and its first two derivatives at x.

    Args:
        x: Numbers or symbols.
        coefficients: Six, lowest power first, each of the shape of the results.
    """
    c0, c1, c2, c3, c4, c5 = coefficients
    return (
        c0 + x * (c1 + x * (c2 + x * (c3 + x * (c4 + x * c5)))),
        c1 + x * (2 * c2 + x * (3 * c3 + x * (4 * c4 + x * 5 * c5))),
        2 * c2 + x * (6 * c3 + x * (12 * c4 + x * 20 * c5)),
    )


def quintic(
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


def even_pieces(curve: Callable[..., Array], knots: Array) -> PiecewisePolynomial:
    r"""Return a curve p(u) as a function of its arc length, twice continuously differentiable.

    Quintics join points with the derivatives of p(s) by the chain rule, where

    .. math::
        \frac{ds}{du} = \frac{g^2 + M^2}{2M}, \qquad g = |p'(u)|, \quad M = \max(g, 0.7),

    which is g, the rate of the arc length, unless the curve is slower than 0.7; it is positive
    and continuously differentiable even where the curve turns back. Pieces are halved until dp/ds
    is right to 0.1 %.

    Args:
        curve: ``curve(u, order)`` returns derivatives (0: values), shape (*u.shape, components);
            u is about a length.
        knots: Values of u between which it is smooth, including both ends, shape (pieces + 1,).
    """
    nodes, weights = np.polynomial.legendre.leggauss(8)
    for _ in range(_HALVINGS + 1):
        u = np.interp(np.arange(4 * len(knots) - 3) / 4.0, np.arange(len(knots)), knots)
        half = 0.5 * np.diff(u)[:, np.newaxis]
        rates = _rate(curve(u[:-1, np.newaxis] + half * (1.0 + nodes), 1))
        s = np.concatenate([[0.0], np.cumsum(half[:, 0] * (rates @ weights))])
        point, tangent, bend = (curve(u, order) for order in range(3))
        rate = _rate(tangent)[:, np.newaxis]
        slowest = np.maximum(np.linalg.norm(tangent, axis=1), _BEND)
        change = (np.sum(tangent * bend, axis=1) / slowest)[:, np.newaxis]
        rows = np.array([point, tangent / rate, (bend - tangent * change / rate) / rate**2])
        ends = rows[:, ::4]
        powers = quintic(np.diff(s[::4])[:, np.newaxis], *ends[:, :-1], *ends[:, 1:])
        pieces = PiecewisePolynomial(s[::4], np.stack(powers, axis=1))
        error = np.linalg.norm(pieces.table(s)[1] - rows[1], axis=1)
        coarse = error[:-1].reshape(-1, 4).max(axis=1) > _ACCURACY
        if not coarse.any():
            break
        knots = np.sort(np.concatenate([knots, u[2::4][coarse]]))
    return pieces


def _rate(tangent: Array) -> Array:
    """Return ds/du of :func:`even_pieces` for dp/du, shape (..., components)."""
    g = np.linalg.norm(tangent, axis=-1)
    most = np.maximum(g, _BEND)
    return (g * g + most * most) / (2.0 * most)
