# SPDX-License-Identifier: Apache-2.0
"""Launch files, parameter files and the installation, read as text: no ROS is needed."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import setuptools
import yaml
from samples import sample
from scipy.spatial.transform import Rotation

from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.parameters import checked, require_known
from robot_dynamics_ros.ros.executables import NODES, declared_parameters

PROJECT = Path(__file__).resolve().parents[2]
LAUNCH_FILES = sorted((PROJECT / 'launch').glob('*.launch.py'))
PARAMETER_FILES = ('scara', 'four_dof', 'parallelogram')
SCENES = {'simulation', 'gazebo', 'four_bar', 'two_robots', 'replay', 'hardware'}


def launch_id(path: Path) -> str:
    return path.name.removesuffix('.launch.py')


each_launch_file = pytest.mark.parametrize('path', LAUNCH_FILES, ids=launch_id)


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding='utf-8'), str(path))


def calls(tree: ast.AST, name: str) -> list[ast.Call]:
    """Return the calls of a function or class, with or without its module before it."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in found if ast.unparse(call.func).split('.')[-1] == name]


def text(node: ast.AST) -> str:
    """Return a text as it is written, adjacent parts joined."""
    return ast.literal_eval(node)


@pytest.fixture(scope='module')
def installed() -> dict:
    """Return what setup.py hands to setuptools."""
    taken: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(PROJECT)
        patch.setattr(setuptools, 'setup', lambda **arguments: taken.update(arguments))
        runpy.run_path('setup.py')
    return taken


@pytest.fixture(scope='module')
def executables(installed) -> dict[str, str]:
    """Return the module of each node's executable, by name."""
    scripts = installed['entry_points']['console_scripts']
    pairs = [script.split(' = ') for script in scripts if not script.startswith('robot-dynamics')]
    return {name: target.partition(':')[0] for name, target in pairs}


def arguments_of_package() -> dict[str, ast.Call]:
    """Return the arguments that launch files share, by the name of their constant."""
    tree = tree_of(PROJECT / 'robot_dynamics_ros' / 'ros' / 'launching.py')
    return {
        ast.unparse(node.targets[0]): node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and calls(node, 'Argument')
    }


# Launch files ------------------------------------------------------------------------------------


def test_there_is_one_launch_file_per_scene():
    assert {launch_id(path) for path in LAUNCH_FILES} >= SCENES


@each_launch_file
def test_every_argument_has_a_sentence_and_a_default(path):
    tree = tree_of(path)
    own = calls(tree, 'Argument')
    shared = arguments_of_package()
    (listed,) = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == 'ARGUMENTS'
    ]
    names = []
    for element in listed.elts:
        is_own = any(element is call for call in own)
        call = element if is_own else shared[ast.unparse(element).split('.')[-1]]
        name, _default, sentence = call.args[:3]
        names.append(text(name))
        assert text(sentence)[0].isupper(), text(name)
        assert text(sentence).endswith('.'), text(name)
    assert len(set(names)) == len(names)
    assert 'log_level' in names


def test_every_launch_file_offers_the_laws_of_other_packages():
    """Those of the constant LAW, which asks the registry for all that are installed."""
    assert 'known_laws()' in ast.unparse(arguments_of_package()['LAW'])
    for path in LAUNCH_FILES:
        for call in calls(tree_of(path), 'Argument'):
            if text(call.args[0]) == 'law':
                assert ast.unparse(call.args[3]) == 'launching.LAW.choices', path.name


@each_launch_file
def test_a_launch_file_starts_only_executables_that_are_installed(path, executables):
    tree = tree_of(path)
    named = [call.args[0] for call in (*calls(tree, 'package_node'), *calls(tree, 'node'))]
    for node in named:
        assert text(node) in executables


