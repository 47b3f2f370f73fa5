# SPDX-License-Identifier: Apache-2.0
"""Statistics and decimation of columns, against numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from robot_dynamics_ros.estimation.accumulate import RmsPeak, envelope, thinned

LEVELS = st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0, np.nan, np.inf])


def test_rms_and_peak_are_of_all_finite_values_of_all_parts(rng):
    values, time = rng.normal(size=(1000, 3)), np.arange(1000.0)
    values[10:20, 1] = np.nan
    values[700, 2] = -50.0
    first, second = (
        RmsPeak.of(time[rows], values[rows]) for rows in (slice(300), slice(300, None))
    )
    spread = first.merged(second)
    assert spread.rms == pytest.approx(np.sqrt(np.nanmean(values**2, axis=0)), rel=1e-12)
    assert (spread.peak == np.nanmax(np.abs(values), axis=0)).all()
    assert (spread.peak_time[2], *spread.count) == (700.0, 1000, 990, 1000)


def test_without_values_rms_and_time_are_nan_and_a_peak_of_zero_has_a_time():
    for values in (np.zeros((0, 2)), np.full((1, 2), np.nan)):
        figures = RmsPeak.of(np.zeros(len(values)), values).figures('rms', 'peak', 'at')
        assert np.isnan([*figures.values()]).all()
    assert RmsPeak.of(np.array([3.0, 4.0]), np.zeros((2, 1))).peak_time.tolist() == [3.0]


@given(
    arrays(float, st.tuples(st.integers(1, 99), st.just(2)), elements=LEVELS), st.integers(1, 9)
)
def test_an_envelope_holds_the_extremes_of_equal_blocks_or_all_rows(values, points):
    time, count = np.arange(float(len(values))), len(values)
    found = envelope(time, {'a': values[:, 0], 'b': values}, points)
    finite = np.where(np.isfinite(values), values, np.nan)
    assert_array_equal(found['a'], found['b'][:, :1])
    starts, expected = time, finite
    if count > 2 * points:
        starts = found['time'][::2]
        assert points <= len(starts) <= 2 * points
        assert np.unique(np.diff(starts)).size <= 1
        blocks, starts = np.split(finite, starts[1:].astype(int)), np.repeat(starts, 2)
        expected = [f.reduce(block) for block in blocks for f in (np.fmin, np.fmax)]
    assert_array_equal(found['time'], starts)
    assert_array_equal(found['b'], expected)


@pytest.mark.parametrize('count', [1, 599, 601, 10_000])
def test_thinned_rows_are_at_regular_intervals_or_all(count):
    rows = np.arange(count)[thinned(count, 300)]
    assert min(count, 300) <= len(rows) <= 600
    assert np.unique(np.diff(rows)).size <= 1
