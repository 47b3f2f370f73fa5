# SPDX-License-Identifier: Apache-2.0
"""Allocations of a tick: no array, a few numbers, nothing permanent."""

import sys
import tracemalloc
from functools import partial

import numpy as np
import pytest
from samples import sample
from still_arm import MS, StillArm

from robot_dynamics_ros.control.drivers.driver_interface import ArmState
from robot_dynamics_ros.control.session import ControllerSession

#: The rest position of the program scara_circle, rad or m.
PLACE = np.array([-0.315, 1.398, 0.12, 1.083])
LAWS = ('computed_torque', 'gravity_compensation', 'impedance', 'pd_gravity', 'scara_circle')
#: Bytes that a tick may have in use at any time: a dozen numbers of Python. One array of four that
#: is made and dropped is no more than these; two, or a larger one, are.
MOST = 2 * sys.getsizeof(np.zeros(4))


def followed(law) -> StillArm:
    """Return an arm past ramp and take-over, on a long trajectory where its law follows one."""
    given = {'robot': 'scara', 'law': law, 'activation_ramp_s': 0.01}
    if law == 'scara_circle':
        given |= {'law': 'constraint_stabilization', 'program': law}
    arm = StillArm(ControllerSession(sample('scara').tree, given), PLACE).active()
    if arm.session.loop.law.follows_reference:
        arm.move([1.0, 60.0], PLACE, PLACE + 0.1)
    arm.states(3000)
    return arm


@pytest.mark.parametrize('law', LAWS)
def test_a_tick_makes_no_array_and_keeps_nothing(law):
    arm = followed(law)
    session, still, ticks = arm.session, np.zeros(4), 50
    stamps = [arm.now + (k + 1) * MS for k in range(4 * ticks)]
    before = sys.getallocatedblocks()
    for stamp in stamps[:ticks]:
        session.update(session.driver.state(stamp, stamp, PLACE, still))
        session.settle()
    grown = sys.getallocatedblocks() - before
    # The timestamps of the last state, for any number of ticks.
    assert grown < ticks / 2
    stamp = iter(stamps[ticks:])
    assert peak(session.loop.tick, lambda: session.loop.observe(next(stamp), PLACE, still)) < MOST


def peak(do, first=lambda: None) -> int:
    """Return the most bytes in use while something is done, each time after something else."""
    tracemalloc.start()
    try:
        peaks = []
        for _ in range(150):
            first()
            begin = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            do()
            peaks.append(tracemalloc.get_traced_memory()[1] - begin)
    finally:
        tracemalloc.stop()
    return max(peaks[50:])


def test_neither_the_guard_after_a_tick_nor_a_floating_arm_makes_an_array():
    given = {'law': 'computed_torque', 'contact_reaction': 'float'}
    session = StillArm(ControllerSession(sample('scara').tree, given), PLACE).active().session
    loop, floats, out, still = session.loop, session.follower, *np.zeros((2, 4))
    floats.reset(0.0, PLACE, still)
    guarding = peak(loop.adapt_guard)
    assert guarding < MOST / 2
    floating = partial(floats.effort, 0.0, PLACE, still, loop.reference, out)
    assert peak(floating) < guarding + 64  # of its five arguments


def test_a_state_may_be_filled_again_since_the_session_keeps_no_reference_to_it():
    session = ControllerSession(sample('scara').tree, {'observer_effort': 'measured'})
    session.contact.subscribe(True)
    arm, loop = StillArm(session, PLACE).active(), session.loop
    rows = np.array([PLACE, *np.zeros((2, 4))])
    assert session.update(ArmState(arm.stamp + MS, arm.now + MS, *rows))
    rows.fill(np.nan)
    session.settle()
    assert arm.wait()
    kept = session.command, loop.q, loop.v, loop.measured_effort, session.contact.observer.effort
    assert np.isfinite(kept).all()
