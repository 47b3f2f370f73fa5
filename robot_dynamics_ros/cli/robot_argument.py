# SPDX-License-Identifier: Apache-2.0
"""Command-line arguments that select a robot, and how recordings are read.

Used by all commands with a robot argument; the recording arguments cover the robot, the units and
signs of the recorded numbers, and the time range.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from robot_dynamics_ros.description.shipped import (
    MECHANISMS,
    ROBOTS,
    robot_file,
    shipped_mechanism,
)
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import Mechanism, load_robot
from robot_dynamics_ros.model.build import EffortLimit
from robot_dynamics_ros.model.load import assignments, choice_of_joints, load_mechanism
from robot_dynamics_ros.model.robot_tree import STANDARD_GRAVITY, RobotTree
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.yaml_reader.parsing import parse_yaml

#: Placeholder for missing effort limits, which the equations of motion do not need.
_ANY_LIMIT = 1.0

#: Help text of every robot argument.
ROBOT_HELP = 'URDF or xacro file, package://PACKAGE/PATH, or one of: ' + ', '.join(
    (*ROBOTS, *MECHANISMS)
)


def add_robot_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the robot, its xacro arguments, its joints, and gravity."""
    parser.add_argument('robot', help=ROBOT_HELP)
    parser.add_argument(
        'mapping', nargs='*', metavar='NAME:=VALUE', help='argument of a xacro file'
    )
    add_joint_arguments(parser)
    parser.add_argument(
        '--gravity',
        type=float,
        nargs=3,
        default=STANDARD_GRAVITY,
        metavar=('X', 'Y', 'Z'),
        help='gravitational acceleration in the base frame, m/s^2 (default: 0 0 -9.81)',
    )


def add_effort_limit(parser: argparse.ArgumentParser) -> None:
    """Declare the effort limit of joints without one."""
    parser.add_argument(
        '--effort-limit',
        type=float,
        metavar='NM',
        help='effort limit of joints without one in the description, N m or N',
    )


def add_joint_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the controlled joints, and the positions of the locked ones."""
    parser.add_argument(
        '--joints',
        type=_words,
        default=[],
        metavar='A,B,...',
        help='joints to control; the others are locked (default: all)',
    )
    parser.add_argument(
        '--base', default='', metavar='LINK', help='with --tip: base link of the chain'
    )
    parser.add_argument(
        '--tip', default='', metavar='LINK', help='control the joints between base and this link'
    )
    parser.add_argument(
        '--locked',
        type=_words,
        default=[],
        metavar='A:=X,...',
        help='positions of locked joints, rad or m (default: 0, or the limit nearest to it)',
    )
    parser.add_argument(
        '--mimic',
        choices=('couple', 'lock'),
        default='couple',
        help='mimic joints: coupled to their leaders (default), or locked',
    )


def robot_of(args: argparse.Namespace, effort_limit: EffortLimit = _ANY_LIMIT) -> RobotTree:
    """Load the robot that the arguments select.

    Args:
        args: Parsed arguments.
        effort_limit: As for ``load_robot``, N m or N; None if limits are required.

    Raises:
        DescriptionError: It cannot be read, or a mapping has no value.
        UnknownNameError: It is neither a file nor a shipped robot.
    """
    path, mappings = robot_source(args)
    gravity = getattr(args, 'gravity', STANDARD_GRAVITY)
    joints = choice_of_joints(vars(args))
    return load_robot(path, gravity, effort_limit=effort_limit, mappings=mappings, **joints)


def robot_source(args: argparse.Namespace) -> tuple[str | Path, dict[str, str]]:
    """Return the file of the robot that the arguments select, and its xacro arguments.

    Raises:
        ConfigurationError: A mapping has no value.
        UnknownNameError: It is neither a file nor a shipped robot.
    """
    return robot_file(args.robot), assignments('argument', args.mapping)


def add_loops_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the mechanism file."""
    parser.add_argument(
        '--loops',
        type=Path,
        metavar='FILE',
        help='mechanism file with the loops of the robot (default: that of a shipped mechanism)',
    )


