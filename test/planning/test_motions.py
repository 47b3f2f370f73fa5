# SPDX-License-Identifier: Apache-2.0
"""Motions by their formulas; that each is a trajectory is shown by test_trajectory."""

from __future__ import annotations

import math

import numpy as np
import pytest
import refusals

from robot_dynamics_ros.errors import TrajectoryError
from robot_dynamics_ros.planning.motions import Fourier, Quintic, Sine

# The sums of l s_l and of l^2 k_l vanish in every row.
SINE = [[0.3, -0.3, 0.1], [0.1, 0.1, -0.1]]
COSINE = [[0.4, 0.125, -0.1], [-0.5, 0.35, -0.1]]


def test_quintic_reaches_goal_and_its_peaks_are_those_of_the_formulas():
    """Peak velocity 15/8 Delta/T, peak acceleration 10/sqrt(3) Delta/T^2."""
    way, T = np.array([2.0, -0.5]), 1.6
    position, *rates = Quintic([0.0, 1.0], [2.0, 0.5], T).table(np.linspace(0.0, T, 2001))
    np.testing.assert_allclose(position[[1000, -1]], [[1.0, 0.75], [2.0, 0.5]])
    peaks = [np.abs(rate).max(axis=0) for rate in rates]
    # A parabola's maximum seen on 2001 points: 1e-6 relative.
    expected = [15 / 8 * abs(way) / T, 10 / math.sqrt(3) * abs(way) / T**2]
    np.testing.assert_allclose(peaks, expected, rtol=1e-5)


def test_sine_follows_its_formula_after_the_ramp():
    """sigma(t) = t - ramp / 2 once it runs at full speed."""
    t, omega = np.array([1.0, 2.3, 50.0]), 2 * math.pi * 0.8
    angle = omega * (t - 0.5) + 0.4
    expected = [
        0.1 + 0.5 * np.sin(angle),
        omega * np.cos(angle) / 2,
        -(omega**2) * np.sin(angle) / 2,
    ]
    found = Sine([0.1], [0.5], [0.8], [0.4], ramp=1.0).table(t)
    np.testing.assert_allclose(np.squeeze(found), expected, rtol=1e-6, atol=1e-12)


def test_a_fourier_series_is_the_sum_of_its_formula():
    t = np.linspace(1e-6, 7.999, 100)
    q, v, a = Fourier([0.2, -0.4], SINE, COSINE, period=4.0, periods=2).table(t)
    w = 2.0 * np.pi * np.arange(1, 4) / 4.0
    s, c = np.sin(np.outer(t, w)), np.cos(np.outer(t, w))
    s_l, k_l = np.array(SINE).T, np.array(COSINE).T
    np.testing.assert_allclose(q, [0.2, -0.4] + s @ s_l + c @ k_l, atol=1e-13)
    np.testing.assert_allclose(v, (w * c) @ s_l - (w * s) @ k_l, atol=1e-13)
    np.testing.assert_allclose(a, -(w**2 * s) @ s_l - (w**2 * c) @ k_l, atol=1e-12)


KINDS = {'quintic': Quintic, 'sine': Sine, 'fourier': Fourier}


@refusals.written("""
{quintic: [[0], [1], 0.0]}              | duration: is 0.0
{quintic: [[0], [1, 2], 1.0]}           | goal: has shape (2,)
{quintic: [[.nan], [1], 1.0]}           | start: is nan
{sine: [[0], 1, 1], ramp: 0.0}          | ramp: is 0.0
{sine: [[0], 1, 1], duration: 1.5}      | duration: is 1.5
{sine: [[0], [1, 2], 1]}                | amplitude: has shape (2,)
{fourier: [[0, 0], [[0.3, -0.3, 0.2], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]], 4.0]} | joint 0: does not start with zero velocity
{fourier: [[0, 0], [[0, 0, 0], [0, 0, 0]], [[0, 0, 0], [0.1, 0, 0]], 4.0]} | joint 1: does not start with zero acceleration
{fourier: [[0, 0], [[0, 0, 0]], [[0, 0, 0], [0, 0, 0]], 4.0]} | sine: has shape
{fourier: [[0, 0], [[0, 0, 0], [0, 0, 0]], [[0, 0], [0, 0]], 4.0]} | cosine: has shape
{fourier: [[0], [[.nan, 0, 0]], [[0, 0, 0]], 4.0]} | sine: is not finite
{fourier: [[0], [[0]], [[0]], 0.0]}     | period
{fourier: [[0], [[0]], [[0]], 4.0, 0]}  | periods
""")  # noqa: E501
def test_a_motion_that_cannot_be_followed_is_refused_by_name(given, said):
    (kind, numbers), *named = given.items()
    with pytest.raises(TrajectoryError, match=said):
        KINDS[kind](*numbers, **dict(named))
