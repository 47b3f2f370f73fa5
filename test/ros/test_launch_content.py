# SPDX-License-Identifier: Apache-2.0
"""Launch files, parameter files and the installation: what would be started, without starting it.

What needs no launch is read as text.
"""

import re
import runpy
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import bags
import numpy as np
import pytest
import tables
import yaml
from checkout import ROOT
from samples import sample
from scipy.spatial.transform import Rotation
from urdf_text import FRICTION, joint, link, robot

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.errors import (
    ConfigurationError,
    RobotDynamicsError,
    SceneError,
    UnknownNameError,
)
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.parameters import checked, require_known
from robot_dynamics_ros.ros.executables import NODES, declared_parameters

XACRO = str(ROOT / 'urdf' / 'four_dof.urdf.xacro')


def config(name: str):
    return yaml.safe_load((ROOT / 'config' / name).read_text('utf-8'))


class Scene:
    """What a launch file starts.

    Attributes:
        nodes: Executable of each node, with its package if that is not ours; other actions by
            their kind.
    """

    def __init__(self, actions) -> None:
        from launch import LaunchContext
        from launch_ros.actions import Node

        self.actions, self.context = actions, LaunchContext()
        self._nodes = [action for action in actions if isinstance(action, Node)]
        self.nodes = [
            f'{x.node_package}/{x.node_executable}'.removeprefix('robot_dynamics_ros/')
            if x in self._nodes
            else type(x).__name__
            for x in actions
        ]

    def of(self, executable: str) -> list:
        """Return the nodes of an executable."""
        return [node for node in self._nodes if node.node_executable == executable]

    def parameters(self, executable: str) -> dict:
        """Return the parameters of the last node of an executable, those of files aside."""
        from launch_ros.utilities import evaluate_parameters

        given = evaluate_parameters(self.context, self.of(executable)[-1]._Node__parameters)
        return {k: v for part in given if isinstance(part, dict) for k, v in part.items()}

    def bridge(self) -> list[dict]:
        """Return the entries of the bridge."""
        return yaml.safe_load(Path(self.parameters('parameter_bridge')['config_file']).read_text())

    def told(self, action) -> str:
        """Return what a LogInfo says."""
        return action.msg[0].perform(self.context)


@pytest.fixture
def scene(monkeypatch):
    """Return a function from a launch file and its arguments to the scene; all is installed."""
    pytest.importorskip('launch_ros', reason='launch is not installed')
    from launch import LaunchContext

    from robot_dynamics_ros.ros import gazebo_world, launching

    monkeypatch.setattr(launching, 'require_packages', lambda *_: None)
    monkeypatch.setattr(gazebo_world, 'bindings', lambda: ('gz.transport', 'gz.msgs'))
    monkeypatch.setattr('shutil.which', lambda _: 'there')

    def begun(name: str, *words: str, **given: str) -> Scene:
        path = str(ROOT / 'launch' / f'{name}.launch.py')
        *declared, begin = runpy.run_path(path)['generate_launch_description']().entities
        context = LaunchContext(argv=words)
        context.launch_configurations.update(given)
        context.extend_locals({'current_launch_file_path': path})
        for argument in declared:
            argument.execute(context)
        return Scene(begin.execute(context))

    return begun


