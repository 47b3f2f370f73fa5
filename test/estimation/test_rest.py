# SPDX-License-Identifier: Apache-2.0
"""Rest and motion are told apart in any unit, under noise, and not across gaps."""

import numpy as np
import pytest

from robot_dynamics_ros.estimation.rest import moving_joints, rests, standstill

TIME = np.arange(0.0, 3.0, 0.01)
#: 1 s of rest, 1 s of motion to 1 rad, 1 s of rest.
RAMP = np.clip(TIME - 1.0, 0.0, 1.0)


@pytest.mark.parametrize(('unit', 'wrong'), [(1e-3, 0), (1.0, 0), (57.3, 0), (1.0, 2)])
def test_the_arm_rests_where_no_joint_moves_and_settles_first(unit, wrong):
    """Also if one or two states in a row are corrupted, at rest and in motion."""
    noise = 1e-5 * np.random.default_rng(3).normal(size=(len(TIME), 2))
    q = unit * (np.outer(RAMP, [1.0, 0.0]) + noise)
    q[50 : 50 + wrong] += 1.0
    q[150 : 150 + wrong] -= 2.0
    first, last = rests(TIME, q)
    assert TIME[[first.start, last.stop - 1]] == pytest.approx([1.0 / 3.0, 2.99], abs=0.02)
    assert TIME[[first.stop, last.start]] == pytest.approx([1.0, 2.0 + 1.0 / 3.0], abs=0.04)


def test_what_was_not_recorded_is_no_rest():
    q = np.outer(RAMP, [1.0])
    kept = (TIME < 0.4) | (TIME > 0.8)  # 0.4 s before the gap, 0.2 s after it
    first, last = rests(TIME[kept], q[kept])
    assert TIME[kept][first.stop - 1] < 0.4
    assert TIME[kept][last.start] > 2.0
    assert not rests(TIME[::50], q[::50])
    assert not rests(TIME[:2], q[:2])


def test_a_joint_moves_by_more_than_its_noise():
    noise = 1e-3 * np.random.default_rng(3).normal(size=(len(TIME), 2))
    q = noise + np.outer(RAMP, [1.0, 0.0])
    assert moving_joints(q, np.gradient(q, TIME, axis=0)).tolist() == [True, False]


def test_friction_may_hold_a_joint_at_a_share_of_its_peak_in_its_noise_and_creep():
    speeds = standstill(np.diag([2.0, 1e-3, 0.0]), np.array([0.0, 1e-3, 0.0]), np.ones(3))
    assert speeds == pytest.approx([0.01, 5e-3, 1e-4])
