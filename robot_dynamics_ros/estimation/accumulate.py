# SPDX-License-Identifier: Apache-2.0
"""Tables of columns, also in temporary files, and statistics of columns."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Generic, NamedTuple, TypeVar

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.spatial.scalar import Array

_Table = TypeVar('_Table', bound='ColumnTable')


class ColumnTable:
    """Base of dataclasses whose fields are columns of equal length."""

    def take(self: _Table, rows: Array | slice) -> _Table:
        """Return the rows selected by a mask, indices or a slice."""
        return type(self)(*(column[rows] for column in vars(self).values()))

    def where(self: _Table, mask: Array) -> _Table:
        """Return the rows selected by a mask; the table itself if these are all."""
        return self if mask.all() else self.take(mask)

    def about(self: _Table, count: int) -> _Table:
        """Return ``count`` to twice as many of the rows, at regular intervals, or all."""
        total = len(next(iter(vars(self).values())))
        return self.take(slice(None, None, max(1, total // count)))

    @classmethod
    def joined(cls: type[_Table], parts: Sequence[_Table]) -> _Table:
        """Concatenate the rows of several tables."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


@contextmanager
def temporary_space() -> Iterator[None]:
    """Raise a RecordingError where temporary files cannot be written."""
    try:
        yield
    except OSError as error:
        culprit = f'temporary folder {tempfile.tempdir!r}' if tempfile.tempdir else 'TMPDIR'
        remedy = 'free space there, or set TMPDIR to another folder'
        raise RecordingError(culprit, f'is full or cannot be written ({error})', remedy) from error


class GrowingTable(Generic[_Table]):
    """Appends rows, and returns all of them as one table.

    Each column is a temporary file without a name: it grows without a copy, leaves no holes in the
    heap, and vanishes with the last array that maps it, whatever ends the process.

    Args:
        empty: A table without rows, for the types and shapes of its columns.

    Raises:
        RecordingError: There is no folder for the files.
    """

    def __init__(self, empty: _Table) -> None:
        self._empty = empty
        with temporary_space():
            self._files = [tempfile.TemporaryFile() for _ in vars(empty)]  # noqa: SIM115

    def append(self, rows: _Table) -> None:
        """Append the rows of a table.

        Raises:
            RecordingError: There is no space for the files.
        """
        with temporary_space():
            for file, column in zip(self._files, vars(rows).values(), strict=True):
                file.write(np.ascontiguousarray(column).data)
                file.flush()  # numpy's tofile ignores an error of the last bytes

    def joined(self) -> _Table:
        """Return all rows; nothing can be appended afterwards."""
        columns = vars(self._empty).values()
        return type(self._empty)(*map(_mapped, self._files, columns))


def _mapped(file: IO[bytes], empty: Array) -> Array:
    """Return the rows in a file, of the type and shape of an empty column."""
    with file:
        rows = np.memmap(file, empty.dtype, 'c') if file.tell() else empty
    return np.asarray(rows).reshape(-1, *empty.shape[1:])


@dataclass(frozen=True, eq=False)
class RmsPeak:
    """Root mean square and peak of columns, of their finite values.

    Attributes:
        count: Number of finite values, shape (n,).
        squares: Sums of their squares, shape (n,).
        peak: Largest absolute values, shape (n,); 0 without values.
        peak_time: Times of the peaks, shape (n,), s; NaN without values.
    """

    count: Array
    squares: Array
    peak: Array
    peak_time: Array

    @classmethod
    def of(cls, time: Array, values: Array) -> RmsPeak:
        """Return the statistics of values of shape (N, n) at times (N,), s."""
        rows = []
        for column in values.T:  # one by one: long columns take much memory
            known = np.isfinite(column)
            size, at = np.abs(column[known]), time[known]
            peak = (size.max(), at[size.argmax()]) if len(size) else (0.0, np.nan)
            rows.append((len(size), size @ size, *peak))
        return cls(*map(np.array, zip(*rows, strict=True)))

    def merged(self, other: RmsPeak) -> RmsPeak:
        """Return the statistics of these values and of others, at later times."""
        higher = (other.peak > self.peak) | np.isnan(self.peak_time)
        return RmsPeak(
            self.count + other.count,
            self.squares + other.squares,
            np.where(higher, other.peak, self.peak),
            np.where(higher, other.peak_time, self.peak_time),
        )

    @property
    def rms(self) -> Array:
        """Root mean squares, shape (n,); NaN without values."""
        with np.errstate(invalid='ignore', divide='ignore'):
            return np.sqrt(self.squares / self.count)

    def figures(self, *names: str) -> dict[str, list[float]]:
        """Return RMS values, peaks and their times as lists, by name; NaN without values."""
        columns = (self.rms, np.where(self.count, self.peak, np.nan), self.peak_time)
        return {name: column.tolist() for name, column in zip(names, columns, strict=False)}


