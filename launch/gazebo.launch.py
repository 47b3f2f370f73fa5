# SPDX-License-Identifier: Apache-2.0
"""Simulate any arm in Gazebo under a control law that follows a motion.

Gazebo starts paused; the arm is inserted, its controller is activated, then time starts. Native:
Gazebo's own systems behind ros_gz_bridge. ros2_control: gz_ros2_control with effort commands.
With ``lockstep`` gazebo_robot forwards the forces, and each command triggers one step.
"""

import math

import numpy as np
from launch.actions import RegisterEventHandler
from launch.event_handlers import OnProcessExit
from launch_ros.actions import Node

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.cli.new_robot import ROS2_CONTROL as CONTROLLERS
from robot_dynamics_ros.cli.new_robot import described, robot_of_folder
from robot_dynamics_ros.control.topics import force_topics
from robot_dynamics_ros.description.shipped import share_directory, shipped_robot, wide_limits
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.parameters import checked, spread
from robot_dynamics_ros.ros import gazebo_files, gazebo_world, launching
from robot_dynamics_ros.ros.launching import SWITCH, Argument, package_node
from robot_dynamics_ros.ros.node_parameters import PLANT
from robot_dynamics_ros.spatial.rotation import roll_pitch_upright

SHARE = share_directory()
_GRAVITY, _TOLERANCE = 9.81, 0.02  # m/s^2: of worlds/arm.sdf; Gazebo's own default is 9.8
ROS2_CONTROL = (
    'gz_ros2_control',
    'controller_manager',
    'joint_state_broadcaster',
    'forward_command_controller',
    'robot_state_publisher',
)

