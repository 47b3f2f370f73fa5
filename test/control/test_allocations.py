# SPDX-License-Identifier: Apache-2.0
"""Allocations of a tick: no array, a few numbers, nothing permanent."""

from __future__ import annotations

import sys
import tracemalloc

import numpy as np
import pytest
from samples import sample

from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.spline import KnotTable

MILLISECOND = 1_000_000
#: The rest position of the program scara_circle, rad or m.
PLACE = np.array([-0.315, 1.398, 0.12, 1.083])
LAWS = ('computed_torque', 'gravity_compensation', 'impedance', 'pd_gravity')
#: Bytes that a tick may have in use at any time: a dozen numbers of Python. One array of four that
#: is made and dropped is no more than these; two, or a larger one, are.
MOST = 2 * sys.getsizeof(np.zeros(4))


def followed(law) -> tuple[ControllerSession, int]:
    """Return a session that follows a long trajectory, past ramp and take-over; its time, ns."""
    given = {'robot': 'scara', 'law': law, 'activation_ramp_s': 0.01}
    session, still, now = ControllerSession(sample('scara').tree, given), np.zeros(4), 0
    for k in range(3000):
        now += MILLISECOND
        session.update(session.driver.state(now, now, PLACE, still))
        session.settle()
        if k == 0:
            session.activate(now)
        if k == 20:
            points = KnotTable.uniform(
                np.array([1.0, 60.0]), np.array([PLACE, PLACE + 0.1]), np.zeros((2, 4)), None
            )
            session.loop.generator.follow(points.time, points.position, points.velocity, None)
    return session, now


@pytest.mark.parametrize('law', LAWS)
def test_a_tick_makes_no_array_and_keeps_nothing(law):
    session, now = followed(law)
    still, ticks = np.zeros(4), 50
    stamps = [now + (k + 1) * MILLISECOND for k in range(4 * ticks)]
    before = sys.getallocatedblocks()
    for stamp in stamps[:ticks]:
        session.update(session.driver.state(stamp, stamp, PLACE, still))
        session.settle()
    grown = sys.getallocatedblocks() - before
    # The timestamps of the last state, for any number of ticks.
    assert grown < ticks / 2
    tracemalloc.start()
    try:
        peaks = []
        for stamp in stamps[ticks:]:
            session.loop.observe(stamp, PLACE, still)
            begin = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            session.loop.tick()
            peaks.append(tracemalloc.get_traced_memory()[1] - begin)
    finally:
        tracemalloc.stop()
    assert max(peaks[ticks:]) < MOST
