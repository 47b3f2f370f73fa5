# SPDX-License-Identifier: Apache-2.0
"""Simulate a shipped arm in MuJoCo under a control law, with a motion for it to follow."""

from functools import partial

from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.ros import launching
from robot_dynamics_ros.ros.launching import Argument, ends_with

ARGUMENTS = (
    launching.ROBOT,
    launching.LAW,
    launching.PROGRAM,
    Argument(
        'mode',
        'real_time',
        'How time passes: at the rate of the wall clock, or in lockstep, as fast as the nodes '
        'can, with the same result on any machine.',
        ('real_time', 'lockstep'),
    ),
    launching.RECORD,
    launching.BAG,
    launching.MONITOR,
    launching.RVIZ,
    launching.NAMESPACE,
    launching.PREFIX,
    launching.PARAMS_FILE,
    launching.LOG_LEVEL,
)


def actions(chosen):
    """Return the nodes of the scene; it ends with its simulator or its controller.

    In a namespace the clock is that of the namespace: every simulation has its own time.
    """
    clock = [('/clock', 'clock')] if chosen.namespace else []
    node = partial(launching.package_node, chosen=chosen, remappings=clock)
    robot = {'prefix': chosen.prefix}
    simulator = node('simulator', parameters=robot | _start(chosen))
    controller = node('controller', parameters=robot | launching.law(chosen))
    return [
        simulator,
        controller,
        node('trajectory', parameters=robot | _motion(chosen)),
        *launching.recorder(chosen, remappings=clock),
        *launching.monitor(chosen, robot | {'robot': chosen.robot}, clock),
        *launching.visualization(chosen, _description(chosen), f'{chosen.prefix}world', clock),
        *ends_with(simulator, controller),
    ]


def _start(chosen):
    return {'mode': chosen.mode, 'start_paused': True}


def _motion(chosen):
    """Return what the trajectory node does, besides the motion of the parameter file."""
    return {
        **({} if launching.follows_motion(chosen) else {'kind': 'none'}),
        'tool_frame': f'{chosen.prefix}tool',
        'ready_services': ['recorder/ready'] if chosen.record else [''],
        'unpause_simulator': True,
    }


def _description(chosen):
    return read_description(shipped_robot(chosen.robot), {'prefix': chosen.prefix}).xml


def generate_launch_description():
    """Declare the arguments and defer to them."""
    return launching.description(ARGUMENTS, actions)
