# SPDX-License-Identifier: Apache-2.0
"""The regressor against Pinocchio's, on all shared robots."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import PinocchioOracle
from recorded_arm import pinocchio_parameters
from samples import SAMPLES, random_state, sample

from robot_dynamics_ros.errors import ModelError, ShapeError
from robot_dynamics_ros.estimation.regressor import (
    inertial_parameters,
    regressor,
    with_inertial_parameters,
)


@pytest.fixture(params=SAMPLES)
def robot(request):
    return sample(request.param)


def test_the_regressor_is_pinocchios(robot, rng):
    states = [random_state(robot.tree, rng) for _ in range(6)]
    oracle = PinocchioOracle.of(robot)
    for ours, state in zip(regressor(robot.tree, *np.stack(states, 1)), states, strict=True):
        # Entries up to 1e3; rounding of two recursions over at most 7 bodies.
        assert_allclose(ours, oracle.regressor(*state), rtol=0, atol=1e-10)


def test_the_parameters_are_those_pinocchio_reads(robot):
    ours = inertial_parameters(robot.tree)
    assert_allclose(ours, pinocchio_parameters(robot), rtol=0, atol=1e-12)


def test_parameters_make_the_same_robot_again(robot):
    again = with_inertial_parameters(robot.tree, inertial_parameters(robot.tree))
    assert_allclose(again.mass, robot.tree.mass, rtol=1e-15)
    assert_allclose(again.com, robot.tree.com, rtol=0, atol=1e-15)
    # Steiner's term of a few kg m^2 goes forth and back.
    assert_allclose(again.inertia, robot.tree.inertia, rtol=0, atol=1e-15)


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
