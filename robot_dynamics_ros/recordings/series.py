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


def compared(measured: Array, expected: Array) -> tuple[Array, Array]:
    """Compare columns (N, n) with what they should be, up to constants.

    Returns:
        Slope of each, shape (n,), 0 where a constant is expected; correlation of column i (row)
        with the expected column j, shape (n, n), 0 if one is constant.
    """
    x, y = (columns - columns.mean(axis=0) for columns in (measured, expected))
    product, power = x.T @ y, np.square(y).sum(axis=0)
    size = np.sqrt(np.outer(np.square(x).sum(axis=0), power))
    slope = np.diag(product) / np.where(power > 0.0, power, 1.0)
    return slope, product / np.where(size > 0.0, size, 1.0)


def interpolate_columns(time: Array, sample_times: Array, values: Array) -> Array:
    """Interpolate values (N, n), known at increasing times (N,), linearly at other times."""
    return np.column_stack([np.interp(time, sample_times, column) for column in values.T])
