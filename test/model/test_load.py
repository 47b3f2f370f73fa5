# SPDX-License-Identifier: Apache-2.0
"""From a file to a tree: order, defaults, and the shipped robots.

Lumping, axes and tensors: ``dynamics/test_identities``, ``test_kinematics``.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from recorded_bags import NOMINAL
from samples import sample
from urdf_text import joint, link, robot

from robot_dynamics_ros.description.shipped import ROBOTS, shipped_robot
from robot_dynamics_ros.errors import DescriptionError, UnknownNameError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.build import exact_angle
from robot_dynamics_ros.recordings.reading import read_recording

I = np.diag([0.02, 0.03, 0.04])


def test_what_the_file_leaves_out_is_the_default_of_the_format():
    text = (
        '<robot name="r"><link name="base"/><link name="arm"><inertial><mass value="1"/>'
        '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>'
        '<joint name="j" type="revolute"><parent link="base"/><child link="arm"/>'
        '<limit upper="1" effort="2"/></joint></robot>'
    )
    tree = load_robot(text)
    expected = {
        'axis': [[1, 0, 0]],
        'p_PJ': [[0, 0, 0]],
        'R_PJ': [np.eye(3)],
        'position_lower': [0.0],
        'velocity_limit': [np.inf],
        'gravity': [0.0, 0.0, -9.81],
        **dict.fromkeys(('damping', 'coulomb_friction', 'armature'), [0.0]),
    }
    for name, value in expected.items():
        assert_array_equal(getattr(tree, name), value)


def test_an_axis_is_scaled_to_length_one():
    text = robot('r', link('b'), link('a', 1.0, inertia=I), joint('j', 'b', 'a', axis=(0, 3, 4)))
    assert np.allclose(load_robot(text).axis, [[0, 0.6, 0.8]], atol=1e-16)


def test_an_angle_that_is_written_as_a_quarter_turn_is_one():
    for quarters, written in ((1, (1.57, 1.5708, 1.5707, 1.5707963267)), (2, (3.14, 3.14158))):
        assert {exact_angle(sign * x) * sign for x in written for sign in (1, -1)} == {
            quarters * np.pi / 2
        }
    for angle in (1.5712, 1.58, 1.6, 0.1, -0.3, 1.0, 2.0, 3.0, 0.01, 3e-4, 0.7854):
        assert exact_angle(angle) == angle


def test_a_home_folder_is_understood(tmp_path, monkeypatch):
    """As in parameters, where no shell expands it."""
    monkeypatch.setenv('HOME', str(tmp_path))
    (tmp_path / 'arm.urdf').write_text(sample('scara').xml)
    assert load_robot('~/arm.urdf').n == 4


# ---- shipped robots -----------------------------------------------------------------------------


def test_the_scara_is_that_of_the_recording_of_gazebo():
    """Which its motion proves (``recordings/test_analysis``); names and friction differ."""
    recorded, tree = load_robot(read_recording(NOMINAL).description), sample('scara').tree
    for name in ('mass', 'com', 'inertia', 'axis', 'p_PJ', 'R_PJ'):
        assert_allclose(getattr(tree, name), getattr(recorded, name), atol=1e-15)


def test_the_limits_profile_of_the_four_joint_arm_can_be_chosen():
    paper, wide = (
        load_robot(shipped_robot('four_dof'), mappings={'limits_profile': profile})
        for profile in ('paper', 'wide')
    )
    assert_allclose(paper.position_upper[1:], [-np.pi / 4, np.pi / 6, np.pi / 2])
    assert_allclose(wide.position_lower[1:], [-np.pi, -3 * np.pi / 4, -np.pi / 2])
    with pytest.raises(DescriptionError, match='xacro file four_dof.urdf.xacro'):
        load_robot(shipped_robot('four_dof'), mappings={'limits_profile': 'huge'})


@pytest.mark.parametrize('name', ROBOTS)
def test_a_prefix_renames_all_links_and_joints(name):
    tree = load_robot(shipped_robot(name), mappings={'prefix': 7})
    assert all(word.startswith('7') for word in (*tree.joint_names, *tree.frames))


def test_an_unknown_robot_or_frame_is_refused_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="unknown frame 'j3'; known: base_link, link1"):
        sample('scara').tree.frame('j3')
    with pytest.raises(UnknownNameError, match="unknown robot 'puma'; known: .*scara"):
        shipped_robot('puma')
