# SPDX-License-Identifier: Apache-2.0
"""Steps by wall time, on a clock of the test."""

from __future__ import annotations

from robot_dynamics_ros.simulation.plant import Pace


def test_whoever_looks_often_gets_one_step_a_period():
    pace = Pace(period=0.25, most=10)
    assert [pace.due(k * 0.125) for k in range(9)] == [0, 0, 1, 0, 1, 0, 1, 0, 1]
    assert pace.lost == 0


def test_late_steps_are_made_up_for_and_too_many_are_lost():
    pace = Pace(period=0.25, most=3)
    assert pace.due(0.75) == 3
    assert pace.due(2.75) == 3  # eight are late
    assert pace.lost == 5
    assert pace.due(3.0) == 1, 'what is lost is not made up for later'


def test_after_a_restart_nothing_is_late():
    pace = Pace(period=0.25, most=3)
    pace.due(10.0)
    lost = pace.lost
    pace.restart(20.0)
    assert pace.due(20.0) == 0
    assert pace.due(20.5) == 2
    assert pace.lost == lost