def loops_of(args: argparse.Namespace) -> Path | None:
    """Return the mechanism file: as given, or that of a shipped mechanism; None for a tree.

    Raises:
        ConfigurationError: The arguments select a part of a mechanism.
    """
    loops: Path | None = args.loops
    if loops is None and args.robot in MECHANISMS:
        loops = shipped_mechanism(args.robot)[1]
    asked = [f'--{name}' for name in ('joints', 'base', 'tip', 'locked') if getattr(args, name)]
    if loops is not None and asked:
        problem = 'does not apply to a mechanism with loops'
        raise ConfigurationError(', '.join(asked), problem, 'leave it out')
    return loops


def mechanism_of(args: argparse.Namespace, loops: Path) -> Mechanism:
    """Load the robot with the loops of a mechanism file.

    Raises:
        DescriptionError: One of the files cannot be read or used.
    """
    return load_mechanism(
        robot_file(args.robot),
        loops,
        args.gravity,
        effort_limit=_ANY_LIMIT,
        mappings=assignments('argument', args.mapping),
        mimic=args.mimic,
    )


def set_values(words: Sequence[str]) -> dict[str, Any]:
    """Return the values of ``--set KEY=VALUE`` by key, parsed as YAML.

    Raises:
        ConfigurationError: An argument has no ``=``, or its value is not valid YAML.
    """
    values: dict[str, Any] = {}
    for word in words:
        key, separator, value = word.partition('=')
        if not separator:
            raise ConfigurationError(f'--set {word}', 'has no =', 'write KEY=VALUE')
        values[key.strip()] = parse_yaml(value, f'--set {key.strip()}')
    return values


def ros_parameters(values: Mapping[str, Any]) -> list[str]:
    """Return the ROS arguments that set parameters; their YAML values are written as JSON."""
    words = (('-p', f'{name}:={json.dumps(value)}') for name, value in values.items())
    return list(chain.from_iterable(words))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(',') if word.strip()]


def add_recording_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the robot model for recordings, and how they are read."""
    add_part_arguments(parser)
    parser.add_argument(
        '--gravity',
        type=float,
        nargs=3,
        metavar=('X', 'Y', 'Z'),
        help='gravitational acceleration in the base frame, m/s^2 (default: that of the recorded '
        'controller, else 0 0 -9.81; Gazebo uses 0 0 -9.8)',
    )
    add_effort_limit(parser)
    parser.add_argument(
        '--joints',
        type=_words,
        default=[],
        metavar='A,B,...',
        help='recorded names of the joints, in the order of the model, if they differ',
    )


def add_part_arguments(parser: argparse._ActionsContainer) -> None:
    """Declare the description, the conversion of recorded numbers, and the time range."""
    parser.add_argument(
        '--robot',
        '--description',
        dest='described_by',
        default='',
        metavar='ROBOT',
        help=f'{ROBOT_HELP} (default: the description in the first bag)',
    )
    parser.add_argument(
        '--identified',
        default='',
        metavar='FILE',
        help='parameters.yaml of command identify, which replaces inertia, friction and armature '
        'of the description (default: that of the recorded controller, if any)',
    )
    parser.add_argument(
        '--driver_profile',
        default='',
        metavar='FILE',
        help='driver profile to convert recorded numbers with (currents, percent, signs, names): '
        'a YAML file, or the name of a shipped profile (default: SI units at the joints)',
    )
    parser.add_argument(
        '--namespace', default='', help='namespace of the robot, if a bag has several'
    )
    for word, default, which in (('from', -math.inf, 'first'), ('to', math.inf, 'last')):
        parser.add_argument(
            f'--{word}',
            dest=f'{which}_second',
            type=float,
            default=default,
            metavar='S',
            help=f'{which} time to use, s since the first state, or a timestamp of simulated time',
        )


def add_job_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the processes that read the bags."""
    parser.add_argument(
        '--jobs', type=int, default=0, help='number of processes; 0: one per processor (default)'
    )
    parser.add_argument(
        '--scheduler',
        default='',
        metavar='tcp://HOST:PORT',
        help='Dask scheduler whose workers read the bags; they need access to the same files',
    )


def recording_choice(args: argparse.Namespace) -> RobotChoice:
    """Return the robot that the arguments select, and how its recordings are read."""
    return RobotChoice(
        robot=args.described_by,
        gravity=tuple(args.gravity) if args.gravity else None,
        effort_limit=getattr(args, 'effort_limit', None),
        joints=tuple(args.joints),
        namespace=args.namespace,
        driver_profile=args.driver_profile,
        identified=args.identified,
        span=(args.first_second, args.last_second),
    )
