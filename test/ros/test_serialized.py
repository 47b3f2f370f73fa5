# SPDX-License-Identifier: Apache-2.0
"""Serialized states and commands equal the same messages as objects.

Oracle: rclpy's own serialization, and the reader of messages as objects.
"""

import array
import re
import sys
from functools import partial
from types import SimpleNamespace

import bags
import numpy as np
import pytest
import tables
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from rclpy.serialization import deserialize_message, serialize_message
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from samples import sample
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.messages import PLAIN, from_start, message_bytes, number_layout
from robot_dynamics_ros.ros import conversions
from robot_dynamics_ros.ros.conversions import (
    EffortWriter,
    JointStateReader,
    efforts_of,
)
from robot_dynamics_ros.ros.driver_connection import DriverConnection

JOINTS = ('joint1', 'joint2', 'joint3')
OTHER = ('joint3', 'gripper', 'joint1', 'joint2')


def state(names=JOINTS, position=None, velocity=None, effort=(), sec=7, frame='') -> JointState:
    count = len(names)
    message = JointState(
        name=list(names),
        position=array.array('d', np.arange(count) + 0.5 if position is None else position),
        velocity=array.array('d', -np.arange(count) - 0.25 if velocity is None else velocity),
        effort=array.array('d', effort),
    )
    message.header.frame_id = frame
    message.header.stamp.sec, message.header.stamp.nanosec = sec, 123_456_789
    return message


#: Each after a usable message of the usual order, and after one of another order.
MESSAGES = {
    name: state(**given)
    for name, given in yaml.safe_load("""
usual: {position: [3.0, 2.0, 1.0]}
another order: {names: [joint3, gripper, joint1, joint2]}
a part: {names: [joint1, joint2]}
nothing of ours: {names: [gripper]}
a name twice: {names: [joint1, joint2, joint3, joint1]}
a name instead of another: {names: [joint1, joint1, joint3]}
not a number: {position: [.nan, .inf, -.inf]}
no velocities: {velocity: []}
too few velocities: {velocity: [1.0, 2.0]}
too many positions: {position: [1.0, 1.0, 1.0, 1.0]}
too few positions: {position: [1.0, 1.0]}
efforts: {effort: [1.0, 2.0, 3.0]}
too few efforts: {effort: [1.0]}
a longer frame: {frame: base_link}
before 1970: {sec: -5}
empty: {names: [], position: [], velocity: []}
""").items()
}


def outcome(reader, complete):
    arrays = (reader.q, reader.v, reader.effort())
    return complete, [x.tobytes() for x in arrays], reader.problem()


@settings(max_examples=200)
@given(names=st.lists(st.sampled_from(sorted(MESSAGES)), max_size=8), velocity=st.booleans())
@example(names=['usual', 'another order', 'another order', 'a part', 'usual'], velocity=True)
def test_bytes_are_taken_and_refused_as_messages_are(names, velocity):
    """Positions of further joints, too, which are passed on with their names."""
    as_objects, as_bytes = (JointStateReader(JOINTS, velocity=velocity) for _ in range(2))
    for name in names:
        message = MESSAGES[name]
        expected = outcome(as_objects, as_objects.read_message(message))
        content = bytes(serialize_message(message))
        assert outcome(as_bytes, as_bytes.read(content)) == expected
        stamp = message.header.stamp
        assert as_bytes.stamp_ns == stamp.sec * 1_000_000_000 + stamp.nanosec
        further, positions = as_bytes.latest
        assert (list(further), positions.tobytes()) == (
            list(message.name), np.array(message.position).tobytes()
        )  # fmt: skip
    assert as_bytes.unreadable == as_objects.unreadable


