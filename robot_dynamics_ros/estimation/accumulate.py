# SPDX-License-Identifier: Apache-2.0
"""Statistics of a stream of samples, accumulated chunk by chunk in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array

_CAPACITY = 1 << 17  # numbers
_Table = TypeVar('_Table', bound='ColumnTable')


class ColumnTable:
    """Base of dataclasses whose fields are columns of equal length."""

    def take(self: _Table, rows: Array | slice) -> _Table:
        """Return the rows selected by a mask, indices or a slice."""
        return type(self)(*(column[rows] for column in vars(self).values()))

    @classmethod
    def joined(cls: type[_Table], parts: Sequence[_Table]) -> _Table:
        """Concatenate the rows of several tables."""
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


class RmsPeak:
    """Root mean square and peak of columns; non-finite values are ignored.

    Attributes:
        count: Number of finite values, shape (n,).
        peak: Largest absolute values, shape (n,).
        peak_time: Times of the peaks, shape (n,), s; NaN without values.
    """

    def __init__(self, n: int) -> None:
        self.count = np.zeros(n, dtype=np.int64)
        self._squares = np.zeros(n)
        self.peak = np.zeros(n)
        self.peak_time = np.full(n, np.nan)

    def take(self, time: Array, values: Array) -> None:
        """Add values of shape (N, n) at times (N,), s."""
        if not len(values):
            return
        finite = np.isfinite(values)
        size = np.where(finite, np.abs(values), 0.0)
        self.count += finite.sum(axis=0)
        self._squares += np.square(size).sum(axis=0)
        row = size.argmax(axis=0)
        largest = size[row, np.arange(size.shape[1])]
        higher = (largest > self.peak) | (np.isnan(self.peak_time) & finite.any(axis=0))
        self.peak[higher] = largest[higher]
        self.peak_time[higher] = time[row][higher]

    def merge(self, other: RmsPeak) -> None:
        """Add the values of another instance, whose times are later."""
        self.count += other.count
        self._squares += other._squares
        higher = (other.peak > self.peak) | np.isnan(self.peak_time)
        self.peak[higher], self.peak_time[higher] = other.peak[higher], other.peak_time[higher]

    @property
    def rms(self) -> Array:
        """Root mean squares, shape (n,); NaN without values."""
        with np.errstate(invalid='ignore', divide='ignore'):
            return np.sqrt(self._squares / self.count)

    def figures(self, *names: str) -> dict[str, list[float]]:
        """Return root mean squares, peaks and times of the peaks as lists, under these names."""
        columns = (self.rms, self.peak, self.peak_time)
        return {name: column.tolist() for name, column in zip(names, columns, strict=False)}


class ResidualSums:
    """Accumulates residuals and efforts over instants.

    Attributes:
        count: Number of instants.
        residual, effort: Statistics of the efforts that the motion determines, N m or N.
        excess: Residual of joints that may stick beyond their Coulomb friction, N m or N.

    Args:
        n: Number of joints.
    """

    def __init__(self, n: int) -> None:
        self.count = 0
        self.residual, self.effort, self.excess = RmsPeak(n), RmsPeak(n), RmsPeak(n)

    def add(self, time: Array, effort: Array, unexplained: Array, determined: Array) -> None:
        """Add instants at times (M,), s.

        Args:
            time: Shape (M,), s.
            effort: Recorded efforts, shape (M, n), N m or N.
            unexplained: As in ``ModelEfforts``, shape (M, n), N m or N.
            determined: Mask of the efforts that the motion determines, shape (M, n).
        """
        self.count += len(time)
        self.residual.take(time, np.where(determined, unexplained, np.nan))
        self.excess.take(time, np.where(determined, np.nan, unexplained))
        self.effort.take(time, np.where(determined, effort, np.nan))

    def merge(self, other: ResidualSums) -> None:
        """Add the instants of another instance, whose times are later."""
        self.count += other.count
        self.residual.merge(other.residual)
        self.excess.merge(other.excess)
        self.effort.merge(other.effort)


class Quantiles:
    """Quantiles of a stream: exact up to 2^17 numbers, from a regular subsample beyond.

    Attributes:
        count: Number of finite values so far.
        largest: The largest value, exact; NaN without any.
    """

    def __init__(self) -> None:
        self.count, self.largest = 0, float('nan')
        self._kept = DecimatedSeries(1, _CAPACITY // 2)

    def take(self, values: Array) -> None:
        """Add numbers of any shape; non-finite ones are ignored."""
        values = np.asarray(values, dtype=float).ravel()
        values = values[np.isfinite(values)]
        if not len(values):
            return
        self.count += len(values)
        self.largest = float(np.fmax(self.largest, values.max()))
        self._kept.take(values, values[:, np.newaxis])

    def at(self, share: float) -> float:
        """Return the quantile of a fraction from 0 to 1; NaN without values."""
        kept = self._kept.values[:, 0]
        if not len(kept):
            return float('nan')
        nearest = round(share * (len(kept) - 1))  # numpy before 1.22 has no nearest-rank quantile
        return float(np.partition(kept, nearest)[nearest])

    def figures(self, factor: float, *percents: int) -> dict[str, float]:
        """Return percentiles as ``p50``, and ``max``, multiplied by a factor."""
        percentiles = {f'p{percent}': factor * self.at(percent / 100) for percent in percents}
        return percentiles | {'max': factor * self.largest}


class Envelope:
    """Decimate long series without losing peaks, to the minimum and maximum of each block.

    Args:
        points: Number of blocks, up to twice as many; beyond that, adjacent blocks are merged.
    """

    def __init__(self, points: int = 1000) -> None:
        self._points, self._block = points, 1
        self._widths: dict[str, int] = {}
        self._time, self._rest_time = np.zeros(0), np.zeros(0)
        self._lows = self._highs = self._rest = np.zeros((0, 0))

    def take(self, time: Array, columns: Mapping[str, Array]) -> None:
        """Add values of shape (N,) or (N, width) at times (N,), s, under the same names."""
        tables = [x.reshape(len(x), -1) for x in columns.values()]
        values = np.hstack(tables)
        if not self._widths:
            widths = (table.shape[1] for table in tables)
            self._widths = dict(zip(columns, widths, strict=True))
            self._lows = self._highs = self._rest = values[:0]
        time, values = np.append(self._rest_time, time), np.vstack([self._rest, values])
        whole = len(time) // self._block * self._block
        self._rest_time, self._rest = time[whole:], values[whole:]
        low, high = _extremes(values[:whole], values[:whole], self._block)
        self._time = np.append(self._time, time[: whole : self._block])
        self._lows, self._highs = np.vstack([self._lows, low]), np.vstack([self._highs, high])
        while len(self._time) > 2 * self._points:  # an incomplete last block counts as complete
            self._lows, self._highs = _extremes(self._lows, self._highs, 2)
            self._time, self._block = self._time[::2], 2 * self._block

    def series(self) -> dict[str, Array]:
        """Return 'time' (N,) and every series (N, width) as new arrays; only 'time' if empty.

        There are two points per block, or all samples if they are few. A block without finite
        values gives NaN.
        """
        low, high = _extremes(self._rest, self._rest, max(1, len(self._rest)))
        time = np.append(self._time, self._rest_time[:1])
        table = low = np.vstack([self._lows, low])
        if self._block > 1:  # the order of minimum and maximum within a block is not stored
            table = np.stack([low, np.vstack([self._highs, high])], axis=1).reshape(
                -1, low.shape[1]
            )
            time = np.repeat(time, 2)
        ends = np.cumsum(list(self._widths.values()), dtype=int)[:-1]
        parts = np.split(table, ends, axis=1) if self._widths else []
        return {'time': time, **dict(zip(self._widths, parts, strict=True))}


def _extremes(low: Array, high: Array, block: int) -> tuple[Array, Array]:
    """Return the smallest and largest finite values of blocks of rows; NaN without any."""
    starts = np.arange(0, len(low), block)
    if not len(starts):
        return low, high
    low, high = (np.where(np.isfinite(x), x, np.nan) for x in (low, high))
    return np.fmin.reduceat(low, starts, axis=0), np.fmax.reduceat(high, starts, axis=0)


class DecimatedSeries:
    """Decimate a long series to rows at regular intervals.

    Args:
        width: Number of columns.
        points: Least number of rows to keep of a longer series; at most twice as many are kept.
    """

    def __init__(self, width: int, points: int = 1000) -> None:
        self._points, self._step, self._count = points, 1, 0
        self.time, self.values = np.zeros(0), np.zeros((0, width))

    def take(self, time: Array, values: Array) -> None:
        """Add values of shape (N, width) at times (N,), s."""
        first = -self._count % self._step
        self._count += len(time)
        self.time = np.concatenate([self.time, time[first :: self._step]])
        self.values = np.vstack([self.values, values[first :: self._step]])
        while len(self.time) > 2 * self._points:
            self.time, self.values, self._step = self.time[::2], self.values[::2], 2 * self._step
