# SPDX-License-Identifier: Apache-2.0
"""Disk cache of generated code: cache keys, generation and compilation."""

from __future__ import annotations

import logging
import platform
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np

from robot_dynamics_ros.disk_cache import cached, new_digest, store
from robot_dynamics_ros.symbolic.outputs import Subject, known_output, trace_output
from robot_dynamics_ros.symbolic.straight_line import StraightLineCode, module_source

#: Packages whose sources determine the generated code.
_SOURCES = ('spatial', 'model', 'dynamics', 'symbolic')

#: Attributes of a robot that the formulas use.
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


def fingerprint(subject: Subject, outputs: Iterable[str], machine: str) -> str:
    """Return the cache key for a robot, formulation, outputs, sources and machine.

    Args:
        subject: Robot, formulation and frame.
        outputs: Names of the outputs.
        machine: Processor and compiler; empty for Python source.
    """
    digest = new_digest(source_digest())
    versions = (platform.python_version(), np.__version__)
    names = (subject.formulation_name, *outputs, machine, *versions)
    digest.update('\n'.join(names).encode())
    of_frame = any(known_output(name).of_frame for name in outputs)
    return new_digest(digest.digest() + constants_digest(subject, of_frame)).hexdigest()[:24]


def constants_digest(subject: Subject, of_frame: bool = False) -> bytes:
    """Return a digest of all numbers that the formulas use, optionally including the frame's."""
    digest = new_digest()
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


@cache
def source_digest() -> bytes:
    """Return a digest of all sources that determine the generated code."""
    package = Path(__file__).resolve().parents[1]
    digest = new_digest()
    for folder in _SOURCES:
        for file in sorted((package / folder).rglob('*.py')):
            digest.update(file.name.encode() + file.read_bytes())
    return digest.digest()


def generated_source(subject: Subject, outputs: tuple[str, ...]) -> str:
    """Return the Python source of kernels; see :func:`straight_line.module_source`."""
    name = _file_name(subject, outputs, '') + '.py'
    return cached(name, lambda: _source(subject, _trace(subject, outputs))).decode()


def generated_machine_code(subject: Subject, outputs: tuple[str, ...]) -> bytes:
    """Return the object file of kernels for this machine; also caches the Python source.

    Raises:
        ImportError: llvmlite is not installed.
        RuntimeError: LLVM fails, or machine code cannot run on this machine.
    """
    from robot_dynamics_ros.symbolic.native.code import compile_codes, machine

    def make() -> bytes:
        _log.info('compiling %s of %s', ', '.join(outputs), subject.tree.name)
        codes = _trace(subject, outputs)
        store(_file_name(subject, outputs, '') + '.py', _source(subject, codes))
        return compile_codes(codes)

    return cached(_file_name(subject, outputs, machine()) + '.o', make)


def compiled_function(code: StraightLineCode) -> bytes:
    """Return the object file of a function of one state for this machine.

    Raises:
        ImportError, RuntimeError: As for :func:`generated_machine_code`.
    """
    from robot_dynamics_ros.symbolic.native.code import compile_codes, machine

    def make() -> bytes:
        _log.info('compiling %s', code.name)
        return compile_codes([code], batch=False)

    key = f'{machine()}\n{code.listing()}'.encode()
    digest = new_digest(source_digest() + key).hexdigest()
    return cached(f'{code.name}-{digest[:24]}.o', make)


def _file_name(subject: Subject, outputs: tuple[str, ...], machine: str) -> str:
    robot = re.sub(r'\W+', '_', subject.tree.name)
    return f'{robot}-{subject.formulation_name}-{fingerprint(subject, outputs, machine)}'


def _trace(subject: Subject, outputs: tuple[str, ...]) -> list[StraightLineCode]:
    return [trace_output(name, subject) for name in outputs]


def _source(subject: Subject, codes: list[StraightLineCode]) -> bytes:
    heading = f'Dynamics of robot {subject.tree.name!r}, from {subject.formulation_name}.'
    return module_source(codes, heading).encode()
