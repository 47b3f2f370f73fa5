# SPDX-License-Identifier: Apache-2.0
"""Scalars that record the arithmetic done on them, each distinct value once.

A recursion run on :class:`Traced` scalars leaves behind the operations that one robot needs:
products with 0 and 1 and sums with 0 vanish, operations on numbers are done at once, ``x - x`` is
0, and a value computed twice is stored once. numpy holds the scalars in object arrays and knows
nothing of them. A result that does not depend on any input is a plain number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic import folding
from robot_dynamics_ros.symbolic.folding import NUMBERS, Operand


class Trace:
    """The operations recorded by the scalars of one recursion.

    Args:
        gather_factors: Write ``(2 x) (3 y)`` as ``6 (x y)`` instead of leaving numbers where they
            occur. Which of the two needs fewer operations depends on the robot.
    """

    def __init__(self, gather_factors: bool = False) -> None:
        self.gather_factors = gather_factors
        self._nodes: dict[tuple[Any, ...], Traced] = {}

    def inputs(self, name: str, size: int) -> Array:
        """Return the elements of an input vector, new array of shape (size,), dtype object."""
        return np.array([self.node('input', name, i) for i in range(size)], dtype=object)

    def constant(self, value: float) -> Traced:
        """Return the scalar that stands for a number."""
        return self.node('constant', float(value))

    def node(self, operation: str, *operands: Any) -> Traced:
        """Return the one scalar that stands for an operation on operands."""
        if operation in ('add', 'mul') and operands[0].order > operands[1].order:
            operands = operands[::-1]
        key = (operation, *operands)
        known = self._nodes.get(key)
        if known is None:
            known = self._nodes[key] = Traced(self, operation, operands, len(self._nodes))
        return known


class Traced:
    """A scalar of a recursion under trace.

    Attributes:
        trace: Where it is recorded.
        operation: One of ``OPERATIONS``.
        operands: Traced scalars; of an input its name and index; of a constant its value.
        order: Position in the trace; operands come before.
    """

    __slots__ = ('operands', 'operation', 'order', 'trace')

    def __init__(
        self, trace: Trace, operation: str, operands: tuple[Any, ...], order: int
    ) -> None:
        self.trace, self.operation, self.operands = trace, operation, operands
        self.order = order

    def __add__(self, other: Any) -> Any:
        return _apply(folding.total, self, other)

    def __radd__(self, other: Any) -> Any:
        return _apply(folding.total, other, self)

    def __sub__(self, other: Any) -> Any:
        return _apply(folding.difference, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _apply(folding.difference, other, self)

    def __mul__(self, other: Any) -> Any:
        return _apply(folding.product, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _apply(folding.product, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _apply(folding.quotient, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _apply(folding.quotient, other, self)

    def __neg__(self) -> Operand:
        return folding.negative(self)

    def __pos__(self) -> Traced:
        return self

    def __pow__(self, exponent: Any) -> Operand:
        """Return a power: a whole one by products, 1/2 by the square root."""
        if exponent == 0.5:
            return self.sqrt()
        if not isinstance(exponent, NUMBERS) or exponent != int(exponent):
            raise TypeError(f'no power {exponent!r} of a traced scalar; use products and sqrt')
        result: Operand = 1
        for _ in range(abs(int(exponent))):
            result = folding.product(result, self)
        return result if exponent >= 0 else folding.quotient(1, result)

    def cos(self) -> Operand:
        """Return the cosine."""
        return folding.even('cos', self)

    def sin(self) -> Operand:
        """Return the sine."""
        return folding.odd('sin', self)

    def tanh(self) -> Operand:
        """Return the hyperbolic tangent."""
        return folding.odd('tanh', self)

    def sqrt(self) -> Operand:
        """Return the square root."""
        return self.trace.node('sqrt', self)

    @staticmethod
    def select(a: Operand, b: Operand, x: Operand, y: Operand) -> Operand:
        """Return x where a < b, y where a >= b, else NaN; see :func:`scalar.select`."""
        return folding.selection(a, b, x, y)

    def __bool__(self) -> bool:
        raise TypeError('no branch on a traced scalar; use select, minimum or maximum')

    def __lt__(self, other: Any) -> bool:
        raise TypeError('no comparison of a traced scalar; use select, minimum or maximum')

    __gt__ = __le__ = __ge__ = __lt__

    def __repr__(self) -> str:
        return f'<traced {self.operation} {self.order}>'


#: What a traced scalar may stand for.
OPERATIONS = (
    'input',
    'constant',
    'neg',
    'add',
    'sub',
    'mul',
    'div',
    'cos',
    'sin',
    'sqrt',
    'tanh',
    'select',
)


def _apply(rule: Callable[[Operand, Operand], Operand], x: Any, y: Any) -> Any:
    """Apply a rule to scalars; leave anything else, arrays above all, to numpy."""
    for operand in (x, y):
        if not isinstance(operand, (Traced, *NUMBERS)):
            return NotImplemented
    return rule(x, y)


def reachable(results: Iterable[Operand]) -> list[Traced]:
    """Return the scalars that results depend on, operands first; what nobody needs is gone."""
    seen: set[Traced] = set()
    waiting = [result for result in results if isinstance(result, Traced)]
    while waiting:
        scalar = waiting.pop()
        if scalar not in seen:
            seen.add(scalar)
            waiting.extend(x for x in scalar.operands if isinstance(x, Traced))
    return sorted(seen, key=lambda scalar: scalar.order)
