# SPDX-License-Identifier: Apache-2.0
"""The parameters that ``identify`` wrote: a robot is loaded with all of them, or told why not."""

import math

import pytest
import tables
import yaml
from samples import sample

from robot_dynamics_ros.control.setup import PARAMETERS
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import load_arm, load_robot
from robot_dynamics_ros.model.robot_parameters import robot_from_parameters
from robot_dynamics_ros.parameters import defaults

XML, NAMES = sample('four_dof').xml, ('joint1', 'joint2', 'joint3', 'joint4')
TERMS = {'damping': 0.7, 'coulomb_friction': 0.2, 'armature': 0.3, 'stribeck_velocity': 0.1}
DRIVE = {'offset': [0.4, 0.0, -0.3, 0.0], 'cubic_friction': [0.0, 0.0, 0.2, 0.1]}
DATA = yaml.safe_load("""
gravity: [0, 0, -9.81]
links:
  link2:
    mass: 7.25
    origin: {xyz: [0.0, 0.0, 0.1], rpy: [0.0, 0.0, 0.0]}
    inertia: {ixx: 0.2, ixy: 0.0, ixz: 0.0, iyy: 0.2, iyz: 0.0, izz: 0.2}
joints:  # files of version 0.2 have no recorded speed
  joint1: {offset: 0.4, cubic_friction: 0.0, recorded_speed: 0.5}
  joint2: {offset: 0.0, cubic_friction: 0.0}
  joint3: {offset: -0.3, cubic_friction: 0.2, recorded_speed: 2.0}
  joint4: {offset: 0.0, cubic_friction: 0.1}
""")
DATA['joints'] = {name: TERMS | given for name, given in DATA['joints'].items()}


def write(folder, **changes):
    """Write a file of identify for the four-joint arm; return its path."""
    file = folder / 'parameters.yaml'
    file.write_text(yaml.safe_dump(DATA | changes))
    return file


def test_a_robot_is_loaded_with_all_that_was_identified(tmp_path):
    file = write(tmp_path)
    values = defaults(PARAMETERS) | {'robot': 'four_dof', 'identified': str(file)}
    found = load_robot(XML, effort_limit=9.0, identified=file)
    for tree in (found, robot_from_parameters(values)):
        assert tree.joint_names == NAMES
        assert (tree.mass[1], tree.damping[3], tree.armature[0]) == (7.25, 0.7, 0.3)
        assert {key: tree.drive_friction[key].tolist() for key in DRIVE} == DRIVE
        assert tree.drive_friction['recorded_speed'].tolist() == [0.5, math.inf, 2.0, math.inf]
    assert not any('gravity' in remark for remark in found.remarks)
    tilted = load_robot(found.xml, (3.0, 0, -9.3), identified=file)
    assert any('identified under another gravity' in remark for remark in tilted.remarks)
    assert robot_from_parameters(values | {'identified': ''}).drive_friction == {}


THREE = dict.fromkeys(NAMES[:3], TERMS)


@tables.written("""
{joints: {}}                                | 'joint1', which was not ... another robot
{joints: {joint1: {damping: 0.0}}}          | coulomb_friction
{effort_unit: A}                            | in A
{gravity: [0, 0, .nan]}                     | finite
{gravity: [0, 0, '.nan']}                   | is '.nan'; give a finite number
{links: {link9: {}}}                        | origin
{locked: {finger: 0.0}}                     | another robot: it locks joint 'finger'
{joints: [joint1, joint2, joint3]}          | 'joint4', which was not ... another robot
""")
def test_a_file_that_is_wrong_or_of_another_robot_is_refused_by_name(tmp_path, given, said):
    if isinstance(given.get('joints'), list):
        given = {'joints': dict.fromkeys(given['joints'], TERMS)}
    with pytest.raises(ConfigurationError, match=rf'parameters\.yaml.*{said[4:]}'):
        load_robot(XML, identified=write(tmp_path, **given))
    with pytest.raises(ConfigurationError, match='another robot'):
        load_robot(sample('planar_2r').xml, identified=write(tmp_path))


def test_the_joints_that_were_locked_are_locked_again(tmp_path):
    file = write(tmp_path, joints=THREE, locked={'joint4': 0.3})
    for load, options in ((load_robot, {}), (load_arm, {}), (load_robot, {'tip': 'link4'})):
        found = load(XML, identified=file, **options)
        assert (found.joint_names, found.locked) == (NAMES[:3], {'joint4': 0.3})
        assert any(f'locked as in {file}: joint4 at 0.3' in text for text in found.remarks)
    given = load_robot(XML, locked={'joint4': 0.1}, identified=file)
    assert given.locked == {'joint4': 0.1}, 'a given position precedes that of the file'
    with pytest.raises(ConfigurationError, match="'joint4', which was locked"):
        load_robot(XML, joints=NAMES, identified=file)
