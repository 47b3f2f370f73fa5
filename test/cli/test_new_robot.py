# SPDX-License-Identifier: Apache-2.0
"""The folder of a user's arm: every file is loaded by its reader."""

import math
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import yaml
from checkout import ROOT
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle
from samples import random_tree, world_files

from robot_dynamics_ros import __main__ as program
from robot_dynamics_ros.cli import new_robot, nodes
from robot_dynamics_ros.cli.arguments import arm_of, robot_of
from robot_dynamics_ros.cli.new_robot import described
from robot_dynamics_ros.constraints.feasibility import check_feasibility
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.control.drivers.driver_interface import (
    DriverInterface,
    effort_limits,
    robot_and_driver,
)
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.description.shipped import ROBOTS, share_directory, shipped_robot
from robot_dynamics_ros.errors import ConfigurationError, ModelError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.robot_parameters import robot_from_parameters
from robot_dynamics_ros.parameters import checked, defaults, require_known
from robot_dynamics_ros.recordings.output_folder import folder_name
from robot_dynamics_ros.ros.executables import declared_parameters
from robot_dynamics_ros.ros.gazebo_files import (
    bridge_entries,
    bridge_text,
    model_name,
    ros2_control_text,
)
from robot_dynamics_ros.ros.node_parameters import lockstep_parameters
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

ROBOTS_PAGE = ROOT / 'docs' / 'robots.md'
WORLD = {file.stem: str(file.locate()) for file in world_files()}
FRAME = 'panda_hand_tcp'


@pytest.fixture(scope='module')
def written(shared):
    """Return a folder that ``new_robot`` wrote for an arm with a gripper."""
    folder = shared.folder / "my arm's $HOME"
    shared('new_robot', WORLD['panda'], '--tip', FRAME, '--output', folder)
    return folder


@pytest.fixture(scope='module')
def tree(written):
    tree = load_robot(written / 'robot.urdf')
    assert tree.n == 7
    return tree


@pytest.mark.slow
def test_every_node_takes_its_parameters(written, tree):
    nodes = read_yaml(written / 'parameters.yaml', 'parameter file')
    assert set(nodes) == set(read_yaml(share_directory() / 'config/scara.yaml', 'parameter file'))
    for key, section in nodes.items():
        given = {k: x for k, x in section['ros__parameters'].items() if k != 'use_sim_time'}
        declared = declared_parameters(key.removeprefix('/**/'))
        require_known(declared, given, f'parameter of {key}')
        assert checked(declared, given) == given
        frames = {'payload_frame', 'target_frame', 'tool_frame'} & {one.name for one in declared}
        assert {given.get(name) for name in frames} <= {FRAME}
        if 'robot' in given:
            assert load_robot(given['robot']).joint_names == tree.joint_names
    assert described(str(written / 'parameters.yaml')).parent == written


@pytest.mark.slow
def test_a_controller_started_by_its_command_watches_the_locked_joints():
    """The node gets a generated file, in whose text the locked joints are fixed ones."""
    found = {}
    for given in ('', '--locked joint2:=-0.7', '--locked joint2:=measured'):
        words = f'--robot four_dof --joints joint1,joint3,joint4 {given}'.split()
        file = new_robot.parameter_file(program._command('control').parse(words))
        section = read_yaml(file, 'parameter file')['/**/controller']
        values = defaults(declared_parameters('controller')) | section['ros__parameters']
        session = ControllerSession(robot_and_driver(values)[0], values)
        assert session.locked.names == ('joint2',)
        found[given] = session.locked.modelled['joint2'], list(session.locked.taken)
    usual, *others = found.values()
    assert usual == (session.tree.locked['joint2'], [])
    assert [others[0], others[1][1]] == [(-0.7, []), ['joint2']]


