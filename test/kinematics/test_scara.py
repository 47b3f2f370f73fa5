# SPDX-License-Identifier: Apache-2.0
"""Closed kinematics of the SCARA against multiplication, differentiation and Pinocchio."""

import math

import numpy as np
import pytest
import sympy
from oracles import PinocchioOracle, complex_step, complex_step_along
from samples import sample

from robot_dynamics_ros.kinematics import scara
from robot_dynamics_ros.kinematics.scara import SCARA, ScaraGeometry
from robot_dynamics_ros.kinematics.solution import nearest

ROBOT = sample('scara')
TREE = ROBOT.tree
ON_TREE = ScaraGeometry.from_tree(TREE)


def random_q(rng):
    return rng.uniform(SCARA.lower, SCARA.upper)


def modified_denavit_hartenberg(alpha, a, d, theta):
    """Cui 2013, (1): Rx(alpha) Dx(a) Rz(theta) Dz(d)."""
    ca, sa, ct, st = np.cos(alpha), np.sin(alpha), np.cos(theta), np.sin(theta)
    return np.array(
        [
            [ct, -st, 0, a],
            [st * ca, ct * ca, -sa, -sa * d],
            [st * sa, ct * sa, ca, ca * d],
            [0, 0, 0, 1],
        ]
    )


def table_1(q):
    """The pose of frame {4} by the table of the paper."""
    t1, t2, d3, t4 = q
    rows = [(0, 0, 0, t1), (0, SCARA.L1, 0, t2), (math.pi, SCARA.L2, d3, 0), (0, 0, 0, t4)]
    T = np.eye(4)
    for row in rows:
        T = T @ modified_denavit_hartenberg(*row)
    return T


def test_forward_is_the_product_of_the_link_transforms_of_table_1(rng):
    for _ in range(20):
        q = random_q(rng)
        R, p = scara.forward(q)
        T = table_1(q)
        # cos(pi) and sin(pi) carry 1e-16.
        np.testing.assert_allclose(R, T[:3, :3], atol=1e-15)
        np.testing.assert_allclose(p, T[:3, 3], atol=1e-15)


def test_forward_from_the_tree_is_the_tool_of_pinocchio(rng):
    oracle = PinocchioOracle(ROBOT.xml, ROBOT.gravity, TREE.joint_names)
    q = random_q(rng)
    R, p = oracle.frame_pose('tool', q)
    found = scara.forward(q, ON_TREE)
    np.testing.assert_allclose(found.R_WF, R, atol=1e-15)
    np.testing.assert_allclose(found.p_WF, p, atol=1e-15)


def test_the_default_geometry_is_that_of_the_shipped_robot_without_its_column():
    assert ScaraGeometry(height=0.4) == ON_TREE


def test_the_linear_jacobian_is_the_derivative_of_the_position(rng):
    for _ in range(10):
        q = random_q(rng)
        J = complex_step(lambda x: scara.forward(x).p_WF, q)
        np.testing.assert_allclose(scara.jacobian(q)[:3], J, atol=1e-15)


@pytest.mark.parametrize('frame', ['base', 'tool'])
def test_jacobian_and_drift_are_those_of_pinocchio(frame, rng):
    oracle = PinocchioOracle(ROBOT.xml, ROBOT.gravity, TREE.joint_names)
    for _ in range(10):
        q, v = random_q(rng), rng.normal(size=4)
        R, _ = oracle.frame_pose('tool', q)
        turn = np.kron(np.eye(2), R.T if frame == 'tool' else np.eye(3))
        J, bias = oracle.frame_jacobian('tool', q), oracle.frame_bias('tool', q, v)
        np.testing.assert_allclose(scara.jacobian(q, ON_TREE, frame=frame), turn @ J, atol=1e-15)
        # Accelerations up to 10 m/s^2.
        found = scara.bias_acceleration(q, v, ON_TREE, frame=frame)
        np.testing.assert_allclose(found, turn @ bias, atol=1e-14)


def test_the_drift_is_the_rate_of_the_jacobian_times_the_velocity(rng):
    q, v = random_q(rng), rng.normal(size=4)
    rate = complex_step_along(scara.jacobian, q, v)
    np.testing.assert_allclose(scara.bias_acceleration(q, v), rate @ v, atol=1e-14)


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
