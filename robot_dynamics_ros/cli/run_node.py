# SPDX-License-Identifier: Apache-2.0
"""Run one node with the parameters of a robot."""

from __future__ import annotations

import argparse
from pathlib import Path

from robot_dynamics_ros.cli.new_robot import add_setup_arguments, parameter_file
from robot_dynamics_ros.cli.robot_argument import ROBOT_HELP, add_joint_arguments
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.parameters import help_text
from robot_dynamics_ros.ros import executables
from robot_dynamics_ros.yaml_reader.parsing import read_yaml


def add_arguments(parser: argparse.ArgumentParser, executable: str) -> None:
    """Declare robot, parameter file and parameters; the help lists all parameters."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = help_text(executables.declared_parameters(executable))
    parser.add_argument('--robot', default='scara', help=ROBOT_HELP)
    parser.add_argument(
        'mapping', nargs='*', metavar='NAME:=VALUE', help='argument of a xacro file'
    )
    add_joint_arguments(parser)
    add_setup_arguments(parser)
    parser.add_argument(
        '--params',
        type=Path,
        help='parameter file (default: config/ROBOT.yaml for shipped robots, else generated)',
    )
    parser.add_argument(
        '-p',
        dest='set',
        action='append',
        default=[],
        metavar='NAME:=VALUE',
        help='set a parameter; may be repeated',
    )
    parser.add_argument('--namespace', default='', help='namespace of the node')
    if executable == 'controller':
        parser.add_argument('--law', help='control law: parameter law below')
        parser.add_argument('--program', help='constraint program of law constraint_stabilization')


def run_node(executable: str, args: argparse.Namespace) -> int:
    """Run a node until SIGINT; return its exit code.

    Raises:
        ConfigurationError: The parameter file cannot be read, or a parameter is not NAME:=VALUE.
        MissingDependencyError: rclpy is not installed.
    """
    params = args.params or parameter_file(args)
    read_yaml(params, 'parameter file')
    ros_args = ['--ros-args', '--params-file', str(params)]
    if args.namespace:
        ros_args += ['-r', f'__ns:=/{args.namespace.strip("/")}']
    chosen = {key: getattr(args, key, None) for key in ('law', 'program')}
    for assignment in [*(f'{key}:={value}' for key, value in chosen.items() if value), *args.set]:
        if ':=' not in assignment:
            raise ConfigurationError(f'-p {assignment}', 'has no :=', 'write NAME:=VALUE')
        ros_args += ['-p', assignment]
    return executables.run_executable(executable, ros_args)