@pytest.mark.slow
def test_the_driver_profile_is_the_model_in_si_units(written, tree):
    profile = load_driver_profile(written / 'driver.yaml')
    assert [joint.name for joint in profile.joints] == list(tree.joint_names)
    assert list(effort_limits(profile).values()) == tree.effort_limit.tolist()
    driver, numbers = DriverInterface(profile, tree), np.arange(1.0, tree.n + 1.0)
    for convert in (driver.position, driver.velocity, driver.measured_effort):
        assert_array_equal(convert(numbers), numbers)
    driver.write(numbers)
    assert_array_equal(driver.command, numbers)
    control = (written / 'ros2_control.yaml').read_text('utf-8')
    assert control == ros2_control_text(tree)
    bridge = (written / 'ros_gz_bridge.yaml').read_text('utf-8')
    assert f'/model/{model_name(tree)}/joint_state' in bridge


@pytest.mark.slow
def test_the_program_leads_the_tool_on_a_plane_that_swings(written, tree):
    """Every configuration of the path is on the plane of the file, says Pinocchio."""
    file = written / 'program.yaml'
    path = check_feasibility(load_program(file, tree))
    assert path.remarks == ()
    (plane,) = yaml.safe_load(file.read_text('utf-8'))['constraints']
    origin, normal = (np.array(plane['plane'][key]) for key in ('origin', 'z'))
    wave = plane['distance']['lissajous']
    assert wave['amplitude'] > 0.01
    oracle = PinocchioOracle.of(tree)
    settled = path.times > 3.0  # start 1 s, ramp 1 s: phase 0 is when the ramp is half through
    for t, q in zip(path.times[settled], path.q[settled], strict=True):
        height = (oracle.frame_pose(FRAME, q)[1] - origin) @ normal
        asked = wave['amplitude'] * math.sin(2.0 * math.pi * wave['frequency'] * (t - 1.5))
        assert height == pytest.approx(asked, abs=1e-7)  # solved to 1e-8 m


@pytest.mark.slow
def test_every_command_of_the_readme_is_understood(written):
    readme = (written / 'README.md').read_text('utf-8')
    timeout = f'-p state_timeout_s:={lockstep_parameters()["state_timeout_s"]}'
    assert timeout in readme
    assert 'gazebo.launch.py' in readme
    assert timeout in ROBOTS_PAGE.read_text('utf-8')
    lines = [shlex.split(line) for line in readme.splitlines() if line.startswith('    ')]
    named = {Path(word.rpartition(':=')[2]) for words in lines for word in words}
    files = 'robot.urdf', 'parameters.yaml', 'program.yaml', 'driver.yaml'
    assert named >= {written / name for name in files}
    commands = [words[3:] for words in lines if words[:2] == ['python', '-m']]
    expected = {'check_model', 'demo', 'simulate', 'view', 'record', 'analyze', 'commission'}
    assert {words[0] for words in commands} >= expected
    for name, *given in commands:
        program._command(name).parse(given)
    for file in written.glob('*.yaml'):
        text = file.read_text('utf-8')
        assert not re.search(r'[1-9]\d{13}', text), 'no rounding of computations'


ON_A_WALL = """<robot name="on_a_wall" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:arg name="reach" default="0.3"/>
  <xacro:macro name="arm" params="name parent at axis effort">
    <joint name="${name}" type="revolute"><parent link="${parent}"/><child link="${name}_link"/>
      <origin xyz="${at} 0 0"/><axis xyz="${axis}"/>
      <limit lower="-2" upper="2" velocity="2" effort="${effort}"/></joint>
    <link name="${name}_link"><inertial><origin xyz="0.15 0 0"/><mass value="1.5"/>
      <inertia ixx="0.003" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.02"/></inertial>
      <collision><origin xyz="0.15 0 0"/><geometry><box size="0.2 0.04 0.04"/></geometry>
      </collision></link>
  </xacro:macro>
  <link name="plate"/>
  <xacro:arm name="a" parent="plate" at="0.2" axis="0 0 1" effort="90"/>
  <xacro:arm name="b" parent="a_link" at="$(arg reach)" axis="0 1 0" effort="0"/>
  <xacro:arm name="c" parent="b_link" at="0.3" axis="0 1 0" effort="70"/>
  <xacro:arm name="jaw" parent="c_link" at="0.3" axis="0 1 0" effort="5"/>
  <joint name="mount" type="fixed"><parent link="c_link"/><child link="probe"/>
    <origin xyz="0.3 0 0.05"/></joint>
  <link name="probe"/>
</robot>"""

