# SPDX-License-Identifier: Apache-2.0
"""Arguments of every command that reads bags: the robot, what the numbers mean, which part."""

from __future__ import annotations

import argparse
import math

from robot_dynamics_ros.cli.robot_argument import ROBOT_HELP
from robot_dynamics_ros.recordings.reading import RobotChoice


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
    parser.add_argument(
        '--effort-limit', type=float, metavar='NM', help='where the description gives none'
    )
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
        span=(args.first_second, args.last_second),
    )
