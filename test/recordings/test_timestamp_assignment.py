# SPDX-License-Identifier: Apache-2.0
"""Messages get the time of their state, regardless of the order of arrival."""

import numpy as np
import pytest

from robot_dynamics_ros.recordings import timestamp_assignment
from robot_dynamics_ros.recordings.timestamp_assignment import TimestampAssigner

MS = 1_000_000
WALL = 1_700_000_000_000_000_000  # source times are ns since the epoch


class Recorded:
    """A stamper whose output is a list of (topic, time, data)."""

    def __init__(self):
        self.messages = []
        self.stamper = TimestampAssigner(lambda *message: self.messages.append(message))
        for topic in ('states', 'commands', 'other'):
            self.stamper.add_topic(topic)

    def play(self, script):
        """Take states and commands by number and the time at which they were sent, s3@300."""
        for word in script.split():
            name, sent = word.split('@')
            if name[0] == 's':
                self.stamper.add_state(
                    'states', WALL + int(sent), int(name[1:]) * MS, name.encode()
                )
            else:
                self.stamper.add('commands', WALL + int(sent), 0, name.encode())

    def other(self, sent, stamp, data=b'o'):
        self.stamper.add('other', WALL + sent, stamp, data)

    def closed(self):
        self.stamper.close()
        return self.written()

    def written(self):
        """Return what was recorded: data, which begin as their topic, and time in ms and ns."""
        assert all(topic.encode()[:1] == data[:1] for topic, _, data in self.messages)
        return ' '.join(f'{data.decode()}={words(time)}' for _, time, data in self.messages)


def words(time):
    return f'{time // MS}' + f'+{time % MS}' * bool(time % MS)


def script(steps):
    return ' '.join(f's{k}@{100 * k} c{k}@{100 * k + 40}' for k in range(steps))


def expected_run(steps):
    return ' '.join(f's{k}={k} c{k}={k}' for k in range(steps))


def test_the_order_of_arrival_changes_nothing():
    rng = np.random.default_rng(3)
    steps = 60
    sent = np.array(script(steps).split()).reshape(steps, 2).T
    for _ in range(20):
        recorded = Recorded()
        # Each single topic arrives in order, as the middleware guarantees.
        late = np.add.outer([0, 0], 100.0 * np.arange(steps)) + rng.uniform(0, 2000, (2, steps))
        topics = np.argsort(late, axis=None) // steps
        of_topics = [iter(sent[topic]) for topic in (0, 1)]
        recorded.play(' '.join(next(of_topics[topic]) for topic in topics.tolist()))
        assert recorded.closed() == expected_run(steps)


def test_messages_leave_in_order_while_the_recording_goes_on(monkeypatch):
    monkeypatch.setattr(timestamp_assignment, 'HORIZON_NS', 2 * MS)
    recorded = Recorded()
    recorded.play(script(10))
    assert recorded.written() == expected_run(7)  # those before 9 - 2 ms
    assert recorded.closed() == expected_run(10)


def test_what_comes_before_the_first_state_takes_its_stamp_and_without_any_its_own():
    recorded = Recorded()
    recorded.other(5, 0)
    recorded.other(6, 3 * MS, b'o2')
    assert recorded.closed() == f'o2=3 o={words(WALL + 5)}'
    recorded = Recorded()
    recorded.other(-(10**9), 0)
    recorded.play('s7@0')
    assert recorded.closed() == 's7=7 o=7'


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
    recorded.play('s2@200 s3@300 s4@400')
    recorded.other(450, stamp)
    recorded.play('s5@500')
    assert f'o={words(time)}' in recorded.closed().split()


def test_a_restart_of_time_is_counted_and_ends_the_run_before():
    recorded = Recorded()
    # The command that answers the new first state arrives before it.
    recorded.play(f'{script(3)} c0@1040 s0@1000 s1@1100 c1@1140')
    assert recorded.closed() == f'{expected_run(3)} {expected_run(2)}'
    assert recorded.stamper.jumps == 1
    assert recorded.stamper.states == 5


def test_repetitions_at_one_time_are_left_out_and_equal_messages_at_other_times_are_not():
    recorded = Recorded()
    recorded.play('s0@0 s0@0 s0@0 c0@40 c0@50 c9@60 s1@100 c0@140')
    assert recorded.closed() == 's0=0 c0=0 c9=0 s1=1 c0=1'
    assert recorded.stamper.repeated == {'states': 2, 'commands': 1, 'other': 0}


def test_the_time_from_state_to_command_is_noted_once_for_each():
    recorded = Recorded()
    recorded.play('s0@0 c0@40 c0@500 s1@1000 c1@1041 c1@1500 s2@2000 c2@2042 c2@2500')
    recorded.closed()
    assert list(recorded.stamper.latencies_ns['commands']) == [40, 41, 42]
