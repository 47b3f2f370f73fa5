# SPDX-License-Identifier: Apache-2.0
"""Run one node with the parameters of a robot; show running arms in a browser."""

from __future__ import annotations

import argparse
import shlex
from functools import partial
from pathlib import Path

from robot_dynamics_ros.cli.arguments import (
    JOINTS,
    MAPPING,
    PACKAGES,
    ROBOT_HELP,
    SETUP,
    Command,
    Options,
    option,
    ros_parameters,
)
from robot_dynamics_ros.cli.new_robot import parameter_file
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.parameters import help_text
from robot_dynamics_ros.recordings.report.toolkit import command_line
from robot_dynamics_ros.ros.executables import declared_parameters, run_executable
from robot_dynamics_ros.yaml_reader.parsing import read_yaml


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
    return run_executable(executable, ros_args)


def view(args: argparse.Namespace) -> int:
    """Serve the page until interrupted.

    Raises:
        ConfigurationError: Recordings are given; the message says which command shows them.
    """
    if args.bags:
        chosen = {'--robot': args.robot, '--namespace': next(iter(args.namespace), '')}
        of = [word for pair in chosen.items() if pair[1] for word in pair]
        command = 'compare' if len(args.bags) == 2 else 'analyze'
        raise ConfigurationError(
            f'view {shlex.join(args.bags)}',
            'shows running arms only',
            f'the report plays recordings: {command_line(command, *args.bags, *of)}',
        )
    parameters = {
        'port': args.port,
        'host': args.host,
        'robot': args.robot,
        'namespaces': args.namespace or [''],
        'rate_hz': args.rate,
        'control': args.control,
    }
    return run_executable('view', ['--ros-args', *ros_parameters(parameters)])


_NODE: Options = {
    '--robot': option('scara', ROBOT_HELP),
    **MAPPING,
    **JOINTS,
    **SETUP,
    '--params': option(
        Path, 'parameter file (default: config/ROBOT.yaml for shipped robots, else generated)'
    ),
    '-p NAME:=VALUE': option([], 'set a parameter; may be repeated', dest='set', action='append'),
    '--namespace': option('', 'namespace of the node'),
}
_LAW: Options = {
    '--law': option(None, 'control law: parameter law below'),
    '--program': option(None, 'constraint program of law constraint_stabilization'),
}
_VIEW: Options = {
    'bags BAG': option(None, 'none: recordings are shown by analyze and compare', nargs='*'),
    '--port': option(8080, 'port of the page; 0: any free one'),
    '--host': option('127.0.0.1', 'interface; 0.0.0.0 lets machines connect that know the token'),
    '--robot': option('', f'robot to show if no description is published: {ROBOT_HELP}'),
    **PACKAGES,
    '--namespace': option(
        [], 'namespace of an arm; may be repeated (default: all)', action='append'
    ),
    '--rate': option(30.0, 'updates per second'),
    '--control': option(False, 'allow commands to the arm from the page'),
}


def _node(executable: str, own: Options | None = None) -> Command:
    """Return the command of a node; the help lists its parameters."""
    parameters = partial(declared_parameters, executable)
    options = _NODE | (own or {})
    return Command(partial(run_node, executable), options, lambda: help_text(parameters()))


COMMANDS = {
    'simulate': _node('simulator'),
    'control': _node('controller', _LAW),
    'send': _node('trajectory'),
    'record': _node('recorder'),
    'monitor': _node('monitor'),
    'emulate': _node('driver_emulator'),
    'view': Command(view, _VIEW),
}
