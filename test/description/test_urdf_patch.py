# SPDX-License-Identifier: Apache-2.0
"""URDF text with new inertias and joint dynamics: everything else is unchanged."""

import pytest

from robot_dynamics_ros.description.urdf import Inertial, Pose, parse_urdf
from robot_dynamics_ros.description.urdf_patch import JointDynamics, patch_urdf
from robot_dynamics_ros.errors import DescriptionError, UnknownNameError

TEXT = """<?xml version="1.0"?>
<!-- größe: a comment with <inertial> in it -->
<robot name="r">
  <link name="base"/>
  <link name="arm">
    <visual><geometry><box size="1 1 1"/></geometry></visual>
    <inertial>
      <mass value="2"/>  <!-- kg -->
      <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>
    </inertial>
  </link>
  <link name="hand"/>
  <joint name="shoulder" type="revolute">
    <parent link="base"/><child link="arm"/>
    <dynamics damping="1" friction="2"/></joint>
  <joint name="wrist" type="fixed"><parent link="arm"/><child link="hand"/></joint>
  <transmission name="arm"><joint name="shoulder"/></transmission>
</robot>
"""
NEW = Inertial(1.5, Pose((0.1, -0.2, 1 / 3)), 0.4, 0.01, -0.02, 0.5, 0.03, 0.6)


def test_the_inertial_of_a_link_and_the_dynamics_of_a_joint_are_replaced_and_nothing_else():
    patched = patch_urdf(TEXT, {'arm': NEW}, {'shoulder': JointDynamics(0.1, 1 / 3, 0.02)})
    found = parse_urdf(patched)
    assert found.links[1].inertial == NEW  # every bit of every number
    joint = found.joints[0]
    assert (joint.damping, joint.friction, joint.armature) == (0.1, 1 / 3, 0.02)
    head, _, between = TEXT.partition('    <inertial>\n')
    between, _, tail = between.partition('</inertial>')[2].partition('<dynamics damping="1" ')
    start, rest = patched[: len(head)], patched[len(head) :]
    assert start == head
    assert between in rest
    assert rest.endswith(tail.partition('/>')[2])


def test_many_changes_at_once_keep_their_places_and_what_was_not_there_is_added():
    assert patch_urdf(TEXT, {}, {}) == TEXT
    changes = {'arm': NEW, 'hand': NEW, 'base': NEW}
    dynamics = {'shoulder': JointDynamics(1.0, 2.0, 3.0), 'wrist': JointDynamics(1.0, 2.0)}
    description = parse_urdf(patch_urdf(TEXT, changes, dynamics))
    assert [link.inertial for link in description.links] == [NEW, NEW, NEW]
    drives = [(x.damping, x.friction, x.armature) for x in description.joints]
    assert drives == [(1.0, 2.0, 3.0), (1.0, 2.0, 0.0)]
    assert description.xml.count('armature') == 1
    assert '<!-- größe: a comment with <inertial> in it -->' in description.xml


def test_unknown_names_are_refused_with_those_that_exist():
    with pytest.raises(UnknownNameError, match="unknown link 'leg'; known: arm, base, hand"):
        patch_urdf(TEXT, {'leg': NEW}, {})
    with pytest.raises(UnknownNameError, match='known: shoulder, wrist'):
        patch_urdf(TEXT, {}, {'knee': JointDynamics(0.0, 0.0)})


def test_text_that_is_no_xml_is_refused():
    with pytest.raises(DescriptionError, match='malformed XML'):
        patch_urdf(TEXT[:200], {}, {})
