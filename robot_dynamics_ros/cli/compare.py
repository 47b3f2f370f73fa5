# SPDX-License-Identifier: Apache-2.0
"""Compare two recordings of the same program: plots, numbers and thresholds."""

from __future__ import annotations

import argparse
from pathlib import Path

from robot_dynamics_ros.cli.analyze import EXIT_THRESHOLD, bag_names, given_thresholds
from robot_dynamics_ros.cli.arguments import (
    RECORDING,
    TOOL_FRAME,
    Command,
    given,
    option,
    output,
    recording_choice,
    threshold,
)
from robot_dynamics_ros.cli.tables import print_figures, print_report, print_thresholds
from robot_dynamics_ros.description.shipped import MECHANISMS, ROBOTS
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.recordings.comparison import METHODS, compare_recordings
from robot_dynamics_ros.recordings.metrics.metric import check_thresholds
from robot_dynamics_ros.recordings.output_folder import atomic_folder, choose_folder, write_json

_USUAL_OUTPUT = Path('out') / 'comparison'


def run(args: argparse.Namespace) -> int:
    """Compare two recordings; return 1 if a threshold is violated.

    Raises:
        ConfigurationError: The number of recordings is not two, or one is a shipped robot.
    """
    robots = [x for x in args.bags if str(x) in (*ROBOTS, *MECHANISMS) and not x.exists()]
    if robots or len(args.bags) != 2:
        raise ConfigurationError(
            ' '.join(map(str, args.bags)),
            'are not two recordings',
            'give two: BAG_A BAG_B; the formulations of a robot are compared by '
            'compare_formulations ROBOT',
        )
    names = bag_names(args.bags)
    usual = _USUAL_OUTPUT / f'{names[0]}_{names[1]}'
    output = choose_folder(args.output, usual, force=args.force)
    figures, report = compare_recordings(
        args.bags,
        names,
        recording_choice(args),
        frame=args.frame,
        method=args.align,
        options=given(args, RECORDING),
    )
    if args.threshold == ['list']:
        print_figures(figures, figures['joints'])
        return 0
    verdicts = check_thresholds(given_thresholds(args), figures, figures['joints'])
    with atomic_folder(output) as work:
        write_json(work / 'comparison.json', figures)
        report.write(work / 'report.html')
    print_report(report, output)
    print_thresholds(verdicts)
    return 0 if all(verdict.holds for verdict in verdicts) else EXIT_THRESHOLD


COMMANDS = {
    'compare': Command(
        run,
        {
            'bags BAG': option(Path, 'two recordings', nargs='+'),
            '--align HOW': option(
                'motion', f'{", ".join(METHODS)}, or the time shift of the second bag, s'
            ),
            **RECORDING,
            **TOOL_FRAME,
            **threshold('comparison.json'),
            **output(_USUAL_OUTPUT),
        },
    ),
}
