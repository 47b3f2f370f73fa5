# SPDX-License-Identifier: Apache-2.0
r"""Calibration of dead bands from contact-free recordings, for a given false-alarm rate.

The coefficients c of a joint define the dead band with the smallest mean that contains all
recorded external efforts e,

.. math:: \min_{c \ge 0}\ \mathrm{mean}(F c)\quad\text{so that}\quad F_k c \ge |e_k| ,

a linear program, where F are the growth variables (``GROWTH``). At rest, friction may have any
value up to the Coulomb friction, so :math:`d_f \ge 1`. Each dead band is then widened by a factor
s: the maxima of the ratio :math:`|e|/Fc` in segments of equal length are assumed to be Gumbel
distributed, and the rate at which they exceed s is the joint's share of the given rate. The
segments are evaluated with coefficients from the other half of the segments (even and odd).

Before, measured efforts of drives whose gains are not known accurately are fitted to the model
(``EffortFit``): ridge regression for each joint and several values of :math:`\delta`, of which
the best is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from robot_dynamics_ros.contact.detector import ContactDetector, ContactThresholds
from robot_dynamics_ros.contact.observer import EffortFit, effort_terms, update_direction
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.spatial.scalar import Array

SEGMENT_S = 2.0  # s, length of a segment, long compared with the filter time constants
_MIN_SEGMENTS = 5  # segments
_MIN_BASE = 2.0  # minimum base, in RMS efforts: covers motions that were not recorded
_CERTAIN = 0.3  # share of the samples, with the most certain friction, whose RMS bounds the base
_MAX_GROWTH = 3.0  # maximum growth of a dead band, in maximum efforts: limits extrapolation
_ADDED_ROWS, _ROUNDS = 200, 30
_TOLERANCE = 1e-6


@dataclass
class CalibrationSamples:
    """Detector signals of contact-free recordings.

    Attributes:
        bands: External efforts by kind, rows of shape (2, n), N m or N.
        growth: Growth variables of their dead bands, rows of shape (n, 4).
        segment: Segment number of each row.
    """

    bands: list[Array] = field(default_factory=list)
    growth: list[Array] = field(default_factory=list)
    segment: list[int] = field(default_factory=list)
    _elapsed: float = 0.0
    _next: int = 0

    def join(self, other: CalibrationSamples) -> None:
        """Add the signals of another recording."""
        self.begin_segment()
        self.bands += other.bands
        self.growth += other.growth
        self.segment += [number + self._next for number in other.segment]
        self._next += other._next
        self.begin_segment()

    def begin_segment(self) -> None:
        """Start a new segment with the next row, after a gap."""
        self._elapsed, self._next = 0.0, self._next + 1

    def take(self, step: float, detector: ContactDetector) -> None:
        """Add the current signals of a detector, a step (s) after the previous row."""
        self._elapsed += step
        if self._elapsed >= SEGMENT_S:
            self.begin_segment()
        self.bands.append(detector.bands.copy())
        self.growth.append(detector.growth.copy())
        self.segment.append(self._next)


@dataclass(frozen=True, eq=False)
class CalibrationResult:
    """Calibrated dead bands.

    Attributes:
        thresholds: The dead bands.
        factor: Median of the widening factor s.
        segments: Number of segments.
    """

    thresholds: ContactThresholds
    factor: float
    segments: int


def calibrate(
    samples: CalibrationSamples,
    bandwidth: Array,
    alarms_per_hour: float,
    delay: float = 0.0,
    fit: EffortFit | None = None,
) -> CalibrationResult:
    """Calibrate dead bands.

    Args:
        samples: Samples of all recordings.
        bandwidth: Bandwidth K of the observer that produced them, shape (n,), 1/s.
        alarms_per_hour: False-alarm rate of the whole robot, 1/h.
        delay: Command delay assumed by that observer, s.
        fit: Effort fit used by that observer.

    Raises:
        RecordingError: There are too few samples.
    """
    numbers = np.unique(samples.segment)
    if len(numbers) < _MIN_SEGMENTS:
        raise RecordingError(
            'recordings without contact',
            f'have {len(numbers)} segments of {SEGMENT_S:g} s',
            f'give at least {_MIN_SEGMENTS * SEGMENT_S:g} s; an hour is better',
        )
    efforts, growth = np.abs(np.array(samples.bands)), np.array(samples.growth)
    segment = np.searchsorted(numbers, samples.segment)
    first, certain = segment % 2 == 0, 1.0 if fit is None else _CERTAIN
    largest = np.zeros((len(numbers), *efforts.shape[1:]))
    for own in (first, ~first):  # evaluate each half with the dead bands of the other
        coefficients = _envelopes(efforts[~own], growth[~own], certain)
        bands = np.einsum('kjc,mjc->mkj', coefficients, growth[own])
        np.maximum.at(largest, segment[own], efforts[own] / bands)
    rate = alarms_per_hour * SEGMENT_S / 3600.0 / largest[0].size
    # The maximum of N segments does not bound the next one, the less so the smaller N.
    factor = np.maximum(1.0 + 1.0 / len(numbers), gumbel_level(largest, rate))
    coefficients = factor[:, :, np.newaxis] * _envelopes(efforts, growth, certain)
    bandwidth = np.asarray(bandwidth, dtype=float)
    thresholds = ContactThresholds(coefficients, bandwidth, delay, fit)
    return CalibrationResult(thresholds, float(np.median(factor)), len(numbers))


def _envelopes(efforts: Array, growth: Array, certain: float) -> Array:
    """Return the coefficients of all kinds and joints, shape (2, n, 4)."""
    rows = [
        [envelope(growth[:, j], column, certain) for j, column in enumerate(kind.T)]
        for kind in np.moveaxis(efforts, 1, 0)
    ]
    return np.array(rows)


def envelope(growth: Array, effort: Array, certain: float = 1.0) -> Array:
    """Return the coefficients of the smallest dead band that contains all efforts.

    Args:
        growth: F, shape (M, 4).
        effort: Magnitudes of the efforts, shape (M,), N m or N.
        certain: Share of the samples, those with the most certain friction, whose RMS is a lower
            bound of the base.

    Returns:
        New array, shape (4,), not negative, the first positive.
    """
    from scipy.optimize import linprog  # deferred: slow to import

    scale = np.maximum(growth.max(axis=0), 1e-300)
    columns, cost = growth / scale, (growth / scale).mean(axis=0)
    most_certain = effort[growth[:, 3] <= np.quantile(growth[:, 3], certain)]
    least = max(_MIN_BASE * float(np.sqrt(np.square(most_certain).mean())), 1e-9)
    most = _MAX_GROWTH * float(effort.max())
    friction = float(scale[3])
    bounds = [(least, None), (0.0, most), (0.0, most), (friction, max(most, friction))]
    rows = np.argsort(effort)[-_ADDED_ROWS:]
    for _ in range(_ROUNDS):  # add violated constraints until all hold
        result = linprog(cost, -columns[rows], -effort[rows], bounds=bounds, method='highs')
        missing = effort - columns @ result.x
        if missing.max() <= _TOLERANCE * effort.max():
            break
        rows = np.union1d(rows, np.argsort(missing)[-_ADDED_ROWS:])
    return np.asarray(result.x / scale * (1.0 + _TOLERANCE))


def gumbel_level(largest: Array, rate: float) -> Array:
    r"""Return the level that the maximum of a segment exceeds with probability p.

    With the moments of the Gumbel distribution, :math:`\beta = \sqrt6\,\sigma/\pi` and
    :math:`\mu = \bar x - 0.5772\,\beta`, the level is :math:`\mu - \beta\ln(-\ln(1 - p))`.

    Args:
        largest: Maxima of segments, shape (N, ...).
        rate: p, expected exceedances per segment; limited to 0.5.

    Returns:
        New array of the shape (...).
    """
    beta = math.sqrt(6.0) * np.std(largest, axis=0, ddof=1) / math.pi
    middle = np.mean(largest, axis=0) - np.euler_gamma * beta
    return np.asarray(middle - beta * math.log(-math.log1p(-min(rate, 0.5))))


_DELTAS = (1e-4, 2e-4, 4e-4, 8e-4, 16e-4, 32e-4)  # rad or m
_REST_SPEED, _SPEED_FILTER = 0.02, 5.0  # mean speed at rest, rad/s or m/s; rate of its filter, 1/s
_REST_WEIGHT = 1e-3  # weight of a joint at rest
_COUPLING, _FREE = 0.1, 100.0  # prior effort of other joints' C; of other terms; in RMS efforts
_NOISE, _ROUNDS = 0.1, 3  # initial residual, in RMS efforts; iterations
_CORRELATED = 20.0  # correlated samples equivalent to one independent sample
_MIN_RESIDUAL, _MIN_POWER = 1e-12, 1e-24  # minimum power: of the residual, relative; of any column
_MIN_SAMPLES = 300  # samples
_BLOCK = 100  # samples per block
_MIN_PARTS, _MAX_PARTS, _PER_PART = 4, 20, 5  # held-out parts of one recording; blocks per part
_MIN_OTHERS_S = 20.0  # s, minimum of the others when a whole recording is held out


class FitSamples:
    """Accumulates observer samples for a fit.

    Attributes:
        count: Number of samples.
    """

    def __init__(self) -> None:
        self.count = 0
        self._sums: list[Array] = []
        self._recordings, self._seconds = [0], [0.0]
        self._row: Array | None = None
        self._deltas = np.array(_DELTAS)[:, np.newaxis, np.newaxis]

    def held_out(self) -> list[EffortFit]:
        """Return for each part the fit to the other parts.

        Raises:
            RecordingError: There are too few samples.
        """
        part = self.part(_BLOCK * np.arange(len(self._sums)))
        return [self.fit(part != k) for k in range(int(part.max()) + 1)]

    def part(self, sample: Any) -> Any:
        """Return the part index of a sample index.

        Parts are whole recordings if the others are long enough to fit, else parts of the total.
        """
        if sum(self._seconds) - max(self._seconds) >= _MIN_OTHERS_S:
            return np.searchsorted(self._recordings, sample, side='right') - 1
        count = max(_MIN_PARTS, min(_MAX_PARTS, len(self._sums) // _PER_PART))
        return np.minimum(sample // _BLOCK * count // len(self._sums), count - 1)

    def next_recording(self) -> None:
        """Start a new recording."""
        if self.count > self._recordings[-1]:
            self._recordings.append(self.count)
            self._seconds.append(0.0)

    def begin(self) -> None:
        """Reset the filters, together with the observer."""
        self._row = None

    def take(
        self,
        step: float,
        displacement: Array,
        model: Array,
        a: Array,
        v: Array,
        effort: Array,
        gain: Array,
    ) -> None:
        """Add a sample of ``MomentumObserver``.

        Args:
            step: Time since the previous sample, s.
            displacement: Displacement of the joints in that time, shape (n,), rad or m.
            model: Rigid-body efforts, shape (n,), N m or N.
            a: Accelerations, shape (n,), rad/s^2 or m/s^2.
            v: Velocities, shape (n,), rad/s or m/s.
            effort: Measured efforts, shape (n,), in the unit of the drives.
            gain: Filter coefficient of the observer, shape (n,).
        """
        n, deltas = len(v), len(_DELTAS)
        if self._row is None:
            self._z, self._speed = np.zeros((deltas, 1, n)), np.abs(v)
        update_direction(self._z, displacement, self._deltas)
        self._speed = self._speed - np.expm1(-_SPEED_FILTER * step) * (np.abs(v) - self._speed)
        terms = effort_terms(model, a, v)
        common = np.vstack([np.tile(model[:, np.newaxis], n), terms, effort])
        row = np.tile(common, (deltas, 1, 1))
        row[:, n + 3 : -1] *= self._z
        self._row = row if self._row is None else self._row + gain * (row - self._row)
        if self.count % _BLOCK == 0:
            self._sums.append(np.zeros((n, deltas, row.shape[1], row.shape[1])))
        x = self._row.transpose(2, 0, 1)[..., np.newaxis]
        weight = np.where(self._speed > _REST_SPEED, 1.0, _REST_WEIGHT)[:, None, None, None]
        self._sums[-1] += weight * x * x.swapaxes(2, 3)
        self.count, self._seconds[-1] = self.count + 1, self._seconds[-1] + step

    def fit(self, some: Any = slice(None)) -> EffortFit:
        """Fit all joints to some of the blocks.

        Raises:
            RecordingError: There are too few samples.
        """
        if self.count < _MIN_SAMPLES:
            raise RecordingError(
                'recordings without contact',
                f'have {self.count} samples',
                f'give at least {_MIN_SAMPLES} samples',
            )
        sums = np.array(self._sums)[some].sum(axis=0)
        rows, delta = [], np.zeros(len(sums))
        for j, by_delta in enumerate(sums):
            fits = [_ridge_fit(squares, j, len(sums)) for squares in by_delta]
            best = int(np.argmin([noise for _, noise in fits]))
            rows.append(fits[best][0])
            delta[j] = _DELTAS[best]
        x = np.array(rows)
        return EffortFit(x[:, : len(sums)], x[:, len(sums) :].T, delta)


def _ridge_fit(squares: Array, j: int, n: int) -> tuple[Array, float]:
    """Return the coefficients of joint j of n, and the residual, from sums of squares.

    Ridge regression with a small prior deviation of couplings and large ones of other terms.
    """
    count = float(squares[n + 2, n + 2])  # column of the offset, all ones
    A, b, power = squares[:-1, :-1] / count, squares[:-1, -1] / count, squares[-1, -1] / count
    size = np.sqrt(np.maximum(np.diag(A), _MIN_POWER))
    rms = math.sqrt(max(power, _MIN_POWER))
    spread = np.full(len(A), _FREE) * rms / size
    spread[:n] *= np.where(np.arange(n) == j, 1.0, _COUPLING / _FREE)
    x, noise = np.zeros(len(A)), _NOISE * rms
    for _ in range(_ROUNDS):
        weight = count / (_CORRELATED * noise * noise)
        H = weight * A * spread * spread[:, np.newaxis] + np.eye(len(A))
        x = spread * np.linalg.solve(H, weight * spread * b)
        noise = math.sqrt(max(power - 2.0 * x @ b + x @ A @ x, _MIN_RESIDUAL * rms * rms))
    return x, noise
