# SPDX-License-Identifier: Apache-2.0
"""Design an excitation trajectory for identification, and write it as files."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.cli.arguments import (
    EFFORT_LIMIT,
    OBSTACLES,
    ROBOT,
    Command,
    arm_of,
    option,
    output,
)
from robot_dynamics_ros.cli.new_robot import obstacles_of
from robot_dynamics_ros.cli.sign_of_life import tell
from robot_dynamics_ros.cli.tables import print_lines, say
from robot_dynamics_ros.control.trajectories.points import trajectory_text
from robot_dynamics_ros.control.trajectories.trajectory import check_limits
from robot_dynamics_ros.geometry.collisions import make_checker
from robot_dynamics_ros.identification import Bounds, Excitation, design_excitation
from robot_dynamics_ros.identification.unknowns import DEFAULT_TERMS, TERMS
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.arm import tool_frame
from robot_dynamics_ros.planning.motions import Fourier
from robot_dynamics_ros.recordings.output_folder import require_free, write_json

#: Files written to the output folder.
FILES = ('trajectory.yaml', 'excitation.json')


_STEP = 0.02  # s between the trajectory points, which quintics interpolate


def excite(args: argparse.Namespace) -> int:
    """Design, check and write the motion; return 0."""
    require_free(args.output, FILES, force=args.force)
    tree = arm_of(args)
    checker, remarks = make_checker(tree, obstacles_of(args))
    print_lines('yellow', 'remark:', (*tree.remarks, *remarks))
    excitation = design_excitation(
        tree,
        period=args.period,
        harmonics=args.harmonics,
        bounds=_bounds(args, tool_frame(tree, args.frame or args.tip)),
        terms=args.terms,
        seed=args.seed,
        checker=checker,
        tell=tell,
    )
    write_excitation(args.output, tree, excitation, args.periods)
    say(
        f'condition of the base regressor: {excitation.condition:.3g} '
        f'(random motions within the same limits: {excitation.random_condition:.3g})'
    )
    for name, share in excitation.used.items():
        if name != 'workspace':
            say(f'{name}: {100.0 * share:.0f} % of the allowed range')
    say(f'written: {", ".join(str(args.output / name) for name in FILES)}')
    return 0


def _bounds(args: argparse.Namespace, frame: str) -> Bounds:
    lower = list(args.lower)
    if args.above is not None:
        lower[2] = max(lower[2], args.above)
    return Bounds(
        position=args.position,
        velocity=args.velocity,
        effort=args.effort,
        frame=frame,
        lower=tuple(lower),
        upper=tuple(args.upper),
    )


def _bound(name: str, value: float) -> float:
    return value if math.isinf(value) else read.number(name, value)


def excitation_trajectory(excitation: Excitation, periods: int = 1) -> Fourier:
    """Return the motion as a trajectory that a controller can follow."""
    return Fourier(
        excitation.centre, excitation.sine, excitation.cosine, excitation.period, periods
    )


def write_excitation(folder: Path, tree: Robot, excitation: Excitation, periods: int) -> None:
    """Write the motion as a trajectory message and as Fourier coefficients.

    Raises:
        TrajectoryError: The motion exceeds the limits of the robot.
    """
    trajectory = excitation_trajectory(excitation, periods)
    check_limits(trajectory, tree)
    message, numbers = (folder / name for name in FILES)
    write_json(numbers, excitation.as_dict() | {'periods': periods})
    message.write_text(trajectory_text(trajectory, tree.joint_names, _STEP), encoding='utf-8')


COMMANDS = {
    'excite': Command(
        excite,
        {
            **ROBOT,
            **output(),
            **EFFORT_LIMIT,
            '--period': option(10.0, 'period of the motion, s'),
            '--periods': option(2, 'number of periods', check=read.positive),
            '--harmonics': option(5, 'harmonics of the Fourier series'),
            '--seed': option(0, 'random seed of the design'),
            '--terms': option(
                list(DEFAULT_TERMS),
                f'drive parameters to identify (default: {" ".join(DEFAULT_TERMS)})',
                nargs='*',
                choices=tuple(TERMS),
            ),
            **{
                f'--{name} SHARE': option(share, f'share of the {name} limits that may be used')
                for name, share in (('position', 0.9), ('velocity', 0.7), ('effort', 0.7))
            },
            '--frame': option(
                '',
                'frame whose origin stays within the box (default: the tool frame)',
                needs='--lower or --upper or --above',
            ),
            **{
                f'--{name} X Y Z': option(
                    (end, end, end),
                    f'{name} corner of the box, base frame, m; inf or -inf for no bound',
                    type=float,
                    check=_bound,
                )
                for name, end in (('lower', -math.inf), ('upper', math.inf))
            },
            '--above Z': option(float, 'minimum height of the frame, base frame, m'),
            **OBSTACLES,
        },
    )
}
