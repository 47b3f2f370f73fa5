# SPDX-License-Identifier: Apache-2.0
"""Run one node with the parameters of a robot."""

from __future__ import annotations

import argparse
import re
from functools import partial
from pathlib import Path
from typing import Any

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
from robot_dynamics_ros.ros.executables import (
    declared_parameters,
    parameter_sections,
    run_executable,
)
from robot_dynamics_ros.yaml_reader.parsing import read_yaml


def run_node(executable: str, args: argparse.Namespace) -> int:
    """Run a node until SIGINT; return its exit code.

    Raises:
        ConfigurationError: The parameter file cannot be read or has no section for the node,
            or a parameter is not NAME:=VALUE.
        MissingDependencyError: rclpy is not installed.
    """
    params = args.params or parameter_file(args)
    content = read_yaml(params, 'parameter file')
    if args.params:
        _require_section(params, content, executable, args.namespace)
    ros_args = ['--ros-args', '--params-file', str(params)]
    if args.namespace:
        ros_args += ['-r', f'__ns:=/{args.namespace.strip("/")}']
    chosen = {key: getattr(args, key, None) for key in ('law', 'program')}
    for assignment in [*(f'{key}:={value}' for key, value in chosen.items() if value), *args.set]:
        if ':=' not in assignment:
            raise ConfigurationError(f'-p {assignment}', 'has no :=', 'write NAME:=VALUE')
        ros_args += ['-p', assignment]
    return run_executable(executable, ros_args)


def _require_section(file: Path, content: Any, node: str, namespace: str) -> None:
    """Require that a parameter file has a section for a node.

    Raises:
        ConfigurationError: It has none; names those that it has.
    """
    sections = parameter_sections(content)
    full = f'/{namespace}/{node}'.replace('//', '/')
    if not any(re.fullmatch(_pattern(section), full) for section in sections):
        problem = f'has no section for {node}; it has {", ".join(sections) or "none"}'
        remedy = f'write /**/{node}: {{ros__parameters: {{...}}}}'
        raise ConfigurationError(f'parameter file {str(file)!r}', problem, remedy)


def _pattern(name: str) -> str:
    """Return the regular expression of a name: ** stands for any names, * for one."""
    return re.escape(name).replace(r'/\*\*', r'(/\w+)*').replace(r'/\*', r'/\w+')


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
