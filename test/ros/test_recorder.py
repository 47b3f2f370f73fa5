# SPDX-License-Identifier: Apache-2.0
"""The recorder node against real publishers; bags are read back by rosbags itself."""

import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import tables
import yaml
from answering import Answering
from peer import LATCHED, RELIABLE
from processes import free_domain
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from resting_arm import joint_state
from rosbags.highlevel import AnyReader
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray, String

from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.ros.conversions import message_class
from robot_dynamics_ros.ros.recorder import Recorder, Stream
from robot_dynamics_ros.ros.spinning import run

MS = 1_000_000
FIRST = [0.3, -0.4, 0.1, 0.5]
RUN = ('/joint_states', '/effort_controller/commands', '/controller/reference')


def read(path: Path) -> dict[str, list[tuple[int, Any]]]:
    """Return times and messages, as rclpy reads them, by topic."""
    with AnyReader([path]) as reader:
        found = {connection.topic: [] for connection in reader.connections}
        for connection, stamp, data in reader.messages():
            kind = message_class(connection.msgtype)
            found[connection.topic].append((stamp, deserialize_message(bytes(data), kind)))
    return found


def stamps(messages: list[tuple[int, Any]]) -> list[int]:
    return [stamp for stamp, _ in messages]


class FakeController(Answering):
    """Answers with a command and then a reference; the recorder listens as the simulator does."""

    def __init__(self, peer, last_stamp) -> None:
        super().__init__(peer, last_stamp=last_stamp, listeners=2)
        self._references = peer.publisher(JointState, RUN[2])

    def answer(self) -> None:
        super().answer()
        reference = JointState(header=self.states[-1].header, position=self.answers[-1])
        self._references.publish(reference)


def begin(processes, peer, parameters, last_stamp=10**18):
    """Start recorder, controller and paused simulator; return the first two once all is ready."""
    recorder = processes.start('recorder', parameters)
    recorder.says('recording to')
    controller = FakeController(peer, last_stamp)
    processes.start(
        'simulator', {'robot': 'scara', 'initial_position': FIRST, 'start_paused': True}
    )
    peer.spin_until(lambda: peer.ask('recorder/ready').success, 30, 'readiness')
    return recorder, controller


def test_a_run_is_recorded_without_loss_bit_for_bit_on_the_clock_of_its_states(
    processes, peer, tmp_path
):
    given, steps = {'bag': str(tmp_path / 'bag')}, 400
    recorder, controller = begin(processes, peer, given, last_stamp=(steps - 1) * MS)
    peer.ask('simulator/pause', False)
    peer.spin_until(lambda: len(controller.states) == steps + 1, 60, f'{steps} steps')
    assert recorder.stop(signal.SIGTERM) == 0
    assert f'/joint_states: {steps + 1} recorded' in recorder.output
    assert '0 lost' in recorder.output
    bag = read(tmp_path / 'bag')
    assert stamps(bag[RUN[0]]) == [k * MS for k in range(steps + 1)]
    assert [message for _, message in bag[RUN[0]]] == controller.states
    # A command has no timestamp: it is assigned that of the state it answers.
    assert stamps(bag[RUN[1]]) == stamps(bag[RUN[2]]) == [k * MS for k in range(steps)]
    commands = [message.data for _, message in bag[RUN[1]]]
    np.testing.assert_array_equal(commands, controller.answers)
    ((stamp, description),) = bag['/robot_description']
    assert (stamp, description.data[:5]) == (0, '<?xml')
    told = yaml.safe_load((tmp_path / 'bag' / 'metadata.yaml').read_text('utf-8'))
    custom = told['rosbag2_bagfile_information']['custom_data']
    usual, late = (float(custom[f'{RUN[1]} latency_{part}_us']) for part in ('p50', 'p99'))
    assert 0.0 < usual <= late  # from state to command: the bag itself has the states' times


