# SPDX-License-Identifier: Apache-2.0
"""Find the storage files of a recording, decompress zstd and lz4 data, and copy damaged files.

Missing or damaged metadata is tolerated. Truncated or damaged data is decompressed block by block
up to the first error.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sqlite3
import struct
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from functools import cache
from importlib import import_module
from io import BytesIO
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from robot_dynamics_ros.errors import MissingDependencyError, RecordingError
from robot_dynamics_ros.estimation.accumulate import temporary_space
from robot_dynamics_ros.recordings.bag.tables import TABLE_SUFFIXES, is_table
from robot_dynamics_ros.yaml_reader.parsing import yaml_mapping

_STORAGE_NAME = re.compile(r'\.(mcap|db3)(\.zstd)?$')
_ENDING = re.compile(rf'({_STORAGE_NAME.pattern}|\.[A-Za-z]+)$')
_METADATA = 'metadata.yaml'
_ROS1_MAGIC = b'#ROSBAG V'


class BagFiles(NamedTuple):
    """The storage files and metadata of a recording.

    Attributes:
        path: The path of the recording.
        files: Storage files, in the order recorded.
        counts: Number of messages by topic according to ``metadata.yaml``; empty without it.
        remarks: Custom data of ``metadata.yaml``.
        distro: ROS distribution in ``metadata.yaml``, or empty.
        notes: Remarks about missing or unexpected files, one sentence each.
    """

    path: Path
    files: tuple[Path, ...]
    counts: Mapping[str, int] = {}
    remarks: Mapping[str, str] = {}
    distro: str = ''
    notes: tuple[str, ...] = ()


def find_files(path: str | os.PathLike[str]) -> BagFiles:
    """Find the storage files of a recording.

    Args:
        path: A bag's folder, or one of its files.

    Raises:
        RecordingError: The path does not exist, or holds no storage file.
    """
    path = Path(path)
    if path.is_file():
        if not (_STORAGE_NAME.search(path.name) or is_table(path)):
            raise _not_a_recording(path)
        return BagFiles(path, (path,))
    if not path.is_dir():
        problem = f'no such file or folder in {str(path.absolute().parent)!r}'
        raise RecordingError(f'bag {str(path)!r}', problem, 'give a rosbag2 folder or one file')
    present = sorted(filter(_is_storage, path.iterdir()), key=_natural_key)
    if not present:
        raise RecordingError(
            f'bag {str(path)!r}', 'holds no .mcap or .db3 file', 'give a rosbag2 folder'
        )
    file, counts, remarks = path / _METADATA, dict[str, int](), dict[str, str]()
    text = file.read_text(encoding='utf-8', errors='replace') if file.is_file() else ''
    metadata = yaml_mapping(text).get('rosbag2_bagfile_information')
    metadata = metadata if isinstance(metadata, dict) else {}
    files, notes = _listed(metadata, present)
    if not files:
        what = 'damaged' if file.is_file() else 'missing'
        notes = [f'{_METADATA} is {what}: every storage file in the folder was read']
    listed = metadata.get('topics_with_message_count')
    for entry in listed if isinstance(listed, list) else ():
        with suppress(KeyError, TypeError, ValueError, OverflowError):  # a damaged one
            counts[str(entry['topic_metadata']['name'])] = int(entry['message_count'])
    with suppress(KeyError, AttributeError):
        remarks = {str(key): str(x) for key, x in metadata['custom_data'].items()}
    distro = str(metadata.get('ros_distro') or '')
    return BagFiles(path, tuple(files or present), counts, remarks, distro, tuple(notes))


def _listed(metadata: Mapping[str, Any], present: list[Path]) -> tuple[list[Path], list[str]]:
    """Return the files that metadata list, and notes on missing and unlisted ones."""
    listed = metadata.get('relative_file_paths')
    names = [PurePath(str(name)).name for name in listed] if isinstance(listed, list) else []
    by_name = {file.name: file for file in present}
    missing = [name for name in names if name not in by_name]
    others = [name for name in by_name if name not in names]
    notes = [f'{", ".join(missing)}: listed in {_METADATA}, but missing'] if missing else []
    notes += [f'{", ".join(others)}: not listed in {_METADATA}; not read'] if others else []
    return [by_name[name] for name in names if name in by_name], notes


def _not_a_recording(path: Path) -> RecordingError:
    tables = f'a table {", ".join(TABLE_SUFFIXES)} (save workbooks as CSV)'
    problem, remedy = 'is not a recording', f'give a bag folder, .mcap, .db3, or {tables}'
    with path.open('rb') as file:
        if file.read(len(_ROS1_MAGIC)) == _ROS1_MAGIC:
            other = path.with_name(f'{path.stem}_ros2')
            words = 'rosbags-convert', '--src', str(path), '--dst', str(other)
            problem, remedy = 'is of ROS 1', f'convert it: {shlex.join(words)}'
    return RecordingError(f'bag {str(path)!r}', problem, remedy)


def is_bag(path: Path) -> bool:
    """Return whether a path is a storage file, a folder with one, or a table."""
    if path.is_dir():
        return any(map(_is_storage, path.iterdir()))
    return path.is_file() and (_is_storage(path) or is_table(path))


def short_name(bag: Path) -> str:
    """Return a short name of a bag: ``a`` for ``runs/a/bag``, ``load_0.1`` for its table."""
    bag = bag.resolve()
    name = _ENDING.sub('', bag.name) if bag.is_file() else bag.name
    return bag.parent.name if name in ('bag', 'rosbag2') else name


def _is_storage(path: Path) -> bool:
    return path.is_file() and bool(_STORAGE_NAME.search(path.name))


def _natural_key(path: Path) -> list[Any]:
    """Return a sort key that orders ``bag_2`` before ``bag_10``."""
    parts = re.split(r'(\d+)', path.name)
    return [int(part) if part.isdigit() else part for part in parts]


#: First bytes of a zstd frame; a CDR message starts with 0.
ZSTD_MAGIC = b'\x28\xb5\x2f\xfd'
_PIECE = 1 << 20
_CODECS = {'zstd': ('compression.zstd', 'backports.zstd'), 'lz4': ('lz4.frame',)}


@cache
def codec(method: str) -> Any:
    """Return the module of 'zstd' (that of Python 3.14, or its backport) or 'lz4'.

    Raises:
        MissingDependencyError: It is not installed.
    """
    for name in _CODECS[method]:
        with suppress(ImportError):
            return import_module(name)
    raise MissingDependencyError(method, 'a compressed bag', "install it (pip 'rosbags')")


def decompress(data: Any, method: str) -> tuple[bytes, bool]:
    """Decompress data as far as possible; also return whether it is complete.

    Args:
        data: The compressed bytes, possibly truncated or damaged.
        method: 'zstd', 'lz4', or '' for none.
    """
    if not method:
        return bytes(data), True
    plain = bytearray()
    complete = _unpack(BytesIO(data), method, plain.extend)
    return bytes(plain), complete


def new_folder(copies: ExitStack) -> Path:
    """Return a new temporary folder, which exists until ``copies`` is closed."""
    with temporary_space():
        return Path(copies.enter_context(TemporaryDirectory(prefix='robot_dynamics_bag_')))


def decompress_file(source: Path, target: Path) -> bool:
    """Decompress a zstd file up to its end or the first damage; return whether it was intact."""
    with source.open('rb') as packed, temporary_space(), target.open('wb') as out:
        return _unpack(packed, 'zstd', out.write)


def _unpack(packed: Any, method: str, write: Callable[[bytes], object]) -> bool:
    """Write the contents of a compressed file up to the first damage; return whether intact."""
    module = codec(method)
    damages = EOFError, RuntimeError, ValueError, getattr(module, 'ZstdError', EOFError)
    try:
        with module.open(packed) as file:
            while piece := file.read1(_PIECE):
                write(piece)
    except damages:
        return False
    return True


def readable_database(path: Path, copies: ExitStack) -> tuple[Path, str]:
    """Return a sqlite3 file or a copy to read instead, and a remark if it is a copy.

    SQLite would pad a truncated last page with zeros, so such a file is copied without that page;
    a file with an open journal is copied together with it.

    Args:
        path: The file; never modified.
        copies: Keeps the temporary folder of a copy until it is closed.
    """
    logs = [path.with_name(f'{path.name}-{kind}') for kind in ('wal', 'journal')]
    logs = [log for log in logs if log.is_file() and log.stat().st_size]
    cut = _complete_pages(path)
    if not (cut or logs):
        return path, ''
    target = new_folder(copies) / path.name
    with temporary_space():
        for file in (path, *logs):
            shutil.copyfile(file, target.with_name(file.name))
    if not logs:
        os.truncate(target, cut)
        return target, 'it ends early, within a page'
    with closing(sqlite3.connect(target)) as connection, suppress(sqlite3.DatabaseError):
        connection.execute('PRAGMA schema_version').fetchall()  # applies or rolls back
    return target, 'its recorder did not close it: its journal was used'


def _complete_pages(path: Path) -> int:
    """Return the size of the complete pages if the last page is truncated, else 0."""
    with path.open('rb') as file:
        header = file.read(18)
    if len(header) < 18 or not header.startswith(b'SQLite format 3\x00'):
        return 0
    (page,) = struct.unpack_from('>H', header, 16)
    page = 65536 if page == 1 else page
    size = path.stat().st_size
    return size // page * page if page and size % page and size > page else 0