@each_launch_file
def test_a_launch_file_can_be_built(path):
    pytest.importorskip('launch_ros', reason='launch is not installed')
    from launch.actions import DeclareLaunchArgument

    description = runpy.run_path(str(path))['generate_launch_description']()
    declared = [e for e in description.entities if isinstance(e, DeclareLaunchArgument)]
    assert declared
    for argument in declared:
        assert argument.description.partition(' Valid choices')[0].endswith('.')


def executed(name: str, monkeypatch, **given):
    """Return the actions of a launch file, and its context."""
    pytest.importorskip('launch_ros', reason='launch is not installed')
    from launch import LaunchContext
    from launch.actions import OpaqueFunction

    from robot_dynamics_ros.ros import launching

    monkeypatch.setattr(launching, 'require_packages', lambda *_: None)
    monkeypatch.setattr('shutil.which', lambda _: 'there')
    path = PROJECT / 'launch' / f'{name}.launch.py'
    entities = runpy.run_path(str(path))['generate_launch_description']().entities
    context = LaunchContext()
    for entity in entities[:-1]:
        context.launch_configurations[entity.name] = given.get(entity.name, '') or (
            entity.default_value[0].perform(context) if entity.default_value else ''
        )
    assert isinstance(entities[-1], OpaqueFunction)
    return entities[-1].execute(context)


def scene(name: str, monkeypatch, **given):
    """Return the actions of a launch file, as (package, executable); others by their kind."""
    actions = executed(name, monkeypatch, **given)
    from launch_ros.actions import Node

    return [
        (action.node_package, action.node_executable)
        if isinstance(action, Node)
        else type(action).__name__
        for action in actions
    ]


def parameters_of(actions, executable: str) -> dict:
    """Return the parameters that a launch file gives a node, those of files aside."""
    from launch import LaunchContext
    from launch_ros.actions import Node
    from launch_ros.utilities import evaluate_parameters

    found = {}
    for action in actions:
        if isinstance(action, Node) and action.node_executable == executable:
            given = evaluate_parameters(LaunchContext(), action._Node__parameters)
            found = {k: v for part in given if isinstance(part, dict) for k, v in part.items()}
    return found


OURS = 'robot_dynamics_ros'


def test_the_native_scene_in_gazebo_has_a_bridge_and_no_controller_manager(monkeypatch):
    assert scene('gazebo', monkeypatch) == [
        'ExecuteProcess',
        ('ros_gz_bridge', 'parameter_bridge'),
        (OURS, 'controller'),
        (OURS, 'gazebo_robot'),
        (OURS, 'trajectory'),
        'RegisterEventHandler',
    ]


def test_through_ros2_control_states_are_spawned_and_efforts_follow_the_controller(monkeypatch):
    found = scene('gazebo', monkeypatch, interface='ros2_control', rviz='true', record='true')
    assert found == [
        'ExecuteProcess',
        ('ros_gz_bridge', 'parameter_bridge'),  # the clock
        (OURS, 'controller'),
        (OURS, 'gazebo_robot'),
        ('robot_state_publisher', 'robot_state_publisher'),
        ('robot_state_publisher', 'robot_state_publisher'),  # of the ghost
        ('tf2_ros', 'static_transform_publisher'),
        ('rviz2', 'rviz2'),
        ('controller_manager', 'spawner'),  # joint_state_broadcaster
        'RegisterEventHandler',  # gazebo_robot ended: the controller is active; effort_controller
        (OURS, 'trajectory'),
        (OURS, 'recorder'),
        'RegisterEventHandler',
    ]


@pytest.mark.parametrize(
    ('law', 'program', 'moves'),
    [
        ('computed_torque', '', True),
        ('pd_gravity', '', True),
        ('gravity_compensation', '', False),
        ('hand_guiding', '', False),
        ('constraint_stabilization', '', True),
        ('constraint_stabilization', 'scara_circle', False),
    ],
)
def test_a_motion_is_sent_to_laws_that_follow_one(monkeypatch, law, program, moves):
    found = scene('gazebo', monkeypatch, law=law, program=program)
    assert ((OURS, 'trajectory') in found) == moves


