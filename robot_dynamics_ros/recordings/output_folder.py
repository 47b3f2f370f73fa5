# SPDX-License-Identifier: Apache-2.0
"""Folders of results: made whole or not at all, never over what is there unless told so."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from robot_dynamics_ros.errors import ConfigurationError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def claim(given: Path | None, usual: Path, *, force: bool) -> Path:
    """Return the folder for results.

    Args:
        given: As the user named it, or None.
        usual: Name to use otherwise; a number is put behind it while it is taken.
        force: Whether files in a folder that was named may be replaced.

    Raises:
        ConfigurationError: The folder that was named holds something, is a file, or cannot be
            looked at.
    """
    with _told(given or usual):
        return _claimed(given, usual, force=force)


def _claimed(given: Path | None, usual: Path, *, force: bool) -> Path:
    if given is None:
        folder, count = usual, 1
        while folder.exists() and not force:
            count += 1
            folder = usual.with_name(f'{usual.name}-{count}')
        return folder
    if given.is_file():
        raise ConfigurationError(f'output {str(given)!r}', 'is a file', 'name a folder')
    if given.is_dir() and any(given.iterdir()) and not force:
        raise ConfigurationError(
            f'output {str(given)!r}',
            'exists and is not empty',
            'name another folder, or replace its files with --force',
        )
    return given


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to write into; its files get to their place once all are written.

    If the body raises, nothing of it is left, and what was there before is as it was.

    Args:
        folder: Where the files shall be; files of the same name are replaced.

    Raises:
        ConfigurationError: The folder cannot be made, or the disk is full.
    """
    with _told(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f'.{folder.name}-', dir=folder.parent))
    try:
        try:
            yield work
        except OSError as error:
            if error.errno in _FULL:
                raise _unwritable(folder, error) from error
            raise
        with _told(folder):
            folder.mkdir(exist_ok=True)
            for file in work.iterdir():
                os.replace(file, folder / file.name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Tell what the system refuses as an error of ours."""
    try:
        yield
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f'output {str(folder)!r}',
        f'cannot be written ({error.strerror or error})',
        'name another folder, or make room',
    )
