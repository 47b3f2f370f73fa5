# SPDX-License-Identifier: Apache-2.0
"""Operation counts of a formulation for a robot, before and after constant folding."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from operator import add, mul, sub, truediv
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.spatial.scalar import Array, operators
from robot_dynamics_ros.symbolic.outputs import Subject, known_output, trace_output


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
    def of(cls, counts: Mapping[str, int]) -> Operations:
        """Group the counts of the operation names of a trace."""
        return cls(
            counts.get('mul', 0),
            counts.get('add', 0) + counts.get('sub', 0),
            counts.get('div', 0) + counts.get('sqrt', 0),
            counts.get('sin', 0) + counts.get('cos', 0),
        )


class OperationCounts(NamedTuple):
    """Operations of the recursion as written, and of the code generated for one robot."""

    before: Operations
    after: Operations


def operation_counts(
    tree: RobotTree, formulation: str, output: str = 'inverse_dynamics'
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
    """
    subject = Subject(tree, formulation, tree.link_names[-1])
    if subject.formulation.numbers_only:
        raise ParameterError('formulation', formulation, 'its operations cannot be counted')
    if output == 'derivatives':
        raise ParameterError('output', output, 'only traced code computes it; count another one')
    after = Operations.of(trace_output(output, subject).operations())
    return OperationCounts(_executed_operations(tree, formulation, output), after)


def placement_operations(tree: RobotTree) -> Operations:
    """Count the operations that compute the rotations and origins of all joints once."""
    tally: Counter[str] = Counter()
    counted, (q,) = _counted_robot(tree, tally), _counted_states(tree, tally, 1)
    for i in range(tree.n):
        counted.placement(i, q[i])
    return Operations.of(tally)


def _executed_operations(tree: RobotTree, formulation: str, output: str) -> Operations:
    tally: Counter[str] = Counter()
    subject = Subject(_counted_robot(tree, tally), formulation, tree.link_names[-1])
    kind = known_output(output)
    inputs = _counted_states(tree, tally, len(kind.inputs))
    tally.clear()
    kind.compute(subject, *inputs)
    return Operations.of(tally)


def _counted_robot(tree: RobotTree, tally: Counter[str]) -> RobotTree:
    constants = ('axis', 'R_PJ', 'p_PJ', 'mass', 'com', 'inertia', 'gravity')
    return tree.with_changes(**{name: _counted(getattr(tree, name), tally) for name in constants})


def _counted_states(tree: RobotTree, tally: Counter[str], count: int) -> list[Array]:
    return [_counted(np.linspace(0.1, 0.9, tree.n), tally) for _ in range(count)]


def _counted(values: Array, tally: Counter[str]) -> Array:
    array = np.array(values, dtype=object)
    for index, value in np.ndenumerate(values):
        array[index] = Counted(float(value), tally)
    return array


def _counting(name: str, function: Callable[[float, float], float]) -> Callable[[Any, Any], Any]:
    """Return the rule of an operator of :class:`Counted`."""

    def rule(x: Any, y: Any) -> Any:
        counted = x if isinstance(x, Counted) else y
        numbers = (z.value if isinstance(z, Counted) else z for z in (x, y))
        return counted.record(name, function(*numbers))

    return rule


class Counted:
    """A number that counts the operations performed on it.

    Args:
        value: The number.
        tally: Counter of operations by name, updated in place.
    """

    __slots__ = ('tally', 'value')

    def __init__(self, value: float, tally: Counter[str]) -> None:
        self.value, self.tally = value, tally

    __add__, __radd__ = operators(_counting('add', add), int, float)
    __sub__, __rsub__ = operators(_counting('sub', sub), int, float)
    __mul__, __rmul__ = operators(_counting('mul', mul), int, float)
    __truediv__, __rtruediv__ = operators(_counting('div', truediv), int, float)

    def __neg__(self) -> Counted:
        return Counted(-self.value, self.tally)

    def __pow__(self, exponent: int) -> Counted:
        result = self
        for _ in range(exponent - 1):
            result = result * self
        return result

    def cos(self) -> Counted:
        """Return the cosine."""
        return self.record('cos', math.cos(self.value))

    def sin(self) -> Counted:
        """Return the sine."""
        return self.record('sin', math.sin(self.value))

    def sqrt(self) -> Counted:
        """Return the square root."""
        return self.record('sqrt', math.sqrt(self.value))

    def record(self, operation: str, value: float) -> Counted:
        """Count an operation and return its result."""
        self.tally[operation] += 1
        return Counted(value, self.tally)
