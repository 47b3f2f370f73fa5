# SPDX-License-Identifier: Apache-2.0
"""Slopes of samples: exact for lines, without delay, with the stated cut-off."""

import numpy as np
import pytest
from scipy.optimize import brentq

from robot_dynamics_ros.estimation.filtering import differentiate, half_width

PERIOD = 1e-3


def test_the_slope_of_a_cubic_is_exact_at_any_stamps_and_at_the_ends(rng):
    time = np.cumsum(rng.uniform(0.5e-3, 1.5e-3, 400))
    values = np.column_stack([2.0 * time - 1.0, 9.0 * time**3 - 4.0 * time**2])
    slopes = np.column_stack([np.full(400, 2.0), 27.0 * time**2 - 8.0 * time])
    assert differentiate(time, values, 20.0, PERIOD) == pytest.approx(slopes, abs=1e-9)


@pytest.mark.parametrize('frequency', [10.0, 30.0])
def test_the_response_is_that_of_the_weighted_cubic(frequency):
    """Slope of sin(wt) = w cos(wt) (1 + y) e^-y, y = s^2 w^2 / 2; at the cut-off 1/sqrt(2)."""
    time, cutoff = PERIOD * np.arange(2000), 20.0
    w = 2.0 * np.pi * frequency
    found = differentiate(time, np.sin(w * time)[:, np.newaxis], cutoff, PERIOD)[:, 0]
    y = brentq(lambda y: (1.0 + y) * np.exp(-y) - np.sqrt(0.5), 0.5, 2.0)
    y *= (frequency / cutoff) ** 2
    expected = (1.0 + y) * np.exp(-y) * w * np.cos(w * time)
    # The window ends at five standard deviations, where the weight is 4e-6.
    assert found[100:-100] == pytest.approx(expected[100:-100], abs=1.5e-3 * w)


def test_a_sample_alone_has_no_slope():
    found = differentiate(np.array([0.0, 10.0, 10.001]), np.eye(3)[:, 2:], 20.0, PERIOD)
    assert found[:, 0] == pytest.approx([np.nan, 1000.0, 1000.0], nan_ok=True)


def test_the_window_reaches_five_standard_deviations():
    assert half_width(20.0) == pytest.approx(5.0 * np.sqrt(2.0 * 1.078) / (2.0 * np.pi * 20.0))
