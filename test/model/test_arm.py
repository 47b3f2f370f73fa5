# SPDX-License-Identifier: Apache-2.0
"""What is taken for the arm, its gripper and its tool in descriptions of many kinds."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from samples import world_files
from urdf_text import joint, link, robot

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.errors import DescriptionError, ModelError
from robot_dynamics_ros.model import load_arm, load_robot
from robot_dynamics_ros.model.arm import arm_ends, tool_frame

E = [[0.01, 0, 0], [0, 0.01, 0], [0, 0, 0.01]]
MIMIC = '<mimic joint="{}" multiplier="-1"/>'


def body(name):
    return link(name, 1.0, (0.05, 0, 0), E)


def chain(count, prefix='', root='base', start=''):
    """Return links and joints of a chain, and the name of its last link."""
    parts, parent = [] if start else [link(root)], start or root
    for k in range(1, count + 1):
        parts += [joint(f'{prefix}j{k}', parent, f'{prefix}l{k}', xyz=(0.2, 0, 0), axis=(0, 1, 0)),
                  body(f'{prefix}l{k}')]  # fmt: skip
        parent = f'{prefix}l{k}'
    return parts, parent


def fixed(parent, child, x):
    return [joint(f'{child}_mount', parent, child, 'fixed', (x, 0, 0)), link(child)]


def slide(name, parent, mimic=''):
    return [joint(name, parent, f'{name}_link', 'prismatic', axis=(0, 1, 0), limits=(0.01, 0.04),
                  dynamics=mimic), body(f'{name}_link')]  # fmt: skip


def arm(*more, count=3):
    parts, last = chain(count)
    return robot('arm', *parts, *(text for part in more for text in part)), last


# The text, joints of the arm, tool frame.
KINDS = {
    'a named point': (arm(fixed('l3', 'nozzle', 0.1), fixed('l3', 'plate', 0.3))[0], 3, 'nozzle'),
    'a prefix': (arm(fixed('l3', 'left_tool0', 0.1))[0], 3, 'left_tool0'),
    'the farthest': (arm(fixed('l3', 'near', 0.1), fixed('near', 'far', 0.1))[0], 3, 'far'),
    'a camera beside': (arm(fixed('l3', 'camera', 0.4), fixed('l3', 'plate', 0.1))[0], 3, 'plate'),
    'a camera only': (arm(fixed('l3', 'camera', 0.1))[0], 3, 'camera'),
    'none': (arm()[0], 3, 'l3'),
    'a jaw by its name': (arm(slide('jaw', 'l3'), fixed('l3', 'grasp', 0.1))[0], 3, 'grasp'),
    'two slides': (
        arm(slide('a', 'l3'), slide('b', 'l3'), fixed('l3', 'plate', 0.1))[0], 3, 'plate',
    ),
    'a slide and its mimic': (
        arm(slide('a', 'l3'), slide('b', 'l3', MIMIC.format('a')), fixed('l3', 'tcp', 0.1))[0],
        3,
        'tcp',
    ),
    'a last slide is no gripper': (arm(slide('quill', 'l3'))[0], 4, 'quill_link'),
    'a wrist named after its gripper': (
        arm([joint('gripper_roll', 'l3', 'l4', axis=(1, 0, 0)), body('l4')])[0], 4, 'l4',
    ),
    'a mimic joint along the arm': (
        arm([joint('m', 'l3', 'l4', dynamics=MIMIC.format('j2')), body('l4')],
            [joint('j5', 'l4', 'l5', xyz=(0.1, 0, 0)), body('l5')], fixed('l5', 'tcp', 0.1))[0],
        4, 'tcp',
    ),
    'two arms of a torso': (
        robot('two', *chain(1)[0], *chain(3, 'a_', start='l1')[0], *chain(4, 'b_', start='l1')[0],
              *fixed('a_l3', 'a_tcp', 0.1), *fixed('b_l4', 'b_tcp', 0.1)),
        8, 'b_tcp',
    ),
    'a rod before the arm': (
        robot('rods', *chain(1)[0], *chain(2, 'rod_', start='l1')[0], *fixed('rod_l2', 'pin', 0.3),
              *chain(2, 'arm_', start='l1')[0], *fixed('arm_l2', 'tcp', 0.1)),
        5, 'tcp',
    ),
    'a hand alone': (
        robot('hand', link('palm'), *chain(2, 'a_finger_', start='palm')[0],
              *chain(2, 'b_finger_', start='palm')[0]),
        4, 'a_finger_l2',
    ),
}  # fmt: skip


@pytest.mark.parametrize('kind', KINDS)
def test_grippers_are_locked_and_the_tool_is_the_end_of_the_longest_chain(kind):
    text, count, frame = KINDS[kind]
    tree = load_arm(text)
    assert tree.n == count
    assert tool_frame(tree) == frame
    assert tool_frame(load_robot(tree.xml)) == frame  # as in a recording of this arm
    independent = load_robot(text).n
    assert ('taken for a gripper and locked' in ' '.join(tree.remarks)) == (count < independent)


def test_gains_are_designed_for_the_joints_that_a_controller_drives(tmp_path, capsys):
    file, program = tmp_path / 'arm.urdf', tmp_path / 'still.yaml'
    file.write_text(KINDS['a jaw by its name'][0])
    program.write_text('constraints: [{kind: joint_program, joints: [j1], position: 0.1}]')
    assert main(['design_gains', str(file), '--program', str(program)]) == 0
    said = capsys.readouterr()
    assert 'j3' in said.out
    assert 'jaw' not in said.out
    assert "'jaw': taken for a gripper and locked" in said.err


def test_a_gripper_is_locked_within_its_limits_and_a_choice_of_joints_is_kept():
    text = KINDS['a jaw by its name'][0]
    assert load_arm(text).locked == {'jaw': 0.01}
    assert load_arm(text, locked={'jaw': 0.03}).locked == {'jaw': 0.03}
    assert load_arm(text, joints=['j1', 'jaw']).joint_names == ('j1', 'jaw')
    assert load_arm(text, tip='jaw_link').n == 4
    assert arm_ends(load_arm(KINDS['two arms of a torso'][0])) == ['b_l4', 'a_l3']
    for locked in ('j2', 'j3'):  # the tool stays at the end of the arm
        assert tool_frame(load_arm(text, locked={locked: 0.5})) == 'grasp'


WORLD = {file.stem: file.locate() for file in world_files()}


@pytest.mark.parametrize(
    ('name', 'count', 'frame'),
    [
        ('ur5_robot', 6, 'tool0'),
        ('panda', 7, 'panda_hand_tcp'),
        ('z1', 6, 'gripperStator'),
        ('so101', 5, 'gripper_frame_link'),
        ('g1_29dof_with_hand_rev_1_0', 29, 'left_hand_palm_link'),
        ('allegro_left_hand', 16, 'link_11.0_tip'),
    ],
)
def test_published_arms(name, count, frame):
    tree = load_arm(WORLD[name], effort_limit=100.0)
    assert (tree.n, tool_frame(tree)) == (count, frame)


def test_an_error_that_one_chain_would_cure_says_so():
    """The second arm moves no inertia."""
    parts = [*chain(1)[0], *chain(3, 'a_', start='l1')[0]]
    bad = [joint('bad', 'l1', 'weightless'), link('weightless')]
    with pytest.raises(ModelError, match=r"joint 'bad': .*--tip a_l3 or weightless$"):
        load_arm(robot('two', *parts, *bad))
    one = robot('one', *chain(2)[0], joint('bad', 'l2', 'weightless'), link('weightless'))
    with pytest.raises(ModelError) as refused:
        load_arm(one)
    assert '--tip' not in str(refused.value)


@pytest.mark.slow
def test_commands_print_what_was_taken_and_the_options_that_change_it(tmp_path, capsys):
    file = tmp_path / 'arm.urdf'
    tree = ElementTree.fromstring(KINDS['a jaw by its name'][0])
    tree.find("joint[@name='j1']/limit").set('upper', '180')
    file.write_bytes(ElementTree.tostring(tree))
    assert main(['new_robot', str(file), '--out', str(tmp_path / 'arm')]) == 0
    printed = capsys.readouterr().out
    asked = "\nbefore the arm moves, answer: joint 'j1': turns as far as 180 rad; "
    assert f'{asked}limits are in rad; is it in degrees?\n' in printed
    assert "remark: 'jaw': taken for a gripper and locked" in printed
    assert 'joints: j1, j2, j3 (--joints takes others)' in printed
    assert 'tool frame: grasp (--frame takes another)' in printed


@pytest.mark.parametrize('kind', ['fixed', 'revolute'])
def test_links_in_a_circle_are_refused(kind):
    circle = [joint('to_a', 'b', 'a', kind), joint('to_b', 'a', 'b', kind), body('a'), body('b')]
    with pytest.raises(DescriptionError, match="link 'a': is in or below a closed loop of joints"):
        load_arm(robot('circle', *chain(2)[0], *circle, joint('on', 'b', 'c'), body('c')))
