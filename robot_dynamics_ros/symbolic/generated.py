# SPDX-License-Identifier: Apache-2.0
"""Generated code of one robot, from the cache or made."""

from __future__ import annotations

import re

from robot_dynamics_ros.symbolic import cache
from robot_dynamics_ros.symbolic.fingerprint import fingerprint
from robot_dynamics_ros.symbolic.outputs import Subject
from robot_dynamics_ros.symbolic.program import Program, trace_program
from robot_dynamics_ros.symbolic.python_source import module_source


def generated_source(subject: Subject, outputs: tuple[str, ...]) -> str:
    """Return the Python source of kernels; see :func:`python_source.module_source`."""
    name = _file_name(subject, outputs, '') + '.py'
    found = cache.load(name)
    if found is not None:
        return found.decode()
    return _store_source(name, subject, _trace(subject, outputs))


def generated_machine_code(subject: Subject, outputs: tuple[str, ...]) -> bytes:
    """Return the object file of kernels for this machine; keeps the Python source as well.

    Raises:
        ImportError: llvmlite is not installed.
        RuntimeError: LLVM refuses.
    """
    from robot_dynamics_ros.symbolic.native.code import compile_programs, machine

    name = _file_name(subject, outputs, machine()) + '.o'
    found = cache.load(name)
    if found is not None:
        return found
    programs = _trace(subject, outputs)
    _store_source(_file_name(subject, outputs, '') + '.py', subject, programs)
    code = compile_programs(programs)
    cache.store(name, code)
    return code


def _file_name(subject: Subject, outputs: tuple[str, ...], machine: str) -> str:
    robot = re.sub(r'\W+', '_', subject.tree.name)
    return f'{robot}-{subject.formulation_name}-{fingerprint(subject, outputs, machine)}'


def _trace(subject: Subject, outputs: tuple[str, ...]) -> list[Program]:
    return [trace_program(name, subject) for name in outputs]


def _store_source(name: str, subject: Subject, programs: list[Program]) -> str:
    heading = f'Dynamics of robot {subject.tree.name!r}, from {subject.formulation_name}.'
    source = module_source(programs, heading)
    cache.store(name, source.encode())
    return source
