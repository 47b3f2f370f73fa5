# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the launch files: documented arguments, nodes, supervision.

A launch file lists its arguments, and a function that turns their values into actions::

    ARGUMENTS = (Argument('robot', 'scara', 'Shipped arm.', ('scara', 'four_dof')), ...)

    def actions(args):
        return [package_node('controller', args, {'law': args.law})]

    def generate_launch_description():
        return description(ARGUMENTS, actions)
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from ament_index_python.packages import PackageNotFoundError, get_package_prefix
from launch import LaunchContext, LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    ExecuteProcess,
    LogInfo,
    OpaqueFunction,
    RegisterEventHandler,
)
from launch.event_handlers import OnProcessExit
from launch.events import Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from robot_dynamics_ros.control.laws.registry import known_laws
from robot_dynamics_ros.description.shipped import PACKAGE, ROBOTS, share_directory
from robot_dynamics_ros.errors import (
    ConfigurationError,
    MissingDependencyError,
    SceneError,
    known_name,
    nearest,
)
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.robot_parameters import assignments
from robot_dynamics_ros.model.robot_tree import STANDARD_GRAVITY
from robot_dynamics_ros.parameters import Values
from robot_dynamics_ros.ros.executables import parameter_sections, sections_of
from robot_dynamics_ros.ros.node_parameters import lockstep_parameters
from robot_dynamics_ros.yaml_reader import vector3
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

SWITCH = ('true', 'false')
#: Executables whose end does not end the scene.
_OPTIONAL = ('monitor', 'rviz2', 'robot_state_publisher', 'static_transform_publisher', 'view')
#: Arguments that launch itself takes for every process.
_OF_LAUNCH = (
    *('launch-prefix', 'launch-prefix-filter'),
    *('sigkill_timeout', 'sigterm_timeout', 'emulate_tty'),
)
SHUTDOWN_SECONDS = 10.0  # time to send the last safe command and to close a bag


class Argument(NamedTuple):
    """One argument of a launch file.

    Attributes:
        name: Name of the argument.
        default: Default value.
        description: Description, with the unit.
        choices: Allowed values; any if empty. ``SWITCH`` makes it a bool.
    """

    name: str
    default: str
    description: str
    choices: tuple[str, ...] = ()


#: Arguments shared by several launch files.
ROBOT = Argument('robot', 'scara', 'Shipped arm.', tuple(ROBOTS))
DESCRIPTION = Argument(
    'description', '', 'URDF or xacro file of your own arm, or the parameter file that new_robot '
    'wrote next to one; empty: the shipped arm given by robot.'
)  # fmt: skip
MAPPINGS = Argument(
    'mappings', '', "Arguments of the description's xacro file: NAME:=VALUE, separated by spaces."
)
ARM = (ROBOT, DESCRIPTION, MAPPINGS)
LAW = Argument('law', 'computed_torque', 'Control law.', tuple(sorted(known_laws())))
PROGRAM = Argument(
    'program', '', 'Constraint program of the law constraint_stabilization: a YAML file, or the '
    'name of one in config/programs; empty: follow the motion.'
)  # fmt: skip
PREFIX = Argument('prefix', '', "Prefix of the arm's link and joint names.")
NAMESPACE = Argument('namespace', '', 'Namespace of all nodes and topics.')
PARAMS_FILE = Argument(
    'params_file', '', 'Parameter file of the nodes; empty: config/<robot>.yaml of this package.'
)
RECORD = Argument('record', 'false', 'Record an mcap bag.', SWITCH)
BAG = Argument('bag', '', 'Folder of the bag, must not exist yet; empty: named after the time.')
MONITOR = Argument(
    'monitor',
    'false',
    'Start a second node that compares the commanded efforts with those of the model at run time.',
    SWITCH,
)
VIEW = Argument(
    'view',
    'false',
    'Show the arms in a browser on this machine; control: also allow the page to command them.',
    ('false', 'true', 'control'),
)
RVIZ = Argument('rviz', 'false', 'Show the arm in RViz.', SWITCH)
WORLD = Argument('world', str(share_directory() / 'worlds' / 'arm.sdf'), 'SDF file of the world.')
GUI = Argument('gui', 'true', "Show Gazebo's window.", SWITCH)
GZ_ARGS = Argument('gz_args', '', 'Additional arguments of gz sim, such as "-v 4".')
LOG_LEVEL = Argument(
    'log_level', 'info', 'Minimum level of log messages.', ('debug', 'info', 'warn', 'error')
)


