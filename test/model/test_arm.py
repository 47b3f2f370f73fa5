# SPDX-License-Identifier: Apache-2.0
"""What is taken for the arm, its gripper and its tool in descriptions of many kinds."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
import tables
from samples import world_files
from urdf_text import follow, joint, link, robot

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.errors import DescriptionError, ModelError
from robot_dynamics_ros.model import load_arm, load_robot
from robot_dynamics_ros.model.arm import arm_ends, tool_frame


def written(words):
    """Return a robot, of a word for each joint, such as ``b:a``, ``b/a@0.1``, ``b:a*c``, ``b=a``.

    The joint b turns (:) or slides (/) on the link that a moves, at 0.1 m, and moves b_link;
    it follows c (*). A link b is fixed there (=).
    """
    links, parts = {'': 'base'}, [link('base')]
    for word in words.split():
        name, kind, on, followed, x = re.fullmatch(
            r'(\w+)([:/=])(\w*)\*?(\w*)@?(.*)', word
        ).groups()
        links[name] = name if kind == '=' else f'{name}_link'
        parts.append(link(name) if kind == '=' else link(links[name], 1, (0.05, 0, 0), TENSOR))
        text = joint(
            name, links[on], links[name], KINDS_OF_JOINTS[kind], (float(x or 0.2), 0, 0),
            axis=(0, 1, 0), limits=(0.01, 0.04) if kind == '/' else (-3.0, 3.0),
        )  # fmt: skip
        parts.append(follow(text, followed, -1.0) if followed else text)
    return robot('written', *parts)


TENSOR = 0.01 * np.eye(3)
KINDS_OF_JOINTS = {':': 'revolute', '/': 'prismatic', '=': 'fixed'}
#: What it is; its joints, number of joints of the arm, tool frame.
KINDS = {what: rest for what, *rest in (re.split(r' *\| ', line) for line in """
a named point | j1: j2:j1 j3:j2 nozzle=j3@0.1 plate=j3@0.3 | 3 | nozzle
a prefix | j1: j2:j1 j3:j2 left_tool0=j3@0.1 | 3 | left_tool0
the farthest | j1: j2:j1 j3:j2 near=j3@0.1 far=near@0.1 | 3 | far
a camera beside | j1: j2:j1 j3:j2 camera=j3@0.4 plate=j3@0.1 | 3 | plate
a camera only | j1: j2:j1 j3:j2 camera=j3@0.1 | 3 | camera
none | j1: j2:j1 j3:j2 | 3 | j3_link
a jaw by its name | j1: j2:j1 j3:j2 jaw/j3 grasp=j3@0.1 | 3 | grasp
two slides | j1: j2:j1 j3:j2 a/j3 b/j3 plate=j3@0.1 | 3 | plate
a slide and its mimic | j1: j2:j1 j3:j2 a/j3 b/j3*a tcp=j3@0.1 | 3 | tcp
fingers of mimic joints | j1: j2:j1 a:j2 a2:a*a b:j2*a b2:b*a tcp=j2@0.1 | 2 | tcp
a last slide is no gripper | j1: j2:j1 j3:j2 quill/j3 | 4 | quill_link
a wrist named after its gripper | j1: j2:j1 j3:j2 gripper_roll:j3 | 4 | gripper_roll_link
a mimic joint along the arm | j1: j2:j1 j3:j2 m:j3*j2 j5:m tcp=j5@0.1 | 4 | tcp
two arms of a torso | j1: a1:j1 a2:a1 a3:a2 a_tcp=a3 b1:j1 b2:b1 b3:b2 b4:b3 b_tcp=b4 | 8 | b_tcp
a rod before the arm | j1: rod1:j1 rod2:rod1 pin=rod2@0.3 j2:j1 j3:j2 tcp=j3@0.1 | 5 | tcp
a hand alone | finger_1: finger_2:finger_1 thumb_1: thumb_2:thumb_1 | 4 | finger_2_link
""".strip().splitlines())}  # fmt: skip
JAW, TORSO = KINDS['a jaw by its name'][0], KINDS['two arms of a torso'][0]


@pytest.mark.parametrize(('words', 'count', 'frame'), KINDS.values(), ids=KINDS)
def test_grippers_are_locked_and_the_tool_is_the_end_of_the_longest_chain(words, count, frame):
    text = written(words)
    tree = load_arm(text)
    assert (tree.n, tool_frame(tree)) == (int(count), frame)
    assert tool_frame(load_robot(tree.xml)) == frame  # as in a recording of this arm
    locks = 'taken for a gripper and locked' in ' '.join(tree.remarks)
    assert locks == (tree.n < load_robot(text).n)


def test_a_gripper_is_locked_within_its_limits_and_a_choice_of_joints_is_kept():
    text = written(JAW)
    assert load_arm(text).locked == {'jaw': 0.01}
    assert load_arm(text, locked={'jaw': 0.03}).locked == {'jaw': 0.03}
    chosen = load_arm(text, joints=['j1', 'jaw'])
    assert chosen.joint_names == load_arm(chosen.xml).joint_names == ('j1', 'jaw')
    assert load_arm(text, tip='jaw_link').n == 4
    assert arm_ends(load_arm(written(TORSO))) == ['b4_link', 'a3_link']
    # The tool stays at the end of the arm.
    assert tool_frame(load_arm(text, locked={'j3': 0.5})) == 'grasp'
    assert tool_frame(load_robot(text, joints=['jaw'])) == 'jaw_link'


def test_a_joint_from_a_link_to_itself_is_refused():
    arm = written('j1: j2:j1').replace('</robot>', joint('to_itself', 'j1_link', 'j1_link'))
    with pytest.raises(DescriptionError, match="of two joints, 'j1' and 'to_itself': a loop"):
        load_arm(f'{arm}</robot>')


def test_a_joint_without_a_name_is_refused_as_one():
    with pytest.raises(DescriptionError, match='<joint>: has no name'):
        load_arm(written(JAW).replace('name="jaw"', ''))


WORLD = {file.stem: file.locate() for file in world_files()}


@tables.rows('name count frame', """
ur5_robot, 6, tool0
panda, 7, panda_hand_tcp
z1, 6, gripperStator
so101, 5, gripper_frame_link
g1_29dof_with_hand_rev_1_0, 29, left_hand_palm_link
allegro_left_hand, 16, link_11.0_tip
""")  # fmt: skip
def test_published_arms(name, count, frame):
    tree = load_arm(WORLD[name], effort_limit=100.0)
    assert (tree.n, tool_frame(tree)) == (count, frame)


def test_an_error_that_one_chain_would_cure_says_so():
    """A joint of the second arm moves no inertia."""
    for words, said in (
        ('j1: a1:j1 a2:a1 bad:j1', 'one chain: --tip a2_link'),
        ('j1: a1:j1 bad:a1', 'from shapes'),
    ):
        text = re.sub('(<link name="bad_link">).*', r'\1</link>', written(words))
        with pytest.raises(ModelError, match=f"joint 'bad': .*{said}$"):
            load_arm(text)


@pytest.mark.slow
def test_commands_take_the_arm_and_print_the_options_that_change_it(tmp_path, capsys):
    file, program = tmp_path / 'arm.urdf', tmp_path / 'still.yaml'
    tree = ElementTree.fromstring(written(JAW))
    tree.find("joint[@name='j1']/limit").set('upper', '180')
    file.write_bytes(ElementTree.tostring(tree))
    assert main(['new_robot', str(file), '--out', str(tmp_path / 'arm')]) == 0
    printed = capsys.readouterr().out
    for said in (
        "\nbefore the arm moves, answer: joint 'j1': turns as far as 180 rad; limits are in rad; "
        'is it in degrees?\n',
        "remark: 'jaw': taken for a gripper and locked",
        'joints: j1, j2, j3 (--joints takes others)',
        'tool frame: grasp (--frame takes another)',
    ):
        assert said in printed
    program.write_text('constraints: [{kind: joint_program, joints: [j1], position: 0.1}]')
    assert main(['design_gains', str(file), '--program', str(program)]) == 0
    designed = capsys.readouterr().out
    assert 'j3' in designed
    assert 'jaw' not in designed


@pytest.mark.parametrize('kind', ['fixed', 'revolute'])
def test_links_in_a_circle_are_refused(kind):
    circle = [joint('to_a', 'b', 'a', kind), joint('to_b', 'a', 'b', kind), link('a'), link('b')]
    arm = written('j1: j2:j1').replace('</robot>', '\n'.join([*circle, '</robot>']))
    with pytest.raises(DescriptionError, match="link 'a': is in or below a closed loop of joints"):
        load_arm(arm)
