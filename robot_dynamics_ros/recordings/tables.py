# SPDX-License-Identifier: Apache-2.0
"""Rows of an analysis as CSV, and as Parquet where pyarrow is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import MissingDependencyError
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.scalar import Array

_AXES = ('x', 'y', 'z')
_BLOCK = 1000  # rows that are text at once


def flat_columns(
    recording: Recording, columns: Mapping[str, Array], rows: Sequence[str] = ()
) -> dict[str, Array]:
    """Return the rows of a chunk as columns of numbers by name.

    Args:
        recording: The rows.
        columns: What the judges add, shape (N,), (N, n), (N, 3) for points.
        rows: Names of the rows of a constraint program.
    """
    joints = recording.joints
    found = {'time': recording.time}
    for name, values in {
        'position': recording.position,
        'velocity': recording.velocity,
        'reference_velocity': recording.reference_velocity,
        **columns,
    }.items():
        if values.ndim == 1:
            found[name] = values
            continue
        labels: Sequence[str] = joints
        if name in ('tool', 'program'):
            labels = _AXES
        elif name == 'constraint':
            labels = rows
        for i, label in enumerate(labels):
            found[f'{name}.{label}'] = values[:, i]
    return found


class CsvTable:
    """Writes rows as CSV, numbers as they are; a context.

    Args:
        path: The file.
        every: Every so many rows one is written.
    """

    def __init__(self, path: Path, every: int = 1) -> None:
        self._every, self._count = every, 0
        self._file: Any = path.open('w', encoding='utf-8', newline='\n')

    def __enter__(self) -> CsvTable:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, columns: Mapping[str, Array]) -> None:
        """Write rows; an entry that is not finite stays empty."""
        if not self._count:
            self._file.write(','.join(_quoted(name) for name in columns) + '\n')
        table = np.column_stack(list(columns.values()))
        first = -self._count % self._every
        self._count += len(table)
        chosen = table[first :: self._every]
        for start in range(0, len(chosen), _BLOCK):
            rows = chosen[start : start + _BLOCK].tolist()
            self._file.writelines(','.join(map(_text, row)) + '\n' for row in rows)


def _text(value: float) -> str:
    return '' if value != value or value in (np.inf, -np.inf) else repr(value)


def _quoted(name: str) -> str:
    return f'"{name}"' if ',' in name else name


class ParquetTable:
    """Writes all rows as Parquet; a context.

    Args:
        path: The file.

    Raises:
        MissingDependencyError: pyarrow is not installed.
    """

    def __init__(self, path: Path) -> None:
        self._arrow, self._parquet = pyarrow()
        self._path = path
        self._writer: Any = None

    def __enter__(self) -> ParquetTable:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def add(self, columns: Mapping[str, Array]) -> None:
        """Write rows."""
        table = self._arrow.table({name: np.asarray(x) for name, x in columns.items()})
        if self._writer is None:
            self._writer = self._parquet.ParquetWriter(self._path, table.schema)
        self._writer.write_table(table)


def pyarrow() -> tuple[Any, Any]:
    """Return pyarrow and its parquet module.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        return import_module('pyarrow'), import_module('pyarrow.parquet')
    except ImportError as error:
        raise MissingDependencyError(
            'pyarrow', 'a Parquet table', "install it (pip 'pyarrow'), or take the CSV"
        ) from error
