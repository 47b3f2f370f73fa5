# SPDX-License-Identifier: Apache-2.0
"""The command that compares formulations."""

import sys
from functools import partial
from timeit import Timer

import numpy as np
import pytest
from samples import sample

from robot_dynamics_ros.cli import compare_formulations
from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.dynamics import registry
from robot_dynamics_ros.dynamics.newton_euler import NewtonEuler
from robot_dynamics_ros.dynamics.registry import FORMULATIONS, QUANTITIES, agreement
from robot_dynamics_ros.model import load_mechanism

TRACED = [name for name, kind in FORMULATIONS.items() if not kind.numbers_only]


@pytest.fixture
def fast(monkeypatch):
    """Measure times roughly but quickly: their values are not under test."""
    monkeypatch.setattr(compare_formulations, '_BLOCK', 0.0)
    monkeypatch.setattr(compare_formulations, '_BLOCKS', 1)
    monkeypatch.setattr(compare_formulations, '_BATCH', 16)


def test_the_command_prints_tables_and_writes_the_numbers(fast, command):
    ended = command('compare_formulations scara --samples 3')
    for name in TRACED:
        stated = FORMULATIONS[name].multiplications
        assert f'{name}: {stated} = {stated.at(4)}' in ended.out
    document = ended.figures
    assert document['formulations'] == list(FORMULATIONS)
    assert set(document['deviation']) == {'worst', *QUANTITIES}
    # The project guarantees 1e-10; double precision gives a hundred-thousandth of it.
    assert np.max(document['deviation']['worst']) < 1e-13
    assert document['operations']['newton_euler']['after']['multiplications'] <= 45
    times = document['nanoseconds']
    forms = dict.fromkeys(TRACED, ['batch', 'compiled', 'generated', 'interpreted'])
    assert {name: sorted(x) for name, x in times.items()} == forms | {'pinocchio': ['library']}
    assert min(min(x.values()) for x in times.values()) > 0


@pytest.mark.parametrize(
    ('words', 'said'),
    [
        ('scara --samples 0', 'parameter states = 0 refused: compare at least one'),
        ('scara --samples 1 --seed -1', 'parameter seed = -1 refused: must not be negative'),
        ('four_bar', 'its loops are solved by iteration, which a count of operations could not'),
        ('scara --samples 1 --json README.md/a.json', 'README.md is a file); name another'),
    ],
)
def test_what_cannot_be_compared_or_written_is_told_in_one_line(fast, words, said, command):
    assert said in command(f'compare_formulations {words}', code=2).err


def test_times_are_those_of_states_where_a_loop_is_not_flat(fast, monkeypatch):
    """One in 2500 of the states within 1 rad of zero is flat; the limits contain such, too."""
    monkeypatch.setattr(compare_formulations, '_BATCH', 20_000)
    wide = {'position_lower': np.full(2, -3.0), 'position_upper': np.full(2, 3.0)}
    robot = load_mechanism(*shipped_mechanism('parallelogram')).with_changes(**wide)
    assert min(compare_formulations._times(robot, 'newton_euler').values()) > 0


def test_a_missing_library_is_left_out_and_named(fast, monkeypatch, command):
    monkeypatch.setitem(sys.modules, 'pinocchio', None)
    ended = command('compare_formulations scara --samples 1')
    assert 'left out' in ended.err
    assert 'pinocchio' in ended.err
    assert 'pinocchio' not in ended.out
    assert list(ended.figures['left_out']) == ['pinocchio']


class WithoutCoriolis(NewtonEuler):
    def inverse_dynamics(self, q, v, a, wrenches=None):
        return super().inverse_dynamics(q, 0 * v, a, wrenches)


def test_a_time_is_that_of_one_call(monkeypatch):
    """By a clock on which a call takes 0.3 ms, now and then more."""
    now, late = [0.0], iter([1e-3] * 40)
    timer = partial(Timer, timer=lambda: sum(now))
    monkeypatch.setattr(compare_formulations.timeit, 'Timer', timer)
    names = {'call': lambda: now.append(3e-4 + next(late, 0.0))}
    assert compare_formulations._shortest('call()', names) == pytest.approx(3e5)


def test_agreement_shows_which_quantity_is_wrong(monkeypatch):
    monkeypatch.setitem(registry.FORMULATIONS, 'wrong', WithoutCoriolis)
    tree, names = sample('rrpr').tree, ['newton_euler', 'wrong', 'kane']
    found = agreement(tree, names, 3)
    scale = 2.0**-20  # exact: a robot of grams shows the same deviations
    small = tree.with_changes(mass=scale * tree.mass, inertia=scale * tree.inertia)
    assert np.array_equal(found.worst(), agreement(small, names, 3).worst())
    wrong = {q for q, matrix in found.deviation.items() if matrix[0, 1] > 0.01}
    assert wrong == {'tau', 'C v', 'dtau/dq', 'dtau/dv'}
    assert found.worst()[0, 2] < 1e-12
    np.testing.assert_array_equal(found.worst(), found.worst().T)
    assert not np.array_equal(found.worst(), agreement(tree, names, 3, 1).worst())
