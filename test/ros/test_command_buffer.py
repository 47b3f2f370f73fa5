# SPDX-License-Identifier: Apache-2.0
"""Only complete, finite commands of the right size are accepted."""

from __future__ import annotations

import array
import math

import numpy as np
import pytest
from samples import sample

from robot_dynamics_ros.control.drivers.driver_interface import command_order
from robot_dynamics_ros.errors import ParameterError, UnknownNameError
from robot_dynamics_ros.simulation.plant import CommandBuffer

ORDER = ['joint3', 'joint1', 'joint4', 'joint2']
EVERY = range(4)


def make_buffer(joints=()) -> CommandBuffer:
    tree = sample('scara').tree
    return CommandBuffer(tree, command_order(joints, tree))


def test_efforts_go_to_their_joints_in_the_order_of_the_command():
    buffer = make_buffer(ORDER)
    assert buffer.store(EVERY, array.array('d', [3.0, 1.0, 4.0, 2.0]))
    np.testing.assert_array_equal(buffer.effort, [1.0, 2.0, 3.0, 4.0])
    assert (buffer.accepted, buffer.refused) == (1, 0)


@pytest.mark.parametrize(
    ('values', 'reason'),
    [
        ([1.0, 2.0], '2 efforts; expected 4: joint1, joint2, joint3, joint4'),
        ([], '0 efforts'),
        ([1.0, math.nan, 1.0, 1.0], 'not finite'),
        ([1.0, 1.0, 1.0, -math.inf], 'not finite'),
    ],
)
def test_a_bad_command_changes_nothing_and_is_counted_with_its_reason(values, reason):
    buffer = make_buffer()
    buffer.store(EVERY, [1.0, 2.0, 3.0, 4.0])
    assert not buffer.store(EVERY, values)
    assert reason in buffer.last_refusal
    np.testing.assert_array_equal(buffer.effort, [1.0, 2.0, 3.0, 4.0])
    assert (buffer.accepted, buffer.refused) == (1, 1)


def test_efforts_by_joint_are_complete_only_once_all_have_come_for_the_state():
    buffer = make_buffer(ORDER)
    assert [buffer.store([k], [float(k)]) for k in (0, 1, 0, 2, 3)] == [False] * 4 + [True]
    np.testing.assert_array_equal(buffer.effort, [1.0, 3.0, 0.0, 2.0])
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
