# SPDX-License-Identifier: Apache-2.0
"""Signals: functions of time with their first two derivatives, for targets, frames and radii.

Also timings, which define a curve parameter over time, and the blending of an initial error.
"""

from __future__ import annotations

import bisect
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.constraints.curves import Curve, Numbers, Path, polynomial
from robot_dynamics_ros.errors import ParameterError, ShapeError
from robot_dynamics_ros.spatial.scalar import Array, Scalar, maximum, minimum, select
from robot_dynamics_ros.spatial.validation import array, require_positive

Rates = tuple[Scalar, Scalar, Scalar]


class Timing:
    r"""A curve parameter that starts at rest, runs at a constant rate and ends at rest.

    The rate increases by a quintic step :math:`r(x) = 10x^3-15x^4+6x^5` during the first ``ramp``
    seconds and decreases in the same way, so the parameter has a continuous *third* derivative.
    During the increase, :math:`s = \omega T(\tfrac52x^4-3x^5+x^6)`. If the two ramps alone exceed
    the length, the rate is reduced to ``length / ramp``.

    Args:
        length: Final value of the parameter, in its own unit (m, rad, s); may be infinite.
        rate: The constant rate, unit per second.
        ramp: Duration of acceleration and of deceleration, s.
        start: Start of the motion, s.

    Raises:
        ParameterError: A number is out of range.
    """

    def __init__(self, length: float, rate: float, ramp: float = 1.0, start: float = 0.0) -> None:
        require_positive(length=min(length, 1e300), rate=rate, ramp=ramp)  # it may be endless
        if not 0.0 <= start < math.inf:
            raise ParameterError('start', start, 'must be finite and not negative')
        self.length, self.ramp, self.start = float(length), float(ramp), float(start)
        self.rate = min(float(rate), self.length / self.ramp)
        self.duration = self.length / self.rate + self.ramp

    @classmethod
    def of_duration(
        cls, length: float, duration: float, ramp: float | None = None, start: float = 0.0
    ) -> Timing:
        """Return the timing of a length and a duration, s; the default ramp is a third of it."""
        require_positive(duration=duration)
        ramp = duration / 3.0 if ramp is None else ramp
        if not 0.0 < ramp <= 0.5 * duration:
            raise ParameterError('ramp', ramp, f'must be positive and at most {0.5 * duration:g}')
        return cls(length, length / (duration - ramp), ramp, start)

    @property
    def end(self) -> float:
        """End of the motion, s; infinite if the length is."""
        return self.start + self.duration

    def at(self, t: Scalar) -> Rates:
        """Return the parameter and its first two time derivatives at a time t, s."""
        elapsed = t - self.start
        if 2 * elapsed > self.duration:
            s, ds, dds = self._first_half(self.duration - elapsed)
            return self.length - s, ds, -dds
        return self._first_half(elapsed)

    def formula(self, t: Scalar) -> Rates:
        """Return the same for a symbol t: the sum of both ramps and the constant-rate part."""
        T, steady = self.ramp, self.duration - 2 * self.ramp
        elapsed = t - self.start
        x = clamped(elapsed / T, 1.0)
        r, dr = _ramp(x)
        s = T * _ramp_integral(x) + clamped(elapsed - T, steady)
        if math.isfinite(steady):
            y = clamped((elapsed - T - steady) / T, 1.0)
            r_down, dr_down = _ramp(y)
            s, r, dr = s + T * (y - _ramp_integral(y)), r - r_down, dr - dr_down
        return self.rate * s, self.rate * r, self.rate / T * dr

    def _first_half(self, t: Scalar) -> Rates:
        if t <= 0:
            return 0.0, 0.0, 0.0
        if t >= self.ramp:
            return self.rate * (t - self.ramp / 2), self.rate, 0.0
        x = t / self.ramp
        r, dr = _ramp(x)
        return self.rate * self.ramp * _ramp_integral(x), self.rate * r, self.rate / self.ramp * dr


def clamped(x: Scalar, most: float) -> Scalar:
    """Clamp x, a number or symbol, between 0 and a limit, which may be infinite."""
    x = maximum(x, 0.0)
    return minimum(x, most) if math.isfinite(most) else x


def _ramp(x: Scalar) -> tuple[Scalar, Scalar]:
    """Return the quintic step and its derivative at x in [0, 1]."""
    y = 1 - x
    return x * x * x * (10 + x * (6 * x - 15)), 30 * x * x * y * y


