# SPDX-License-Identifier: Apache-2.0
"""Rows without a timestamp are assigned to the tick in which they were computed."""

import numpy as np

from robot_dynamics_ros.recordings.metrics.program import _by_tick

STAMPS = [1000, 2000, 3000, 4000]
ROWS = [[float(k)] * 4 for k in range(4)]


def test_as_many_rows_as_ticks_belong_to_them_in_order():
    late = [2000, 2000, 4000, 5000]  # by the recorder's clock, a tick late at times
    np.testing.assert_array_equal(_by_tick(STAMPS, late, ROWS)[:, 0], [0, 1, 2, 3])


def test_where_rows_were_lost_a_tick_gets_the_nearest():
    found = _by_tick(STAMPS, [1100, 2900, 4000], [ROWS[0], ROWS[2], ROWS[3]])
    np.testing.assert_array_equal(found[:, 0], [0, 0, 2, 3])
    np.testing.assert_array_equal(_by_tick(STAMPS, [9000], ROWS[:1]), np.zeros((4, 4)))


def test_without_rows_nothing_is_known():
    assert np.isnan(_by_tick(STAMPS, [], [])).all()
