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
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    recording: Recording, columns: Iterable[tuple[str, Array]], rows: Sequence[str] = ()
) -> dict[str, Array]:
    """Return a recording as named columns of shape (N,).

    Args:
        recording: The recording.
        columns: Columns added by the metrics, shape (N,), (N, n), or (N, 3) for points.
        rows: Names of the rows of a constraint program.
    """
    names = {'tool': _AXES, 'program': _AXES, 'constraint': rows}
    flat = {'time': recording.time}
    own = ((x, getattr(recording, x)) for x in ('position', 'velocity', 'reference_velocity'))
    for name, values in (*own, *columns):
        if values.ndim == 1:
            flat[name] = values
            continue
        for label, column in zip(names.get(name, recording.joints), values.T, strict=True):
            flat[f'{name}.{label}'] = column
    return flat


def write_csv(path: Path, columns: Mapping[str, Array], every: int = 1) -> None:
    """Write columns as CSV, with numbers at full precision and empty non-finite entries.

    Args:
        path: The file.
        columns: Columns of equal length by name.
        every: Write every ``every``-th row only.
    """
    with path.open('w', encoding='utf-8', newline='\n') as file:
        table = csv.writer(file, lineterminator='\n')
        table.writerow(columns)
        for block in _blocks([column[::every] for column in columns.values()], _BLOCK):
            rows = np.column_stack(block)
            table.writerows(np.where(np.isfinite(rows), rows.astype(object), '').tolist())


def write_parquet(path: Path, columns: Mapping[str, Array]) -> None:
    """Write columns as Parquet.

    Args:
        path: The file.
        columns: Columns of equal length by name.

    Raises:
        MissingDependencyError: pyarrow is not installed.
    """
    arrow, parquet = pyarrow()
    fields = arrow.schema([(name, arrow.from_numpy_dtype(x.dtype)) for name, x in columns.items()])
    with parquet.ParquetWriter(path, fields) as writer:
        for block in _blocks(list(columns.values()), 64 * _BLOCK):
            rows = dict(zip(columns, map(np.ascontiguousarray, block), strict=True))
            writer.write_table(arrow.table(rows))


def _blocks(columns: Sequence[Array], rows: int) -> Iterator[list[Array]]:
    """Yield the columns in blocks of rows."""
    for start in range(0, len(columns[0]), rows):
        yield [column[start : start + rows] for column in columns]


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