# RegisterEventHandler: somebody watches over the processes. A second robot in Gazebo starts no
# second world; with ros2_control gazebo_robot has to end before what follows, and the spawner.
# On a real arm nothing commands by default, and without being told to move it is held.
@tables.rows(
    'name given expected',
    """
gazebo, {}, ExecuteProcess ros_gz_bridge/parameter_bridge controller gazebo_robot trajectory RegisterEventHandler
gazebo, {start_world: 'false', namespace: right, prefix: right_, view: 'true'}, ros_gz_bridge/parameter_bridge controller gazebo_robot trajectory view RegisterEventHandler
gazebo, {interface: ros2_control, rviz: 'true', record: 'true'}, ExecuteProcess ros_gz_bridge/parameter_bridge controller gazebo_robot RVIZ controller_manager/spawner RegisterEventHandler trajectory recorder RegisterEventHandler
gazebo, {law: hand_guiding, program: ''}, ExecuteProcess ros_gz_bridge/parameter_bridge controller gazebo_robot RegisterEventHandler
gazebo, {law: constraint_stabilization, program: ''}, ExecuteProcess ros_gz_bridge/parameter_bridge controller gazebo_robot trajectory RegisterEventHandler
gazebo, {law: constraint_stabilization, program: scara_circle}, ExecuteProcess ros_gz_bridge/parameter_bridge controller gazebo_robot RegisterEventHandler
four_bar, {view: 'true'}, ExecuteProcess ros_gz_bridge/parameter_bridge controller gazebo_robot view RegisterEventHandler
simulation, {view: 'true', bag: b}, simulator controller trajectory LogInfo view RegisterEventHandler
two_robots, {view: 'true'}, GroupAction GroupAction view
replay, {bag: b, robot: scara, view: 'true'}, monitor view ExecuteProcess RegisterEventHandler
hardware, {}, LogInfo monitor RegisterEventHandler
hardware, {motion: 'true', record: 'true', emulator: 'true', rviz: 'true'}, LogInfo LogInfo driver_emulator monitor recorder RVIZ RegisterEventHandler
hardware, {stage: gravity}, LogInfo controller RegisterEventHandler
hardware, {stage: slow}, LogInfo controller RegisterEventHandler
hardware, {stage: full}, LogInfo controller RegisterEventHandler
hardware, {stage: full, view: 'true'}, LogInfo controller monitor view RegisterEventHandler
""",  # noqa: E501
)
def test_a_scene_starts_these_processes(scene, name, given, expected):
    publisher = 'robot_state_publisher/robot_state_publisher'
    rviz = f'{publisher} {publisher} tf2_ros/static_transform_publisher rviz2/rviz2'
    nodes = scene(name, **given).nodes
    assert nodes == expected.replace('RVIZ', rviz).split()
    assert {x for x in nodes if x.islower() and '/' not in x} <= set(NODES)


def test_in_lockstep_the_bridge_carries_no_forces_and_time_waits_for_commands(scene):
    """Else in a Gazebo that runs an arm waits for its controller, and has a clock."""
    running = scene('gazebo', start_world='false')
    assert running.parameters('gazebo_robot')['pause_first']
    assert '/clock' in {entry['ros_topic_name'] for entry in running.bridge()}
    found, still = (scene('gazebo', lockstep='true', motion=x) for x in ('true', 'false'))
    assert {entry['direction'] for entry in found.bridge()} == {'GZ_TO_ROS'}
    robot = found.parameters('gazebo_robot')
    expected = {'lockstep': True, 'step_ns': 1_000_000, 'unpause': 'ready', 'await_motion': True}
    assert {key: robot[key] for key in expected} == expected
    assert not still.parameters('gazebo_robot')['await_motion'], 'nobody would send one'
    assert found.parameters('controller')['state_timeout_s'] > 30.0, 'time waits'


@tables.rows(
    'name given topics',
    """
gazebo, {lockstep: 'true'}, [/joint1/cmd_force, /joint2/cmd_force, /joint3/cmd_force, /joint4/cmd_force]
simulation, {mode: lockstep}, [/effort_controller/commands]
simulation, {mode: lockstep, namespace: /a/b}, [/a/b/effort_controller/commands]
simulation, {mode: real_time, namespace: /a/b}, []
""",  # noqa: E501
)
def test_in_lockstep_the_controller_keeps_its_commands_for_a_slow_recorder(
    scene, name, given, topics
):
    depths = scene(name, **given).parameters('controller').items()
    kept = {key: depth for key, depth in depths if key.startswith('qos_overrides.')}
    assert kept == {f'qos_overrides.{topic}.publisher.depth': 2000 for topic in topics}


