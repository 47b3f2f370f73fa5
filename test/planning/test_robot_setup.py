# SPDX-License-Identifier: Apache-2.0
"""The planned setup of a robot: what is named, its gains, its parameters."""

import numpy as np
import pytest
from oracles import PinocchioOracle
from samples import sample, serial_arms, world_files

from robot_dynamics_ros.cli import new_robot
from robot_dynamics_ros.cli.arguments import robot_of
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.description.shipped import PACKAGE, robot_file, share_directory
from robot_dynamics_ros.errors import (
    ConfigurationError,
    DescriptionError,
    ModelError,
    ParameterError,
    UnknownNameError,
)
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.planning import postures
from robot_dynamics_ros.planning.default_motion import default_motion
from robot_dynamics_ros.planning.robot_setup import natural_frequencies

PANDA = next((file.locate() for file in world_files() if file.name == 'panda.urdf'), None)
GIVEN = {'robot': '', 'robot_description': '', 'gravity': [0.0, 0.0, -9.81]}


def parsed(*words):
    return new_robot.COMMANDS['new_robot'].parse([str(word) for word in words])


def test_a_robot_is_named_by_a_shipped_name_a_file_or_a_package(monkeypatch, tmp_path):
    shipped = share_directory() / 'urdf' / 'scara.urdf.xacro'
    assert robot_file('scara') == shipped
    assert robot_file(shipped) == str(shipped)
    assert robot_file(f'package://{PACKAGE}/urdf/scara.urdf.xacro') == shipped
    arm = tmp_path / 'share' / 'my_arm' / 'urdf' / 'arm.urdf'
    arm.parent.mkdir(parents=True)
    arm.write_text(sample('rrpr').xml)
    monkeypatch.setenv('AMENT_PREFIX_PATH', f'/nowhere:{tmp_path}')
    assert robot_file('package://my_arm/urdf/arm.urdf') == arm
    with pytest.raises(DescriptionError, match="package 'your_arm': not found"):
        robot_file('package://your_arm/arm.urdf')
    monkeypatch.chdir(tmp_path)
    for name in ('scara', 'four_bar'):
        (tmp_path / name).mkdir()  # as new_robot --out writes it
        assert robot_file(name).stem == f'{name}.urdf'


# ---- posture and motion -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_posture_that_no_drive_can_hold_is_refused_with_joint_and_figure(monkeypatch):
    monkeypatch.setattr(postures, '_ROUNDS', 1)
    tree = serial_arms()['ur5_robot'].tree.with_changes(effort_limit=np.full(6, 0.5))
    with pytest.raises(ModelError, match=r"joint '.*': gravity alone takes \d+% of its effort"):
        next(postures.comfortable_postures(tree, 'tool0'))


def test_an_arm_that_moves_its_tool_along_a_line_only_is_refused():
    with pytest.raises(ModelError, match='moves along a line only'):
        default_motion(load_robot(PANDA, joints=['panda_finger_joint1']), 'panda_leftfinger')


@pytest.mark.parametrize('gravity', [(0.0, 0.0, 0.0), (0.0, -9.81, 0.0)])
def test_gains_are_what_drives_and_rate_allow(gravity):
    """Of inertia J: w = 5, 0.02 w^2 J = (limit - gravity at home) / 2; w <= 2.5 at 100 Hz."""
    tree = load_robot(sample('planar_2r').xml, gravity, joints=['joint1'])
    oracle, home = PinocchioOracle(tree.xml, gravity, ['joint1']), np.zeros(1)
    inertia, weight = oracle.mass_matrix(home)[0, 0], np.abs(oracle.gravity_forces(home))
    weak = tree.with_changes(effort_limit=weight + 0.02 * 5.0**2 * inertia / 0.5)
    assert natural_frequencies(weak, home, 1e-3)[0] == pytest.approx(5.0, rel=1e-12)
    strong = tree.with_changes(effort_limit=weight + 1e3)
    assert natural_frequencies(strong, home, 1e-3)[0] == 12.0
    assert natural_frequencies(strong, home, 1e-2)[0] == pytest.approx(2.5)


@pytest.mark.slow
def test_the_parameters_of_a_robot_are_its_own_or_planned_once():
    shipped = new_robot.parameter_file(parsed('scara'))
    assert shipped == share_directory() / 'config' / 'scara.yaml'
    words = [PANDA, '--joints', 'panda_joint1,panda_joint2,panda_joint4']
    planned = new_robot.parameter_file(parsed(*words, '--frame', 'panda_hand'))
    written = planned.stat().st_mtime_ns
    again = new_robot.parameter_file(parsed(*words, '--frame', 'panda_hand'))
    assert (again, again.stat().st_mtime_ns) == (planned, written)
    other = new_robot.parameter_file(parsed(*words, '--frame', 'panda_link6'))
    assert other != planned
    with pytest.raises(UnknownNameError, match="unknown robot 'puma'"):
        new_robot.parameter_file(parsed('puma'))


def test_the_robot_of_a_command_line_has_its_chain_and_limits(capsys):
    chain = robot_of(parsed(PANDA, '--base', 'panda_link2', '--tip', 'panda_link4'))
    assert chain.joint_names == ('panda_joint3', 'panda_joint4')
    with pytest.raises(ConfigurationError, match="locked joint 'a', rad, m or measured: is 'up'"):
        robot_of(parsed(PANDA, '--locked', 'a:=up'))
    weak = sample('four_dof').xml.replace('effort="35"', 'effort="0"')
    for arm, told in (('scara', True), (weak, False)):
        robot_of(parsed(arm, '--effort-limit', 77), effort_limit=77.0)
        assert ('--effort-limit has no effect' in capsys.readouterr().err) is told


WRIST = """<robot name="wrist"><link name="base"/>
<link name="forearm"><inertial><mass value="0.1"/><inertia ixx="1e-4" iyy="1e-4" izz="1e-4"
 ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="hand"><inertial><origin xyz="0 0 0.2"/><mass value="1"/><inertia ixx="1e-5" iyy="1e-5"
 izz="1e-5" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="roll" type="revolute"><parent link="base"/><child link="forearm"/><axis xyz="0 0 1"/>
<limit lower="-3" upper="3" effort="50" velocity="2"/></joint>
<joint name="pitch" type="revolute"><parent link="forearm"/><child link="hand"/><axis xyz="0 1 0"/>
<limit lower="-2" upper="2" effort="50" velocity="2"/></joint></robot>"""


def test_gains_are_accepted_by_pd_of_a_wrist_that_bears_little_when_straight():
    """Roll carries 400 times as much inertia with the hand bent by 90 degrees as straight."""
    tree, home = load_robot(WRIST), np.array([0.0, np.pi / 2])
    given = {'home': home.tolist(), 'period': 1e-3, 'discretization': 'semi_implicit'}
    with pytest.raises(ParameterError, match='unstable'):
        make_law('pd_gravity', tree, natural_frequency=12.0, **given)
    gains = natural_frequencies(tree, home, 1e-3)
    assert 1.0 < gains.min() < 4.0
    make_law('pd_gravity', tree, natural_frequency=gains.tolist(), **given)
