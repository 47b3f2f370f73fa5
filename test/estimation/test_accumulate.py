# SPDX-License-Identifier: Apache-2.0
"""Statistics and decimation of columns, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from robot_dynamics_ros.estimation.accumulate import RmsPeak, envelope, quantiles, thinned


def test_rms_and_peak_are_of_all_finite_values_of_all_parts(rng):
    values, time = rng.normal(size=(1000, 3)), np.arange(1000.0)
    values[10:20, 1] = np.nan
    values[700, 2] = -50.0
    first = RmsPeak.of(time[:300], values[:300])
    for spread in (RmsPeak.of(time, values), first.merged(RmsPeak.of(time[300:], values[300:]))):
        assert spread.rms == pytest.approx(np.sqrt(np.nanmean(values**2, axis=0)), rel=1e-12)
        assert (spread.peak == np.nanmax(np.abs(values), axis=0)).all()
        assert spread.peak_time[2] == 700.0
        assert spread.count.tolist() == [1000, 990, 1000]


def test_without_values_rms_and_time_are_nan_and_a_peak_of_zero_has_a_time():
    for values in (np.zeros((0, 2)), np.full((1, 2), np.nan)):
        spread = RmsPeak.of(np.zeros(len(values)), values)
        assert np.isnan(spread.rms).all()
        assert np.isnan(spread.peak_time).all()
        assert all(np.isnan(x).all() for x in spread.figures('rms', 'peak', 'at').values())
    assert RmsPeak.of(np.array([3.0, 4.0]), np.zeros((2, 1))).peak_time.tolist() == [3.0]


def test_quantiles_are_those_of_the_finite_values(rng):
    values = rng.normal(size=5001)
    found = quantiles(np.append(values, [np.nan, np.inf]), 2.0, 1, 50, 99)
    for percent in (1, 50, 99):
        assert found[f'p{percent}'] == 2.0 * np.quantile(values, percent / 100, method='nearest')
    assert found['max'] == 2.0 * values.max()
    assert np.isnan(list(quantiles(np.zeros(0), 1.0, 50).values())).all()


def test_an_envelope_of_few_rows_is_the_rows(rng):
    values, time = rng.normal(size=(300, 2)), np.arange(300.0)
    found = envelope(time, {'a': values[:, 0], 'b': values}, points=200)
    assert found['time'].tolist() == time.tolist()
    assert found['a'].tolist() == values[:, :1].tolist()
    assert found['b'].tolist() == values.tolist()


def test_an_envelope_of_many_rows_keeps_every_peak(rng):
    values, time = np.sin(np.arange(50_000) / 900.0)[:, np.newaxis], np.arange(50_000.0)
    peaks = rng.choice(50_000, 20, replace=False)
    values[peaks] = 5.0 + np.arange(20)[:, np.newaxis]
    found = envelope(time, {'x': values}, points=500)
    assert len(found['time']) <= 2 * 2 * 500 + 2
    top, starts = found['x'].reshape(-1, 2)[:, 1], found['time'].reshape(-1, 2)[:, 0]
    blocks = np.searchsorted(starts, peaks, side='right') - 1
    for block in np.unique(blocks):
        assert top[block] == values[peaks[blocks == block]].max()
    assert found['x'].min() == values.min()


def test_an_envelope_tells_where_there_is_no_value():
    values = np.full((5000, 1), np.nan)
    values[4000:] = 1.0
    found = envelope(np.arange(5000.0), {'x': values}, points=100)
    assert np.isnan(found['x'][found['time'] < 3900]).all()
    assert (found['x'][found['time'] >= 4000] == 1.0).all()


@pytest.mark.parametrize('count', [1, 599, 601, 10_000])
def test_thinned_rows_are_at_regular_intervals_or_all(count):
    rows = np.arange(count)[thinned(count, 300)]
    assert min(count, 300) <= len(rows) <= 600
    assert np.unique(np.diff(rows)).size <= 1
