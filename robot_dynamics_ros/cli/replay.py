# SPDX-License-Identifier: Apache-2.0
"""Run the control loop on recorded states and compare its efforts with the recorded ones."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.cli.robot_argument import set_values
from robot_dynamics_ros.cli.tables import add_output_arguments, print_report
from robot_dynamics_ros.control.laws.registry import known_laws
from robot_dynamics_ros.control.setup import PARAMETERS
from robot_dynamics_ros.dynamics import FORMULATIONS
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.accumulate import RmsPeak
from robot_dynamics_ros.parameters import help_text, require_known
from robot_dynamics_ros.recordings.bag.files import short_name
from robot_dynamics_ros.recordings.output_folder import (
    CsvTable,
    atomic_folder,
    choose_folder,
    flat_columns,
    write_json,
)
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.replay.run import ReplayResult, replay
from robot_dynamics_ros.recordings.replay.source import REFERENCES, ReplaySource
from robot_dynamics_ros.recordings.report.analysis import Curves
from robot_dynamics_ros.recordings.report.runs import replay_report
from robot_dynamics_ros.spatial.scalar import Array

_USUAL_OUTPUT = Path('out') / 'replay'
TOLERANCE = 1e-9  # N m or N: rounding by another order of additions
_REFERENCE_TOLERANCE = 1e-6
EXIT_DIFFERENT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments; the help lists the parameters that ``--set`` accepts."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = help_text(PARAMETERS)
    parser.add_argument('bag', type=Path, metavar='BAG', help='bag or storage file')
    parser.add_argument(
        '--law', choices=sorted(known_laws()), help='control law (default: as recorded)'
    )
    parser.add_argument(
        '--set',
        dest='changes',
        action='append',
        default=[],
        metavar='KEY=VALUE',
        help='override a parameter of the controller, YAML value; may be repeated',
    )
    parser.add_argument(
        '--formulation',
        choices=tuple(FORMULATIONS),
        help='formulation of the dynamics (default: as recorded)',
    )
    parser.add_argument(
        '--description', metavar='FILE', help='URDF or xacro file (default: as recorded)'
    )
    parser.add_argument(
        '--reference',
        choices=REFERENCES,
        default='auto',
        help='source of the reference (default: the recorded trajectories if there are any, else '
        'the recorded reference)',
    )
    parser.add_argument(
        '--tolerance',
        type=_tolerance,
        metavar='NM',
        help=f'effort difference above which the exit code is 1, N m or N (default: {TOLERANCE:g} '
        'without overrides, otherwise unlimited)',
    )
    parser.add_argument(
        '--namespace', default='', help='namespace of the robot, if the bag has several'
    )
    add_output_arguments(parser, _USUAL_OUTPUT)


def _tolerance(text: str) -> float:
    value = float(text)
    if not value >= 0.0:
        raise ValueError(text)
    return value


def run(args: argparse.Namespace) -> int:
    """Replay, print and write; return 1 if an effort differs by more than the tolerance."""
    bag: Path = args.bag
    output = choose_folder(args.output, _USUAL_OUTPUT / short_name(bag), force=args.force)
    changes = _changes(args)
    source = ReplaySource(
        args.bag, changes, namespace=args.namespace, description=args.description or ''
    )
    own = source.recorded and not changes and not args.description
    tolerance = args.tolerance if args.tolerance is not None else (TOLERANCE if own else np.inf)
    with atomic_folder(output) as work, CsvTable(work / 'rows.csv') as table:
        n = source.tree.n
        curves, difference, size = Curves(n), RmsPeak(n), RmsPeak(n)

        def sink(chunk: Recording, efforts: Array) -> None:
            difference.take(chunk.time, efforts - chunk.effort)
            size.take(chunk.time, chunk.effort)
            columns = {
                'recorded': chunk.effort,
                'replayed': efforts,
                'difference': efforts - chunk.effort,
            }
            curves(chunk, {**columns, 'reference': chunk.reference_position})
            table.add(flat_columns(chunk, columns))

        result = replay(source.setup(args.reference), source.chunks, tolerance, sink)
        if not result.compared:
            raise RecordingError(
                f'bag {str(bag)!r}',
                'holds no command that answers a state',
                'record the effort command topic',
            )
        document = _document(source, result, difference, size, tolerance, changes)
        write_json(work / 'replay.json', document)
        report = replay_report(f'Replay of {short_name(bag)}', source.tree, document, curves)
        report.write(work / 'report.html')
    print_report(report, output)
    return 0 if document['within_tolerance'] else EXIT_DIFFERENT


def _changes(args: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters that override recorded ones."""
    changes = set_values(args.changes)
    require_known(PARAMETERS, list(changes), "controller's parameter")
    chosen = {'law': args.law, 'formulation': args.formulation}
    return changes | {key: value for key, value in chosen.items() if value}


def _document(
    source: ReplaySource,
    result: ReplayResult,
    difference: RmsPeak,
    size: RmsPeak,
    tolerance: float,
    changes: Mapping[str, Any],
) -> dict[str, Any]:
    merged = {**source.parameters, **changes}
    worst = float(difference.peak.max())
    notes = [*source.notes, *result.problems, *source.bag_notes]
    if result.lost:
        notes.append(
            f'{result.lost} answers of the controller have no recorded command: not compared'
        )
    if result.unanswered:
        notes.append(
            f'{result.unanswered} states were not answered, or neither command nor reference was '
            'recorded: not shown to the loop'
        )
    if result.refused:
        notes.append(f'{result.refused} states that were answered are refused by the loop')
    if result.reference_error > _REFERENCE_TOLERANCE:
        notes.append(
            f'the reference differs from the recorded one by up to {result.reference_error:.3g}: '
            'a trajectory is missing in the bag, perhaps one sent by action; try --reference '
            'recorded'
        )
    return {
        'joints': list(source.tree.joint_names),
        'law': merged['law'],
        'formulation': merged['formulation'],
        'parameters': 'recorded' if source.recorded else 'usual',
        'changes': dict(changes),
        'commands': result.compared,
        'commands_lost': result.lost,
        'states_unanswered': result.unanswered,
        **difference.figures('rms', 'peak', 'peak_at'),
        **size.figures('effort_rms'),
        'reference_error': result.reference_error,
        'first_difference_at': None if result.first is None else result.first[1],
        'last_difference_at': result.last,
        'commands_beyond': result.out_of_tolerance,
        'tolerance': tolerance,
        'within_tolerance': bool(worst <= tolerance) and not result.refused,
        'notes': notes,
    }
