# SPDX-License-Identifier: Apache-2.0
"""Which tests execute the code of a mutant: calls in its place note the running test.

They work in every process that a test starts, are not lost when it is killed, and cost a tenth of
what tracing every line does.
"""

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from mutations import Mutant, line_offsets
from trees import Tree

PACKAGE = 'robot_dynamics_ros'
_MODULE = '''
import os

_seen = set()


def hit(k):
    """Note once that the running test executes mutant k."""
    key = k, os.environ.get('PYTEST_CURRENT_TEST', '').rpartition(' ')[0]
    if key not in _seen:
        _seen.add(key)
        file = os.open({file!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f'{{k}} {{key[1]}}\\n'.encode())
        os.close(file)
'''


def with_probes(source: bytes, mutants: Iterable[tuple[int, Mutant]]) -> bytes:
    """Return the source of a module that notes when it executes one of the mutated places.

    Code that runs at import counts as executed by every function of its module.

    Args:
        source: The module.
        mutants: Numbers and mutants.
    """
    tree, offsets = ast.parse(source), line_offsets(source)
    inserted: list[tuple[int, str]] = []
    for k, mutant in mutants:
        call = f'__import__({PACKAGE + "._probe"!r}, fromlist=[""]).hit({k})'
        if mutant.after.startswith('('):
            inserted += [(mutant.start, f'({call}, '), (mutant.end, ')[1]')]
        else:
            inserted.append((mutant.start, f'{call}; '))
        for node in ast.walk(tree):
            if not mutant.scope and isinstance(node, ast.FunctionDef) and node.body[1:]:
                second = node.body[1]
                row = min([second, *getattr(second, 'decorator_list', [])], key=_line).lineno
                inserted.append((offsets[row - 1], f'{" " * second.col_offset}{call}\n'))
    for place, text in sorted(inserted, key=lambda item: item[0], reverse=True):
        source = source[:place] + text.encode() + source[place:]
    return source


def _line(node: Any) -> int:
    return node.lineno


def execute(tree: Tree, file: str, mutants: Sequence[Mutant]) -> dict[str, Any]:
    """Run a test file with probes; tests that fail with them are repeated without.

    Returns:
        ``tests``: identifiers with processor and wall seconds, None if a test does not pass;
        ``executed``: for each mutant that was executed, in whatever phase, the executing tests.
    """
    hits = tree.path.with_name('hits.txt')
    hits.write_text('')
    changes = {f'{PACKAGE}/_probe.py': _MODULE.format(file=str(hits)).encode()}
    for name in {mutant.file for mutant in mutants}:
        members = [(k, mutant) for k, mutant in enumerate(mutants) if mutant.file == name]
        changes[name] = with_probes((tree.path / name).read_bytes(), members)
    limits = {'cpu_s': 7200.0, 'test_s': 1200.0, 'options': ()}
    with tree.changed(changes):
        ended = tree.run([file], **limits).tests
    if failed := [test for test, (outcome, *_) in ended.items() if outcome == 'failed']:
        ended |= tree.run(failed, **limits).tests
    executed: dict[str, set[str]] = {}
    for line in hits.read_text('utf-8').splitlines():
        k, _, test = line.partition(' ')
        executed.setdefault(k, set()).add(test)
    return {
        'tests': {
            test: spent if how == 'passed' else None for test, (how, *spent) in ended.items()
        },
        'executed': {k: sorted(tests & ended.keys()) for k, tests in executed.items()},
    }