def test_a_second_robot_starts_no_second_world(monkeypatch):
    found = scene('gazebo', monkeypatch, start_world='false', namespace='right', prefix='right_')
    assert 'ExecuteProcess' not in found
    assert found[-1] == 'RegisterEventHandler', 'somebody watches over its processes'


def test_in_a_gazebo_that_runs_an_arm_waits_for_its_controller_and_has_a_clock(monkeypatch):
    actions = executed('gazebo', monkeypatch, start_world='false')
    assert parameters_of(actions, 'gazebo_robot')['pause_first']
    bridge = Path(parameters_of(actions, 'parameter_bridge')['config_file'])
    assert '/clock' in {e['ros_topic_name'] for e in yaml.safe_load(bridge.read_text('utf-8'))}


def test_in_lockstep_the_bridge_carries_no_forces_and_time_waits_for_commands(monkeypatch):
    pytest.importorskip('launch_ros', reason='launch is not installed')
    from robot_dynamics_ros.ros import gazebo_world

    monkeypatch.setattr(gazebo_world, 'bindings', lambda: ('gz.transport', 'gz.msgs'))
    actions = executed('gazebo', monkeypatch, lockstep='true')
    bridge = Path(parameters_of(actions, 'parameter_bridge')['config_file'])
    carried = {e['direction'] for e in yaml.safe_load(bridge.read_text('utf-8'))}
    assert carried == {'GZ_TO_ROS'}
    robot = parameters_of(actions, 'gazebo_robot')
    assert (robot['lockstep'], robot['step_ns'], robot['unpause']) == (True, 1_000_000, 'ready')
    assert robot['await_motion']
    still = executed('gazebo', monkeypatch, lockstep='true', motion='false')
    assert not parameters_of(still, 'gazebo_robot')['await_motion'], 'nobody would send one'
    controller = parameters_of(actions, 'controller')
    assert controller['state_timeout_s'] > 30.0, 'time waits'
    assert kept_commands(controller) == {f'/joint{i}/cmd_force': 2000 for i in range(1, 5)}


def kept_commands(controller: dict) -> dict[str, int]:
    """Return how many commands a controller keeps for a recorder, by topic."""
    return {
        name.removeprefix('qos_overrides.').removesuffix('.publisher.depth'): depth
        for name, depth in controller.items()
        if name.startswith('qos_overrides.')
    }


@pytest.mark.parametrize(('namespace', 'topic'), [('', ''), ('left', '/left'), ('/a/b', '/a/b')])
def test_in_lockstep_a_recorder_that_is_held_up_loses_no_command(monkeypatch, namespace, topic):
    given = {'namespace': namespace, 'mode': 'lockstep'}
    controller = parameters_of(executed('simulation', monkeypatch, **given), 'controller')
    assert kept_commands(controller) == {f'{topic}/effort_controller/commands': 2000}
    given['mode'] = 'real_time'
    controller = parameters_of(executed('simulation', monkeypatch, **given), 'controller')
    assert kept_commands(controller) == {}


@pytest.mark.parametrize(
    ('given', 'problem'),
    [
        ({'interface': 'ros2_control'}, 'lockstep: needs interface:=native'),
        ({'start_world': 'false'}, 'lockstep: needs start_world:=true'),
    ],
)
def test_lockstep_is_refused_where_somebody_else_lets_time_run(monkeypatch, given, problem):
    pytest.importorskip('launch_ros', reason='launch is not installed')
    from robot_dynamics_ros.errors import ConfigurationError

    with pytest.raises(ConfigurationError, match=problem):
        executed('gazebo', monkeypatch, lockstep='true', **given)


