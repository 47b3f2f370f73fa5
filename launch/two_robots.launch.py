# SPDX-License-Identifier: Apache-2.0
"""Simulate two arms side by side, each with its own controller, namespace and prefix."""

from pathlib import Path

from launch.actions import GroupAction, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

from robot_dynamics_ros.description.shipped import ROBOTS
from robot_dynamics_ros.ros import launching
from robot_dynamics_ros.ros.launching import SWITCH, Argument

HERE = Path(__file__).resolve().parent
SIDES = {'left': 0.5, 'right': -0.5}  # position in Gazebo's world: y, m

ARGUMENTS = (
    Argument('simulator', 'mujoco', 'Simulator: MuJoCo, one each, or one Gazebo for both.',
             ('mujoco', 'gazebo')),
    Argument('left', 'scara', 'Arm in namespace left, with prefix left_.', tuple(ROBOTS)),
    Argument('right', 'four_dof', 'Arm in namespace right, with prefix right_.', tuple(ROBOTS)),
    launching.LAW,
    launching.VIEW,
    launching.GUI,
    launching.WORLD,
    launching.GZ_ARGS,
    Argument('params_file', '', 'Parameter file of all nodes, with sections such as '
             '/left/controller; empty: config/<robot>.yaml for each arm.'),
    Argument('record', 'false', 'Whether to record an mcap bag of each arm.', SWITCH),
    Argument('bag', '', 'Prefix of the folders of the bags, _left and _right are appended; '
             'empty: bag.'),
    launching.LOG_LEVEL,
)  # fmt: skip


def actions(args):
    """Return both arms and the viewer; in Gazebo time starts once both controllers are active."""
    args.namespace = args.robot = ''
    return [*(_arm(args, side) for side in SIDES), *launching.viewer(args)]


def _arm(args, side):
    arguments = {
        'robot': getattr(args, side),
        'law': args.law,
        'namespace': side,
        'prefix': f'{side}_',
        'view': 'false',  # inherited otherwise; one page shows both
        'record': 'true' if args.record else 'false',
        'bag': f'{args.bag or "bag"}_{side}' if args.record or args.bag else '',
        'params_file': args.params_file,
        'log_level': args.log_level,
    }
    if args.simulator == 'gazebo':
        first = side == 'left'
        arguments |= {
            'gui': 'true' if args.gui else 'false',
            'world': args.world,
            'gz_args': args.gz_args,
            'y': str(SIDES[side]),
            'start_world': 'true' if first else 'false',
            'wait_for': 'controller,/right/controller' if first else '',
        }
    scene = 'gazebo' if args.simulator == 'gazebo' else 'simulation'
    source = PythonLaunchDescriptionSource(str(HERE / f'{scene}.launch.py'))
    return GroupAction([IncludeLaunchDescription(source, launch_arguments=arguments.items())])


def generate_launch_description():
    """Declare the arguments and the actions that use them."""
    return launching.description(ARGUMENTS, actions)
