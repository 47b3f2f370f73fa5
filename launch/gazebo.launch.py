# SPDX-License-Identifier: Apache-2.0
"""Simulate any arm in Gazebo under a control law that follows a motion.

Gazebo starts paused; the arm is inserted, its controller is activated, then time starts. Native:
Gazebo's own systems behind ros_gz_bridge. ros2_control: gz_ros2_control with effort commands.
With ``lockstep`` gazebo_robot forwards the forces, and each command triggers one step.
"""

from launch.actions import RegisterEventHandler
from launch.event_handlers import OnProcessExit
from launch_ros.actions import Node

from robot_dynamics_ros.cli.new_robot import BRIDGE, URDF, described
from robot_dynamics_ros.cli.new_robot import ROS2_CONTROL as CONTROLLERS
from robot_dynamics_ros.description.shipped import share_directory, shipped_robot
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.ros import gazebo_launching, gazebo_lockstep, launching
from robot_dynamics_ros.ros.gazebo_files import bridge_entries, gazebo_description, model_name
from robot_dynamics_ros.ros.launching import SWITCH, Argument, package_node
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

SHARE = share_directory()
ROS2_CONTROL = (
    'gz_ros2_control',
    'controller_manager',
    'joint_state_broadcaster',
    'forward_command_controller',
    'robot_state_publisher',
)

ARGUMENTS = (
    launching.ROBOT,
    launching.DESCRIPTION,
    launching.MAPPINGS,
    launching.LAW,
    launching.PROGRAM,
    Argument(
        'interface',
        'native',
        "Interface for states and efforts: Gazebo's own systems, or gz_ros2_control.",
        ('native', 'ros2_control'),
    ),
    Argument(
        'coulomb_friction',
        'true',
        'Whether the joints have Coulomb friction; DART makes it stronger than in the URDF.',
        SWITCH,
    ),
    Argument('motion', 'true', 'Whether to send the motion of the parameter file.', SWITCH),
    launching.GUI,
    launching.MONITOR,
    launching.VIEW,
    launching.RVIZ,
    launching.RECORD,
    launching.BAG,
    launching.NAMESPACE,
    launching.PREFIX,
    Argument('x', '0.0', 'Position of the arm in the world, m.'),
    Argument('y', '0.0', 'Position of the arm in the world, m.'),
    Argument('z', '0.0', 'Position of the arm in the world, m.'),
    Argument('yaw', '0.0', 'Rotation of the arm about the vertical, rad.'),
    Argument('world', str(SHARE / 'worlds' / 'arm.sdf'), 'SDF file of the world.'),
    Argument(
        'start_world',
        'true',
        'Whether to start Gazebo; false: use a running Gazebo, paused until the controller '
        'holds the arm.',
        SWITCH,
    ),
    Argument(
        'clock',
        'true',
        "Whether to bridge Gazebo's clock, in a namespace to its own; false: already bridged.",
        SWITCH,
    ),
    Argument(
        'wait_for',
        'controller',
        'Controllers, separated by commas, that must be active before time starts; empty: this '
        'launch does not start it.',
    ),
    Argument(
        'lockstep',
        'false',
        'Whether each command triggers one step of the world, so that results do not depend on '
        'the load; prints the real-time factor.',
        SWITCH,
    ),
    launching.GZ_ARGS,
    launching.PARAMS_FILE,
    launching.LOG_LEVEL,
)


def actions(chosen):
    """Return Gazebo, bridge and nodes; the launch ends with Gazebo or the controller."""
    gazebo_launching.require_gazebo()
    _choose_robot(chosen)
    native = chosen.interface == 'native'
    if chosen.lockstep:
        _require_lockstep(chosen)
    urdf = _description(chosen)
    world = [gazebo_launching.gazebo_server(chosen)] if chosen.start_world else []
    chosen.remappings = launching.own_clock(chosen) if native else []
    controller = _controller(chosen, urdf)
    carried, clock = (chosen.bridge if native else ''), chosen.clock
    monitored = _robot_parameters(urdf) | {'acceleration': 'filtered'}
    extra = {'extra_topics': list(map(' '.join, _forces(chosen).items())) if native else ['']}
    nodes = [
        *world,
        *gazebo_launching.gazebo_bridge(
            chosen,
            carried,
            chosen.prefix,
            clock=clock,
            forces=not chosen.lockstep,
            remappings=chosen.remappings,
        ),
        controller,
        *(_native(chosen, urdf) if native else _ros2_control(chosen, urdf)),
        *_motion(chosen, urdf),
        *launching.monitor(chosen, monitored, chosen.remappings),
        *launching.recorder(chosen, extra, chosen.remappings),
        *launching.viewer(chosen),
    ]
    return launching.supervised(nodes, *world, controller)


def _choose_robot(chosen):
    """Set the robot's tree (None: shipped), folder, bridge file and model name in the world.

    Raises:
        ConfigurationError: A prefix is given with a description, which defines its own names.
    """
    chosen.tree, chosen.folder, chosen.bridge = None, None, chosen.robot
    if not chosen.description:
        return
    if chosen.prefix:
        raise ConfigurationError('prefix', 'is for shipped arms', 'write it into the description')
    file = described(chosen.description, launching.mappings(chosen))
    chosen.folder, chosen.bridge = file.parent, str(file.with_name(BRIDGE))
    chosen.tree = load_robot(file.with_name(URDF))
    chosen.robot = model_name(chosen.tree)
    chosen.params_file = chosen.params_file or str(file)