def test_without_acknowledgement_all_is_recorded_until_the_duration_is_over(
    processes, peer, tmp_path
):
    """What comes once is still reliable."""
    given = {'bag': str(tmp_path / 'bag'), 'best_effort': True}
    given |= {'max_duration_s': 0.05, 'record_clock': True}
    recorder, _ = begin(processes, peer, given)
    for topic, expected in ((RUN[2], 'BEST_EFFORT'), ('/controller/joint_trajectory', 'RELIABLE')):
        (end,) = peer.node.get_subscriptions_info_by_topic(topic)
        assert end.qos_profile.reliability.name == expected
    peer.ask('simulator/pause', False)
    peer.spin_until(lambda: recorder.returncode is not None, 60, 'end of the recorder')
    assert recorder.wait() == 0
    bag = {topic: stamps(messages) for topic, messages in read(tmp_path / 'bag').items()}
    steps = [k * MS for k in range(51)]
    assert bag[RUN[0]] == steps
    for topic in RUN[1:]:  # whether the last state is answered in time is open
        assert bag[topic][:50] == steps[:50]
    assert '/robot_description' in bag
    assert max(map(max, filter(None, bag.values()))) == 50 * MS
    # A simulator that waits long for an answer repeats the time of its last state.
    assert {*steps[::10]} <= {*bag['/clock']} <= {*steps}


@tables.rows(
    'how in_bursts',
    """
{max_duration_s: 0.05}, false
{}, false
{best_effort: true}, true
{best_effort: true, extra_topics: '[image]'}, false
""",
)
def test_a_loss_fails_the_recorder_however_it_ends(monkeypatch, tmp_path, how, in_bursts):
    """The middleware cannot be forced to lose messages: its report is simulated here."""
    given = {'bag': str(tmp_path / 'bag'), 'fail_on_loss': True, **how}

    def make() -> Recorder:
        recorder = Recorder()
        assert recorder._group.in_bursts == in_bursts
        states = recorder.create_publisher(JointState, 'joint_states', RELIABLE)

        def publish() -> None:
            for k in range(0, 80, 10):
                states.publish(joint_state(k * MS, [0.0], names=['j']))
            if 'max_duration_s' not in how:
                os.kill(os.getpid(), signal.SIGINT)

        recorder.create_timer(0.05, publish)
        recorder._streams[0].first_at = 0.0  # long ago
        recorder._on_lost(recorder._streams[0], SimpleNamespace(total_count_change=7))
        assert not recorder._group.in_bursts
        return recorder

    with free_domain() as domain:
        monkeypatch.setenv('ROS_DOMAIN_ID', str(domain))
        words = [word for key, value in given.items() for word in ('-p', f'{key}:={value}')]
        assert run(make, ['recorder', '--ros-args', *words]) == 1


def test_the_end_of_a_recording_waits_for_messages_after_two_empty_polls(monkeypatch):
    """On a busy machine none may arrive within a poll although some are in transit."""
    recorder = object.__new__(Recorder)
    recorder._stamper, recorder._bag = Mock(), Mock()
    recorder._write_latency, recorder._report = Mock(), Mock(return_value=0)
    monkeypatch.setattr('robot_dynamics_ros.ros.recorder.time', Mock())
    for found, polls in ([0, 0, 5, 0, 0, 0], 6), ([1] * 20, 10):
        recorder.poll = Mock(side_effect=found)
        assert recorder._close() == 0
        assert recorder.poll.call_count == polls


def test_a_further_topic_of_a_type_that_is_not_installed_does_not_end_the_recording():
    recorder = Mock(_untyped=['odd'], _streams=[], _end_sent=sys.maxsize)
    recorder._settings, recorder._rivals.sentence.return_value = {'progress': False}, ''
    recorder.get_topic_names_and_types.return_value = [('/odd', ['vendor_msgs/msg/Odd'])]
    recorder.resolve_topic_name = '/{}'.format
    for _ in range(2):
        Recorder._on_timer(recorder)
    (said,) = (call.args[0] for call in recorder.get_logger().error.call_args_list)
    assert said.startswith("odd is not recorded: message type 'vendor_msgs/msg/Odd': is not insta")


