# SPDX-License-Identifier: Apache-2.0
"""A run counts time in whole nanoseconds, attaches its payload on time, and can restart.

Commands are taken only if they are complete, finite and of the right size.
"""

import array
import math
import re

import numpy as np
import pytest
import tables
from numpy.testing import assert_allclose, assert_array_equal
from pushed_arm import state_of
from samples import sample

from robot_dynamics_ros.control.drivers.driver_interface import command_order
from robot_dynamics_ros.errors import ParameterError, UnknownNameError
from robot_dynamics_ros.model.payload import Payload
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant
from robot_dynamics_ros.simulation.plant import CommandBuffer, Pace, SimulationRun

FIRST = np.array([0.1, 0.2, 0.05, -0.3])
EFFORT = np.array([5.0, -2.0, 1.0, 0.3])


def run_of(period=1e-3, end_s=0.0):
    return SimulationRun(MujocoPlant(sample('scara').tree, period), FIRST, np.zeros(4), end_s)


def test_time_does_not_drift_where_sums_of_the_period_would():
    run = run_of(period=1e-4)
    for _ in range(300):
        run.advance(EFFORT)
    assert (run.time_ns, run.time) == (30_000_000, 0.03)  # not sum([1e-4] * 300)


def test_the_end_is_told_once_at_the_step_that_reaches_it():
    run, ends = run_of(end_s=0.005), []
    # The second one is between two states: at the next one; the last is over already.
    changes = {8: 0.010, 11: 0.0125, 14: 0.0, 20: 0.004}
    for step in range(1, 41):
        ends += [step] * run.advance(EFFORT)
        if step in changes:
            run.end_at(changes[step])
        if step == 30:
            run.restart()
    assert ends == [5, 10, 13, 21, 34]


def test_a_payload_is_taken_at_its_time_and_again_after_a_restart():
    run, masses, ends = run_of(), [], []
    run.schedule_payload(Payload(2.0), 0.003)
    for _ in range(2):
        run.restart()
        assert_array_equal(state_of(run.plant)[0], FIRST)
        assert run.time_ns == 0
        for _ in range(6):
            run.advance(EFFORT)
            masses.append(run.plant.tree.mass[3])
        ends.append(state_of(run.plant)[0])
    bare = sample('scara').tree.mass[3]
    assert_allclose(masses, ([bare] * 3 + [bare + 2.0] * 3) * 2)
    assert_array_equal(*ends)
    run.schedule_payload(None, 0.0)
    run.advance(EFFORT)
    assert run.plant.tree.mass[3] == bare


def test_a_push_ends_when_the_hand_lets_go_at_a_restart_and_after_its_time():
    run, wrench = run_of(), np.array([0.0, 20.0, 0.0, 0.0, 0.0, 0.0])

    def moved(*push) -> float:
        run.restart()
        if push:
            run.push('tool', *push)
        for _ in range(10):
            run.advance(EFFORT)
        return state_of(run.plant)[0]

    free, brief, long = moved(), moved(wrench, 0.002), moved(wrench, 1.0)
    run.push('tool', 0.0 * wrench, 1.0)
    assert_array_equal(moved(), free)
    assert 0.0 < np.abs(brief - free).max() < 0.5 * np.abs(long - free).max()


# Steps by wall time, on a clock of the test -----------------------------------------------------


def test_late_steps_are_made_up_for_too_many_are_lost_and_none_are_late_after_a_restart():
    often = Pace(period=0.25, most=10)
    assert [often.due(k * 0.125) for k in range(9)] == [0, 0, 1, 0, 1, 0, 1, 0, 1]
    pace = Pace(period=0.25, most=3)
    assert [pace.due(0.75), pace.due(2.75), pace.lost, often.lost] == [3, 3, 5, 0]
    assert pace.due(3.0) == 1, 'what is lost is not made up for later'
    pace.restart(20.0)
    assert [pace.due(20.0), pace.due(20.5), pace.lost] == [0, 2, 5]


# Commands ---------------------------------------------------------------------------------------

ORDER = ['joint3', 'joint1', 'joint4', 'joint2']
EVERY = range(4)


def make_buffer(joints=()) -> CommandBuffer:
    tree = sample('scara').tree
    return CommandBuffer(tree, command_order(joints, tree))


def test_efforts_go_to_their_joints_in_the_order_of_the_command():
    buffer = make_buffer(ORDER)
    assert buffer.store(EVERY, array.array('d', [3.0, 1.0, 4.0, 2.0]))
    assert_array_equal(buffer.effort, [1.0, 2.0, 3.0, 4.0])
    assert (buffer.accepted, buffer.refused) == (1, 0)


@tables.written("""
[1.0]                 | 1 effort; expected 4: joint1, joint2, joint3, joint4
[]                    | 0 efforts
[1.0, .nan, 1.0, 1.0] | not finite
[1.0, 1.0, 1.0, -.inf] | not finite
""")
def test_a_bad_command_changes_nothing_and_is_counted_with_its_reason(given, said):
    buffer = make_buffer()
    buffer.store(EVERY, [1.0, 2.0, 3.0, 4.0])
    assert not buffer.store(EVERY, given)
    assert re.search(said, buffer.last_refusal)
    assert_array_equal(buffer.effort, [1.0, 2.0, 3.0, 4.0])
    assert (buffer.accepted, buffer.refused) == (1, 1)


def test_efforts_by_joint_are_complete_only_once_all_have_come_for_the_state():
    buffer = make_buffer(ORDER)
    assert [buffer.store([k], [float(k)]) for k in (0, 1, 0, 2, 3)] == [False] * 4 + [True]
    assert_array_equal(buffer.effort, [1.0, 3.0, 0.0, 2.0])
    buffer.expect()
    assert not buffer.store([0], [math.nan])
    assert [buffer.store([k], [9.0]) for k in range(4)] == [False, False, False, True]
    assert (buffer.accepted, buffer.refused) == (2, 1)
    assert 'joint joint3' in buffer.last_refusal
    buffer.clear()
    assert not buffer.effort.any()


def test_an_order_that_misses_or_repeats_a_joint_is_refused():
    for joints in (['joint1', 'joint2'], ['joint1'] * 4):
        with pytest.raises(ParameterError, match='must name each of joint1, joint2'):
            make_buffer(joints)
    with pytest.raises(UnknownNameError, match="unknown joint 'elbow'"):
        make_buffer(['elbow'])
    assert make_buffer(['']).joints == sample('scara').tree.joint_names