def description(
    arguments: Sequence[Argument], actions: Callable[[SimpleNamespace], Iterable[Any]]
) -> LaunchDescription:
    """Return a launch description with these arguments.

    Args:
        arguments: Shown by ``ros2 launch ... --show-args`` in this order.
        actions: Called with the values by name (bool for a ``SWITCH``, else text) when the launch
            starts; returns the launch actions.
    """

    def begin(context: LaunchContext) -> list[Any]:
        _refuse_unknown(arguments, context)
        args = _values(arguments, context)
        started = list(actions(args))
        return [*_unread(arguments, args, started), *started]

    declared = [
        DeclareLaunchArgument(
            argument.name,
            default_value=argument.default,
            description=argument.description,
            choices=list(argument.choices) or None,
        )
        for argument in arguments
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=begin)])


def _refuse_unknown(arguments: Iterable[Argument], context: LaunchContext) -> None:
    """Refuse words of the command line that this launch file does not know; launch ignores them.

    Not if another launch file includes this one: they may be its own.

    Raises:
        UnknownNameError: One is unknown.
    """
    file = Path(context.get_locals_as_dict().get('current_launch_file_path', ''))
    named = PACKAGE in sys.argv and file.name in sys.argv
    if not named and file.resolve() not in (Path(word).resolve() for word in sys.argv):
        return
    known = [argument.name for argument in arguments]
    for word in context.argv:
        name = word.partition(':=')[0]
        if name not in _OF_LAUNCH:
            known_name('argument', name, known)


def _values(arguments: Iterable[Argument], context: LaunchContext) -> SimpleNamespace:
    """Return the arguments' values by name, no ``remappings`` and no parameters ``set`` yet."""
    values: dict[str, Any] = {}
    for argument in arguments:
        text = LaunchConfiguration(argument.name).perform(context)
        values[argument.name] = text == 'true' if argument.choices == SWITCH else text
    return SimpleNamespace(**values, remappings=[], set={})


def package_node(
    executable: str,
    args: SimpleNamespace,
    parameters: Values,
    end_s: float = SHUTDOWN_SECONDS,
) -> Node:
    """Return one of this package's nodes, named after its executable.

    Args:
        executable: Name of the executable.
        args: Launch arguments with ``namespace``, ``params_file``, ``log_level`` and ``robot``.
        parameters: Parameters that override the parameter file; strings stay strings.
        end_s: Time to end after Ctrl-C, s.
    """
    args.set.update(parameters)
    own = {
        name: ParameterValue(value, value_type=str) if isinstance(value, str) else value
        for name, value in parameters.items()
    }
    return Node(
        package=PACKAGE,
        executable=executable,
        name=executable,
        namespace=args.namespace,
        output='screen',
        parameters=[*parameter_file(args), own],
        remappings=args.remappings,
        arguments=['--ros-args', '--log-level', f'{executable}:={args.log_level}'],
        sigterm_timeout=str(end_s),
    )


def parameter_file(args: SimpleNamespace) -> list[str]:
    """Return the given parameter file, or that of the robot; an empty list without either.

    Raises:
        ConfigurationError: The file does not exist, or has no parameters of any node.
    """
    if not (args.params_file or args.robot):
        return []
    path = Path(args.params_file or share_directory() / 'config' / f'{args.robot}.yaml')
    if not path.is_file():
        raise ConfigurationError(
            f'params_file {str(path)!r}', 'no such file', 'give another, or leave it out'
        )
    if args.params_file and not parameter_sections(read_yaml(path, 'parameter file')):
        remedy = 'write /**/controller: {ros__parameters: {...}}'
        raise ConfigurationError(f'params_file {str(path)!r}', 'has no section of a node', remedy)
    return [str(path)]


def _unread(
    arguments: Iterable[Argument], args: SimpleNamespace, actions: Iterable[Any]
) -> list[LogInfo]:
    """Return messages on what has no effect in a given parameter file.

    Sections that are almost of a node which has none, and parameters of the controller that nodes
    take from arguments of the launch, whose defaults nobody may have meant.
    """
    file = Path(args.params_file)
    sections = parameter_sections(read_yaml(file, 'parameter file')) if file.is_file() else {}
    names = [name.rpartition('/')[2] for name in sections]
    own = {
        k: x for one in sections_of(sections, 'controller', args.namespace) for k, x in one.items()
    }
    texts = [
        f'{file} has no section for {node}; it has {", ".join(sections)}'
        for node in (getattr(one, 'node_executable', '') for one in actions)
        if node and nearest(node, names) and not sections_of(sections, node, args.namespace)
    ]
    texts += [
        f'{name} of {file} has no effect; the launch has an argument for it'
        for name, default, *_ in arguments
        if getattr(args, name) == default != own.get(name, default)
        and own[name] != args.set.get(name, own[name])
    ]
    return [LogInfo(msg=f'WARNING: {text}') for text in texts]


