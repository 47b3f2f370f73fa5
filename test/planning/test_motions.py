# SPDX-License-Identifier: Apache-2.0
"""Positions of motions by their formulas; rates and ends are those of test_trajectory."""

import numpy as np
import pytest
import tables
from numpy.testing import assert_allclose
from scipy.interpolate import BPoly

from robot_dynamics_ros.errors import NonFiniteError, ShapeError, TrajectoryError
from robot_dynamics_ros.planning.motions import Fourier, Quintic, Sine

# The sums of l s_l and of l^2 k_l vanish in every row.
SINE = [[0.3, -0.3, 0.1], [0.1, 0.1, -0.1]]
COSINE = [[0.4, 0.125, -0.1], [-0.5, 0.35, -0.1]]


def test_a_quintic_is_at_rest_at_both_ends():
    times = np.linspace(0.0, 1.6, 99)
    found, *_ = Quintic([0.0, 1.0], [2.0, 0.5], 1.6).table(times)
    ends = np.zeros((2, 3, 2))
    ends[:, 0] = [0.0, 1.0], [2.0, 0.5]
    expected = BPoly.from_derivatives([0.0, 1.6], ends)(times)
    assert_allclose(found, expected, atol=1e-14)


def test_a_sine_follows_its_formula_after_the_ramp():
    """sigma(t) = t - ramp / 2 once it runs at full speed."""
    t = np.array([1.0, 2.3, 50.0])
    found, *_ = Sine([0.1], [0.5], [0.8], [0.4], ramp=1.0).table(t)
    expected = 0.1 + 0.5 * np.sin(1.6 * np.pi * (t - 0.5) + 0.4)
    assert_allclose(found[:, 0], expected, rtol=1e-6, atol=1e-12)


def test_a_fourier_series_is_the_sum_of_its_formula():
    t = np.linspace(1e-6, 7.999, 100)
    found, *_ = Fourier([0.2, -0.4], SINE, COSINE, period=4.0, periods=2).table(t)
    angles = np.outer(t, 0.5 * np.pi * np.arange(1, 4))
    expected = [0.2, -0.4] + np.sin(angles) @ np.transpose(SINE)
    expected += np.cos(angles) @ np.transpose(COSINE)
    assert_allclose(found, expected, atol=1e-13)


KINDS = {'quintic': Quintic, 'sine': Sine, 'fourier': Fourier}


@tables.written("""
{quintic: [[0], [1], 0.0]}              | duration: is 0.0
{quintic: [[0], [1, 2], 1.0]}           | goal: has shape (2,)
{quintic: [[.nan], [1], 1.0]}           | start: is nan
{sine: [[0], 1, 1], ramp: 0.0}          | ramp: is 0.0
{sine: [[0], 1, 1], duration: 1.5}      | duration: is 1.5
{sine: [[0], [1, 2], 1]}                | amplitude: has shape (2,)
{fourier: [[0, 0], [[0.3, -0.3, 0.2], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]], 4.0]} | joint 0: does not start with zero velocity
{fourier: [[0, 0], [[0, 0, 0], [0, 0, 0]], [[0, 0, 0], [0.1, 0, 0]], 4.0]} | joint 1: does not start with zero acceleration
{fourier: [[0, 0], [[0, 0, 0]], [[0, 0, 0], [0, 0, 0]], 4.0]} | sine has shape (1, 3); expected (2, harmonics)
{fourier: [[0, 0], [[0, 0, 0], [0, 0, 0]], [[0, 0], [0, 0]], 4.0]} | cosine has shape (2, 2); expected (2, 3)
{fourier: [[0], [[.nan, 0, 0]], [[0, 0, 0]], 4.0]} | sine is not finite
{fourier: [[0], [[0]], [[0]], 0.0]}     | period
{fourier: [[0], [[0]], [[0]], 4.0, 0]}  | periods
""")  # noqa: E501
def test_a_motion_that_cannot_be_followed_is_refused_by_name(given, said):
    (kind, numbers), *named = given.items()
    with pytest.raises((TrajectoryError, ShapeError, NonFiniteError), match=said):
        KINDS[kind](*numbers, **dict(named))
