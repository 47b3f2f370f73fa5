# SPDX-License-Identifier: Apache-2.0
"""Simulate any arm in MuJoCo under a control law that follows a motion."""

from robot_dynamics_ros.cli.new_robot import URDF, described
from robot_dynamics_ros.control.drivers.profile import CommandProfile
from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.ros import launching
from robot_dynamics_ros.ros.launching import Argument, package_node

ARGUMENTS = (
    *launching.ARM,
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


def actions(args):
    """Return the nodes; the launch ends with the simulator or the controller.

    In a namespace the clock is that of the namespace: every simulation has its own time.
    """
    mappings = launching.xacro_mappings(args)
    robot, said = {'prefix': args.prefix}, []
    if args.description:
        file = described(args.description, mappings)
        args.robot = str(file.with_name(URDF))
        args.params_file = args.params_file or str(file)
        robot['robot'], said = args.robot, launching.planned(args, file.parent)
    elif mappings:
        robot['arguments'] = args.mappings.split()
    args = launching.with_own_clock(args)
    simulator = package_node('simulator', args, robot | {'mode': args.mode, 'start_paused': True})
    topics = [CommandProfile().topic] if args.mode == 'lockstep' else ()
    law = launching.law_parameters(args, topics)
    controller = package_node('controller', args, robot | law)
    nodes = [
        *said,
        simulator,
        controller,
        package_node('trajectory', args, robot | _motion(args)),
        *launching.recorder(args),
        *launching.monitor(args, robot | {'robot': args.robot}),
        *launching.visualization(args, _shown(args, mappings)),
        *launching.viewer(args),
    ]
    return launching.supervised(nodes, simulator, controller)


def _motion(args):
    """Return the parameters of the trajectory node, in addition to those of the file."""
    return {
        **({} if launching.follows_motion(args) else {'kind': 'none'}),
        **({} if args.description else {'tool_frame': f'{args.prefix}tool'}),
        'ready_services': ['recorder/ready'] if args.record else [''],
        'unpause_simulator': True,
    }


def _shown(args, mappings):
    """Return the URDF text that RViz shows."""
    if args.description:
        return load_robot(args.robot).xml
    return read_description(robot_file(args.robot), {'prefix': args.prefix, **mappings}).xml


def generate_launch_description():
    """Declare the arguments and the actions that use them."""
    return launching.description(ARGUMENTS, actions)
