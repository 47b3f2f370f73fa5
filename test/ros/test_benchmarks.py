# SPDX-License-Identifier: Apache-2.0
"""Benchmarks and campaigns can be started where ROS is installed; their statistics."""

import numpy as np
import pytest
from campaigns.__main__ import CAMPAIGNS
from campaigns.__main__ import main as campaign

from benchmark.__main__ import BENCHMARKS
from benchmark.__main__ import main as benchmark
from benchmark.latency import trip_figures


@pytest.mark.parametrize(
    ('run', 'name'),
    [(run, x) for run, of in ((benchmark, BENCHMARKS), (campaign, CAMPAIGNS)) for x in of],
)
def test_every_one_can_be_begun(run, name, capsys):
    with pytest.raises(SystemExit) as ended:
        run([name, '--help'])
    assert ended.value.code == 0
    assert name in capsys.readouterr().out


def test_the_ratio_of_two_tails_says_how_sure_it_is():
    """The same noise twice: the ratio is 2; one disturbed block of three proves nothing."""
    noise = np.random.default_rng(0).exponential(size=(9, 400))
    row = trip_figures([*2.0 * noise], [*noise], period=1e-3)
    p99 = np.median(np.percentile(2.0 * noise, 99, axis=1))
    assert [row[key] for key in ('low', 'high', 'p99')] == pytest.approx([2.0, 2.0, p99])
    disturbed = noise * np.array([100.0, 1.0, 1.0] * 3)[:, None]
    row = trip_figures([*disturbed], [*noise], period=1e-3)
    assert row['low'] < 2.0
    assert row['high'] > 10.0
