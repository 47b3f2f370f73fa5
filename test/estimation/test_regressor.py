# SPDX-License-Identifier: Apache-2.0
"""Inertial parameters make a robot; ``dynamics/test_identities`` has regressors of all robots."""

import tracemalloc

import numpy as np
import pytest
import tables
from numpy.testing import assert_allclose
from samples import SAMPLES, sample

from robot_dynamics_ros import estimation
from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.dynamics.newton_euler import NewtonEuler
from robot_dynamics_ros.estimation.regressor import (
    gravity_regressor,
    inertial_parameters,
    regressor,
    with_inertial_parameters,
)
from robot_dynamics_ros.model import load_mechanism


@pytest.mark.parametrize('name', SAMPLES)
def test_parameters_make_the_same_robot_again(name):
    tree = sample(name).tree
    again = with_inertial_parameters(tree, inertial_parameters(tree))
    assert_allclose(again.mass, tree.mass, rtol=1e-15)
    assert_allclose(again.com, tree.com, rtol=0, atol=1e-15)
    # Steiner's term of a few kg m^2 goes forth and back.
    assert_allclose(again.inertia, tree.inertia, rtol=0, atol=1e-15)


def test_rows_of_many_states_take_little_more_memory_than_their_result():
    tree, q = sample('scara').tree, np.full((20_000, 4), 0.3)
    gravity_regressor(tree, q[:1])
    tracemalloc.start()
    nbytes = gravity_regressor(tree, q).nbytes
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * nbytes


def test_rows_of_loops_are_those_of_kane_s_recursion(rng):
    robot = load_mechanism(*shipped_mechanism('four_bar'), mappings={'l2p': '0.42'})
    q = np.array([[0.1, 0.2], [-0.2, 0.1], [-0.3, 0.4]])
    v, a = rng.normal(size=(2, *q.shape))
    kane = make_formulation('kane', robot)
    wanted = [kane.inverse_dynamics(*row) for row in zip(q, v, a, strict=True)]
    found = regressor(robot, q, v, a) @ inertial_parameters(robot)
    assert_allclose(found, wanted, rtol=1e-10)


TREE, ROWS = sample('scara').tree, np.zeros((5, 4))
LIGHT = inertial_parameters(TREE) * (np.arange(40) != 20)


@pytest.mark.parametrize(
    'change',
    [
        {'gravity': np.array([1.0, -2.0, 3.0])},
        {'p_PJ': TREE.p_PJ + 0.1},
        {'R_PJ': TREE.R_PJ[:, :, [1, 2, 0]]},
        {'axis': TREE.axis[:, [1, 2, 0]]},
        {'prismatic': tuple(not x for x in TREE.prismatic)},
        {'parent': (-1, -1, 0, 1)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_code_is_shared_by_robots_with_the_same_joints_only(change, rng):
    q, v, a = rng.normal(size=(3, 1, 4))
    for tree in (TREE, TREE.with_changes(**change)):
        (wanted,) = map(NewtonEuler(tree).regressor, q, v, a)
        assert_allclose(regressor(tree, q, v, a)[0], wanted, rtol=0, atol=1e-13)


test_what_is_wrong_is_refused_by_name = tables.called("""
regressor(TREE, ROWS, ROWS[:, 1:], ROWS) | ShapeError: v has shape (5, 3); expected (5, 4)
with_inertial_parameters(TREE, ROWS[0])  | ShapeError: parameters has shape (4,)
with_inertial_parameters(TREE, LIGHT)    | ModelError: body 'link3': mass 0 kg
""", globals(), estimation.regressor)  # fmt: skip
