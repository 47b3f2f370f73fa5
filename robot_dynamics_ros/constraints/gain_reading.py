# SPDX-License-Identifier: Apache-2.0
"""Gains as a program file writes them: frequency and damping, or matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.constraints.error_dynamics import (
    gains_from_frequency,
    roots,
    stabilizing,
)
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.stabilization import gain_matrix
from robot_dynamics_ros.errors import ProgramError
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader import Section, blaming


def constraint_gains(section: Section, m: int) -> tuple[Array, Array]:
    """Take G0 and G1, or natural_frequency and damping_ratio (10 rad/s and 1 if silent).

    Raises:
        ProgramError: A value is wrong or of the wrong size.
    """
    if 'G0' in section or 'G1' in section:
        return matrix_gains(section, m)
    frequency = section.take(
        'natural_frequency', lambda p, x: per_row(p, x, m, read.positive), np.full(m, 10.0)
    )
    ratio = section.take('damping_ratio', lambda p, x: per_row(p, x, m, read.positive), np.ones(m))
    return gains_from_frequency(frequency, ratio)


def matrix_gains(section: Section, m: int) -> tuple[Array, Array]:
    """Take G0 and G1: each a number, m numbers, or m rows of m numbers.

    Raises:
        ProgramError: One is missing, wrong or of the wrong size.
    """
    return (
        section.take('G0', lambda p, x: _gain(p, x, m)),
        section.take('G1', lambda p, x: _gain(p, x, m)),
    )


def per_row(place: str, value: Any, m: int, check: Callable[[str, Any], float]) -> Array:
    """Return one number per row from one for all, or m of them."""
    if not isinstance(value, list):
        return np.full(m, check(place, value))
    if len(value) != m:
        raise ProgramError(place, f'has {len(value)} numbers', f'give one, or {m}, one per row')
    return np.array([check(place, x) for x in value])


def _gain(place: str, value: Any, m: int) -> Array:
    given: Any = read.number(place, value) if not isinstance(value, list) else None
    if given is None:
        matrix = isinstance(value[0] if value else None, list)
        given = read.rows(place, value) if matrix else read.numbers(place, value)
    with blaming(place):
        return gain_matrix(place.rpartition(', ')[2], given, m)


def block_diagonal(blocks: list[Array]) -> Array:
    """Return square blocks along the diagonal of a new matrix."""
    size = sum(len(block) for block in blocks)
    matrix, first = np.zeros((size, size)), 0
    for block in blocks:
        last = first + len(block)
        matrix[first:last, first:last] = block
        first = last
    return matrix


def require_stabilizing(program: Program) -> None:
    """Refuse gains with a root of (3.5) that does not decay.

    Raises:
        ProgramError: Names the constraint and the root.
    """
    for part, rows in program.stack.slices().items():
        G0, G1 = program.G0[rows, rows], program.G1[rows, rows]
        if not stabilizing(G0, G1) and stabilizing(program.G0, program.G1):
            continue
        if not stabilizing(G0, G1):
            raise _unstable(f'gains of constraint {part!r}', G0, G1)
    if not stabilizing(program.G0, program.G1):
        raise _unstable(f'gains of program {program.name!r}', program.G0, program.G1)


def _unstable(culprit: str, G0: Array, G1: Array) -> ProgramError:
    worst = roots(G0, G1)[0]
    return ProgramError(
        culprit,
        f'do not stabilize: a root of det(s^2 E + s G1 + G0) is at {worst:.4g} 1/s',
        'all roots must have a negative real part; symmetric positive definite gains do it',
    )
