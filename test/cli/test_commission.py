# SPDX-License-Identifier: Apache-2.0
"""The command ``commission`` on a bag: each wrong profile gives exit code 1 and the cause.

The bag is of a driver in SI units that holds the arm itself, with commands of zero; every wrong
profile contradicts it. Reference of gravity: Pinocchio, built from the URDF text.
"""

import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import tables
from bags import MS, state
from bags import command as message
from commands import Ended
from recorded_arm import from_pose_to_pose, rigid, swing
from samples import sample
from urdf_text import described, joint, link

from robot_dynamics_ros.cli import commission as module
from robot_dynamics_ros.description.shipped import shipped_mechanism
from robot_dynamics_ros.description.source import urdf_text
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import MechanismError
from robot_dynamics_ros.model import load_robot

JOINTS = [f'joint{i}' for i in range(1, 5)]
TREE, XML = sample('four_dof').tree, sample('four_dof').xml
POSES = 8
PERIOD = 5 * MS  # of ``swing``


def states(*columns, **topic):
    """Return the messages of positions, velocities and efforts."""
    rows = enumerate(zip(*columns, strict=True))
    return [state(k * PERIOD, JOINTS, *row, **topic) for k, row in rows]


@pytest.fixture(scope='module')
def bag(shared):
    run = states(*swing())
    return shared.word([*run, *(message(x.time + MS, np.zeros(4)) for x in run)])


@pytest.fixture
def commission(command):
    """Return a function that checks a bag against a profile; its figures are the findings."""

    def check(bag, *words, robot='four_dof', code=0, **keys) -> Ended:
        profile = {'name': 'believed', 'state': {'effort': 'total'}, **keys}
        given = ('--driver-profile', profile, '--bag', bag)
        return command('commission', robot, *given, *words, code=code)

    return check


def joints(**changes):
    return [{'joint': name, **changes.get(name, {})} for name in JOINTS]


@pytest.mark.slow
def test_a_true_profile_ends_in_0(bag, commission):
    ended = commission(bag)
    said = (
        f'Efforts, measured, against gravity in {POSES} poses',
        'no errors found in the profile',
        "joint 'joint1': gravity does not change there: its unit was not checked",
    )
    assert [text for text in said if text not in ended.said] == []
    found = ended.figures
    assert found['poses'] == POSES
    assert found['joints']['joint1']['slope'] is None  # its axis is vertical
    # Coulomb friction of 0.3 N m masks the 4 N m load of joint 2.
    assert found['joints']['joint2']['slope'] == pytest.approx(1.0, abs=0.1)
    silent = commission(bag, state={'effort': 'none'})
    assert 'the driver reports none; check with --commands' in silent.said
    assert 'poses' not in silent.figures


def test_a_joint_that_neither_weight_nor_motion_checks_is_said_not_to_be(commission):
    columns = swing()
    for column in columns[:2]:
        column[:, 0] = 0.0
    told = 'gravity does not change there: sign and unit were not checked'
    assert f"joint 'joint1': {told}" in commission(states(*columns)).said


def test_a_continuous_joint_rests_where_its_driver_changes_its_turn(command, monkeypatch):
    """Live: states on both sides of half a turn are one pose."""
    arm = described('lever', """
base: []
lever: [2.0, [0.3, 0.0, 0.0], [0.1, 0.1, 0.1]]
hinge: {of: [base, lever, continuous], axis: [0, 1, 0]}
""")  # fmt: skip
    time, noise = 5e-3 * np.arange(2000), 1e-4 * (-1.0) ** np.arange(2000)
    q = np.repeat([2.0, 2.4, 2.8, np.pi, 3.5], 400) + noise
    measured = np.angle(np.exp(1j * q)), 0.0 * q, -2.0 * 0.3 * 9.81 * np.cos(q)
    columns = time, *(column[:, np.newaxis] for column in measured)
    driver = SimpleNamespace(collect_states=lambda *_, **__: columns)
    monkeypatch.setitem(sys.modules, 'robot_dynamics_ros.ros.driver_connection', driver)
    believed = {'name': 'believed', 'state': {'effort': 'total'}}
    ended = command('commission', arm, '--driver-profile', believed)
    assert ended.figures['joints']['hinge']['slope'] == pytest.approx(1.0, abs=1e-3)


def test_the_only_namespace_of_a_bag_needs_no_option(command, commission):
    bag = command.word(states(*swing(), topic='/cell/joint_states'))
    commission(bag)
    refused = commission(bag, '--namespace', 'other', code=2)
    assert "no joint states in namespace 'other'" in refused.err


@pytest.mark.slow
@tables.written("""
    {joints: [{joint: joint1}, {joint: joint2, driver_name: joint3}, {joint: joint3, driver_name: joint2}, {joint: joint4}]} | joints joint2, joint3: swapped: each is taken for the other
    {defaults: {velocity_unit: deg/s}} | joint 'joint1': its velocities are 0.0175
    {state: {effort: without_compensation}, compensated_by_driver: [gravity]} | gravity: is contained in the reported efforts
""")  # noqa: E501
def test_a_wrong_profile_ends_in_1_and_its_cause_is_named(bag, commission, given, said):
    ended = commission(bag, code=1, **given)
    assert re.search(said, ended.said)
    assert 'no errors found' not in ended.said
    errors = [x for x in ended.figures['findings'] if x['severity'] == 'error']
    assert any(re.search(said, f'{x["culprit"]}: {x["problem"]}') for x in errors)
    assert {'severity', 'culprit', 'problem', 'remedy'} == set(errors[0])


