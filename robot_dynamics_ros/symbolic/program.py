# SPDX-License-Identifier: Apache-2.0
"""A traced kernel as a list of operations, and how many they are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.symbolic.folding import Operand
from robot_dynamics_ros.symbolic.outputs import Subject, known_output
from robot_dynamics_ros.symbolic.trace import Trace, Traced, reachable


@dataclass(frozen=True)
class Program:
    """Straight-line code: no loops, no branches, nothing computed twice or for nothing.

    Attributes:
        name: What it computes.
        inputs: Names of the inputs.
        sizes: Their lengths.
        results: Name, shape and elements (flat, traced scalars or numbers) of every result.
        scalars: What the results depend on, operands first.
    """

    name: str
    inputs: tuple[str, ...]
    sizes: tuple[int, ...]
    results: tuple[tuple[str, tuple[int, ...], tuple[Operand, ...]], ...]
    scalars: tuple[Traced, ...]

    def operations(self) -> Counter[str]:
        """Return how often each operation occurs."""
        counts = Counter(scalar.operation for scalar in self.scalars)
        del counts['input'], counts['constant']
        return counts


def trace_program(name: str, subject: Subject) -> Program:
    """Trace a kernel of a robot, its constants folded in; the shorter of two forms.

    Args:
        name: What to compute, a key of ``OUTPUTS``.
        subject: Robot, formulation and frame.

    Raises:
        UnknownNameError: There is no such output; lists those that exist.
    """
    forms = [_trace(name, subject, gather_factors) for gather_factors in (False, True)]
    return min(forms, key=lambda program: program.operations().total())


def _trace(name: str, subject: Subject, gather_factors: bool) -> Program:
    output, trace, n = known_output(name), Trace(gather_factors), subject.n
    inputs = [trace.inputs(argument, n) for argument in output.inputs]
    computed = output.compute(subject, *inputs)
    results = tuple(
        (result, shape, tuple(_operand(x) for x in np.asarray(value).ravel()))
        for (result, _), shape, value in zip(
            output.results, output.shapes(n), computed, strict=True
        )
    )
    scalars = reachable(x for _, _, elements in results for x in elements)
    sizes = (n,) * len(output.inputs)
    return Program(name, output.inputs, sizes, results, tuple(scalars))


def _operand(x: Operand) -> Operand:
    return x if isinstance(x, Traced) else float(x)