def _require_lockstep(chosen):
    """Check that lockstep is possible.

    Raises:
        ConfigurationError: Another process controls time, or ``wait_for`` is empty.
        MissingDependencyError: Gazebo's Python bindings are not installed.
    """
    needed = {'interface': 'native', 'start_world': True}
    for name, value in needed.items():
        if getattr(chosen, name) != value:
            problem = f'needs {name}:={str(value).lower()}'
            raise ConfigurationError('lockstep', problem, 'another process controls time')
    if not chosen.wait_for:
        raise ConfigurationError('lockstep', 'needs wait_for', 'name the controllers')
    gazebo_lockstep.bindings()


def _description(chosen):
    """Return the URDF text for Gazebo and the controller."""
    mappings = {
        'prefix': chosen.prefix,
        'gazebo': chosen.interface,
        'coulomb_friction': 'true' if chosen.coulomb_friction else 'false',
        'limits_profile': 'wide',
    }
    if chosen.interface == 'ros2_control':
        (file,) = launching.parameter_file(chosen)
        nodes = read_yaml(file, 'parameter file')
        start = nodes['/**/simulator']['ros__parameters']['initial_position']
        mappings['initial_position'] = ' '.join(map(str, start))
        mappings['controllers_file'] = _controllers_file(chosen)
        mappings['namespace'] = chosen.namespace
    if chosen.tree:
        return gazebo_description(chosen.tree, mappings)
    mappings |= launching.mappings(chosen)
    return read_description(shipped_robot(chosen.robot), mappings).xml


def _controllers_file(chosen):
    if chosen.folder:
        return str(chosen.folder / CONTROLLERS)
    return str(SHARE / 'config' / f'{chosen.robot}_ros2_control.yaml')


def _robot_parameters(urdf):
    """Return the parameters that make a node use this description instead of a shipped robot."""
    return {'robot': '', 'limits_profile': '', 'robot_description': urdf}


def _controller(chosen, urdf):
    form = 'per_joint' if chosen.interface == 'native' else 'group'
    law = launching.law(chosen, _forces(chosen) if chosen.lockstep else ())
    own = {**law, 'command_form': form}
    return package_node('controller', chosen, _robot_parameters(urdf) | own, chosen.remappings)


def _place(chosen):
    """Return name and pose of the arm in the world, and the controllers to wait for."""
    return {
        'model': f'{chosen.prefix}{chosen.robot}',
        'pose': [float(x) for x in (chosen.x, chosen.y, chosen.z, 0.0, 0.0, chosen.yaw)],
        'wait_for': chosen.wait_for.split(','),
    }


def _native(chosen, urdf):
    """Return RViz and the node that inserts the arm and resets its forces at the end."""
    robot = gazebo_launching.robot_in_world(
        chosen,
        urdf,
        **_place(chosen),
        pause_first=bool(chosen.wait_for) and not chosen.start_world,
        unpause='ready' if chosen.wait_for else 'never',
        publish_description=not chosen.rviz,
        lockstep=chosen.lockstep,
        step_ns=gazebo_lockstep.step_ns(chosen.world),
        await_motion=chosen.lockstep and _moves(chosen),
    )
    return [robot, *launching.visualization(chosen, urdf, 'world', chosen.remappings)]


def _ros2_control(chosen, urdf):
    """Return the node that inserts the arm, and the spawners.

    The controller manager uses simulated time, so time starts at once and gz_ros2_control holds
    the joints: the state broadcaster is spawned first, the effort controller after ``robot`` ends.
    """
    launching.require(ROS2_CONTROL, 'interface:=ros2_control')
    if chosen.prefix:
        raise ConfigurationError(
            'prefix', 'is for interface:=native', 'ros2_control takes its names from its YAML file'
        )
    robot = gazebo_launching.robot_in_world(
        chosen,
        urdf,
        **_place(chosen),
        unpause='at_once' if chosen.wait_for else 'never',
        publish_description=False,
        stay=False,
    )
    shown = launching.visualization(chosen, urdf, 'world')
    commands = OnProcessExit(target_action=robot, on_exit=[_spawner(chosen, 'effort_controller')])
    return [
        robot,
        *(shown or [launching.state_publisher(chosen, urdf)]),
        _spawner(chosen, 'joint_state_broadcaster'),
        RegisterEventHandler(commands),
    ]


def _spawner(chosen, controller):
    options = {
        '--controller-manager': 'controller_manager',
        '--controller-manager-timeout': '60',
        '--switch-timeout': '60',
        '--param-file': _controllers_file(chosen),
    }
    return Node(
        package='controller_manager',
        executable='spawner',
        namespace=chosen.namespace,
        output='screen',
        arguments=[controller, *(word for option in options.items() for word in option)],
    )


def _moves(chosen):
    return chosen.motion and launching.follows_motion(chosen)


def _motion(chosen, urdf):
    """Return the node that sends the motion, for laws that follow one."""
    if not _moves(chosen):
        return []
    frame = {} if chosen.tree else {'tool_frame': f'{chosen.prefix}tool'}
    parameters = _robot_parameters(urdf) | frame
    return [package_node('trajectory', chosen, parameters, chosen.remappings)]


def _forces(chosen):
    """Return the message types of the command topics, which are recorded too, by topic."""
    entries = bridge_entries(chosen.bridge, chosen.prefix)
    sent = [entry for entry in entries if entry['direction'] == 'ROS_TO_GZ']
    return {entry['ros_topic_name']: entry['ros_type_name'] for entry in sent}


def generate_launch_description():
    """Declare the arguments and the actions that use them."""
    return launching.description(ARGUMENTS, actions)
