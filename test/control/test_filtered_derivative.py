# SPDX-License-Identifier: Apache-2.0
"""Velocities from positions: their value, delay and noise by closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from robot_dynamics_ros.control.drivers.filtered_derivative import FilteredDerivative
from robot_dynamics_ros.errors import ParameterError

H = 1e-3  # s


def run(derivative, position, count, start=0.0):
    """Return the derivatives of a function of time, sampled every H, shape (count,)."""
    times = start + H * np.arange(count)
    return np.array([derivative.update(t, np.array([position(t)]))[0] for t in times])


@pytest.mark.parametrize('cutoff', [5.0, 50.0, 400.0, math.inf])
def test_a_constant_velocity_is_met_exactly_in_the_end_whenever_the_samples_come(cutoff):
    derivative, rng = FilteredDerivative(1, cutoff), np.random.default_rng(3)
    for t in np.cumsum(rng.uniform(0.2 * H, 3.0 * H, 2000)):
        found = derivative.update(t, np.array([3.0 - 0.7 * t]))
    assert found[0] == pytest.approx(-0.7, abs=1e-10)  # differences of 2e-4 s of numbers of 3


@pytest.mark.parametrize('cutoff', [20.0, 400.0])
def test_the_delay_is_that_of_the_formula(cutoff):
    """Under a constant acceleration a the velocity is a t - a T once the filter has settled."""
    derivative = FilteredDerivative(1, cutoff)
    late = 999 * H - run(derivative, lambda t: 0.5 * t * t, 1000)[-1]
    assert late == pytest.approx(derivative.delay(H), rel=1e-9)
    rate = 2.0 * math.pi * cutoff
    assert derivative.delay(H) == pytest.approx(1.0 / rate, abs=rate * H * H)


def test_without_a_low_pass_it_is_the_bare_difference_half_a_step_late():
    derivative = FilteredDerivative(1, math.inf)
    found, sine = run(derivative, math.sin, 100), np.sin(H * np.arange(100))
    np.testing.assert_allclose(found[1:], np.diff(sine) / H, rtol=1e-11)
    assert derivative.delay(H) == 0.5 * H


def test_the_step_answer_is_that_of_a_first_order_low_pass():
    found = run(FilteredDerivative(1, 10.0), lambda t: t, 200)
    expected = 1.0 - np.exp(-2.0 * math.pi * 10.0 * H * np.arange(200))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_repeated_time_or_no_number_changes_nothing_and_a_gap_or_jump_starts_anew():
    derivative = FilteredDerivative(1, 50.0, longest_gap=0.01)
    run(derivative, lambda t: t, 500)
    before = derivative.value.copy()
    for t, x in ((499 * H, 99.0), (500 * H, math.nan)):
        np.testing.assert_array_equal(derivative.update(t, np.array([x])), before)
    assert derivative.update(501 * H, np.array([501 * H]))[0] == pytest.approx(1.0)
    assert derivative.update(0.6, np.array([5.0]))[0] == 0.0
    assert derivative.update(0.601, np.array([5.001]))[0] > 0.0
    assert derivative.update(0.1, np.array([0.0]))[0] == 0.0


@pytest.mark.parametrize('arguments', [(1, 0.0), (1, -5.0), (1, math.nan), (1, 10.0, 0.0)])
def test_a_cutoff_or_gap_that_is_not_positive_is_refused(arguments):
    with pytest.raises(ParameterError, match='must be positive'):
        FilteredDerivative(*arguments)