@pytest.mark.parametrize('simulator', ['gazebo', 'mujoco'])
def test_two_robots_hand_world_and_parameters_on(monkeypatch, simulator):
    pytest.importorskip('launch_ros', reason='launch is not installed')
    from launch.actions import IncludeLaunchDescription

    given = {'world': 'slow.sdf', 'gz_args': '-v 4', 'params_file': 'both.yaml'}
    groups = executed('two_robots', monkeypatch, simulator=simulator, **given)
    for group in groups:
        parts = group.get_sub_entities()
        (include,) = [part for part in parts if isinstance(part, IncludeLaunchDescription)]
        handed = dict(include.launch_arguments)
        kept = given if simulator == 'gazebo' else {'params_file': 'both.yaml'}
        assert {key: handed[key] for key in kept} == kept


# A real arm ------------------------------------------------------------------------------------

HANDLER = 'RegisterEventHandler'
ALL_OF_IT = {'motion': 'true', 'record': 'true', 'emulator': 'true'}


def test_the_monitor_stage_starts_nothing_that_commands(monkeypatch):
    assert scene('hardware', monkeypatch) == ['LogInfo', (OURS, 'monitor'), HANDLER]
    found = scene('hardware', monkeypatch, **ALL_OF_IT, rviz='true')
    assert (OURS, 'controller') not in found
    assert (OURS, 'trajectory') not in found
    assert found[-1] == HANDLER, 'somebody watches over its processes'


@pytest.mark.parametrize(
    ('stage', 'law', 'part', 'speed'),
    [
        ('gravity', 'gravity_compensation', 0.3, None),
        ('slow', 'pd_gravity', 0.5, 0.25),
        ('full', 'pd_gravity', 1.0, 1.0),
    ],
)
def test_a_stage_decides_law_limits_and_speed(monkeypatch, stage, law, part, speed):
    given = {'stage': stage, 'law': 'pd_gravity', **ALL_OF_IT}
    actions = executed('hardware', monkeypatch, **given)
    controller = parameters_of(actions, 'controller')
    assert (controller['law'], controller['effort_scale']) == (law, part)
    assert controller['driver_profile'] == 'generic_ros2_control'
    assert controller['discretization'] == 'zero_order'
    assert not controller['use_sim_time']
    assert parameters_of(actions, 'driver_emulator')['mode'] == 'real_time'
    motion = parameters_of(actions, 'trajectory')
    assert motion.get('speed_scale') == speed
    assert motion.get('sample_rate') == (speed and 25.0)
    given['params_file'] = str(PROJECT / 'config' / 'scara.yaml')  # as if it were one's own
    assert 'sample_rate' not in parameters_of(
        executed('hardware', monkeypatch, **given), 'trajectory'
    )


def test_without_being_told_to_move_an_arm_is_held(monkeypatch):
    for stage in ('gravity', 'slow', 'full'):
        found = scene('hardware', monkeypatch, stage=stage)
        assert found == ['LogInfo', (OURS, 'controller'), HANDLER]


def test_a_profile_without_efforts_is_compared_by_its_commands(monkeypatch, tmp_path):
    profile = tmp_path / 'mute.yaml'
    profile.write_text('{name: mute, command: {topic: "{joint}/c", form: per_joint}}')
    given = {'driver_profile': str(profile), 'monitor': 'true', 'record': 'true'}
    actions = executed('hardware', monkeypatch, stage='slow', **given)
    assert parameters_of(actions, 'monitor')['effort_source'] == 'reference'
    topics = parameters_of(actions, 'recorder')['extra_topics']
    assert topics == tuple(f'joint{i}/c std_msgs/msg/Float64' for i in range(1, 5))


