# SPDX-License-Identifier: Apache-2.0
"""Tables, bags of ROS 1 and states in other messages are read as bags are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bags import DESCRIPTION, STATES, Message, T, defined, header, state, write
from numpy.testing import assert_allclose, assert_array_equal
from recorded_arm import measured_arm, measured_run, sinusoids
from rosbags.rosbag1 import Writer as WriterOfRos1
from rosbags.typesys import Stores, get_typestore

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.recordings.bag import converted
from robot_dynamics_ros.recordings.reading import read_recording

JOINTS = ('pan', 'lift', 'elbow')
CONTROLLER = '/arm_controller/controller_state'


@pytest.fixture(scope='module')
def run():
    motion = sinusoids(np.random.default_rng(2), 3, np.arange(0.0, 4.0, 0.01), pace=1.0)
    return measured_run(measured_arm(), motion)


def table(run, path, heads, separator=','):
    """Write times, positions, velocities and efforts."""
    columns = np.column_stack([run.time, run.position, run.velocity, run.measured_effort])
    np.savetxt(path, columns, '%.17g', separator, header=separator.join(heads), comments='')
    return path


def test_a_yaml_file_names_columns_joints_and_rate(run, tmp_path, monkeypatch):
    monkeypatch.setattr(converted, '_BLOCK', 64)
    heads = ['n', *'abcdefghi']
    table(run, tmp_path / 'log.txt', heads, '\t')
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


@pytest.mark.slow
def test_a_table_is_compared_with_a_bag(run, tmp_path, command):
    heads = [f'{key}.{name}' for key in ('position', 'velocity', 'effort') for name in JOINTS]
    away = replace(run, position=run.position + [1e-3, 2e-3, 3e-3])
    log = table(away, tmp_path / 'log.csv', ['time', *heads])
    assert read_recording(log).measured_effort.tobytes() == run.measured_effort.tobytes()
    bag = ros1(run, tmp_path / 'old.bag')
    found = command('compare --align 0', bag, log, '--robot', run.description).figures
    assert found['states'] == 400
    assert_allclose(found['difference']['rms_position'], [1e-3, 2e-3, 3e-3])
    assert_array_equal(found['difference']['peak_effort'], 0.0)


def ros1(run, path):
    store = get_typestore(Stores.ROS1_NOETIC)
    types = store.types
    kind = 'sensor_msgs/msg/JointState'
    with WriterOfRos1(path) as writer:
        described = writer.add_connection(DESCRIPTION, 'std_msgs/msg/String', typestore=store)
        message = types['std_msgs/msg/String'](run.description)
        data = store.serialize_ros1(message, 'std_msgs/msg/String')
        writer.write(described, 10**9, data)
        states = writer.add_connection(STATES, kind, typestore=store)
        for k, seconds in enumerate(run.time.tolist()):
            stamp = types['builtin_interfaces/msg/Time'](*divmod(round(seconds * 1e9), 10**9))
            columns = run.position[k], run.velocity[k], run.measured_effort[k]
            head = types['std_msgs/msg/Header'](k, stamp, '')
            message = types[kind](head, [*run.joints], *columns)
            writer.write(states, 10**9 + 10**7 * k, store.serialize_ros1(message, kind))
    return path


def test_a_bag_of_ros_1_is_read(run, tmp_path, command):
    bag = ros1(run, tmp_path / 'old.bag')
    read = read_recording(bag)
    assert_array_equal(read.position, run.position)
    assert_array_equal(read.measured_effort, run.measured_effort)
    assert read.description == run.description
    bag.write_bytes(bag.read_bytes()[:-3000])  # without its index
    command('analyze', bag, code=2)


KIND = 'control_msgs/msg/JointTrajectoryControllerState'
POINT = 'trajectory_msgs/msg/JointTrajectoryPoint'
FIELDS = {'jazzy': ('reference', 'feedback', 'error', 'output'),
          'humble': ('desired', 'actual', 'error')}  # fmt: skip


@pytest.mark.parametrize(('distro', 'with_states'), [('jazzy', True), ('humble', False)])
def test_the_state_of_a_trajectory_controller_is_reference_feedback_and_command(
    distro, with_states, run, read
):
    fields = FIELDS[distro]
    points = (f'trajectory_msgs/JointTrajectoryPoint {name}' for name in fields)
    store = defined(KIND, 'std_msgs/Header header', 'string[] joint_names', *points)
    empty = np.zeros(0)

    def point(q=empty, v=empty, effort=empty):
        """The order of the controller is its own: the reverse."""
        values = [np.ascontiguousarray(x[::-1]) for x in (q, v, empty, effort)]
        return T[POINT](*values, T['builtin_interfaces/msg/Duration'](0, 0))

    messages = []
    for k, stamp in enumerate(run.stamp_ns.tolist()):
        q, v = run.position[k], run.velocity[k]
        points = point(q + 0.1, v[: 2 if k == 7 else 3]), point(q, v), point()
        points += (point(effort=run.measured_effort[k]),) * (len(fields) == 4)
        content = store.types[KIND](header(stamp), [*JOINTS[::-1]], *points)
        messages += [state(stamp, JOINTS, q, v)] * with_states
        messages.append(Message(CONTROLLER, stamp, KIND, content, store))
    found = read(messages)
    order = [found.joints.index(name) for name in JOINTS]
    assert_allclose(found.position[:, order], run.position)
    expected = run.position + 0.1
    expected[7] = np.nan
    assert_allclose(found.reference_position[:, order], expected)
    assert f'1 message on {CONTROLLER}/reference cannot be used: left out' in found.notes
    if len(fields) == 4:
        assert_allclose(found.effort[:, order], run.measured_effort)
    assert not any('not read' in note for note in found.notes)


FRANKA = 'franka_msgs/msg/FrankaRobotState'
ROBOT = '/broadcaster/robot_state'


@pytest.mark.slow
@pytest.mark.parametrize('stamped', ['fields', 'message'])
def test_joint_states_in_fields_of_a_message_are_topics(stamped, run, tmp_path, command):
    """As in franka_msgs/FrankaRobotState, whose definition is in the bag alone."""
    fields = ('measured', 'motor_state', 'external')
    lines = (f'sensor_msgs/JointState {name}' for name in fields)
    store = defined(FRANKA, 'std_msgs/Header header', *lines, 'bool ok')
    rows = []
    for k, stamp in enumerate(run.stamp_ns.tolist()):
        own, q = stamp if stamped == 'fields' else 0, run.position[k]
        states = [
            state(own, JOINTS, q, run.velocity[k], run.measured_effort[k]),
            state(own, JOINTS, q + 0.1, run.velocity[k][: 1 if k == 7 else 3]),
            state(own, JOINTS, (), (), run.measured_effort[k]),
        ]
        content = store.types[FRANKA](header(stamp), *(x.content for x in states), True)
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
    command('analyze', bag, '--robot', run.description, '--states', names['states'])
    others = [state(x.time, JOINTS, 3 * [1.0], topic='/states') for x in rows]
    both = write(tmp_path / 'both', rows + others)
    assert (read_recording(both).position == 1.0).all(), 'a topic of states is preferred'
