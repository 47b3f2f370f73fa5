# SPDX-License-Identifier: Apache-2.0
"""Compare two recorded runs of the same program, aligned in time."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from robot_dynamics_ros.cli.recording_arguments import add_part_arguments, recording_choice
from robot_dynamics_ros.cli.tables import (
    add_output_arguments,
    add_threshold_argument,
    print_figures,
    print_report,
    print_thresholds,
    wide_console,
)
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.alignment import METHODS
from robot_dynamics_ros.recordings.bag.files import is_bag, short_name
from robot_dynamics_ros.recordings.comparison import (
    compare_runs,
    comparison_figures,
    comparison_report,
)
from robot_dynamics_ros.recordings.metrics.thresholds import check, parse_threshold
from robot_dynamics_ros.recordings.metrics.tracking import tool_frame
from robot_dynamics_ros.recordings.output_folder import claim, filled, write_json
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.recordings.recording import Recording

_USUAL_OUTPUT = Path('out') / 'comparison'
EXIT_THRESHOLD = 1


def are_bags(words: list[str]) -> bool:
    """Return whether the first word is a recording, or a folder, which no robot is."""
    return bool(words) and (Path(words[0]).is_dir() or is_bag(Path(words[0])))


def add_bag_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that two recordings are compared with."""
    group = parser.add_argument_group('two recordings')
    group.add_argument(
        '--align',
        default='motion',
        metavar='HOW',
        help=f'{", ".join(METHODS)}, or the shift of the second in s (default: motion)',
    )
    add_part_arguments(group)
    group.add_argument('--frame', default='', help='tool frame (default: tool, or the last link)')
    add_threshold_argument(group, 'comparison.json')
    add_output_arguments(group, _USUAL_OUTPUT)


def compare_bags(words: list[str], args: argparse.Namespace) -> int:
    """Compare two recordings; return 1 if a threshold is passed.

    Raises:
        ConfigurationError: There are not two recordings.
    """
    if len(words) != 2:
        raise ConfigurationError(
            f'{len(words)} recordings', 'cannot be compared', 'give two: BAG_A BAG_B'
        )
    bags = [Path(word) for word in words]
    listing = args.threshold == ['list']
    thresholds = [] if listing else [parse_threshold(text) for text in args.threshold]
    names = _names(bags)
    usual = _USUAL_OUTPUT / f'{names[0]}_{names[1]}'
    output = claim(args.output, usual, force=args.force)
    choice = recording_choice(args)
    first, tree = _read(bags[0], choice)
    second, _ = _read(bags[1], choice)
    notes = _notes(names, (first, second), described=bool(args.described_by))
    comparison = compare_runs(first, second, tree, tool_frame(tree, args.frame), args.align)
    verdicts = check(thresholds, comparison.figures, tree.joint_names)
    report = comparison_report(names, tree, comparison, notes)
    with filled(output) as work:
        bags_named = dict(zip(('first_bag', 'second_bag'), words, strict=True))
        write_json(work / 'comparison.json', bags_named | comparison.figures | {'notes': notes})
        figures = comparison_figures(names, tree, comparison)
        replace(report, figures=figures).write(work / 'report.html')
    console = wide_console()
    if listing:
        print_figures(console, comparison.figures, tree.joint_names)
        return 0
    print_report(console, report, output)
    print_thresholds(console, verdicts)
    return 0 if all(verdict.holds for verdict in verdicts) else EXIT_THRESHOLD


def _read(bag: Path, choice: RobotChoice) -> tuple[Recording, RobotTree]:
    with choice.read(bag) as reader:
        tree, _ = choice.load(reader)
        (recording,) = choice.parts(reader, tree, float('inf'))
        return recording, tree


def _notes(names: list[str], runs: Sequence[Recording], *, described: bool) -> list[str]:
    """Return what was unusual in the bags."""
    notes = [
        f'{name}: {note}' for name, run in zip(names, runs, strict=True) for note in run.notes
    ]
    first, second = (run.description for run in runs)
    if not described and second and first != second:
        notes.append(f'the descriptions in the bags differ: that of {names[0]} is used for both')
    return notes


def _names(bags: list[Path]) -> list[str]:
    """Return short names of the bags that differ."""
    names = [short_name(bag) for bag in bags]
    return names if names[0] != names[1] else [f'{names[0]}-1', f'{names[1]}-2']
