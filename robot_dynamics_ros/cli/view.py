# SPDX-License-Identifier: Apache-2.0
"""Show running arms in a browser."""

from __future__ import annotations

import argparse
import shlex

from robot_dynamics_ros.cli.arguments import (
    PACKAGES,
    ROBOT_HELP,
    Command,
    Options,
    given,
    option,
    ros_parameters,
)
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.recordings.report.toolkit import command_line
from robot_dynamics_ros.ros.executables import run_executable


def view(args: argparse.Namespace) -> int:
    """Serve the page until interrupted.

    Raises:
        ConfigurationError: Recordings or a description are given; says what shows them.
    """
    name = ''.join(args.bags[:1])
    if name.endswith(('.urdf', '.xacro', '.xml')):
        remedy = f'start one, and show it with --robot {shlex.quote(name)}'
        raise ConfigurationError(f'view {name}', 'shows running arms only', remedy)
    if args.bags:
        of = given(args, {key: x for key, x in _VIEW.items() if key.split()[0] in _OF_BAGS})
        of['--namespace'] = of.get('--namespace', [])[:2]
        command = 'compare' if len(args.bags) == 2 else 'analyze'
        raise ConfigurationError(
            f'view {shlex.join(args.bags)}',
            'shows running arms only',
            f'the report plays recordings: {command_line(command, *args.bags, options=of)}',
        )
    parameters = {
        'port': args.port,
        'host': args.host,
        'robot': args.robot,
        'namespaces': args.namespace or [''],
        'rate_hz': args.rate,
        'control': args.control,
    }
    return run_executable('view', ['--ros-args', *ros_parameters(parameters)])


_VIEW: Options = {
    'bags BAG': option(None, 'none: recordings are shown by analyze and compare', nargs='*'),
    '--port': option(8080, 'port of the page; 0: any free one'),
    '--host': option('127.0.0.1', 'interface; 0.0.0.0 lets machines connect that know the token'),
    '--robot': option('', f'robot to show if no description is published: {ROBOT_HELP}'),
    **PACKAGES,
    '--namespace': option(
        [], 'namespace of an arm; may be repeated (default: all)', action='append'
    ),
    '--rate': option(25.0, 'updates per second'),
    '--control': option(False, 'allow commands to the arm from the page'),
}
_OF_BAGS = ('--robot', '--package', '--namespace')

COMMANDS = {'view': Command(view, _VIEW, lasts=True)}
