# SPDX-License-Identifier: Apache-2.0
"""Generated code on disk: what its name depends on, where it is kept, how it is made.

A file is written beside its place and moved there in one step, so several processes may share the
cache; its first line carries a digest of the rest, so a damaged file is found out and made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import platform
import re
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np

from robot_dynamics_ros.symbolic.outputs import Subject, known_output, trace_output
from robot_dynamics_ros.symbolic.straight_line import StraightLineCode, module_source

LOCATION = 'ROBOT_DYNAMICS_CACHE'
_KEPT = 4000  # files, some 200 MB; those not used for longest go when there are more

#: Packages whose sources decide what is generated.
_SOURCES = ('spatial', 'model', 'dynamics', 'symbolic')

#: Attributes of a robot that enter the formulas.
_CONSTANTS = (
    'parent',
    'prismatic',
    'axis',
    'R_PJ',
    'p_PJ',
    'mass',
    'com',
    'inertia',
    'gravity',
)

_log = logging.getLogger(__name__)


def cache_directory() -> Path:
    """Return where generated code is kept.

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
    directory = cache_directory()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=directory, prefix='.')
        with os.fdopen(handle, 'wb') as file:
            file.write(_first_line(content) + b'\n' + content)
        os.replace(temporary, directory / name)
        _forget_oldest(directory)
    except OSError as error:
        _log.warning('generated code is not kept, %s: the next start takes longer', error)


def _first_line(content: bytes) -> bytes:
    return f'# sha256 {hashlib.sha256(content).hexdigest()}'.encode()


def _forget_oldest(directory: Path) -> None:
    files = [entry for entry in os.scandir(directory) if entry.is_file()]
    if len(files) > _KEPT:
        files.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in files[: len(files) - _KEPT]:
            with contextlib.suppress(OSError):
                os.unlink(entry)


def fingerprint(subject: Subject, outputs: Iterable[str], machine: str) -> str:
    """Return a name that differs if robot, formulation, outputs, sources or machine do.

    Args:
        subject: Robot, formulation and frame.
        outputs: Names of the outputs.
        machine: Processor and compiler; empty for source alone.
    """
    digest = hashlib.sha256(source_digest())
    names = (subject.formulation_name, *outputs, machine, *_versions())
    digest.update('\n'.join(names).encode())
    of_frame = any(known_output(name).of_frame for name in outputs)
    return hashlib.sha256(digest.digest() + constants_digest(subject, of_frame)).hexdigest()[:24]


def constants_digest(subject: Subject, of_frame: bool = False) -> bytes:
    """Return a digest of all numbers of a robot that enter the formulas, its frame's if asked."""
    digest = hashlib.sha256()
    arrays = [getattr(subject.tree, name) for name in _CONSTANTS]
    if subject.tree.coupling is not None:
        arrays += [subject.tree.coupling.rate, subject.tree.coupling.offset]
    if subject.mechanism is not None:
        arrays += [subject.joint_rates(), subject.mechanism.drive]
        arrays += [subject.mechanism.positions(np.zeros(subject.n))]
    if of_frame:
        frame = subject.frame
        arrays += [frame.body, frame.R_BF, frame.p_BF]
    for array in arrays:
        numbers = np.asarray(array, dtype=float)
        digest.update(repr(numbers.shape).encode() + numbers.tobytes())
    return digest.digest()


def _versions() -> tuple[str, str]:
    return platform.python_version(), np.__version__


@cache
def source_digest() -> bytes:
    """Return a digest of all sources that decide what is generated."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for folder in _SOURCES:
        for file in sorted((package / folder).rglob('*.py')):
            digest.update(file.name.encode() + file.read_bytes())
    return digest.digest()


def generated_source(subject: Subject, outputs: tuple[str, ...]) -> str:
    """Return the Python source of kernels; see :func:`python_source.module_source`."""
    name = _file_name(subject, outputs, '') + '.py'
    stored = load(name)
    if stored is not None:
        return stored.decode()
    return _store_source(name, subject, _trace(subject, outputs))


def generated_machine_code(subject: Subject, outputs: tuple[str, ...]) -> bytes:
    """Return the object file of kernels for this machine; keeps the Python source as well.

    Raises:
        ImportError: llvmlite is not installed.
        RuntimeError: LLVM refuses.
    """
    from robot_dynamics_ros.symbolic.native.code import compile_codes, machine

    name = _file_name(subject, outputs, machine()) + '.o'
    stored = load(name)
    if stored is not None:
        return stored
    _log.info('compiling %s of %s', ', '.join(outputs), subject.tree.name)
    codes = _trace(subject, outputs)
    _store_source(_file_name(subject, outputs, '') + '.py', subject, codes)
    binary = compile_codes(codes)
    store(name, binary)
    return binary


def _file_name(subject: Subject, outputs: tuple[str, ...], machine: str) -> str:
    robot = re.sub(r'\W+', '_', subject.tree.name)
    return f'{robot}-{subject.formulation_name}-{fingerprint(subject, outputs, machine)}'


def _trace(subject: Subject, outputs: tuple[str, ...]) -> list[StraightLineCode]:
    return [trace_output(name, subject) for name in outputs]


def _store_source(name: str, subject: Subject, codes: list[StraightLineCode]) -> str:
    heading = f'Dynamics of robot {subject.tree.name!r}, from {subject.formulation_name}.'
    source = module_source(codes, heading)
    store(name, source.encode())
    return source
