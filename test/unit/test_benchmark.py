# SPDX-License-Identifier: Apache-2.0
"""The benchmarks' own parts; what they measure is printed and never asserted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmark.__main__ import BENCHMARKS
from benchmark.libraries import contenders
from benchmark.line_chart import line_chart
from benchmark.robots import arms, chain
from benchmark.timing import Contender, race
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
    for name in BENCHMARKS:
        assert (ROOT / 'benchmark' / f'{name}.py').is_file()


def test_an_unknown_benchmark_is_refused_with_those_that_exist():
    refused = command('kinematics')
    assert refused.returncode == 2
    known = ', '.join(BENCHMARKS)
    assert f"unknown benchmark 'kinematics'; there are: {known}" in refused.stderr


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


def test_a_chart_is_one_well_formed_page_with_every_point():
    series = {'a < b': [(4, 10.0), (32, 3000.0)], 'c': [(4, 20.0), (32, 200.0)]}
    page = line_chart('title & more', 'joints', 'ns', series)
    drawing = ElementTree.fromstring(page[page.index('<svg') : page.rindex('</html>')])
    circles = drawing.findall(f'{SVG}circle')
    assert len(circles) == 4
    assert [circle.find(f'{SVG}title').text for circle in circles][1] == 'a < b: 32, 3000'
    heights = [float(circle.get('cy')) for circle in circles]
    assert heights[0] > heights[2] > heights[3] > heights[1]
    texts = [element.text for element in drawing.iter(f'{SVG}text')]
    assert {'title & more', 'joints', 'ns', 'a < b', 'c', '4', '32', '100', '1000'} <= set(texts)
