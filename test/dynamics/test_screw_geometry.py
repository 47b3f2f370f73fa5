# SPDX-License-Identifier: Apache-2.0
"""Theorems 1 to 3 and the derivatives of the mass matrix, against the plain product rule."""

from __future__ import annotations

from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest
from joint_transforms import JointTransforms
from oracles import complex_step
from samples import random_state, random_tree, sample

from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.errors import UnknownNameError

# Products of up to ten 6x6 matrices with entries of order one to ten (kg, m).
ROUNDING = 1e-12


@pytest.fixture(params=['chain', 'tree'])
def case(request):
    """Return a robot's geometry and the oracle of the same position; branches in the tree."""
    rng = np.random.default_rng(11)
    tree = random_tree(rng, 4, branching=0.8 if request.param == 'tree' else 0.0).tree
    q, _, _ = random_state(tree, rng)
    return make_formulation('screw', tree).geometry(q), JointTransforms(tree, q)


def index_tuples(n):
    """Return all sorted tuples of order 0 to 3: most of them are out of range somewhere."""
    return [t for p in range(4) for t in combinations_with_replacement(range(n), p)]


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING)


def test_theorems_1_and_2_give_every_derivative_of_l_and_g_up_to_order_3(case):
    x, oracle = case
    for k, i in product(range(oracle.tree.n), range(-1, oracle.tree.n)):
        for by in index_tuples(oracle.tree.n):
            close(x.l_derivative(k, i, by), oracle.l(k, i, by))
            if i >= 0:
                close(x.g_derivative(k, i, by), oracle.g(k, i, by))


def test_theorem_3_gives_every_derivative_of_the_composite_inertia_up_to_order_3(case):
    x, oracle = case
    for i in range(oracle.tree.n):
        for by in index_tuples(oracle.tree.n):
            close(x.composite_derivative(i, by), oracle.composite(i, by))
    for (i, s), Theta in x.composite_in.items():  # (2.10)
        L = oracle.wrench_transform(i, s, []) if i != s else np.eye(6)
        close(Theta, L @ oracle.composite(s, []) @ L.T)


def test_unsorted_indices_give_the_same_derivative_and_results_are_copies(case):
    x, _ = case
    for order in [(), *permutations((0, 1, 3)), *permutations((2, 2, 3))]:
        by = tuple(sorted(order))
        for f, *at in (
            (x.l_derivative, 3, 0),
            (x.g_derivative, 0, 3),
            (x.composite_derivative, 0),
        ):
            found = f(*at, order)
            assert np.array_equal(found, f(*at, by))
            found[...] = 7.0
            assert not np.array_equal(found, f(*at, by))


@pytest.mark.parametrize('index', [-1, 4])
def test_an_index_of_no_joint_is_refused(case, index):
    x, _ = case
    for ask in (
        lambda: x.l_derivative(3, 0, [index]),
        lambda: x.g_derivative(0, 3, [index]),
        lambda: x.composite_derivative(0, [index]),
        lambda: x.l_derivative(index, 0),
    ):
        with pytest.raises(UnknownNameError, match=rf'unknown joint number {index}; known: 0, 1'):
            ask()


@pytest.mark.parametrize('name', ['rrpr', 'random_tree_7'])
def test_derivatives_of_mass_matrix_and_gravity_are_complex_steps(name):
    """First derivatives of the mass matrix, (2.6): see ``test_lagrange``."""
    tree = sample(name).tree.with_gravity((1.2, -3.4, -8.1))
    q, _, _ = random_state(tree, np.random.default_rng(12))
    screw = make_formulation('screw', tree)
    x = screw.geometry(q)
    close(x.ddA, complex_step(screw.mass_matrix_derivatives, q))
    assert abs(x.ddA).max() > 1
    close(x.gravity_forces, screw.gravity_forces(q))
    close(x.gravity_derivatives, complex_step(screw.gravity_forces, q))
