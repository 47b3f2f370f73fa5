# SPDX-License-Identifier: Apache-2.0
"""Thresholds: their forms, the worst joint, and rejections."""

import pytest
import yaml

from robot_dynamics_ros.errors import ConfigurationError, UnknownNameError
from robot_dynamics_ros.recordings.metrics.metric import (
    check_thresholds,
    flat_figures,
    parse_threshold,
)

FIGURES = yaml.safe_load("""
tracking: {rms_error: [0.1, 0.3], tool_rms_mm: 2.0, frame: tool}
rates: {rate_hz: 998.0, latency_us: {p99: .nan}}
effort: {gravity: {fitted: [0.0, 0.0, -9.8]}, none: null}
program: {rows: ['circle: x (m)', 'quill: level'], rms: [1.0e-3, 2.0e-3]}
contacts: {}
""")
JOINTS = ('a', 'b')


def verdict(text):
    (found,) = check_thresholds([parse_threshold(text)], FIGURES, JOINTS)
    return found


#: A threshold, the worst value, and whether it holds.
VERDICTS = """
    tracking.tool_rms_mm=2         | 2.0   | yes
    tracking.tool_rms_mm<=1.9      | 2.0   | no
    tracking.rms_error=0.2         | 0.3   | no
    tracking.rms_error.a=0.2       | 0.1   | yes
    tracking.rms_error>=0.2        | 0.1   | no
    rates.rate_hz >= 990           | 998.0 | yes
    effort.gravity.fitted.z=-9.7   | -9.8  | yes
    program.rms.circle: x (m)=1e-2 | 0.001 | yes
    program.rms=1e-3               | 0.002 | no
    contacts.count=0               | None  | no
    rates.latency_us.p99=1e9       | None  | no
    effort.none=1                  | None  | no
    tracking.tool_rms_mm=inf       | 2.0   | yes
"""


def test_the_worst_value_is_held_against_the_bound():
    for row in VERDICTS.strip().splitlines():
        text, value, holds = (cell.strip() for cell in row.split('|'))
        found = verdict(text)
        assert (str(found.value), found.holds) == (value, holds == 'yes'), text


def test_a_figure_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(UnknownNameError, match='unknown figure .*tracking.rms_error.b'):
        verdict('tracking.rms=1')


@pytest.mark.parametrize('text', ['tool', 'tool=', '=3', 'tool=three', 'a==2', 'a<2'])
def test_what_has_no_bound_is_refused(text):
    with pytest.raises(ConfigurationError, match='write KEY=VALUE'):
        parse_threshold(text)


def test_figures_are_named_by_their_place_and_texts_are_left_out():
    assert ', '.join(flat_figures(FIGURES, JOINTS)) == (
        'tracking.rms_error.a, tracking.rms_error.b, tracking.tool_rms_mm, rates.rate_hz, '
        'rates.latency_us.p99, effort.gravity.fitted.x, effort.gravity.fitted.y, '
        'effort.gravity.fitted.z, effort.none, program.rms.circle: x (m), program.rms.quill: level'
    )
    three = flat_figures({'effort': FIGURES['effort'], 'events': [{'size': 1.0}] * 3}, 'abc')
    assert [name for name in three if name[-2:] in ('.a', '.b', '.c')] == []
    assert 'events.2.size' in three


def test_a_verdict_reads_as_a_sentence():
    assert str(verdict('rates.rate_hz>=1000')) == 'rates.rate_hz >= 1000: it is 998'
    assert str(verdict('effort.none=1')) == 'effort.none <= 1: nothing was recorded'