def _ramp_integral(x: Scalar) -> Scalar:
    """Return the integral of the quintic step from 0 to x in [0, 1]."""
    return x * x * x * x * (2.5 + x * (x - 3))


class Clock(Timing):
    """A timing whose parameter is the time since a start, clamped to 0 and the duration, s.

    For curves that are at rest at both ends, such as timed waypoints.
    """

    rate, ramp = 1.0, 0.0

    def __init__(self, duration: float, start: float = 0.0) -> None:
        self.start, self.duration, self.length = float(start), float(duration), float(duration)

    def formula(self, t: Scalar) -> Rates:
        """Return the same for a symbol t."""
        elapsed = t - self.start
        rate = select(0.0, elapsed, select(elapsed, self.duration, 1.0, 0.0), 0.0)
        return clamped(elapsed, self.duration), rate, 0.0


def quintic_offset(value: Array, rate: Array, duration: float, t: Scalar) -> tuple[Array, ...]:
    r"""Return an offset that starts at (value, rate, 0) and ends at rest at 0, with its rates.

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
    a, b, T = value, rate * duration, duration
    row = (a, b, 0.0 * a, -10.0 * a - 6.0 * b, 15.0 * a + 8.0 * b, -6.0 * a - 3.0 * b)
    offset, slope, curvature = polynomial(x, row)
    return offset, slope / T, curvature / (T * T)


def offset_duration(value: Array, speed: Array | float, rate: Array | float = 0.0) -> float:
    r"""Return the duration for which :func:`quintic_offset` is within speed limits, s.

    The first term has the peak :math:`\tfrac{15}8|f_0|/T`. The second one is fastest at the start;
    it opposes :math:`\dot f_0` later, by at most :math:`0.512\,|\dot f_0|` at x = 3/5, which adds
    to the first term if the offset grows at the start.

    Args:
        value: :math:`f_0`, shape (m,).
        speed: Largest rates, shape (m,) or one for all; where the initial rate is larger, that.
        rate: :math:`\dot f_0`, shape (m,).
    """
    growth = np.maximum(np.sign(value) * rate, 0.0)
    room = np.maximum(speed, growth) - 0.512 * growth
    return float((15.0 / 8.0 * np.abs(value) / room).max())


_RAMP_STEPS = 10


class Signal(ABC):
    """A twice continuously differentiable function of time x(t) with ``size`` components.

    It is evaluated in two steps. The first, ``numbers``, contains all branches (has the motion
    started, which piece is active) and reduces the time to a few numbers. The second, ``sample``,
    is a branch-free expression in these numbers, which is compiled together with the constraints.

    Attributes:
        size: Number of components.
        count: Number of values passed from the first step to the second; 0 for a constant.
        horizon: Time that covers the whole signal once, s.
        changes: Times at which the motion starts, ends or passes a knot, s.
    """

    size: int
    count: int
    horizon: float = 0.0
    changes: tuple[float, ...] = ()

    def step(self, t: float) -> float:
        """Return the sampling step at a time t, s; infinite at rest."""
        return math.inf

    def require_size(self, name: str, size: int, expected: str = '') -> None:
        """Check the number of components.

        Raises:
            ShapeError: It differs; the message names the argument and the expected shape.
        """
        if self.size != size:
            raise ShapeError(name, (self.size,), expected or f'({size},)')

    @abstractmethod
    def numbers(self, t: Scalar) -> Sequence[Scalar]:
        """Return the ``count`` numbers that describe the signal at a time t, s."""

    def formula(self, t: Scalar) -> Sequence[Scalar]:
        """Return the same numbers as branch-free expressions in a symbol t.

        Raises:
            ParameterError: The signal has no such expression.
        """
        return self.numbers(t)

    @abstractmethod
    def sample(self, numbers: Sequence[Scalar]) -> Path:
        """Return value and two time derivatives from the numbers or symbols."""

    def at(self, t: Scalar) -> Path:
        """Return the value and its first two time derivatives, each of shape (size,)."""
        return self.sample(self.numbers(t))


class Constant(Signal):
    """A constant signal."""

    count = 0

    def __init__(self, value: Numbers) -> None:
        self.value = array('value', value, ('numbers',))
        self.size = len(self.value)

    def numbers(self, t: Scalar) -> Sequence[Scalar]:
        """Return an empty tuple."""
        return ()

    def sample(self, numbers: Sequence[Scalar]) -> Path:
        """Return the value and zeros."""
        return self.value, np.zeros(self.size), np.zeros(self.size)


class Timed(Signal):
    r"""A curve traversed according to a timing.

    .. math:: \dot x = p'\dot s, \qquad \ddot x = p''\dot s^2 + p'\ddot s

    Args:
        curve: The curve p(s).
        timing: The parameter s(t).
    """

    def __init__(self, curve: Curve, timing: Timing) -> None:
        self.curve, self.timing, self.size = curve, timing, curve.size
        self.count = curve.count + 2
        self.horizon = min(timing.end, timing.start + timing.ramp + curve.lap / timing.rate)
        self.changes = (
            *(timing.start + s for s in (curve.knots if isinstance(timing, Clock) else ())),
            timing.start,
            timing.start + timing.ramp,
            timing.end - timing.ramp,
            timing.end,
        )

    def step(self, t: float) -> float:
        """Return the sampling step at a time t, s; infinite at rest."""
        timing = self.timing
        if not timing.start <= t < timing.end:
            return math.inf
        step = self.curve.sampling_step(float(timing.at(t)[0])) / timing.rate
        steady = timing.start + timing.ramp <= t < timing.end - timing.ramp
        return step if steady or not timing.ramp else min(step, timing.ramp / _RAMP_STEPS)

    def numbers(self, t: Scalar) -> Sequence[Scalar]:
        """Return the numbers of the curve, and two rates of its parameter."""
        s, *rates = self.timing.at(t)
        return [*self.curve.numbers(s), *rates]

    def formula(self, t: Scalar) -> Sequence[Scalar]:
        """Return the same numbers as expressions in a symbol t."""
        s, *rates = self.timing.formula(t)
        return [*self.curve.formula(s), *rates]

    def sample(self, numbers: Sequence[Scalar]) -> Path:
        """Return value and two time derivatives."""
        *place, ds, dds = numbers
        point, tangent, bend = self.curve.sample(place)
        return point, ds * tangent, ds * ds * bend + dds * tangent


class Followed(Signal):
    """An externally set signal, such as the joint reference passed to the control law.

    Until the first call of :meth:`give` it is constant.

    Args:
        value: Initial value, shape (k,).
    """

    def __init__(self, value: Numbers) -> None:
        self.size = len(value)
        self.count = 3 * self.size
        self._numbers = [*map(float, value), *([0.0] * (2 * self.size))]

    def give(self, value: Numbers, rate: Numbers, acceleration: Numbers) -> None:
        """Set the current value and its first two time derivatives, each of ``size`` numbers."""
        k = self.size
        self._numbers[:k], self._numbers[k : 2 * k] = value, rate
        self._numbers[2 * k :] = acceleration

    def numbers(self, t: Scalar) -> Sequence[Scalar]:
        """Return the numbers that were set last."""
        return self._numbers

    def sample(self, numbers: Sequence[Scalar]) -> Path:
        """Return value and two time derivatives."""
        value, rate, acceleration = np.reshape(numbers, (3, -1))
        return value, rate, acceleration


#: Maximum number of instants, unless more samples are requested.
MOST_INSTANTS = 1000


def instants(signals: Sequence[Signal], horizon: float, samples: int) -> Array:
    """Return instants from 0 on that are dense enough for every signal.

    Args:
        signals: The signals to sample.
        horizon: The last instant, s, positive.
        samples: Minimum number of instants, equally spaced unless a signal needs smaller steps.

    Returns:
        New array, increasing, s; it ends before the horizon if MOST_INSTANTS do not suffice.
    """
    largest_step = horizon / (samples - 1)
    changes = {t for signal in signals for t in signal.changes if 0.0 < t < horizon}
    breakpoints = [*sorted(changes), horizon]
    times = [0.0]
    while times[-1] < horizon and len(times) < max(MOST_INSTANTS, samples):
        t = times[-1]
        step = min([largest_step, *(signal.step(t) for signal in signals)])
        stop = breakpoints[bisect.bisect_right(breakpoints, t)]
        times.append(stop if stop - t < 1.001 * step else t + step)
    return np.array(times)