@pytest.mark.parametrize(
    ('given', 'problem'),
    [
        ({'driver_profile': 'nobody'}, 'is not a file; give a path, or the name of a shipped one'),
        ({'description': 'no.urdf'}, 'no.urdf'),
        ({'mappings': 'left'}, "'left' has no :=; write NAME:=VALUE"),
        ({'stage': 'slow', 'effort_scale': 'half'}, "is 'half'; give a number"),
        ({'stage': 'slow', 'effort_scale': '1.5'}, 'must be above 0, at most 1'),
        ({'stage': 'gravity', 'effort_scale': '0.05'}, "of joint 'joint3'; write effort_scale:="),
        (
            {'stage': 'slow', 'law': 'constraint_stabilization', 'program': 'scara_circle'},
            'cannot be slowed down in stage slow; leave it out until full',
        ),
        ({'params_file': 'no.yaml'}, "params_file 'no.yaml': no such file"),
        ({'params_file': str(PROJECT / 'config' / 'drivers' / 'ur.yaml')}, 'no section of a node'),
    ],
)
def test_what_an_arm_must_not_be_started_with_is_refused(monkeypatch, given, problem):
    pytest.importorskip('launch_ros', reason='launch is not installed')
    from robot_dynamics_ros.errors import RobotDynamicsError

    with pytest.raises(RobotDynamicsError) as refused:
        scene('hardware', monkeypatch, **given)
    assert problem in str(refused.value)


def test_an_arm_of_a_file_wants_to_be_told_its_motion(monkeypatch):
    pytest.importorskip('launch_ros', reason='launch is not installed')
    from robot_dynamics_ros.errors import ConfigurationError

    arm = {'description': str(PROJECT / 'urdf' / 'scara.urdf.xacro'), 'stage': 'full'}
    actions = executed('hardware', monkeypatch, **arm, mappings='prefix:=left_')
    urdf = parameters_of(actions, 'controller')['robot_description']
    assert 'name="left_joint1"' in urdf
    with pytest.raises(ConfigurationError, match='write params_file:=FILE'):
        scene('hardware', monkeypatch, **arm, motion='true')


@pytest.mark.parametrize('name', ['simulation', 'gazebo'])
def test_a_xacro_file_gets_its_arguments_in_every_simulation(monkeypatch, name):
    pytest.importorskip('launch_ros', reason='launch is not installed')
    from robot_dynamics_ros.errors import ConfigurationError

    file = str(PROJECT / 'urdf' / 'four_dof.urdf.xacro')
    actions = executed(name, monkeypatch, description=file, mappings='limits_profile:=wide')
    given = parameters_of(actions, 'controller')
    text = given.get('robot_description') or Path(given['robot']).read_text('utf-8')
    planned = load_robot(text)
    wide = load_robot(file, mappings={'limits_profile': 'wide'})
    assert (planned.position_upper == wide.position_upper).all()
    assert (planned.position_upper != load_robot(file).position_upper).any()
    with pytest.raises(ConfigurationError, match='are for a xacro file'):
        executed(name, monkeypatch, description='own/parameters.yaml', mappings='a:=b')


def test_an_arm_of_ones_own_is_simulated_in_gazebo_and_mujoco(monkeypatch, tmp_path):
    pytest.importorskip('launch_ros', reason='launch is not installed')
    from robot_dynamics_ros.__main__ import main
    from robot_dynamics_ros.errors import ConfigurationError

    assert main(['new_robot', 'four_dof', 'limits_profile:=wide', '--out', str(tmp_path)]) == 0
    own = {'description': str(tmp_path / 'parameters.yaml')}
    for name in ('gazebo', 'simulation'):
        assert scene(name, monkeypatch, **own) == scene(name, monkeypatch, robot='four_dof')
    actions = executed('gazebo', monkeypatch, **own)
    bridge = Path(parameters_of(actions, 'parameter_bridge')['config_file'])
    assert bridge.read_text('utf-8') == (tmp_path / 'ros_gz_bridge.yaml').read_text('utf-8')
    assert parameters_of(actions, 'gazebo_robot')['model'] == 'four_dof'
    assert 'ApplyJointForce' in parameters_of(actions, 'controller')['robot_description']
    actions = executed('simulation', monkeypatch, **own)
    assert parameters_of(actions, 'simulator')['robot'] == str(tmp_path / 'robot.urdf')
    given = {**own, 'stage': 'full', 'motion': 'true'}
    given['driver_profile'] = str(tmp_path / 'driver.yaml')
    controller = parameters_of(executed('hardware', monkeypatch, **given), 'controller')
    assert controller['discretization'] == 'zero_order'
    with pytest.raises(ConfigurationError, match='prefix: is for shipped arms'):
        scene('gazebo', monkeypatch, **own, prefix='left_')


