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
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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


def choose_folder(named: Path | None, usual: Path, *, force: bool) -> Path:
    """Choose the output folder.

    Args:
        named: Folder given by the user, or None.
        usual: Default folder; a number is appended if it exists, unless ``force``.
        force: Whether existing files may be replaced.

    Raises:
        ConfigurationError: The folder holds files, is a file, or cannot be accessed.
    """
    folder = named or usual
    with _as_configuration_error(folder):
        folder = folder if named or force else unused(folder)
    require_free(folder, force=force)
    return folder


def unused(usual: Path) -> Path:
    """Return a folder, with a number appended if it exists."""
    folder, number = usual, 1
    while folder.exists():
        number += 1
        folder = usual.with_name(f'{usual.name}-{number}')
    return folder


def require_free(folder: Path, files: Iterable[str] = (), *, force: bool) -> None:
    """Require that files can be written to a folder without replacing others.

    Args:
        folder: The folder.
        files: Names of the files to write, if the folder may hold others; none if it must be
            empty.
        force: Whether existing files may be replaced.

    Raises:
        ConfigurationError: The folder holds such files, or folders of these names, is a file, or
            cannot be written.
    """
    with _as_configuration_error(folder):
        there = next(x for x in (folder, *folder.absolute().parents) if x.exists())
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f'{there} is a file')
        if not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, f'no permission in {there}')
        existing = sorted(file.name for file in folder.iterdir()) if folder.exists() else []
        for name in files:
            if (folder / name).is_dir():
                raise IsADirectoryError(errno.EISDIR, f'{name} is a folder')
    conflicting = [name for name in files or existing[:3] if name in existing]
    if conflicting and not force:
        raise ConfigurationError(
            f'output {str(folder)!r}',
            f'holds {", ".join(conflicting)}',
            'name another folder or file, or replace with --force',
        )


def require_free_file(file: Path, *, force: bool) -> None:
    """Require that a file can be written without replacing one, see :func:`require_free`."""
    require_free(file.parent, [file.name], force=force)


def make_empty(folder: Path, entry: str) -> None:
    """Create a folder, or remove the results of an earlier run from it.

    Args:
        folder: The folder.
        entry: Name of a file or folder that every run writes into it.

    Raises:
        ConfigurationError: The folder holds something else, is a file, or cannot be written.
    """
    with _as_configuration_error(folder):
        if folder.exists():
            if not (folder / entry).exists() and any(folder.iterdir()):
                what = f'output {str(folder)!r}'
                raise ConfigurationError(what, 'holds other files', 'name an empty or new folder')
            shutil.rmtree(folder)
        folder.mkdir(parents=True)


@contextlib.contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder; move its files to their destination when the body completes.

    If the body raises, the temporary folder is removed and the destination stays unchanged. No
    signal interrupts that, its creation, or the move.

    Args:
        folder: The destination; files of the same name are replaced.

    Raises:
        ConfigurationError: The folder cannot be created, or the disk is full.
    """
    target = folder.resolve()
    disk = target if target.is_dir() else target.parent  # a folder may be a mount point
    with contextlib.ExitStack() as removal:
        with _as_configuration_error(folder), _uninterrupted():
            disk.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(prefix=f'.{target.name}-', dir=disk))
            removal.callback(_remove, work)
        try:
            yield work
        except OSError as error:
            if error.errno in _DISK_FULL:
                raise _unwritable(folder, error) from error
            raise
        with _as_configuration_error(folder), _uninterrupted():
            target.mkdir(exist_ok=True)
            for file in work.iterdir():
                os.replace(file, target / file.name)


def _remove(folder: Path) -> None:
    with _uninterrupted():
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let the first of the signals that would end the process act after the body."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came, signals = list[int](), (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = [signal.signal(x, lambda number, _: came.append(number)) for x in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, handlers, strict=True):
            signal.signal(number, handler or signal.SIG_DFL)
        for first in came[:1]:
            signal.raise_signal(first)


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
    """Write a document as JSON, to a folder that is created if it does not exist."""
    text = json.dumps(json_ready(document), indent=2, allow_nan=False, ensure_ascii=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + '\n', encoding='utf-8')


def flat_columns(
    recording: Recording, columns: Mapping[str, Array], rows: Sequence[str] = ()
) -> dict[str, Array]:
    """Return a recording as named columns of shape (N,).

    Args:
        recording: The recording.
        columns: Columns added by the metrics, shape (N,), (N, n), or (N, 3) for points.
        rows: Names of the rows of a constraint program.
    """
    names = {'tool': _AXES, 'program': _AXES, 'constraint': rows, 'design': rows}
    flat = {'time': recording.time}
    own = ((x, getattr(recording, x)) for x in ('position', 'velocity', 'reference_velocity'))
    for name, values in (*own, *columns.items()):
        if values.ndim == 1:
            flat[name] = values
            continue
        for label, column in zip(names.get(name, recording.joints), values.T, strict=True):
            flat[f'{name}.{label}'] = column
    return flat


#: Appends rows to a table, given as columns of equal length by name.
WriteRows = Callable[[Mapping[str, Array]], None]


@contextlib.contextmanager
def csv_table(path: Path, every: int = 1) -> Iterator[WriteRows]:
    """Write a table as CSV, with numbers at full precision and empty non-finite entries.

    Args:
        path: The file.
        every: Write every ``every``-th row only.
    """
    given = 0
    with path.open('w', encoding='utf-8', newline='\n') as file:
        table = csv.writer(file, lineterminator='\n')

        def write(columns: Mapping[str, Array]) -> None:
            nonlocal given
            if not given:
                table.writerow(columns)
            rows = np.column_stack([x[-given % every :: every] for x in columns.values()])
            for start in range(0, len(rows), _BLOCK):
                block = rows[start : start + _BLOCK]
                table.writerows(np.where(np.isfinite(block), block.astype(object), '').tolist())
            given += len(next(iter(columns.values())))

        yield write


@contextlib.contextmanager
def parquet_table(path: Path) -> Iterator[WriteRows]:
    """Write a table as Parquet.

    Raises:
        MissingDependencyError: pyarrow is not installed.
    """
    arrow, parquet = pyarrow()
    with contextlib.ExitStack() as files:
        writer: Any = None

        def write(columns: Mapping[str, Array]) -> None:
            nonlocal writer
            rows = arrow.table({name: np.ascontiguousarray(x) for name, x in columns.items()})
            writer = writer or files.enter_context(parquet.ParquetWriter(path, rows.schema))
            writer.write_table(rows)

        yield write


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
