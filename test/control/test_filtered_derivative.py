# SPDX-License-Identifier: Apache-2.0
"""Velocities from positions: their value by the formula of the module, their delay."""

import math

import numpy as np
import pytest
import tables
from hypothesis import given
from hypothesis import strategies as st

from robot_dynamics_ros.control.drivers.filtered_derivative import FilteredDerivative

H, LONGEST = 1e-3, 0.01  # s


#: Times from one sample to the next, s, also none, back, and longer than the longest gap.
GAPS = st.sampled_from([0.0, 2e-4, 1e-3, 3e-3, LONGEST, 0.02, -0.5])


@given(
    samples=st.lists(st.tuples(GAPS, st.floats(-3.0, 3.0) | st.just(math.nan)), max_size=20),
    cutoff=st.sampled_from([5.0, 400.0, math.inf]),
)
def test_a_sample_changes_the_value_by_the_formula_or_starts_anew_or_changes_nothing(
    samples, cutoff
):
    """Without a low pass it is the difference; a repeated time or no number changes nothing."""
    derivative = FilteredDerivative(1, cutoff, LONGEST)
    now, time, place, value = 0.0, -math.inf, 0.0, 0.0
    for gap, x in samples:
        now += gap
        found = derivative.update(now, np.array([x]))
        if now != time and math.isfinite(x):
            step, before, time, place = now - time, place, now, x
            kept = math.exp(-2.0 * math.pi * cutoff * step) if step > 0.0 else 0.0
            value = kept * value + (1.0 - kept) * (x - before) / step
            value *= 0.0 < step <= LONGEST
        # Differences of numbers of 3 over 2e-4 s.
        assert found[0] == pytest.approx(value, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize('cutoff', [20.0, 400.0, math.inf])
def test_the_delay_is_that_of_the_formula(cutoff):
    """Under a constant acceleration a the velocity is a t - a T once the filter has settled."""
    derivative = FilteredDerivative(1, cutoff)
    for t in H * np.arange(1000):
        found = derivative.update(t, np.array([0.5 * t * t]))[0]
    assert 999 * H - found == pytest.approx(derivative.delay(H), rel=1e-9)
    rate = 2.0 * math.pi * cutoff
    if rate < math.inf:
        assert derivative.delay(H) == pytest.approx(1.0 / rate, abs=rate * H * H)


test_a_cutoff_or_gap_that_is_not_positive_is_refused = tables.called("""
FilteredDerivative(1, 0.0)         | ParameterError: cutoff_hz = 0.0 refused: must be positive
FilteredDerivative(1, -5.0)        | ParameterError: cutoff_hz = -5.0 refused: must be positive
FilteredDerivative(1, math.nan)    | ParameterError: cutoff_hz = nan refused: must be positive
FilteredDerivative(1, 10.0, 0.0)   | ParameterError: longest_gap = 0.0 refused: must be positive
""", globals())  # fmt: skip
