# SPDX-License-Identifier: Apache-2.0
r"""Slopes of samples without delay: a weighted straight line around every instant.

Weights :math:`w = e^{-(t_j - t)^2/2\sigma^2}`, cut at :math:`4\sigma`. The window is symmetric, so
nothing is delayed (zero phase). At equal intervals the slope of :math:`e^{i\omega t}` comes out as
:math:`i\omega\,e^{-\sigma^2\omega^2/2}`: with :math:`\sigma = \sqrt{\ln 2}/2\pi f_c` a motion of
frequency :math:`f_c` keeps :math:`1/\sqrt2` of its velocity.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from robot_dynamics_ros.spatial.scalar import Array

_REACH = 4.0  # standard deviations
_BLOCK = 4096  # rows whose windows are in memory at once


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
    found = np.empty(np.shape(values))
    for start in range(0, len(time), _BLOCK):
        stop = min(start + _BLOCK, len(time))
        near = sliding_window_view(t[start : stop + 2 * half], 2 * half + 1)
        offset = near - time[start:stop, np.newaxis]
        weight = np.exp(-0.5 * np.square(offset / sigma))
        weight[~(np.abs(offset) <= _REACH * sigma * (1.0 + 1e-9))] = 0.0
        found[start:stop] = _slope(offset, weight, x[start : stop + 2 * half], 2 * half + 1)
    return found


def _slope(offset: Array, weight: Array, x: Array, width: int) -> Array:
    """Return the slopes of weighted lines; offset and weight (rows, width), x (rows + ..., n)."""
    offset = np.where(weight > 0.0, offset, 0.0)
    total = weight.sum(axis=1)
    mean = (weight * offset).sum(axis=1) / total
    arm = weight * (offset - mean[:, np.newaxis])
    spread = (arm * offset).sum(axis=1)
    near = sliding_window_view(x, width, axis=0)  # (rows, n, width)
    with np.errstate(invalid='ignore', divide='ignore'):
        return np.asarray(np.einsum('rw,rnw->rn', arm, near) / spread[:, np.newaxis])
