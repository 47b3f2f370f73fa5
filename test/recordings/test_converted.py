# SPDX-License-Identifier: Apache-2.0
"""Tables, bags of ROS 1 and states in other messages are read as bags are."""

from __future__ import annotations

import numpy as np
import pytest
from bags import DESCRIPTION, STATES, Message, T, defined, header, state, write
from numpy.testing import assert_allclose, assert_array_equal
from recorded_arm import measured_arm, sinusoidal_run
from rosbags.rosbag1 import Writer as WriterOfRos1
from rosbags.typesys import Stores, get_typestore

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.recordings.bag import converted
from robot_dynamics_ros.recordings.reading import read_recording

JOINTS = ('pan', 'lift', 'elbow')
CONTROLLER = '/arm_controller/controller_state'


@pytest.fixture(scope='module')
def run():
    return sinusoidal_run(measured_arm(), np.random.default_rng(2), 4.0)


def test_a_yaml_file_names_columns_joints_and_rate(run, tmp_path, monkeypatch):
    monkeypatch.setattr(converted, '_BLOCK', 64)
    columns = np.column_stack([run.time, run.position, run.velocity, run.measured_effort])
    names = '\t'.join('nabcdefghi')
    np.savetxt(tmp_path / 'log.txt', columns, '%.17g', '\t', header=names, comments='')
    mapping = tmp_path / 'log.yaml'
    mapping.write_text(
        'table: log.txt\nrate: 100\njoints: [pan, lift, elbow]\nposition: [a, b, c]\n'
        'command: [g, h, i]\nreference_position: [a, b, c]\nreference_velocity: [d, e, f]\n'
    )
    read = read_recording(mapping)
    assert read.joints == JOINTS
    assert_array_equal(read.effort, run.measured_effort)
    assert_array_equal(read.reference_velocity, run.velocity)
    assert_allclose(np.diff(read.time), 0.01, rtol=1e-6)


def test_a_bag_of_ros_1_is_read_and_compared_with_a_table(run, tmp_path, command):
    bag, log = tmp_path / 'old.bag', tmp_path / 'log.csv'
    store = get_typestore(Stores.ROS1_NOETIC)
    types = store.types
    with WriterOfRos1(bag) as writer:
        rows = [(DESCRIPTION, types['std_msgs/msg/String'](run.description))]
        for k, seconds in enumerate(run.time.tolist()):
            stamp = types['builtin_interfaces/msg/Time'](*divmod(round(seconds * 1e9), 10**9))
            columns = run.position[k], run.velocity[k], run.measured_effort[k]
            head = types['std_msgs/msg/Header'](k, stamp, '')
            message = types['sensor_msgs/msg/JointState'](head, [*run.joints], *columns)
            rows.append((STATES, message))
        places = {}
        for k, (topic, message) in enumerate(rows):
            kind = message.__msgtype__
            if topic not in places:
                places[topic] = writer.add_connection(topic, kind, typestore=store)
            data = store.serialize_ros1(message, kind)
            writer.write(places[topic], 10**9 + 10**7 * k, data)
    read = read_recording(bag)
    assert_array_equal(read.position, run.position)
    assert_array_equal(read.measured_effort, run.measured_effort)
    assert read.description == run.description
    head = ','.join(f'{key}.{name}' for key in ('position', 'effort') for name in JOINTS)
    columns = np.column_stack([run.time, run.position + 1e-3, run.measured_effort])
    np.savetxt(log, columns, '%.17g', ',', header=f'time,{head}', comments='')
    found = command('compare --align 0', bag, log).figures['difference']
    assert_allclose(found['rms_position'], 1e-3)
    assert_array_equal(found['peak_effort'], 0.0)
    bag.write_bytes(bag.read_bytes()[:-3000])  # without its index
    command('analyze', bag, code=2)


KIND = 'control_msgs/msg/JointTrajectoryControllerState'
FIELDS = {'jazzy': ('reference', 'feedback', 'error', 'output'),
          'humble': ('desired', 'actual', 'error')}  # fmt: skip