#: Every option of new_robot that plans, as words.
CHOSEN = yaml.safe_load("""
mapping: reach:=0.35
--joints: --joints a,b,c
--base: ''  # with --tip, an alternative to --joints
--tip: ''
--locked: --locked jaw:=0.4
--mimic: --mimic lock
--loops: ''  # instead of a choice of joints; see test_loops
--gravity: --gravity -9.81 0 -0.00002
--effort-limit: --effort-limit 80
--frame: --frame probe
--box: --box 0.1 1.5 0 0.4 0.4 0.4
--ground-below: --ground-below 0.25
--package: ''  # only finds files; the description of the folder is expanded
""")


@pytest.mark.slow
def test_every_option_reaches_every_node_and_every_command_of_the_readme(tmp_path, command):
    """An option that plans and is then forgotten commands the model of another arm."""
    options = new_robot.COMMANDS['new_robot'].options
    in_the_description = {'--estimate-inertia', '--estimate-mass'}  # as links with masses
    known = {'robot', '--output', '--force', *in_the_description, *CHOSEN}
    assert {key.split()[0] for key in options} == known
    file = tmp_path / 'arm.urdf.xacro'
    file.write_text(ON_A_WALL)
    folder = command('new_robot', file, *' '.join(CHOSEN.values()).split()).folder
    chosen = {'joints': ['a', 'b', 'c'], 'locked': {'jaw': 0.4}, 'effort_limit': {'b': 80.0}}
    expected = load_robot(file, (-9.81, 0.0, -2e-5), mappings={'reach': '0.35'}, **chosen)

    def require_the_same(tree):
        assert tree.joint_names == expected.joint_names
        for name in ('gravity', 'effort_limit', 'mass', 'com', 'inertia', 'p_PJ'):
            assert_allclose(getattr(tree, name), getattr(expected, name), atol=1e-12)

    nodes = read_yaml(folder / 'parameters.yaml', 'parameter file')
    sections = {key.removeprefix('/**/'): x['ros__parameters'] for key, x in nodes.items()}
    for name in sections.keys() - {'recorder'}:  # which needs no robot
        declared = defaults(declared_parameters(name))
        require_the_same(robot_from_parameters(declared | sections[name]))
    motion = sections['trajectory']
    planned = motion['tool_frame'], motion['boxes'], motion['ground_below']
    assert planned == ('probe', [0.1, 1.5, 0.0, 0.4, 0.4, 0.4], 0.25)
    lines = (folder / 'README.md').read_text('utf-8').splitlines()
    commands = (shlex.split(line)[3:] for line in lines if line.startswith('    python -m'))
    runs, seen = {'check_model', 'demo', 'design_gains', 'commission'}, {}
    for name, *given in commands:
        if name in runs:
            seen[name] = program._command(name).parse(given)
            require_the_same(robot_of(seen[name]))
    assert seen.keys() == runs
    assert seen['demo'].frame == 'probe'
    around = new_robot.obstacles_of(seen['demo'])
    assert (around.numbers, around.ground_below) == planned[1:]


@pytest.mark.slow
@pytest.mark.parametrize('names', ['a,b,c,jaw', 'b,c,jaw'])
def test_a_gripper_that_was_chosen_moves_by_the_readme(names, command):
    arm = ON_A_WALL.replace('effort="5"', 'effort="30"')
    new = command(f'new_robot --effort-limit 80 --joints {names}', arm)
    (line,) = (x for x in new.text('README.md').splitlines() if ' demo ' in x)
    given = program._command('demo').parse(shlex.split(line)[4:])
    assert arm_of(given).joint_names == tuple(names.split(','))


