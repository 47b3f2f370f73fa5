# SPDX-License-Identifier: Apache-2.0
"""Errata N1 to N5 of the course notes: the printed form or misreading fails, ours holds.

``notes`` is the recursion as the notes write it, with every passage that is printed wrongly, or
can be misread, as a switch. The reference is Pinocchio's model of the same URDF. All arms here
have their joint axes along z, as in the notes.
"""

from __future__ import annotations

import numpy as np
import pytest
from oracles import PinocchioOracle
from samples import random_state, sample

from robot_dynamics_ros.dynamics import make_formulation

ARMS = ('scara', 'prr', 'rp', 'planar_2r', 'four_dof', 'rrpr')
PLANAR = ('scara', 'prr', 'rp', 'planar_2r')  # every turn about parallel axes
Z = np.array([0.0, 0.0, 1.0])


def notes(
    tree,
    q,
    v,
    a,
    start=1.0,
    left_indices='own',
    turn='(R w) x z',
    coriolis=2.0,
    gyroscopic=1.0,
    inertial=1.0,
    tip=None,
):
    """Return tau by the recursion of the notes.

    Args:
        tree: A chain with all axes along z.
        q: Positions.
        v: Velocities.
        a: Accelerations.
        start: Factor on the upward acceleration that represents gravity (N1).
        left_indices: 'own', or 'printed': turned once more in the lines of the CoM (N2).
        turn: '(R w) x z' or 'R (w x z)' (N3).
        coriolis: Factor of w x d' z for a slider (N4).
        gyroscopic: Factor of w x I w (N4).
        inertial: 0 for a static balance of forces (N5).
        tip: Pose R, O of frame n+1 in frame n, and the pair f, n at it (N5).
    """
    w, dw, dv = np.zeros(3), np.zeros(3), -start * tree.gravity
    frames, forces, moments = [], [], []
    for i in range(tree.n):
        R_up, O = tree.placement(i, q[i])
        R = R_up.T
        dv = R @ (np.cross(dw, O) + np.cross(w, np.cross(w, O)) + dv)
        carried, w_p = R @ w, w
        w, dw = carried, R @ dw
        if tree.prismatic[i]:
            dv = dv + coriolis * np.cross(w, v[i] * Z) + a[i] * Z
        else:
            term = np.cross(carried, v[i] * Z)
            if turn == 'R (w x z)':
                term = R @ np.cross(w_p, v[i] * Z)
            dw = dw + term + a[i] * Z
            w = carried + v[i] * Z
        P, I = tree.com[i], tree.inertia[i]
        again = R if left_indices == 'printed' else np.eye(3)
        dv_C = again @ (np.cross(again @ dw, P) + np.cross(w, np.cross(w, P)) + dv)
        forces.append(inertial * tree.mass[i] * dv_C)
        moments.append(inertial * (I @ dw + gyroscopic * np.cross(w, I @ w)))
        frames.append((R_up, O))
    R_next, O_next, f, n = tip if tip else (np.eye(3), np.zeros(3), np.zeros(3), np.zeros(3))
    tau = np.zeros(tree.n)
    for i in reversed(range(tree.n)):
        f_next = R_next @ f
        n = moments[i] + R_next @ n + np.cross(tree.com[i], forces[i]) + np.cross(O_next, f_next)
        f = f_next + forces[i]
        tau[i] = (f if tree.prismatic[i] else n) @ Z
        R_next, O_next = frames[i]
    return tau


def states(robot):
    rng = np.random.default_rng(18)
    return [random_state(robot.tree, rng) for _ in range(18)]


def effect(arm, **reading):
    """Return the largest error in tau (N m or N) of a reading over 18 states of an arm."""
    robot = sample(arm)
    oracle = PinocchioOracle(robot.xml, robot.gravity, robot.tree.joint_names)
    return max(
        np.abs(notes(robot.tree, *state, **reading) - oracle.inverse_dynamics(*state)).max()
        for state in states(robot)
    )


NOTHING = 1e-12  # rounding of efforts up to 100 N m


@pytest.mark.parametrize('arm', ARMS)
def test_the_corrected_recursion_and_ours_hold(arm):
    assert effect(arm) < NOTHING
    tree = sample(arm).tree
    ours = make_formulation('newton_euler', tree)
    for state in states(sample(arm)):
        assert np.abs(ours.inverse_dynamics(*state) - notes(tree, *state)).max() < NOTHING


@pytest.mark.parametrize('arm', ARMS)
def test_n1_a_start_velocity_instead_of_a_start_acceleration_loses_all_weight(arm):
    lost, turned = effect(arm, start=0.0), effect(arm, start=-1.0)
    weight = max(
        np.abs(make_formulation('pinocchio', sample(arm).tree).gravity_forces(q)).max()
        for q, _, _ in states(sample(arm))
    )
    assert weight > 2.0  # N m or N
    assert lost == pytest.approx(weight, rel=1e-12)
    assert turned == pytest.approx(2 * weight, rel=1e-12)


def test_n1_the_scara_loses_the_weight_of_quill_and_tool():
    assert effect('scara', start=0.0) == pytest.approx((1.15 + 0.72) * 9.81, rel=1e-12)


@pytest.mark.parametrize('arm', ARMS)
def test_n2_the_left_indices_as_printed_turn_once_too_often(arm):
    assert effect(arm, left_indices='printed') > 0.3


def test_n3_turning_after_the_product_shows_on_spatial_arms_alone():
    reading = {'turn': 'R (w x z)'}
    assert effect('rrpr', **reading) > 1.0
    assert effect('four_dof', **reading) > 0.1
    for arm in PLANAR:
        assert effect(arm, **reading) < NOTHING, arm


def test_n4_the_coriolis_term_of_a_slider_is_missed_by_scara_and_prr():
    reading = {'coriolis': 0.0}
    assert effect('rp', **reading) > 1.0
    assert effect('rrpr', **reading) > 1.0
    for arm in ('scara', 'prr'):
        assert effect(arm, **reading) < NOTHING, arm


def test_n4_the_gyroscopic_moment_is_missed_by_all_planar_arms():
    reading = {'gyroscopic': 0.0}
    assert effect('rrpr', **reading) > 0.05
    assert effect('four_dof', **reading) > 0.005
    for arm in PLANAR:
        assert effect(arm, **reading) < NOTHING, arm


@pytest.mark.parametrize('arm', ARMS)
def test_n5_a_static_balance_of_the_links_fails(arm):
    assert effect(arm, inertial=0.0) > 1.0


def test_n5_the_terminal_pair_is_what_the_last_link_exerts_on_the_environment():
    robot, rng = sample('rrpr'), np.random.default_rng(3)
    oracle = PinocchioOracle(robot.xml, robot.gravity, robot.tree.joint_names)
    q, v, a = random_state(robot.tree, rng)
    load = rng.normal(size=6)  # on the tool, in its axes about its origin
    tool = robot.tree.frame('tool')
    truth = oracle.inverse_dynamics(q, v, a, {'tool': load})

    def with_pair(sign):
        pair = (tool.R_BF, tool.p_BF, sign * load[:3], sign * load[3:])
        return notes(robot.tree, q, v, a, tip=pair)

    assert np.abs(with_pair(-1.0) - truth).max() < NOTHING
    assert np.abs(with_pair(+1.0) - truth).max() > 1.0
    ours = make_formulation('newton_euler', robot.tree)
    assert np.abs(ours.inverse_dynamics(q, v, a, {'tool': load}) - truth).max() < NOTHING
