# SPDX-License-Identifier: Apache-2.0
r"""Zero-phase low-pass filtering of finite memory, and where the noise of a signal begins.

The filter fits a polynomial of degree 7 to every stretch of samples, weighted by a Hann window,
and takes its middle (Savitzky and Golay 1964, with the weights of Schmid, Rath and Diebold 2022).
It is symmetric, so it delays nothing; it leaves slow motion as it is, with an error of
:math:`(f/f_c)^8`; and its memory is short, so that a sample that shall not count (a joint at
standstill, a lost message) spoils few others. The same filter for positions, velocities,
accelerations, efforts and directions of friction keeps the equation of motion between them, which
is linear in what varies fast.

Slopes of samples at any times, without delay: a weighted straight line around every instant, of
weights :math:`w = e^{-(t_j - t)^2/2\sigma^2}`, cut at :math:`4\sigma`. At equal intervals the
slope of :math:`e^{i\omega t}` comes out as :math:`i\omega\,e^{-\sigma^2\omega^2/2}`: with
:math:`\sigma = \sqrt{\ln 2}/2\pi f_c` a motion of frequency :math:`f_c` keeps :math:`1/\sqrt2` of
its velocity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.spatial.scalar import Array

_DEGREE = 6  # even; a symmetric filter gets the next odd one for nothing
_HALF_WIDTH = 1.574  # periods of the cut-off on either side, to the first weight that is 0
_OVERSAMPLING = 4.0  # kept samples per period of the cut-off
_PASSED = 0.254  # power of noise of spectrum f^2 that passes, in cubes of the cut-off
_ALLOWED_BIAS = 0.1  # standard deviations, were the columns independent; they are not quite
_MOVING = 4.0  # a joint moves if its velocity has so many times the power of its noise
_MOVED = 10.0  # standard deviations of its noise by which a joint that moves does
_STILL = 1e-6  # rad/s or m/s: slower is at rest without any noise
_MOTION = 0.99  # share of the power of the velocity that is the motion
_CHANGE = 1e-9  # of the largest value: less is rounding
_REACH = 4.0  # standard deviations
_BLOCK = 4096  # rows whose windows are in memory at once
_WINDOWS = 8  # over which a spectrum is averaged, at least


@dataclass(frozen=True, eq=False)
class LowPass:
    """A symmetric low-pass filter with decimation.

    Attributes:
        taps: Weights, shape (2 half + 1,), of sum 1.
        step: Every so many samples one is kept.
    """

    taps: Array
    step: int

    @property
    def half(self) -> int:
        """Samples on either side that enter a filtered one."""
        return len(self.taps) // 2

    def __call__(self, values: Array) -> Array:
        """Return the filtered and decimated columns of values (N, ...), shape (M, ...)."""
        from scipy.ndimage import convolve1d

        if self.half == 0:
            return values
        smooth = convolve1d(values, self.taps, axis=0)
        return smooth[self.half : len(values) - self.half : self.step]

    def every(self, good: Array) -> Array:
        """Return where all samples within the filter's reach are good; good is (N, ...) bool."""
        from scipy.ndimage import minimum_filter1d

        if self.half == 0:
            return good
        whole = minimum_filter1d(good.astype(np.uint8), len(self.taps), axis=0).astype(bool)
        return whole[self.half : len(good) - self.half : self.step]


def low_pass(cutoff: float | None, rate: float) -> LowPass:
    """Return a filter.

    Args:
        cutoff: Frequency of which half the amplitude passes, Hz; None for no filter.
        rate: Samples per second.

    Raises:
        ParameterError: The cut-off is not between 0 and half the rate.
    """
    if cutoff is None:
        return LowPass(np.ones(1), 1)
    if not 0.0 < cutoff < 0.5 * rate:
        raise ParameterError('cutoff', cutoff, f'must be between 0 and {0.5 * rate:g} Hz')
    half = max(_DEGREE, round(_HALF_WIDTH * rate / cutoff) - 1)
    return LowPass(_smoother(half), max(1, int(rate / (_OVERSAMPLING * cutoff))))


def _smoother(half: int) -> Array:
    """Return the weights with which samples make the middle of their polynomial."""
    x = np.arange(-half, half + 1) / (half + 1)
    window = np.square(np.cos(0.5 * np.pi * x))
    even = np.polynomial.legendre.legvander(x, _DEGREE)[:, ::2]
    middle = np.polynomial.legendre.legvander(np.zeros(1), _DEGREE)[0, ::2]
    normal = even.T @ (window[:, np.newaxis] * even)
    return window * (even @ np.linalg.solve(normal, middle))


