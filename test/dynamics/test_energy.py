# SPDX-License-Identifier: Apache-2.0
"""Motions of bodies, and the power of wrenches.

Energies and momenta equal Pinocchio's in ``test_identities``.
"""

from __future__ import annotations

import numpy as np
import pytest
from oracles import complex_step_along
from samples import random_state, sample

from robot_dynamics_ros.dynamics.energy import body_motions, power


@pytest.mark.parametrize('arm', ['rrpr', 'branched'])
def test_the_motion_of_a_body_is_the_rate_of_its_position(arm):
    tree = sample(arm).tree
    q, v, _ = random_state(tree, np.random.default_rng(40))
    for i, body in enumerate(body_motions(tree, q, v)):
        rate = complex_step_along(lambda x, i=i: body_motions(tree, x, v)[i].p_C, q, v)
        assert np.abs(body.v_C - rate).max() < 1e-12  # rounding


def test_the_power_of_named_wrenches_is_that_of_the_same_wrenches_by_body():
    tree, rng = sample('rrpr').tree, np.random.default_rng(41)
    q, v, _ = random_state(tree, rng)
    tau, rows = rng.normal(size=4), rng.normal(size=(4, 6))
    by_name = {name: rows[i] for i, name in enumerate(tree.link_names)}
    assert power(tree, q, v, tau) == pytest.approx(v @ tau)
    assert power(tree, q, v, tau, by_name) == pytest.approx(power(tree, q, v, tau, rows))
