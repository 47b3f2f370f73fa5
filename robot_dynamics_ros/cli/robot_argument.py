# SPDX-License-Identifier: Apache-2.0
"""The arguments by which a command is given a robot.

Arguments of every command that reads bags: the robot, what the numbers mean, which part.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
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

#: Stands in where a file gives no effort limit, which the equations of motion do not need.
_ANY_LIMIT = 1.0

#: What may stand wherever a robot is asked for.
ROBOT_HELP = 'URDF or xacro file, package://PACKAGE/PATH, or one of: ' + ', '.join(
    (*ROBOTS, *MECHANISMS)
)


def add_robot_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the robot, the arguments of its xacro file, its joints, and gravity."""
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
        help='free-fall acceleration in the base frame, m/s^2 (default: 0 0 -9.81)',
    )


def add_effort_limit(parser: argparse.ArgumentParser) -> None:
    """Declare the limit of the joints that have none."""
    parser.add_argument(
        '--effort-limit',
        type=float,
        metavar='NM',
        help='limit of the joints whose file gives none, N m or N',
    )


def add_joint_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which joints are controlled, and where the others are locked."""
    parser.add_argument(
        '--joints',
        type=_words,
        default=[],
        metavar='A,B,...',
        help='joints to control; the others are locked (default: all)',
    )
    parser.add_argument(
        '--base', default='', metavar='LINK', help='with --tip: where the chain begins'
    )
    parser.add_argument(
        '--tip', default='', metavar='LINK', help='control the joints from the base to this link'
    )
    parser.add_argument(
        '--locked',
        type=_words,
        default=[],
        metavar='A:=X,...',
        help='positions of locked joints, rad or m (default: 0 or the nearest limit)',
    )
    parser.add_argument(
        '--mimic',
        choices=('couple', 'lock'),
        default='couple',
        help='joints that follow others: coupled to their leaders (default), or locked',
    )


def robot_of(args: argparse.Namespace, effort_limit: EffortLimit = _ANY_LIMIT) -> RobotTree:
    """Load the robot that the arguments name.

    Args:
        args: As parsed.
        effort_limit: As ``load_robot`` takes it, N m or N; None where limits matter.

    Raises:
        DescriptionError: It cannot be read, or a mapping sets nothing.
        UnknownNameError: It is no file, and no robot of that name ships.
    """
    path, mappings = robot_source(args)
    gravity = getattr(args, 'gravity', STANDARD_GRAVITY)
    joints = choice_of_joints(vars(args))
    return load_robot(path, gravity, effort_limit=effort_limit, mappings=mappings, **joints)


def robot_source(args: argparse.Namespace) -> tuple[str | Path, dict[str, str]]:
    """Return the file of the robot that the arguments name, and the arguments of its xacro file.

    Raises:
        ConfigurationError: A mapping sets nothing.
        UnknownNameError: It is no file, and no robot of that name ships.
    """
    return robot_file(args.robot), assignments('argument', args.mapping)


def add_loops_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the mechanism file."""
    parser.add_argument(
        '--loops',
        type=Path,
        metavar='FILE',
        help="mechanism file that closes loops of the robot (default: a shipped mechanism's own)",
    )


def loops_of(args: argparse.Namespace) -> Path | None:
    """Return the mechanism file: as given, or that of a shipped mechanism; None of a tree.

    Raises:
        ConfigurationError: A part of a mechanism is asked for.
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
    """Return the values of ``--set KEY=VALUE`` by key, read as YAML.

    Raises:
        ConfigurationError: One has no ``=``, or its value is no YAML.
    """
    values: dict[str, Any] = {}
    for word in words:
        key, separator, value = word.partition('=')
        if not separator:
            raise ConfigurationError(f'--set {word}', 'sets nothing', 'write KEY=VALUE')
        values[key.strip()] = parse_yaml(value, f'--set {key.strip()}')
    return values


def _words(text: str) -> list[str]:
    return [word for word in text.split(',') if word]


def add_recording_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which robot explains recordings, and how they are read."""
    add_part_arguments(parser)
    parser.add_argument(
        '--gravity',
        type=float,
        nargs=3,
        metavar=('X', 'Y', 'Z'),
        help="in the base frame, m/s^2 (default: the recorded controller's, else 0 0 -9.81; "
        'Gazebo has 0 0 -9.8)',
    )
    add_effort_limit(parser)
    parser.add_argument(
        '--joints',
        default='',
        metavar='A,B,...',
        help="names in the recording of the model's joints, in its order, if they differ",
    )


def add_part_arguments(parser: argparse._ActionsContainer) -> None:
    """Declare the description, what recorded numbers mean, and which part counts."""
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
        help='parameters.yaml of command identify: inertias, friction and armature in place of '
        "the description's (default: that of the recorded controller, if it had one)",
    )
    parser.add_argument(
        '--driver_profile',
        default='',
        metavar='FILE',
        help='what the numbers in the bags mean (currents, per cent, signs, names): a YAML file, '
        'or the name of a shipped profile (default: SI units at the joints)',
    )
    parser.add_argument('--namespace', default='', help='of the robot, if a bag has several')
    for word, default, which in (('from', -math.inf, 'first'), ('to', math.inf, 'last')):
        parser.add_argument(
            f'--{word}',
            dest=f'{which}_second',
            type=float,
            default=default,
            metavar='S',
            help=f'{which} second that counts: from the first state on, or a stamp of simulated '
            'time',
        )


def add_job_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare who reads the bags."""
    parser.add_argument(
        '--jobs', type=int, default=0, help='processes; 0: one for each processor (default)'
    )
    parser.add_argument(
        '--scheduler',
        default='',
        metavar='tcp://HOST:PORT',
        help='Dask scheduler whose workers shall read the bags; they must see the same files',
    )


def recording_choice(args: argparse.Namespace) -> RobotChoice:
    """Return the robot that the arguments choose, and how its recordings are read."""
    joints = args.joints.split(',') if isinstance(args.joints, str) else args.joints
    return RobotChoice(
        robot=args.described_by,
        gravity=tuple(args.gravity) if args.gravity else None,
        effort_limit=getattr(args, 'effort_limit', None),
        joints=tuple(name.strip() for name in joints if name.strip()),
        namespace=args.namespace,
        driver_profile=args.driver_profile,
        identified=args.identified,
        span=(args.first_second, args.last_second),
    )
