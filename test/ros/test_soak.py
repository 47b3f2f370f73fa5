# SPDX-License-Identifier: Apache-2.0
"""The soak test, shortened; it detects growing quantities."""

from __future__ import annotations

import pytest
from campaigns import soak


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