ARGUMENTS = (
    *launching.ARM,
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
    *(Argument(axis, '0.0', 'Position of the arm in the world, m.') for axis in 'xyz'),
    Argument('yaw', '0.0', 'Rotation of the arm about the vertical, rad.'),
    launching.WORLD,
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


def actions(args):
    """Return Gazebo, bridge and nodes; the launch ends with Gazebo or the controller."""
    gazebo_files.require_gazebo()
    _choose_robot(args)
    native = args.interface == 'native'
    if args.lockstep:
        _require_lockstep(args)
    urdf = _description(args)
    joints = (args.tree or load_robot(urdf)).joint_names
    forces = force_topics(joints) if native else []
    world = [gazebo_files.gazebo_server(args)] if args.start_world else []
    args = launching.with_own_clock(args) if native else args
    controller = _controller(args, urdf, forces)
    monitored = _robot_parameters(urdf) | {'acceleration': 'filtered'}
    extra = [f'{topic} std_msgs/msg/Float64' for topic in forces] or ['']
    bridged = gazebo_files.bridge_entries(
        joints if native else (),
        f'{args.prefix}{args.model}',
        clock=args.clock,
        forces=not args.lockstep,
    )
    nodes = [
        *(launching.planned(args, args.folder) if args.folder else []),
        *world,
        *gazebo_files.gazebo_bridge(args, bridged),
        controller,
        *(_native(args, urdf) if native else _ros2_control(args, urdf)),
        *_motion(args, urdf),
        *launching.monitor(args, monitored),
        *launching.recorder(args, extra_topics=extra),
        *launching.viewer(args),
    ]
    return launching.supervised(nodes, *world, controller)


def _choose_robot(args):
    """Set the robot's tree (None: shipped), folder and model name in the world.

    Raises:
        ConfigurationError: A prefix is given with a description, which defines its own names; or
            the robot has closed loops.
    """
    args.tree, args.folder, args.model = None, None, args.robot
    if not args.description:
        return
    if args.prefix:
        raise ConfigurationError('prefix', 'is for shipped arms', 'write it into the description')
    file = described(args.description, launching.xacro_mappings(args))
    args.folder = file.parent
    args.params_file = args.params_file or str(file)
    gazebo_files.refuse_loops(launching.given_parameter(args, 'controller', 'loops', ''))
    args.tree = robot_of_folder(file.parent)
    args.robot, args.model = '', gazebo_files.model_name(args.tree)


def _require_lockstep(args):
    """Check that lockstep is possible.

    Raises:
        ConfigurationError: Another process controls time, or ``wait_for`` is empty.
        MissingDependencyError: Gazebo's Python bindings are not installed.
    """
    required = {'interface': 'native', 'start_world': True}
    for name, value in required.items():
        if getattr(args, name) != value:
            problem = f'needs {name}:={str(value).lower()}'
            raise ConfigurationError('lockstep', problem, 'another process controls time')
    if not args.wait_for:
        raise ConfigurationError('lockstep', 'needs wait_for', 'name the controllers')
    gazebo_world.bindings()


def _description(args):
    """Return the URDF text for Gazebo and the controller."""
    mappings = {
        'prefix': args.prefix,
        'gazebo': args.interface,
        'coulomb_friction': 'true' if args.coulomb_friction else 'false',
    }
    if args.interface == 'ros2_control':
        mappings['initial_position'] = ' '.join(map(str, _start(args)))
        mappings['controllers_file'] = _controllers_file(args)
        mappings['namespace'] = args.namespace
    if args.tree:
        return gazebo_files.gazebo_description(args.tree, mappings)
    mappings |= wide_limits(args.robot) | launching.xacro_mappings(args)
    return read_description(shipped_robot(args.robot), mappings).xml


def _initial_position(args):
    """Return where the joints of an arm of your own start; shipped arms start at 0."""
    if not (args.tree and (start := _start(args))):
        return ['']
    positions = args.tree.positions(np.array(start))
    each = zip(args.tree.body_joints, positions.tolist(), strict=True)
    return [f'{name}:={position!r}' for name, position in each]


def _start(args):
    """Return where the joints start by the parameter file, rad or m; empty: at 0.

    Raises:
        ParameterError: It is not one finite number for all joints, or one per joint.
    """
    name = 'initial_position'
    given = launching.given_parameter(args, 'simulator', name, None)
    if given is None:
        return []
    n = (args.tree or load_robot(shipped_robot(args.robot))).n
    return spread(checked(PLANT, {name: given}, n)[name], n)


def _controllers_file(args):
    if args.folder:
        return str(args.folder / CONTROLLERS)
    return str(SHARE / 'config' / f'{args.robot}_ros2_control.yaml')


def _robot_parameters(urdf):
    """Return the parameters that make a node use this description instead of a shipped robot."""
    return {'robot': '', 'limits_profile': '', 'robot_description': urdf}


def _controller(args, urdf, forces):
    form = 'per_joint' if args.interface == 'native' else 'group'
    law = launching.law_parameters(args, forces if args.lockstep else ())
    own = {**law, 'command_form': form}
    return package_node('controller', args, _robot_parameters(urdf) | own)


def _mounting(args):
    """Return roll and pitch at which the arm's gravity points down in the world.

    Raises:
        ConfigurationError: The shipped world has another gravity.
    """
    gravity = launching.given_gravity(args)
    size = math.hypot(*gravity)
    if args.world == launching.WORLD.default and abs(size - _GRAVITY) > _TOLERANCE:
        problem = f'of the parameter file is {size:g} m/s^2, of the world {_GRAVITY:g}'
        raise ConfigurationError('gravity', problem, 'give a world with it: world:=FILE')
    return roll_pitch_upright(gravity) if size else (0.0, 0.0)


def _insertion(args):
    """Return name and pose of the arm in the world, and the controllers to wait for."""
    *place, yaw = (read.written(name, getattr(args, name)) for name in ('x', 'y', 'z', 'yaw'))
    return {
        'model': f'{args.prefix}{args.model}',
        'pose': [*place, *_mounting(args), *read.angles('yaw', [yaw])],
        'wait_for': args.wait_for.replace(' ', '').split(','),
    }


def _native(args, urdf):
    """Return RViz and the node that inserts the arm and resets its forces at the end."""
    robot = gazebo_files.insertion_node(
        args,
        urdf,
        **_insertion(args),
        pause_first=bool(args.wait_for) and not args.start_world,
        unpause='ready' if args.wait_for else 'never',
        publish_description=not args.rviz,
        initial_position=_initial_position(args),
        lockstep=args.lockstep,
        step_ns=gazebo_world.step_ns(args.world),
        await_motion=args.lockstep and _has_motion(args),
    )
    return [robot, *launching.visualization(args, urdf)]


def _ros2_control(args, urdf):
    """Return the node that inserts the arm, and the spawners.

    The controller manager uses simulated time, so time starts at once and gz_ros2_control holds
    the joints: the state broadcaster is spawned first, the effort controller after ``robot`` ends.
    """
    launching.require_packages(ROS2_CONTROL, 'interface:=ros2_control')
    if args.prefix:
        raise ConfigurationError(
            'prefix', 'is for interface:=native', 'ros2_control takes its names from its YAML file'
        )
    robot = gazebo_files.insertion_node(
        args,
        urdf,
        **_insertion(args),
        unpause='at_once' if args.wait_for else 'never',
        publish_description=False,
        stay=False,
    )
    shown = launching.visualization(args, urdf)
    commands = OnProcessExit(target_action=robot, on_exit=[_spawner(args, 'effort_controller')])
    return [
        robot,
        *(shown or [launching.state_publisher(args, urdf)]),
        _spawner(args, 'joint_state_broadcaster'),
        RegisterEventHandler(commands),
    ]


def _spawner(args, controller):
    return Node(
        package='controller_manager',
        executable='spawner',
        namespace=args.namespace,
        output='screen',
        arguments=[
            controller,
            '--controller-manager',
            'controller_manager',
            '--controller-manager-timeout',
            '60',
            '--switch-timeout',
            '60',
            '--param-file',
            _controllers_file(args),
        ],
    )


def _has_motion(args):
    return args.motion and launching.follows_motion(args)


def _motion(args, urdf):
    """Return the node that sends the motion, for laws that follow one."""
    if not _has_motion(args):
        return []
    frame = {} if args.tree else {'tool_frame': f'{args.prefix}tool'}
    return [package_node('trajectory', args, _robot_parameters(urdf) | frame)]


def generate_launch_description():
    """Declare the arguments and the actions that use them."""
    return launching.description(ARGUMENTS, actions)