@pytest.mark.slow
def test_links_that_are_not_checked_are_said_in_readme_and_output(command):
    """As with a public arm whose meshes are in a package that is not installed."""
    text = Path(WORLD['ur5_robot']).read_text('utf-8')
    file = command.word(text.replace('package://example-robot-data', 'package://nowhere'))
    new = command('new_robot', file)
    (line,) = (x for x in new.out.splitlines() if 'NOT CHECKED FOR' in x)
    readme = new.text('README.md')
    assert f'Remark: {line.removeprefix("remark: ")}' in readme.splitlines()
    assert 'free of collisions' not in readme
    args = nodes.COMMANDS['simulate'].parse(['--robot', file])
    assert new_robot.planned_arm(args).remarks == (line.removeprefix('remark: '),)


@pytest.mark.parametrize(
    ('words', 'option'), [('demo', '--gravity 0 0 0'), ('scene circle', '--tip tool')]
)
def test_options_of_one_arm_are_refused_for_several(words, option, command):
    refused = command(f'{words} {option}', code=2)
    assert f'{option.split()[0]}: has no effect on the shipped' in refused.err


@pytest.mark.parametrize(
    'option', ['', '--gravity 0 0 -1.62', '--ground-below 0.3', '--mimic lock']
)
def test_a_shipped_arm_with_an_option_is_planned_again(option):
    """Every option, also one that is not about its joints."""
    args = nodes.COMMANDS['simulate'].parse(['--robot', 'scara', *option.split()])
    assert (new_robot.shipped_parameters(args) is None) == bool(option)


def test_a_robot_without_a_name_is_refused_before_anything_is_written(tmp_path):
    nameless = load_robot(shipped_robot('four_dof')).with_changes(name='')
    with pytest.raises(ModelError, match='^<robot>: has no name; give it a name attribute'):
        new_robot.write_robot_folder(nameless, tmp_path / 'arm')
    assert not (tmp_path / 'arm').exists()


def test_the_folder_of_a_robot_is_inside_of_the_one_that_was_given():
    given = '../x', '/etc/x', 'acme/arm', '..', 'Arm 2-ä', 'scara'
    folders = ['_x', '_etc_x', 'acme_arm', 'robot', 'Arm 2-ä', 'scara']
    assert [folder_name(name) for name in given] == folders


@pytest.mark.slow
def test_a_launch_finds_the_folder_of_a_description():
    planned = described(str(shipped_robot('scara')))  # once, then it is cached
    assert load_robot(planned.with_name('robot.urdf')).n == 4
    for other in ('driver.yaml', 'gone.yaml'):
        with pytest.raises(ConfigurationError, match='^description .* is not a parameter file wi'):
            described(str(planned.with_name(other)))


def test_the_controllers_of_shipped_arms_are_written_by_the_same_function():
    for robot in ROBOTS:
        file = share_directory() / 'config' / f'{robot}_ros2_control.yaml'
        assert file.read_text('utf-8') == ros2_control_text(load_robot(shipped_robot(robot)))


def test_names_that_yaml_would_read_otherwise_stay_names():
    robot = random_tree(np.random.default_rng(3), 3)
    xml, names = robot.xml, ['on', '1', 'left: [a']
    for old, new in zip(robot.tree.joint_names, names, strict=True):
        xml = xml.replace(f'name="{old}"', f'name="{new}"')
    tree = load_robot(xml, effort_limit=1.0)
    entries = yaml.safe_load(bridge_text(bridge_entries(tree.joint_names, 'arm')))
    topics = [entry['ros_topic_name'] for entry in entries[2:]]
    assert sorted(topics) == ['_1/cmd_force', 'left___a/cmd_force', 'on/cmd_force']  # as ROS takes
    control = yaml.safe_load(ros2_control_text(tree))
    assert sorted(control['/**/effort_controller']['ros__parameters']['joints']) == sorted(names)