@pytest.mark.parametrize('simulator', ['gazebo', 'mujoco'])
def test_two_robots_have_their_names_and_get_world_and_parameters(scene, simulator):
    given = {'world': 'slow.sdf', 'gz_args': '-v 4', 'params_file': 'both.yaml', 'bag': 'b'}
    kept = given if simulator == 'gazebo' else {'params_file': 'both.yaml'}
    handed = [
        dict(include.launch_arguments)
        for group in scene('two_robots', simulator=simulator, **given).actions
        for include in group.get_sub_entities()
        if hasattr(include, 'launch_arguments')
    ]
    kept |= {'view': 'false'}  # inherited otherwise; one page shows both
    assert [
        {key: one[key] for key in (*kept, 'bag', 'namespace', 'prefix')} for one in handed
    ] == [
        {**kept, 'bag': f'b_{side}', 'namespace': side, 'prefix': f'{side}_'}
        for side in ('left', 'right')
    ]


def test_what_has_no_effect_in_a_parameter_file_is_told(scene, tmp_path):
    """Sections that are almost of a node, and what the launch itself gives the controller."""
    file = tmp_path / 'own.yaml'
    file.write_text(
        '{/**/trajectry: &x {ros__parameters: {}}, /left/simulator: *x, '
        '/**/controller: {ros__parameters: {robot: four_dof, law: pd_gravity, program: p, '
        'effort_scale: 0.5}}}'
    )
    found, chosen, real = (
        scene(name, params_file=str(file), stage='slow', **x)
        for name, x in (('simulation', {}), ('simulation', {'law': 'impedance'}), ('hardware', {}))
    )
    has = 'it has /**/trajectry, /left/simulator, /**/controller'
    argument = f'of {file} has no effect; the launch has an argument for it'
    assert [found.told(action).partition('WARNING: ')[2] for action in found.actions[:4]] == [
        f'{file} has no section for simulator; {has}',
        f'{file} has no section for trajectory; {has}',
        f'law {argument}',
        f'program {argument}',
    ]
    assert 'program' in chosen.told(chosen.actions[2])
    told = [real.told(action).split()[1] for action in real.actions[:4]]
    assert told == ['robot', 'law', 'program', 'slow:']  # effort_scale is that of the stage


# A real arm ------------------------------------------------------------------------------------


@tables.rows(
    'stage law part speed',
    """
gravity, gravity_compensation, 0.3, null
slow, pd_gravity, 0.5, 0.25
full, pd_gravity, 1.0, 1.0
""",
)
def test_a_stage_decides_law_limits_and_speed(scene, stage, law, part, speed):
    given = {'stage': stage, 'law': 'pd_gravity', 'motion': 'true', 'emulator': 'true'}
    found = scene('hardware', **given)
    controller = found.parameters('controller')
    expected = {'law': law, 'effort_scale': part, 'driver_profile': 'generic_ros2_control',
                'discretization': 'zero_order', 'use_sim_time': False}  # fmt: skip
    assert {key: controller[key] for key in expected} == expected
    assert found.parameters('driver_emulator')['mode'] == 'real_time'
    assert bool(found.of('trajectory')) == bool(speed)
    if speed:
        motion = found.parameters('trajectory')
        assert (motion['speed_scale'], motion['sample_rate']) == (speed, 25.0)
        given['params_file'] = str(ROOT / 'config' / 'scara.yaml')  # as if it were one's own
        assert 'sample_rate' not in scene('hardware', **given).parameters('trajectory')


