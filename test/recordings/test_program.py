# SPDX-License-Identifier: Apache-2.0
"""Constraints of a program compared with their designed decay."""

import numpy as np

from robot_dynamics_ros.recordings.metrics.program import decay


def test_a_deviation_is_a_share_of_the_largest_start_in_its_unit():
    time = np.linspace(0.0, 1.0, 5)
    design = np.array([0.2, 0.1, 5e-17]) * np.exp(-2.0 * time[:, None])
    f = design.copy()
    f[2] += [0.01, 0.02, 0.03]
    found = decay(['x (m)', 'y (m)', 'pitch (rad)'], f, design)
    np.testing.assert_allclose(found['relative'][:2], [0.01 / 0.2, 0.02 / 0.2], rtol=1e-9)
    assert np.isnan(found['relative'][2])  # no radian at the start, so no share of it
    np.testing.assert_allclose(found['deviation'], [0.01, 0.02, 0.03], rtol=1e-9)
    np.testing.assert_allclose(found['floor'], np.abs(f[-1]), rtol=1e-9)