@tables.written("""
[]                                            | no message arrived; never seen: joint1, joint2, joint3
[no velocities]                               | no velocity for: joint1, joint2, joint3
[usual, no velocities, a part]                | no velocity for: joint3
[usual, no velocities, a part, another order] | none
[nothing of ours]                             | never seen: joint1, joint2, joint3; the last message names: gripper
[usual, nothing of ours]                      | no longer seen: joint1, joint2, joint3; the last message names: gripper
[a part]                                      | never seen: joint3
[usual, a part]                               | no longer seen: joint3
[a part, a part, prefixed]                    | never seen: joint3; the last message names: arm_joint1, arm_joint2, arm_joint3
[usual, empty]                                | no longer seen: joint1, joint2, joint3; the last message names: no joint
[usual, too many positions]                   | the last message has 4 positions for 3 names
[usual, too few velocities]                   | the last message has 2 velocities for 3 names
[usual, cut off]                              | the last message is no JointState
[usual, not a number]                         | none
[usual, a name twice]                         | the last message names joint1 more than once
[a name instead of another]                   | the last message names joint1 more than once; never seen: joint1, joint2, joint3
[a name twice, usual]                         | none
[empty, too few positions, usual, usual]      | none
[nothing of ours, a part, the rest]           | none
[a part, usual, the rest]                     | no longer seen: joint1, joint2
[usual, a part, usual, the rest]              | no longer seen: joint1, joint2
""")  # noqa: E501
def test_it_says_why_the_last_message_completes_no_state(given, said):
    reader = JointStateReader(JOINTS)
    parts = {'prefixed': state([f'arm_{name}' for name in JOINTS]), 'the rest': state(JOINTS[2:])}
    contents = {k: bytes(serialize_message(v)) for k, v in (MESSAGES | parts).items()}
    contents['cut off'] = contents['usual'][:40]
    for name in given:
        reader.read(contents[name])
    assert re.fullmatch(said, reader.problem() or 'none')
    flawed = [name for name in given if name.startswith(('too', 'cut', 'a name'))]
    assert reader.unreadable == len(flawed)


def test_only_the_first_of_equal_messages_becomes_an_object():
    reader = JointStateReader(JOINTS)
    for i in range(10):
        assert reader.read(bytes(serialize_message(state(OTHER, [float(i)] * 4))))
        assert_array_equal(reader.q, [float(i)] * 3)
    assert reader.deserialized == 1
    assert reader.read(bytes(serialize_message(state())))
    assert reader.deserialized == 2


USUAL = bytes(serialize_message(MESSAGES['usual']))


@pytest.mark.parametrize(
    'content',
    [
        bags.state(7_123_456_789, JOINTS, [3.0, 2.0, 1.5], [0.0] * 3).cdr(little_endian=False),
        *(kind + USUAL[2:] for kind in (b'\x00\x06', b'\x00\x0a', b'\xff\xff')),
        *(USUAL[:size] for size in (0, 3, 4, 11, 40, 90)),
    ],
    ids=range(10),  # padding has other bytes in every process
)
def test_another_order_of_bytes_another_encapsulation_or_a_part_never_serves_as_a_layout(content):
    """It is read as the middleware reads it."""
    reader, other = JointStateReader(JOINTS), JointStateReader(JOINTS)
    assert reader.read(USUAL)
    for _ in range(2):
        try:
            expected = other.read_message(deserialize_message(content, JointState))
        except RuntimeError:
            expected = False
        assert reader.read(content) == expected
        if expected:
            assert_array_equal(reader.q, other.q)
            assert reader.stamp_ns == 7_123_456_789
    assert reader.deserialized + reader.unreadable == 3
    assert reader.read(USUAL)


class Collector:
    """Replaces a publisher: stores the published bytes."""

    def __init__(self) -> None:
        self.contents: list[bytes] = []

    def publish(self, content: bytes) -> None:
        self.contents.append(content)


@pytest.mark.parametrize('form', ['group', 'joint_state', 'per_joint', 'overlay'])
def test_prepared_commands_are_such_messages(form):
    effort, positions, place = [1.5, -2.5, 3.5], np.zeros(3), [0.1, 0.2, 0.3]
    expected = {
        'group': [Float64MultiArray(data=effort)],
        'joint_state': [JointState(name=list(JOINTS), effort=effort)],
        'per_joint': [Float64(data=x) for x in effort],
        'overlay': [Float64MultiArray(data=x) for x in (place, effort)],
    }[form]
    topics = [Collector() for _ in expected]
    writer = EffortWriter(topics, JOINTS, form, positions if form == 'overlay' else None)
    writer.publish(np.full(3, 9.0))
    positions[:] = place
    writer.publish(np.array(effort))
    sent = (deserialize_message(x.contents[1], type(y)) for x, y in zip(topics, expected))  # noqa: B905
    assert [*sent] == expected


