# SPDX-License-Identifier: Apache-2.0
"""The command ``commission`` next to a driver that holds the arm: it sends no commands.

The driver counts joint 2 against the axis; the checked profile knows that, and is wrong about 4.
"""

import json
import re
import signal
from functools import partial

import numpy as np
import pytest
import yaml
from resting_arm import JOINTS
from sensor_msgs.msg import JointState

from robot_dynamics_ros.messages import stamp_ns

POSES = yaml.safe_load("""
- [0.2, -0.6, 0.5, 0.3]
- [0.0, -1.2, 0.9, -0.4]
- [0.1, -0.3, -0.4, 0.2]
- [0.3, -1.4, 0.6, 0.9]
""")
REST_NS = 1_500_000_000  # enough states per pose even for a slow subscriber


def profile(tmp_path, name: str, *against: str) -> str:
    """Return the file of a driver that counts some joints against their axes."""
    signs = [{'joint': joint, 'sign': -1 if joint in against else 1} for joint in JOINTS]
    state = {'effort': 'total', 'timeout_s': 2.0, 'rate_hz': 250.0}
    path = tmp_path / f'{name}.yaml'
    path.write_text(yaml.safe_dump({'name': name, 'state': state, 'joints': signs}))
    return str(path)


def listening(processes, tmp_path, seconds='600'):
    """Start the command, and return it and the file of its findings."""
    found, believed = tmp_path / 'found.json', profile(tmp_path, 'believed', 'joint2', 'joint4')
    words = ['commission', 'four_dof', 'limits_profile:=wide', '--driver-profile', believed,
             '--seconds', seconds, '--json', str(found)]  # fmt: skip
    code = f'from robot_dynamics_ros.__main__ import main; raise SystemExit(main({words!r}))'
    return processes.start('commission', code=code), found


def test_a_running_driver_is_checked_without_a_command(processes, peer, tmp_path):
    emulator = {'robot': 'four_dof', 'limits_profile': 'wide', 'initial_position': POSES[-1]}
    emulator |= {'driver_profile': profile(tmp_path, 'true', 'joint2'), 'own_speed': 3.0}
    driver = processes.start('driver_emulator', emulator)
    states = peer.collect(JointState, 'joint_states')
    command, file = listening(processes, tmp_path)
    heard = re.compile(r'^[1-9]\d* states', re.MULTILINE)  # it found the driver
    peer.spin_until(lambda: states and heard.search(command.output), 60.0, 'listening')

    def rested(pose, since: list[int]) -> bool:
        """Return whether the arm has been at a pose for a while."""
        reported = np.array(states[-1].position) * [1.0, -1.0, 1.0, 1.0]
        if not since and np.allclose(reported, pose, atol=0.02):
            since.append(stamp_ns(states[-1]))
        return since and stamp_ns(states[-1]) > since[0] + REST_NS

    for pose in POSES:
        assert peer.set('driver_emulator', own_position=pose).successful
        peer.spin_until(partial(rested, pose, []), 60.0, f'rest at {pose}')
    assert command.stop(signal.SIGINT, 60.0) == 1, processes.outputs()
    found = json.loads(file.read_text())
    assert found['poses'] >= len(POSES)
    # Coulomb friction holds up to 0.3 of the 4 N m on joint 2.
    assert found['joints']['joint2']['slope'] == pytest.approx(1.0, abs=0.15)
    causes = [f'{f["culprit"]}: {f["problem"]}' for f in found['findings']]
    assert any(text.startswith("joint 'joint4': wrong sign") for text in causes), causes
    assert not any('joint2' in text for text in causes), causes
    assert 'commands take over' not in driver.output
    assert not peer.node.get_publishers_info_by_topic('effort_controller/commands')


def test_a_driver_that_is_silent_is_named_however_short_the_time(processes, tmp_path):
    command, _ = listening(processes, tmp_path, seconds='0.5')
    assert command.wait(60.0) == 1
    assert 'no message arrived; never seen: joint1, joint2, joint3, joint4' in command.output
