# SPDX-License-Identifier: Apache-2.0
"""Disk cache of generated code and expanded robot descriptions, which are slow to produce.

Files are written under a temporary name and renamed atomically, so several processes can share
the cache. The first line of a file is a digest of the rest; a damaged file is regenerated.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

try:
    from _blake2 import blake2b  # hashlib also loads OpenSSL: 3 ms of every start
except ImportError:
    from hashlib import blake2b

LOCATION = 'ROBOT_DYNAMICS_CACHE'
_MAX_FILES = 4000  # per folder, about 200 MB; beyond that, the least recently used are deleted

_log = logging.getLogger(__name__)


def cache_directory() -> Path:
    """Return the cache folder.

    The value of the environment variable ROBOT_DYNAMICS_CACHE if set, otherwise
    ``robot_dynamics_ros`` in XDG_CACHE_HOME, or in ``~/.cache``.
    """
    configured = os.environ.get(LOCATION)
    if configured:
        return Path(configured).expanduser()
    return Path(os.environ.get('XDG_CACHE_HOME') or '~/.cache').expanduser() / 'robot_dynamics_ros'


def new_digest(content: bytes = b'') -> blake2b:
    """Return a digest of 32 bytes, which can be updated."""
    return blake2b(content, digest_size=32)


def load(name: str) -> bytes | None:
    """Return the content of a cached file; None if it is missing or damaged."""
    try:
        file = cache_directory() / name
        first, _, content = file.read_bytes().partition(b'\n')
    except OSError:
        return None
    with contextlib.suppress(OSError):  # a read-only file
        os.utime(file)
    return content if first == _header(content) else None


def cached(name: str, make: Callable[[], bytes]) -> bytes:
    """Return the content of a cached file, made and stored if it is missing or damaged."""
    content = load(name)
    if content is None:
        content = make()
        store(name, content)
    return content


def store(name: str, content: bytes) -> None:
    """Store content under a name; log a warning if the cache cannot be written."""
    import tempfile  # deferred: takes 3 ms, and most starts store nothing

    file = cache_directory() / name
    try:
        for folder in (cache_directory(), file.parent):  # mkdir: mode of the last one only
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix='.')
        with os.fdopen(handle, 'wb') as stream:
            stream.write(_header(content) + b'\n' + content)
        os.replace(temporary, file)
        _delete_oldest(file.parent)
    except OSError as error:
        _log.warning('generated content not cached, %s: the next start takes longer', error)


def _header(content: bytes) -> bytes:
    return f'# blake2b {new_digest(content).hexdigest()}'.encode()


def _delete_oldest(directory: Path) -> None:
    files = [entry for entry in os.scandir(directory) if entry.is_file()]
    if len(files) > _MAX_FILES:
        with contextlib.suppress(OSError):  # other processes delete, too
            files.sort(key=lambda entry: entry.stat().st_mtime)
            for entry in files[: len(files) - _MAX_FILES]:
                os.unlink(entry)
