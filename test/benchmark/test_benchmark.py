# SPDX-License-Identifier: Apache-2.0
"""Parts of the benchmarks; measured times are not asserted."""

import importlib
import re
import subprocess
import sys

import numpy as np
import pytest
from checkout import ROOT

from benchmark import dynamics
from benchmark.dynamics import contenders
from benchmark.measuring import arms, chain, race
from robot_dynamics_ros.model import load_robot


def test_a_race_returns_the_shortest_time_of_each():
    calls = {'short': ('sum(x)', {'x': [1]}), 'long': ('sum(x)', {'x': [1] * 5000})}
    times = race(calls, seconds=1e-5, rounds=3)
    # A sum of 5000 takes a hundred times as long as a sum of one; ten is far from both.
    assert times['long'] > 10 * times['short'] > 0


def test_only_equal_answers_race(monkeypatch):
    state = np.random.default_rng(0).uniform(-1, 1, size=(3, 3))
    found = contenders(chain(3), *state)
    tau, expected = (eval(found[name][0], found[name][1]) for name in ('mujoco', 'pinocchio'))
    assert tau == pytest.approx(expected, rel=1e-9)  # both in double precision

    def _pinocchio(xml, q, v, a, right=dynamics._pinocchio):
        return right(xml, q, v, 2.0 * a)

    monkeypatch.setattr(dynamics, '_pinocchio', _pinocchio)
    with pytest.raises(ArithmeticError, match='MuJoCo gives'):
        contenders(chain(3), *state)


def test_the_robots_to_measure_with_can_be_read():
    found = arms()
    assert {'scara', 'four_dof', 'chain of 6'} <= set(found)
    trees = [load_robot(xml, effort_limit=1.0) for xml in found.values()]
    assert not any(tree.damping.any() or tree.armature.any() for tree in trees)


@pytest.mark.slow
def test_a_state_passes_few_functions_until_its_command(monkeypatch, tmp_path):
    """What a reader has to follow; docs/control.md names the bounds and shows them."""
    monkeypatch.setenv('ROS_DOMAIN_ID', '96')
    monkeypatch.setenv('PYTHONPATH', str(ROOT))
    run = [sys.executable, '-m', 'benchmark', 'trace']
    said = subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    found = re.search(r'until the command is published: (\d+) functions in (\d+) modules', said)
    assert found is not None, said
    functions, modules = map(int, found.groups())
    assert 10 < functions <= 25
    assert 5 < modules <= 10
    rows = re.findall(r'│ (\S+) +│ +(\S+) │ command', said)
    assert len(rows) == functions
    monkeypatch.syspath_prepend(str(ROOT / 'docs/site_code'))
    path = importlib.import_module('schematics').PATH
    drawn = [(name, module) for module, (_, _, *names) in path.items() for name in names]
    assert sorted(named(drawn)) == sorted(named(rows))


def named(rows):
    """Return functions, without their classes, and modules."""
    return [(name.rpartition('.')[2], module) for name, module in rows]
