# SPDX-License-Identifier: Apache-2.0
"""The shared robots have the properties that other tests assume."""

from __future__ import annotations

import numpy as np
from oracles import central_difference, complex_step, complex_step_along, relative_error
from samples import sample, serial_arms


def test_no_off_diagonal_inertia_of_the_spatial_arm_vanishes():
    tree = sample('rrpr').tree
    for tensor in tree.inertia:
        assert np.abs(tensor[np.triu_indices(3, 1)]).min() > 1e-5


def test_the_arms_of_the_world_are_serial_and_include_the_well_known():
    arms = serial_arms()
    assert {'panda', 'ur5_robot', 'ur10_robot', 'xarm7', 'kinova', 'z1'} <= set(arms)
    for arm in arms.values():
        assert arm.tree.parent == tuple(range(-1, arm.tree.n - 1))
        assert arm.tree.n >= 5


def test_derivative_checkers_find_the_derivative_of_a_known_function(rng):
    def f(x):
        return np.array([np.sin(x[0]) * x[1] ** 2, np.cos(x[0] * x[1])])

    x, y = 0.7, -1.3
    expected = [
        [np.cos(x) * y**2, 2 * np.sin(x) * y],
        [-y * np.sin(x * y), -x * np.sin(x * y)],
    ]
    at, direction = np.array([x, y]), rng.normal(size=2)
    assert relative_error(complex_step(f, at), expected) < 1e-15  # rounding
    assert relative_error(complex_step_along(f, at, direction), expected @ direction) < 1e-15
    assert relative_error(central_difference(f, at), expected) < 1e-11  # h^4 with h = 1e-3
