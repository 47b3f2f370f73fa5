# SPDX-License-Identifier: Apache-2.0
"""Quantities given in time, with their first two derivatives: targets, moving frames, radii."""

from __future__ import annotations

import bisect
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.constraints.curves import Curve, Point
from robot_dynamics_ros.constraints.timing import Clock, Timing
from robot_dynamics_ros.errors import ParameterError, ShapeError
from robot_dynamics_ros.spatial.scalar import Array, Scalar

Sample = tuple[Point, Point, Point]

_RAMP_STEPS = 10


class Signal(ABC):
    """A quantity x(t) of ``size`` components, twice continuously differentiable.

    It is evaluated in two steps: what must be decided by cases (has the motion started? which
    piece?) is done in time and leaves a few numbers; what is left is a formula in them, which
    the control tick has compiled together with the constraints.

    Attributes:
        size: Number of components.
        count: How many numbers pass from the first step to the second; 0 if it never changes.
        horizon: Time until which it must be watched to have seen all of it, s.
        changes: Times at which it begins or ends to move or passes a corner of its curve, s.
    """

    size: int
    count: int
    horizon: float = 0.0
    changes: tuple[float, ...] = ()

    def step(self, t: float) -> float:
        """Return the time after which it must be looked at again, s; infinite at rest."""
        return math.inf

    def require_size(self, name: str, size: int, expected: str = '') -> None:
        """Refuse a signal with another number of components.

        Raises:
            ShapeError: It has; names the argument that it was given for, and what was expected.
        """
        if self.size != size:
            raise ShapeError(name, (self.size,), expected or f'({size},)')

    @abstractmethod
    def numbers(self, t: Scalar) -> Sequence[Scalar]:
        """Return the numbers that describe the signal at a time t, s; ``count`` of them."""

    def formula(self, t: Scalar) -> Sequence[Scalar]:
        """Return the same numbers as formulas of a symbol t, free of cases.

        Raises:
            ParameterError: There is no such formula.
        """
        return self.numbers(t)

    @abstractmethod
    def sample(self, numbers: Sequence[Scalar]) -> Sample:
        """Return value and two time derivatives from the numbers; runs over symbols as well."""

    def at(self, t: Scalar) -> Sample:
        """Return the value and its first two time derivatives, each a list of ``size`` numbers."""
        return self.sample(self.numbers(t))


class Constant(Signal):
    """A value that never changes."""

    count = 0

    def __init__(self, value: Sequence[float]) -> None:
        numbers = [float(x) for x in value]
        if not numbers or not all(math.isfinite(x) for x in numbers):
            raise ParameterError('value', list(value), 'must be finite numbers')
        self.size = len(numbers)
        rest = [0.0] * self.size
        self._sample = (numbers, rest, rest)

    def numbers(self, t: Scalar) -> Sequence[Scalar]:
        """Return nothing."""
        return ()

    def sample(self, numbers: Sequence[Scalar]) -> Sample:
        """Return the value and zeros."""
        return self._sample


class Timed(Signal):
    r"""A curve run by a timing.

    .. math:: \dot x = p'\dot s, \qquad \ddot x = p''\dot s^2 + p'\ddot s

    Args:
        curve: Where.
        timing: When.
    """

    def __init__(self, curve: Curve, timing: Timing | Clock) -> None:
        self.curve, self.timing, self.size = curve, timing, curve.size
        self.count = 3 if curve.formula else 3 * curve.size
        self.horizon = min(timing.end, timing.start + timing.ramp + curve.lap / timing.rate)
        self.changes = (
            *(timing.start + s for s in (curve.knots if isinstance(timing, Clock) else ())),
            timing.start,
            timing.start + timing.ramp,
            timing.end - timing.ramp,
            timing.end,
        )

    def step(self, t: float) -> float:
        """Return the time after which it must be looked at again, s; infinite at rest."""
        timing = self.timing
        if not timing.start <= t < timing.end:
            return math.inf
        step = self.curve.grain(float(timing.at(t)[0])) / timing.rate
        steady = timing.start + timing.ramp <= t < timing.end - timing.ramp
        return step if steady or not timing.ramp else min(step, timing.ramp / _RAMP_STEPS)

    def numbers(self, t: Scalar) -> Sequence[Scalar]:
        """Return the parameter and its rates, or the whole sample of a curve made of pieces."""
        rates = self.timing.at(t)
        if self.curve.formula:
            return rates
        return [x for row in self._along(self.curve.at(rates[0]), *rates[1:]) for x in row]

    def formula(self, t: Scalar) -> Sequence[Scalar]:
        """Return the same numbers as formulas of a symbol t."""
        s, *rates = self.timing.formula(t)
        if self.curve.formula:
            return s, *rates
        return [x for row in self._along(self.curve.symbolic(s), *rates) for x in row]

    def sample(self, numbers: Sequence[Scalar]) -> Sample:
        """Return value and two time derivatives."""
        if self.curve.formula:
            s, *rates = numbers
            return self._along(self.curve.at(s), *rates)
        return _thirds(numbers, self.size)

    def _along(self, curve: tuple[Point, Point, Point], ds: Scalar, dds: Scalar) -> Sample:
        p, along, bend = curve
        ds2 = ds * ds
        return (
            p,
            [ds * x for x in along],
            [ds2 * y + dds * x for x, y in zip(along, bend, strict=True)],
        )


class Followed(Signal):
    """A quantity that somebody else gives in time, such as the joint trajectory sent to the law.

    Before it is given it rests at zero, or where it was made.

    Args:
        value: Where it rests, shape (k,).
    """

    def __init__(self, value: Sequence[float]) -> None:
        self.size = len(value)
        self.count = 3 * self.size
        self._numbers = [*map(float, value), *([0.0] * (2 * self.size))]

    def give(
        self, value: Sequence[float], rate: Sequence[float], acceleration: Sequence[float]
    ) -> None:
        """Set the present value and its first two time derivatives, each of ``size`` numbers."""
        k = self.size
        self._numbers[:k], self._numbers[k : 2 * k] = value, rate
        self._numbers[2 * k :] = acceleration

    def numbers(self, t: Scalar) -> Sequence[Scalar]:
        """Return what was given last."""
        return self._numbers

    def sample(self, numbers: Sequence[Scalar]) -> Sample:
        """Return value and two time derivatives."""
        return _thirds(numbers, self.size)


def _thirds(numbers: Sequence[Scalar], size: int) -> Sample:
    """Return value and two time derivatives out of their numbers in a row."""
    return list(numbers[:size]), list(numbers[size : 2 * size]), list(numbers[2 * size :])


#: More instants than this are not looked at.
MOST_INSTANTS = 1000


def instants(signals: Sequence[Signal], horizon: float, samples: int) -> Array:
    """Return instants from 0 on, close enough for every signal that moves.

    Args:
        signals: What is given in time.
        horizon: The last instant, s, positive.
        samples: Instants at least, evenly over the horizon where nothing else decides.

    Returns:
        New array, increasing, s; at most MOST_INSTANTS, to the horizon if they suffice.
    """
    widest = horizon / (samples - 1)
    changes = {t for signal in signals for t in signal.changes if 0.0 < t < horizon}
    stops = [*sorted(changes), horizon]
    times = [0.0]
    while times[-1] < horizon and len(times) < max(MOST_INSTANTS, samples):
        t = times[-1]
        step = min([widest, *(signal.step(t) for signal in signals)])
        stop = stops[bisect.bisect_right(stops, t)]
        times.append(stop if stop - t < 1.001 * step else t + step)
    return np.array(times)
