# SPDX-License-Identifier: Apache-2.0
"""The last gate before the motors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safe_command import SafeCommand

from robot_dynamics_ros.control.safety.limits import EffortLimiter
from robot_dynamics_ros.control.transfer import TransferWeight
from robot_dynamics_ros.errors import ParameterError

LIMIT = np.array([90.0, 5.0])
ANYTHING = st.floats(allow_nan=True, allow_infinity=True)


@given(
    efforts=st.lists(st.tuples(ANYTHING, ANYTHING), min_size=1, max_size=6),
    dt=ANYTHING,
    rate=st.sampled_from([math.inf, 1000.0, 1e-3]),
    first=st.tuples(ANYTHING, ANYTHING),
)
def test_whatever_arrives_the_command_is_finite_within_limit_and_rate(efforts, dt, rate, first):
    limiter = EffortLimiter(LIMIT, rate)
    limiter.reset(np.array(first))
    safe = SafeCommand(limiter)
    for effort in efforts:
        last = limiter.last.copy()
        safe.run(effort, dt)
        assert np.isfinite(safe.command).all()
        assert (np.abs(safe.command) <= LIMIT).all()
        step = min(dt, limiter.longest_step) if dt > 0.0 else 0.0
        if rate < math.inf:
            # One rounding of numbers up to 90.
            assert (np.abs(safe.command - last) <= rate * step + 2e-14).all()


def test_an_effort_within_all_bounds_passes_unchanged_and_uncounted():
    safe = SafeCommand(limiter := EffortLimiter(LIMIT, rate=1000.0))
    assert safe.run([0.7, -0.3])
    np.testing.assert_array_equal(safe.command, [0.7, -0.3])
    counted = limiter.saturated + limiter.rate_limited + limiter.non_finite
    np.testing.assert_array_equal(counted, 0)


def test_the_joints_that_were_limited_are_counted():
    safe = SafeCommand(limiter := EffortLimiter(LIMIT, rate=[1e6, 100.0]))
    safe.run([1e300, 1.0])
    np.testing.assert_allclose(safe.command, [90.0, 0.1])
    safe.run([-1e300, 1.0])
    np.testing.assert_allclose(safe.command, [-90.0, 0.2])
    np.testing.assert_array_equal(limiter.saturated, [2, 0])
    np.testing.assert_array_equal(limiter.rate_limited, [0, 2])


def test_a_reset_begins_within_lowered_limits_not_on_the_way_to_them():
    safe = SafeCommand(limiter := EffortLimiter(LIMIT, rate=100.0))
    limiter.configure(0.2 * LIMIT, 100.0)
    limiter.soften(50.0)
    limiter.reset(np.array([-80.0, 4.0]))
    safe.run([-80.0, 4.0])
    np.testing.assert_array_equal(safe.command, 0.2 * LIMIT * [-1.0, 1.0])


def test_a_step_that_is_not_positive_allows_no_change_under_a_rate_limit():
    for dt in (0.0, -1.0, math.nan):
        safe = SafeCommand(EffortLimiter(LIMIT, rate=100.0))
        safe.limiter.reset(np.array([1.0, 2.0]))
        safe.run([50.0, 0.0], dt)
        np.testing.assert_array_equal(safe.command, [1.0, 2.0])


def test_after_a_long_time_a_rate_limit_allows_the_change_of_a_tenth_of_a_second():
    safe = SafeCommand(EffortLimiter(LIMIT, rate=10.0))
    safe.run(LIMIT, 5.0)
    np.testing.assert_allclose(safe.command, 1.0, rtol=1e-12)


def test_what_is_not_finite_leaves_no_trace_but_its_count_and_the_last_command_decays():
    safe = SafeCommand(limiter := EffortLimiter(LIMIT))
    limiter.reset(np.array([10.0, -2.0]))
    before = limiter.state.copy()
    safe.efforts[0] = 3.0, math.nan
    assert not safe.filter.run(1.0, safe.zeros, 1e-3, safe.command, guarded=False)
    np.testing.assert_array_equal(limiter.state, before)
    np.testing.assert_array_equal(limiter.non_finite, [0, 1])
    for value in np.tile([math.nan, math.inf], 25):
        assert not safe.run([3.0, value], 2e-3)
    np.testing.assert_allclose(safe.command, np.array([10.0, -2.0]) * math.exp(-1.0), rtol=1e-12)


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
    ramp = TransferWeight(0.5, 10.0)
    for t, share in ((9.0, 0.0), (10.0, 0.0), (10.25, 0.5), (10.5, 1.0), (99.0, 1.0)):
        assert ramp.at(t) == share


def test_the_ramp_is_smooth():
    """The formula s = 3x^2 - 2x^3 has no slope at either end."""
    ramp = TransferWeight(0.5, 0.0)
    h = 1e-6
    for t in (0.0, 0.5):
        slope = (ramp.at(t + h) - ramp.at(t - h)) / (2 * h)
        # Curvature 6 / T^2 = 24 times half the step.
        assert abs(slope) < 24 * h


def test_a_ramp_that_was_never_started_or_has_no_duration_changes_nothing():
    for ramp in (TransferWeight(0.5), TransferWeight(0.0)):
        assert ramp.at(0.0) == 1.0


def test_with_the_share_of_a_driver_the_sum_is_within_the_limit_whatever_the_rate():
    safe = SafeCommand(EffortLimiter([10.0], rate=100.0))
    safe.limiter.reset(np.array([9.0]))
    for share in np.linspace(0.0, 6.0, 30):  # as fast as the command may not follow
        safe.run([10.0], share=[share])
        assert abs(safe.command[0] + share) <= 10.0


def test_after_a_change_the_command_comes_gently_until_it_has_arrived():
    safe = SafeCommand(limiter := EffortLimiter([10.0, 2.0]))
    safe.run([1.0, 0.0])
    limiter.soften(50.0)
    found = [safe.command.copy()]
    for _ in range(12):
        safe.run([-4.0, 0.05])
        found.append(safe.command.copy())
    steps = np.diff(found, axis=0)
    np.testing.assert_allclose(steps[:10], [[-0.5, 0.05], *[[-0.5, 0.0]] * 9], atol=1e-12)
    np.testing.assert_allclose(found[-1], [-4.0, 0.05])
    safe.run([8.0, 2.0])  # what comes later is the law's own
    np.testing.assert_allclose(safe.command, [8.0, 2.0])
    assert not limiter.rate_limited.any()
