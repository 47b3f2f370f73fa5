# SPDX-License-Identifier: Apache-2.0
"""Run one node with the parameters of a robot."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from robot_dynamics_ros.cli.arguments import (
    JOINTS,
    MAPPING,
    ROBOT_HELP,
    SETUP,
    Command,
    Options,
    option,
)
from robot_dynamics_ros.cli.new_robot import parameter_file
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.parameters import help_text
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
}
