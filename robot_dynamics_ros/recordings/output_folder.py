# SPDX-License-Identifier: Apache-2.0
"""Write result folders atomically; existing files are replaced only on request.

Figures are written as strict JSON, rows as CSV, and as Parquet if pyarrow is installed.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import ConfigurationError, MissingDependencyError
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.scalar import Array

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_AXES = ('x', 'y', 'z')
_BLOCK = 1000  # rows formatted at once


def folder_name(name: str) -> str:
    """Return the name of a robot as that of one folder, inside of another one."""
    return re.sub(r'[^\w. -]', '_', name).strip('. ') or 'robot'


def choose_folder(
    named: Path | None, usual: Path, *, force: bool, files: Sequence[str] = ()
) -> Path:
    """Choose the output folder.

    Args:
        named: Folder given by the user, or None.
        usual: Default folder; a number is appended if it exists, unless ``force``.
        force: Whether existing files may be replaced.
        files: Names of the files to write, if the folder may hold others; empty if it must be
            empty.

    Raises:
        ConfigurationError: The folder already holds such files (any file if ``files`` is empty),
            is a file, or cannot be accessed.
    """
    folder, count = named or usual, 1
    with _as_configuration_error(folder):
        while named is None and folder.exists() and not force:
            count += 1
            folder = usual.with_name(f'{usual.name}-{count}')
        if folder.exists() and not folder.is_dir():
            raise ConfigurationError(f'output {str(folder)!r}', 'is a file', 'name a folder')
        existing = sorted(file.name for file in folder.iterdir()) if folder.exists() else []
    conflicting = [name for name in files or existing[:3] if name in existing]
    if conflicting and not force:
        raise ConfigurationError(
            f'output {str(folder)!r}',
            f'holds {", ".join(conflicting)}',
            'name another folder, or replace its files with --force',
        )
    return folder


@contextlib.contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder; move its files to their destination when the body completes.

    If the body raises, the temporary folder is removed and the destination stays unchanged.

    Args:
        folder: The destination; files of the same name are replaced.

    Raises:
        ConfigurationError: The folder cannot be created, or the disk is full.
    """
    target = folder.resolve()
    disk = target if target.is_dir() else target.parent  # a folder may be a mount point
    with _as_configuration_error(folder):
        disk.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f'.{target.name}-', dir=disk))
    try:
        try:
            yield work
        except OSError as error:
            if error.errno in _DISK_FULL:
                raise _unwritable(folder, error) from error
            raise
        with _as_configuration_error(folder):
            target.mkdir(exist_ok=True)
            for file in work.iterdir():
                os.replace(file, target / file.name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def _as_configuration_error(folder: Path) -> Iterator[None]:
    """Convert an OSError to a ConfigurationError."""
    try:
        yield
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f'output {str(folder)!r}',
        f'cannot be written ({error.strerror or error})',
        'name another folder, or free disk space',
    )


# Files ------------------------------------------------------------------------------------------


def json_ready(value: Any) -> Any:
    """Convert a value to plain Python types, with None for non-finite numbers."""
    if isinstance(value, Mapping):
        return {str(key): json_ready(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(inner) for inner in value]
    if isinstance(value, (np.generic, np.ndarray)):
        return json_ready(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: Path, document: Any) -> None:
    """Write a document as JSON."""
    text = json.dumps(json_ready(document), indent=2, allow_nan=False, ensure_ascii=False)
    path.write_text(text + '\n', encoding='utf-8')


def flat_columns(
    recording: Recording, columns: Mapping[str, Array], rows: Sequence[str] = ()
) -> dict[str, Array]:
    """Return a chunk as named columns of shape (N,).

    Args:
        recording: The chunk.
        columns: Columns added by the metrics, shape (N,), (N, n), or (N, 3) for points.
        rows: Names of the rows of a constraint program.
    """
    joints = recording.joints
    flat = {'time': recording.time}
    for name, values in {
        'position': recording.position,
        'velocity': recording.velocity,
        'reference_velocity': recording.reference_velocity,
        **columns,
    }.items():
        if values.ndim == 1:
            flat[name] = values
            continue
        labels: Sequence[str] = joints
        if name in ('tool', 'program'):
            labels = _AXES
        elif name == 'constraint':
            labels = rows
        for i, label in enumerate(labels):
            flat[f'{name}.{label}'] = values[:, i]
    return flat


class CsvTable:
    """Context manager that writes rows as CSV, with numbers at full precision.

    Args:
        path: The file.
        every: Write every ``every``-th row only.
    """

    def __init__(self, path: Path, every: int = 1) -> None:
        self._every, self._count = every, 0
        self._file: Any = path.open('w', encoding='utf-8', newline='\n')
        self._rows = csv.writer(self._file, lineterminator='\n')

    def __enter__(self) -> CsvTable:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def clear(self) -> None:
        """Drop all rows written so far."""
        self._file.seek(0)
        self._file.truncate()
        self._count = 0

    def add(self, columns: Mapping[str, Array]) -> None:
        """Write rows, with empty fields for non-finite entries."""
        if not self._count:
            self._rows.writerow(columns)
        table = np.column_stack(list(columns.values()))
        first = -self._count % self._every
        self._count += len(table)
        chosen = table[first :: self._every]
        for start in range(0, len(chosen), _BLOCK):
            rows = chosen[start : start + _BLOCK]
            self._rows.writerows(np.where(np.isfinite(rows), rows.astype(object), '').tolist())


class ParquetTable:
    """Context manager that writes all rows as Parquet.

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
        """Write rows as a row group."""
        table = self._arrow.table({name: np.asarray(x) for name, x in columns.items()})
        if self._writer is None:
            self._writer = self._parquet.ParquetWriter(self._path, table.schema)
        self._writer.write_table(table)


def pyarrow() -> tuple[Any, Any]:
    """Return pyarrow and its parquet module.

    Raises:
        MissingDependencyError: pyarrow is not installed.
    """
    try:
        return import_module('pyarrow'), import_module('pyarrow.parquet')
    except ImportError as error:
        raise MissingDependencyError(
            'pyarrow', 'a Parquet table', "install it (pip 'pyarrow'), or use the CSV"
        ) from error
