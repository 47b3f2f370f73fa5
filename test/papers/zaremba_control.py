# SPDX-License-Identifier: Apache-2.0
"""Errata C1 to C13 of Zaremba 1990, constraints and control: printed fails, corrected holds.

C4, C5, C12 and C13 are shapes and letters; C7 to C9, what our code could get wrong, are tests
(``test_errata``, ``test_program_file``,
``test_stabilization``).
"""

import numpy as np
import pinocchio as pin
import pytest
import yaml
from numpy.testing import assert_allclose
from oracles import PinocchioOracle, central_difference, complex_step_along
from samples import random_state, sample, shipped

from robot_dynamics_ros.constraints.reactions import reactions
from robot_dynamics_ros.constraints.registry import make_constraint
from robot_dynamics_ros.constraints.stabilization import stabilizing_effort
from robot_dynamics_ros.errors import SingularityError
from robot_dynamics_ros.model.kinematics import frame_motion
from robot_dynamics_ros.spatial.rotation import rotation_about
from robot_dynamics_ros.spatial.screw import force_cross

TARGET = {'origin': [0.1, 0.2, 0.3], 'rpy': [0.4, -0.3, 0.6]}
TILTING = yaml.safe_load("""
origin: {lissajous: {center: [0.2, 0.0, 0.6], amplitude: [0.0, 0.0, 0.02],
  frequency: [0.0, 0.0, 0.24]}}
turn: {axis: [1.0, 0.2, 0.0], angle: {lissajous: {center: 0.1, amplitude: 0.4, frequency: 0.25}}}
""")


def body_columns(tree, q, v, frame):
    """Return l_n^i as columns (6, n), and the rotation: velocities in the axes of E_n."""
    F = frame_motion(tree, q, v, frame)
    return np.vstack([F.R_WF.T @ F.J[:3], F.R_WF.T @ F.J[3:]]), F.R_WF


def test_c1_body_velocities_are_the_derivative_of_no_pose_parameters(rng):
    tree = sample('random_chain_7').tree
    frame = tree.link_names[-1]
    pose = make_constraint('pose', tree, 'pose', {'frame': frame, 'target': TARGET})
    printed, corrected = [], []
    for _ in range(10):
        q, v, _ = random_state(tree, rng)
        found = pose.evaluate(q, v, 0.0)
        if np.linalg.norm(found.f[3:]) > 2.9:
            continue  # too near half a turn for a difference quotient
        truth = central_difference(lambda x, v=v: pose.evaluate(x, v, 0.0).f, q, 1e-4)
        columns, C = body_columns(tree, q, v, frame)
        zero = np.zeros((3, 3))
        turned = pin.Jlog3(pin.exp3(found.f[3:]))  # Jr^-1 of the rotation vector
        diagonal = np.block([[C, zero], [zero, turned]])
        corrected += [diagonal @ columns - truth, found.Gamma - truth]
        printed.append(columns - truth)
    assert np.abs(printed).max() > 0.5
    # The quotient's own error, 1e-16 / h of third derivatives up to 1e3.
    assert max(np.abs(x).max() for x in corrected) < 1e-7


def test_c1_three_angles_need_the_matrix_b(rng):
    """omega in body axes = B(theta) theta_dot, B = [C3^T C2^T e1, C3^T e2, e3]."""
    (e1, e2, e3), theta, rate = np.eye(3), rng.uniform(-1, 1, 3), rng.normal(size=3)
    C2, C3 = rotation_about(e2, theta[1]), rotation_about(e3, theta[2])

    def C(x):
        return rotation_about(e1, x[0]) @ rotation_about(e2, x[1]) @ rotation_about(e3, x[2])

    spin = C(theta).T @ complex_step_along(C, theta, rate)
    omega = np.array([spin[2, 1], spin[0, 2], spin[1, 0]])
    assert_allclose(np.transpose([C3.T @ C2.T @ e1, C3.T @ e2, e3]) @ rate, omega)
    assert np.abs(rate - omega).max() > 0.1


