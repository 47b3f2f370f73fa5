# SPDX-License-Identifier: Apache-2.0
"""Worked numbers, branches and singular places of the four-joint arm, as it is specified."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from robot_dynamics_ros.errors import UnreachableError
from robot_dynamics_ros.kinematics import four_dof
from robot_dynamics_ros.kinematics.four_dof import FOUR_DOF, FOUR_DOF_WIDE
from robot_dynamics_ros.kinematics.solution import Solution, nearest

EXAMPLE = np.array([0.3, -1.1, -0.4, 0.6])
A2, A3 = 0.30, 0.25


# ---- forward ------------------------------------------------------------------------------------


def test_worked_numbers():
    """Section 8 of the specification, ten digits; ``test_closed_kinematics`` has R and J."""
    R, p = four_dof.forward(EXAMPLE)
    assert_allclose(p, [0.1468955353, 0.0454401140, 0.5167359547], atol=5e-11)
    solutions = four_dof.inverse(p, -0.9)
    inside = [(0.3, -1.4631478012, 0.4, 0.1631478012), (0.3, -1.1, -0.4, 0.6)]
    outside = [
        (-2.8415926536, -2.0415926536, 0.4, 0.7415926536),
        (-2.8415926536, -1.6784448524, -0.4, 1.1784448524),
    ]
    assert_allclose([s.q for s in solutions], [*inside, *outside], atol=5e-11)
    assert [s.status for s in solutions] == ['ok', 'ok', 'outside_limits', 'outside_limits']
    assert not any(s.singular for s in solutions)
    pose = four_dof.inverse_pose(R, p)
    assert_allclose([s.q for s in pose], inside, atol=5e-11)


# ---- inverse ------------------------------------------------------------------------------------


def test_stretched_gives_one_solution_per_shoulder_branch_marked_singular():
    q = np.array([0.3, -1.1, 0.0, 0.6])
    R, p = four_dof.forward(q)
    (solution,) = four_dof.inverse_pose(R, p * (1 - 1e-16), FOUR_DOF)
    assert_allclose(solution.q, q, atol=1e-7)
    assert solution.singular == ('elbow',)
    assert solution.status == 'singular'


def test_on_the_waist_axis_the_waist_keeps_its_angle_and_is_marked():
    p = [0.0, 0.0, 0.52]
    solutions = four_dof.inverse(p, -0.9, current=[0.4, -1.0, 0.2, 0.1])
    assert [s.q[0] for s in solutions] == [0.4, 0.4]
    assert all('shoulder' in s.singular for s in solutions)
    for s in solutions:
        assert_allclose(four_dof.forward(s.q).p_WF, p, atol=1e-12)


def test_folded_onto_the_shoulder_axis_the_shoulder_keeps_its_angle():
    equal = replace(FOUR_DOF, a2=0.3, a3=0.3, tool=(0.0, 0.0, 0.0))
    (solution,) = four_dof.inverse([0, 0, 0], 0.2, equal, current=[0.1, -0.7, 0.0, 0.0])
    assert_allclose(solution.q[:2], [0.1, -0.7])
    assert set(solution.singular) == {'elbow', 'shoulder'}


def test_the_branch_is_held_where_the_elbow_is_stretched():
    """Section 3.4: the nearest in the limits, but no flicker while theta3 is about 0."""
    near = four_dof.inverse(four_dof.forward([0.3, -1.1, 1e-8, 0.6]).p_WF, -0.5)
    branches = {s.branch for s in near if s.within_limits}
    for branch in branches:
        chosen = nearest(near, np.array([0.3, -1.1, 0.0, 0.6]), keep_branch=branch)
        assert chosen.branch == branch
    far = four_dof.inverse(four_dof.forward(EXAMPLE).p_WF, -0.9)
    assert nearest(far, EXAMPLE, keep_branch='front_up').branch == 'front_down'
    weights = np.array([1.0, 1.0, 0.0, 1.0])
    assert nearest(far, np.array([0.3, -1.4, -0.4, 0.2]), weights=weights).branch == 'front_up'


def test_a_turn_within_the_limits_is_found_where_none_is_nearer():
    """Limits from 0 to a turn: an angle of -1 is one of 5.28, from wherever the arm comes."""
    lower, upper = np.zeros(2), np.array([6.2, 0.5])
    given = Solution(np.array([-1.0, -1.0]), 'only', (), ('joint 1 is outside',))
    for now in (0.5, 6.0, 9.0):
        found = nearest([given], np.array([now, 0.0]), revolute=[True, False], limits=(
            np.array([0.0, -2.0]), upper))  # fmt: skip
        assert_allclose(found.q, [2 * np.pi - 1.0, -1.0])
    with pytest.raises(UnreachableError, match='joint 2 at -1 is outside'):
        nearest([given], np.zeros(2), revolute=[True, True], limits=(lower, upper))


def stretched(theta_1, theta_2, pitch, tool):
    """Return joints of the stretched arm and the place of a tool point, by the wrist."""
    q = np.array([theta_1, theta_2, 0.0, pitch - theta_2])
    return q, four_dof.forward(q).p_WF + four_dof.forward(q).R_WF @ tool


@pytest.mark.parametrize('t_z', [0.05, 1e-3])
def test_points_on_the_boundary_are_reached_with_a_tool_beside_the_plane_of_the_arm(t_z, rng):
    """Stretched in any direction; and so that the tool is as near the waist axis as it can be.

    There, rounding of the position by 1e-17 m changes the tool's lever by 1e-9 m and more.
    """
    tool = (0.03, 0.12, t_z)
    geometry = replace(FOUR_DOF_WIDE, tool=tool)
    for _ in range(40):
        theta_1, theta_2, pitch = rng.uniform(-np.pi, np.pi, 3)
        r = math.sin(pitch) * tool[1] - math.cos(pitch) * tool[0]
        nearest_axis = -math.acos(r / (A2 + A3))
        for angle in (theta_2, nearest_axis):
            q, p = stretched(theta_1, angle, pitch, tool)
            found = four_dof.inverse(p, pitch, geometry, point='tool')
            places = [four_dof.forward(one.q, geometry, point='tool').p_WF for one in found]
            # Where the elbow is stretched a micrometre along the arm is a milliradian of it.
            assert min(np.abs(place - p).max() for place in places) < 1e-8
