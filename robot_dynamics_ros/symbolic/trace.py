# SPDX-License-Identifier: Apache-2.0
"""Tracing scalars: arithmetic is recorded, with constant folding and common subexpressions shared.

A recursion run on :class:`Traced` scalars records the operations that one robot needs: products
with 0 and 1 and sums with 0 are eliminated, operations on numbers are evaluated immediately,
``x - x`` is 0, and a value that is computed twice is recorded once. The scalars are elements of
numpy object arrays. A result that does not depend on any input is a plain number.

The folding rules are functions of operands, which are traced scalars or numbers. They produce a
canonical form, in which equal values are the same scalar: signs are outside of products, the
number in a product is positive, and only one of ``a - b`` and ``b - a`` occurs in products.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array, operators

Operand = Any  # a Traced scalar or a real number

NUMBERS = (int, float)


def negative(x: Operand) -> Operand:
    """Return -x."""
    if isinstance(x, NUMBERS):
        return -x
    if x.operation == 'neg':
        return x.operands[0]
    if x.operation == 'sub':
        return x.trace.node('sub', x.operands[1], x.operands[0])
    return x.trace.node('neg', x)


def total(x: Operand, y: Operand) -> Operand:
    """Return x + y."""
    if isinstance(x, NUMBERS):
        return x + y if isinstance(y, NUMBERS) else _shifted(y, x)
    if isinstance(y, NUMBERS):
        return _shifted(x, y)
    if y.operation == 'neg':
        return difference(x, y.operands[0])
    if x.operation == 'neg':
        return difference(y, x.operands[0])
    for a, b in ((x, y), (y, x)):
        if a.operation == 'sub' and a.operands[1] is b:
            return a.operands[0]
    (factor_x, base_x), (factor_y, base_y) = _factored(x), _factored(y)
    if base_x is base_y:
        return _scaled(factor_x + factor_y, base_x)
    return x.trace.node('add', x, y)


def difference(x: Operand, y: Operand) -> Operand:
    """Return x - y."""
    if isinstance(x, NUMBERS) or isinstance(y, NUMBERS):
        return total(x, negative(y))
    if y.operation == 'neg':
        return total(x, y.operands[0])
    if x.operation == 'neg':
        return negative(total(x.operands[0], y))
    cancelled = _cancelled(x, y)
    if cancelled is not None:
        return cancelled
    (factor_x, base_x), (factor_y, base_y) = _factored(x), _factored(y)
    if base_x is base_y:
        return _scaled(factor_x - factor_y, base_x)
    return x.trace.node('sub', x, y)


def product(x: Operand, y: Operand) -> Operand:
    """Return x y."""
    if isinstance(x, NUMBERS):
        return x * y if isinstance(y, NUMBERS) else _scaled(x, y)
    if isinstance(y, NUMBERS):
        return _scaled(y, x)
    for a, b in ((x, y), (y, x)):
        if a.operation == 'neg':
            return negative(product(a.operands[0], b))
        if a.operation == 'sub' and a.operands[0].order < a.operands[1].order:
            return negative(product(negative(a), b))
    if x.trace.gather_factors:
        (factor_x, base_x), (factor_y, base_y) = _factored(x), _factored(y)
        if factor_x * factor_y != 1:
            return _scaled(factor_x * factor_y, product(base_x, base_y))
    return x.trace.node('mul', x, y)


def quotient(x: Operand, y: Operand) -> Operand:
    """Return x / y."""
    if isinstance(y, NUMBERS):
        return x / y if isinstance(x, NUMBERS) else _scaled(1 / y, x)
    if isinstance(x, NUMBERS):
        if x == 0:
            return 0
        x = y.trace.constant(x)
    if x is y:
        return 1
    if x.operation == 'neg':
        return negative(quotient(x.operands[0], y))
    if y.operation == 'neg':
        return negative(quotient(x, y.operands[0]))
    return x.trace.node('div', x, y)


def odd(function: str, x: Any) -> Operand:
    """Return f(x) for an odd function, f(-x) = -f(x)."""
    if x.operation == 'neg':
        return negative(x.trace.node(function, x.operands[0]))
    return x.trace.node(function, x)


def _scaled(factor: float, x: Any) -> Operand:
    """Return a number times x, merged with the numeric factor of x."""
    if factor == 0:
        return 0
    if factor == 1:
        return x
    if factor < 0:
        return negative(_scaled(-factor, x))
    if x.operation == 'neg':
        return negative(_scaled(factor, x.operands[0]))
    inner, base = _factored(x)
    if inner != 1:
        return _scaled(factor * inner, base)
    return x.trace.node('mul', x.trace.constant(factor), x)


def _factored(x: Any) -> tuple[float, Any]:
    """Return the numeric factor of x and the remaining factor."""
    if x.operation == 'mul':
        for number, base in (x.operands, x.operands[::-1]):
            if number.operation == 'constant':
                return number.operands[0], base
    return 1, x


def _shifted(x: Any, number: float) -> Operand:
    """Return x plus a number, merged with the numeric term of x."""
    if number == 0:
        return x
    trace = x.trace
    if x.operation == 'neg':
        return trace.node('sub', trace.constant(number), x.operands[0])
    if x.operation in ('add', 'sub'):
        a, b = x.operands
        sign = 1 if x.operation == 'add' else -1
        if a.operation == 'constant':
            return total(product(sign, b), a.operands[0] + number)
        if b.operation == 'constant':
            return total(a, sign * b.operands[0] + number)
    return trace.node('add', trace.constant(number), x)


def _cancelled(x: Any, y: Any) -> Operand | None:
    """Return x - y if it is 0 or if one of them is a term of the other; otherwise None."""
    if x is y:
        return 0
    if x.operation == 'add' and y in x.operands:
        return x.operands[1] if x.operands[0] is y else x.operands[0]
    if x.operation == 'sub' and x.operands[0] is y:
        return negative(x.operands[1])
    if y.operation == 'add' and x in y.operands:
        return negative(y.operands[1] if y.operands[0] is x else y.operands[0])
    if y.operation == 'sub' and y.operands[0] is x:
        return y.operands[1]
    return None


class Trace:
    """The operations recorded by the scalars of one recursion.

    Args:
        gather_factors: Whether to record ``(2 x) (3 y)`` as ``6 (x y)`` instead of keeping numbers
            where they occur. Which form needs fewer operations depends on the robot.
    """

    def __init__(self, gather_factors: bool = False) -> None:
        self.gather_factors = gather_factors
        self._nodes: dict[tuple[Any, ...], Traced] = {}

    def inputs(self, name: str, size: int) -> Array:
        """Return the elements of an input vector, new array of shape (size,), dtype object."""
        return np.array([self.node('input', name, i) for i in range(size)], dtype=object)

    def symbol(self, name: str) -> Traced:
        """Return the scalar that represents a named input."""
        return self.node('input', name, 0)

    def constant(self, value: float) -> Traced:
        """Return the scalar that represents a number."""
        return self.node('constant', float(value))

    def node(self, operation: str, *operands: Any) -> Traced:
        """Return the unique scalar that represents an operation on operands."""
        if operation in ('add', 'mul') and operands[0].order > operands[1].order:
            operands = operands[::-1]
        key = (operation, *operands)
        scalar = self._nodes.get(key)
        if scalar is None:
            scalar = self._nodes[key] = Traced(self, operation, operands, len(self._nodes))
        return scalar


class Traced:
    """A scalar of a traced recursion.

    Attributes:
        trace: The trace that records it.
        operation: 'input', 'constant', 'neg', 'add', 'sub', 'mul', 'div', 'cos', 'sin', 'sqrt',
            'tanh' or 'select'.
        operands: Traced scalars; name and index of an input; value of a constant.
        order: Position in the trace, after all operands.
    """

    __slots__ = ('operands', 'operation', 'order', 'trace')

    def __init__(
        self, trace: Trace, operation: str, operands: tuple[Any, ...], order: int
    ) -> None:
        self.trace, self.operation, self.operands = trace, operation, operands
        self.order = order

    __add__, __radd__ = operators(total, *NUMBERS)
    __sub__, __rsub__ = operators(difference, *NUMBERS)
    __mul__, __rmul__ = operators(product, *NUMBERS)
    __truediv__, __rtruediv__ = operators(quotient, *NUMBERS)

    def __neg__(self) -> Operand:
        return negative(self)

    def __pos__(self) -> Traced:
        return self

    def __pow__(self, exponent: Any) -> Operand:
        """Return an integer power as products, or the power 1/2 as the square root."""
        if exponent == 0.5:
            return self.sqrt()
        if not isinstance(exponent, NUMBERS) or exponent != int(exponent):
            raise TypeError(f'no power {exponent!r} of a traced scalar; use products and sqrt')
        result: Operand = 1
        for _ in range(abs(int(exponent))):
            result = product(result, self)
        return result if exponent >= 0 else quotient(1, result)

    def cos(self) -> Operand:
        """Return the cosine."""
        return self.trace.node('cos', self.operands[0] if self.operation == 'neg' else self)

    def sin(self) -> Operand:
        """Return the sine."""
        return odd('sin', self)

    def tanh(self) -> Operand:
        """Return the hyperbolic tangent."""
        return odd('tanh', self)

    def sqrt(self) -> Operand:
        """Return the square root."""
        return self.trace.node('sqrt', self)

    @staticmethod
    def select(a: Operand, b: Operand, x: Operand, y: Operand) -> Operand:
        """Return x if a < b, y if a >= b, otherwise NaN; a or b must be traced."""
        trace: Trace = b.trace if isinstance(a, NUMBERS) else a.trace
        operands = (trace.constant(o) if isinstance(o, NUMBERS) else o for o in (a, b, x, y))
        return trace.node('select', *operands)

    def __bool__(self) -> bool:
        raise TypeError('no branch on a traced scalar; use select, minimum or maximum')

    def __lt__(self, other: Any) -> bool:
        raise TypeError('no comparison of a traced scalar; use select, minimum or maximum')

    __gt__ = __le__ = __ge__ = __lt__

    def __repr__(self) -> str:
        return f'<traced {self.operation} {self.order}>'


def reachable(results: Iterable[Operand]) -> list[Traced]:
    """Return the scalars that results depend on, operands first; dead code is dropped."""
    seen: set[Traced] = set()
    pending = [result for result in results if isinstance(result, Traced)]
    while pending:
        scalar = pending.pop()
        if scalar not in seen:
            seen.add(scalar)
            pending.extend(x for x in scalar.operands if isinstance(x, Traced))
    return sorted(seen, key=lambda scalar: scalar.order)
