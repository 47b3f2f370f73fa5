# SPDX-License-Identifier: Apache-2.0
"""Tables that grow row by row while a bag is read, in memory or, if large, in temporary files."""

from __future__ import annotations

import tempfile
from typing import IO, Generic, TypeVar

import numpy as np

from robot_dynamics_ros.estimation.accumulate import ColumnTable
from robot_dynamics_ros.spatial.scalar import Array

#: Size from which the columns of a table are moved to temporary files, bytes.
IN_MEMORY = 1 << 27
_Table = TypeVar('_Table', bound=ColumnTable)


class GrowingTable(Generic[_Table]):
    """Appends rows, and returns all of them as one table.

    The files have no names, so they vanish with the last array that maps them, whatever ends the
    process.

    Args:
        empty: A table without rows, for the types and shapes of its columns.
    """

    def __init__(self, empty: _Table) -> None:
        self._empty, self._parts, self._size = empty, list[_Table](), 0
        self._files: list[IO[bytes]] = []

    def append(self, rows: _Table) -> None:
        """Append the rows of a table."""
        columns = list(vars(rows).values())
        if len(columns[0]):
            self._parts.append(rows)
            self._size += sum(column.nbytes for column in columns)
        if self._size > IN_MEMORY:
            self._write()

    def _write(self) -> None:
        """Move the rows from memory to the files."""
        self._files = self._files or [tempfile.TemporaryFile() for _ in vars(self._empty)]  # noqa: SIM115
        for part in self._parts:
            for file, column in zip(self._files, vars(part).values(), strict=True):
                np.ascontiguousarray(column).tofile(file)
        self._parts, self._size = [], 0

    def joined(self) -> _Table:
        """Return all rows; the table is empty afterwards."""
        if not self._files:
            parts, self._parts, self._size = self._parts or [self._empty], [], 0
            return type(self._empty).joined(parts)
        self._write()
        files, self._files = self._files, []
        columns = vars(self._empty).values()
        return type(self._empty)(*map(_mapped, files, columns))


def _mapped(file: IO[bytes], empty: Array) -> Array:
    """Return the rows in a file, of the type and shape of an empty column."""
    with file:
        rows = np.memmap(file, empty.dtype, 'c')
    return np.asarray(rows).reshape(-1, *empty.shape[1:])
