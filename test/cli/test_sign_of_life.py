# SPDX-License-Identifier: Apache-2.0
"""Every command that computes says meanwhile that it does; those that last say nothing of it."""

import argparse
import contextlib
import io
import sys
import time
from types import SimpleNamespace

import pytest
from samples import sample

from robot_dynamics_ros import __main__ as program
from robot_dynamics_ros.cli import processes, sign_of_life
from robot_dynamics_ros.cli.arguments import Command
from robot_dynamics_ros.identification import design_excitation

ARGUMENTS = argparse.Namespace(command='excite', force=True)


def computing(args: argparse.Namespace) -> int:
    """Compute, then show a live display, as rich does, and compute again."""
    time.sleep(0.2)
    sign_of_life.tell('step 2 of 3')
    time.sleep(0.2)
    stream, sys.stderr = sys.stderr, io.StringIO()
    time.sleep(0.1)
    shown, sys.stderr = sys.stderr.getvalue(), stream
    assert shown == ''
    return 7


@pytest.mark.parametrize('lasts', [False, True])
def test_a_command_says_for_how_long_it_has_computed_and_at_which_step(lasts, capsys, monkeypatch):
    monkeypatch.setattr(sign_of_life, '_PERIOD_S', 0.02)
    assert Command(computing, {}, lasts=lasts).execute(ARGUMENTS) == 7
    said = capsys.readouterr().err.splitlines()
    time.sleep(0.1)
    assert capsys.readouterr().err == '', 'it ends with the command'
    expected = ['excite: 0 s', 'excite: step 2 of 3, 0 s']
    assert list(dict.fromkeys(said)) == ([] if lasts else expected)


def test_of_a_run_it_says_the_simulated_time_and_the_share_that_is_done(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(sign_of_life, '_PERIOD_S', 0.02)
    said = {'trajectory': 'to t = 6.0 s', 'recorder': 'progress 1.5'}
    said['simulator'] = 'end of the run: t = 1.5 s'

    def wait(*given, **_) -> None:
        for tell in given[2:]:
            tell()
        time.sleep(0.1)

    still = dict.fromkeys(('start', 'end', 'check'), lambda *_: None)
    nodes = SimpleNamespace(output=said.get, wait_for_end=wait, **still)
    monkeypatch.setattr(processes, 'SceneProcesses', lambda *_: contextlib.nullcontext(nodes))
    with sign_of_life.sign_of_life('scene'):
        processes.LockstepRun('scara', {}, {}, {}).record(tmp_path, 'scene circle')
        time.sleep(0.1)
    told = ['scene: scene circle: starting, 0 s']
    told += ['scene: scene circle: 1.5 of 6.0 s simulated (25%), 0 s']
    told += ['scene: scene circle: evaluation, 0 s']
    assert list(dict.fromkeys(capsys.readouterr().err.splitlines())) == told


def test_with_stderr_closed_nothing_is_printed_between_the_results(capsys, monkeypatch):
    monkeypatch.setattr(sign_of_life, '_PERIOD_S', 0.02)
    monkeypatch.setattr(sys, 'stderr', None)
    with sign_of_life.sign_of_life('excite'):
        time.sleep(0.1)
    assert capsys.readouterr().out == ''


def test_all_commands_but_nodes_and_the_viewer_do():
    lasting = {name for name in program.COMMANDS if program._command(name).lasts}
    assert lasting == {*program.NODE_COMMANDS, 'view'}


def test_the_design_of_an_excitation_tells_its_steps():
    told: list[str] = []
    design_excitation(sample('scara').tree, harmonics=3, iterations=2, tell=told.append)
    assert told == ['random motions', 'step 1 of at most 2', 'step 2 of at most 2']
