# SPDX-License-Identifier: Apache-2.0
"""What is kept on disk because making it takes long: generated code, expanded descriptions.

A file is written beside its place and moved there in one step, so several processes may share the
cache; its first line carries a digest of the rest, so a damaged file is found out and made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from pathlib import Path

LOCATION = 'ROBOT_DYNAMICS_CACHE'
_KEPT = 4000  # files of a folder, some 200 MB; those not used for longest go when there are more

_log = logging.getLogger(__name__)


def cache_directory() -> Path:
    """Return where files are kept.

    It is the environment variable ROBOT_DYNAMICS_CACHE, else ``robot_dynamics_ros`` in
    XDG_CACHE_HOME, else in ``~/.cache``.
    """
    chosen = os.environ.get(LOCATION)
    if chosen:
        return Path(chosen).expanduser()
    return Path(os.environ.get('XDG_CACHE_HOME') or '~/.cache').expanduser() / 'robot_dynamics_ros'


def load(name: str) -> bytes | None:
    """Return the content of a file of the cache; None if it is missing or damaged."""
    try:
        file = cache_directory() / name
        first, _, content = file.read_bytes().partition(b'\n')
    except OSError:
        return None
    with contextlib.suppress(OSError):  # one that may only be read
        os.utime(file)
    return content if first == _first_line(content) else None


def store(name: str, content: bytes) -> None:
    """Keep content under a name; a cache that cannot be written costs time at the next start."""
    import tempfile  # here, for it takes 3 ms, and a start mostly stores nothing

    file = cache_directory() / name
    try:
        for folder in (cache_directory(), file.parent):  # the mode is that of the last one made
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix='.')
        with os.fdopen(handle, 'wb') as opened:
            opened.write(_first_line(content) + b'\n' + content)
        os.replace(temporary, file)
        _forget_oldest(file.parent)
    except OSError as error:
        _log.warning('what was generated is not kept, %s: the next start takes longer', error)


def _first_line(content: bytes) -> bytes:
    return f'# sha256 {hashlib.sha256(content).hexdigest()}'.encode()


def _forget_oldest(directory: Path) -> None:
    files = [entry for entry in os.scandir(directory) if entry.is_file()]
    if len(files) > _KEPT:
        files.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in files[: len(files) - _KEPT]:
            with contextlib.suppress(OSError):
                os.unlink(entry)