def test_an_arm_on_a_wall_hangs_there_in_gazebo_and_on_its_drives(monkeypatch, tmp_path):
    """Its base's x axis points up: gravity is along -x."""
    pytest.importorskip('launch_ros', reason='launch is not installed')
    from robot_dynamics_ros.__main__ import main
    from robot_dynamics_ros.errors import ConfigurationError

    own = {'description': str(tmp_path / 'parameters.yaml')}
    words = ['new_robot', 'scara', '--out', str(tmp_path), '--gravity']
    assert main([*words, '-9.81', '0', '0']) == 0
    actions = executed('gazebo', monkeypatch, **own, yaw='0.5')
    pose = parameters_of(actions, 'gazebo_robot')['pose']
    turned = Rotation.from_euler('xyz', pose[3:]).apply([-9.81, 0.0, 0.0])
    assert turned == pytest.approx([0.0, 0.0, -9.81])
    with pytest.raises(
        ConfigurationError, match="gravity alone needs 0.40 of that of joint 'joint1'"
    ):
        scene('hardware', monkeypatch, **own, stage='gravity')
    assert main([*words, '0', '0', '-1.62', '--force']) == 0
    with pytest.raises(ConfigurationError, match=r'is 1.62 m/s\^2, of the world 9.81'):
        executed('gazebo', monkeypatch, **own)


# Parameter files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('executable', 'code', 'fails'),
    [('recorder', 1, True), ('recorder', 0, False), ('rviz2', -2, False)],
)
def test_a_node_that_fails_while_a_launch_ends_fails_the_launch(executable, code, fails):
    """A recorder that has lost messages ends with 1 on Ctrl-C; launch returned 0."""
    pytest.importorskip('launch_ros', reason='launch is not installed')
    from launch_ros.actions import Node

    from robot_dynamics_ros.errors import SceneError
    from robot_dynamics_ros.ros.launching import PACKAGE, supervised

    package = PACKAGE if executable == 'recorder' else executable
    node = Node(package=package, executable=executable)
    *_, handler = supervised([node])
    on_exit = handler.event_handler._OnActionEventBase__on_event
    event = SimpleNamespace(action=node, returncode=code, process_name=executable)
    ending = SimpleNamespace(is_shutdown=True)
    if not fails:
        assert on_exit(event, ending) == []
        return
    with pytest.raises(SceneError, match='recorder ended with 1'):
        on_exit(event, ending)


def test_an_emulated_driver_has_no_parameter_that_its_profile_decides():
    emulated = {one.name for one in declared_parameters('driver_emulator')}
    assert {'torque_ripple', 'noise_seed', 'payload_mass'} <= emulated
    assert not emulated & {'period', 'joints', 'command_form', 'law'}


@pytest.mark.parametrize('robot', PARAMETER_FILES)
def test_a_parameter_file_sets_only_what_is_declared_to_values_that_are_allowed(
    robot, executables
):
    content = yaml.safe_load((PROJECT / 'config' / f'{robot}.yaml').read_text(encoding='utf-8'))
    for key, section in content.items():
        node = key.removeprefix('/**/')
        assert key == f'/**/{node}', 'a parameter file must hold in any namespace'
        assert node in executables
        given = {**section['ros__parameters']}
        given.pop('use_sim_time', None)
        require_known(declared_parameters(node), given, f'parameter of {node}')
        assert checked(declared_parameters(node), given) == given


