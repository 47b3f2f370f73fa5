# SPDX-License-Identifier: Apache-2.0
"""Tables that grow row by row while a bag is read, in memory or, if large, in temporary files."""

from __future__ import annotations

import os
import shutil
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

    Each column is a file without a name, in memory or on a disk: it grows without a copy, leaves
    no holes in the heap, and vanishes with the last array that maps it, whatever ends the process.

    Args:
        empty: A table without rows, for the types and shapes of its columns.
    """

    def __init__(self, empty: _Table) -> None:
        self._empty, self._files, self._in_memory = empty, list[IO[bytes]](), True

    def append(self, rows: _Table) -> None:
        """Append the rows of a table."""
        self._files = self._files or [_memory() for _ in vars(self._empty)]
        for file, column in zip(self._files, vars(rows).values(), strict=True):
            np.ascontiguousarray(column).tofile(file)
        if self._in_memory and sum(file.tell() for file in self._files) > IN_MEMORY:
            self._files, self._in_memory = [_on_disk(file) for file in self._files], False

    def joined(self) -> _Table:
        """Return all rows; the table is empty afterwards."""
        if not self._files:
            return self._empty
        files, self._files, self._in_memory = self._files, [], True
        columns = vars(self._empty).values()
        return type(self._empty)(*map(_mapped, files, columns))


def _memory() -> IO[bytes]:
    """Return a new file in memory; elsewhere than on Linux in the folder of temporary files."""
    if hasattr(os, 'memfd_create'):
        return open(os.memfd_create('column'), 'w+b')
    return tempfile.TemporaryFile()


def _on_disk(file: IO[bytes]) -> IO[bytes]:
    """Return a new file in the folder of temporary files, with the content of another one."""
    with file:
        file.seek(0)
        moved = tempfile.TemporaryFile()  # noqa: SIM115
        shutil.copyfileobj(file, moved)
    return moved


def _mapped(file: IO[bytes], empty: Array) -> Array:
    """Return the rows in a file, of the type and shape of an empty column."""
    with file:
        rows = np.memmap(file, empty.dtype, 'c') if file.tell() else empty
    return np.asarray(rows).reshape(-1, *empty.shape[1:])
