# SPDX-License-Identifier: Apache-2.0
"""The arms, hands and bodies of the package example-robot-data: a file, a chain and its tool."""

from __future__ import annotations

from typing import NamedTuple


class ArmGroup(NamedTuple):
    """Joints of one robot that are controlled together, fixed-base.

    Attributes:
        file: Path of the URDF in example-robot-data.
        frame: Name of the link that is led.
        base: Name of the link at which the chain of joints begins; the root if empty.
        chain: Whether the joints are those from the base to the frame; else all.
    """

    file: str
    frame: str
    base: str = ''
    chain: bool = True


_TALOS, _TIAGO = 'talos_data/robots', 'tiago_description/robots'
_UR, _G1 = 'ur_description/urdf', 'g1_description/urdf'
_ALEX, _ICUB = 'alex_description/urdf', 'icub_description/robots'
_PRO = 'tiago_pro_description/robots/tiago_pro.urdf'
_DUAL = f'{_TIAGO}/tiago_dual.urdf'
_PR2, _ROMEO = 'pr2_description/urdf/pr2.urdf', 'romeo_description/urdf/romeo.urdf'
_BAXTER = 'baxter_description/urdf/baxter.urdf'

ARMS = {
    'Panda': ArmGroup('panda_description/urdf/panda.urdf', 'panda_hand_tcp'),
    'Panda with hand': ArmGroup(
        'panda_description/urdf/panda.urdf', 'panda_hand_tcp', chain=False
    ),
    'UR3': ArmGroup(f'{_UR}/ur3_robot.urdf', 'tool0'),
    'UR3, limited': ArmGroup(f'{_UR}/ur3_joint_limited_robot.urdf', 'tool0'),
    'UR3, gripper': ArmGroup(f'{_UR}/ur3_gripper.urdf', 'tool0'),
    'UR5': ArmGroup(f'{_UR}/ur5_robot.urdf', 'tool0'),
    'UR5, limited': ArmGroup(f'{_UR}/ur5_joint_limited_robot.urdf', 'tool0'),
    'UR5, gripper': ArmGroup(f'{_UR}/ur5_gripper.urdf', 'tool0'),
    'UR10': ArmGroup(f'{_UR}/ur10_robot.urdf', 'tool0'),
    'UR10, limited': ArmGroup(f'{_UR}/ur10_joint_limited_robot.urdf', 'tool0'),
    'Kinova j2s6s200': ArmGroup('kinova_description/robots/kinova.urdf', 'j2s6s200_end_effector'),
    'Kinova on ANYmal': ArmGroup(
        'anymal_b_simple_description/robots/anymal-kinova.urdf', 'j2s6s200_end_effector'
    ),
    'xArm 7': ArmGroup('xarm_description/urdf/xarm7.urdf', 'link_eef'),
    'Z1': ArmGroup('z1_description/urdf/z1.urdf', 'link06'),
    'Z1, gripper': ArmGroup('z1_description/urdf/z1.urdf', 'gripperMover'),
    'Z1 on B1': ArmGroup('b1_description/urdf/b1-z1.urdf', 'link06'),
    'SO-100': ArmGroup('so_arm_description/urdf/so100.urdf', 'gripper'),
    'SO-101': ArmGroup('so_arm_description/urdf/so101.urdf', 'gripper_frame_link'),
    'TIAGo': ArmGroup(f'{_TIAGO}/tiago_no_hand.urdf', 'wrist_ft_tool_link', 'torso_lift_link'),
    'TIAGo, torso': ArmGroup(f'{_TIAGO}/tiago_no_hand.urdf', 'wrist_ft_tool_link'),
    'TIAGo, hand': ArmGroup(f'{_TIAGO}/tiago.urdf', 'hand_tool_link', 'torso_lift_link'),
    'TIAGo, left': ArmGroup(_DUAL, 'hand_left_tool_link', 'torso_lift_link'),
    'TIAGo, right': ArmGroup(_DUAL, 'hand_right_tool_link', 'torso_lift_link'),
    'TIAGo Pro, left': ArmGroup(_PRO, 'gripper_left_base_link', 'torso_lift_link'),
    'TIAGo Pro, right': ArmGroup(_PRO, 'gripper_right_base_link', 'torso_lift_link'),
    'PR2, left': ArmGroup(_PR2, 'l_gripper_tool_frame', 'torso_lift_link'),
    'PR2, right': ArmGroup(_PR2, 'r_gripper_tool_frame', 'torso_lift_link'),
    'Baxter, left': ArmGroup(_BAXTER, 'left_gripper', 'torso'),
    'Baxter, right': ArmGroup(_BAXTER, 'right_gripper', 'torso'),
    'TALOS, left': ArmGroup(
        f'{_TALOS}/talos_full_v2.urdf', 'gripper_left_base_link', 'torso_2_link'
    ),
    'TALOS, right': ArmGroup(
        f'{_TALOS}/talos_full_v2.urdf', 'gripper_right_base_link', 'torso_2_link'
    ),
    'TALOS, reduced, left': ArmGroup(
        f'{_TALOS}/talos_reduced.urdf', 'gripper_left_base_link', 'torso_2_link'
    ),
    'TALOS, one arm': ArmGroup(f'{_TALOS}/talos_left_arm.urdf', 'gripper_left_base_link'),
    'Romeo, left': ArmGroup(_ROMEO, 'l_gripper', 'torso'),
    'Romeo, right': ArmGroup(_ROMEO, 'r_gripper', 'torso'),
    'G1, left': ArmGroup(f'{_G1}/g1_29dof_rev_1_0.urdf', 'left_rubber_hand', 'torso_link'),
    'G1, right': ArmGroup(f'{_G1}/g1_29dof_rev_1_0.urdf', 'right_rubber_hand', 'torso_link'),
    'G1, waist and left': ArmGroup(f'{_G1}/g1_29dof_rev_1_0.urdf', 'left_rubber_hand'),
    'G1, hands, left': ArmGroup(
        f'{_G1}/g1_29dof_with_hand_rev_1_0.urdf', 'left_hand_palm_link', 'torso_link'
    ),
    'iCub, left': ArmGroup(f'{_ICUB}/icub.urdf', 'l_gripper', 'chest'),
    'iCub, right': ArmGroup(f'{_ICUB}/icub.urdf', 'r_gripper', 'chest'),
    'Alex, left': ArmGroup(f'{_ALEX}/alex_nub_hands.urdf', 'leftNub'),
    'Alex, right': ArmGroup(f'{_ALEX}/alex_nub_hands.urdf', 'rightNub'),
    'Centauro, left': ArmGroup('centauro_description/urdf/centauro.urdf', 'ball1_tip'),
    'Centauro, right': ArmGroup('centauro_description/urdf/centauro.urdf', 'ball2_tip'),
    'Simple humanoid, left': ArmGroup(
        'simple_humanoid_description/urdf/simple_humanoid.urdf', 'l_wrist'
    ),
    'Flying arm 5': ArmGroup(
        'hextilt_description/urdf/hextilt_flying_arm_5.urdf', 'flying_arm_5__gripper'
    ),
}

