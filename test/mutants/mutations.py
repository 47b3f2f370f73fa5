# SPDX-License-Identifier: Apache-2.0
"""Small faults for source code: what can be changed in a module, and a choice of it by seed."""

import ast
import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

OPERATORS = ('sign', 'index', 'factor', 'comparison', 'dropped term', 'missing reset', 'swapped')
_PAIRS = (
    (ast.Add, ast.Sub),
    (ast.Mult, ast.Div),
    (ast.FloorDiv, ast.Mult),
    (ast.Eq, ast.NotEq),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
    (ast.Lt, ast.GtE),
    (ast.Gt, ast.LtE),
    (ast.And, ast.Or),
)
_OTHER = {b: a for a, b in _PAIRS} | dict(_PAIRS)
# Where integers are compared, the bound itself is the likelier mistake.
_NEIGHBOURS = ((ast.Lt, ast.LtE), (ast.Gt, ast.GtE))
_NEIGHBOUR = _OTHER | {b: a for a, b in _NEIGHBOURS} | dict(_NEIGHBOURS)
_BOUNDS = {'min', 'max', 'minimum', 'maximum', 'clip', 'abs'}
# Calls whose arguments commute, or whose exchange any first call reveals.
_SYMMETRIC = {'add', 'multiply', 'isclose', 'allclose', 'hypot', 'isinstance', 'zip', 'map'}
_LOGGING = {'debug', 'info', 'warning', 'warn', 'error', 'exception', 'critical', 'log'}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_INDICES = (ast.Tuple, ast.Slice, ast.UnaryOp, ast.BinOp)
_TEXT = (ast.JoinedStr, ast.List, ast.ListComp, ast.Tuple)
_APART = (ast.JoinedStr, ast.Raise, ast.Assert, ast.pattern)
_DECLARATIONS = {'annotation', 'returns', 'decorator_list', 'type_params', 'bases'}


