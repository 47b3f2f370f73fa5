# SPDX-License-Identifier: Apache-2.0
"""A run counts time in whole nanoseconds, attaches its payload on time, and can restart."""

from __future__ import annotations

import numpy as np
import pytest
from samples import sample

from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.model.payload import Payload
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.simulation.plant import SimulationRun

FIRST = np.array([0.1, 0.2, 0.05, -0.3])
EFFORT = np.array([5.0, -2.0, 1.0, 0.3])


def run_of(period=1e-3, end_s=0.0):
    return SimulationRun(MujocoPlant(sample('scara').tree, period), FIRST, np.zeros(4), end_s)


def position(run):
    q, v = np.empty((2, 4))
    run.plant.read(q, v)
    return q


def test_time_does_not_drift_where_sums_of_the_period_would():
    run = run_of(period=1e-4)
    for _ in range(300):
        run.advance(EFFORT)
    assert run.time_ns == 30_000_000
    assert sum([1e-4] * 300) != 0.03  # the result of accumulation
    assert run.time == 0.03


def test_the_end_is_told_once_at_the_step_that_reaches_it():
    run = run_of(end_s=0.005)
    assert [run.advance(EFFORT) for _ in range(8)] == [False] * 4 + [True] + [False] * 3
    run.end_at(0.010)
    assert [run.advance(EFFORT) for _ in range(3)] == [False, True, False]
    run.end_at(0.0)
    assert not any(run.advance(EFFORT) for _ in range(20))


def test_an_end_between_two_states_is_reached_at_the_next_one():
    run = run_of(end_s=0.0025)
    assert [run.advance(EFFORT) for _ in range(4)] == [False, False, True, False]


def test_a_payload_is_taken_at_its_time_and_again_after_a_restart():
    run = run_of()
    run.schedule_payload(Payload(2.0), 0.003)
    masses, ends = [], []
    for _ in range(2):
        run.restart()
        np.testing.assert_array_equal(position(run), FIRST)
        assert run.time_ns == 0
        for _ in range(6):
            run.advance(EFFORT)
            masses.append(run.plant.tree.mass[3])
        ends.append(position(run))
    bare = sample('scara').tree.mass[3]
    np.testing.assert_allclose(masses, ([bare] * 3 + [bare + 2.0] * 3) * 2)
    np.testing.assert_array_equal(ends[0], ends[1])


def test_a_payload_is_dropped_with_the_next_step_if_none_is_scheduled():
    run = run_of()
    run.schedule_payload(Payload(2.0), 0.0)
    run.advance(EFFORT)
    run.schedule_payload(None, 0.0)
    run.advance(EFFORT)
    assert run.plant.tree.mass[3] == sample('scara').tree.mass[3]


def test_an_impossible_payload_is_refused_when_it_is_scheduled_not_when_it_is_due():
    run = run_of()
    with pytest.raises(UnknownNameError, match="unknown payload_frame 'hand'"):
        run.schedule_payload(Payload(1.0, frame='hand'), 100.0)
    run.check_payload(Payload(1.0))
    run.check_payload(None)
