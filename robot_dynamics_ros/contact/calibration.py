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
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.contact.detector import ContactDetector, ContactThresholds
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.spatial.scalar import Array

SEGMENT_S = 2.0  # s, length of a segment, long compared with the filter time constants
_MIN_SEGMENTS = 5  # segments
_MIN_BASE = 2.0  # minimum base, in RMS efforts: covers motions that were not recorded
_MAX_GROWTH = 3.0  # maximum growth of a dead band, in maximum efforts: limits extrapolation
_ADDED_ROWS, _ROUNDS = 200, 30
_TOLERANCE = 1e-6


@dataclass
class CalibrationSamples:
    """Detector signals of contact-free recordings.

    Attributes:
        bands: External efforts by kind, rows of shape (2, n), N m or N.
        growth: Growth variables of their dead bands, rows of shape (n, 4).
        time: Time observed until each row, of which gaps are no part, s.
    """

    bands: list[Array] = field(default_factory=list)
    growth: list[Array] = field(default_factory=list)
    time: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Time observed, s."""
        return self.time[-1] if self.time else 0.0

    def take(self, step: float, detector: ContactDetector) -> None:
        """Add the current signals of a detector, observed for a step (s) more."""
        self.time.append(self.seconds + step)
        self.bands.append(detector.bands.copy())
        self.growth.append(detector.growth.copy())


class CalibrationResult(NamedTuple):
    """Calibrated dead bands.

    Attributes:
        thresholds: The dead bands.
        factor: Median of the widening factor s.
    """

    thresholds: ContactThresholds
    factor: float


def calibrate(
    samples: CalibrationSamples,
    bandwidth: Array,
    alarms_per_hour: float,
    delay: float = 0.0,
) -> CalibrationResult:
    """Calibrate dead bands.

    Args:
        samples: Samples of all recordings.
        bandwidth: Bandwidth K of the observer that produced them, shape (n,), 1/s.
        alarms_per_hour: False-alarm rate of the whole robot, 1/h.
        delay: Command delay assumed by that observer, s.

    Raises:
        RecordingError: There are too few samples.
    """
    numbers, segment = np.unique(np.array(samples.time) // SEGMENT_S, return_inverse=True)
    if len(numbers) < _MIN_SEGMENTS:
        raise RecordingError(
            'recordings without contact',
            f'last less than {_MIN_SEGMENTS * SEGMENT_S:g} s',
            'record more; an hour is better',
        )
    efforts, growth = np.abs(np.array(samples.bands)), np.array(samples.growth)
    first = segment % 2 == 0
    largest = np.zeros((len(numbers), *efforts.shape[1:]))
    for own in (first, ~first):  # evaluate each half with the dead bands of the other
        coefficients = _envelopes(efforts[~own], growth[~own])
        bands = np.einsum('kjc,mjc->mkj', coefficients, growth[own])
        np.maximum.at(largest, segment[own], efforts[own] / bands)
    rate = alarms_per_hour * SEGMENT_S / 3600.0 / largest[0].size
    # The maximum of N segments does not bound the next one, the less so the smaller N.
    factor = np.maximum(1.0 + 1.0 / len(numbers), gumbel_level(largest, rate))
    coefficients = factor[:, :, np.newaxis] * _envelopes(efforts, growth)
    bandwidth = np.asarray(bandwidth, dtype=float)
    thresholds = ContactThresholds(coefficients, bandwidth, delay)
    return CalibrationResult(thresholds, float(np.median(factor)))


def _envelopes(efforts: Array, growth: Array) -> Array:
    """Return the coefficients of all kinds and joints, shape (2, n, 4)."""
    rows = [
        [envelope(growth[:, j], column) for j, column in enumerate(kind.T)]
        for kind in np.moveaxis(efforts, 1, 0)
    ]
    return np.array(rows)


def envelope(growth: Array, effort: Array) -> Array:
    """Return the coefficients of the smallest dead band that contains all efforts.

    Args:
        growth: F, shape (M, 4).
        effort: Magnitudes of the efforts, shape (M,), N m or N.

    Returns:
        New array, shape (4,), not negative, the first positive.
    """
    from scipy.optimize import linprog  # deferred: slow to import

    scale = np.maximum(growth.max(axis=0), 1e-300)
    columns, cost = growth / scale, (growth / scale).mean(axis=0)
    least = max(_MIN_BASE * float(np.sqrt(np.square(effort).mean())), 1e-9)
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
