# SPDX-License-Identifier: Apache-2.0
"""The gazebo_robot node with a stand-in for ``gz`` that logs its calls and answers.

With the real Gazebo: test_gazebo.py.
"""

import os
import re
import signal
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import tables
from gz_stand_in import ALL, Gazebo
from peer import LATCHED, ControllerStandIn
from processes import wait_until
from scipy.spatial.transform import Rotation
from std_msgs.msg import Float64, String

from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.ros.gazebo_robot import CommandedWorld, insertion

URDF = read_description(shipped_robot('scara'), {'gazebo': 'native'}).xml
ZERO = 'topic -t /model/scara/zero_forces -m gz.msgs.Empty -p'
ARM = {'robot_description': URDF, 'wait_for': ['test_peer'], 'timeout_s': 60.0}


@pytest.fixture
def gazebo(tmp_path) -> Gazebo:
    return Gazebo(tmp_path)


def unpaused(processes, peer, gazebo, **given):
    """Return the node once it has unpaused the world for an active controller."""
    node = processes.start('gazebo_robot', ARM | given, env=gazebo.env)
    peer.spin_until(lambda: 'world unpaused' in node.output, 20.0, 'unpaused world')
    return node


def test_time_runs_only_once_the_controller_is_active_and_no_force_remains_at_the_end(
    processes, peer, tmp_path
):
    """In a world that runs, and is busy: the first question about the model hangs for 10 s."""
    controller = ControllerStandIn(peer)
    described = peer.collect(String, 'robot_description', LATCHED)
    gazebo = Gazebo(tmp_path, hangs=True, unanswered=2, lost=6)
    node = processes.start('gazebo_robot', ARM | {'pause_first': True}, env=gazebo.env)
    peer.spin_until(lambda: 'is in the world' in node.output, 40.0, 'insertion')
    peer.spin_for(1.0)
    assert not gazebo.asked('pause: false')
    controller.active = True
    peer.spin_until(lambda: 'world unpaused' in node.output, 20.0, 'unpaused world')
    asked = [line for line in gazebo.asked('service -s') if 'scene/info' not in line]
    words = ['pause: true', *3 * ['EntityFactory'], 'pause: false']
    assert [word in line for word, line in zip(words, asked, strict=True)] == [True] * 5
    assert described[0].data == URDF
    assert node.returncode is None, 'it stays, to leave no force behind'
    assert not gazebo.asked('zero_forces')
    assert node.stop() == 0
    assert len(gazebo.asked(ZERO)) > 6
    assert 'forces of scara set to zero' in node.output


@pytest.mark.parametrize(
    ('topic_info', 'code'), [('Publishers [Address, Message Type]:', 1), ('No publishers on', 0)]
)
def test_a_force_that_may_still_act_is_an_error_unless_gazebo_has_ended(
    processes, peer, tmp_path, topic_info, code
):
    ControllerStandIn(peer, active=True)
    node = unpaused(processes, peer, Gazebo(tmp_path, lost=ALL, topic_info=topic_info))
    assert node.stop(seconds=60.0) == code
    said = ('error: forces of scara may still act', 'set to zero')
    assert [text in node.output for text in said] == [bool(code), not code]


def none_left(node, gazebo):
    """Check that zero is sent repeatedly: a controller that ends later sends a last command."""
    wait_until(lambda: len(gazebo.asked('-e -n 1 -t')) >= 3, 20.0, 'answers')
    assert len(gazebo.asked(ZERO)) > 3
    assert 'gazebo_robot failed: its forces are set to zero' in node.output


def test_no_force_is_left_by_one_that_is_killed(processes, peer, gazebo):
    ControllerStandIn(peer, active=True)
    node = unpaused(processes, peer, gazebo)
    assert not gazebo.asked('zero_forces')
    os.kill(node.pid, signal.SIGKILL)
    none_left(node, gazebo)


def test_time_may_run_before_the_controller_is_active_and_forces_be_left_to_others(
    processes, peer, gazebo
):
    controller = ControllerStandIn(peer)
    node = unpaused(processes, peer, gazebo, unpause='at_once', stay=False)
    controller.active = True
    peer.spin_until(lambda: node.returncode is not None, 20.0, 'its end')
    assert node.returncode == 0, node.output
    assert gazebo.asked('/control')
    assert not gazebo.asked('zero_forces')


