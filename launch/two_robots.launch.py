# SPDX-License-Identifier: Apache-2.0
"""Simulate two arms side by side, each with its own controller, namespace and prefix."""

from pathlib import Path

from launch.actions import GroupAction, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

from robot_dynamics_ros.description.shipped import ROBOTS
from robot_dynamics_ros.ros import launching
from robot_dynamics_ros.ros.launching import SWITCH, Argument

HERE = Path(__file__).resolve().parent
SIDES = {'left': 0.5, 'right': -0.5}  # where each stands in the world of Gazebo: y, m

ARGUMENTS = (
    Argument('simulator', 'mujoco', 'Which simulator: MuJoCo, one each, or one Gazebo for both.',
             ('mujoco', 'gazebo')),
    Argument('left', 'scara', 'Arm in namespace left, with prefix left_.', tuple(ROBOTS)),
    Argument('right', 'four_dof', 'Arm in namespace right, with prefix right_.', tuple(ROBOTS)),
    launching.LAW,
    Argument('gui', 'true', "Whether to show Gazebo's window.", SWITCH),
    Argument('record', 'false', 'Whether to record an mcap bag of each arm.', SWITCH),
    Argument('bag', 'bag', 'Folder of the bags is this, with _left and _right.'),
    launching.LOG_LEVEL,
)  # fmt: skip


def actions(chosen):
    """Return both arms; in Gazebo time runs once both controllers are active."""
    return [_arm(chosen, side) for side in SIDES]


def _arm(chosen, side):
    arguments = {
        'robot': getattr(chosen, side),
        'law': chosen.law,
        'namespace': side,
        'prefix': f'{side}_',
        'record': 'true' if chosen.record else 'false',
        'bag': f'{chosen.bag}_{side}',
        'log_level': chosen.log_level,
    }
    if chosen.simulator == 'gazebo':
        first = side == 'left'
        arguments |= {
            'gui': 'true' if chosen.gui else 'false',
            'y': str(SIDES[side]),
            'start_world': 'true' if first else 'false',
            'wait_for': 'controller,/right/controller' if first else '',
        }
    scene = 'gazebo' if chosen.simulator == 'gazebo' else 'simulation'
    source = PythonLaunchDescriptionSource(str(HERE / f'{scene}.launch.py'))
    return GroupAction([IncludeLaunchDescription(source, launch_arguments=arguments.items())])


def generate_launch_description():
    """Declare the arguments and defer to them."""
    return launching.description(ARGUMENTS, actions)