HANDS = {
    'Allegro, left': ArmGroup(
        'allegro_hand_description/urdf/allegro_left_hand.urdf', 'palm_link', chain=False
    ),
    'Allegro, right': ArmGroup(
        'allegro_hand_description/urdf/allegro_right_hand.urdf', 'palm_link', chain=False
    ),
    'Panda hand': ArmGroup(
        'panda_description/urdf/panda.urdf', 'panda_leftfinger', base='panda_link8'
    ),
    'SO-100 jaw': ArmGroup('so_arm_description/urdf/so100.urdf', 'jaw', base='gripper'),
    'G1 thumb': ArmGroup(
        f'{_G1}/g1_29dof_with_hand_rev_1_0.urdf', 'left_hand_thumb_2_link', 'left_hand_palm_link'
    ),
    'G1 index': ArmGroup(
        f'{_G1}/g1_29dof_with_hand_rev_1_0.urdf', 'left_hand_index_1_link', 'left_hand_palm_link'
    ),
    'TALOS gripper': ArmGroup(
        f'{_TALOS}/talos_full_v2.urdf', 'gripper_left_fingertip_1_link', 'gripper_left_base_link'
    ),
    'Romeo hand': ArmGroup(_ROMEO, 'LFinger13Link', 'l_wrist'),
}

#: Fixed at their root, all joints at once.
BODIES = {
    'G1': ArmGroup(f'{_G1}/g1_29dof_rev_1_0.urdf', 'pelvis', chain=False),
    'TALOS': ArmGroup(f'{_TALOS}/talos_full_v2.urdf', 'base_link', chain=False),
    'G1, hands': ArmGroup(f'{_G1}/g1_29dof_with_hand_rev_1_0.urdf', 'pelvis', chain=False),
}

#: Arms whose folder, as ``new_robot`` writes it, is run as nodes over DDS.
OVER_DDS = ('Panda', 'UR5', 'xArm 7', 'TIAGo', 'SO-101')
