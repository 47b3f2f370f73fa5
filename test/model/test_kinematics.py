# SPDX-License-Identifier: Apache-2.0
"""Poses, Jacobians and bias accelerations against Pinocchio."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from oracles import PinocchioOracle
from samples import SAMPLES, random_state, sample

from robot_dynamics_ros.model.kinematics import (
    body_poses,
    frame_jacobian,
    frame_motion,
    frame_pose,
)

ROUNDING = 1e-13


@pytest.fixture(params=SAMPLES)
def case(request):
    """Return tree, oracle, q and v of a robot."""
    robot = sample(request.param)
    q, v, _ = random_state(robot.tree, np.random.default_rng(30))
    return robot.tree, PinocchioOracle.of(robot), q, v


def test_the_pose_of_every_link_equals_pinocchio(case):
    tree, oracle, q, _ = case
    for name in tree.frames:
        R, p = frame_pose(tree, q, name)
        R_expected, p_expected = oracle.frame_pose(name, q)
        assert np.abs(R - R_expected).max() < ROUNDING
        assert np.abs(p - p_expected).max() < ROUNDING


def test_jacobian_and_drift_of_every_link_equal_pinocchio(case):
    tree, oracle, q, v = case
    for name in tree.frames:
        motion = frame_motion(tree, q, v, name)
        assert np.abs(motion.J - oracle.frame_jacobian(name, q)).max() < ROUNDING
        assert np.abs(motion.bias - oracle.frame_bias(name, q, v)).max() < 1e-12
        assert np.array_equal(frame_jacobian(tree, q, name), motion.J)


def test_the_poses_of_all_bodies_are_those_of_their_links(case):
    tree, _, q, _ = case
    for pose, name in zip(body_poses(tree, q), tree.link_names, strict=True):
        R, p = frame_pose(tree, q, name)
        assert np.abs(pose.R_WF - R).max() < ROUNDING
        assert np.abs(pose.p_WF - p).max() < ROUNDING


def test_a_frame_of_the_base_does_not_move():
    robot = sample('branched')
    q, v, _ = random_state(robot.tree, np.random.default_rng(31))
    motion = frame_motion(robot.tree, q, v, 'pedestal')
    assert not motion.J.any()
    assert not motion.bias.any()
    assert np.allclose(motion.p_WF, [0.4, -0.3, 0.1])


def test_kinematics_run_on_symbols():
    """The RP arm: p = d2 (cos q1, sin q1, 0)."""
    tree = sample('rp').tree
    q = np.array(sympy.symbols('q1 d2'))
    p = frame_pose(tree, q, 'link2').p_WF
    expected = [q[1] * sympy.cos(q[0]), q[1] * sympy.sin(q[0]), 0]
    for found, formula in zip(p, expected, strict=True):
        assert sympy.simplify(sympy.nsimplify(found) - formula) == 0
