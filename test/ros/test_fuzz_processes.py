# SPDX-License-Identifier: Apache-2.0
"""A sample of the mutated inputs as processes of the command line, and their evaluation."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import tables
from campaigns import fuzz, fuzz_processes
from campaigns.fuzz_processes import CommandLine, Ended, verdict
from processes import free_domain

REFUSED = Ended(2, '', 'usage: x\nx: error: no such file\n', 1.0, 1)


@pytest.fixture
def line(tmp_path):
    with free_domain() as domain:
        commands = CommandLine(tmp_path / 'own', domain)
        yield commands
        commands.close()


def test_a_mutated_input_ends_a_process_well():
    found = fuzz.run(['urdf', 'bag'], 1, 2, fuzz_processes.run_chunk)
    assert [one.violation for one in found] == ['', '']
    assert [one.verdicts.total() for one in found] == [1, 1]


@tables.written(
    r"""
{}                                              | refused
{code: 0, error: '[INFO] going on'}             | accepted
{code: -9}                                      | breach
{code: 1, error: 'error: a'}                    | accepted
{code: 1, error: "error: a\nerror: b"}          | breach
{code: 1, error: "Traceback (most recent call last):\nKeyError"} | breach
{error: killed}                                 | breach
{error: "error: a\nerror: b"}                   | breach
{error: "error: a\nand more"}                   | breach
{error: 'error: LONG'}                          | breach
{seconds: 11.0}                                 | breach
{memory: 2147483648}                            | breach
{left: [python3]}                               | breach
""".replace('LONG', 'x' * 6000)
)
def test_the_judge_sees_what_it_looks_for(given, said):
    assert re.match(said, verdict(replace(REFUSED, **given))[0])


#: A package in place of ours, whose command violates all rules.
_VANDAL = """
import os, pathlib, subprocess, sys
pathlib.Path('kept').write_text('other')
pathlib.Path('../../up').write_text('new')
pathlib.Path('named').write_text('new')
pathlib.Path('quiet').write_text('new')
pathlib.Path(os.environ['TMPDIR'], 'rest').write_text('new')
subprocess.Popen(['sleep', '300'])
print('written: named')
"""


def test_what_a_process_leaves_is_found_and_removed(line, tmp_path, monkeypatch):
    package = tmp_path / 'vandal' / 'robot_dynamics_ros'
    package.mkdir(parents=True)
    (package / '__init__.py').touch()  # without it the package of the clone is found
    (package / '__main__.py').write_text(_VANDAL, encoding='utf-8')
    monkeypatch.setitem(line._environment, 'PYTHONPATH', str(package.parent))
    ended = line.run(['analyze'], 10.0)
    assert ended.code == 0, ended.error
    assert sorted(Path(one).name if one.startswith('new') else one for one in ended.left) == [
        'changed a/b/here/kept', 'quiet', 'rest', 'sleep', 'up',
    ]  # fmt: skip
    assert not [path for path in tmp_path.rglob('*') if path.name in ('up', 'quiet', 'rest')]
