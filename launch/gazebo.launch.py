# SPDX-License-Identifier: Apache-2.0
"""Simulate a shipped arm in Gazebo under a control law, with a motion for it to follow.

Gazebo starts paused; the arm is inserted, its controller becomes active, then time runs. Native:
Gazebo's own systems behind ros_gz_bridge. ros2_control: gz_ros2_control with effort commands.
"""

from launch.actions import RegisterEventHandler
from launch.event_handlers import OnProcessExit
from launch_ros.actions import Node

from robot_dynamics_ros.description.shipped import share_directory, shipped_robot
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.ros import launching
from robot_dynamics_ros.ros.gazebo import launching as gazebo
from robot_dynamics_ros.ros.gazebo.bridge import bridge_entries
from robot_dynamics_ros.ros.launching import SWITCH, Argument, package_node
from robot_dynamics_ros.yaml_reader import read_yaml

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
    launching.LAW,
    launching.PROGRAM,
    Argument(
        'interface',
        'native',
        "Who carries states and efforts: Gazebo's own systems, or gz_ros2_control.",
        ('native', 'ros2_control'),
    ),
    Argument(
        'coulomb_friction',
        'true',
        'Whether the joints have Coulomb friction; DART lets it act stronger than the URDF says.',
        SWITCH,
    ),
    Argument('motion', 'true', 'Whether to send the motion of the parameter file.', SWITCH),
    gazebo.GUI,
    launching.MONITOR,
    launching.RVIZ,
    launching.RECORD,
    launching.BAG,
    launching.NAMESPACE,
    launching.PREFIX,
    Argument('x', '0.0', 'Where the arm stands in the world, m.'),
    Argument('y', '0.0', 'Where the arm stands in the world, m.'),
    Argument('z', '0.0', 'Where the arm stands in the world, m.'),
    Argument('yaw', '0.0', 'How the arm is turned about the vertical, rad.'),
    Argument('world', str(SHARE / 'worlds' / 'arm.sdf'), 'SDF file of the world.'),
    Argument(
        'start_world',
        'true',
        'Whether to start Gazebo and bridge its clock; false: it runs already.',
        SWITCH,
    ),
    Argument(
        'wait_for',
        'controller',
        'Controllers, with commas between, that must be active before time runs; empty: this '
        'launch does not let it run.',
    ),
    gazebo.GZ_ARGS,
    launching.PARAMS_FILE,
    launching.LOG_LEVEL,
)


def actions(given):
    """Return Gazebo, bridge and nodes; the scene ends with Gazebo or the controller."""
    gazebo.require()
    native = given.interface == 'native'
    urdf = _description(given)
    world = [gazebo.server(given)] if given.start_world else []
    controller = _controller(given, urdf)
    carried = given.robot if native else ''
    return [
        *world,
        *gazebo.bridge(given, carried, given.prefix, clock=given.start_world),
        controller,
        *(_native(given, urdf) if native else _ros2_control(given, urdf)),
        *_motion(given, urdf),
        *launching.monitor(given, _robot_parameters(urdf) | {'acceleration': 'filtered'}),
        *launching.recorder(given, {'extra_topics': _force_topics(given) if native else ['']}),
        *launching.ends_with(*world, controller),
    ]


def _description(given):
    """Return the URDF text that Gazebo simulates and the controller computes with."""
    mappings = {
        'prefix': given.prefix,
        'gazebo': given.interface,
        'coulomb_friction': 'true' if given.coulomb_friction else 'false',
        'limits_profile': 'wide',
    }
    if given.interface == 'ros2_control':
        (file,) = launching.parameter_file(given)
        nodes = read_yaml(file, 'parameter file')
        start = nodes['/**/simulator']['ros__parameters']['initial_position']
        mappings['initial_position'] = ' '.join(map(str, start))
        mappings['controllers_file'] = _controllers_file(given)
        mappings['namespace'] = given.namespace
    return read_description(shipped_robot(given.robot), mappings).xml


def _controllers_file(given):
    return str(SHARE / 'config' / f'{given.robot}_ros2_control.yaml')


def _robot_parameters(urdf):
    """Return what makes a node take this description and no shipped robot."""
    return {'robot': '', 'limits_profile': '', 'robot_description': urdf}


def _controller(given, urdf):
    form = 'per_joint' if given.interface == 'native' else 'group'
    own = {**launching.law(given), 'command_form': form}
    return package_node('controller', given, _robot_parameters(urdf) | own)


def _place(given):
    """Return name and pose of the arm in the world, and whose activation is waited for."""
    return {
        'model': f'{given.prefix}{given.robot}',
        'pose': [float(x) for x in (given.x, given.y, given.z, 0.0, 0.0, given.yaw)],
        'wait_for': given.wait_for.split(','),
    }


def _native(given, urdf):
    """Return the arm in the world, which stays to leave no force behind, and RViz."""
    robot = gazebo.robot_in_world(
        given,
        urdf,
        **_place(given),
        unpause='ready' if given.wait_for else 'never',
        publish_description=not given.rviz,
    )
    return [robot, *launching.visualization(given, urdf, 'world')]


def _ros2_control(given, urdf):
    """Return the arm in the world and the spawners.

    The controller manager lives on simulated time, so time runs at once and gz_ros2_control holds
    the joints: states are spawned first, efforts once the controller node commands.
    """
    launching.require(ROS2_CONTROL, 'interface:=ros2_control')
    if given.prefix:
        raise ConfigurationError(
            'prefix', 'is for interface:=native', 'ros2_control takes its names from its YAML file'
        )
    robot = gazebo.robot_in_world(
        given,
        urdf,
        **_place(given),
        unpause='at_once' if given.wait_for else 'never',
        publish_description=False,
        stay=False,
    )
    shown = launching.visualization(given, urdf, 'world')
    commands = OnProcessExit(target_action=robot, on_exit=[_spawner(given, 'effort_controller')])
    return [
        robot,
        *(shown or [launching.state_publisher(given, urdf)]),
        _spawner(given, 'joint_state_broadcaster'),
        RegisterEventHandler(commands),
    ]


def _spawner(given, controller):
    options = {
        '--controller-manager': 'controller_manager',
        '--controller-manager-timeout': '60',
        '--switch-timeout': '60',
        '--param-file': _controllers_file(given),
    }
    return Node(
        package='controller_manager',
        executable='spawner',
        namespace=given.namespace,
        output='screen',
        arguments=[controller, *(word for option in options.items() for word in option)],
    )


def _motion(given, urdf):
    """Return the node that sends the motion, for the laws that follow one."""
    if not (given.motion and launching.follows_motion(given)):
        return []
    frame = {'tool_frame': f'{given.prefix}tool'}
    return [package_node('trajectory', given, _robot_parameters(urdf) | frame)]


def _force_topics(given):
    """Return what the recorder shall record besides the usual topics."""
    return [
        f'{entry["ros_topic_name"]} {entry["ros_type_name"]}'
        for entry in bridge_entries(given.robot, given.prefix)
        if entry['direction'] == 'ROS_TO_GZ'
    ]


def generate_launch_description():
    """Declare the arguments and defer to them."""
    return launching.description(ARGUMENTS, actions)
