# SPDX-License-Identifier: Apache-2.0
"""Simulate a driven parallelogram in Gazebo: closed loop in Gazebo, cut loop in the controller.

The controller uses the open tree and a loop-closure constraint; the constraint-stabilization law
enforces it and moves the tool. The two joints without a drive receive no effort.
"""

from robot_dynamics_ros.description.shipped import share_directory, shipped_mechanism
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.ros import gazebo_files, launching
from robot_dynamics_ros.ros.launching import Argument, package_node

SHARE = share_directory()
ROBOT = 'parallelogram'

ARGUMENTS = (
    Argument(
        'program',
        'parallelogram_loop',
        'Constraint program: a YAML file, or the name of one in config/programs.',
    ),
    launching.GUI,
    launching.VIEW,
    launching.RECORD,
    launching.BAG,
    launching.NAMESPACE,
    Argument('world', str(SHARE / 'worlds' / 'four_bar.sdf'), 'SDF file of the world.'),
    launching.GZ_ARGS,
    Argument(
        'params_file',
        str(SHARE / 'config' / f'{ROBOT}.yaml'),
        'Parameter file of the nodes.',
    ),
    launching.LOG_LEVEL,
)


def actions(args):
    """Return Gazebo, bridge and nodes; the launch ends with Gazebo or the controller."""
    gazebo_files.require_gazebo()
    file, _ = shipped_mechanism(ROBOT)
    tree, closed = (read_description(file, {'gazebo': kind}).xml for kind in ('none', 'native'))
    world = gazebo_files.gazebo_server(args)
    joints = load_robot(tree, effort_limit=1.0).joint_names  # those without a drive have none
    bridged = gazebo_files.bridge_entries(joints, ROBOT)
    controller = package_node(
        'controller', args, {'robot_description': tree, 'program': args.program}
    )
    nodes = [
        world,
        *gazebo_files.gazebo_bridge(args, bridged),
        controller,
        gazebo_files.insertion_node(args, closed, publish_description=False),
        *launching.recorder(args),
        *launching.viewer(args),
    ]
    return launching.supervised(nodes, world, controller)


def generate_launch_description():
    """Declare the arguments and the actions that use them."""
    return launching.description(ARGUMENTS, actions)