@pytest.mark.parametrize(('distro', 'with_states'), [('jazzy', True), ('humble', False)])
def test_the_state_of_a_trajectory_controller_is_reference_feedback_and_command(
    distro, with_states, run, read
):
    fields = FIELDS[distro]
    points = (f'trajectory_msgs/JointTrajectoryPoint {name}' for name in fields)
    store = defined(KIND, 'std_msgs/Header header', 'string[] joint_names', *points)
    empty, zero = np.zeros(0), T['builtin_interfaces/msg/Duration'](0, 0)

    def point(q=empty, v=empty, effort=empty):
        """The order of the controller is its own: the reverse."""
        values = [np.ascontiguousarray(x[::-1]) for x in (q, v, empty, effort)]
        return T['trajectory_msgs/msg/JointTrajectoryPoint'](*values, zero)

    messages = []
    for k, stamp in enumerate(run.stamp_ns.tolist()):
        q, v = run.position[k], run.velocity[k]
        points = point(q + 0.1, v[: 2 if k == 7 else 3]), point(q, v), point()
        points += (point(effort=run.measured_effort[k]),) * (len(fields) == 4)
        content = store.types[KIND](header(stamp), [*JOINTS[::-1]], *points)
        messages += [state(stamp, JOINTS, q, v)] * with_states
        messages.append(Message(CONTROLLER, stamp, KIND, content, store))
    found = read(messages).of_joints(JOINTS)
    expected = run.position + 0.1
    expected[7] = np.nan
    assert_allclose(found.position, run.position)
    assert_allclose(found.reference_position, expected)
    assert f'1 message on {CONTROLLER}/reference cannot be used: left out' in found.notes
    if len(fields) == 4:
        assert_allclose(found.effort, run.measured_effort)
    assert not any('not read' in note for note in found.notes)


FRANKA = 'franka_msgs/msg/FrankaRobotState'
ROBOT = '/broadcaster/robot_state'


@pytest.mark.slow
@pytest.mark.parametrize('stamped', ['fields', 'message'])
def test_joint_states_in_fields_of_a_message_are_topics(stamped, run, tmp_path):
    """As in franka_msgs/FrankaRobotState, whose definition is in the bag alone."""
    fields = ('measured', 'motor_state', 'external')
    lines = (f'sensor_msgs/JointState {name}' for name in fields)
    store = defined(FRANKA, 'std_msgs/Header header', *lines, 'bool ok')
    rows = []
    for k, stamp in enumerate(run.stamp_ns.tolist()):
        own, q, v = stamp if stamped == 'fields' else 0, run.position[k], run.velocity[k]
        effort = run.measured_effort[k]
        columns = (q, v, effort), (q + 0.1, v[: 1 if k == 7 else 3]), ((), (), effort)
        states = (state(own, JOINTS, *given).content for given in columns)
        content = store.types[FRANKA](header(stamp), *states, True)
        rows.append(Message(ROBOT, stamp + 10**6, FRANKA, content, store))
    bag = write(tmp_path / 'bag', rows)
    for given, said in (({}, '--states'), ({'states': ROBOT}, 'choose one of .*')):
        with pytest.raises(RecordingError, match=f'{said}: {ROBOT}/measured, {ROBOT}/motor_state'):
            read_recording(bag, **given)
    names = {'states': f'{ROBOT}/measured', 'reference': f'{ROBOT}/motor_state'}
    found = read_recording(bag, **names)
    assert_allclose(found.time, run.time, atol=1e-9)
    assert_array_equal(found.position, run.position)
    assert_array_equal(found.measured_effort, run.measured_effort)
    assert_array_equal(np.flatnonzero(np.isnan(found.reference_position[:, 0])), [7])
    others = [state(x.time, JOINTS, 3 * [1.0], topic='/states') for x in rows]
    both = write(tmp_path / 'both', rows + others)
    assert (read_recording(both).position == 1.0).all(), 'a topic of states is preferred'