@tables.rows(
    'command topics',
    """
{topic: c}, ['']
{topic: c, form: overlay, topic_of_positions: p}, [p std_msgs/msg/Float64MultiArray]
{topic: c, form: joint_state}, [c sensor_msgs/msg/JointState]
{topic: c, form: joint_command}, [c control_msgs/msg/JointCommand]
{topic: '{joint}/c', form: per_joint}, [joint1/c std_msgs/msg/Float64, joint2/c std_msgs/msg/Float64, joint3/c std_msgs/msg/Float64, joint4/c std_msgs/msg/Float64]
""",  # noqa: E501
)
def test_a_profile_without_efforts_is_compared_by_its_commands_which_are_recorded(
    scene, tmp_path, command, topics
):
    profile = tmp_path / 'mute.yaml'
    profile.write_text(yaml.safe_dump({'name': 'mute', 'command': command}))
    given = {'driver_profile': str(profile), 'monitor': 'true', 'record': 'true'}
    found = scene('hardware', stage='slow', **given)
    assert found.parameters('monitor')['effort_source'] == 'reference'
    assert found.parameters('recorder')['extra_topics'] == tuple(topics)


@pytest.mark.parametrize('named', ['', 'profile', 'parameters'])
def test_a_gripper_of_an_arm_of_ones_own_is_locked_unless_it_is_named(scene, tmp_path, named):
    """As by ``commission``; a driver that lacks it would receive no efforts of this size."""
    inertia, drive = 0.01 * np.eye(3), FRICTION
    offered = '<ros2_control><joint name="a"><command_interface name="position"/></joint>'
    arm, names = tmp_path / 'arm.urdf', ['a', 'b', 'finger']
    arm.write_text(
        robot(
            'arm',
            link('base'),
            *(link(name, 1.0, (0.1, 0, 0), inertia) for name in ('upper', 'lower', 'jaw')),
            joint('a', 'base', 'upper', dynamics=drive),
            joint('b', 'upper', 'lower', xyz=(0.3, 0, 0), dynamics=drive),
            joint('finger', 'lower', 'jaw', 'prismatic', limits=(0.0, 0.04), dynamics=drive),
            f'{offered}</ros2_control>',
        )
    )
    given = {'description': str(arm), 'stage': 'slow'}
    contents = {
        'profile': {'name': 'mine', 'joints': [{'joint': name} for name in names]},
        'parameters': {'/**/controller': {'ros__parameters': {'joints': names}}},
    }
    if named:
        file = tmp_path / 'own.yaml'
        file.write_text(yaml.safe_dump(contents[named]))
        given['driver_profile' if named == 'profile' else 'params_file'] = str(file)
    found = scene('hardware', **given)
    tree = load_robot(found.parameters('controller')['robot_description'])
    assert list(tree.joint_names) == (names if named else names[:2])
    said = [found.told(action) for action in found.actions if hasattr(action, 'msg')]
    assert any("'finger': taken for a gripper" in text for text in said) == (not named)
    assert sum("joint 'a': <ros2_control> offers no effort" in text for text in said) == 1
    emulated = scene('hardware', **given, emulator='true')
    assert emulated.nodes.count('LogInfo') == len(said) - 1  # nothing of a driver that is not used


