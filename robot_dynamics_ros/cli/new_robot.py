# SPDX-License-Identifier: Apache-2.0
"""Write a folder with all that nodes, drivers and Gazebo need of an arm of one's own."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from robot_dynamics_ros.cli.robot_argument import add_robot_arguments, given_robot
from robot_dynamics_ros.cli.robot_folder import (
    PARAMETERS,
    planned_folder,
    write_robot_folder,
)
from robot_dynamics_ros.description.shipped import MECHANISMS, ROBOTS, share_directory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_robot_arguments(parser)
    add_setup_arguments(parser)
    parser.add_argument('--out', type=Path, help="folder to write (default: the robot's name)")


def add_setup_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what a set-up needs beyond the robot and its joints."""
    parser.add_argument(
        '--effort-limit',
        type=float,
        metavar='NM',
        help='limit of the joints whose file gives none, N m or N',
    )
    parser.add_argument(
        '--frame', default='', metavar='LINK', help='the tool (default: --tip, or the usual one)'
    )


def run(args: argparse.Namespace) -> int:
    """Write the folder; say what is in it, and every remark on the robot once."""
    console = Console(highlight=False)
    tree = given_robot(args, args.effort_limit)
    for remark in tree.remarks:
        console.print(f'remark: {remark}', style='yellow', markup=False)
    folder: Path = args.out or Path(tree.name)
    motion = write_robot_folder(tree, folder, args.frame or args.tip)
    share = f'{motion.velocity_share:.0%} of velocity, {motion.effort_share:.0%} of effort limits'
    console.print(
        f'{folder}: {tree.n} joints; a circle of {motion.radius:.3g} m, {share}', markup=False
    )
    return 0


def parameter_file(args: argparse.Namespace) -> Path:
    """Return the parameters of the nodes of a robot: shipped, or planned once and kept.

    Args:
        args: Robot, mapping and joints, and what ``add_setup_arguments`` declares.

    Raises:
        RobotDynamicsError: The robot is refused, or no motion keeps within its limits.
    """
    chosen = (args.joints, args.locked, args.base, args.tip, args.mapping, args.frame)
    if args.robot in (*ROBOTS, *MECHANISMS) and not any(chosen):
        return share_directory() / 'config' / f'{args.robot}.yaml'
    tree = given_robot(args, args.effort_limit)
    return planned_folder(tree, args.frame or args.tip) / PARAMETERS
