# SPDX-License-Identifier: Apache-2.0
"""Closed kinematics of the SCARA against multiplication, differentiation and Pinocchio."""

import math

import numpy as np
import pytest
import sympy
from oracles import PinocchioOracle
from samples import sample

from robot_dynamics_ros.kinematics import scara
from robot_dynamics_ros.kinematics.scara import SCARA, ScaraGeometry
from robot_dynamics_ros.kinematics.solution import nearest, violations

ROBOT = sample('scara')
TREE = ROBOT.tree
ON_TREE = ScaraGeometry.from_tree(TREE)


def random_q(rng):
    return rng.uniform(SCARA.lower, SCARA.upper)


@pytest.fixture(scope='module')
def oracle():
    return PinocchioOracle(ROBOT.xml, ROBOT.gravity, TREE.joint_names)


def test_the_default_geometry_is_that_of_the_shipped_robot_without_its_column():
    assert ScaraGeometry(height=0.4) == ON_TREE


@pytest.mark.parametrize('frame', ['base', 'tool'])
def test_forward_jacobian_and_drift_are_those_of_pinocchio(oracle, frame, rng):
    for _ in range(10):
        q, v = random_q(rng), rng.normal(size=4)
        found, (R, p) = scara.forward(q, ON_TREE), oracle.frame_pose('tool', q)
        np.testing.assert_allclose(found.R_WF, R, atol=1e-15)
        np.testing.assert_allclose(found.p_WF, p, atol=1e-15)
        turn = np.kron(np.eye(2), R.T if frame == 'tool' else np.eye(3))
        J, bias = oracle.frame_jacobian('tool', q), oracle.frame_bias('tool', q, v)
        np.testing.assert_allclose(scara.jacobian(q, ON_TREE, frame=frame), turn @ J, atol=1e-15)
        # Accelerations up to 10 m/s^2.
        found = scara.bias_acceleration(q, v, ON_TREE, frame=frame)
        np.testing.assert_allclose(found, turn @ bias, atol=1e-14)


def test_the_determinant_is_that_of_the_formula(rng):
    """det of rows 1, 2, 3, 6 is L1 L2 sin(theta2)."""
    q = random_q(rng)
    square = scara.jacobian(q)[[0, 1, 2, 5]].astype(float)
    expected = SCARA.L1 * SCARA.L2 * math.sin(q[1])
    assert np.linalg.det(square) == pytest.approx(expected, rel=1e-13)


def test_forward_jacobian_and_drift_run_over_symbols():
    q = sympy.symbols('t1 t2 d3 t4')
    v = sympy.symbols('w1 w2 w3 w4')
    numbers = dict(zip((*q, *v), (0.3, 0.8, 0.1, -0.4, 1.0, -2.0, 0.3, 0.7), strict=True))
    values = np.array(list(numbers.values()))
    for symbolic, numeric in (
        (scara.forward(q).p_WF, scara.forward(values[:4]).p_WF),
        (scara.jacobian(q, frame='tool'), scara.jacobian(values[:4], frame='tool')),
        (scara.bias_acceleration(q, v), scara.bias_acceleration(values[:4], values[4:])),
    ):
        found = [float(sympy.sympify(x).subs(numbers)) for x in symbolic.ravel()]
        np.testing.assert_allclose(found, numeric.ravel().astype(float), atol=1e-15)


# ---- inverse ------------------------------------------------------------------------------------


def test_every_branch_reproduces_the_pose_and_one_is_the_configuration(rng):
    for _ in range(200):
        q = random_q(rng)
        q[3] = rng.uniform(-3.1, 3.1)
        R, p = scara.forward(q, ON_TREE)
        solutions = scara.inverse_pose(R, p, ON_TREE)
        assert {s.branch for s in solutions} == {'right', 'left'}
        for s in solutions:
            found = scara.forward(s.q, ON_TREE)
            np.testing.assert_allclose(found.p_WF, p, atol=1e-12)
            np.testing.assert_allclose(found.R_WF, R, atol=1e-12)
        own = next(s for s in solutions if (s.branch == 'right') == (q[1] > 0))
        # Near stretched the angle is the square root of rounding.
        atol = 1e-9 if abs(math.sin(q[1])) > 1e-3 else 1e-6
        np.testing.assert_allclose(own.q, q, atol=atol)


def test_right_is_the_posture_of_a_right_arm():
    right, left = scara.inverse([0.4, 0.0, -0.1], 0.0)
    assert (right.branch, left.branch) == ('right', 'left')
    # The elbow of the right arm is on the side of negative y when reaching along x.
    assert right.q[0] < 0.0 < right.q[1]
    np.testing.assert_allclose(left.q[:2], -right.q[:2])


def test_limits_are_checked_joint_by_joint():
    too_low = scara.inverse([0.4, 0.0, -0.3], 0.0)
    assert [s.status for s in too_low] == ['outside_limits'] * 2
    assert too_low[0].violations == ('joint 3 at 0.3 is outside 0 to 0.25',)
    rounded, beyond = np.array([1 + 1e-10, -1 - 1e-10]), np.array([1 + 1e-7, -1 - 1e-7])
    assert violations(rounded, [-1.0, -1.0], [1.0, 1.0]) == ()
    assert len(violations(beyond, [-1.0, -1.0], [1.0, 1.0])) == 2
    narrow = ScaraGeometry(lower=(-2.3, 0.0, 0.0, -6.28))
    assert [s.within_limits for s in scara.inverse([0.4, 0.0, -0.1], 0.0, narrow)] == [True, False]


def test_stretched_and_folded_give_one_solution_marked_singular():
    (stretched,) = scara.inverse([0.6, 0.0, -0.1], 0.5)
    np.testing.assert_allclose(stretched.q, [0.0, 0.0, 0.1, -0.5], atol=1e-15)
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
    np.testing.assert_allclose(p, 0.0, atol=1e-15)
    assert math.atan2(R[1, 0], R[0, 0]) == pytest.approx(0.2)


def test_the_reach_may_be_overshot_by_rounding_only():
    (solution,) = scara.inverse([0.6 * (1 + 1e-10), 0.0, 0.0], 0.0)
    assert solution.q[1] == 0.0


def test_the_nearest_usable_solution_is_chosen_and_turned_by_whole_turns():
    solutions = scara.inverse([0.4, 0.1, -0.1], -2.5)
    q = nearest(solutions, np.array([0.5, -1.2, 0.1, 0.0])).q
    assert q[1] < 0.0
    turned = nearest(
        solutions,
        np.array([0.5, -1.2, 0.1, -4.0]),
        revolute=[True, True, False, True],
        limits=(TREE.position_lower, TREE.position_upper),
    ).q
    assert turned[3] == pytest.approx(q[3] - 2 * math.pi)


def test_a_rotation_may_be_a_list():
    R, p = scara.forward([0.2, 0.7, 0.1, -0.4])
    found = scara.inverse_pose(R.tolist(), p.tolist())
    assert found[0].q == pytest.approx([0.2, 0.7, 0.1, -0.4])
