# SPDX-License-Identifier: Apache-2.0
"""Play a bag while the monitor compares its efforts with those of the model."""

from launch.actions import ExecuteProcess

from robot_dynamics_ros.description.shipped import ROBOTS, shipped_robot, wide_limits
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.ros import launching
from robot_dynamics_ros.ros.launching import Argument, package_node
from robot_dynamics_ros.yaml_reader import written

ARGUMENTS = (
    Argument('bag', '', 'Folder of the bag.'),
    Argument(
        'robot',
        '',
        'Recorded arm, if shipped; empty: the description in the bag.',
        ('', *ROBOTS),
    ),
    Argument(
        'effort_source',
        'reference',
        "Efforts to compare: those of the controller's reference topic, of the command topic, "
        'or of the joint states.',
        ('reference', 'command', 'measured'),
    ),
    Argument('gravity', '-9.81', 'Free-fall acceleration along z of the base, m/s^2.'),
    Argument('rate', '1.0', 'Playback rate: recorded seconds per second.'),
    launching.VIEW,
    launching.RVIZ,
    launching.NAMESPACE,
    launching.LOG_LEVEL,
)


def actions(args):
    """Return player, monitor and RViz; the launch ends with the bag."""
    if not args.bag:
        raise ConfigurationError('bag', 'none is given', 'write bag:=FOLDER')
    urdf = _description(args)
    launching.require_packages(['ros2bag'], 'replay')
    args.params_file = args.robot = ''
    player = ExecuteProcess(
        cmd=['ros2', 'bag', 'play', args.bag, '--clock', '100', '--rate', args.rate],
        name='player',
        output='screen',
    )
    monitor = package_node(
        'monitor',
        args,
        {
            'robot_description': urdf,
            'effort_source': args.effort_source,
            'gravity': [0.0, 0.0, written('gravity', args.gravity)],
            'use_sim_time': True,
        },
    )
    shown = launching.visualization(args, urdf)
    return launching.supervised([monitor, *shown, *launching.viewer(args), player], player)


def _description(args):
    """Return the URDF text of the recorded arm."""
    if args.robot:
        return read_description(shipped_robot(args.robot), wide_limits(args.robot)).xml
    with BagReader(args.bag) as bag:
        own = f'/{args.namespace.strip("/")}/robot_description'.replace('//', '/')
        named = [topic for topic in bag.topics if topic.endswith('/robot_description')]
        topic = own if own in named else next(iter(sorted(named)), '')
        message = bag.first(topic)
    if message is None:
        raise ConfigurationError('bag', 'holds no robot_description', 'write robot:=NAME')
    return message.data


def generate_launch_description():
    """Declare the arguments and the actions that use them."""
    return launching.description(ARGUMENTS, actions)
