# SPDX-License-Identifier: Apache-2.0
"""Work in several processes: a dead one loses its own item only."""

from __future__ import annotations

from functools import partial

import pytest
from mortal_worker import killed_on

from robot_dynamics_ros.recordings.bag_jobs import run_jobs


@pytest.mark.slow
def test_a_process_that_is_killed_affects_no_other_item():
    items = ['poison', 'poison', 'a', 'b']
    found = dict(run_jobs(partial(killed_on, 'poison'), items, lambda _, why: why, jobs=2))
    assert all('try --jobs 1' in found.pop(k) for k in range(2))
    assert found == {2: 'A', 3: 'B'}