class Mutant(NamedTuple):
    """One change of one file.

    ``line`` begins the statement, ``scope`` is the function around it, empty for code that runs at
    import; ``start`` and ``end`` are offsets in bytes.
    """

    file: str
    line: int
    scope: str
    operator: str
    before: str
    after: str
    start: int
    end: int

    def apply(self, source: bytes) -> bytes:
        """Return the changed source."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def mutants(file: str, source: bytes) -> list[Mutant]:
    """Return every possible mutant of a module, in the order of its text."""
    offsets, found = line_offsets(source), []
    for node, line, scope, operator, changed in _walk(ast.parse(source), 0, '', False):
        after = f'({ast.unparse(changed)})' if isinstance(changed, ast.expr) else None
        after = after or ast.unparse(changed)
        start = offsets[node.lineno - 1] + node.col_offset
        end = offsets[node.end_lineno - 1] + node.end_col_offset
        if ast.dump(changed) != ast.dump(node):
            before = ast.unparse(node)
            found.append(Mutant(file, line, scope, operator, before, after, start, end))
    return sorted(found, key=lambda mutant: (mutant.start, mutant.end, mutant.after))


def line_offsets(source: bytes) -> list[int]:
    """Return the offset in bytes of every line."""
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    return offsets


def choose(root: Path, files: list[str], count: int, seed: str) -> list[Mutant]:
    """Choose mutants: spread over the files in proportion to their statements, operators in turn.

    Args:
        root: Folder of the source tree.
        files: Modules relative to it.
        count: Number of mutants, at most one for each statement.
        seed: The same seed, files and count give the same mutants.
    """
    draw, turns, possible = random.Random(seed), [], {}
    for file in sorted(files):
        source = (root / file).read_bytes()
        if found := mutants(file, source):
            possible[file] = found
            turns += [file] * sum(isinstance(n, ast.stmt) for n in ast.walk(ast.parse(source)))
    operators = draw.sample(OPERATORS, len(OPERATORS))
    offset, chosen = draw.random(), []
    for k in range(count):
        place = int((k + offset) / count * len(turns))
        for file in dict.fromkeys(turns[place:] + turns[:place]):
            kinds = [name for name in operators if any(m.operator == name for m in possible[file])]
            if kinds:
                chosen.append(draw.choice([m for m in possible[file] if m.operator == kinds[0]]))
                possible[file] = [m for m in possible[file] if m.line != chosen[-1].line]
                operators.remove(kinds[0])
                operators.append(kinds[0])
                break
    return chosen


def _walk(node: Any, line: int, scope: str, indexing: bool) -> Iterator[tuple]:
    """Yield nodes with the line of their statement, their function, operator and changed node."""
    if _excluded(node, scope):
        return
    if isinstance(node, ast.stmt):
        line = node.lineno
    for operator, changed in _changes(node, scope, indexing):
        yield node, line, scope, operator, changed
    name = f'{scope}.{getattr(node, "name", "lambda")}'.strip('.')
    indexing = indexing and isinstance(node, _INDICES)
    for field, value in ast.iter_fields(node):
        if field not in _DECLARATIONS:
            inner = name if field == 'body' and isinstance(node, _FUNCTIONS) else scope
            index = field == 'slice' or _name(node) == 'range' or indexing
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _walk(child, line, inner, index)


def _excluded(node: Any, scope: str) -> bool:
    """Whether a node and what it contains is for people or type checkers, or is a pattern."""
    match node:
        case ast.Assign([ast.Name('__all__')]) | ast.FunctionDef('__repr__' | '__str__'):
            return True
        case ast.If(test):
            return ast.unparse(test) in ('TYPE_CHECKING', "__name__ == '__main__'")
        case ast.Call(ast.Attribute(_, name)):
            return name in _LOGGING
    return isinstance(node, _APART)


def _changes(node: Any, scope: str, indexing: bool) -> Iterator[tuple[str, ast.AST]]:
    """Yield operator and changed node for one node."""

    def with_(**fields: Any) -> Any:
        changed = copy.copy(node)
        vars(changed).update(fields)
        return changed

    running = scope and scope.rpartition('.')[2] not in ('__init__', '__post_init__')
    match node:
        case ast.Assign([ast.Attribute() | ast.Subscript()]) if running:
            yield 'missing reset', ast.Pass()
        case ast.Expr(ast.Call(ast.Attribute(), [])) if running:
            yield 'missing reset', ast.Pass()
        case ast.AugAssign(_, ast.Add() | ast.Sub() as operation, value) if not _is_text(value):
            yield 'sign', with_(op=_OTHER[type(operation)]())
        case ast.BinOp(left, operation, right) if type(operation) in _OTHER:
            if not _is_text(left) and not _is_text(right):
                additive = isinstance(operation, ast.Add | ast.Sub)
                yield 'sign' if additive else 'factor', with_(op=_OTHER[type(operation)]())
                yield 'dropped term', left
                if isinstance(operation, ast.Add | ast.Mult):
                    yield 'dropped term', right
        case ast.UnaryOp(ast.USub(), operand) if not indexing:
            yield 'sign', operand
        case ast.UnaryOp(ast.Not(), operand):
            yield 'comparison', operand
        case ast.Constant(int() | float() as value) if not isinstance(value, bool):
            number = value + 1 if indexing or value == 0 else 2 * value
            yield 'index' if indexing else 'factor', ast.Constant(number)
        case ast.Compare(left, [operation], [right]):
            others = _NEIGHBOUR if _is_count(left) or _is_count(right) else _OTHER
            yield 'comparison', with_(ops=[others[type(operation)]()])
        case ast.BoolOp(operation, [first, *rest]):
            yield 'comparison', with_(op=_OTHER[type(operation)]())
            yield 'dropped term', first
            yield 'dropped term', with_(values=rest) if rest[1:] else rest[0]
        case ast.Call(_, [first, *rest], []) if _name(node) in _BOUNDS:
            yield 'dropped term', first
        case ast.Call(_, [first, second, *rest]) if _name(node) not in _SYMMETRIC:
            if type(first) is type(second) is not ast.Constant:
                yield 'swapped', with_(args=[second, first, *rest])


def _name(node: Any) -> str:
    """Return the last name of a called function; empty for other nodes."""
    function = getattr(node, 'func', None)
    return getattr(function, 'attr', getattr(function, 'id', ''))


def _is_text(node: Any) -> bool:
    return isinstance(node, _TEXT) or isinstance(getattr(node, 'value', None), str)


def _is_count(node: Any) -> bool:
    return _name(node) == 'len' or type(getattr(node, 'value', None)) is int
