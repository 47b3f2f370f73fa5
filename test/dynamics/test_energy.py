# SPDX-License-Identifier: Apache-2.0
"""The power of wrenches; energies and momenta equal Pinocchio's in ``test_identities``."""

from __future__ import annotations

import numpy as np
import pytest
from samples import random_state, sample

from robot_dynamics_ros.dynamics.energy import power


def test_the_power_of_named_wrenches_is_that_of_the_same_wrenches_by_body():
    tree, rng = sample('rrpr').tree, np.random.default_rng(41)
    q, v, _ = random_state(tree, rng)
    tau, rows = rng.normal(size=4), rng.normal(size=(4, 6))
    by_name = {name: rows[i] for i, name in enumerate(tree.link_names)}
    assert power(tree, q, v, tau) == pytest.approx(v @ tau)
    assert power(tree, q, v, tau, by_name) == pytest.approx(power(tree, q, v, tau, rows))
