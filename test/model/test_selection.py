# SPDX-License-Identifier: Apache-2.0
"""Faults that are only reported, selection of controlled joints, and positions of locked ones."""

import re

import pytest
import tables
from oracles import EliminationOracle, relative_error
from samples import sample
from urdf_text import follow, good_parts, robot

from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.errors import (
    ConfigurationError,
    DescriptionError,
    ModelError,
    RobotDynamicsError,
)
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.build import with_exact_angles

GOOD = robot('good', *good_parts().values())


def remark(tree, *parts) -> bool:
    return any(all(part in text for part in parts) for text in tree.remarks)


def test_locked_joints_are_lumped_as_pinocchio_holds_them(rng):
    robot, locked = sample('branched'), {'left_slide': 0.3, 'neck': 1.0, 'waist': -0.5}
    tree = load_robot(robot.xml, robot.gravity, effort_limit=1.0, locked=locked)
    assert tree.locked == locked
    oracle = EliminationOracle(robot.xml, tree.gravity, tree.joint_names, locked)
    motion = rng.uniform(-1, 1, size=(3, tree.n))
    for one in (tree, load_robot(tree.xml, tree.gravity, effort_limit=1.0)):  # as its text says
        found = make_formulation('newton_euler', one).inverse_dynamics(*motion)
        assert relative_error(found, oracle.inverse_dynamics(*motion)) < 1e-12  # two other sums


def test_joints_and_chains_choose_what_is_controlled():
    def names(**chosen):
        return load_robot(sample('branched').xml, effort_limit=1.0, **chosen).joint_names

    assert names(joints=['neck', 'waist']) == ('waist', 'neck')
    assert names(tip='right_hand') == ('waist', 'right_shoulder', 'right_elbow')
    assert names(base='torso', tip='right_hand') == ('right_shoulder', 'right_elbow')
    assert names(base='torso', tip='right_hand', joints=['neck'])[-1] == 'neck'
    assert names(tip='right_hand', locked={'waist': 0.1}) == ('right_shoulder', 'right_elbow')
    tree = load_robot(sample('branched').xml, effort_limit=1.0, tip='right_hand')
    assert 'left_camera' in tree.frames


def test_a_joint_that_is_released_may_have_an_effort_limit():
    text = load_robot(GOOD, joints=['j1']).xml
    tree = load_robot(text, joints=['j1', 'j2'], effort_limit={'j2': 5.0})
    assert tree.effort_limit.tolist() == [100.0, 5.0]


def test_a_joint_is_locked_at_zero_or_at_the_nearest_limit():
    text = GOOD.replace('lower="-3.0" upper="3.0"', 'lower="0.4" upper="1"', 1)
    assert load_robot(text, joints=['j2']).locked == {'j1': 0.4}
    assert load_robot(GOOD, joints=['j2']).locked == {'j1': 0.0}
    tree = load_robot(GOOD, joints=['j2'], locked={'j1': 4.0})
    assert remark(tree, "joint 'j1'", 'locked at 4, outside of its limits [-3, 3]')


def test_faults_of_locked_joints_are_remarks():
    text = GOOD.replace('effort="100.0"', 'effort="0"', 1)
    tree = load_robot(text.replace('upper="3.0"', 'upper="up"', 1), joints=['j2'])
    assert remark(tree, "joint 'j1' <limit upper>", "'up' is not a finite number")
    with pytest.raises(ModelError, match="joint 'j1': effort limit is 0"):
        load_robot(text)


def test_a_place_that_is_no_number_is_refused_on_a_moving_link_only():
    def camera(on):
        return (
            f'<link name="camera"/><joint name="stand" type="fixed"><origin rpy="0 0 left"/>'
            f'<parent link="{on}"/><child link="camera"/></joint></robot>'
        )

    tree = load_robot(GOOD.replace('</robot>', camera('base')))
    assert remark(tree, "joint 'stand' <origin rpy>: 'left' is not a finite number")
    assert with_exact_angles(tree).n == tree.n
    with pytest.raises(DescriptionError, match="joint 'stand' <origin rpy>: 'left'"):
        load_robot(GOOD.replace('</robot>', camera('hand')))


def test_a_mimic_joint_that_moves_with_none_is_said_to_be_locked():
    mimic = '<mimic joint="j1" multiplier="0" offset="0.2"/></joint>'
    tree = load_robot(mimic.join(GOOD.rsplit('</joint>', 1)))
    assert tree.locked == {'j2': 0.2}
    assert remark(tree, "joint 'j2': follows 'j1' with multiplier 0; it is locked at 0.2")


@tables.rows('multiplier offset upper told', """
0.04, 0.1, 2.5, ''
0.1, 0.1, 1.0, only -1 to 1 of -3 to 3; correct them
0.1, 1.0, 3.0, no range; those of that joint are used
""")  # fmt: skip
def test_little_range_that_the_limits_of_a_mimic_joint_leave_is_remarked(
    multiplier, offset, upper, told
):
    parts = good_parts()
    parts['j2'] = follow(parts['j2'], 'j1', multiplier, offset)
    tree = load_robot(robot('r', *parts.values()))
    assert tree.position_upper == pytest.approx([upper])
    assert remark(tree, f"'j2': its limits leave 'j1' {told}") == bool(told)


@tables.written("""
{joints: [j9]}                    | UnknownNameError: ... unknown joint 'j9'; known: j1, j2
{locked: {j9: 0.0}}               | UnknownNameError: ... unknown joint in locked 'j9'
{tip: thumb}                      | UnknownNameError: ... unknown link 'thumb'; known: arm, base, hand
{base: arm}                       | ConfigurationError: ... chain: has no tip
{base: hand, tip: arm}            | ConfigurationError: ... 'arm' is not below link 'hand'
{joints: [j1, 2]}                 | ParameterError: parameter joints = 2 refused: must be a list of names
{joints: []}                      | ConfigurationError: ... none is left to control; choose from: j1, j2
{locked: {j1: 0.0, j2: 0.0}}      | ConfigurationError: ... none is left
{joints: [j1], locked: {j1: 0.0}} | ConfigurationError: ... controlled and locked
{locked: {j1: .nan}}              | NonFiniteError: ... position of joint 'j1' is not finite
{mimic: ignore}                   | UnknownNameError: ... 'ignore'; known: couple, lock
""")  # noqa: E501
def test_a_choice_that_makes_no_sense_is_refused(given, said):
    with pytest.raises(RobotDynamicsError) as refusal:
        load_robot(GOOD, **given)
    assert re.match(said, f'{refusal.typename}: {refusal.value}')


def test_joints_that_all_follow_one_another_are_named():
    text = re.sub('</joint>', '<mimic joint="j2"/></joint>', GOOD)
    with pytest.raises(ConfigurationError, match='by <mimic>; take it from j1 or j2'):
        load_robot(text)