def given_parameter(args: SimpleNamespace, node: str, name: str, default: Any) -> Any:
    """Return a parameter that a node takes from the parameter file, or the default."""
    for file in parameter_file(args):
        sections = parameter_sections(read_yaml(file, 'parameter file'))
        for values in sections_of(sections, node, args.namespace):
            default = values.get(name, default)
    return default


def given_gravity(args: SimpleNamespace) -> list[float]:
    """Return the controller's gravity in the parameter file, in the arm's base frame, m/s^2.

    Raises:
        ConfigurationError: It is no vector.
    """
    gravity = given_parameter(args, 'controller', 'gravity', [*STANDARD_GRAVITY])
    return vector3('gravity', gravity)


def require_packages(packages: Iterable[str], purpose: str, bundle: str = '') -> None:
    """Check that other packages are installed.

    Args:
        packages: Names of ROS packages.
        purpose: The feature that requires them.
        bundle: Package that installs all of them; empty: each is installed separately.

    Raises:
        MissingDependencyError: One is not installed; gives the apt command.
    """
    for package in packages:
        try:
            get_package_prefix(package)
        except PackageNotFoundError as error:
            remedy = apt_command(bundle or package)
            raise MissingDependencyError(f'the package {package}', purpose, remedy) from error


def apt_command(package: str) -> str:
    """Return the command that installs a ROS package of the distribution in use."""
    distro = os.environ.get('ROS_DISTRO', '<distro>')
    return f'sudo apt install ros-{distro}-{package.replace("_", "-")}'


def xacro_mappings(args: SimpleNamespace) -> dict[str, str]:
    """Return the arguments of the description's xacro file by name.

    Raises:
        ConfigurationError: A word is not NAME:=VALUE, or the description is not a xacro file.
    """
    if args.mappings and args.description.endswith('.yaml'):
        raise ConfigurationError(
            'mappings',
            f'{args.mappings!r} are for a xacro file, not {args.description!r}',
            'leave them out',
        )
    return assignments('mappings', args.mappings.split())


def planned(args: SimpleNamespace, folder: Path) -> list[LogInfo]:
    """Return a message with the folder that was planned for a description, if it is no plan."""
    if args.description.endswith('.yaml'):
        return []
    return [LogInfo(msg=f'planned motion and gains of the arm, to copy and edit: {folder}')]


def law_parameters(args: SimpleNamespace, topics: Sequence[str] = ()) -> dict[str, Any]:
    """Return the controller parameters for the arguments ``law`` and ``program``.

    Args:
        args: Launch arguments.
        topics: Topics of the commands if the simulation runs in lockstep with them.
    """
    space = f'/{args.namespace.strip("/")}'.rstrip('/')
    lockstep = lockstep_parameters(*(f'{space}/{topic}' for topic in topics)) if topics else {}
    return {'law': args.law, 'program': args.program, **lockstep}


def follows_motion(args: SimpleNamespace) -> bool:
    """Return whether the law follows a joint reference, which it does not with its own program.

    Args:
        args: Launch arguments with ``law`` and ``program``.
    """
    has_program = args.program and args.law == 'constraint_stabilization'
    return known_laws()[args.law].follows_reference and not has_program


def recorder(args: SimpleNamespace, **parameters: Any) -> list[Node | LogInfo]:
    """Return the recorder node if ``record`` is set; it writes to ``bag``, of which alone is told.

    Raises:
        ConfigurationError: The bag already exists.
    """
    if not args.record:
        return [LogInfo(msg='bag has no effect without record:=true')] if args.bag else []
    if args.bag and Path(args.bag).exists():
        raise ConfigurationError(
            f'bag {args.bag!r}', 'exists already', 'choose another name or remove it'
        )
    return [package_node('recorder', args, {'bag': args.bag, **parameters})]


def monitor(args: SimpleNamespace, parameters: Values) -> list[Node]:
    """Return the monitor node, which compares the controller's commands, if ``monitor`` is set."""
    if not args.monitor:
        return []
    source = {'effort_source': 'reference', 'use_sim_time': True}
    return [package_node('monitor', args, {**source, **parameters})]


def viewer(args: SimpleNamespace, **parameters: Any) -> list[Node]:
    """Return the viewer node unless ``view`` is 'false'.

    Raises:
        MissingDependencyError: viser is not installed.
    """
    if args.view == 'false':
        return []
    if importlib.util.find_spec('viser') is None:
        raise MissingDependencyError('viser', 'view:=true', 'pip install viser')
    control = {'control': args.view == 'control'}
    return [package_node('view', args, {**control, **parameters})]


