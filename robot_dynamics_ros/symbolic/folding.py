# SPDX-License-Identifier: Apache-2.0
"""The rules by which recorded arithmetic folds; an operand is a traced scalar or a number.

Canonical form: a sign stands outside of products, the number in a product is positive, and of
``a - b`` and ``b - a`` only one is kept inside products. So equal values meet as one scalar.
"""

from __future__ import annotations

from typing import Any

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


def even(function: str, x: Any) -> Operand:
    """Return f(x) of an even function, f(-x) = f(x)."""
    return x.trace.node(function, x.operands[0] if x.operation == 'neg' else x)


def odd(function: str, x: Any) -> Operand:
    """Return f(x) of an odd function, f(-x) = -f(x)."""
    if x.operation == 'neg':
        return negative(x.trace.node(function, x.operands[0]))
    return x.trace.node(function, x)


def selection(a: Operand, b: Operand, x: Operand, y: Operand) -> Operand:
    """Return x where a < b, y where a >= b, NaN elsewhere; one of a and b is traced."""
    trace = b.trace if isinstance(a, NUMBERS) else a.trace
    operands = (trace.constant(o) if isinstance(o, NUMBERS) else o for o in (a, b, x, y))
    return trace.node('select', *operands)


def _scaled(factor: float, x: Any) -> Operand:
    """Return a number times x, merged with the number that is in x already."""
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
    """Return x as a number and what it multiplies."""
    if x.operation == 'mul':
        for number, base in (x.operands, x.operands[::-1]):
            if number.operation == 'constant':
                return number.operands[0], base
    return 1, x


def _shifted(x: Any, number: float) -> Operand:
    """Return x plus a number, merged with a number that is added in x already."""
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
    """Return x - y where it is 0 or one of them is a term of the other; else None."""
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