# JointCommand, which control_msgs has since 2026 -------------------------------------------------

_DEFINITION = """
std_msgs/Header header
string[] joint_names
string interface_name
float64[] values
"""


@pytest.fixture
def joint_command(monkeypatch):
    """Install a control_msgs with that message; rosbags serializes it instead of rclpy."""
    store = get_typestore(Stores.ROS2_JAZZY)
    kind = 'control_msgs/msg/JointCommand'
    store.register(get_types_from_msg(_DEFINITION, kind))
    time, header = store.types['builtin_interfaces/msg/Time'], store.types['std_msgs/msg/Header']

    def make(joint_names, interface_name, values):
        stamp = header(stamp=time(sec=0, nanosec=0), frame_id='')
        return store.types[kind](stamp, joint_names, interface_name, np.array(values))

    def serialize(message):
        if isinstance(message, store.types[kind]):
            return bytes(store.serialize_cdr(message, kind))
        return serialize_message(message)

    module = SimpleNamespace(JointCommand=make)
    monkeypatch.setitem(sys.modules, 'control_msgs', SimpleNamespace(msg=module))
    monkeypatch.setitem(sys.modules, 'control_msgs.msg', module)
    monkeypatch.setattr(conversions, 'serialize_message', serialize)
    return lambda content: store.deserialize_cdr(content, kind)


@pytest.mark.parametrize('joints', [JOINTS, ('a', 'axis_2')])
def test_a_joint_command_has_names_interface_efforts_and_the_time_of_sending(
    joint_command, joints
):
    topic, times = Collector(), iter([1_000_000_001, 7_123_456_789])
    writer = EffortWriter([topic], joints, 'joint_command', now_ns=lambda: next(times))
    command = np.array([1.5, -2.5, 3.5])[: len(joints)]
    for effort in (0.0 * command, command):
        writer.publish(effort)
    sent = joint_command(topic.contents[1])
    assert (tuple(sent.joint_names), sent.interface_name) == (joints, 'effort')
    assert_array_equal(sent.values, command)
    assert (sent.header.stamp.sec, sent.header.stamp.nanosec) == (7, 123_456_789)


def test_a_joint_command_without_a_clock_has_the_time_of_its_state():
    """A driver that discards old commands would discard those of time 0."""
    connection = DriverConnection(DriverInterface(None, sample('scara').tree))
    connection.reader.stamp_ns = 5
    for now, expected in ((0, 5), (7, 7)):
        clock = SimpleNamespace(now=lambda now=now: SimpleNamespace(nanoseconds=now))
        assert connection.command_stamp_ns(clock) == expected


@tables.rows(
    'interface count values expected',
    """
effort, 3, [3.0, 1.0, 2.0], [1.0, 2.0, 3.0]
position, 3, [3.0, 1.0, 2.0], []
effort, 2, [3.0, 1.0], []
effort, 3, [3.0, 1.0], []
""",
)
def test_a_joint_command_is_read_by_names_and_for_efforts_only(interface, count, values, expected):
    names = ['joint3', 'joint1', 'joint2'][:count]
    message = SimpleNamespace(interface_name=interface, joint_names=names, values=values)
    assert [*efforts_of(message, 'joint_command', JOINTS)] == expected


def test_a_joint_command_that_is_not_installed_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, 'control_msgs.msg', None)
    with pytest.raises(ConfigurationError, match='JointCommand.* is not installed; install a con'):
        EffortWriter([], JOINTS, 'joint_command')


def test_bytes_too_short_for_a_number_are_no_message():
    for size in range(12):
        read = message_bytes(
            PLAIN[:size] + bytes(max(size - 4, 0)), partial(number_layout, single=True)
        )
        assert read is None, size


@tables.rows(
    'nanoseconds said',
    """
0, from 0 s
1500000000, from 1.5 s
1760000000123456789, from 1760000000.123456789 s
""",
)
def test_a_trajectory_is_named_by_its_start_to_the_last_digit(nanoseconds, said):
    assert from_start(nanoseconds) == said