def visualization(
    args: SimpleNamespace, robot_description: str, *, sim_time: bool = True
) -> list[Node]:
    """Return RViz and what publishes the frames of the arm and of its ghost, if ``rviz`` is set.

    The ghost, in the frames ``reference/<link>``, is the arm at the controller's reference. The
    root link is the fixed frame of RViz.

    Args:
        args: Launch arguments with ``rviz`` and ``namespace``.
        robot_description: URDF text.
        sim_time: Whether to use the time of the topic clock.

    Raises:
        MissingDependencyError: One is not installed.
    """
    if not args.rviz:
        return []
    require_packages(('robot_state_publisher', 'rviz2', 'tf2_ros'), 'rviz:=true')
    root = load_robot(robot_description, effort_limit=1.0).base_link
    return [
        state_publisher(args, robot_description, sim_time=sim_time),
        state_publisher(args, robot_description, 'reference', sim_time=sim_time),
        Node(
            package='tf2_ros',
            executable='static_transform_publisher',
            name='reference_base',
            namespace=args.namespace,
            arguments=['--frame-id', root, '--child-frame-id', f'reference/{root}'],
        ),
        Node(
            package='rviz2',
            executable='rviz2',
            namespace=args.namespace,
            parameters=[{'use_sim_time': sim_time}],
            remappings=args.remappings,
            arguments=['-d', str(share_directory() / 'config' / 'robot.rviz'), '-f', root],
        ),
    ]


def state_publisher(
    args: SimpleNamespace, robot_description: str, ghost: str = '', *, sim_time: bool = True
) -> Node:
    """Return robot_state_publisher, which publishes tf and robot_description.

    Args:
        args: Launch arguments with ``namespace``.
        robot_description: URDF text.
        ghost: Topic of the controller with the joints of a ghost, which is also the prefix of its
            frames; empty: the arm itself.
        sim_time: Whether to use the time of the topic clock.
    """
    text = ParameterValue(robot_description, value_type=str)
    topics = ('joint_states', f'controller/{ghost}'), ('robot_description', f'{ghost}/description')
    return Node(
        package='robot_state_publisher',
        executable='robot_state_publisher',
        name=f'{ghost}_state_publisher' if ghost else None,
        namespace=args.namespace,
        output='screen',
        parameters=[
            {
                'robot_description': text,
                'use_sim_time': sim_time,
                'frame_prefix': f'{ghost}/' if ghost else '',
            }
        ],
        remappings=[*topics, *args.remappings] if ghost else args.remappings,
    )


def supervised(actions: Sequence[Any], *essential: Any, optional: Sequence[str] = ()) -> list[Any]:
    """Return the actions of a scene and the supervision of their processes.

    If a process fails, the scene ends and ``ros2 launch`` returns 1. The other processes are shut
    down, and the controller sends its last safe command. It also returns 1 if one of our nodes
    fails while it ends, such as a recorder that has lost messages.

    Args:
        actions: Processes and other actions.
        essential: Processes whose normal exit also ends the scene.
        optional: Executables whose end is only logged, in addition to those that only display or
            compare.
    """
    processes = [action for action in actions if isinstance(action, ExecuteProcess)]

    def on_exit(event: Any, context: LaunchContext) -> list[Any]:
        if event.action not in processes:
            return []
        end = f'{event.process_name} ended with {event.returncode}'
        own = getattr(event.action, 'node_package', '') == PACKAGE
        if context.is_shutdown:  # a failure of ours, such as a recorder's loss, is the launch's
            return _end_of_scene(end, event.returncode) if own and event.returncode > 0 else []
        is_optional = getattr(event.action, 'node_executable', '') in (*_OPTIONAL, *optional)
        if event.action in essential or (event.returncode and not is_optional):
            return _end_of_scene(end, event.returncode)
        lost = LogInfo(msg=f'lost: {end}; the scene continues without it')
        return [lost] if event.returncode else []

    return [*actions, RegisterEventHandler(OnProcessExit(on_exit=on_exit))]


def _end_of_scene(reason: str, code: int) -> list[Any]:
    """Return the actions that end a scene normally.

    Raises:
        SceneError: The exit code is not 0; launch then ends the scene and returns 1.
    """
    if code:
        raise SceneError('the scene ends:', reason, 'see its last log lines')
    return [LogInfo(msg=f'the scene ends: {reason}'), EmitEvent(event=Shutdown(reason=reason))]


def remapped(args: SimpleNamespace, *names: tuple[str, str]) -> SimpleNamespace:
    """Return the launch arguments for nodes with further names replaced, as pairs."""
    return SimpleNamespace(**vars(args) | {'remappings': [*args.remappings, *names]})


def with_own_clock(args: SimpleNamespace) -> SimpleNamespace:
    """Return the launch arguments for nodes with the clock of their namespace, if there is one."""
    return remapped(args, ('/clock', 'clock')) if args.namespace else args