def test_c2_columns_change_with_the_joints_behind_them(rng):
    tree = sample('rrpr').tree
    q, v, _ = random_state(tree, rng)
    truth = complex_step_along(lambda x: body_columns(tree, x, v, 'tool')[0], q, v)
    l, n = body_columns(tree, q, v, 'tool')[0].T, tree.n
    ours = [sum(force_cross(l[s]).T @ l[i] * v[s] for s in range(i + 1, n)) for i in range(n - 1)]
    assert_allclose(np.transpose([*ours, np.zeros(6)]), truth, atol=1e-13)
    assert_allclose([force_cross(x).T @ x for x in l], 0.0, atol=1e-15)  # printed
    assert np.abs(truth).max() > 0.1


def test_c3_the_time_derivative_is_total():
    """Of the 2 f_tq v in beta, f_tt alone leaves one half out."""
    tree, t, h = shipped('four_dof', limits_profile='wide').tree, 2.3, 1e-4
    plane = make_constraint('plane', tree, 'plane', {'frame': 'tool', 'plane': TILTING})
    q, v = np.array([0.2, -1.0, -0.5, 0.6]), np.array([0.3, -0.2, 0.25, 0.4])
    before, now, after = (plane.evaluate(q + s * v, v, t + s).f_dot for s in (-h, 0.0, h))
    truth, ours = (after - before) / (2 * h), plane.evaluate(q, v, t).beta
    # The part of beta that is odd in v is 2 f_qt v.
    mixed = (ours - plane.evaluate(q, -v, t).beta) / 2
    assert_allclose(ours, truth, atol=1e-7)
    assert_allclose(mixed / 2, 0.046, atol=5e-4)


def test_c6_the_way_from_the_reactions_to_the_law_needs_p_plus_and_v(rng):
    robot = sample('rrpr')
    q, v, still = *random_state(robot.tree, rng)[:2], np.zeros(4)
    A = PinocchioOracle.of(robot).mass_matrix(q)
    b = PinocchioOracle.of(robot).inverse_dynamics(q, v, still)
    for m in (2, 4):  # for m = n, P = A and the printed statement is exact: Q_c = Gamma^T N
        Gamma, beta, zero = rng.normal(size=(m, 4)), rng.normal(size=m), np.zeros(m)
        D = Gamma @ np.linalg.inv(A) @ Gamma.T
        P, plus = Gamma.T @ np.linalg.solve(D, Gamma), np.linalg.pinv(Gamma)
        assert np.linalg.matrix_rank(P, 1e-12 * np.abs(P).max()) == m
        N = reactions(A, b, still, Gamma, beta)
        ours = A @ (plus @ D @ plus.T) @ Gamma.T @ N
        free, printed = (
            stabilizing_effort(A, b, Gamma, beta, zero, zero, 0.0, 0.0, x).effort
            for x in (-np.linalg.solve(A, b), still)
        )
        scale = np.abs(ours).max()
        assert_allclose(free, ours, atol=1e-10 * scale)
        assert (np.abs(printed - ours).max() < 1e-10 * scale) == (m == 4)


def test_c10_without_v_the_free_joints_are_not_accelerated_whatever_they_do(rng):
    Gamma, zero = rng.normal(size=(2, 4)), np.zeros(2)
    found = stabilizing_effort(
        np.eye(4), np.zeros(4), Gamma, rng.normal(size=2), zero, zero, 9.0, 6.0
    )
    null_space = np.linalg.svd(Gamma)[2][2:]
    assert_allclose(null_space @ found.acceleration, 0.0, atol=1e-14)


def test_c11_reactions_do_not_exist_for_more_constraints_than_joints(rng):
    """The force does, in the form of Udwadia and Kalaba: see ``test_reactions``."""
    A, Gamma = np.eye(3) + 0.1, rng.normal(size=(4, 3))
    D = Gamma @ np.linalg.inv(A) @ Gamma.T
    assert np.linalg.svd(D, compute_uv=False)[-1] < 1e-14
    with pytest.raises(SingularityError, match='more constraints than joints'):
        reactions(A, np.zeros(3), np.zeros(3), Gamma, np.zeros(4))
