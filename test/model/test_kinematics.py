# SPDX-License-Identifier: Apache-2.0
"""Poses, Jacobians, bias accelerations against Pinocchio; poses of symbols."""

import numpy as np
import pytest
import sympy
from numpy.testing import assert_allclose
from oracles import EliminationOracle, complex_step_along
from samples import mimic_arm, random_state, sample

from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.model import load_mechanism
from robot_dynamics_ros.model.kinematics import (
    body_poses,
    frame_jacobian,
    frame_motion,
    frame_pose,
)

ROUNDING = 1e-13


@pytest.mark.parametrize('robot', [sample('branched'), mimic_arm()], ids=['branched', 'mimic arm'])
def test_pose_jacobian_and_drift_of_every_link_equal_pinocchio(robot):
    tree, oracle = robot.tree, EliminationOracle.of(robot)
    q, v, _ = random_state(tree, np.random.default_rng(30))
    poses = dict(zip(tree.link_names, body_poses(tree, q), strict=True))
    for frame in tree.frames:
        motion, (R, p) = frame_motion(tree, q, v, frame), oracle.frame_pose(frame, q)
        for pose in (motion, frame_pose(tree, q, frame), poses.get(frame, motion)):
            assert_allclose(pose.R_WF, R, rtol=0, atol=ROUNDING)
            assert_allclose(pose.p_WF, p, rtol=0, atol=ROUNDING)
        assert_allclose(motion.J, oracle.frame_jacobian(frame, q), rtol=0, atol=ROUNDING)
        assert_allclose(motion.bias, oracle.frame_bias(frame, q, v), rtol=0, atol=1e-12)
        assert np.array_equal(frame_jacobian(tree, q, frame), motion.J)


def test_the_drift_of_links_in_a_loop_is_the_rate_of_their_velocity():
    tree = load_mechanism(*shipped_mechanism('four_bar'))
    q, v = np.array([0.2, -0.3]), np.array([1.2, -0.7])
    for frame in ('upper_arm', 'rod'):
        rate = complex_step_along(lambda x, at=frame: frame_jacobian(tree, x, at) @ v, q, v)
        assert_allclose(frame_motion(tree, q, v, frame).bias, rate, rtol=0, atol=1e-12)


def test_kinematics_run_on_symbols():
    """The RP arm: p = d2 (cos q1, sin q1, 0)."""
    q = np.array(sympy.symbols('q1 d2'))
    p = frame_pose(sample('rp').tree, q, 'link2').p_WF
    expected = q[1] * np.array([sympy.cos(q[0]), sympy.sin(q[0]), 0])
    assert not any(sympy.simplify(sympy.nsimplify(x)) for x in p - expected)
