# SPDX-License-Identifier: Apache-2.0
"""Parts of the benchmarks; measured times are not asserted."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mortal_worker import errors_when_ended

from benchmark import measuring
from benchmark.__main__ import BENCHMARKS, MODULES
from benchmark.dynamics import contenders
from benchmark.measuring import Contender, arms, chain, race
from robot_dynamics_ros.model import load_robot

ROOT = Path(__file__).resolve().parents[2]
SVG = '{http://www.w3.org/2000/svg}'


def command(*names):
    return subprocess.run(
        [sys.executable, '-m', 'benchmark', *names], cwd=ROOT, capture_output=True, text=True
    )


def test_benchmarks_are_listed():
    listed = command('list')
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(BENCHMARKS)
    for module in MODULES.values():
        assert (ROOT / 'benchmark' / f'{module}.py').is_file()


def test_an_unknown_benchmark_is_refused_with_those_that_exist():
    refused = command('kinematics')
    assert refused.returncode == 2
    known = ', '.join(BENCHMARKS)
    assert f"unknown benchmark 'kinematics'; there are: {known}" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize('campaign', [['fuzz'], ['faults', '--jobs', '2']])
def test_a_campaign_that_is_killed_takes_its_workers_along(campaign, monkeypatch, tmp_path):
    monkeypatch.setenv('TMPDIR', str(tmp_path))
    errors_when_ended(
        ['benchmark', *campaign],
        signal.SIGKILL,
        lambda times: sum(time > 2.0 for time in times) > 1,  # not only imports
    )


def test_a_race_returns_the_shortest_time_of_each():
    times = race(
        {'short': Contender('sum(x)', {'x': [1]}), 'long': Contender('sum(x)', {'x': [1] * 5000})},
        seconds=1e-5,
        rounds=3,
    )
    # A sum of 5000 takes a hundred times as long as a sum of one; ten is far from both.
    assert times['long'] > 10 * times['short'] > 0


def test_only_libraries_with_the_right_answer_race():
    xml = chain(3)
    state = np.random.default_rng(0).uniform(-1, 1, size=(3, 3))
    found, left_out = contenders(xml, np.array([0.0, 0.0, -9.81]), *state)
    assert {'pinocchio', 'mujoco'} <= set(found)
    assert set(found).isdisjoint(left_out)
    tau = eval(found['mujoco'].statement, found['mujoco'].names)
    expected = eval(found['pinocchio'].statement, found['pinocchio'].names)
    assert tau == pytest.approx(expected, rel=1e-9)  # both in double precision


def test_the_robots_to_measure_with_can_be_read():
    found = arms()
    assert {'scara', 'four_dof', 'chain of 6'} <= set(found)
    for xml in found.values():
        tree = load_robot(xml, effort_limit=1.0)
        assert not tree.damping.any()
        assert not tree.armature.any()


def test_a_saved_result_says_where_it_was_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(measuring, 'OUT', tmp_path)
    assert measuring.saved('some.json') == {}
    measuring.save('some.json', {'figure': 1.5})
    found = measuring.saved('some.json')
    assert found['figure'] == 1.5
    assert found['machine']['processors'] >= 1


@pytest.mark.slow
def test_a_wrong_input_is_named_in_one_line():
    wrong = command('pushes', '--bag', 'none', '--driver_profile', 'none')
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("error: driver profile 'none': is not a file;")


@pytest.mark.slow
def test_options_are_those_of_one_benchmark():
    assert '--ticks' in command('soak', '--help').stdout
    for words in (['program', '--ticks', '3'], ['soak', 'program', '--ticks', '3']):
        refused = command(*words)
        assert refused.returncode == 2
        assert '--ticks' in refused.stderr
