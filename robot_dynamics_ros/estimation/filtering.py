# SPDX-License-Identifier: Apache-2.0
r"""Zero-phase low-pass filtering and differentiation with finite windows, and cutoff selection.

The low-pass filter fits a polynomial of degree 7 to every window of samples, weighted by a Hann
window, and evaluates it at the centre (Savitzky and Golay 1964, with the weights of Schmid, Rath
and Diebold 2022). It is symmetric and therefore has no delay; the error for slow motion is
:math:`(f/f_c)^8`; its window is short, so that an excluded sample (a joint at standstill, a lost
message) affects few others. Filtering positions, velocities, accelerations, efforts and directions
of friction with the same filter preserves the equation of motion between them, which is linear in
the fast-varying signals.

Samples at arbitrary times are differentiated without delay by fitting a cubic around every
instant, with weights :math:`w = e^{-(t_j - t)^2/2\sigma^2}`, truncated at :math:`5\sigma`. At
equal intervals :math:`e^{i\omega t}` gives :math:`i\omega\,(1 + y)\,e^{-y}` with
:math:`y = \sigma^2\omega^2/2`; a motion of frequency :math:`f_c` keeps :math:`1/\sqrt2` of its
velocity, a slow one all but :math:`y^2/2`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.spatial.scalar import Array

_DEGREE = 6  # even; by symmetry equivalent to the next odd degree
_HALF_WIDTH = 1.574  # half width to the first zero weight, in periods of the cutoff
_OVERSAMPLING = 4.0  # kept samples per period of the cutoff
_PASSED = 0.254  # passed noise power for a spectrum f^2, in cubes of the cutoff
_ALLOWED_BIAS = 0.1  # standard deviations, assuming independent regressor columns
_CLEAR = 4.0  # ratio of power to that of the noise above which a spectrum stands out of it
_MOTION = 0.99  # fraction of the velocity power attributed to the motion
_CHANGE = 1e-9  # relative to the largest value; smaller changes are rounding
_REACH = 5.0  # truncation of the window, standard deviations
_CUBIC = 3  # degree of the polynomials that are differentiated,
_HALVED = 1.078  # whose (1 + y) e^-y is 1/sqrt(2)
_SINGULAR = 1e-9  # share of a power that others do not determine
_BLOCK = 4096  # rows processed at once
_WINDOWS = 8  # least number of windows for a spectrum


class LowPass(NamedTuple):
    """A symmetric low-pass filter with decimation.

    Attributes:
        taps: Weights, shape (2 half + 1,), with sum 1.
        step: Decimation factor.
    """

    taps: Array
    step: int

    @property
    def half(self) -> int:
        """Number of samples on either side of the window's centre."""
        return len(self.taps) // 2

    def __call__(self, values: Array) -> Array:
        """Return the filtered and decimated columns of values (N, ...), shape (M, ...)."""
        from scipy.ndimage import convolve1d

        smooth = convolve1d(values, self.taps, axis=0)
        return smooth[self.half : len(values) - self.half : self.step]

    def all_valid(self, valid: Array) -> Array:
        """Return a mask of the filtered samples (M, ...) with only good inputs; good (N, ...)."""
        from scipy.ndimage import minimum_filter1d

        whole = minimum_filter1d(valid.astype(np.uint8), len(self.taps), axis=0).astype(bool)
        return whole[self.half : len(valid) - self.half : self.step]


def low_pass(cutoff: float | None, rate: float) -> LowPass:
    """Design a low-pass filter.

    Args:
        cutoff: Frequency at which half the amplitude passes, Hz; None for no filter.
        rate: Sample rate, Hz.

    Raises:
        ParameterError: The cutoff is not between 0 and half the rate.
    """
    if cutoff is None:
        return LowPass(np.ones(1), 1)
    if not 0.0 < cutoff < 0.5 * rate:
        raise ParameterError('cutoff', cutoff, f'must be between 0 and {0.5 * rate:g} Hz')
    half = max(_DEGREE, round(_HALF_WIDTH * rate / cutoff) - 1)
    x = np.arange(-half, half + 1) / (half + 1)
    window = np.square(np.cos(0.5 * np.pi * x))
    even = np.polynomial.legendre.legvander(x, _DEGREE)[:, ::2]
    middle = np.polynomial.legendre.legvander(np.zeros(1), _DEGREE)[0, ::2]
    normal = even.T @ (window[:, np.newaxis] * even)
    taps = window * (even @ np.linalg.solve(normal, middle))
    return LowPass(taps, max(1, int(rate / (_OVERSAMPLING * cutoff))))


