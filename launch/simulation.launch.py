# SPDX-License-Identifier: Apache-2.0
"""Simulate any arm in MuJoCo under a control law that follows a motion."""

from functools import partial

from robot_dynamics_ros.cli.new_robot import URDF, described
from robot_dynamics_ros.control.drivers.profile import CommandProfile
from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.ros import launching
from robot_dynamics_ros.ros.launching import Argument, supervised

ARGUMENTS = (
    launching.ROBOT,
    launching.DESCRIPTION,
    launching.MAPPINGS,
    launching.LAW,
    launching.PROGRAM,
    Argument(
        'mode',
        'real_time',
        'Simulated time: at the rate of the wall clock, or in lockstep, as fast as the nodes '
        'can, with the same result on any machine.',
        ('real_time', 'lockstep'),
    ),
    launching.RECORD,
    launching.BAG,
    launching.MONITOR,
    launching.VIEW,
    launching.RVIZ,
    launching.NAMESPACE,
    launching.PREFIX,
    launching.PARAMS_FILE,
    launching.LOG_LEVEL,
)


def actions(chosen):
    """Return the nodes; the launch ends with the simulator or the controller.

    In a namespace the clock is that of the namespace: every simulation has its own time.
    """
    named = launching.mappings(chosen)
    robot = {'prefix': chosen.prefix}
    if chosen.description:
        file = described(chosen.description, named)
        chosen.robot = str(file.with_name(URDF))
        chosen.params_file = chosen.params_file or str(file)
        robot['robot'] = chosen.robot
    elif named:
        robot['arguments'] = chosen.mappings.split()
    clock = launching.own_clock(chosen)
    node = partial(launching.package_node, chosen=chosen, remappings=clock)
    simulator = node('simulator', parameters=robot | {'mode': chosen.mode, 'start_paused': True})
    law = launching.law(chosen, [CommandProfile().topic] if chosen.mode == 'lockstep' else ())
    controller = node('controller', parameters=robot | law)
    nodes = [
        simulator,
        controller,
        node('trajectory', parameters=robot | _motion(chosen)),
        *launching.recorder(chosen, remappings=clock),
        *launching.monitor(chosen, robot | {'robot': chosen.robot}, clock),
        *launching.visualization(chosen, *_shown(chosen, named), clock),
        *launching.viewer(chosen),
    ]
    return supervised(nodes, simulator, controller)


def _motion(chosen):
    """Return the parameters of the trajectory node, in addition to those of the file."""
    return {
        **({} if launching.follows_motion(chosen) else {'kind': 'none'}),
        **({} if chosen.description else {'tool_frame': f'{chosen.prefix}tool'}),
        'ready_services': ['recorder/ready'] if chosen.record else [''],
        'unpause_simulator': True,
    }


def _shown(chosen, named):
    """Return the URDF text that RViz shows, and its root link."""
    if chosen.description:
        tree = load_robot(chosen.robot)
        return tree.xml, tree.base_link
    urdf = read_description(robot_file(chosen.robot), {'prefix': chosen.prefix, **named}).xml
    return urdf, f'{chosen.prefix}world'


def generate_launch_description():
    """Declare the arguments and the actions that use them."""
    return launching.description(ARGUMENTS, actions)
