# SPDX-License-Identifier: Apache-2.0
"""Messages get the time of their state, regardless of the order of arrival."""

from __future__ import annotations

import numpy as np
import pytest

from robot_dynamics_ros.recordings.timestamp_assignment import TimestampAssigner

MS = 1_000_000
WALL = 1_700_000_000_000_000_000  # source times are ns since the epoch


class Recorded:
    """A stamper whose output is a list of (topic, time, data)."""

    def __init__(self, **options):
        self.messages = []
        self.stamper = TimestampAssigner(lambda *message: self.messages.append(message), **options)
        for topic in ('states', 'commands', 'other'):
            self.stamper.add_topic(topic)

    def state(self, k, sent):
        self.stamper.add_state('states', WALL + sent, k * MS, b's%d' % k)

    def command(self, k, sent):
        self.stamper.add('commands', WALL + sent, 0, b'c%d' % k)

    def closed(self):
        self.stamper.close()
        return self.messages


def expected_run(steps):
    run = []
    for k in range(steps):
        run += [('states', k * MS, b's%d' % k), ('commands', k * MS, b'c%d' % k)]
    return run


def test_the_order_of_arrival_changes_nothing():
    rng = np.random.default_rng(3)
    steps = 60
    for _ in range(20):
        recorded = Recorded()
        # Each single topic arrives in order, as the middleware guarantees.
        of_states, of_commands = iter(range(steps)), iter(range(steps))
        late = np.add.outer([0, 0], 100.0 * np.arange(steps)) + rng.uniform(0, 2000, (2, steps))
        for place in np.argsort(late, axis=None).tolist():
            if place >= steps:
                k = next(of_commands)
                recorded.command(k, 100 * k + 40)
            else:
                k = next(of_states)
                recorded.state(k, 100 * k)
        assert recorded.closed() == expected_run(steps)


def test_messages_leave_in_order_while_the_recording_goes_on():
    recorded = Recorded(horizon_ns=2 * MS)
    for k in range(10):
        recorded.state(k, 100 * k)
        recorded.command(k, 100 * k + 40)
    assert recorded.messages == expected_run(10)[:14]  # those before 9 - 2 ms
    assert recorded.closed() == expected_run(10)


def test_what_comes_before_the_first_state_takes_its_stamp_and_without_any_its_own():
    recorded = Recorded()
    recorded.stamper.add('other', WALL + 5, 0, b'x')
    recorded.stamper.add('other', WALL + 6, 3 * MS, b'y')
    assert recorded.closed() == [('other', 3 * MS, b'y'), ('other', WALL + 5, b'x')]
    recorded = Recorded()
    recorded.stamper.add('other', WALL - 10**9, 0, b'description')
    recorded.state(7, 0)
    assert recorded.closed() == [('states', 7 * MS, b's7'), ('other', 7 * MS, b'description')]


@pytest.mark.parametrize(
    ('stamp', 'time'),
    [
        (3 * MS, 3 * MS),  # of a state before: a reference
        (4 * MS, 4 * MS),
        (9 * MS, 4 * MS),  # of the future: a trajectory to come
        (WALL, 4 * MS),  # of the wall clock
        (1 * MS, 4 * MS),  # of before the recording
        (0, 4 * MS),  # none
    ],
)
def test_an_own_stamp_counts_if_it_lies_within_the_run(stamp, time):
    recorded = Recorded()
    for k in range(2, 5):
        recorded.state(k, 100 * k)
    recorded.stamper.add('other', WALL + 450, stamp, b'x')
    recorded.state(5, 500)
    assert ('other', time, b'x') in recorded.closed()


def test_a_restart_of_time_is_counted_and_ends_the_run_before():
    recorded = Recorded()
    for k in range(3):
        recorded.state(k, 100 * k)
        recorded.command(k, 100 * k + 40)
    recorded.command(0, 1040)  # answers the new first state, and arrives before it
    recorded.state(0, 1000)
    recorded.state(1, 1100)
    recorded.command(1, 1140)
    assert recorded.closed() == expected_run(3) + expected_run(2)
    assert recorded.stamper.jumps == 1
    assert recorded.stamper.states == 5


def test_repetitions_at_one_time_are_left_out_and_equal_messages_at_other_times_are_not():
    recorded = Recorded()
    for _ in range(3):
        recorded.state(0, 0)
    recorded.command(0, 40)
    recorded.command(0, 50)
    recorded.stamper.add('commands', WALL + 60, 0, b'another')
    recorded.state(1, 100)
    recorded.command(0, 140)
    assert recorded.closed() == [
        ('states', 0, b's0'),
        ('commands', 0, b'c0'),
        ('commands', 0, b'another'),
        ('states', MS, b's1'),
        ('commands', MS, b'c0'),
    ]
    assert recorded.stamper.repeated == {'states': 2, 'commands': 1, 'other': 0}


def test_the_time_from_state_to_command_is_noted_once_for_each():
    recorded = Recorded()
    for k in range(3):
        recorded.state(k, 1000 * k)
        recorded.command(k, 1000 * k + 40 + k)
        recorded.command(k, 1000 * k + 500)
    recorded.closed()
    assert list(recorded.stamper.latencies_ns['commands']) == [40, 41, 42]
