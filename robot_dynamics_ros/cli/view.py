# SPDX-License-Identifier: Apache-2.0
"""Show arms, programs and efforts in a browser on this machine."""

from __future__ import annotations

import argparse
import contextlib

from robot_dynamics_ros.cli.robot_argument import ROBOT_HELP, ros_parameters
from robot_dynamics_ros.description.shipped import robot_file
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.ros.executables import run_executable
from robot_dynamics_ros.viewing.page import Page
from robot_dynamics_ros.viewing.playback import BagRun, Playback


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        'bags',
        nargs='*',
        metavar='BAG',
        help='one or two recordings to play (default: show running arms)',
    )
    parser.add_argument(
        '--overlay', action='store_true', help='show the second recording as a ghost of the first'
    )
    parser.add_argument('--port', type=int, default=8080, help='port on 127.0.0.1 (default: 8080)')
    parser.add_argument(
        '--robot', default='', help=f'robot to show if no description is published: {ROBOT_HELP}'
    )
    parser.add_argument(
        '--namespace',
        action='append',
        default=[],
        help='namespace of an arm; may be repeated (default: all)',
    )
    parser.add_argument(
        '--rate', type=float, default=30.0, help='updates per second (default: 30)'
    )
    parser.add_argument(
        '--control', action='store_true', help='allow commands to the arm from the page'
    )


def run(args: argparse.Namespace) -> int:
    """Serve the page until interrupted.

    Raises:
        ConfigurationError: More than two recordings are given, or an overlay without two.
    """
    if args.bags:
        return _play(args)
    if args.overlay:
        raise ConfigurationError('--overlay', 'needs two recordings', 'give them')
    parameters = {
        'port': args.port,
        'robot': args.robot,
        'namespaces': args.namespace or [''],
        'rate_hz': args.rate,
        'control': args.control,
    }
    return run_executable('view', ['--ros-args', *ros_parameters(parameters)])


def _play(args: argparse.Namespace) -> int:
    """Play recordings until interrupted."""
    if len(args.bags) > 2 or (args.overlay and len(args.bags) != 2):
        count = f'{len(args.bags)} are given'
        raise ConfigurationError('BAG', count, 'two with --overlay, else one or two')
    robot = read_description(robot_file(args.robot)).xml if args.robot else ''
    choices = {'namespace': args.namespace[0]} if args.namespace else {}
    runs = [BagRun(bag, **choices) for bag in args.bags]
    page = Page(args.port, 'robot dynamics')
    playback = Playback(page, runs, robot, overlay=args.overlay)
    for note in (note for run in runs for note in run.notes):
        print(f'note: {note}')
    print(f'viewer: open {page.address} in a browser on this machine', flush=True)
    playback.play(True)
    with contextlib.suppress(KeyboardInterrupt):
        playback.run()
    page.close()
    return 0