class ResidualSums(NamedTuple):
    """Statistics of residuals and efforts over instants.

    Attributes:
        residual, effort: Of the efforts that the motion determines, N m or N.
        excess: Residual of joints that may stick beyond their Coulomb friction, N m or N.
    """

    residual: RmsPeak
    effort: RmsPeak
    excess: RmsPeak

    @classmethod
    def of(cls, time: Array, effort: Array, unexplained: Array, determined: Array) -> ResidualSums:
        """Return the statistics of M instants.

        Args:
            time: Shape (M,), s.
            effort: Recorded efforts, shape (M, n), N m or N.
            unexplained: As in ``ModelEfforts``, shape (M, n), N m or N.
            determined: Mask of the efforts that the motion determines, shape (M, n).
        """
        parts = (determined, unexplained), (determined, effort), (~determined, unexplained)
        return cls(*(RmsPeak.of(time, np.where(mask, x, np.nan)) for mask, x in parts))

    def merged(self, other: ResidualSums) -> ResidualSums:
        """Return the statistics of these instants and of later ones."""
        return ResidualSums(*(a.merged(b) for a, b in zip(self, other, strict=True)))


def root_mean_square(values: Array) -> Array:
    """Return the root mean square of samples (N, ...) along the first axis."""
    return np.sqrt(np.mean(np.square(values), axis=0))


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


def quantiles(values: Array, factor: float, *percents: int) -> dict[str, float]:
    """Return percentiles of finite values as ``p50``, and ``max``, multiplied by a factor.

    NaN if there are none.
    """
    names = (*(f'p{percent}' for percent in percents), 'max')
    if not len(values):
        return dict.fromkeys(names, float('nan'))
    found = factor * np.percentile(values, (*percents, 100), method='nearest')
    return dict(zip(names, found.tolist(), strict=True))


#: Number of blocks of an envelope, up to twice as many.
POINTS = 500


def envelope(
    time: Array, columns: Mapping[str, Array], points: int = POINTS, count: int = 0
) -> dict[str, Array]:
    """Decimate long series without losing peaks, to the minimum and maximum of each block.

    Args:
        time: Shape (N,), s.
        columns: Values of shape (N,) or (N, width) by name.
        points: Number of blocks, up to twice as many.
        count: Length of the whole series if these are some of its rows, from the begin of a block.

    Returns:
        'time' (K,) and every series (K, width). There are two points per block, or all samples if
        they are few. A block without finite values gives NaN.
    """
    block = thinned(count or len(time), points).step
    starts = np.arange(0, len(time), block)
    series = {'time': np.repeat(time[starts], 2) if block > 1 else time}
    for name, values in columns.items():
        values = values.reshape(len(values), -1)
        values = np.where(np.isfinite(values), values, np.nan)
        if block > 1:  # the order of minimum and maximum within a block is not stored
            ends = (ufunc.reduceat(values, starts, axis=0) for ufunc in (np.fmin, np.fmax))
            values = np.stack(list(ends), axis=1).reshape(-1, values.shape[1])
        series[name] = values
    return series


def thinned(count: int, points: int) -> slice:
    """Return rows of a table at regular intervals, ``points`` to twice as many, or all.

    The intervals are the least power of two that is enough.
    """
    return slice(None, None, 1 << max(0, (count - 1) // (2 * points)).bit_length())
