# SPDX-License-Identifier: Apache-2.0
"""The command ``commission`` next to a driver that holds the arm: it sends no commands.

The driver counts joint 2 against the axis; one of the two checked profiles accounts for it.
"""

from __future__ import annotations

import json
import re
import signal

import numpy as np
import pytest
import yaml
from sensor_msgs.msg import JointState

JOINTS = [f'joint{i}' for i in range(1, 5)]
TRUE = {'name': 'true', 'state': {'effort': 'total', 'timeout_s': 2.0},
        'joints': [{'joint': name, **({'sign': -1} if name == 'joint2' else {})}
                   for name in JOINTS]}  # fmt: skip
POSES = [
    [0.2, -0.6, 0.5, 0.3],
    [0.0, -1.2, 0.9, -0.4],
    [-0.2, -0.9, 0.2, 0.6],
    [0.1, -0.3, -0.4, 0.2],
    [0.3, -1.4, 0.6, 0.9],
]
REST_S = 1.5  # enough states per pose even for a slow subscriber
HEARD = re.compile(r'^[1-9]\d* states', re.MULTILINE)  # it found the driver


def written(tmp_path, profile) -> str:
    path = tmp_path / f'{profile["name"]}.yaml'
    path.write_text(yaml.safe_dump(profile), encoding='utf-8')
    return str(path)


def listening(processes, tmp_path, believed, seconds='600'):
    """Start the command with a profile, and return it and the file of its findings."""
    found = tmp_path / f'{believed["name"]}.json'
    words = ['commission', 'four_dof', 'limits_profile:=wide', '--driver-profile',
             written(tmp_path, believed), '--seconds', seconds, '--json', str(found)]  # fmt: skip
    code = f'from robot_dynamics_ros.__main__ import main; raise SystemExit(main({words!r}))'
    return processes.start('commission', code=code), found


def visit(peer, states) -> None:
    """Let the driver hold the arm in successive poses."""

    def stamp() -> float:
        return states[-1].header.stamp.sec + 1e-9 * states[-1].header.stamp.nanosec

    def near(pose) -> bool:
        reported = np.array(states[-1].position) * [1.0, -1.0, 1.0, 1.0]
        return np.allclose(reported, pose, atol=0.02)

    for pose in POSES:
        result = peer.set('driver_emulator', own_position=pose)
        assert result.successful, result.reason
        peer.spin_until(lambda pose=pose: near(pose), 60.0, f'pose {pose}')
        end = stamp() + REST_S
        peer.spin_until(lambda end=end: stamp() > end, 60.0, f'rest at {pose}')


def test_a_running_driver_is_checked_without_a_command(processes, peer, tmp_path):
    emulator = {
        'robot': 'four_dof',
        'limits_profile': 'wide',
        'driver_profile': written(tmp_path, TRUE),
        'initial_position': POSES[-1],
        'own_speed': 3.0,
    }
    driver = processes.start('driver_emulator', emulator)
    states = peer.collect(JointState, 'joint_states')
    peer.spin_until(lambda: states, 60.0, 'states')
    wrong = {**TRUE, 'name': 'wrong', 'joints': [{'joint': name} for name in JOINTS]}
    checks = {name: listening(processes, tmp_path, profile)
              for name, profile in (('true', TRUE), ('wrong', wrong))}  # fmt: skip
    for command, _ in checks.values():
        peer.spin_until(lambda c=command: HEARD.search(c.output), 60.0, 'the command listening')
    visit(peer, states)
    codes = {name: command.stop(signal.SIGINT, 60.0) for name, (command, _) in checks.items()}
    assert codes == {'true': 0, 'wrong': 1}, processes.outputs()
    found = {name: json.loads(file.read_text()) for name, (_, file) in checks.items()}
    assert found['true']['poses'] >= len(POSES)
    # Coulomb friction holds up to 0.3 of the 4 N m on joint 2.
    assert found['true']['joints']['joint2']['slope'] == pytest.approx(1.0, abs=0.15)
    causes = [f'{f["culprit"]}: {f["problem"]}' for f in found['wrong']['findings']]
    assert any(text.startswith("joint 'joint2': wrong sign") for text in causes), causes
    assert 'commands take over' not in driver.output
    assert not peer.node.get_publishers_info_by_topic('effort_controller/commands')


def test_a_driver_that_is_silent_is_named_however_short_the_time(processes, tmp_path):
    command, _ = listening(processes, tmp_path, TRUE, seconds='0.5')
    assert command.wait(60.0) == 1
    assert 'no message arrived; never seen: joint1, joint2, joint3, joint4' in command.output