@tables.written("""
[hardware, {driver_profile: nobody}]                     | give a path, or the name of a shipped one
[hardware, {description: no.urdf}]                       | no.urdf
[hardware, {mappings: left}]                             | 'left': has no :=; write NAME:=VALUE
[hardware, {stage: slow, effort_scale: half}]            | is 'half'; give a finite number
[hardware, {effort_scale: '1.5'}]                        | must be a finite number from 0.01 to 1
[hardware, {stage: slow, effort_scale: '0.005'}]         | must be a finite number from 0.01 to 1
[hardware, {stage: gravity, effort_scale: '0.05'}]       | of joint 'joint3'; write effort_scale:=
[hardware, {stage: slow, law: constraint_stabilization, program: scara_circle}] | cannot be slowed down in stage slow; leave it out until full
[hardware, {params_file: no.yaml}]                       | params_file 'no.yaml': no such file
[hardware, {params_file: HERE/config/drivers/ur.yaml}]   | no section of a node
[hardware, {description: HERE/urdf/four_dof.urdf.xacro, stage: full, motion: 'true'}] | write params_file:=FILE
[gazebo, {lockstep: 'true', interface: ros2_control}]    | lockstep: needs interface:=native
[gazebo, {lockstep: 'true', start_world: 'false'}]       | lockstep: needs start_world:=true
[gazebo, {description: own/parameters.yaml, mappings: 'a:=b'}]     | are for a xacro file
[simulation, {description: own/parameters.yaml, mappings: 'a:=b'}] | are for a xacro file
[gazebo, {description: HERE/urdf/four_dof.urdf.xacro, prefix: left_}] | prefix: is for shipped arms
[replay, {}]                                             | bag: none is given; write bag:=FOLDER
[simulation, {record: 'true', bag: HERE}]                | exists already; choose another
[gazebo, {}, controller, {gravity: down}]                | is 'down'; give
[gazebo, {interface: ros2_control}, simulator, {initial_position: [1, 2]}] | give 1 or 4 finite
[gazebo, {description: OWN}, simulator, {initial_position: [1, 2]}]        | give 1 or 4 finite
""")  # noqa: E501
def test_what_cannot_be_started_is_refused(scene, tmp_path, given, said):
    """Also what a launch takes from the parameters of a node."""
    name, words, *section = given
    if section:
        node, parameters = section
        file = tmp_path / 'wrong.yaml'
        file.write_text(yaml.safe_dump({f'/**/{node}': {'ros__parameters': parameters}}))
        words['params_file'] = str(file)
    if words.get('description') == 'OWN':
        assert main(['new_robot', 'scara', '--output', str(tmp_path)]) == 0
        words['description'] = str(tmp_path / 'parameters.yaml')
    with pytest.raises(RobotDynamicsError, match=said):
        scene(name, **{key: word.replace('HERE', str(ROOT)) for key, word in words.items()})


@pytest.mark.parametrize('name', ['simulation', 'gazebo', 'hardware'])
def test_a_xacro_file_gets_its_arguments(scene, name):
    found = scene(name, description=XACRO, mappings='limits_profile:=wide', stage='full')
    given = found.parameters('controller')
    planned = load_robot(given.get('robot_description') or Path(given['robot']).read_text('utf-8'))
    wide = load_robot(XACRO, mappings={'limits_profile': 'wide'})
    assert (planned.position_upper == wide.position_upper).all()
    assert (planned.position_upper != load_robot(XACRO).position_upper).any()


def test_an_arm_of_ones_own_is_simulated_in_gazebo_and_mujoco(scene, tmp_path):
    assert main(['new_robot', 'four_dof', 'limits_profile:=wide', '--output', str(tmp_path)]) == 0
    own = {'description': str(tmp_path / 'parameters.yaml')}
    found, simulated = scene('gazebo', **own), scene('simulation', **own)
    assert found.nodes == scene('gazebo', robot='four_dof').nodes
    assert found.bridge() == yaml.safe_load((tmp_path / 'ros_gz_bridge.yaml').read_text('utf-8'))
    assert found.parameters('gazebo_robot')['model'] == 'four_dof'
    assert 'ApplyJointForce' in found.parameters('controller')['robot_description']
    assert simulated.parameters('simulator')['robot'] == str(tmp_path / 'robot.urdf')
    given = {'stage': 'full', 'motion': 'true', 'driver_profile': str(tmp_path / 'driver.yaml')}
    controller = scene('hardware', **own, **given).parameters('controller')
    assert controller['discretization'] == 'zero_order'


def test_a_plan_of_a_description_is_said(scene):
    """Which files are none: ``test/cli/test_new_robot.py``."""
    found = scene('simulation', description=XACRO, mappings='limits_profile:=wide')
    folder = Path(found.told(found.actions[0]).rpartition(': ')[2])
    assert folder == Path(found.parameters('simulator')['robot']).parent
    assert scene('gazebo', description=str(folder / 'robot.urdf')).nodes[0] == 'LogInfo'


