# SPDX-License-Identifier: Apache-2.0
"""What generated code depends on, as one short name."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np

from robot_dynamics_ros.symbolic.outputs import Subject

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
    arrays = [getattr(subject.tree, name) for name in _CONSTANTS]
    if subject.tree.coupling is not None:
        arrays += [subject.tree.coupling.rate, subject.tree.coupling.offset]
    if subject.mechanism is not None:
        arrays += [subject.joint_rates(), subject.mechanism.drive]
        arrays += [subject.mechanism.positions(np.zeros(subject.n))]
    if 'frame_motion' in outputs:
        frame = subject.frame
        arrays += [frame.body, frame.R_BF, frame.p_BF]
    for array in arrays:
        numbers = np.asarray(array, dtype=float)
        digest.update(repr(numbers.shape).encode() + numbers.tobytes())
    return digest.hexdigest()[:24]


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
