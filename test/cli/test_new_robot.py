# SPDX-License-Identifier: Apache-2.0
"""The folder of a user's arm: every file is loaded by its reader."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import yaml
from checkout import ROOT
from oracles import PinocchioOracle
from samples import random_tree, world_files

from robot_dynamics_ros import __main__ as program
from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.cli import new_robot, nodes
from robot_dynamics_ros.cli.arguments import robot_of
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
from robot_dynamics_ros.description.shipped import share_directory, shipped_robot
from robot_dynamics_ros.errors import ConfigurationError, ModelError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.robot_parameters import robot_from_parameters
from robot_dynamics_ros.parameters import checked, defaults, require_known
from robot_dynamics_ros.planning.robot_setup import natural_frequencies
from robot_dynamics_ros.recordings.output_folder import folder_name
from robot_dynamics_ros.ros.executables import declared_parameters
from robot_dynamics_ros.ros.gazebo_files import (
    bridge_entries,
    bridge_text,
    gazebo_description,
    model_name,
    ros2_control_text,
)
from robot_dynamics_ros.ros.node_parameters import lockstep_parameters
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

ROBOTS_PAGE = ROOT / 'docs' / 'robots.md'
WORLD = {file.stem: str(file.locate()) for file in world_files()}
ARMS = {
    'panda': ([WORLD.get('panda', ''), '--tip', 'panda_hand_tcp'], 'panda_hand_tcp', 7),
    'ur5_robot': ([WORLD.get('ur5_robot', '')], 'tool0', 6),
    'scara': (['scara'], 'tool', 4),
}


class Written:
    """A folder that ``new_robot`` wrote, and the robot in it."""

    def __init__(self, folder: Path, frame: str) -> None:
        self.folder, self.frame = folder, frame
        self.tree = load_robot(folder / 'robot.urdf')


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ARMS if name != 'scara']


@pytest.fixture(scope='module', params=['scara', *SLOW])
def written(request, shared):
    words, frame, n = ARMS[request.param]
    folder = shared.folder / "my arm's $HOME" / request.param
    shared('new_robot', *words, '--out', folder)
    found = Written(folder, frame)
    assert found.tree.n == n
    return found


@pytest.mark.slow
def test_every_node_takes_its_parameters(written):
    nodes = read_yaml(written.folder / 'parameters.yaml', 'parameter file')
    assert set(nodes) == set(read_yaml(share_directory() / 'config/scara.yaml', 'parameter file'))
    for key, section in nodes.items():
        given = {k: x for k, x in section['ros__parameters'].items() if k != 'use_sim_time'}
        declared = declared_parameters(key.removeprefix('/**/'))
        require_known(declared, given, f'parameter of {key}')
        assert checked(declared, given) == given
        frames = {'payload_frame', 'target_frame', 'tool_frame'} & {one.name for one in declared}
        assert {given.get(name) for name in frames} <= {written.frame}
        if 'robot' in given:
            assert load_robot(given['robot']).joint_names == written.tree.joint_names
    controller = nodes['/**/controller']['ros__parameters']
    gains = natural_frequencies(written.tree, np.array(controller['home']), 1e-3)
    np.testing.assert_allclose(controller['natural_frequency'], gains, rtol=0, atol=1e-3)


@pytest.mark.slow
def test_a_controller_started_by_its_command_watches_the_locked_joints(tmp_path):
    """The node gets a generated file, in whose text the locked joints are fixed ones."""
    words = ['--robot', 'four_dof', '--joints', 'joint1,joint3,joint4']
    for more, stands in ([], 0.0), (['--locked', 'joint2:=-0.7'], -0.7):
        session = _commanded([*words, *more])
        assert session.locked.names == ('joint2',)
        assert session.locked.modelled == {'joint2': stands or session.tree.locked['joint2']}
        assert not session.locked.taken
    assert list(_commanded([*words, '--locked', 'joint2:=measured']).locked.taken) == ['joint2']


def _commanded(words: list[str]) -> ControllerSession:
    """Return the session of the node that ``control`` would start."""
    args = program._command('control').parse(words)
    section = read_yaml(new_robot.parameter_file(args), 'parameter file')['/**/controller']
    given = defaults(declared_parameters('controller')) | section['ros__parameters']
    return ControllerSession(robot_and_driver(given)[0], given)


@pytest.mark.slow
def test_the_driver_profile_is_the_model_in_si_units(written):
    profile, tree = load_driver_profile(written.folder / 'driver.yaml'), written.tree
    assert [joint.name for joint in profile.joints] == list(tree.joint_names)
    assert list(effort_limits(profile).values()) == tree.effort_limit.tolist()
    driver, numbers = DriverInterface(profile, tree), np.arange(1.0, tree.n + 1.0)
    for convert in (driver.position, driver.velocity, driver.measured_effort):
        np.testing.assert_array_equal(convert(numbers), numbers)
    driver.write(numbers)
    np.testing.assert_array_equal(driver.command, numbers)


@pytest.mark.slow
def test_the_program_leads_the_tool_on_a_plane_that_swings(written):
    """Every configuration of the path is on the plane of the file, says Pinocchio."""
    file, tree = written.folder / 'program.yaml', written.tree
    path = check_feasibility(load_program(file, tree))
    assert path.remarks == ()
    content = yaml.safe_load(file.read_text('utf-8'))
    assert list(content['null_space']['posture']) == list(tree.joint_names)
    (plane,) = content['constraints']
    origin, normal = (np.array(plane['plane'][key]) for key in ('origin', 'z'))
    wave = plane['distance']['lissajous']
    assert wave['amplitude'] > 0.01
    oracle = PinocchioOracle.of(tree)
    settled = path.times > 3.0  # start 1 s, ramp 1 s: phase 0 is when the ramp is half through
    for t, q in zip(path.times[settled], path.q[settled], strict=True):
        height = (oracle.frame_pose(written.frame, q)[1] - origin) @ normal
        asked = wave['amplitude'] * math.sin(2.0 * math.pi * wave['frequency'] * (t - 1.5))
        assert height == pytest.approx(asked, abs=1e-7)  # solved to 1e-8 m


@pytest.mark.slow
def test_every_command_of_the_readme_is_understood(written, monkeypatch):
    readme = (written.folder / 'README.md').read_text('utf-8')
    timeout = lockstep_parameters()['state_timeout_s']
    for page in (readme, ROBOTS_PAGE.read_text('utf-8')):
        assert f'-p state_timeout_s:={timeout}' in page
    lines = readme.splitlines()
    for name in ('robot.urdf', 'parameters.yaml', 'program.yaml', 'driver.yaml'):
        using = [shlex.split(line) for line in lines if line.startswith('  ') and name in line]
        assert using
        for words in using:
            assert str(written.folder / name) in [word.rpartition(':=')[2] for word in words]
    for file in written.folder.glob('*.yaml'):
        assert not re.search(r'[1-9]\d{13}', file.read_text('utf-8')), (
            'no rounding of computations'
        )
    commands = [shlex.split(line) for line in lines if line.startswith('    python -m')]
    named = {words[3] for words in commands}
    assert named >= {'check_model', 'demo', 'simulate', 'view', 'record', 'analyze', 'commission'}
    for words in commands:
        command = program._command(words[3])._replace(run=lambda _: 0)
        with monkeypatch.context() as patched:
            patched.setattr(program, '_command', lambda _, command=command: command)
            assert main(words[3:]) == 0
        for word in words[4:]:
            assert Path(word).is_file() or '/' not in word


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
    known = {'robot', '--out', '--force', *in_the_description, *CHOSEN}
    assert {key.split()[0] for key in options} == known
    file = tmp_path / 'arm.urdf.xacro'
    file.write_text(ON_A_WALL)
    folder = command('new_robot', file, *' '.join(CHOSEN.values()).split()).folder
    gravity, locked = (-9.81, 0.0, -2e-5), {'jaw': 0.4}
    expected = load_robot(
        file,
        gravity,
        mappings={'reach': '0.35'},
        joints=['a', 'b', 'c'],
        locked=locked,
        effort_limit={'b': 80.0},
    )

    def require_the_same(tree):
        assert tree.joint_names == expected.joint_names
        for name in ('gravity', 'effort_limit', 'mass', 'com', 'inertia', 'p_PJ'):
            np.testing.assert_allclose(getattr(tree, name), getattr(expected, name), atol=1e-12)

    nodes = read_yaml(folder / 'parameters.yaml', 'parameter file')
    sections = {key.removeprefix('/**/'): x['ros__parameters'] for key, x in nodes.items()}
    for name in sections.keys() - {'recorder'}:  # which needs no robot
        declared = defaults(declared_parameters(name))
        require_the_same(robot_from_parameters(declared | sections[name]))
    motion = sections['trajectory']
    assert motion['tool_frame'] == 'probe'
    assert motion['boxes'] == [0.1, 1.5, 0.0, 0.4, 0.4, 0.4]
    assert motion['ground_below'] == 0.25

    lines = (folder / 'README.md').read_text('utf-8').splitlines()
    commands = [shlex.split(line)[3:] for line in lines if line.startswith('    python -m')]
    runs = {'check_model', 'demo', 'design_gains', 'commission'}
    seen = {}
    for name, *given in commands:
        if name in runs:
            seen[name] = args = program._command(name).parse(given)
            require_the_same(robot_of(args))
    assert seen.keys() == runs
    assert seen['demo'].frame == 'probe'
    around = new_robot.obstacles_of(seen['demo'])
    assert (around.numbers, around.ground_below) == (motion['boxes'], 0.25)


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


@pytest.mark.slow
@pytest.mark.parametrize(
    'option', ['', '--gravity 0 0 -1.62', '--ground-below 0.3', '--mimic lock']
)
def test_a_shipped_arm_with_an_option_is_planned_again(option):
    """Every option, also one that is not about its joints."""
    args = nodes.COMMANDS['simulate'].parse(['--robot', 'scara', *option.split()])
    assert (new_robot.parameter_file(args).parent.name == 'config') == (option == '')


def test_a_robot_without_a_name_is_refused_before_anything_is_written(tmp_path):
    nameless = load_robot(shipped_robot('four_dof')).with_changes(name='')
    with pytest.raises(ModelError, match='^<robot>: has no name; give it a name attribute'):
        new_robot.write_robot_folder(nameless, tmp_path / 'arm')
    assert not (tmp_path / 'arm').exists()


@pytest.mark.parametrize(
    ('name', 'folder'),
    [('../x', '_x'), ('/etc/x', '_etc_x'), ('acme/arm', 'acme_arm'), ('..', 'robot'),
     ('Arm 2-ä', 'Arm 2-ä'), ('scara', 'scara')],
)  # fmt: skip
def test_the_folder_of_a_robot_is_inside_of_the_one_that_was_given(name, folder, tmp_path):
    assert folder_name(name) == folder
    assert (tmp_path / folder_name(name)).resolve().parent == tmp_path.resolve()


def test_the_bridge_and_the_controllers_of_gazebo_are_those_of_the_arm(written):
    """What they contain is tested in ``ros/test_gazebo_files``."""
    tree, name = written.tree, model_name(written.tree)
    bridge = (written.folder / 'ros_gz_bridge.yaml').read_text('utf-8')
    assert bridge == bridge_text(bridge_entries(tree.joint_names, name))
    control = (written.folder / 'ros2_control.yaml').read_text('utf-8')
    assert control == ros2_control_text(tree)
    assert f'/model/{name}/joint_state' in gazebo_description(tree, {'gazebo': 'native'})


@pytest.mark.slow
def test_a_launch_finds_the_folder_by_its_parameter_file_or_by_a_description(written, tmp_path):
    parameters = written.folder / 'parameters.yaml'
    assert described(str(parameters)) == parameters
    planned = described(str(shipped_robot('scara')))  # once, then it is cached
    assert load_robot(planned.with_name('robot.urdf')).n == 4
    with pytest.raises(ConfigurationError, match='not a parameter file with a robot.urdf'):
        described(str(tmp_path / 'parameters.yaml'))


@pytest.mark.parametrize('robot', ['scara', 'four_dof'])
def test_the_controllers_of_shipped_arms_are_written_by_the_same_function(robot):
    file = share_directory() / 'config' / f'{robot}_ros2_control.yaml'
    assert file.read_text('utf-8') == ros2_control_text(load_robot(shipped_robot(robot)))


def test_names_that_yaml_would_read_otherwise_stay_names():
    robot = random_tree(np.random.default_rng(3), 3)
    xml, names = robot.xml, ['on', '1', 'left: [a']
    for old, new in zip(robot.tree.joint_names, names, strict=True):
        xml = xml.replace(f'name="{old}"', f'name="{new}"')
    tree = load_robot(xml, effort_limit=1.0)
    entries = yaml.safe_load(bridge_text(bridge_entries(tree.joint_names, 'arm')))
    topics = ['_1/cmd_force', 'left___a/cmd_force', 'on/cmd_force']  # valid in ROS
    assert sorted(entry['ros_topic_name'] for entry in entries[2:]) == topics
    assert sorted(DriverInterface(None, tree, (), 'per_joint').command_topics) == topics
    control = yaml.safe_load(ros2_control_text(tree))
    joints = control['/**/effort_controller']['ros__parameters']['joints']
    assert sorted(joints) == sorted(names)
