# SPDX-License-Identifier: Apache-2.0
"""Launch files without Gazebo, really started; what each would start: test_launch_content.py.

Oracle of the last command: Pinocchio's gravity forces, built from the URDF text.
"""

import os
import re
import signal
import time

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from oracles import PinocchioOracle
from peer import RELIABLE
from processes import PATIENCE
from recorded_bags import NOMINAL
from samples import sample
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

pytest.importorskip('launch_ros', reason='launch is not installed')

from gz_stand_in import Gazebo

from robot_dynamics_ros.recordings.bag.reader import BagReader

CLEAN = 'process has finished cleanly'
gravity = PinocchioOracle.of(sample('scara')).gravity_forces


def kill(launch, executable: str) -> None:
    """Kill a process that a launch has started."""
    pids = re.findall(rf'\[{executable}-\d+\]: process started with pid \[(\d+)\]', launch.output)
    os.kill(int(pids[0]), signal.SIGKILL)


@pytest.fixture
def ends(peer) -> tuple[list, list]:
    """Return the states and commands of the arm."""
    states = peer.collect(JointState, 'joint_states', RELIABLE)
    return states, peer.collect(Float64MultiArray, 'effort_controller/commands', RELIABLE)


def ends_with_gravity(peer, states, commands) -> None:
    """Wait for the last command; until then states and commands may still arrive."""

    def held() -> bool:
        expected = gravity(np.array(states[-1].position))
        return np.allclose(commands[-1].data, expected, rtol=0, atol=1e-9)

    end = time.monotonic() + PATIENCE * 20.0
    while not held() and time.monotonic() < end:
        peer.spin_for(0.1)
    assert held(), 'no last command against gravity'


def awaits_verdict(peer, text: str) -> None:
    """Wait until the monitor has said a text about the model."""
    diagnostics = peer.collect(DiagnosticArray, '/diagnostics')

    def said() -> bool:
        statuses = [status for array in diagnostics for status in array.status]
        return any(text in x.message for x in statuses if x.name == 'monitor: model')

    peer.spin_until(said, 60.0, text)


def test_what_cannot_be_is_refused_in_one_line(launches):
    launch = launches.launch('simulation', law='magic')
    assert launch.wait(40.0) == 1, launch.output
    (line,) = [line for line in launch.output.splitlines() if 'Caught' in line]
    assert 'computed_torque' in line
    assert 'Traceback' not in launch.output
    assert 'process started' not in launch.output


def test_a_scene_whose_parameters_a_node_refuses_ends_with_its_reason(launches):
    given = {'law': 'constraint_stabilization', 'program': 'four_dof_moving_plane'}
    launch = launches.launch('simulation', **given)
    assert launch.wait(40.0) == 1, launch.output
    assert "is written for robot 'four_dof', this is 'scara'" in launch.output
    assert 'the scene ends: controller-2 ended with 2' in launch.output


def test_an_arm_in_motion_survives_the_loss_of_what_only_looks_on(launches, peer, ends):
    states, commands = ends
    launch = launches.launch('simulation', monitor=True, record=True, bag='bag')
    launch.says('sent circle', 60.0)
    kill(launch, 'monitor')
    launch.says('lost: monitor-5 ended with -9', 20.0)
    seen = len(commands)
    both = 'states, possibly delayed on a busy machine, and commands'
    peer.spin_until(lambda: states and len(commands) > seen + 100, 20.0, both)
    kill(launch, 'recorder')
    assert launch.wait(30.0) == 1, 'what was to be recorded is not'
    ends_with_gravity(peer, states, commands)


def test_when_the_bridge_is_killed_no_force_is_left_in_gazebo(launches, tmp_path):
    """Gazebo and its bridge are stand-ins: only Gazebo's calls are checked."""
    launches.add_bridge()
    gazebo = Gazebo(tmp_path)
    launches.env |= gazebo.env
    launch = launches.launch('gazebo', gui=False, start_world=False, motion=False)
    launch.says('is in the world', 40.0)
    assert not gazebo.asked('zero_forces')
    kill(launch, 'parameter_bridge')
    assert launch.wait(40.0) == 1, launch.output
    assert 'ended with -9' in launch.output
    assert gazebo.asked('-e -n 1 -t /model/scara/zero_forces/done'), 'the answer is awaited'
    assert gazebo.asked('topic -t /model/scara/zero_forces -m gz.msgs.Empty -p')


# A real arm, replaced by the emulated driver -----------------------------------------------------


def test_a_stage_takes_over_from_the_driver_and_ends_with_a_safe_command(launches, peer, ends):
    states, commands = ends
    profile = launches.patient_profile('generic_ros2_control')
    launch = launches.launch(
        'hardware', stage='slow', emulator=True, motion=True, driver_profile=profile
    )
    launch.says('commands take over from the own controller', 80.0)
    # The circle begins where the arm is held, but for an encoder step: 2 s at a quarter.
    launch.says('after an approach of 8.000000 s', 60.0)
    peer.spin_until(lambda: states and len(commands) > 500, 40.0, 'states and commands')
    launch.says(CLEAN, 60.0)  # the motion is sent
    launch.interrupt()
    ends_with_gravity(peer, states, commands)
    assert 'stage slow: computed_torque at 50 % of the effort limits' in launch.output
    assert 'lost: ' not in launch.output
    assert launch.output.count(CLEAN) == 3


def test_an_arm_in_a_namespace_is_recorded_under_the_names_of_its_driver(launches, peer):
    axes = [{'joint': f'joint{i}', 'driver_name': f'axis_{i}'} for i in range(1, 5)]
    launch = launches.launch(
        'hardware', stage='full', emulator=True, namespace='left', record=True, bag='bag',
        monitor=True, motion=True, driver_profile=launches.patient_profile('ur', joints=axes),
    )  # fmt: skip
    launch.says('sent circle', 80.0)  # from where the controller holds, in the model's names
    commands = peer.collect(Float64MultiArray, '/left/forward_effort_controller/commands')
    peer.spin_until(lambda: len(commands) > 300, 60.0, 'commands')
    launch.interrupt()
    assert launch.output.count(CLEAN) == 5
    with BagReader(launch.log.parent / 'bag') as bag:
        assert {
            '/left/joint_states', '/left/forward_effort_controller/commands',
            '/left/controller/reference', '/left/robot_description',
        } <= set(bag.topics)  # fmt: skip


def test_a_replayed_bag_is_compared_with_the_model_in_it(launches, peer):
    """The recording is of Gazebo at its own gravity, 9.8 m/s^2; the bag's URDF is the nominal."""
    launches.add_player()
    launch = launches.launch('replay', bag=NOMINAL, effort_source='command', gravity='-9.8')
    awaits_verdict(peer, 'the model explains the efforts')
    launch.wait(40.0)
    assert 'the scene ends: player' in launch.output
