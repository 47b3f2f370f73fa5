# SPDX-License-Identifier: Apache-2.0
"""Functions of time: a path's parameter with its rates, and an initial error faded out."""

from __future__ import annotations

import math

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.spatial.scalar import Array, Scalar, maximum, minimum, select

Rates = tuple[Scalar, Scalar, Scalar]


def smooth_step(x: Scalar) -> Rates:
    r"""Return :math:`10x^3 - 15x^4 + 6x^5` and its first two derivatives; 0 below 0, 1 above 1."""
    if x <= 0:
        return 0.0, 0.0, 0.0
    if x >= 1:
        return 1.0, 0.0, 0.0
    return *_ramp(x), 60 * x * (1 - x) * (1 - 2 * x)


class Timing:
    r"""A parameter that rests until a start, runs at a constant rate, and comes to rest again.

    The rate rises by a quintic step :math:`r(x) = 10x^3-15x^4+6x^5` during the first ``ramp``
    seconds, and falls in the same way; the parameter has therefore a continuous *third*
    derivative. While the rate rises, :math:`s = \omega T(\tfrac52x^4-3x^5+x^6)`. A length that
    the two ramps would exceed is run at the lower rate ``length / ramp``.

    Args:
        length: Where the parameter ends, in its own unit (m, rad, s); may be infinite.
        rate: The constant rate, unit per second.
        ramp: Time of speeding up and of slowing down, s.
        start: Time of rest before, s.

    Raises:
        ParameterError: A number is out of its range.
    """

    def __init__(self, length: float, rate: float, ramp: float = 1.0, start: float = 0.0) -> None:
        for name, value in (('length', length), ('rate', rate), ('ramp', ramp)):
            if not value > 0.0 or (name != 'length' and not math.isfinite(value)):
                raise ParameterError(name, value, 'must be positive and finite')
        if not 0.0 <= start < math.inf:
            raise ParameterError('start', start, 'must be finite and not negative')
        self.length, self.ramp, self.start = float(length), float(ramp), float(start)
        self.rate = min(float(rate), self.length / self.ramp)
        self.duration = self.length / self.rate + self.ramp

    @classmethod
    def of_duration(
        cls, length: float, duration: float, ramp: float | None = None, start: float = 0.0
    ) -> Timing:
        """Return the timing that covers a length in a time, by default with a ramp of a third."""
        if not 0.0 < duration < math.inf:
            raise ParameterError('duration', duration, 'must be positive and finite')
        ramp = duration / 3.0 if ramp is None else ramp
        if not 0.0 < ramp <= 0.5 * duration:
            raise ParameterError('ramp', ramp, f'must be positive and at most {0.5 * duration:g}')
        return cls(length, length / (duration - ramp), ramp, start)

    @property
    def end(self) -> float:
        """The time from which the parameter rests for good, s; infinite if never."""
        return self.start + self.duration

    def at(self, t: Scalar) -> Rates:
        """Return the parameter and its first two time derivatives at a time t, s."""
        since = t - self.start
        if 2 * since > self.duration:
            s, ds, dds = self._rising(self.duration - since)
            return self.length - s, ds, -dds
        return self._rising(since)

    def formula(self, t: Scalar) -> Rates:
        """Return the same without cases, over symbols: what the two ramps add to the way."""
        T, steady = self.ramp, self.duration - 2 * self.ramp
        since = t - self.start
        x = clamped(since / T, 1.0)
        r, dr = _ramp(x)
        s = T * _covered(x) + clamped(since - T, steady)
        if math.isfinite(steady):
            y = clamped((since - T - steady) / T, 1.0)
            r_down, dr_down = _ramp(y)
            s, r, dr = s + T * (y - _covered(y)), r - r_down, dr - dr_down
        return self.rate * s, self.rate * r, self.rate / T * dr

    def _rising(self, t: Scalar) -> Rates:
        if t <= 0:
            return 0.0, 0.0, 0.0
        if t >= self.ramp:
            return self.rate * (t - self.ramp / 2), self.rate, 0.0
        x = t / self.ramp
        r, dr = _ramp(x)
        return self.rate * self.ramp * _covered(x), self.rate * r, self.rate / self.ramp * dr


def clamped(x: Scalar, most: float) -> Scalar:
    """Return x within 0 and a limit, which may be infinite; a number or symbol."""
    x = maximum(x, 0.0)
    return minimum(x, most) if math.isfinite(most) else x


def _ramp(x: Scalar) -> tuple[Scalar, Scalar]:
    """Return the quintic step and its derivative at x in [0, 1]."""
    y = 1 - x
    return x * x * x * (10 + x * (6 * x - 15)), 30 * x * x * y * y


def _covered(x: Scalar) -> Scalar:
    """Return the integral of the quintic step from 0 to x in [0, 1]."""
    return x * x * x * x * (2.5 + x * (x - 3))


class Clock:
    """Time itself: the parameter is the time since a start, 0 before it.

    For curves that rest at their own ends, such as timed waypoints.
    """

    rate, ramp = 1.0, 0.0

    def __init__(self, duration: float, start: float = 0.0) -> None:
        self.start, self.duration = float(start), float(duration)

    @property
    def end(self) -> float:
        """The time at which the curve ends, s."""
        return self.start + self.duration

    def at(self, t: Scalar) -> Rates:
        """Return the parameter and its first two time derivatives at a time t, s."""
        since = t - self.start
        return (since, 1.0, 0.0) if 0 < since < self.duration else self._rest(since)

    def formula(self, t: Scalar) -> Rates:
        """Return the same over symbols."""
        since = t - self.start
        runs = select(0.0, since, select(since, self.duration, 1.0, 0.0), 0.0)
        return clamped(since, self.duration), runs, 0.0

    def _rest(self, since: Scalar) -> Rates:
        return (0.0, 0.0, 0.0) if since <= 0 else (self.duration, 0.0, 0.0)


def quintic_offset(value: Array, rate: Array, duration: float, t: Scalar) -> tuple[Array, ...]:
    r"""Return an offset that leaves (value, rate, 0) and ends at rest at 0, with its rates.

    .. math:: o(t) = f_0\,(1-10x^3+15x^4-6x^5) + \dot f_0T\,x(1-x)^3(1+3x), \qquad x = t/T

    Args:
        value: :math:`f_0`, shape (m,).
        rate: :math:`\dot f_0`, shape (m,).
        duration: T, s, positive.
        t: Time since the start, s.

    Returns:
        New arrays o, its rate and its second rate, each of shape (m,).
    """
    x = clamped(t / duration, 1.0)
    if x == 1.0:
        zero = np.zeros(len(value))
        return zero, zero, zero
    y = 1.0 - x
    a = (1.0 - x**3 * (10.0 - 15.0 * x + 6.0 * x * x), -30.0 * x * x * y * y)
    aa = -60.0 * x * y * (1.0 - 2.0 * x)
    # b = x (1 - x)^3 (1 + 3 x) = x - 6 x^3 + 8 x^4 - 3 x^5
    b = (x - 6.0 * x**3 + 8.0 * x**4 - 3.0 * x**5, 1.0 - 18.0 * x**2 + 32.0 * x**3 - 15.0 * x**4)
    bb = -36.0 * x + 96.0 * x**2 - 60.0 * x**3
    T = duration
    return (
        value * a[0] + rate * T * b[0],
        value * a[1] / T + rate * b[1],
        (value * aa / T + rate * bb) / T,
    )
