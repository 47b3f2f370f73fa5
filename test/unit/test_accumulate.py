# SPDX-License-Identifier: Apache-2.0
"""Statistics of streams: the same as of the complete data, in bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

from robot_dynamics_ros.estimation.accumulate import DecimatedSeries, Envelope, Quantiles, RmsPeak


def in_parts(rng, count, parts=7):
    """Return slices that cut a number of rows anywhere."""
    cuts = np.sort(rng.integers(0, count, parts - 1)).tolist()
    return [slice(a, b) for a, b in zip([0, *cuts], [*cuts, count], strict=True)]


def test_spread_gives_rms_and_peak_of_all_finite_values(rng):
    values, time = rng.normal(size=(1000, 3)), np.arange(1000.0)
    values[10:20, 1] = np.nan
    values[700, 2] = -50.0
    spread = RmsPeak(3)
    for part in in_parts(rng, 1000):
        spread.take(time[part], values[part])
    assert spread.rms == pytest.approx(np.sqrt(np.nanmean(values**2, axis=0)), rel=1e-12)
    assert (spread.peak == np.nanmax(np.abs(values), axis=0)).all()
    assert spread.peak_time[2] == 700.0
    assert spread.count.tolist() == [1000, 990, 1000]


def test_spread_without_values_is_nan():
    spread = RmsPeak(2)
    spread.take(np.zeros(0), np.zeros((0, 2)))
    spread.take(np.zeros(1), np.full((1, 2), np.nan))
    assert np.isnan(spread.rms).all()
    assert np.isnan(spread.peak_time).all()


def test_a_peak_of_zero_has_a_time():
    spread = RmsPeak(1)
    spread.take(np.array([3.0, 4.0]), np.zeros((2, 1)))
    assert spread.peak_time.tolist() == [3.0]


def test_quantiles_of_few_numbers_are_exact(rng):
    values = rng.normal(size=5001)
    quantiles = Quantiles()
    for part in in_parts(rng, 5001):
        quantiles.take(values[part])
    quantiles.take(np.array([np.nan, np.inf]))
    for share in (0.0, 0.01, 0.5, 0.99, 1.0):
        assert quantiles.at(share) == np.quantile(values, share, method='nearest')
    assert quantiles.largest == values.max()
    assert quantiles.count == 5001
    assert np.isnan(Quantiles().at(0.5))


def test_quantiles_of_many_numbers_keep_their_place_and_the_largest(rng):
    """A regular sample of 60 000 or more: the 99th percentile is off by less than 0.2 percent."""
    values = rng.uniform(size=900_000)
    values[123_456] = 7.0
    quantiles = Quantiles()
    for part in np.array_split(values, 37):
        quantiles.take(part)
    assert quantiles.largest == 7.0
    for share in (0.01, 0.5, 0.99):
        assert quantiles.at(share) == pytest.approx(share, abs=2e-3)
    assert len(quantiles._kept.values) <= 1 << 17


def test_an_envelope_of_few_rows_is_the_rows(rng):
    values, time = rng.normal(size=(300, 2)), np.arange(300.0)
    envelope = Envelope(points=200)
    for part in in_parts(rng, 300):
        envelope.take(time[part], {'a': values[part, 0], 'b': values[part]})
    found = envelope.series()
    assert found['time'].tolist() == time.tolist()
    assert found['a'].tolist() == values[:, :1].tolist()
    assert found['b'].tolist() == values.tolist()


def test_an_envelope_of_many_rows_keeps_every_peak(rng):
    values, time = np.sin(np.arange(50_000) / 900.0)[:, np.newaxis], np.arange(50_000.0)
    peaks = rng.choice(50_000, 20, replace=False)
    values[peaks] = 5.0 + np.arange(20)[:, np.newaxis]
    envelope = Envelope(points=500)
    for part in in_parts(rng, 50_000, 30):
        envelope.take(time[part], {'x': values[part]})
    found = envelope.series()
    assert len(found['time']) <= 2 * 2 * 500 + 2
    assert (np.diff(found['time']) >= 0).all()
    top = found['x'].reshape(-1, 2)[:, 1]
    starts = found['time'].reshape(-1, 2)[:, 0]
    blocks = np.searchsorted(starts, peaks, side='right') - 1
    for block in np.unique(blocks):
        assert top[block] == values[peaks[blocks == block]].max()
    assert found['x'].min() == values.min()


def test_an_envelope_tells_where_there_is_no_value():
    values = np.full((5000, 1), np.nan)
    values[4000:] = 1.0
    envelope = Envelope(points=100)
    envelope.take(np.arange(5000.0), {'x': values})
    found = envelope.series()
    assert np.isnan(found['x'][found['time'] < 3900]).all()
    assert (found['x'][found['time'] >= 4000] == 1.0).all()


def test_thinned_rows_are_at_regular_intervals_whatever_the_parts(rng):
    values, time = rng.normal(size=(10_000, 2)), np.arange(10_000.0)
    one, many = DecimatedSeries(2, points=300), DecimatedSeries(2, points=300)
    one.take(time, values)
    for part in in_parts(rng, 10_000, 50):
        many.take(time[part], values[part])
    assert 300 <= len(one.time) <= 600
    assert np.unique(np.diff(one.time)).size == 1
    assert many.time.tolist() == one.time.tolist()
    assert many.values.tolist() == one.values.tolist()
