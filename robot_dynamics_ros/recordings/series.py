# SPDX-License-Identifier: Apache-2.0
"""Figures of sampled series: root mean square, correlation, interpolation."""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array


def root_mean_square(values: Array) -> Array:
    """Return the root mean square of samples (N, ...) along the first axis."""
    return np.sqrt(np.mean(np.square(values), axis=0))


def correlation(a: Array, b: Array) -> float:
    """Return the Pearson correlation coefficient of two series (N,); 0 if one is constant."""
    with np.errstate(invalid='ignore', divide='ignore'):
        return float(np.nan_to_num(np.corrcoef(a, b)[0, 1]))


def interpolate_columns(time: Array, sample_times: Array, values: Array) -> Array:
    """Interpolate values (N, n), known at increasing times (N,), linearly at other times."""
    return np.column_stack([np.interp(time, sample_times, column) for column in values.T])
