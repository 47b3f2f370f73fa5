# SPDX-License-Identifier: Apache-2.0
r"""Dead bands from recordings without contact, for a stated rate of false alarms.

The coefficients c of a joint are those of the smallest dead band on the average that holds all of
the recorded external efforts e,

.. math:: \min_{c \ge 0}\ \mathrm{mean}(F c)\quad\text{so that}\quad F_k c \ge |e_k| ,

with what it grows with, F: a linear program. At rest friction may be anything up to the Coulomb
friction, so that :math:`d_f \ge 1`. Then each is widened by a factor s: the largest
ratios :math:`|e|/Fc` of stretches of equal length are taken to be Gumbel distributed, and the rate
at which they exceed s is the joint's share of the rate that is asked for. Every other
stretch is judged by the coefficients of the rest: what was learned by heart is no proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from robot_dynamics_ros.contact.detector import ContactDetector, ContactThresholds
from robot_dynamics_ros.contact.effort_fit import EffortFit
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.spatial.scalar import Array

STRETCH = 2.0  # s: long against the memory of the filters
_FEWEST = 5  # stretches
_LEAST = 2.0  # base, of the RMS effort: also where a motion was not seen
_SURE = 0.3  # of the samples, those of the surest friction; its RMS tells of rest otherwise
_MOST = 3.0  # what a dead band may grow by, of the largest effort: growth seen once is no law
_ADDED, _ROUNDS = 200, 30
_TIGHT = 1e-6


@dataclass
class CalibrationSamples:
    """What a detector saw in recordings without contact.

    Attributes:
        bands: External efforts, rows of shape (2, n).
        growth: What their dead bands grow with, rows of shape (n, 4).
        stretch: Number of the stretch of each row.
    """

    bands: list[Array] = field(default_factory=list)
    growth: list[Array] = field(default_factory=list)
    stretch: list[int] = field(default_factory=list)
    _elapsed: float = 0.0
    _next: int = 0

    def join(self, other: CalibrationSamples) -> None:
        """Add what a detector saw in another recording."""
        self.interrupt()
        self.bands += other.bands
        self.growth += other.growth
        self.stretch += [number + self._next for number in other.stretch]
        self._next += other._next
        self.interrupt()

    def interrupt(self) -> None:
        """A gap: the next row begins another stretch."""
        self._elapsed, self._next = 0.0, self._next + 1

    def take(self, step: float, detector: ContactDetector) -> None:
        """Add what a detector has just seen, a step (s) after the row before."""
        self._elapsed += step
        if self._elapsed >= STRETCH:
            self.interrupt()
        self.bands.append(detector.bands.copy())
        self.growth.append(detector.growth.copy())
        self.stretch.append(self._next)


@dataclass(frozen=True, eq=False)
class CalibrationResult:
    """Dead bands and where they come from.

    Attributes:
        thresholds: The dead bands.
        factor: Median of s, by which they are wider than what was recorded.
        stretches: Number of stretches.
    """

    thresholds: ContactThresholds
    factor: float
    stretches: int


def calibrate(
    samples: CalibrationSamples,
    bandwidth: Array,
    alarms_per_hour: float,
    delay: float = 0.0,
    fit: EffortFit | None = None,
) -> CalibrationResult:
    """Return dead bands.

    Args:
        samples: Of all recordings.
        bandwidth: K of the observer that saw them, shape (n,), 1/s.
        alarms_per_hour: Rate of false alarms of the whole robot.
        delay: Of the commands, with which it saw them, s.
        fit: Of the efforts, with which it saw them.

    Raises:
        RecordingError: There are too few samples.
    """
    numbers = np.unique(samples.stretch)
    if len(numbers) < _FEWEST:
        raise RecordingError(
            'recordings without contact',
            f'last {len(numbers)} stretches of {STRETCH:g} s',
            f'give {_FEWEST * STRETCH:g} s at least; an hour is better',
        )
    efforts, growth = np.abs(np.array(samples.bands)), np.array(samples.growth)
    stretch = np.searchsorted(numbers, samples.stretch)
    first, sure = stretch % 2 == 0, 1.0 if fit is None else _SURE
    largest = np.zeros((len(numbers), *efforts.shape[1:]))
    for own in (first, ~first):  # every other stretch is judged by the dead bands of the rest
        bands = _bands(_envelopes(efforts[~own], growth[~own], sure), growth[own])
        np.maximum.at(largest, stretch[own], efforts[own] / bands)
    rate = alarms_per_hour * STRETCH / 3600.0 / largest[0].size
    # The largest of N stretches is no bound of the next one, and less so the fewer they are.
    factor = np.maximum(1.0 + 1.0 / len(numbers), gumbel_level(largest, rate))
    coefficients = factor[:, :, np.newaxis] * _envelopes(efforts, growth, sure)
    bandwidth = np.asarray(bandwidth, dtype=float)
    thresholds = ContactThresholds(coefficients, bandwidth, delay, fit)
    return CalibrationResult(thresholds, float(np.median(factor)), len(numbers))


def _envelopes(efforts: Array, growth: Array, sure: float) -> Array:
    """Return the coefficients of all kinds and joints, shape (2, n, 4)."""
    rows = [
        [envelope(growth[:, j], column, sure) for j, column in enumerate(kind.T)]
        for kind in np.moveaxis(efforts, 1, 0)
    ]
    return np.array(rows)


def _bands(coefficients: Array, growth: Array) -> Array:
    """Return dead bands, shape (M, 2, n)."""
    return np.einsum('kjc,mjc->mkj', coefficients, growth)


def envelope(growth: Array, effort: Array, sure: float = 1.0) -> Array:
    """Return the coefficients of the least dead band that holds all efforts.

    Args:
        growth: F, shape (M, 4).
        effort: Sizes of the efforts, shape (M,).
        sure: Of the samples, those of the surest friction, whose RMS the base exceeds.

    Returns:
        New array, shape (4,), not negative, the first positive.
    """
    from scipy.optimize import linprog  # late: it takes long to load

    scale = np.maximum(growth.max(axis=0), 1e-300)
    columns, cost = growth / scale, (growth / scale).mean(axis=0)
    surest = effort[growth[:, 3] <= np.quantile(growth[:, 3], sure)]
    least = max(_LEAST * float(np.sqrt(np.square(surest).mean())), 1e-9)
    most = _MOST * float(effort.max())
    friction = float(scale[3])
    bounds = [(least, None), (0.0, most), (0.0, most), (friction, max(most, friction))]
    rows = np.argsort(effort)[-_ADDED:]
    for _ in range(_ROUNDS):  # the few rows that matter are found one after the other
        result = linprog(cost, -columns[rows], -effort[rows], bounds=bounds, method='highs')
        missing = effort - columns @ result.x
        if missing.max() <= _TIGHT * effort.max():
            break
        rows = np.union1d(rows, np.argsort(missing)[-_ADDED:])
    return np.asarray(result.x / scale * (1.0 + _TIGHT))


def gumbel_level(largest: Array, rate: float) -> Array:
    r"""Return the level that the largest value of a stretch exceeds with a small probability.

    By the moments of the Gumbel distribution, :math:`\beta = \sqrt6\,\sigma/\pi` and
    :math:`\mu = \bar x - 0.5772\,\beta`: the level is :math:`\mu - \beta\ln(-\ln(1 - p))`.

    Args:
        largest: Largest values of stretches, shape (N, ...).
        rate: p, expected number of stretches beyond it, by stretch; below 1.

    Returns:
        New array of the shape (...).
    """
    beta = math.sqrt(6.0) * np.std(largest, axis=0, ddof=1) / math.pi
    middle = np.mean(largest, axis=0) - np.euler_gamma * beta
    return np.asarray(middle - beta * math.log(-math.log1p(-min(rate, 0.5))))