def test_further_topics_are_found_whatever_their_type_and_reliability(processes, peer, tmp_path):
    extra = ['temperature', 'clock_copy rosgraph_msgs/msg/Clock', 'joint_states', 'temprature']
    recorder = processes.start('recorder', {'bag': str(tmp_path / 'bag'), 'extra_topics': extra})
    recorder.says('recording to')
    best_effort = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
    states, temperature, clock = publishers = [
        peer.publisher(JointState, 'joint_states', best_effort),
        peer.publisher(Float64, 'temperature'),
        peer.publisher(Clock, 'clock_copy'),
    ]
    commands = peer.publisher(Float64MultiArray, RUN[1])
    recorder.says('/joint_states is offered as best effort')
    peer.spin_until(
        lambda: all(p.get_subscription_count() for p in publishers), 20, 'subscriptions'
    )

    def publish(seconds: int) -> Clock:
        state = joint_state(seconds * NANO, [0.0], names=['j'])
        states.publish(state)
        return Clock(clock=state.header.stamp)

    def received() -> bool:
        """Best-effort messages are lost until the recorder has discovered their publisher."""
        publish(1)
        commands.publish(Float64MultiArray(data=[0.0]))
        return peer.ask('recorder/ready').success

    peer.spin_until(received, 20, 'the recorder hearing states')
    for k in range(2, 7):
        time = publish(k)
        peer.spin_for(0.05)
        temperature.publish(Float64(data=20.0 + k))
        clock.publish(time)
        peer.spin_for(0.05)
    assert recorder.stop() == 0
    assert recorder.output.count('no message received on') == 1
    assert 'received on temprature: remap it' in recorder.output
    bag = read(tmp_path / 'bag')
    seconds = [k * NANO for k in range(1, 7)]
    assert stamps(bag['/joint_states']) == seconds
    assert stamps(bag['/clock_copy']) == seconds[1:]
    assert bag['/temperature'] == [(k * NANO, Float64(data=20.0 + k)) for k in range(2, 7)]


def test_what_has_no_valid_time_is_recorded_and_ends_no_recording(processes, peer, tmp_path):
    """Messages that are too short for a timestamp, or whose timestamp is negative."""
    recorder = processes.start('recorder', {'bag': str(tmp_path / 'bag')})
    publishers = [peer.publisher(JointState, topic) for topic in (RUN[0], RUN[2])]
    peer.spin_until(lambda: all(p.get_subscription_count() for p in publishers), 20, 'recorder')
    old, new = (joint_state(k * NANO, [0.1], names=['j']) for k in (-2, 5))
    for publisher in publishers:
        for message in (b'\0\1\0\0', old, new):
            publisher.publish(message)
    peer.delivered(*publishers)
    assert recorder.stop() == 0, recorder.output
    assert 'Traceback' not in recorder.output
    with AnyReader([tmp_path / 'bag']) as reader:
        found = [(connection.topic, stamp) for connection, stamp, _ in reader.messages()]
    assert len(found) == 6
    assert sorted(found)[3:] == [(RUN[0], 0), (RUN[0], 0), (RUN[0], 5 * NANO)]


def test_states_without_timestamps_have_the_times_at_which_they_were_sent(
    processes, peer, tmp_path
):
    given = {'bag': str(tmp_path / 'bag'), 'max_duration_s': 0.5, 'state_topic': 'arm/states'}
    recorder = processes.start('recorder', given)
    states, begin = peer.publisher(JointState, '/arm/states'), time.time()

    def ended() -> bool:
        states.publish(joint_state(0, [time.time()], names=['j']))
        return recorder.returncode is not None

    peer.spin_until(ended, 30, 'end of the recorder')
    assert recorder.wait() == 0
    times = np.array(stamps(read(tmp_path / 'bag')['/arm/states'])) / NANO
    assert begin < times[0] < times[-1] < time.time()
    assert 0.2 < times[-1] - times[0] <= 0.5


def test_latched_messages_from_before_the_recording_are_in_the_bag(processes, peer, tmp_path):
    publisher = peer.publisher(String, 'controller/parameters', LATCHED)
    publisher.publish(String(data='law: computed_torque'))
    reference = peer.publisher(JointState, RUN[2])
    recorder = processes.start('recorder', {'bag': str(tmp_path / 'bag')})
    peer.spin_until(publisher.get_subscription_count, 30, 'the recorder')
    peer.spin_until(reference.get_subscription_count, 30, 'the recorder')
    reference.publish(JointState())
    peer.delivered(publisher, reference)
    assert recorder.stop() == 0
    for topic in RUN[:2]:
        assert f'no message received on {topic}: remap it' in recorder.output
    ((_, message),) = read(tmp_path / 'bag')['/controller/parameters']
    assert message.data == 'law: computed_torque'
    assert 'transient_local' in (tmp_path / 'bag' / 'metadata.yaml').read_text()


def test_what_is_missed_while_joining_a_running_publisher_is_no_loss():
    """A recorder that was started last ended with exit code 1 for one command."""
    stream = Stream('effort_controller/commands', 'std_msgs/msg/Float64MultiArray')
    stream.count_lost(2, 10.0)  # before the first message
    for k in range(73):
        stream.count(10.0 + 0.015 * k)
    stream.count_lost(1, 10.9)
    assert (stream.missed, stream.lost, stream.received) == (3, 0, 73)
    stream.count_lost(4, 11.1)
    assert (stream.missed, stream.lost) == (3, 4)
