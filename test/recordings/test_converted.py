# SPDX-License-Identifier: Apache-2.0
"""Tables and states of trajectory controllers are read as bags are."""

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bags import STATES, Message, T, defined, header, state
from numpy.testing import assert_allclose, assert_array_equal
from recorded_arm import measured_arm, sinusoidal_run
from rosbags.rosbag1 import Writer as WriterOfRos1
from rosbags.typesys import Stores, get_typestore

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.recordings.reading import read_recording

JOINTS = ('pan', 'lift', 'elbow')
CONTROLLER = '/arm_controller/controller_state'


@pytest.fixture(scope='module')
def run():
    return sinusoidal_run(measured_arm(), np.random.default_rng(2), 4.0)


def test_a_yaml_file_names_columns_joints_and_rate(run, tmp_path):
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


def test_a_bag_of_ros_1_is_refused_with_the_line_that_converts_it(run, tmp_path):
    bag, store = tmp_path / 'old run.bag', get_typestore(Stores.ROS1_NOETIC)
    types = store.types
    with WriterOfRos1(bag) as writer:
        place = writer.add_connection(STATES, 'sensor_msgs/msg/JointState', typestore=store)
        for k, seconds in enumerate(run.time.tolist()):
            stamp = types['builtin_interfaces/msg/Time'](*divmod(round(seconds * 1e9), 10**9))
            columns = run.position[k], run.velocity[k], run.measured_effort[k]
            head = types['std_msgs/msg/Header'](k, stamp, '')
            message = types['sensor_msgs/msg/JointState'](head, [*run.joints], *columns)
            data = store.serialize_ros1(message, message.__msgtype__)
            writer.write(place, 10**9 + 10**7 * k, data)
    with pytest.raises(
        RecordingError, match='is of ROS 1; convert it: rosbags-convert'
    ) as refused:
        read_recording(bag)
    name, *words = shlex.split(str(refused.value).partition('convert it: ')[2])
    subprocess.run([Path(sys.executable).with_name(name), *words], check=True)
    read = read_recording(tmp_path / 'old run_ros2')
    assert_array_equal(read.position, run.position)
    assert_array_equal(read.measured_effort, run.measured_effort)


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
        points = point(q + 0.1, v[: 2 if k == 7 else 3]), point(q, v, -q), point()
        points += (point(effort=run.measured_effort[k]),) * (len(fields) == 4)
        content = store.types[KIND](header(stamp), [*JOINTS[::-1]], *points)
        messages += [state(stamp, JOINTS, q, v)] * with_states
        messages.append(Message(CONTROLLER, stamp + 300_000, KIND, content, store))
    found = read(messages).of_joints(JOINTS)
    expected = run.position + 0.1
    expected[7] = np.nan
    assert_allclose(found.position, run.position)
    assert_allclose(found.reference_position, expected)
    if not with_states:
        assert_allclose(found.measured_effort, -run.position)
    assert f'1 message on {CONTROLLER}/reference cannot be used: left out' in found.notes
    if len(fields) == 4:
        assert_allclose(found.effort, run.measured_effort)
    assert not any('not read' in note for note in found.notes)