def noise_cutoff(velocity: Array, rate: float) -> float | None:
    r"""Return the cut-off that suits the noise of velocities, Hz.

    Noise of the acceleration makes least squares see too little of it: with the ratio r of the
    power of noise and signal, parameters come out too small by r. Over the duration T this is
    :math:`\sqrt{2 f_c T r}` of their standard deviation, of which a tenth is allowed, in every
    joint; with white noise of the velocity :math:`r \sim f_c^3`. The cut-off is not set below
    twice the frequencies that the motion itself is made of.

    Args:
        velocity: Shape (N, n), at equal intervals.
        rate: Samples per second.

    Returns:
        The cut-off; None if it is above a quarter of the rate: there is nothing to filter.
    """
    from scipy.signal import welch

    length = min(len(velocity), max(256, len(velocity) // _WINDOWS))
    frequency, power = welch(velocity, rate, nperseg=length, axis=0, detrend='linear')
    deviation = white_noise(velocity)
    moving = np.var(velocity, axis=0) > _MOVING * np.square(deviation)
    if not moving.any():
        return None
    floor = 2.0 * np.square(deviation[moving]) / rate
    frequency, power = frequency[1:], power[1:, moving] - floor
    slope = np.square(2.0 * np.pi * frequency)[:, np.newaxis]
    signal = np.cumsum(power * slope, axis=0) * frequency[0]
    noise = floor * (2.0 * np.pi) ** 2 * _PASSED * frequency[:, np.newaxis] ** 3
    samples = 2.0 * frequency * len(velocity) / rate
    bias = np.sqrt(samples[:, np.newaxis] * noise / np.maximum(signal, noise))
    harmless = frequency[(bias < _ALLOWED_BIAS).all(axis=1)].max(initial=0.0)
    share = np.cumsum(power, axis=0) / power.sum(axis=0)
    motion = frequency[np.argmax(share > _MOTION, axis=0)].max()
    cutoff = float(max(harmless, 2.0 * motion))
    return None if cutoff > 0.25 * rate else cutoff


def moving(q: Array, v: Array) -> Array:
    """Return which joints move by more than their noise, shape (n,).

    Args:
        q: Positions, shape (N, n) with N of four or more, rad or m.
        v: Velocities, likewise.
    """
    spread, noise = v.std(axis=0), white_noise(v)
    moves = (spread > _MOVED * noise) & (spread > _STILL)
    return moves | (np.ptp(q, axis=0) > 100.0 * np.maximum(white_noise(q), _STILL))


def white_noise(values: Array) -> Array:
    """Return the standard deviation of white noise on smooth signals (N, n), shape (n,).

    Third differences leave nothing of a smooth signal, and noise 20 times its variance. Few
    samples are not smooth, so the median of the absolute values is taken: of where the signal
    changes at all, since a joint at rest under an encoder of finite steps shows no noise.
    """
    rest = np.abs(np.diff(values, n=3, axis=0))
    windows = np.lib.stride_tricks.sliding_window_view(values, 4, axis=0)
    changes = np.ptp(windows, axis=2) > _CHANGE * np.abs(values).max(axis=0, initial=0.0)
    medians = [
        float(np.median(column[there])) if there.any() else 0.0
        for column, there in zip(rest.T, changes.T, strict=True)
    ]
    return np.array(medians) / 0.6745 / np.sqrt(20.0)


def standard_deviation(cutoff: float) -> float:
    """Return sigma of the weights for a cut-off in Hz, s."""
    return math.sqrt(math.log(2.0)) / (2.0 * math.pi * cutoff)


def reach(cutoff: float) -> float:
    """Return how far the window extends to either side, s."""
    return _REACH * standard_deviation(cutoff)


def slopes(time: Array, values: Array, cutoff: float, period: float) -> Array:
    """Return the derivatives of samples.

    Args:
        time: Shape (N,), s, increasing; not necessarily at equal intervals.
        values: Shape (N, n).
        cutoff: Frequency whose slope keeps 1/sqrt(2), Hz.
        period: Usual time between samples, s; bounds the number of samples in a window.

    Returns:
        New array of shape (N, n); NaN for a sample without neighbours within reach.
    """
    half = max(1, math.ceil(reach(cutoff) / period))
    sigma = standard_deviation(cutoff)
    # Beyond the ends there are samples that weigh nothing.
    padding = np.full(half, np.nan)
    t = np.concatenate([padding, time, padding])
    x = np.pad(values, ((half, half), (0, 0)))
    slope = np.empty(np.shape(values))
    for start in range(0, len(time), _BLOCK):
        stop = min(start + _BLOCK, len(time))
        near = np.lib.stride_tricks.sliding_window_view(t[start : stop + 2 * half], 2 * half + 1)
        offset = near - time[start:stop, np.newaxis]
        weight = np.exp(-0.5 * np.square(offset / sigma))
        weight[~(np.abs(offset) <= _REACH * sigma * (1.0 + 1e-9))] = 0.0
        slope[start:stop] = _slope(offset, weight, x[start : stop + 2 * half], 2 * half + 1)
    return slope


def _slope(offset: Array, weight: Array, x: Array, width: int) -> Array:
    """Return the slopes of weighted lines; offset and weight (rows, width), x (rows + ..., n)."""
    offset = np.where(weight > 0.0, offset, 0.0)
    total = weight.sum(axis=1)
    mean = (weight * offset).sum(axis=1) / total
    arm = weight * (offset - mean[:, np.newaxis])
    spread = (arm * offset).sum(axis=1)
    near = np.lib.stride_tricks.sliding_window_view(x, width, axis=0)  # (rows, n, width)
    with np.errstate(invalid='ignore', divide='ignore'):
        return np.einsum('rw,rnw->rn', arm, near) / spread[:, np.newaxis]
