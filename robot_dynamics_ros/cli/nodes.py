# SPDX-License-Identifier: Apache-2.0
"""Run one node with the parameters of a robot."""

from __future__ import annotations

import argparse
import os
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
    given,
    option,
)
from robot_dynamics_ros.cli.new_robot import parameter_file
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.parameters import help_text
from robot_dynamics_ros.ros.executables import (
    declared_parameters,
    parameter_sections,
    run_executable,
    sections_of,
)
from robot_dynamics_ros.yaml_reader.parsing import parse_yaml, read_yaml

_FILES = ('.yaml', '.urdf', '.xacro')


def run_node(executable: str, args: argparse.Namespace) -> int:
    """Run a node until SIGINT; return its exit code.

    The parameters of the robot that is given, or of the default one without any file, come first,
    then those of every file; of several values of one parameter the last holds.

    Raises:
        ConfigurationError: A parameter file cannot be read or has no section for the node,
            or a parameter is not NAME:=VALUE.
        MissingDependencyError: rclpy is not installed.
    """
    files = list(args.params)
    for file in files:
        _require_section(file, read_yaml(file, 'parameter file'), executable, args.namespace)
    if not files or given(args, _ARM):
        args.robot = args.robot or _robot_of(args.mapping) or 'scara'
        files.insert(0, parameter_file(args))
    ros_args = ['--ros-args', *(word for file in files for word in ('--params-file', str(file)))]
    if args.namespace:
        ros_args += ['-r', f'__ns:=/{args.namespace.strip("/")}']
    chosen = {key: getattr(args, key, None) for key in ('law', 'program')}
    for assignment in [*(f'{key}:={value}' for key, value in chosen.items() if value), *args.set]:
        if ':=' not in assignment:
            raise ConfigurationError(f'-p {assignment}', 'has no :=', 'write NAME:=VALUE')
        ros_args += ['-p', _plain(assignment)]
    return run_executable(executable, ros_args)


def _plain(assignment: str) -> str:
    """Return NAME:=VALUE as rcl takes it and as it holds in any folder.

    A list that mixes integers and decimals, as rcl refuses, is in decimals. A file is absolute: a
    recording keeps its name, and is read elsewhere.
    """
    name, _, value = assignment.partition(':=')
    if value.endswith(_FILES) and os.path.isfile(value):
        return f'{name}:={os.path.abspath(value)}'
    numbers = parse_yaml(value, f'-p {name}') if value.lstrip().startswith('[') else ()
    mixed = {type(number) for number in numbers} == {int, float}
    return f'{name}:={[float(number) for number in numbers]}' if mixed else assignment


def _robot_of(words: list[str]) -> str:
    """Take the robot from the words behind a command, where other commands expect it."""
    return words.pop(0) if words and ':=' not in words[0] else ''


def _require_section(file: Path, content: Any, node: str, namespace: str) -> None:
    """Require that a parameter file has a section for a node.

    Raises:
        ConfigurationError: It has none; names those that it has.
    """
    sections = parameter_sections(content)
    if not sections_of(sections, node, namespace):
        problem = f'has no section for {node}; it has {", ".join(sections) or "none"}'
        remedy = f'write /**/{node}: {{ros__parameters: {{...}}}}'
        raise ConfigurationError(f'parameter file {str(file)!r}', problem, remedy)


_ARM: Options = {
    '--robot': option(None, f'{ROBOT_HELP}; or as the first argument (default: scara)'),
    **MAPPING,
    **JOINTS,
    **SETUP,
}
_NODE: Options = {
    **_ARM,
    '--params': option(
        [],
        'parameter file (default: config/ROBOT.yaml for shipped robots, else generated); may be '
        'repeated, and added to those of a robot: the last value of a parameter holds',
        type=Path,
        action='append',
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
    epilog = lambda: help_text(parameters())  # noqa: E731
    return Command(partial(run_node, executable), options, epilog, lasts=True)


COMMANDS = {
    'simulate': _node('simulator'),
    'control': _node('controller', _LAW),
    'send': _node('trajectory'),
    'record': _node('recorder'),
    'monitor': _node('monitor'),
    'emulate': _node('driver_emulator'),
}