@pytest.mark.parametrize('whose', ['robot_dynamics_ros hardware.launch.py', 'cell cell.launch.py'])
def test_a_misspelt_argument_starts_no_arm(scene, monkeypatch, whose):
    """Launch ignores it, so that emulater:=true would command the real arm.

    The words of a launch file that includes ours are not ours to judge.
    """
    given = ['stage:=full', 'sigterm_timeout:=9', 'emulate_tty:=true', 'emulater:=true']
    monkeypatch.setattr('sys.argv', ['ros2', 'launch', *whose.split(), *given])
    refused = pytest.raises(UnknownNameError, match="^unknown argument 'emulater'.*emulator")
    with nullcontext() if 'cell' in whose else refused:
        scene('hardware', *given)


def test_an_arm_on_a_wall_hangs_there_in_gazebo_and_on_its_drives(scene, tmp_path):
    """Its base's x axis points up: gravity is along -x."""
    own = {'description': str(tmp_path / 'parameters.yaml')}
    new_robot = ['new_robot', 'scara', '--output', str(tmp_path), '--force', '--gravity']
    assert main([*new_robot, '-9.81', '0', '0']) == 0
    pose = scene('gazebo', **own, yaw='0.5').parameters('gazebo_robot')['pose']
    turned = Rotation.from_euler('xyz', pose[3:]).apply([-9.81, 0.0, 0.0])
    assert turned == pytest.approx([0.0, 0.0, -9.81])
    for wrong, said in (({'x': 'far'}, "x: is 'far'"), ({'yaw': '90'}, 'yaw: is 90 rad')):
        with pytest.raises(ConfigurationError, match=said):
            scene('gazebo', **own, **wrong)
    needed = "gravity alone needs 0.40 of that of joint 'joint1'"
    with pytest.raises(ConfigurationError, match=f'{needed}; write effort_scale:=0.50$'):
        scene('hardware', **own, stage='gravity')
    weak = re.sub('effort="[^"]*"', 'effort="5"', (tmp_path / 'robot.urdf').read_text('utf-8'))
    (tmp_path / 'robot.urdf').write_text(weak, 'utf-8')
    with pytest.raises(ConfigurationError, match='no share holds it'):
        scene('hardware', **own, stage='full')
    assert main([*new_robot, '0', '0', '-1.62']) == 0
    with pytest.raises(ConfigurationError, match=r'is 1.62 m/s\^2, of the world 9.81'):
        scene('gazebo', **own)


@tables.rows('executable code fails', 'recorder, 1, true\nrecorder, 0, false\nrviz2, -2, false')
def test_a_node_that_fails_while_a_launch_ends_fails_the_launch(executable, code, fails):
    """A recorder that has lost messages ends with 1 on Ctrl-C; launch returned 0."""
    pytest.importorskip('launch_ros', reason='launch is not installed')
    from launch_ros.actions import Node

    from robot_dynamics_ros.ros.launching import PACKAGE, supervised

    package = PACKAGE if executable == 'recorder' else executable
    node = Node(package=package, executable=executable)
    on_exit = supervised([node])[-1].event_handler._OnActionEventBase__on_event
    event = SimpleNamespace(action=node, returncode=code, process_name=executable)
    refused = pytest.raises(SceneError, match='recorder ended with 1')
    with refused if fails else nullcontext():
        assert on_exit(event, SimpleNamespace(is_shutdown=True)) == []


# Parameter files ---------------------------------------------------------------------------------


@pytest.mark.parametrize('robot', ['scara', 'four_dof', 'parallelogram'])
def test_a_parameter_file_sets_what_is_declared_to_allowed_values_and_has_one_period(robot):
    for key, section in config(f'{robot}.yaml').items():
        assert key.startswith('/**/'), 'a parameter file must hold in any namespace'
        given = {'period': 0.001, **section['ros__parameters']}
        declared = declared_parameters(key.removeprefix('/**/'))
        own = {name: x for name, x in given.items() if name not in ('use_sim_time', 'period')}
        require_known(declared, own, f'parameter of {key}')
        assert checked(declared, own) == own
        assert given['period'] == 0.001


