# SPDX-License-Identifier: Apache-2.0
"""The regressor against Pinocchio's, on all shared robots."""

from __future__ import annotations

import numpy as np
import pytest
from recorded_arm import pinocchio_parameters, pinocchio_regressor
from samples import SAMPLES, random_state, sample

from robot_dynamics_ros.errors import ModelError, ShapeError
from robot_dynamics_ros.estimation.regressor import (
    inertial_parameters,
    regressor,
    with_inertial_parameters,
)
from robot_dynamics_ros.spatial.inertia import tensor_of


@pytest.fixture(params=SAMPLES)
def robot(request):
    return sample(request.param)


def states(robot, rng, count=6):
    drawn = [random_state(robot.tree, rng) for _ in range(count)]
    return tuple(np.array(part) for part in zip(*drawn, strict=True))


def test_the_regressor_is_pinocchios(robot, rng):
    q, v, a = states(robot, rng)
    ours = regressor(robot.tree, q, v, a)
    for k in range(len(q)):
        theirs = pinocchio_regressor(robot, q[k], v[k], a[k])
        # Entries up to 1e3; rounding of two recursions over at most 7 bodies.
        np.testing.assert_allclose(ours[k], theirs, rtol=0, atol=1e-10)


def test_the_parameters_are_those_pinocchio_reads(robot):
    ours = inertial_parameters(robot.tree)
    np.testing.assert_allclose(ours, pinocchio_parameters(robot), rtol=0, atol=1e-12)


def test_the_regressor_does_not_depend_on_the_inertia(robot, rng):
    q, v, a = states(robot, rng, 2)
    other = robot.tree.with_changes(mass=2.0 * robot.tree.mass, com=0.0 * robot.tree.com)
    np.testing.assert_array_equal(regressor(robot.tree, q, v, a), regressor(other, q, v, a))


def test_parameters_make_the_same_robot_again(robot):
    again = with_inertial_parameters(robot.tree, inertial_parameters(robot.tree))
    np.testing.assert_allclose(again.mass, robot.tree.mass, rtol=1e-15)
    np.testing.assert_allclose(again.com, robot.tree.com, rtol=0, atol=1e-15)
    # Steiner's term of a few kg m^2 goes forth and back.
    np.testing.assert_allclose(again.inertia, robot.tree.inertia, rtol=0, atol=1e-15)


def test_the_six_elements_stand_where_the_tensor_has_them():
    block = np.array([9, 9, 9, 9, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    expected = [[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]]
    np.testing.assert_array_equal(tensor_of(block), expected)


def test_arrays_of_a_wrong_shape_are_refused_by_name():
    tree = sample('scara').tree
    good = np.zeros((5, 4))
    with pytest.raises(ShapeError, match=r'v has shape \(5, 3\); expected \(5, 4\)'):
        regressor(tree, good, np.zeros((5, 3)), good)
    with pytest.raises(ShapeError, match=r'parameters has shape \(3,\)'):
        with_inertial_parameters(tree, np.zeros(3))


def test_a_body_without_mass_is_refused_by_name():
    tree = sample('scara').tree
    parameters = inertial_parameters(tree)
    parameters[20] = 0.0
    with pytest.raises(ModelError, match="body 'link3': mass 0 kg"):
        with_inertial_parameters(tree, parameters)
