# SPDX-License-Identifier: Apache-2.0
"""The soak test, shortened; it detects growing quantities."""

from __future__ import annotations

import pytest
from campaigns import soak


@pytest.mark.parametrize(
    ('figure', 'second', 'last', 'more'),
    [
        ('memory, MB', 100.0, 102.0, False),
        ('memory, MB', 100.0, 104.0, True),
        ('threads', 16.0, 17.0, True),
        ('descriptors', 20.0, 20.0, False),
        ('latency, us', 100.0, 160.0, True),
        ('latency, us', 100.0, float('nan'), True),
    ],
)
def test_what_grows_is_noticed(figure, second, last, more):
    assert soak.grown(figure, second, last) == more


def test_the_beginning_of_a_run_does_not_count():
    leaking = [50.0, 60.0, *[100.0 + k for k in range(38)]]
    second, last = soak.quarters(leaking)
    assert soak.grown('memory, MB', second, last)
    warming = [*range(50, 60), *[100.0] * 30]
    assert soak.quarters(warming) == (100.0, 100.0)


@pytest.mark.slow
def test_every_process_is_watched_while_the_arm_moves_under_changing_gains(tmp_path):
    samples, rate = soak.soak(2000, tmp_path)
    latencies = samples.pop(('controller', 'latency, us'))
    assert {name for name, _ in samples} == {'controller', 'simulator', 'monitor', 'recorder'}
    assert len(samples) == 4 * 3
    assert all(min(values) > 0 for values in samples.values())
    assert len(latencies) >= 4
    assert rate > 0.0
    logs = (tmp_path / 'logs' / 'controller.log').read_text(encoding='utf-8')
    assert logs.count('changed: natural_frequency') >= 1
    assert 'rejected' not in logs
