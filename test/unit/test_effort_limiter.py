# SPDX-License-Identifier: Apache-2.0
"""The last gate before the motors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_dynamics_ros.control.safety.limits import EffortLimiter
from robot_dynamics_ros.control.transfer import TransferWeight
from robot_dynamics_ros.errors import ParameterError

LIMIT = np.array([90.0, 5.0])
ANYTHING = st.floats(allow_nan=True, allow_infinity=True)


@given(
    efforts=st.lists(st.tuples(ANYTHING, ANYTHING), min_size=1, max_size=6),
    fallback=st.one_of(st.none(), st.tuples(ANYTHING, ANYTHING)),
    dt=ANYTHING,
    rate=st.sampled_from([math.inf, 1000.0, 1e-3]),
    first=st.tuples(ANYTHING, ANYTHING),
)
def test_whatever_arrives_the_command_is_finite_within_limit_and_rate(
    efforts, fallback, dt, rate, first
):
    limiter = EffortLimiter(LIMIT, rate)
    limiter.reset(np.array(first))
    out = np.full(2, np.nan)
    other = None if fallback is None else np.array(fallback)
    for effort in efforts:
        last = limiter.last.copy()
        limiter.limit(np.array(effort), dt, other, out)
        assert np.isfinite(out).all()
        assert (np.abs(out) <= LIMIT).all()
        step = min(dt, limiter.longest_step) if dt > 0.0 else 0.0
        if rate < math.inf:
            # One rounding of numbers up to 90.
            assert (np.abs(out - last) <= rate * step + 2e-14).all()


def test_an_effort_within_all_bounds_passes_unchanged_and_uncounted():
    limiter = EffortLimiter(LIMIT, rate=1000.0)
    effort, out = np.array([0.7, -0.3]), np.zeros(2)
    assert limiter.limit(effort, 1e-3, None, out)
    np.testing.assert_array_equal(out, effort)
    counted = limiter.saturated + limiter.rate_limited + limiter.non_finite
    np.testing.assert_array_equal(counted, 0)
    assert limiter.ticks == 1


def test_the_joints_that_were_limited_are_counted():
    limiter = EffortLimiter(LIMIT, rate=[1e6, 100.0])
    out = np.zeros(2)
    limiter.limit(np.array([1e300, 1.0]), 1e-3, None, out)
    np.testing.assert_allclose(out, [90.0, 0.1])
    limiter.limit(np.array([-1e300, 1.0]), 1e-3, None, out)
    np.testing.assert_allclose(out, [-90.0, 0.2])
    np.testing.assert_array_equal(limiter.saturated, [2, 0])
    np.testing.assert_array_equal(limiter.rate_limited, [0, 2])


def test_a_step_that_is_not_positive_allows_no_change_under_a_rate_limit():
    for dt in (0.0, -1.0, math.nan):
        limiter = EffortLimiter(LIMIT, rate=100.0)
        limiter.reset(np.array([1.0, 2.0]))
        out = np.zeros(2)
        limiter.limit(np.array([50.0, 0.0]), dt, None, out)
        np.testing.assert_array_equal(out, [1.0, 2.0])


def test_after_a_long_time_a_rate_limit_allows_the_change_of_a_tenth_of_a_second():
    limiter, out = EffortLimiter(LIMIT, rate=10.0), np.zeros(2)
    limiter.limit(LIMIT, 5.0, None, out)
    np.testing.assert_allclose(out, 1.0, rtol=1e-12)


def test_one_entry_that_is_not_finite_brings_the_whole_fallback():
    limiter = EffortLimiter(LIMIT)
    out = np.zeros(2)
    assert not limiter.limit(np.array([3.0, np.nan]), 1e-3, np.array([1.0, -1.0]), out)
    np.testing.assert_array_equal(out, [1.0, -1.0])
    np.testing.assert_array_equal(limiter.non_finite, [0, 1])


def test_without_a_good_fallback_the_last_command_decays():
    for fallback in (None, np.array([np.inf, 0.0])):
        limiter = EffortLimiter(LIMIT)
        limiter.reset(np.array([10.0, -2.0]))
        out = np.zeros(2)
        for _ in range(50):
            limiter.limit(np.array([np.nan, np.nan]), 2e-3, fallback, out)
        np.testing.assert_allclose(out, np.array([10.0, -2.0]) * math.exp(-1.0), rtol=1e-12)


def test_the_output_may_be_the_input():
    limiter = EffortLimiter(LIMIT)
    effort = np.array([100.0, -7.0])
    limiter.limit(effort, 1e-3, None, effort)
    np.testing.assert_array_equal(effort, [90.0, -5.0])


@pytest.mark.parametrize(
    ('arguments', 'name'),
    [
        ({'limit': [1.0, 0.0]}, 'effort_limit'),
        ({'limit': [1.0, math.inf]}, 'effort_limit'),
    ],
)
def test_bad_settings_are_refused_by_name(arguments, name):
    with pytest.raises(ParameterError) as caught:
        EffortLimiter(**arguments)
    assert caught.value.name == name


def test_the_ramp_leads_from_nothing_of_the_law_to_all_of_it():
    ramp = TransferWeight(0.5)
    ramp.start(10.0)
    for t, share in ((9.0, 0.0), (10.0, 0.0), (10.25, 0.5), (10.5, 1.0), (99.0, 1.0)):
        assert ramp.at(t) == share


def test_a_change_of_its_duration_within_the_ramp_goes_on_from_its_share():
    for duration in (0.1, 5.0):
        ramp = TransferWeight(1.0)
        ramp.start(10.0)
        before = ramp.at(10.3)
        ramp.change(10.3, duration)
        assert ramp.at(10.3) == pytest.approx(before, rel=1e-12)
        assert ramp.at(10.3 + 0.7 * duration) == 1.0


def test_the_ramp_is_smooth():
    """The formula s = 3x^2 - 2x^3 has no slope at either end."""
    ramp = TransferWeight(0.5)
    ramp.start(0.0)
    h = 1e-6
    for t in (0.0, 0.5):
        slope = (ramp.at(t + h) - ramp.at(t - h)) / (2 * h)
        # Curvature 6 / T^2 = 24 times half the step.
        assert abs(slope) < 24 * h


def test_a_ramp_that_was_never_started_or_has_no_duration_changes_nothing():
    for ramp in (TransferWeight(0.5), TransferWeight(0.0)):
        assert ramp.at(0.0) == 1.0


def test_with_the_share_of_a_driver_the_sum_is_within_the_limit_whatever_the_rate():
    limiter = EffortLimiter([10.0], rate=100.0)
    limiter.reset(np.array([9.0]))
    out = np.zeros(1)
    for share in np.linspace(0.0, 6.0, 30):  # as fast as the command may not follow
        limiter.limit(np.array([10.0]), 1e-3, None, out, np.array([share]))
        assert abs(out[0] + share) <= 10.0


def test_after_a_change_the_command_comes_gently_until_it_has_arrived():
    limiter = EffortLimiter([10.0, 2.0])
    out = np.zeros(2)
    limiter.limit(np.array([1.0, 0.0]), 1e-3, None, out)
    limiter.soften(50.0)
    found = [out.copy()]
    for _ in range(12):
        limiter.limit(np.array([-4.0, 0.05]), 1e-3, None, out)
        found.append(out.copy())
    steps = np.diff(found, axis=0)
    np.testing.assert_allclose(steps[:10], [[-0.5, 0.05], *[[-0.5, 0.0]] * 9], atol=1e-12)
    np.testing.assert_allclose(found[-1], [-4.0, 0.05])
    limiter.limit(np.array([8.0, 2.0]), 1e-3, None, out)  # what comes later is the law's own
    np.testing.assert_allclose(out, [8.0, 2.0])
    assert not limiter.rate_limited.any()