def noise_cutoff(velocity: Array, rate: float, count: int = 0) -> float | None:
    r"""Choose the filter cutoff for identification from the noise of velocities, Hz.

    Noise of the acceleration biases least squares: with the ratio r of noise power to signal
    power, parameters are too small by r. Over a duration T this is :math:`\sqrt{2 f_c T r}` of
    their standard deviation, limited to one tenth in every joint; for white noise of the velocity
    :math:`r \sim f_c^3`. The cutoff is at least twice the bandwidth of the motion.

    Args:
        velocity: Velocities at equal intervals, shape (N, n).
        rate: Sample rate, Hz.
        count: Number of samples of the whole recording, if the velocities are a part of it.

    Returns:
        The cutoff; None if it exceeds a quarter of the rate, so that no filter is needed, or if
        no joint moves.
    """
    frequency, power, floor, bandwidth = _spectrum(velocity, rate)
    slope = np.square(2.0 * np.pi * frequency)[:, np.newaxis]
    signal = np.cumsum(power * slope, axis=0) * frequency[0]
    noise = floor * (2.0 * np.pi) ** 2 * _PASSED * frequency[:, np.newaxis] ** 3
    samples = 2.0 * frequency * max(count, len(velocity)) / rate
    bias = np.sqrt(samples[:, np.newaxis] * noise / np.maximum(signal, noise))
    unbiased = frequency[(bias < _ALLOWED_BIAS).all(axis=1)].max(initial=0.0)
    cutoff = float(max(unbiased, 2.0 * bandwidth))
    return None if cutoff > 0.25 * rate else cutoff


def motion_bandwidth(velocity: Array, rate: float) -> float:
    """Return the frequency below which lies nearly all power of the motion, Hz; 0 at rest.

    Args:
        velocity: Velocities at equal intervals, shape (N, n).
        rate: Sample rate, Hz.
    """
    return _spectrum(velocity, rate)[3]


