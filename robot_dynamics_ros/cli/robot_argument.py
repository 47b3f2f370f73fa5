# SPDX-License-Identifier: Apache-2.0
"""The arguments by which a command is given a robot."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from robot_dynamics_ros.description.shipped import (
    MECHANISMS,
    ROBOTS,
    shipped_mechanism,
    shipped_robot,
)
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.limits import EffortLimit
from robot_dynamics_ros.model.load import load_mechanism
from robot_dynamics_ros.model.mechanism import Mechanism
from robot_dynamics_ros.model.robot_tree import STANDARD_GRAVITY, RobotTree

#: Stands in where a file gives no effort limit, which the equations of motion do not need.
_ANY_LIMIT = 1.0


def add_robot_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the robot, the arguments of its xacro file, and gravity."""
    listed = ', '.join((*ROBOTS, *MECHANISMS))
    parser.add_argument('robot', help=f'URDF or xacro file, or one of: {listed}')
    parser.add_argument(
        'mapping', nargs='*', metavar='NAME:=VALUE', help='argument of a xacro file'
    )
    parser.add_argument(
        '--gravity',
        type=float,
        nargs=3,
        default=STANDARD_GRAVITY,
        metavar=('X', 'Y', 'Z'),
        help='free-fall acceleration in the base frame, m/s^2 (default: 0 0 -9.81)',
    )


def given_robot(args: argparse.Namespace, effort_limit: EffortLimit = _ANY_LIMIT) -> RobotTree:
    """Load the robot that the arguments name.

    Args:
        args: As parsed.
        effort_limit: As ``load_robot`` takes it, N m or N; None where limits matter.

    Raises:
        DescriptionError: It cannot be read, or a mapping sets nothing.
        UnknownNameError: It is no file, and no robot of that name ships.
    """
    path, mappings = robot_source(args)
    return load_robot(path, args.gravity, effort_limit=effort_limit, mappings=mappings)


def robot_source(args: argparse.Namespace) -> tuple[str | Path, dict[str, str]]:
    """Return the file of the robot that the arguments name, and the arguments of its xacro file.

    Raises:
        ConfigurationError: A mapping sets nothing.
        UnknownNameError: It is no file, and no robot of that name ships.
    """
    return _path(args.robot), _mappings(args.mapping)


def add_loops_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the mechanism file."""
    parser.add_argument(
        '--loops',
        type=Path,
        metavar='FILE',
        help="mechanism file that closes loops of the robot (default: a shipped mechanism's own)",
    )


def given_loops(args: argparse.Namespace) -> Path | None:
    """Return the mechanism file: as given, or that of a shipped mechanism; None of a tree."""
    if args.loops is None and args.robot in MECHANISMS:
        return shipped_mechanism(args.robot)[1]
    loops: Path | None = args.loops
    return loops


def given_mechanism(args: argparse.Namespace, loops: Path) -> Mechanism:
    """Load the robot with the loops of a mechanism file.

    Raises:
        DescriptionError: One of the files cannot be read or used.
    """
    return load_mechanism(
        _path(args.robot),
        loops,
        args.gravity,
        effort_limit=_ANY_LIMIT,
        mappings=_mappings(args.mapping),
    )


def _path(robot: str) -> str | Path:
    """Return the file; a word that is neither a file nor looks like one is a shipped robot."""
    is_word = robot.isidentifier() and not Path(robot).exists()
    return shipped_robot(robot) if is_word or robot in ROBOTS else robot


def _mappings(words: Sequence[str]) -> dict[str, str]:
    for word in words:
        if ':=' not in word:
            raise ConfigurationError(f'argument {word!r}', 'sets nothing', 'write NAME:=VALUE')
    return dict(word.split(':=', 1) for word in words)
