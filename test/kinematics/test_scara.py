# SPDX-License-Identifier: Apache-2.0
"""Branches, limits and singular places of the SCARA; ``test_closed_kinematics`` has the poses."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from robot_dynamics_ros.kinematics import scara
from robot_dynamics_ros.kinematics.scara import ScaraGeometry
from robot_dynamics_ros.kinematics.solution import violations


def test_limits_are_checked_joint_by_joint():
    too_low = scara.inverse([0.4, 0.0, -0.3], 0.0)
    assert [s.status for s in too_low] == ['outside_limits'] * 2
    assert too_low[0].violations == ('joint 3 at 0.3 is outside 0 to 0.25',)
    for beyond, count in ((1e-10, 0), (1e-7, 2)):
        q = np.array([1 + beyond, -1 - beyond])
        assert len(violations(q, [-1.0, -1.0], [1.0, 1.0])) == count
    narrow = ScaraGeometry(lower=(-2.3, 0.0, 0.0, -6.28))
    assert [s.within_limits for s in scara.inverse([0.4, 0.0, -0.1], 0.0, narrow)] == [True, False]


def test_stretched_and_folded_give_one_solution_marked_singular():
    (stretched,) = scara.inverse([0.6 * (1 + 1e-10), 0.0, -0.1], 0.5)  # beyond by rounding
    assert_allclose(stretched.q, [0.0, 0.0, 0.1, -0.5], atol=1e-15)
    assert stretched.status == 'singular'
    assert stretched.singular == ('elbow',)
    (folded,) = scara.inverse([0.05, 0.0, -0.1], 0.5)
    assert abs(folded.q[1]) == math.pi
    assert folded.status == 'outside_limits'


def test_a_free_first_joint_keeps_its_value_and_is_marked():
    equal = ScaraGeometry(L1=0.3, L2=0.3, lower=(-4.0,) * 4, upper=(4.0,) * 4)
    (solution,) = scara.inverse([0.0, 0.0, 0.0], 0.2, equal, current=[0.7, 0, 0, 0])
    assert solution.q[0] == 0.7
    assert solution.singular == ('elbow', 'shoulder')
    R, p = scara.forward(solution.q, equal)
    assert_allclose(p, 0.0, atol=1e-15)
    assert math.atan2(R[1, 0], R[0, 0]) == pytest.approx(0.2)