def _spectrum(velocity: Array, rate: float) -> tuple[Array, Array, Array, float]:
    """Return frequencies (k,), power (k, m), noise power (m,) and bandwidth of the m that move.

    Beyond the bandwidth lies little of a joint's variance, not of the power in the windows: a
    motion that is slower than they has little there, and noise that is not white, or what the
    floor leaves of hundreds of frequencies, would be most of it.
    """
    length = min(len(velocity), max(256, len(velocity) // _WINDOWS))
    # Welch's method: windows that overlap by half, without their trends, weighted by Hann's.
    windows = np.lib.stride_tricks.sliding_window_view(velocity, length, axis=0)
    windows = windows[:: length - length // 2]
    x, hann = np.arange(length) - (length - 1) / 2.0, np.hanning(length + 1)[:-1]
    rows = windows - windows.mean(axis=2, keepdims=True)
    rows -= (rows @ x)[:, :, np.newaxis] * x / (x @ x)
    power = np.square(np.abs(np.fft.rfft(hann * rows))).mean(axis=0).T * 2.0 / rate / (hann @ hann)
    frequency = np.fft.rfftfreq(length, 1.0 / rate)
    deviation = white_noise(velocity)
    variance = np.var(velocity, axis=0)
    moving = variance > _CLEAR * np.square(deviation)
    power, floor = power[1:, moving], 2.0 * np.square(deviation[moving]) / rate
    # Third differences of a motion that is not slow beside the rate are no noise, which is flat.
    high, highest = (power[k * len(power) // 4 :].mean(axis=0) for k in (2, 3))
    floor = np.where(high < _CLEAR * highest, np.minimum(high, floor), floor)
    frequency, power = frequency[1:], power - floor
    clear = np.where(power > (_CLEAR - 1.0) * floor, power, 0.0) * frequency[0]
    beyond = clear.sum(axis=0) - np.cumsum(clear, axis=0)
    last = np.argmax(beyond < (1.0 - _MOTION) * variance[moving], axis=0)
    return frequency, power, floor, float(frequency[last].max(initial=0.0))


def white_noise(values: Array) -> Array:
    """Estimate the standard deviation of white noise on smooth signals (N, n), shape (n,).

    Third differences remove a smooth signal and multiply the variance of the noise by 20. The
    median of their absolute values is robust to the few samples where the signal is not smooth.
    Constant windows are excluded, as the quantized position of a joint at rest shows no noise;
    fewer than four samples show none.
    """
    medians = np.zeros(values.shape[1])
    if len(values) < 4:
        return medians
    for j, column in enumerate(values.T):  # one by one: long columns take much memory
        rest = np.abs(np.diff(column, n=3))
        ranges = np.ptp(np.lib.stride_tricks.sliding_window_view(column, 4).T, axis=0)
        changes = ranges > _CHANGE * np.abs(column).max(initial=0.0)
        if changes.any():
            medians[j] = np.median(rest[changes])
    return medians / 0.6745 / np.sqrt(20.0)


def half_width(cutoff: float) -> float:
    """Return the half width of the window for a cutoff in Hz, s."""
    return _REACH * math.sqrt(2.0 * _HALVED) / (2.0 * math.pi * cutoff)


def differentiate(time: Array, values: Array, cutoff: float, period: float) -> Array:
    """Differentiate samples with a weighted cubic fit around each of them.

    Args:
        time: Shape (N,), s, increasing; not necessarily at equal intervals.
        values: Shape (N, n).
        cutoff: Frequency at which the derivative keeps 1/sqrt(2) of its amplitude, Hz.
        period: Typical time between samples, s; bounds the number of samples in a window.

    Returns:
        New array of shape (N, n); NaN for samples without neighbours in their window.
    """
    reach = half_width(cutoff)
    half = max(1, math.ceil(reach / period))
    sigma, width = reach / _REACH, 2 * half + 1
    windows = np.lib.stride_tricks.sliding_window_view
    # Pad both ends with samples of zero weight.
    padding = np.full(half, np.nan)
    t = np.concatenate([padding, time, padding])
    x = np.pad(values, ((half, half), (0, 0)))
    slope = np.empty(np.shape(values))
    for start in range(0, len(time), _BLOCK):
        stop = min(start + _BLOCK, len(time))
        offset = windows(t[start : stop + 2 * half], width) - time[start:stop, np.newaxis]
        weight = np.exp(-0.5 * np.square(offset / sigma))
        weight[~(np.abs(offset) <= _REACH * sigma * (1.0 + 1e-9))] = 0.0
        offset = np.where(weight > 0.0, offset, 0.0)
        arm = _slope_weights(offset / sigma, weight) / sigma
        near = windows(x[start : stop + 2 * half], width, axis=0)  # (rows, n, width)
        slope[start:stop] = np.einsum('rw,rnw->rn', arm, near)
    return slope


def _slope_weights(x: Array, weight: Array) -> Array:
    """Return the weights of samples in the slope at 0 of the polynomial fitted to each row.

    The polynomials are orthogonal in the samples, by the recurrence of Stieltjes. Where there are
    too few samples for a degree, a lower one is fitted.

    Args:
        x: Abscissas, shape (r, w).
        weight: Weights of the fit, shape (r, w).

    Returns:
        Array of shape (r, w); NaN in rows with less than two samples.
    """
    norm = weight.sum(axis=1, keepdims=True)
    values, before = np.ones_like(x), np.zeros_like(x)  # of the polynomials at x,
    at, slope = np.ones_like(norm), np.zeros_like(norm)  # at 0, and their slopes there
    at_before, slope_before, ratio = np.zeros_like(norm), np.zeros_like(norm), np.zeros_like(norm)
    total = np.zeros_like(x)
    for degree in range(1, _CUBIC + 1):
        middle = (weight * x * values * values).sum(axis=1, keepdims=True) / norm
        values, before = (x - middle) * values - ratio * before, values
        at, at_before, slope, slope_before = (
            -middle * at - ratio * at_before,
            at,
            at - middle * slope - ratio * slope_before,
            slope,
        )
        size = (weight * values * values).sum(axis=1, keepdims=True)
        known = size > _SINGULAR * norm
        ratio, norm = np.where(known, size / norm, 0.0), np.where(known, size, 1.0)
        term = np.where(known, weight * values * slope / norm, 0.0 if degree > 1 else np.nan)
        total = total + term
        values = np.where(known, values, 0.0)
    return total
