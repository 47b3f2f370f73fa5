# SPDX-License-Identifier: Apache-2.0
"""Parametric curves: line, circle, Lissajous figure."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import ParameterError, ShapeError
from robot_dynamics_ros.spatial.scalar import Array, Scalar, cos, sin

Point = list[Scalar]

ORIGIN, UP = (0.0, 0.0, 0.0), (0.0, 0.0, 1.0)
#: Sampling intervals per lap.
PARTS = 40


class Curve(ABC):
    """A twice continuously differentiable curve p(s) with s from 0 to ``length``.

    Attributes:
        size: Number of components of p.
        length: Upper limit of s, in the unit of s; infinite for an unbounded curve.
        lap: The interval of s that covers the whole curve once.
        formula: Whether ``at`` is one expression in s without branches, so that it accepts
            symbols.
        knots: Values of s at which pieces meet.
    """

    size: int
    length: float
    lap: float
    formula: bool = True
    knots: tuple[float, ...] = ()

    def sampling_step(self, s: float) -> float:
        """Return the sampling step at s that resolves the shape of the curve."""
        return self.lap / PARTS

    @abstractmethod
    def at(self, s: Scalar) -> tuple[Point, Point, Point]:
        """Return p, dp/ds and d2p/ds2, each a list of ``size`` numbers."""

    def symbolic(self, s: Scalar) -> tuple[Point, Point, Point]:
        """Return the same for a symbol s, even if ``at`` branches."""
        return self.at(s)


class Line(Curve):
    """A straight line from one point to another; s is the arc length.

    Raises:
        ParameterError: The two points coincide.
    """

    def __init__(self, start: Sequence[float], end: Sequence[float]) -> None:
        self.start = numbers('from', start)
        step = np.array(numbers('to', end, len(self.start))) - self.start
        self.size, self.length = len(self.start), math.sqrt(float(step @ step))
        self.lap = self.length
        if not self.length > 0.0:
            raise ParameterError('to', list(end), 'must differ from the start of the line')
        self.direction = (step / self.length).tolist()
        self._zeros = [0.0] * self.size

    def at(self, s: Scalar) -> tuple[Point, Point, Point]:
        """Return p, dp/ds and d2p/ds2."""
        point = [a + s * d for a, d in zip(self.start, self.direction, strict=True)]
        return point, self.direction, self._zeros


class Linear(Line):
    """An unbounded linear function p = start + rate * s; s is time, s; a lap is ten seconds."""

    length, lap = math.inf, 10.0

    def __init__(self, start: Sequence[float], rate: Sequence[float]) -> None:
        self.start = numbers('from', start)
        self.size = len(self.start)
        self.direction = numbers('rate', rate, self.size)
        self._zeros = [0.0] * self.size

    def sampling_step(self, s: float) -> float:
        """Return the time in which no component changes by more than 0.05 (rad or m)."""
        fastest = max(abs(x) for x in self.direction)
        return 0.05 / fastest if fastest else self.lap


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
        center: Sequence[float],
        radius: float,
        normal: Sequence[float] = UP,
        toward: Sequence[float] | None = None,
        laps: float = math.inf,
    ) -> None:
        if not 0.0 < radius < math.inf:
            raise ParameterError('radius', radius, 'must be positive and finite')
        if not laps > 0.0:
            raise ParameterError('laps', laps, 'must be positive')
        self.center, self.radius = numbers('center', center, 3), float(radius)
        circumference = 2.0 * math.pi * self.radius
        self.length = circumference * float(laps)
        self.lap = min(self.length, circumference)
        n = unit('normal', normal)
        e = np.array(numbers('toward', toward, 3)) if toward is not None else across(n)
        e = unit('toward', e - n * (n @ e))
        self._e, self._g = (self.radius * e).tolist(), (self.radius * np.cross(n, e)).tolist()

    def at(self, s: Scalar) -> tuple[Point, Point, Point]:
        """Return p, dp/ds and d2p/ds2."""
        k = 1.0 / self.radius
        c, d = cos(s * k), sin(s * k)
        radial = [c * e + d * g for e, g in zip(self._e, self._g, strict=True)]
        tangent = [k * (c * g - d * e) for e, g in zip(self._e, self._g, strict=True)]
        point = [m + r for m, r in zip(self.center, radial, strict=True)]
        return point, tangent, [-k * k * r for r in radial]


class Lissajous(Curve):
    r"""Sinusoids :math:`p_i = c_i + A_i\sin(2\pi\nu_i s + \varphi_i)`; s is time, s.

    A lap is the period of the slowest component, at most the length. It is the period of the curve
    if the other frequencies are integer multiples.

    Args:
        center: :math:`c`, shape (k,).
        amplitude: :math:`A`, shape (k,).
        frequency: :math:`\nu`, shape (k,), Hz.
        phase: :math:`\varphi`, shape (k,), rad; 0 by default.
        duration: Upper limit of s, s; infinite by default.
    """

    def __init__(
        self,
        center: Sequence[float],
        amplitude: Sequence[float],
        frequency: Sequence[float],
        phase: Sequence[float] | None = None,
        duration: float = math.inf,
    ) -> None:
        self.center = numbers('center', center)
        self.size, self.length = len(self.center), float(duration)
        amplitude = numbers('amplitude', amplitude, self.size)
        nu = numbers('frequency', frequency, self.size)
        phase = numbers('phase', phase or [0.0] * self.size, self.size)
        omega = [2.0 * math.pi * x for x in nu]
        self._rows = list(zip(self.center, amplitude, omega, phase, strict=True))
        frequencies = [abs(x) for x, a in zip(nu, amplitude, strict=True) if x and a] or [1.0]
        self.lap = min(1.0 / min(frequencies), self.length)
        self._grain = 1.0 / (PARTS * max(frequencies))

    def sampling_step(self, s: float) -> float:
        """Return the sampling step for the fastest component, s."""
        return self._grain

    def at(self, s: Scalar) -> tuple[Point, Point, Point]:
        """Return p, dp/ds and d2p/ds2."""
        point, tangent, curvature = [], [], []
        for c, A, w, phase in self._rows:
            sine, cosine = A * sin(w * s + phase), A * cos(w * s + phase)
            point.append(c + sine)
            tangent.append(w * cosine)
            curvature.append(-w * w * sine)
        return point, tangent, curvature


def unit(name: str, direction: Sequence[float] | Array) -> Array:
    """Return the unit vector along a direction of shape (3,).

    Raises:
        ParameterError: The direction is zero.
    """
    array = np.array(numbers(name, direction, 3))
    length = math.sqrt(float(array @ array))
    if length < 1e-9:
        raise ParameterError(name, list(direction), 'must be a direction, not zero')
    return array / length


def across(direction: Array) -> Array:
    """Return a unit vector perpendicular to a unit vector, shape (3,), from base x or base y."""
    e = np.eye(3)[0] if abs(direction[0]) < 0.9 else np.eye(3)[1]
    return unit('direction', e - direction * (direction @ e))


def numbers(name: str, value: Sequence[float] | Array, size: int | None = None) -> list[float]:
    """Convert a value to a list of finite numbers.

    Raises:
        ParameterError: An element is not a finite number.
        ShapeError: The value is not a list, is empty or does not have the given size.
    """
    array = number_array(name, value, 'must be a list of numbers')
    if array.ndim != 1 or array.size == 0 or (size is not None and array.size != size):
        raise ShapeError(name, array.shape, f'({size},)' if size else 'a list of numbers')
    return array.tolist()


def number_array(name: str, value: Any, reason: str) -> Array:
    """Convert a value to an array of finite numbers of any shape.

    Raises:
        ParameterError: The value is not numeric (message: the given reason) or not finite.
    """
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise ParameterError(name, value, reason) from None
    if not np.all(np.isfinite(array)):
        raise ParameterError(name, value, 'must be finite')
    return array
