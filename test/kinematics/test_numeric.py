# SPDX-License-Identifier: Apache-2.0
"""Damped least squares with restarts: finds existing solutions and reports missing ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from oracles import EliminationOracle, PinocchioOracle
from samples import mimic_arm, random_tree, sample, shipped

from robot_dynamics_ros.kinematics.numeric import inverse_kinematics, nearest_configuration
from robot_dynamics_ros.model import frame_pose

ARM = shipped('four_dof', limits_profile='wide')
ORACLE, Q = PinocchioOracle.of(ARM), np.array([0.2, -1.2, 0.8, 0.1])
USUAL = ORACLE.frame_pose('tool', Q)
SIX = random_tree(np.random.default_rng(0), 6)
SIX_ORACLE = PinocchioOracle.of(SIX)
#: From here no way leads to the usual pose, so that it starts again, from random positions.
FAR = np.array([-1.5, -3.1, -2.3, -1.5])


@pytest.mark.slow
@settings(max_examples=20)
@given(arrays(float, 6, elements=st.floats(-1.5, 1.5)))
def test_a_pose_of_a_six_joint_robot_is_found_within_its_limits(q):
    R, p = SIX_ORACLE.frame_pose('link5', q)
    # An attempt finds one in three of such poses within the limits, some one in twenty.
    found = inverse_kinematics(SIX.tree, p, R, frame='link5', restarts=300)
    assert found.converged
    # Its tolerance is 1e-10 on distance and angle.
    for x, y in zip(SIX_ORACLE.frame_pose('link5', found.q), (R, p), strict=True):
        assert_allclose(x, y, atol=1.1e-10)
    assert (np.clip(found.q, SIX.tree.position_lower, SIX.tree.position_upper) == found.q).all()


@pytest.mark.parametrize('robot', [ARM, mimic_arm()])
def test_a_position_alone_leaves_the_rotation_free(robot):
    """Also with joints that follow others, as if all moved with the independent ones."""
    goal = EliminationOracle.of(robot).frame_pose('tool', np.array([0.4, -0.9, 0.1, 0.3]))[1]
    found = inverse_kinematics(robot.tree, goal)
    assert found.converged
    assert found.rotation_error == 0.0
    assert np.abs(EliminationOracle.of(robot).frame_pose('tool', found.q)[1] - goal).max() < 1e-9


def test_a_good_start_converges_quadratically_at_the_first_attempt():
    R, p = USUAL
    found = inverse_kinematics(ARM.tree, p, R, start=Q + 0.05)
    assert found.attempts == 1
    assert found.iterations <= 8
    assert_allclose(found.q, Q, atol=1e-8)


def test_out_of_reach_is_a_status_with_the_distance_left():
    found = inverse_kinematics(ARM.tree, [2.0, 0.0, 0.2], restarts=3)
    assert not found.converged
    assert found.status in ('at_limits', 'not_converged')
    # Reach 0.3 + 0.25 + 0.12 from the shoulder at height 0.2.
    assert found.position_error == pytest.approx(2.0 - 0.67, abs=1e-3)
    assert found.attempts == 4
    assert found.iterations < 4 * 100, 'an attempt ends where no step helps any more'
    short = inverse_kinematics(ARM.tree, [2.0, 0.0, 0.2], restarts=3, iterations=5)
    assert short.iterations == 4 * 5  # of all attempts


@pytest.mark.filterwarnings('error')
@pytest.mark.parametrize('R', [None, np.eye(3)])
def test_a_target_whose_distance_overflows_is_out_of_reach(R):
    far = np.array([1e300, -1e300, 0.0])
    assert not inverse_kinematics(ARM.tree, far, R, restarts=1).converged
    assert np.isfinite(nearest_configuration(ARM.tree, far, R, 'tool', Q)).all()


def test_a_target_beyond_a_limit_ends_at_the_limit():
    tree = sample('scara').tree
    found = inverse_kinematics(tree, [0.4, 0.1, 0.05], restarts=2)
    assert found.status == 'at_limits'
    assert found.q[2] == 0.25
    assert found.position_error == pytest.approx(0.1, abs=1e-6)


def test_from_limits_that_some_joints_press_against_the_others_find_the_way():
    tree = sample('scara').tree
    q, at_upper = np.array([-1.99, -0.76, 0.13, -0.75]), [False, True, True, False]
    goal = frame_pose(tree, q).p_WF
    start = np.where(at_upper, tree.reference_upper, tree.reference_lower)
    assert inverse_kinematics(tree, goal, start=start, restarts=0).converged


def test_a_pose_is_reached_with_its_rotation_only():
    tree, q = sample('scara').tree, np.array([0.3, 0.8, 0.1, 0.2])
    found = inverse_kinematics(tree, *frame_pose(tree, q + [0, 0, 0, 0.5])[::-1], start=q)
    assert_allclose(found.q, q + [0, 0, 0, 0.5], atol=1e-9)


def test_the_answer_is_the_same_every_time():
    R, p = USUAL
    first, again, other = (
        inverse_kinematics(ARM.tree, p, R, start=FAR, restarts=9, seed=seed) for seed in (0, 0, 1)
    )
    assert_array_equal(first.q, again.q)
    assert first.attempts == again.attempts != other.attempts > 1
    for found in (first, other):
        assert_allclose(ORACLE.frame_pose('tool', found.q)[1], p, atol=1e-8)


def test_more_attempts_leave_no_larger_error():
    R, p = USUAL
    runs = [
        inverse_kinematics(ARM.tree, p, R, start=FAR, restarts=k, iterations=3) for k in range(6)
    ]
    errors = np.hypot(*np.transpose([(x.position_error, x.rotation_error) for x in runs]))
    assert (np.diff(errors) <= 0.0).all()
    assert errors[-1] < errors[0]


def test_a_start_beyond_the_limits_is_led_into_them():
    """By a whole turn, after which the pose is the same."""
    start, (R, p) = Q + [2.0 * np.pi, 0, 0, 0], USUAL
    for found in (
        inverse_kinematics(ARM.tree, p, R, start=start).q,
        nearest_configuration(ARM.tree, p, R, 'tool', start),
    ):
        assert (found <= ARM.tree.position_upper).all()


def test_the_nearest_configuration_gives_position_priority_over_rotation():
    R, p = USUAL
    assert_allclose(nearest_configuration(ARM.tree, p, R, 'tool', Q + 0.1), Q, atol=1e-6)
    far = nearest_configuration(ARM.tree, [2.0, 0.0, 0.2], None, 'tool', Q)
    # Thirty steps toward the nearest point of its reach.
    assert_allclose(ORACLE.frame_pose('tool', far)[1], [0.67, 0.0, 0.2], atol=5e-3)
    rolled = R @ np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])  # the arm cannot roll
    found = nearest_configuration(ARM.tree, p, rolled, 'tool', Q + 0.3)
    # The square of the weight of a metre, 1e3, leaves 1e-6 of the rotation.
    assert_allclose(ORACLE.frame_pose('tool', found)[1], p, atol=1e-5)