@pytest.mark.slow
def test_efforts_without_gravity_tell_a_wrong_sign_by_the_motion(command, commission):
    q, v, effort = swing()
    bag = command.word(states(q, v, effort - rigid(q)))
    driver = {'state': {'effort': 'without_compensation'}, 'compensated_by_driver': ['gravity']}
    commission(bag, **driver)
    said = commission(bag, code=1, joints=joints(joint3={'effort_sign': -1}), **driver).said
    assert "error joint 'joint3': wrong sign of effort" in said


def test_a_joint_with_limits_whose_driver_wraps_it_is_told(commission):
    """Its gravity, and the poses between the jumps, show nothing."""
    limits = 'lower="-1.5707963267948966" upper="1.5707963267948966" velocity="2.5"'
    robot = XML.replace(limits, 'lower="-6.5" upper="6.5" velocity="2.5"')
    assert robot != XML
    q, *others = swing()
    q[:, 0] = (q[:, 0] + 3.0 + np.pi) % (2.0 * np.pi) - np.pi
    said = commission(states(q, *others), robot=robot, code=1).said
    assert re.search("error joint 'joint1': jumps by a whole turn .* its driver wraps it", said)


@pytest.mark.slow
def test_a_gripper_counts_only_in_a_profile_that_names_it(bag, commission):
    """As ``new_robot`` writes it, a profile has the joints of the arm alone."""
    jaw = joint('finger', 'tool', 'jaw', kind='prismatic', limits=(0.0, 0.04), effort=9.0)
    jaw += link('jaw', 1e-6, inertia=1e-9 * np.eye(3))
    arm = XML.replace('</robot>', f'{jaw}</robot>')
    commission(bag, robot=arm, joints=joints())
    refused = commission(bag, robot=arm, joints=[*joints(), {'joint': 'finger'}], code=2)
    assert 'name each joint' not in refused.err


@pytest.mark.parametrize(('spoilt', 'code'), [(slice(500, 501), 0), (slice(500, None, 4), 1)])
def test_states_that_contradict_their_neighbours_are_left_out_and_said(spoilt, code, commission):
    position, *others = swing()
    position[spoilt] += 0.5  # the first of a rest
    said = commission(states(position, *others), code=code).said
    told = (
        'states that contradict their neighbours, at 1 instant, the first at 2.5 s',
        'states contradict their neighbours, the first at 2.5 s: what is left allows no verdict',
    )
    assert [text in said for text in told] == [code == 0, code == 1]


def test_a_bag_without_commands_is_told_to_who_checks_them(commission):
    ended = commission(states(*(x[:99] for x in swing())), '--commands', code=2)
    assert 'has no command of every joint at one state; record them' in ended.err


@pytest.mark.slow
def test_commands_of_zero_that_hold_the_arm_tell_who_compensates_gravity(bag, commission):
    said = commission(bag, '--commands', code=1).said
    assert 'gravity: would be counted twice' in said
    assert 'compensated_by_driver: [gravity]' in said
    for words in (['--commands'], []):  # measured efforts are total, whoever holds the arm
        commission(bag, *words, compensated_by_driver=['gravity'])


@pytest.mark.slow
def test_a_missing_effort_limit_is_an_error_of_its_joint_besides_the_rest(bag, commission):
    robot = XML.replace('effort="35"', 'effort="0"')
    assert robot != XML
    ended = commission(bag, robot=robot, code=1)
    errors = [x['culprit'] for x in ended.figures['findings'] if x['severity'] == 'error']
    assert errors == ["joint 'joint2'"]
    assert 'effort' in ended.said.split("error joint 'joint2'")[1]
    assert f'in {POSES} poses' in ended.said, 'all else is checked too'
    commission(bag, robot=robot, joints=joints(joint2={'effort_limit': 35.0}))


@pytest.mark.slow
def test_loops_that_close_in_some_postures_only_are_checked_without_limits_too(
    commission, monkeypatch
):
    """Neither the limits nor the tried faults need gravity where the loops do not close."""
    description, loops = shipped_mechanism('four_bar')
    arm = re.sub(r' effort="[^"]*"', '', urdf_text(description, {'l3p': '0.20'}))
    tree = load_robot(arm, loops=loops, effort_limit=1.0)
    with pytest.raises(MechanismError, match='cannot be closed'):
        tree.positions(np.array([0.8, -0.6]))  # within the limits
    model, names, rest = make_formulation('newton_euler', tree), tree.joint_names, np.zeros(2)
    poses = np.random.default_rng(1).uniform(-0.3, 0.3, (5, 2))
    gravity = np.array([model.inverse_dynamics(q, rest, rest) for q in poses])
    rows = enumerate(zip(*from_pose_to_pose(poses), strict=True))
    messages = [
        state(k * PERIOD, names, q, v, gravity[row] * [-1.0, 1.0]) for k, (row, q, v, _) in rows
    ]
    said = commission(messages, '--loops', loops, robot=arm, code=1).said
    assert "error joint 'crank_joint': effort limit is missing" in said
    assert "error joint 'lower_arm_joint': wrong sign of effort" in said
    monkeypatch.setattr(module, 'largest_gravity_forces', lambda tree: rest)  # as before
    wrong = [{'joint': names[0]}, {'joint': names[1], 'position_zero': 1.5}]
    said = commission(messages, '--loops', loops, robot=arm, joints=wrong, code=1).said
    assert 'the loops do not close in every pose' in said


def test_a_limit_in_another_unit_is_seen_by_the_weight_that_it_cannot_hold(bag, commission):
    said = commission(bag, joints=joints(joint2={'effort_limit': 0.35})).said
    told = (
        "warning joint 'joint2': gravity alone needs .* is the limit in the unit of the profile?"
    )
    assert re.search(told, said)


def test_a_bag_without_poses_is_an_error(commission):
    few = (column[:40] for column in swing())
    assert 'error samples: the arm never rests' in commission(states(*few), code=1).said
