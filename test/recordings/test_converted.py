# SPDX-License-Identifier: Apache-2.0
"""Tables, bags of ROS 1 and states of joint trajectory controllers are read like bags."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bags import DESCRIPTION, STATES, T, header, state, text
from rosbags.rosbag1 import Writer as WriterOfRos1
from rosbags.rosbag2 import Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from synthetic_runs import measured_arm, measured_run, sinusoids

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.recordings.reading import read_recording

JOINTS = ('pan', 'lift', 'elbow')
CONTROLLER = '/arm_controller/controller_state'


@pytest.fixture(scope='module')
def run():
    motion = sinusoids(np.random.default_rng(2), 3, np.arange(0.0, 4.0, 0.01), pace=1.0)
    return measured_run(measured_arm(), motion)


def table(run, path, heads, separator=',', point='.', scale=1.0):
    """Write times, positions, velocities and efforts."""
    columns = np.column_stack([scale * run.time, run.position, run.velocity, run.measured_effort])
    rows = (separator.join(repr(float(x)).replace('.', point) for x in row) for row in columns)
    path.write_text('\n'.join([separator.join(heads), *rows]) + '\n')
    return path


def numbered(pattern, *stems):
    return [pattern.format(stem, i) for stem in stems for i in range(3)]


RTDE = ['timestamp', *numbered('{}_{}', 'actual_q', 'actual_qd', 'target_moment')]
PLAIN = ['time', *numbered('{}{}', 'q', 'dq', 'tau')]
FRANKA = ['duration', *numbered('{}[{}]', 'q', 'dq', 'tau_J')]
NAMED = ['time_ms', *(f'{key}.{name}' for key in ('position', 'velocity', 'effort')
                      for name in JOINTS)]  # fmt: skip
LOGS = {
    'rtde with spaces': (RTDE, {'separator': ' '}, RTDE[1:4]),
    'franka': (FRANKA, {'separator': ', ', 'scale': 1e3}, FRANKA[1:4]),
    'decimal commas': (NAMED, {'separator': ';', 'point': ',', 'scale': 1e3}, JOINTS),
}


@pytest.mark.parametrize('kind', LOGS)
def test_the_columns_of_a_log_are_known_by_their_names(kind, run, tmp_path):
    heads, form, joints = LOGS[kind]
    read = read_recording(table(run, tmp_path / 'log.csv', heads, **form))
    assert read.joints == tuple(joints)
    np.testing.assert_array_equal(read.position, run.position)
    np.testing.assert_array_equal(read.measured_effort, run.measured_effort)
    np.testing.assert_allclose(read.time, run.time, rtol=0.0, atol=2e-9)  # whole nanoseconds
    assert any('effort ' in note and heads[-1] in note for note in read.notes)


def test_a_yaml_file_names_columns_joints_and_rate(run, tmp_path):
    heads = ['n', *'abcdefghi']
    table(run, tmp_path / 'log.txt', heads, '\t')
    mapping = tmp_path / 'log.yaml'
    mapping.write_text(
        'table: log.txt\nrate: 100\njoints: [pan, lift, elbow]\nposition: [a, b, c]\n'
        'command: [g, h, i]\nreference_position: [a, b, c]\nreference_velocity: [d, e, f]\n'
    )
    read = read_recording(mapping)
    assert read.joints == JOINTS
    np.testing.assert_array_equal(read.effort, run.measured_effort)
    np.testing.assert_array_equal(read.reference_velocity, run.velocity)
    np.testing.assert_allclose(np.diff(read.time), 0.01, rtol=1e-6)
    mapping.write_text(mapping.read_text().replace('[a, b, c]', '[a, b]', 1))
    assert main(['analyze', str(mapping), '--output', str(tmp_path / 'out')]) == 2


DEGREES = {
    'in names': (['time', *numbered('{}{}_deg', 'q'), *numbered('{}{} [deg/s]', 'dq'),
                  *numbered('{}{} (mN m)', 'tau')], {}),
    'of named joints': (['time', *(f'{key}.{name} [{unit}]' for key, unit in
                                   (('position', '°'), ('velocity', 'deg/s'), ('effort', 'mN m'))
                                   for name in JOINTS)], {}),
    'in the file': (PLAIN, {'position_unit': 'deg', 'velocity_unit': ['deg/s'] * 3,
                            'effort_unit': 'mN m'}),
    'of velocities by those of positions in names': (
        ['time', *numbered('{}{} [deg]', 'q'), *PLAIN[4:7], *numbered('{}{}_mNm', 'tau')], {}),
    'per s is understood': (
        ['time', *numbered('{}{}_deg', 'q', 'dq'), *numbered('{}{}_mNm', 'tau')], {}),
    'of velocities by those of positions': ([*PLAIN[:7], *numbered('{}{}_mNm', 'tau')],
                                            {'position_unit': 'deg'}),
}  # fmt: skip


@pytest.mark.parametrize(('heads', 'units'), list(DEGREES.values()), ids=list(DEGREES))
def test_units_in_names_or_in_the_file_are_converted(heads, units, run, tmp_path):
    degrees = np.degrees(np.column_stack([run.position, run.velocity]))
    columns = [run.time, *degrees.T, *1e3 * run.measured_effort.T]
    np.savetxt(tmp_path / 'log.csv', np.array(columns).T, '%.17g', ';', header=';'.join(heads))
    (tmp_path / 'log.yaml').write_text(json.dumps({'table': 'log.csv', **units}))
    read = read_recording(tmp_path / 'log.yaml')
    names = ('q0', 'q1', 'q2') if heads[1].startswith('q0') else tuple(heads[1:4])
    assert read.joints == (JOINTS if heads[1].startswith('position') else names)
    np.testing.assert_allclose(read.position, run.position, rtol=1e-14)
    np.testing.assert_allclose(read.velocity, run.velocity, rtol=1e-14)
    np.testing.assert_allclose(read.measured_effort, run.measured_effort, rtol=1e-14)


UNKNOWN_UNITS = {
    "its unit 'grad' is none of position": (['q1', 'q2'], {'position_unit': 'grad'}),
    'position_unit: has 3 units, 2 col': (['q1', 'q2'], {'position_unit': ['deg', 'm', 'm']}),
    'positions_unit': (['q1', 'q2'], {'positions_unit': 'deg'}),
    r"column 'q1 \[grad\]': its unit 'grad' is none of pos": (['q1 [grad]', 'q2 [grad]'], {}),
    "its unit 'N m' is none of position": (['q1_Nm', 'q2_Nm'], {}),
}


@pytest.mark.parametrize('problem', UNKNOWN_UNITS)
def test_an_unknown_unit_is_refused(problem, tmp_path):
    heads, units = UNKNOWN_UNITS[problem]
    (tmp_path / 'log.csv').write_text(';'.join(['time', *heads]) + '\n' + '0;1;2\n0.1;1;2\n')
    (tmp_path / 'log.yaml').write_text(json.dumps({'table': 'log.csv', **units}))
    with pytest.raises(RobotDynamicsError, match=problem):
        read_recording(tmp_path / 'log.yaml')


def test_a_table_is_compared_with_a_bag(run, tmp_path, capsys):
    log = table(run, tmp_path / 'log.csv', NAMED, scale=1e3)
    (tmp_path / 'arm.urdf').write_text(run.description)
    bag = ros1(run, tmp_path / 'old.bag')
    words = ['compare', bag, log, '--robot', tmp_path / 'arm.urdf', '--output', tmp_path / 'out']
    assert main([str(word) for word in words]) == 0
    assert 'note' in capsys.readouterr().out


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


def test_a_bag_of_ros_1_is_read(run, tmp_path):
    bag = ros1(run, tmp_path / 'old.bag')
    read = read_recording(bag)
    np.testing.assert_array_equal(read.position, run.position)
    np.testing.assert_array_equal(read.measured_effort, run.measured_effort)
    assert read.description == run.description
    bag.write_bytes(bag.read_bytes()[:-3000])  # without its index
    assert main(['analyze', str(bag), '--output', str(tmp_path / 'out')]) == 2


KIND = 'control_msgs/msg/JointTrajectoryControllerState'
TOPICS = {
    DESCRIPTION: 'std_msgs/msg/String',
    STATES: 'sensor_msgs/msg/JointState',
    CONTROLLER: KIND,
}
POINT = 'trajectory_msgs/msg/JointTrajectoryPoint'
FIELDS = {'jazzy': ('reference', 'feedback', 'error', 'output'),
          'humble': ('desired', 'actual', 'error')}  # fmt: skip


@pytest.mark.parametrize(('distro', 'with_states'), [('jazzy', True), ('humble', False)])
def test_the_state_of_a_trajectory_controller_is_reference_feedback_and_command(
    distro, with_states, run, tmp_path
):
    fields = FIELDS[distro]
    lines = [f'trajectory_msgs/JointTrajectoryPoint {name}' for name in fields]
    store = get_typestore(Stores.ROS2_JAZZY)
    store.register(
        get_types_from_msg(
            '\n'.join(['std_msgs/Header header', 'string[] joint_names', *lines]), KIND
        )
    )
    names = JOINTS[::-1]  # the order of the controller is its own
    empty = np.zeros(0)

    def point(q=empty, v=empty, effort=empty):
        values = [np.ascontiguousarray(x[::-1]) for x in (q, v, empty, effort)]
        return T[POINT](*values, T['builtin_interfaces/msg/Duration'](0, 0))

    with Writer(tmp_path / 'bag', version=9) as writer:

        def connect(topic, of):
            return writer.add_connection(topic, of, typestore=store)

        connections = {topic: connect(topic, of) for topic, of in TOPICS.items()}

        def put(topic, stamp, content):
            data = store.serialize_cdr(content, TOPICS[topic])
            writer.write(connections[topic], stamp, data)

        put(DESCRIPTION, 10**9, text(0, run.description).content)
        for k, stamp in enumerate(np.rint(run.time * 1e9).astype(int).tolist()):
            q, v = run.position[k], run.velocity[k]
            points = [point(q + 0.1, v), point(q, v), point()]
            points += [point(effort=run.measured_effort[k])] * (len(fields) == 4)
            if with_states:
                put(STATES, stamp, state(stamp, run.joints, q, v, ()).content)
            put(CONTROLLER, stamp, store.types[KIND](header(stamp), [*names], *points))
    read = read_recording(tmp_path / 'bag')
    order = [read.joints.index(name) for name in run.joints]
    np.testing.assert_allclose(read.position[:, order], run.position)
    np.testing.assert_allclose(read.reference_position[:, order], run.position + 0.1)
    if len(fields) == 4:
        np.testing.assert_allclose(read.effort[:, order], run.measured_effort)
    assert not any('not read' in note for note in read.notes)