def test_the_controllers_period_is_that_of_every_other_clock():
    for robot in PARAMETER_FILES:
        content = yaml.safe_load((PROJECT / 'config' / f'{robot}.yaml').read_text('utf-8'))
        periods = {
            section['ros__parameters']['period']
            for section in content.values()
            if 'period' in section['ros__parameters']
        }
        assert periods == {0.001}


# Views -------------------------------------------------------------------------------------------


def test_the_rviz_configuration_shows_the_description_that_is_published():
    content = yaml.safe_load((PROJECT / 'config' / 'robot.rviz').read_text(encoding='utf-8'))
    displays = content['Visualization Manager']['Displays']
    shown = [d for d in displays if d['Class'] == 'rviz_default_plugins/RobotModel']
    for model in shown:
        topic = model['Description Topic']
        assert topic['Value'] == 'robot_description', 'relative, to follow the namespace'
        assert topic['Durability Policy'] == 'Transient Local'
    assert [model.get('TF Prefix', '') for model in shown] == ['', 'reference']
    assert shown[1]['Alpha'] < shown[0]['Alpha']
    assert content['Visualization Manager']['Global Options']['Fixed Frame'] == 'world'


def test_the_ghost_of_rviz_has_frames_at_the_reference_of_the_controller(monkeypatch):
    actions = executed('simulation', monkeypatch, rviz='true', namespace='left')
    from launch import LaunchContext
    from launch_ros.actions import Node
    from launch_ros.utilities import evaluate_parameters

    context, nodes = LaunchContext(), [x for x in actions if isinstance(x, Node)]
    arm, ghost = (x for x in nodes if x.node_executable == 'robot_state_publisher')
    (given,) = evaluate_parameters(context, ghost._Node__parameters)
    assert given['frame_prefix'] == 'reference/'

    def names(node: Node) -> dict[str, str]:
        pairs = node._Node__remappings
        return {old[0].perform(context): new[0].perform(context) for old, new in pairs}

    assert names(ghost)['joint_states'] == 'controller/reference'
    assert names(ghost)['robot_description'] != 'robot_description', 'that of the arm'
    assert not names(arm).keys() & {'joint_states', 'robot_description'}
    (base,) = (x for x in nodes if x.node_executable == 'static_transform_publisher')
    words = [word if isinstance(word, str) else word[0].perform(context) for word in base.cmd[1:5]]
    assert words == ['--frame-id', 'world', '--child-frame-id', 'reference/world']


def test_moveit_is_told_where_the_action_of_the_shipped_arms_is():
    content = yaml.safe_load((PROJECT / 'config' / 'moveit_controllers.yaml').read_text('utf-8'))
    manager = content[content['moveit_controller_manager'].split('/')[0]]
    (name,) = manager['controller_names']
    assert name in NODES
    source = (PROJECT / 'robot_dynamics_ros/ros/controller/trajectory_action.py').read_text(
        'utf-8'
    )
    assert f"'~/{manager[name]['action_ns']}'" in source
    for robot in ('scara', 'four_dof'):
        assert list(sample(robot).tree.joint_names) == manager[name]['joints']


# Installation ------------------------------------------------------------------------------------


def test_every_executable_has_a_node(executables):
    assert set(executables) == set(NODES)
    assert set(executables.values()) == {'robot_dynamics_ros.ros.executables'}
    for place, _ in NODES.values():
        module, _, name = place.partition(':')
        file = PROJECT.joinpath('robot_dynamics_ros', 'ros', *module.split('.')).with_suffix('.py')
        classes = [n.name for n in tree_of(file).body if isinstance(n, ast.ClassDef)]
        assert name in classes


def test_the_package_depends_on_every_package_its_launch_files_import():
    tags = ElementTree.parse(PROJECT / 'package.xml').getroot().iter('exec_depend')
    depends = {tag.text for tag in tags}
    assert depends >= {'ament_index_python', 'launch', 'launch_ros', 'xacro', 'python3-yaml'}
