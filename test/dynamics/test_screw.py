# SPDX-License-Identifier: Apache-2.0
"""Joint wrenches of Zaremba's recursion; efforts: see ``test_identities``."""

from __future__ import annotations

import numpy as np
import pytest
from joint_transforms import JointTransforms
from oracles import PinocchioOracle, relative_error
from samples import SAMPLES, random_state, sample

from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.errors import ShapeError

SLANTED = (2.3, -4.1, -8.6)  # loads every axis


@pytest.mark.parametrize('name', SAMPLES)
def test_joint_wrenches_are_those_of_pinocchio_and_the_efforts_along_the_axes(name):
    tree, rng = sample(name).tree.with_gravity(SLANTED), np.random.default_rng(1990)
    oracle = PinocchioOracle(sample(name).xml, SLANTED, tree.joint_names)
    state, wrenches = random_state(tree, rng), rng.normal(scale=10, size=(tree.n, 6))
    by_name = dict(zip(tree.link_names, wrenches, strict=True))
    found = make_formulation('screw', tree).joint_wrenches(*state, wrenches)
    efforts = oracle.inverse_dynamics(*state, by_name)
    # Both sides round a few hundred operations; measured on these robots: at most 5e-15.
    along = np.sum(JointTransforms(tree, state[0]).f * found, axis=1)
    assert relative_error(along, efforts) < 1e-13
    assert relative_error(found, oracle.joint_wrenches(*state, by_name)) < 1e-13


@pytest.mark.parametrize(
    'method', ['derivatives', 'joint_wrenches', 'section_motion', 'linearize']
)
def test_an_argument_of_the_wrong_length_is_refused_by_name(method):
    screw = make_formulation('screw', sample('scara').tree)
    good, bad = np.zeros(4), np.zeros(3)
    for at, name in enumerate(('q', 'v', 'a' if method != 'linearize' else 'tau')):
        arguments = [good] * 3
        arguments[at] = bad
        with pytest.raises(ShapeError, match=rf'{name} has shape \(3,\); expected \(4,\)'):
            getattr(screw, method)(*arguments)
