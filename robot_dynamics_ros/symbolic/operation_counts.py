# SPDX-License-Identifier: Apache-2.0
"""Operation counts of a formulation for a robot, before and after constant folding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import operators
from robot_dynamics_ros.symbolic.outputs import (
    CONSTANTS,
    KernelSpec,
    known_output,
    trace_output,
)


class Operations(NamedTuple):
    """Operation counts by kind.

    Attributes:
        multiplications: Products of two numbers.
        additions: Sums and differences.
        divisions: Quotients and square roots.
        trigonometric: Sines and cosines, counted separately.
    """

    multiplications: int
    additions: int
    divisions: int
    trigonometric: int

    @property
    def total(self) -> int:
        """Total count; negations are not counted."""
        return sum(self)

    @classmethod
    def of(cls, counts: Counter[str]) -> Operations:
        """Group the counts of the operation names of a trace."""
        kinds = (('mul',), ('add', 'sub'), ('div', 'sqrt'), ('sin', 'cos'))
        return cls(*(sum(counts[name] for name in names) for names in kinds))


class OperationCounts(NamedTuple):
    """Operations of the recursion as written, and of the code generated for one robot."""

    before: Operations
    after: Operations


def operation_counts(
    tree: Robot, formulation: str, output: str = 'inverse_dynamics'
) -> OperationCounts:
    """Count the operations of a formulation on a robot.

    The count before folding is of all operations that the recursion executes on numbers of the
    robot or its state, with dense matrix products and recomputed joint rotations. The count after
    folding is of the generated code.

    Args:
        tree: The robot.
        formulation: Name of a formulation that runs on symbols.
        output: A key of ``OUTPUTS`` except 'derivatives', which only traced code computes.

    Raises:
        UnknownNameError: A formulation or output does not exist; the message lists the known ones.
        ParameterError: The formulation computes on numbers only, in a library whose operations
            cannot be counted, or the output is 'derivatives'.
        MechanismError: Loops are solved by iteration.
    """
    tree.require_closed_form('a count of operations could not contain')
    spec = KernelSpec(tree, formulation, tree.link_names[-1])
    if spec.formulation.numbers_only:
        raise ParameterError('formulation', formulation, 'its operations cannot be counted')
    if output == 'derivatives':
        raise ParameterError('output', output, 'only traced code computes it; count another one')
    after = Operations.of(trace_output(output, spec).operations())
    counted = Counted(Counter())
    spec = KernelSpec(counted_robot(tree, counted), formulation, tree.link_names[-1])
    kind = known_output(output)
    counted.tally.clear()
    kind.compute(spec, *(np.full(tree.n, counted) for _ in kind.inputs))
    return OperationCounts(Operations.of(counted.tally), after)


def counted_robot(tree: Robot, counted: Counted) -> Robot:
    """Return the robot with a counted number in place of each of its constants."""
    arrays = {name: np.full(getattr(tree, name).shape, counted) for name in CONSTANTS}
    return tree.with_changes(**arrays)


def _counting(name: str) -> Callable[..., Counted]:
    """Return an operation of :class:`Counted`, which has no value and stands for all numbers."""

    def operation(*operands: Any) -> Counted:
        """Count the operation."""
        counted: Counted = next(x for x in operands if isinstance(x, Counted))
        counted.tally[name] += 1
        return counted

    return operation


class Counted:
    """Any number of a recursion; the operations on it are counted.

    Args:
        tally: Counter of operations by name, updated in place.
    """

    __slots__ = ('tally',)

    def __init__(self, tally: Counter[str]) -> None:
        self.tally = tally

    __add__, __radd__ = operators(_counting('add'), int, float)
    __sub__, __rsub__ = operators(_counting('sub'), int, float)
    __mul__, __rmul__ = operators(_counting('mul'), int, float)
    __truediv__, __rtruediv__ = operators(_counting('div'), int, float)
    sin, cos, sqrt = (_counting(name) for name in ('sin', 'cos', 'sqrt'))

    def __neg__(self) -> Counted:
        return self

    def __pow__(self, exponent: int) -> Counted:
        for _ in range(exponent - 1):
            self * self
        return self