def test_a_launch_takes_from_a_parameter_file_what_the_node_takes(scene, tmp_path):
    """Of two arms, what is in their namespaces; /** holds for both."""
    down, up = ({'ros__parameters': {'gravity': [0.0, 0.0, g]}} for g in (-9.81, 9.81))
    sections = {'/**': up, '/left/controller': down, '/right/controller': up}
    file = tmp_path / 'both.yaml'
    file.write_text(yaml.safe_dump(sections, sort_keys=False))
    for space, hangs in (('', True), ('/left/', False), ('right', True)):
        found = scene('gazebo', params_file=str(file), namespace=space)
        roll, pitch = found.parameters('gazebo_robot')['pose'][3:5]
        assert (abs(roll) > 1.0 or abs(pitch) > 1.0) == hangs, space


def test_one_position_at_the_start_holds_for_all_joints_of_a_shipped_arm(scene, tmp_path):
    file = tmp_path / 'start.yaml'
    file.write_text('/**/simulator: {ros__parameters: {initial_position: 0.25}}')
    found = scene('gazebo', interface='ros2_control', params_file=str(file))
    assert found.parameters('controller')['robot_description'].count('"initial_value">0.25<') == 4


# Views -------------------------------------------------------------------------------------------


def test_the_rviz_configuration_shows_the_description_that_is_published():
    manager = config('robot.rviz')['Visualization Manager']
    shown = [d for d in manager['Displays'] if d['Class'] == 'rviz_default_plugins/RobotModel']
    assert [model.get('TF Prefix', '') for model in shown] == ['', 'reference']
    for topic in (model['Description Topic'] for model in shown):
        assert topic['Value'] == 'robot_description', 'relative, to follow the namespace'
        assert topic['Durability Policy'] == 'Transient Local'
    assert manager['Global Options']['Fixed Frame'] == 'world'


def test_the_ghost_of_rviz_has_frames_at_the_reference_of_the_controller(scene):
    found = scene('simulation', rviz='true', namespace='left')
    assert found.parameters('robot_state_publisher')['frame_prefix'] == 'reference/'
    arm, ghost = (
        {old[0].perform(found.context): new[0].perform(found.context)
         for old, new in node._Node__remappings}
        for node in found.of('robot_state_publisher')
    )  # fmt: skip
    assert ghost['joint_states'] == 'controller/reference'
    assert ghost['robot_description'] != 'robot_description', 'that of the arm'
    assert not arm.keys() & {'joint_states', 'robot_description'}
    (base,) = found.of('static_transform_publisher')
    words = [x if isinstance(x, str) else x[0].perform(found.context) for x in base.cmd[1:5]]
    assert words == ['--frame-id', 'world', '--child-frame-id', 'reference/world']


def test_rviz_stands_on_the_root_of_the_arm_in_a_bag(scene, tmp_path):
    arm = tmp_path / 'arm.urdf'
    arm.write_text(
        robot(
            'own',
            link('foot'),
            link('bar', 1.0, (0, 0, 0), np.eye(3)),
            joint('turn', 'foot', 'bar'),
        )
    )
    bag = bags.write(tmp_path / 'bag', [bags.text(0, arm.read_text())])
    (rviz,) = scene('replay', bag=str(bag), rviz='true').of('rviz2')
    assert rviz._Node__arguments[-1] == 'foot'


def test_moveit_is_told_where_the_action_of_the_shipped_arms_is():
    content = config('moveit_controllers.yaml')
    manager = content[content['moveit_controller_manager'].split('/')[0]]
    (name,) = manager['controller_names']
    assert name in NODES
    source = ROOT / 'robot_dynamics_ros/ros/controller/trajectory_action.py'
    assert f"'~/{manager[name]['action_ns']}'" in source.read_text('utf-8')
    for arm in ('scara', 'four_dof'):
        assert list(sample(arm).tree.joint_names) == manager[name]['joints']
