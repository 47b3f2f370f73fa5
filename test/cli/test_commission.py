# SPDX-License-Identifier: Apache-2.0
"""The command ``commission`` on a bag: each wrong profile gives exit code 1 and the cause.

The bag is of a driver in SI units that holds the arm itself, with commands of zero; every wrong
profile contradicts it. Reference of gravity: Pinocchio, built from the URDF text.
"""

from __future__ import annotations

import json
import re

import numpy as np
import pinocchio
import pytest
import yaml
from bags import MS, command, state, write
from samples import sample
from urdf_text import joint, link

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.description.source import urdf_text
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import MechanismError
from robot_dynamics_ros.model import load_robot

JOINTS = [f'joint{i}' for i in range(1, 5)]
TREE = sample('four_dof').tree
POSES = 8
PERIOD = 5 * MS


def from_pose_to_pose(q: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return legs, positions, velocities: 0.6 s to each of the rows but the first, 0.6 s there."""
    t = np.arange(0.0, 1.2 * (len(q) - 1), PERIOD * 1e-9)
    leg, x = (t // 1.2).astype(int), np.minimum(t % 1.2, 0.6)[:, None] / 0.6
    step = q[leg + 1] - q[leg]
    return leg, q[leg] + step * x**2 * (3.0 - 2.0 * x), step * 6.0 * x * (1.0 - x) / 0.6


def swing() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return positions, velocities, efforts of an arm that is held in poses."""
    rng = np.random.default_rng(8)
    q = rng.uniform(0.9 * TREE.position_lower, 0.9 * TREE.position_upper, (POSES + 1, 4))
    leg, position, velocity = from_pose_to_pose(q)
    model = pinocchio.buildModelFromXML(sample('four_dof').xml)
    data = model.createData()
    gravity = np.array([pinocchio.computeGeneralizedGravity(model, data, row) for row in position])
    # At rest friction holds some of the weight, another part in every pose; it opposes motion.
    rest = 0.5 * rng.uniform(-1.0, 1.0, (POSES, 4))[leg]
    friction = TREE.coulomb_friction * np.where(np.abs(velocity) > 1e-9, np.sign(velocity), rest)
    return position, velocity, gravity + friction


@pytest.fixture(scope='module')
def bag(tmp_path_factory):
    messages = []
    for k, row in enumerate(zip(*swing(), strict=True)):
        messages += [state(k * PERIOD, JOINTS, *row), command(k * PERIOD + MS, np.zeros(4))]
    return write(tmp_path_factory.mktemp('bags') / 'held', messages)


def commission(bag, tmp_path, *words, robot='four_dof', **keys) -> int:
    """Check the bag against a profile."""
    profile = {'name': 'believed', 'state': {'effort': 'total'}, **keys}
    file = tmp_path / 'believed.yaml'
    file.write_text(yaml.safe_dump(profile), encoding='utf-8')
    return main(
        ['commission', str(robot), '--driver-profile', str(file), '--bag', str(bag), *words]
    )


def joints(**changes):
    return [{'joint': name, **changes.get(name, {})} for name in JOINTS]


def plain(text: str) -> str:
    """Return the output as one line."""
    return ' '.join(text.split())


def test_a_true_profile_ends_in_0(bag, tmp_path, capsys):
    file = tmp_path / 'found.json'
    assert commission(bag, tmp_path, '--json', str(file)) == 0
    printed = plain(capsys.readouterr().out)
    assert f'Efforts, measured, against gravity in {POSES} poses' in printed
    assert 'no errors found in the profile' in printed
    found = json.loads(file.read_text())
    assert found['poses'] == POSES
    assert found['joints']['joint1']['slope'] is None  # its axis is vertical
    # Coulomb friction of 0.3 N m masks the 4 N m load of joint 2.
    assert found['joints']['joint2']['slope'] == pytest.approx(1.0, abs=0.1)


WRONG = {
    'swapped joints': (
        {'joints': joints(joint2={'driver_name': 'joint3'}, joint3={'driver_name': 'joint2'})},
        'joints joint2, joint3: swapped: each is taken for the other',
    ),
    'velocities': (
        {'defaults': {'velocity_unit': 'deg/s'}},
        "joint 'joint1': its velocities are 0.0174",
    ),
    'gravity in the report': (
        {
            'state': {'effort': 'without_compensation'},
            'compensated_by_driver': ['gravity'],
        },
        'gravity: is contained in the reported efforts',
    ),
}


@pytest.mark.parametrize('name', WRONG)
def test_a_wrong_profile_ends_in_1_and_its_cause_is_named(bag, tmp_path, capsys, name):
    keys, text = WRONG[name]
    file = tmp_path / 'found.json'
    assert commission(bag, tmp_path, '--json', str(file), **keys) == 1
    printed = plain(capsys.readouterr().out)
    assert text in printed
    assert 'no errors found' not in printed
    errors = [f for f in json.loads(file.read_text())['findings'] if f['severity'] == 'error']
    assert any(text in f'{f["culprit"]}: {f["problem"]}; {f["remedy"]}' for f in errors)


def test_a_gripper_counts_only_in_a_profile_that_names_it(bag, tmp_path, capsys):
    """As ``new_robot`` writes it, a profile has the joints of the arm alone."""
    jaw = joint('finger', 'tool', 'jaw', kind='prismatic', limits=(0.0, 0.04), effort=9.0)
    jaw += link('jaw', 1e-6, inertia=1e-9 * np.eye(3))
    arm = tmp_path / 'arm.urdf'
    arm.write_text(sample('four_dof').xml.replace('</robot>', f'{jaw}</robot>'))
    assert commission(bag, tmp_path, robot=arm, joints=joints()) == 0
    assert commission(bag, tmp_path, robot=arm, joints=[*joints(), {'joint': 'finger'}]) == 2
    assert 'name each joint' not in capsys.readouterr().err


def test_states_that_contradict_their_neighbours_are_left_out_and_said(tmp_path, capsys):
    messages, rows = [], list(zip(*swing(), strict=True))
    for k, (position, *others) in enumerate(rows):
        position = position + 0.5 * (k == 500)  # one of a rest
        messages.append(state(k * PERIOD, JOINTS, position, *others))
    assert commission(write(tmp_path / 'spoilt', messages), tmp_path) == 0
    printed = plain(capsys.readouterr().out)
    assert '1 states contradict their neighbours, the first at 2.5 s: left out' in printed
    assert 'no errors found in the profile' in printed


def test_commands_of_zero_that_hold_the_arm_tell_who_compensates_gravity(bag, tmp_path, capsys):
    assert commission(bag, tmp_path, '--commands') == 1
    printed = plain(capsys.readouterr().out)
    assert 'gravity: would be counted twice' in printed
    assert 'compensated_by_driver: [gravity]' in printed
    known = {'compensated_by_driver': ['gravity']}
    assert commission(bag, tmp_path, '--commands', **known) == 0


def test_a_missing_effort_limit_is_an_error_of_its_joint_besides_the_rest(bag, tmp_path, capsys):
    robot = tmp_path / 'arm.urdf'
    text = sample('four_dof').xml
    robot.write_text(text.replace('effort="35"', 'effort="0"'), encoding='utf-8')
    assert robot.read_text() != text
    assert commission(bag, tmp_path, robot=robot) == 1
    printed = plain(capsys.readouterr().out)
    assert "error joint 'joint2'" in printed
    assert 'effort' in printed.split("error joint 'joint2'")[1]
    assert f'in {POSES} poses' in printed, 'all else is checked too'
    limits = {'joints': joints(joint2={'effort_limit': 35.0})}
    assert commission(bag, tmp_path, robot=robot, **limits) == 0


@pytest.mark.slow
def test_loops_that_close_in_some_postures_only_are_checked_without_limits_too(tmp_path, capsys):
    """Neither the limits nor the tried faults need gravity where the loops do not close."""
    description, loops = shipped_mechanism('four_bar')
    arm = tmp_path / 'arm.urdf'
    text = urdf_text(description, {'l3p': '0.20'})
    arm.write_text(re.sub(r' effort="[^"]*"', '', text), encoding='utf-8')
    tree = load_robot(arm, loops=loops, effort_limit=1.0)
    with pytest.raises(MechanismError, match='cannot be assembled'):
        tree.positions(np.array([0.8, -0.6]))  # within the limits
    model, names, rest = make_formulation('newton_euler', tree), tree.joint_names, np.zeros(2)
    poses = np.random.default_rng(1).uniform(-0.3, 0.3, (5, 2))
    gravity = np.array([model.inverse_dynamics(q, rest, rest) for q in poses])
    messages = []
    for k, (leg, q, v) in enumerate(zip(*from_pose_to_pose(poses), strict=True)):
        messages.append(state(k * PERIOD, names, q, v, gravity[leg + 1] * [-1.0, 1.0]))
    run = write(tmp_path / 'held', messages)
    assert commission(run, tmp_path, '--loops', str(loops), robot=arm) == 1
    printed = plain(capsys.readouterr().out)
    assert "error joint 'crank_joint': effort limit is missing" in printed
    assert "error joint 'lower_arm_joint': wrong sign of effort" in printed
    wrong = [{'joint': names[0]}, {'joint': names[1], 'position_zero': 1.5}]
    assert commission(run, tmp_path, '--loops', str(loops), robot=arm, joints=wrong) == 1
    assert 'the loops do not close in every pose' in plain(capsys.readouterr().out)


def test_a_limit_in_another_unit_is_seen_by_the_weight_that_it_cannot_hold(bag, tmp_path, capsys):
    limits = {'joints': joints(joint2={'effort_limit': 0.35})}
    assert commission(bag, tmp_path, **limits) == 0
    printed = plain(capsys.readouterr().out)
    assert "warning joint 'joint2': gravity alone needs" in printed
    assert 'is the limit in the unit of the profile?' in printed


def test_a_bag_without_poses_is_an_error_in_the_file_too(tmp_path):
    """Errors that were exceptions must become text as well."""
    rows = list(zip(*swing(), strict=True))[:40]
    messages = [state(k * PERIOD, JOINTS, *row) for k, row in enumerate(rows)]
    file = tmp_path / 'found.json'
    moving = write(tmp_path / 'moving', messages)
    assert commission(moving, tmp_path, '--json', str(file)) == 1
    findings = json.loads(file.read_text())['findings']
    assert 'error' in {finding['severity'] for finding in findings}
    assert {'severity', 'culprit', 'problem', 'remedy'} == set(findings[0])
