# SPDX-License-Identifier: Apache-2.0
"""Figures of a stream of samples, chunk by chunk, in memory that does not grow with the stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array

_KEPT = 1 << 17


class Spread:
    """Root mean square and peak of columns; values that are not finite do not count.

    Attributes:
        count: Values that count, shape (n,).
        peak: Largest absolute values, shape (n,).
        peak_time: When they were, shape (n,), s; NaN without values.
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

    @property
    def rms(self) -> Array:
        """Root mean squares, shape (n,); NaN without values."""
        with np.errstate(invalid='ignore', divide='ignore'):
            return np.asarray(np.sqrt(self._squares / self.count))


class Quantiles:
    """Quantiles of numbers: exact for the first hundred thousand, of a regular sample beyond.

    Attributes:
        count: Numbers so far.
        largest: The largest, exact; NaN without any.
    """

    def __init__(self) -> None:
        self.count, self.largest = 0, float('nan')
        self._kept: list[Array] = []
        self._held, self._stride, self._offset = 0, 1, 0

    def take(self, values: Array) -> None:
        """Add numbers, any shape; those that are not finite do not count."""
        values = np.asarray(values, dtype=float).ravel()
        values = values[np.isfinite(values)]
        if not len(values):
            return
        self.count += len(values)
        self.largest = float(np.fmax(self.largest, values.max()))
        chosen = values[self._offset :: self._stride]
        self._offset = (self._offset - len(values)) % self._stride
        self._kept.append(chosen)
        self._held += len(chosen)
        while self._held > _KEPT:
            joined = np.concatenate(self._kept)[::2]
            self._kept, self._held, self._stride = [joined], len(joined), 2 * self._stride

    def at(self, share: float) -> float:
        """Return the number that a share of them does not exceed; NaN without any."""
        if not self._kept:
            return float('nan')
        kept = np.concatenate(self._kept)
        nearest = round(share * (len(kept) - 1))  # numpy before 1.22 knows no such quantile
        return float(np.partition(kept, nearest)[nearest])


class Envelope:
    """A long series as few points that keep every peak: smallest and largest of each block.

    Args:
        names: Of the series.
        points: Blocks that are kept, at most; neighbours are merged beyond.
    """

    def __init__(self, names: Sequence[str], points: int = 1000) -> None:
        self.names = tuple(names)
        self._most, self._block = points, 1
        width = len(self.names)
        self._low, self._high = np.zeros((0, width)), np.zeros((0, width))
        self._time = np.zeros(0)
        self._rest_time, self._rest = np.zeros(0), np.zeros((0, width))

    def take(self, time: Array, values: Array) -> None:
        """Add values of shape (N, len(names)) at times (N,), s."""
        time = np.concatenate([self._rest_time, time])
        values = np.concatenate([self._rest, values])
        whole = len(time) // self._block * self._block
        self._rest_time, self._rest = time[whole:], values[whole:]
        self._add(time[:whole], values[:whole])
        while len(self._time) > 2 * self._most:
            self._merge()

    def series(self) -> dict[str, Array]:
        """Return 'time' and every series, new arrays; two points a block, or all if they are few.

        A point without a finite value is NaN.
        """
        if len(self._rest_time):
            low, high = _extremes(self._rest[np.newaxis])
            time = np.append(self._time, self._rest_time[0])
            self_low, self_high = np.vstack([self._low, low]), np.vstack([self._high, high])
        else:
            time, self_low, self_high = self._time, self._low, self._high
        if self._block == 1:
            found = {name: self_low[:, i] for i, name in enumerate(self.names)}
            return {'time': time, **found}
        # Within a block the order of the two is not known; the line passes both.
        found = {
            name: np.column_stack([self_low[:, i], self_high[:, i]]).ravel()
            for i, name in enumerate(self.names)
        }
        return {'time': np.repeat(time, 2), **found}

    def _add(self, time: Array, values: Array) -> None:
        if not len(time):
            return
        blocks = values.reshape(-1, self._block, values.shape[1])
        low, high = _extremes(blocks)
        self._time = np.concatenate([self._time, time[:: self._block]])
        self._low, self._high = np.vstack([self._low, low]), np.vstack([self._high, high])

    def _merge(self) -> None:
        """Double the length of the blocks."""
        even = len(self._time) // 2 * 2
        odd_time, odd_low, odd_high = self._time[even:], self._low[even:], self._high[even:]
        self._time = self._time[:even:2]
        self._low = np.fmin(self._low[:even:2], self._low[1:even:2])
        self._high = np.fmax(self._high[:even:2], self._high[1:even:2])
        if len(odd_time):  # half a block of the new length, as if it were whole
            self._time = np.append(self._time, odd_time)
            self._low, self._high = (
                np.vstack([self._low, odd_low]),
                np.vstack([self._high, odd_high]),
            )
        self._block *= 2


def _extremes(blocks: Array) -> tuple[Array, Array]:
    """Return smallest and largest finite values over axis 1; NaN where there is none."""
    finite = np.isfinite(blocks)
    low = np.where(finite, blocks, np.inf).min(axis=1)
    high = np.where(finite, blocks, -np.inf).max(axis=1)
    none = ~finite.any(axis=1)
    low[none] = high[none] = np.nan
    return low, high


class Thinned:
    """Rows at regular intervals of a long series, at most twice a number of them.

    Args:
        width: Columns.
        points: Rows that are kept at least, once there were so many.
    """

    def __init__(self, width: int, points: int = 1000) -> None:
        self._most, self._every, self._count = points, 1, 0
        self.time, self.values = np.zeros(0), np.zeros((0, width))

    def take(self, time: Array, values: Array) -> None:
        """Add values of shape (N, width) at times (N,), s."""
        first = -self._count % self._every
        self._count += len(time)
        self.time = np.concatenate([self.time, time[first :: self._every]])
        self.values = np.vstack([self.values, values[first :: self._every]])
        while len(self.time) > 2 * self._most:
            self.time, self.values, self._every = self.time[::2], self.values[::2], 2 * self._every
