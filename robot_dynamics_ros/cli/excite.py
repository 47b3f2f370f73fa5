# SPDX-License-Identifier: Apache-2.0
"""Design an excitation trajectory for identification, and write it as files."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from robot_dynamics_ros.cli.new_robot import add_obstacle_arguments, obstacles_of
from robot_dynamics_ros.cli.robot_argument import (
    add_effort_limit,
    add_robot_arguments,
    robot_of,
)
from robot_dynamics_ros.cli.tables import add_output_arguments, wide_console
from robot_dynamics_ros.control.trajectories.motions import Fourier
from robot_dynamics_ros.control.trajectories.points import trajectory_text
from robot_dynamics_ros.control.trajectories.trajectory import check_limits
from robot_dynamics_ros.geometry.collisions import make_checker
from robot_dynamics_ros.identification import Bounds, Excitation, design_excitation
from robot_dynamics_ros.identification.unknowns import DEFAULT_TERMS, TERMS
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.output_folder import choose_folder, write_json

#: Files written to the output folder.
FILES = ('trajectory.yaml', 'excitation.json')

_STEP = 0.02  # s between the trajectory points, which quintics interpolate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_robot_arguments(parser)
    add_output_arguments(parser)
    add_effort_limit(parser)
    parser.add_argument(
        '--period', type=float, default=10.0, help='period of the motion, s (default: 10)'
    )
    parser.add_argument('--periods', type=int, default=2, help='number of periods (default: 2)')
    parser.add_argument(
        '--harmonics', type=int, default=5, help='harmonics of the Fourier series (default: 5)'
    )
    parser.add_argument(
        '--seed', type=int, default=0, help='random seed of the design (default: 0)'
    )
    parser.add_argument(
        '--terms',
        nargs='*',
        choices=tuple(TERMS),
        default=list(DEFAULT_TERMS),
        help=f'drive parameters to identify (default: {" ".join(DEFAULT_TERMS)})',
    )
    group = parser.add_argument_group('bounds of the motion')
    for name, share in (('position', 0.9), ('velocity', 0.7), ('effort', 0.7)):
        group.add_argument(
            f'--{name}',
            type=float,
            default=share,
            metavar='SHARE',
            help=f'share of the {name} limits that may be used (default: {share})',
        )
    group.add_argument(
        '--frame', default='tool', help='frame whose origin stays within the box (default: tool)'
    )
    for name, end in (('lower', -math.inf), ('upper', math.inf)):
        group.add_argument(
            f'--{name}',
            type=float,
            nargs=3,
            default=(end, end, end),
            metavar=('X', 'Y', 'Z'),
            help=f'{name} corner of the box, base frame, m; inf or -inf for no bound',
        )
    add_obstacle_arguments(parser)
    group.add_argument(
        '--above', type=float, metavar='Z', help='minimum height of the frame, base frame, m'
    )


def run(args: argparse.Namespace) -> int:
    """Design, check and write the motion; return 0."""
    console = wide_console()
    choose_folder(args.output, args.output, force=args.force, files=FILES)
    tree = robot_of(args, args.effort_limit)
    checker, remarks = make_checker(tree, obstacles_of(args))
    for remark in remarks:
        console.print(f'remark: {remark}', style='yellow', markup=False)
    excitation = design_excitation(
        tree,
        period=args.period,
        harmonics=args.harmonics,
        bounds=_bounds(args),
        terms=args.terms,
        seed=args.seed,
        checker=checker,
    )
    write_excitation(args.output, tree, excitation, args.periods)
    console.print(
        f'condition of the base regressor: {excitation.condition:.3g} '
        f'(random motions within the same limits: {excitation.random_condition:.3g})'
    )
    for name, share in excitation.used.items():
        if name != 'workspace':
            console.print(f'{name}: {100.0 * share:.0f} % of the allowed range')
    console.print(f'written: {", ".join(str(args.output / name) for name in FILES)}')
    return 0


def _bounds(args: argparse.Namespace) -> Bounds:
    lower = list(args.lower)
    if args.above is not None:
        lower[2] = max(lower[2], args.above)
    return Bounds(
        position=args.position,
        velocity=args.velocity,
        effort=args.effort,
        frame=args.frame,
        lower=tuple(lower),
        upper=tuple(args.upper),
    )


def excitation_trajectory(excitation: Excitation, periods: int = 1) -> Fourier:
    """Return the motion as a trajectory that a controller can follow."""
    return Fourier(
        excitation.centre, excitation.sine, excitation.cosine, excitation.period, periods
    )


def write_excitation(folder: Path, tree: RobotTree, excitation: Excitation, periods: int) -> None:
    """Write the motion as a trajectory message and as Fourier coefficients.

    Raises:
        TrajectoryError: The motion exceeds the limits of the robot.
    """
    trajectory = excitation_trajectory(excitation, periods)
    check_limits(trajectory, tree)
    folder.mkdir(parents=True, exist_ok=True)
    message, numbers = (folder / name for name in FILES)
    message.write_text(trajectory_text(trajectory, tree.joint_names, _STEP), encoding='utf-8')
    document = excitation.as_dict() | {'periods': periods}
    write_json(numbers, document)
