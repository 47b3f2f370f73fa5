# SPDX-License-Identifier: Apache-2.0
"""The tool of `make mutants`: what it changes, that tests see the change, how it compares."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[1] / 'mutants'
sys.path.insert(0, str(TOOL))

from judge import row  # noqa: E402
from mutations import choose, mutants  # noqa: E402
from probes import PACKAGE, with_probes  # noqa: E402

#: Sources and their changes. What is read by people or type checkers is left alone.
CHANGES = r"""
y = a - b | sign: a - b -> (a + b) | dropped term: a - b -> (a)
y = x[1] | index: 1 -> (2)
y = x[f(3)] | factor: 3 -> (6)
y = a < 1.5 | comparison: a < 1.5 -> (a >= 1.5) | factor: 1.5 -> (3.0)
y = len(a) < b | comparison: len(a) < b -> (len(a) <= b)
y = max(a, b) | dropped term: max(a, b) -> (a)
def f(): self.x = a | missing reset: self.x = a -> pass
def f(): self.reset() | missing reset: self.reset() -> pass
y = f(a, b) | swapped: f(a, b) -> (f(b, a))
def f(x: Array[3]) -> Array[3]:\n "a - b"\n raise Error(f"{a - b}", a - b)
log.info("%s", a - b)
__all__ = ["a" + b]
def __init__(self): self.x = a
"""


@pytest.mark.parametrize('row', CHANGES.strip().splitlines())
def test_every_change_is_valid_and_nothing_else_changes(row):
    source, *changes = row.replace('\\n', '\n').split(' | ')
    found = mutants('file.py', source.encode())
    assert {f'{one.operator}: {one.before} -> {one.after}' for one in found} == set(changes)
    for one in found:
        compile(one.apply(source.encode()), 'file.py', 'exec')


def test_mutants_of_a_room_are_spread_over_its_files_and_operators(tmp_path):
    for name, count in (('large.py', 60), ('small.py', 20), ('empty.py', 0)):
        (tmp_path / name).write_text('y = a - b\nz = x[1] * 0.5\n' * count)
    files = ['empty.py', 'large.py', 'small.py']
    chosen, again, other = (
        choose(tmp_path, files[::way], 12, seed)
        for way, seed in ((1, '3 room'), (-1, '3 room'), (1, '4 room'))
    )
    assert Counter(one.file for one in chosen) == {'large.py': 9, 'small.py': 3}
    assert {one.operator for one in chosen} == {'sign', 'index', 'factor', 'dropped term'}
    assert len({(one.file, one.line) for one in chosen}) == 12
    assert chosen == again != other


def test_probes_are_valid_wherever_the_package_can_be_changed():
    for file in sorted((TOOL.parents[1] / PACKAGE).glob('*.py')):
        source, found = file.read_bytes(), {}
        for one in mutants(file.name, file.read_bytes()):
            found.setdefault(one.line, one)
        compile(with_probes(source, enumerate(found.values())), file.name, 'exec')


MODULE = """
FACTOR = 2.0
def twice(x):
    y = FACTOR * x
    return y
def unused(x):
    return x - 1.0
def unseen(x):
    return x - 2.0
"""
TESTS = """
import subprocess, sys
from robot_dynamics_ros.room.module import unseen
def test_twice_elsewhere():
    code = 'from robot_dynamics_ros.room.module import twice; assert twice(3.0) == 6.0'
    assert subprocess.run([sys.executable, '-c', code]).returncode == 0
def test_unseen():
    assert unseen(1.0) < 5.0
"""


@pytest.mark.slow
def test_a_mutant_acts_in_every_process_whatever_was_kept_of_the_original(tmp_path):
    """Bytecode is valid for a second and a size, and two of these mutants have the same size."""
    (tmp_path / PACKAGE / 'room').mkdir(parents=True)
    (tmp_path / 'test').mkdir()
    for name, content in {
        f'{PACKAGE}/__init__.py': '',
        f'{PACKAGE}/room/__init__.py': '',
        f'{PACKAGE}/room/module.py': MODULE,
        'test/test_module.py': TESTS,
        'pyproject.toml': '[tool.pytest.ini_options]\npythonpath = ["."]\n',
    }.items():
        (tmp_path / name).write_text(content)
    subprocess.run(['git', 'init', '--quiet'], cwd=tmp_path, check=True)
    command = [sys.executable, TOOL / 'judge.py', 'room', '--root', tmp_path, '--mutants', '30']
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found = re.findall(r'^\d+/\d+ ([^,]*), .*/module.py (\w*):', run.stdout, re.MULTILINE)
    killed = 'killed by test/test_module.py::test_twice_elsewhere'
    expected = {'': killed, 'twice': killed, 'unused': 'not executed', 'unseen': 'survived'}
    assert {scope: verdict for verdict, scope in found} == expected


def test_a_room_is_compared_with_those_it_came_from_and_one_mutant_is_a_tie():
    counts = {'mutants': 10, 'killed': 8, 'equivalent': 0}
    known = {'rooms': {'old': counts, 'older': counts}, 'came_from': {'new': ['old', 'older']}}
    for killed, lower in ((13, True), (14, True), (15, False), (16, False)):
        assert row('new', Counter(mutants=20, killed=killed), known)[1] == lower
    # An equivalent mutant does not count.
    assert not row('new', Counter(mutants=20, killed=14, equivalent=2), known)[1]
    assert not row('unknown', Counter(mutants=20), known)[1]
