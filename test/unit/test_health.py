# SPDX-License-Identifier: Apache-2.0
"""Periods without a command are counted, and the worst latency is reported."""

from __future__ import annotations

from samples import sample

from robot_dynamics_ros.control.modes import SessionHealth
from robot_dynamics_ros.control.session import ControllerSession

MILLISECOND = 1_000_000


def test_missed_periods_add_up_and_the_worst_latency_is_of_each_report():
    session = ControllerSession(sample('scara').tree, {'robot': 'scara', 'period': 0.001})
    health, stamp = SessionHealth(), 0
    for k, skipped in enumerate([0, 0, 3, 0, 1, 0]):
        stamp += (1 + skipped) * MILLISECOND + 100_000 * (k % 2)  # jitter is not a loss
        health.count(stamp, 20_000 + 5_000 * k)
    values = health.report(session).values
    assert values['missed_periods'] == 4
    assert values['latency_worst_us'] == '45'
    for _ in range(3):
        stamp += MILLISECOND
        health.count(stamp, 30_000)
    values = health.report(session).values
    assert values['missed_periods'] == 4
    assert values['latency_worst_us'] == '30'
