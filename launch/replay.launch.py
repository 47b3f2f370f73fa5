# SPDX-License-Identifier: Apache-2.0
"""Play a bag and let the monitor compare its efforts with those of the model."""

from launch.actions import ExecuteProcess

from robot_dynamics_ros.description.shipped import ROBOTS, shipped_robot
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.ros import launching
from robot_dynamics_ros.ros.launching import Argument, package_node

ARGUMENTS = (
    Argument('bag', '', 'The bag: its folder.'),
    Argument(
        'robot',
        '',
        'Shipped arm that was recorded; empty: the description in the bag.',
        ('', *ROBOTS),
    ),
    Argument(
        'effort_source',
        'reference',
        "Efforts that are compared: the controller's own record of its commands, the command "
        'topic, or those of the joint states.',
        ('reference', 'command', 'measured'),
    ),
    Argument('gravity', '-9.81', 'Free-fall acceleration along z of the base, m/s^2.'),
    Argument('rate', '1.0', 'Played seconds per second.'),
    launching.RVIZ,
    launching.NAMESPACE,
    launching.LOG_LEVEL,
)


def actions(given):
    """Return player, monitor and RViz; the scene ends with the bag."""
    if not given.bag:
        raise ConfigurationError('bag', 'none is given', 'write bag:=FOLDER')
    urdf = _description(given)
    launching.require(['ros2bag'], 'replay')
    given.params_file = given.robot = ''
    player = ExecuteProcess(
        cmd=['ros2', 'bag', 'play', given.bag, '--clock', '100', '--rate', given.rate],
        name='player',
        output='screen',
    )
    monitor = package_node(
        'monitor',
        given,
        {
            'robot_description': urdf,
            'effort_source': given.effort_source,
            'gravity': [0.0, 0.0, float(given.gravity)],
            'use_sim_time': True,
        },
    )
    shown = launching.visualization(given, urdf, 'world')
    return [monitor, *shown, player, *launching.ends_with(player)]


def _description(given):
    """Return the URDF text of the arm that was recorded."""
    if given.robot:
        return read_description(shipped_robot(given.robot), {'limits_profile': 'wide'}).xml
    with BagReader(given.bag) as bag:
        own = f'/{given.namespace.strip("/")}/robot_description'.replace('//', '/')
        named = [topic for topic in bag.topics if topic.endswith('/robot_description')]
        topic = own if own in named else next(iter(sorted(named)), '')
        message = bag.first(topic)
    if message is None:
        raise ConfigurationError('bag', 'holds no robot_description', 'write robot:=NAME')
    return message.data


def generate_launch_description():
    """Declare the arguments and defer to them."""
    return launching.description(ARGUMENTS, actions)
