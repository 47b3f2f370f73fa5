# SPDX-License-Identifier: Apache-2.0
"""Pinocchio behind our interface agrees with Pinocchio reading the file itself."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import PinocchioOracle, relative_error
from samples import random_state, random_tree

from robot_dynamics_ros.dynamics.registry import make_formulation

# Two runs of one library that differ in the rounding of the model's constants.
ROUNDING = 1e-13


@pytest.fixture
def star():
    """Return a tree whose branches interleave: successive joints lie on different branches."""
    return random_tree(np.random.default_rng(5), 8, branching=1.0)


def test_interleaved_branches_keep_every_matrix_in_the_order_of_the_tree(star):
    tree, rng = star.tree, np.random.default_rng(6)
    reference = make_formulation('pinocchio', tree)
    oracle = PinocchioOracle(star.xml, star.gravity, tree.joint_names)
    assert list(reference.order) != list(range(tree.n)), 'the sample must need another order'
    q, v, a = random_state(tree, rng)
    M = oracle.mass_matrix(q)
    assert relative_error(reference.mass_matrix(q), M) < ROUNDING
    assert relative_error(reference.gravity_forces(q), oracle.gravity_forces(q)) < ROUNDING
    c = oracle.coriolis_matrix(q, v) @ v
    assert relative_error(reference.coriolis_matrix(q, v) @ v, c) < ROUNDING
    tau = oracle.inverse_dynamics(q, v, a)
    assert relative_error(reference.inverse_dynamics(q, v, a), tau) < ROUNDING
    dq, dv = oracle.derivatives(q, v, a)
    found = reference.derivatives(q, v, a)
    for ours, theirs in zip(found, (dq, dv, M), strict=True):
        assert relative_error(ours, theirs) < ROUNDING


def test_wrenches_reach_their_bodies_on_interleaved_branches(star):
    tree, rng = star.tree, np.random.default_rng(7)
    reference = make_formulation('pinocchio', tree)
    oracle = PinocchioOracle(star.xml, star.gravity, tree.joint_names)
    q, v, a = random_state(tree, rng)
    wrenches = {name: rng.normal(size=6) for name in tree.link_names}
    tau = oracle.inverse_dynamics(q, v, a, wrenches)
    assert relative_error(reference.inverse_dynamics(q, v, a, wrenches), tau) < ROUNDING
    rows = np.array(list(wrenches.values()))
    assert relative_error(reference.inverse_dynamics(q, v, a, rows), tau) < ROUNDING
