# SPDX-License-Identifier: Apache-2.0
"""Compare two recorded runs of the same program, aligned in time."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from robot_dynamics_ros.cli.tables import wide_console
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.bag.files import is_bag, short_name
from robot_dynamics_ros.recordings.compare.alignment import METHODS
from robot_dynamics_ros.recordings.compare.comparison import Comparison, compare_runs
from robot_dynamics_ros.recordings.json_files import write_json
from robot_dynamics_ros.recordings.metrics.thresholds import check, flat_figures, parse_threshold
from robot_dynamics_ros.recordings.metrics.tracking import tool_frame
from robot_dynamics_ros.recordings.output_folder import claim, filled
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.report.comparison import write_comparison_report
from robot_dynamics_ros.recordings.robot_choice import RobotChoice

_USUAL_OUTPUT = Path('out') / 'comparison'
_ALIKE = 0.9
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
    group.add_argument(
        '--description', default='', metavar='FILE', help='URDF (default: that of the first bag)'
    )
    group.add_argument('--namespace', default='', help='of the robot, if a bag has several')
    group.add_argument('--frame', default='', help='tool frame (default: tool, or the last link)')
    group.add_argument(
        '--threshold',
        action='append',
        default=[],
        metavar='KEY=VALUE',
        help='bound on a figure of comparison.json (KEY>=VALUE: a lower one); exit code 1 if it '
        "is passed; of a list of joints the worst counts, 'list' shows the figures",
    )
    group.add_argument('--output', type=Path, metavar='DIR', help='folder of the results')
    group.add_argument('--force', action='store_true', help='replace files that are there already')


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
    choice = RobotChoice(description=args.description, namespace=args.namespace)
    first, tree = _read(bags[0], choice)
    second, _ = _read(bags[1], choice)
    notes = _notes(names, (first, second), described=bool(args.description))
    comparison = compare_runs(first, second, tree, tool_frame(tree, args.frame), args.align)
    verdicts = check(thresholds, comparison.figures, tree.joint_names)
    with filled(output) as work:
        bags_named = dict(zip(('first_bag', 'second_bag'), words, strict=True))
        write_json(work / 'comparison.json', bags_named | comparison.figures | {'notes': notes})
        write_comparison_report(work / 'report.html', names, tree, comparison, notes)
    console = wide_console()
    if listing:
        figures = flat_figures(comparison.figures, tree.joint_names)
        console.print('\n'.join(escape(name) for name in figures), highlight=False)
        return 0
    _print(console, names, comparison)
    for note in notes:
        console.print(f'[dim] note[/] {escape(note)}', highlight=False, soft_wrap=True)
    for verdict in verdicts:
        if not verdict.holds:
            console.print(f'[red]threshold[/] {escape(str(verdict))}', highlight=False)
    console.print(f'results: {escape(str(output))}', highlight=False)
    return 0 if all(verdict.holds for verdict in verdicts) else EXIT_THRESHOLD


def _read(bag: Path, choice: RobotChoice) -> tuple[Recording, RobotTree]:
    with choice.read(bag) as reader:
        tree, _ = choice.load(reader)
        (recording,) = reader.chunks(float('inf'))
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


def _print(console: Console, names: list[str], comparison: Comparison) -> None:
    figures: dict[str, Any] = comparison.figures
    alignment = comparison.alignment
    console.print(
        f'{figures["overlap_s"]:.4g} s in common, {figures["states"]} states; second shifted by '
        f'{alignment.shift:.6g} s ({alignment.method}), correlation '
        f'{alignment.correlation:.4f}',
        highlight=False,
        soft_wrap=True,
    )
    if not alignment.correlation >= _ALIKE:
        console.print('[yellow]look[/] the motions are hardly alike: is it the same program?')
    table = Table(title='rad, m, N m, N', title_justify='left')
    table.add_column('joint')
    headings = (
        f'RMS error\n{names[0]}', f'RMS error\n{names[1]}', 'second\nby first',
        'RMS difference\nof position',
        f'RMS effort\n{names[0]}', f'RMS effort\n{names[1]}', 'RMS difference\nof effort',
    )  # fmt: skip
    for heading in headings:
        table.add_column(escape(heading), justify='right')
    for i, joint in enumerate(figures['joints']):
        values = (
            figures['first']['rms_error'][i],
            figures['second']['rms_error'][i],
            figures['error_ratio'][i],
            figures['difference']['rms_position'][i],
            figures['first']['rms_effort'][i],
            figures['second']['rms_effort'][i],
            figures['difference']['rms_effort'][i],
        )
        cells = ('-' if value != value else f'{value:.3g}' for value in values)
        table.add_row(escape(joint), *cells)
    console.print(table)
    console.print(
        f'tool error RMS: {figures["first"]["tool_rms_mm"]:.4g} and '
        f'{figures["second"]["tool_rms_mm"]:.4g} mm; the tools are '
        f'{figures["difference"]["tool_rms_mm"]:.4g} mm apart (RMS), '
        f'{figures["difference"]["tool_peak_mm"]:.4g} mm at most',
        highlight=False,
        soft_wrap=True,
    )