def test_an_arm_that_is_there_already_is_told_and_not_inserted(processes, peer, gazebo, tmp_path):
    (tmp_path / 'inserted').touch()
    ControllerStandIn(peer, active=True)
    node = unpaused(processes, peer, gazebo, initial_position=['joint1:=0.5'])
    assert 'scara is in the world arm already, as an earlier launch' in node.output
    assert not [x for part in ('/create', '/control/state') for x in gazebo.asked(part)]
    assert node.stop() == 0
    assert gazebo.asked(ZERO)


@tables.written("""
[{world: other}, {}]                   | error: Gazebo: no world arm within 1 s
[{world: other}, {pause_first: true}]  | error: world 'arm' of Gazebo does not run; start it first
[{answer: 'false'}, {}]                | error: Gazebo service /world/arm/create refused
[{model: another}, {}]                 | error: Gazebo: no model scara (if it ... why) within 1 s
""")
def test_what_gazebo_does_not_do_is_told(processes, tmp_path, given, said):
    world, parameters = given
    gazebo = Gazebo(tmp_path, **world)
    node = processes.start('gazebo_robot', ARM | {'timeout_s': 1.0} | parameters, env=gazebo.env)
    assert node.wait() == 1
    assert re.search(said, node.output)
    assert 'Traceback' not in node.output


def test_in_lockstep_forces_come_from_the_topics_of_the_controller(monkeypatch):
    """Also of joints whose names are none in ROS; Gazebo has topics with other rules."""
    text, ros, steps = URDF, {}, []
    for number, name in enumerate(('Revolute 1', 'joint-2', '3rd', 'arm/wrist'), start=1):
        text = text.replace(f'joint{number}"', f'{name}"').replace(f'joint{number}<', f'{name}<')
    monkeypatch.setattr(
        'robot_dynamics_ros.ros.gazebo_robot.SteppedWorld',
        lambda _, topics: SimpleNamespace(
            topics=topics, connected=True, step=lambda x: steps.append([*x])
        ),
    )
    node = Mock(create_subscription=lambda _, topic, take, depth: ros.update({topic: take}))
    given = {'robot_description': text, 'world': '', 'step_ns': 1}
    world, path = CommandedWorld(node, 'scara', given).world, '/model/scara/joint/{}/cmd_force'
    names = 'Revolute_1', 'joint-2', '3rd', 'arm/wrist'
    assert world.topics == [path.format(name) for name in names]
    names = 'Revolute_1', 'joint_2', '_3rd', 'arm/wrist'
    assert list(ros) == [f'{name}/cmd_force' for name in names]
    for effort in (1e9, np.nan, -1e9):  # one that is no number makes no step
        for on_effort in ros.values():
            on_effort(Float64(data=effort))
    np.testing.assert_array_equal(steps, np.outer([1, -1], load_robot(URDF).effort_limit))


def test_a_report_counts_from_the_last_one(monkeypatch):
    world, times = SimpleNamespace(steps=0, step=Mock()), iter((10.0, 12.0, 15.0, 19.0))
    monkeypatch.setattr('robot_dynamics_ros.ros.gazebo_robot.SteppedWorld', lambda *_: world)
    monkeypatch.setattr('time.monotonic', lambda: next(times))
    given = {'robot_description': URDF, 'world': '', 'step_ns': 1_000_000}
    driven = CommandedWorld(Mock(), 'scara', given)
    driven.begin()
    world.steps = 500
    assert driven.report() == 'lockstep: 0.500 s; real-time factor 0.250'
    assert [driven.report(), driven.report()] == [
        f'lockstep: no command for {seconds} s' for seconds in (3, 4)
    ]


def test_the_pose_is_written_as_gazebo_reads_it():
    """Oracle: SciPy's rotation about fixed axes x, y, z."""
    pose = [0.1, -0.2, 0.3, 0.4, -0.5, 2.0]
    text = insertion(Path('/somewhere/a.urdf'), 'arm', pose)
    assert text.startswith('sdf_filename: "/somewhere/a.urdf", name: "arm", pose: {')
    entries = re.findall(r'(\w): ([-+.e0-9]+)', text)
    assert [*map(float, dict(entries[:3]).values())] == pose[:3]
    assert ''.join(key for key, _ in entries) == 'xyzwxyz'
    quaternion = {key: float(x) for key, x in entries[3:]}
    found = Rotation.from_quat([quaternion[axis] for axis in 'xyzw'])
    # Rounding of a few products.
    assert (found.inv() * Rotation.from_euler('xyz', pose[3:])).magnitude() < 1e-15
    with pytest.raises(ConfigurationError, match='pose: is 90 rad, more than a turn; .* 1.571'):
        insertion(Path('a.urdf'), 'arm', [0.0] * 5 + [90.0])
