# SPDX-License-Identifier: Apache-2.0
"""Help texts and rejected command lines need neither numpy nor ROS."""

import contextlib
import io
import os
import re
import subprocess
import sys

import pytest
import tables

from robot_dynamics_ros import __main__ as program
from robot_dynamics_ros.__main__ import COMMANDS

#: Which of the two were imported in the end, and the exit code.
CODE = """
import contextlib, io, sys
from robot_dynamics_ros.__main__ import main
for words in {lines!r}:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code
    loaded = [name for name in ('numpy', 'rclpy') if name in sys.modules]
    print(' '.join(words), code, loaded)
"""


def imported(*lines: list[str]) -> list[str]:
    """Return the output of command lines, run in a separate process."""
    code = CODE.format(lines=lines)
    return subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, check=True
    ).stdout.splitlines()


@pytest.mark.slow
def test_help_and_refusal_of_every_command_import_neither_numpy_nor_rclpy():
    """In one process: the first line with a library names the command that imported it."""
    words = {'--help': 0, '--no-such-option': 2}
    codes = {f'{command} {word}': words[word] for command in COMMANDS for word in words}
    codes |= {'--help': 0, 'no_such_command': 2}
    found = imported(*map(str.split, codes))
    assert found == [f'{line} {code} []' for line, code in codes.items()]


@pytest.mark.parametrize('word', [5000 * 'x', 'two\x0clines\nmore'])
def test_a_refused_command_line_is_one_line_of_bounded_length(word, capsys):
    with pytest.raises(SystemExit) as ended:
        program.main(['analyze', 'bag', f'--{word}'])
    assert ended.value.code == 2
    usage, _, error = capsys.readouterr().err.partition('error: ')
    assert usage.startswith('usage: ')
    assert len(error.splitlines()) == 1
    assert len(error) < 1200


@pytest.mark.parametrize('number', ['-1', '-.5', '-5.', '-1e1', '-1E-1', '-1.5e+3', '-inf'])
def test_a_negative_number_is_no_option(number, capsys):
    words = ['new_robot', 'no_robot', '--box', number, '0', '0', '1', '1', number]
    assert program.main(words) == 2
    said = '--box: is -inf; give a finite' if number == '-inf' else "unknown robot 'no_robot'"
    assert said in capsys.readouterr().err


@tables.written("""
[check_model, '']                     | argument robot: is empty
[analyze, x, --output, '']            | argument --output: is empty
[check_model, x, --gravity, '-9,81', '0', '0'] | --gravity: invalid float value: '-9,81'
[check_model, x, --efort-limit=3]     | --efort-limit=3; did you mean '--effort-limit'?
[check_model, x, --foo]               | check_model: error: unrecognized arguments: --foo
""")
def test_a_word_that_cannot_be_meant_is_named(given, said, capsys):
    with pytest.raises(SystemExit) as ended:
        program.main(given)
    assert ended.value.code == 2
    assert re.search(f'{said}\n$', capsys.readouterr().err)


@tables.written("""
derive scara --format c --show M               | --show: has no effect with --format c; leave one
derive scara --set period=1                    | --set: ... alone; add --program or --ramp
derive scara --ramp 1                          | --ramp: has no effect alone; add --format c
excite scara --output x --frame tool           | --frame: ... alone; add --lower or
excite scara --output x --periods 0            | --periods: is 0; must be positive
demo scara --robot four_dof                    | --robot: has no effect with robot
scene package://x/y.urdf --package x           | package 'x': has no :=; write NAME:=PATH
commission scara --driver-profile ur --bag x --seconds 3 | --seconds: has no effect with --bag
identify x --output x --gains x x --load 1     | BAG: has no effect with --gains
identify --output x --gains x x --load 1       | --gains: lacks --load or --driver-profile
identify x --output x --payload l4 --most 3    | --most: has no effect with --payload
identify x --output x --payload l4 --prior-weight 2 | --prior-weight: has ... alone; add --unl
identify x --output x --load 3                 | --load: has no effect alone; add --gains
analyze x --jobs 2 --scheduler tcp://x:1       | --jobs: has no effect with --scheduler
""")
def test_an_option_without_effect_is_refused(given, said, capsys):
    assert program.main(given.split()) == 2
    assert re.search(said, capsys.readouterr().err)


def test_a_postponed_library_is_the_library_once_it_is_used():
    code = (
        'import sys\n'
        'from robot_dynamics_ros.__main__ import postponed\n'
        "with postponed('numpy'):\n"
        '    import numpy as np\n'
        "    assert 'numpy.linalg' not in sys.modules\n"
        '    assert np.linalg.norm(np.array([3.0, 4.0])) == 5.0\n'
        'import numpy\n'
        'assert isinstance(numpy.zeros(2), np.ndarray)\n'
        'assert np.ndarray is numpy.ndarray\n'
    )
    subprocess.run([sys.executable, '-c', code], check=True)


def test_text_is_utf_8_in_the_c_locale_too():
    command = [sys.executable, '-m', 'robot_dynamics_ros', 'check_model', 'fußarm.urdf']
    given = {**os.environ, 'PYTHONUTF8': '0', 'LC_ALL': 'C'}
    ended = subprocess.run(command, capture_output=True, env=given)
    assert ended.returncode == 2
    assert 'fußarm.urdf' in ended.stderr.decode()
    without = [sys.executable, '-X', 'utf8=0', *command[1:]]  # which the environment cannot change
    assert subprocess.run(without, capture_output=True, env=given, timeout=60).returncode == 2


def test_an_argument_that_is_not_utf_8_is_refused(capsys):
    assert program.main(['check_model', os.fsdecode(b'\xf6.urdf')]) == 2
    assert 'is not text; names of files are UTF-8' in capsys.readouterr().err


def test_an_interrupt_at_any_time_of_a_command_ends_it_in_silence(monkeypatch, capsys):
    @contextlib.contextmanager
    def interrupted(name):
        yield
        raise KeyboardInterrupt

    monkeypatch.setattr(program, 'postponed', interrupted)
    assert program.main(['check_model', 'scara']) == 130
    assert capsys.readouterr().err == ''


def test_an_output_without_unicode_has_codes_and_a_full_one_is_told(monkeypatch, capsys):
    printed = io.BytesIO()
    monkeypatch.setattr(sys, 'stdout', io.TextIOWrapper(printed, 'ascii', line_buffering=True))
    assert program.main(['check_model', 'scara']) == 0
    assert b'\\u2026' in printed.getvalue()
    with open('/dev/full', 'w', buffering=1, encoding='utf-8') as full:
        monkeypatch.setattr(sys, 'stdout', full)
        assert program.main(['check_model', 'scara']) == 2
        with contextlib.suppress(OSError):  # what is left in the buffer
            full.close()
    assert capsys.readouterr().err == 'error: output: No space left on device\n'
