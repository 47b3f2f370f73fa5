# SPDX-License-Identifier: Apache-2.0
"""Axes and inertias of the screw recursion by Pinocchio, and theorems 1 to 3 by complex steps."""

from functools import partial
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from oracles import PinocchioOracle
from samples import random_state, random_tree

from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.errors import UnknownNameError

# Products of up to ten 6x6 matrices with entries of order one to ten (kg, m).
ROUNDING = 1e-12
STEP = 1e-100


@pytest.fixture(params=[(13, 0.0), (15, 0.8)], ids=['chain', 'tree'])
def case(request):
    """Return a robot with three turning joints, its screw formulation and a position."""
    seed, branching = request.param
    robot = random_tree(rng := np.random.default_rng(seed), 4, branching)
    q, _, _ = random_state(robot.tree, rng)
    return robot, make_formulation('screw', robot.tree), q


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING)


def test_axes_and_composite_inertias_are_those_of_pinocchio(case):
    """Column i in body k: inboard joints are in l, outboard ones in g, gravity is base's l."""
    robot, screw, q = case
    tree, oracle, x = robot.tree, PinocchioOracle.of(robot), screw.geometry(q)
    poses = [oracle.frame_pose(name, q) for name in tree.link_names]
    axes = [oracle.frame_jacobian(name, q)[:, i] for i, name in enumerate(tree.link_names)]
    for (k, (R, p)), (i, axis) in product(enumerate(poses), enumerate(axes)):
        moved = axis[:3] + np.cross(axis[3:], p - poses[i][1])
        seen = np.concatenate([R.T @ moved, R.T @ axis[3:]])
        close(x.l_derivative(k, i), seen * (i in tree.path(k)))
        close(x.g_derivative(k, i), seen * (k in tree.path(i)))
        close(x.l_derivative(k, -1), [*(R.T @ tree.gravity), 0, 0, 0])
    oracle.mass_matrix(q)
    for i, joint in enumerate(oracle.joints):
        close(x.composite_derivative(i), oracle.data.Ycrb[joint.id].matrix())


def test_the_theorems_give_every_derivative_up_to_order_3(case):
    """A derivative is that of the one of lower order, in any order of indices, in new arrays."""
    _, screw, q = case
    n, x = len(q), screw.geometry(q)
    bodies, moved = range(n), [screw.geometry(q + STEP * 1j * e) for e in np.eye(n)]
    asked = [('composite_derivative', (i,)) for i in bodies]
    asked += [('g_derivative', at) for at in product(bodies, bodies)]
    asked += [('l_derivative', at) for at in product(bodies, range(-1, n))]
    lower = [t for order in range(3) for t in combinations_with_replacement(bodies, order)]
    for (name, at), by, t in product(asked, lower, bodies):
        found = getattr(x, name)(*at, [t, *by])
        close(found, getattr(moved[t], name)(*at, by).imag / STEP)
        found[...] = getattr(x, name)(*at)[...] = 7.0
    assert np.array_equal(x.A, screw.geometry(q).A)


@pytest.mark.parametrize('index', [-1, 4])
def test_an_index_of_no_joint_is_refused(case, index):
    x, said = case[1].geometry(case[2]), rf'unknown joint number {index}; known: 0, 1'
    for ask in (partial(x.l_derivative, 3, 0), partial(x.g_derivative, 0, 3)):
        with pytest.raises(UnknownNameError, match=said):
            ask([index])
    with pytest.raises(UnknownNameError, match=said):
        x.composite_derivative(index)
