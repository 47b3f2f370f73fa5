# SPDX-License-Identifier: Apache-2.0
"""The arm benchmark: its groups exist, the shipped arms meet its figures, its page is complete."""

from __future__ import annotations

import math
import operator
import os
from argparse import Namespace
from functools import partial

import pytest

from benchmark import arms, measuring
from benchmark.arm_tracking import PERIOD, program_decay, tracking
from benchmark.arms import GROUPS, measure_group, page
from benchmark.measuring import files, in_own_process
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.planning.default_motion import default_motion
from robot_dynamics_ros.planning.robot_setup import natural_frequencies

KNOWN = files()


def test_every_group_is_in_its_file():
    assert len(GROUPS['arms']) >= 30
    links: dict[str, set[str]] = {}
    for group in (*GROUPS['arms'].values(), *GROUPS['hands'].values()):
        if group.file not in links:
            found = read_description(KNOWN[group.file], on_fault=lambda fault: None)
            links[group.file] = {link.name for link in found.links}
        assert {group.frame, group.base} - {''} <= links[group.file]


@pytest.mark.slow
def test_a_hand_is_measured_without_leading_anything():
    group = GROUPS['hands']['Panda hand']
    figures = in_own_process(measure_group, KNOWN[group.file], group, False, limit_s=600.0)
    assert 'note' not in figures
    assert figures['joints'] == '1 (2)'  # a finger and the one that follows it
    # The rounding of recursions over a single body, relative to the effort.
    assert figures['deviation'] < 1e-13
    assert 'error' not in figures


@pytest.mark.slow
@pytest.mark.parametrize('name', ['scara', 'four_dof'])
def test_the_shipped_arms_follow_what_is_planned_for_them(name):
    """The figures that every arm must meet."""
    tree = load_robot(shipped_robot(name))
    motion = default_motion(tree, 'tool')
    gains = natural_frequencies(tree, motion.home, PERIOD)
    found = tracking(tree, motion, gains)
    assert found['error'] <= 1e-4
    assert found['better'] >= 20.0
    assert found['better_fed'] >= 3.0
    assert found['effort'] <= 0.61
    held = program_decay(tree, motion, gains)
    assert held['decay'] <= 0.02
    assert held['saturated'] == 0


def test_the_page_has_a_row_for_each_and_counts_the_reasons():
    measured = {
        'arms': {'A': {'joints': '6', 'error': 1.25e-13, 'better': 7.0, 'note': ''}},
        'hands': {'B': {'joints': '1'}},
        'files': {
            'a.urdf': {'joints': '6', 'note': ''},
            'b.urdf': {'note': "rejected: robot 'b': has no moving joint; give one"},
            'c.urdf': {'note': "rejected: robot 'c': has no moving joint; give one"},
        },
    }
    text = page(measured)
    assert '| A | 6 |' in text
    assert '1.2e-13' in text
    assert 'PD ratio 7 instead of at least 20' in text
    assert '| B | 1 |' in text
    assert '* 2: rejected: robot ...: has no moving joint' in text
    assert '* 1: loads unchanged' in text


def test_one_kind_is_measured_without_earlier_results(monkeypatch, tmp_path):
    work = [('hands', 'Some hand', (map, operator.call, [partial(dict, joints='1')]))]
    monkeypatch.setattr(arms, '_work', lambda: work)
    monkeypatch.setattr(arms, '_PAGE', tmp_path / 'arms.md')
    monkeypatch.setattr(measuring, 'OUT', tmp_path / 'out')
    assert arms.arms_benchmark(Namespace(only=['hands'], jobs=1, limit=600.0)) == 0
    assert '| Some hand | 1 |' in (tmp_path / 'arms.md').read_text(encoding='utf-8')


@pytest.mark.slow
@pytest.mark.parametrize(
    ('end', 'note'),
    [
        (os.abort, 'its process ended with code -6'),
        (partial(math.sqrt, -1.0), 'ValueError: math domain error'),
        (partial(load_robot, '<robot'), 'malformed XML'),
    ],
)
def test_what_was_measured_before_a_crash_is_kept_with_its_reason(end, note):
    parts = [partial(dict, joints='6'), end]
    figures = in_own_process(map, operator.call, parts, limit_s=600.0)
    assert figures['joints'] == '6'
    assert note in figures['note']


def test_what_takes_too_long_is_ended_and_says_so():
    figures = in_own_process(map, operator.call, [os.abort], limit_s=0.0)
    assert figures == {'note': 'ended after 0 s'}
