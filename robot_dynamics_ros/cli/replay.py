# SPDX-License-Identifier: Apache-2.0
"""Run the control loop again on recorded states; compare its efforts with the recorded ones."""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.cli.arguments import (
    PART,
    RECORDING,
    Command,
    Options,
    given,
    option,
    output,
    set_values,
)
from robot_dynamics_ros.cli.tables import print_report
from robot_dynamics_ros.control.laws.registry import known_laws
from robot_dynamics_ros.control.setup import PARAMETERS
from robot_dynamics_ros.dynamics import FORMULATIONS
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.accumulate import RmsPeak
from robot_dynamics_ros.parameters import help_text, require_known, require_used
from robot_dynamics_ros.recordings.bag.files import short_name
from robot_dynamics_ros.recordings.metrics.analysis import REPLAY_MODEL, REPLAY_READS
from robot_dynamics_ros.recordings.output_folder import (
    atomic_folder,
    choose_folder,
    csv_table,
    flat_columns,
    write_json,
)
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.recordings.replay import REFERENCES, ReplayResult, ReplaySource, replay
from robot_dynamics_ros.recordings.report.replays import replay_report
from robot_dynamics_ros.spatial.scalar import Array

_USUAL_OUTPUT = Path('out') / 'replay'
TOLERANCE = 1e-9  # N m or N: rounding by another order of additions
LEAST_SHARE = 0.95  # of the commands that must be compared
_REFERENCE_TOLERANCE = 1e-6
EXIT_DIFFERENT = 1
_READ: Options = {
    key: x
    for key, x in PART.items()
    if key.split()[0] in REPLAY_READS and key != '--reference TOPIC'
}
#: Options that are parameters of the controller (default: as recorded).
_MODEL: Options = {key: x for key, x in RECORDING.items() if key.split()[0] in REPLAY_MODEL}
#: What the numbers of states mean, by what became of them, and of unpaired commands.
_COUNTED = {
    'lost': 'answers of the controller have no recorded command: not compared',
    'unanswered': 'states were not answered, or neither command nor reference was recorded: not '
    'shown to the loop',
    'refused': 'states that were answered are refused by the loop',
    'unpaired': 'commands have no state of their own, or another number of values: not compared',
    'early': 'commands before the first activation in the bag: not compared',
}


def _reference(text: str) -> str:
    if text not in REFERENCES and '/' not in text:
        known = ', '.join(REFERENCES)
        raise argparse.ArgumentTypeError(f'{text!r} is no topic, and none of {known}')
    return text


def run_replay(args: argparse.Namespace) -> int:
    """Replay, print and write; return 1 if an effort differs by more than the tolerance."""
    bag: Path = args.bag
    output = choose_folder(args.output, _USUAL_OUTPUT / short_name(bag), force=args.force)
    changes = _changes(args)
    source = ReplaySource(
        args.bag,
        changes,
        RobotChoice(
            robot=args.described_by,
            recorded_joints=tuple(args.recorded_joints),
            topics={
                **{key: getattr(args, key) for key in ('namespace', 'states', 'commands')},
                'reference': args.reference if '/' in args.reference else '',
            },
        ),
        reference='recorded' if '/' in args.reference else args.reference,
    )
    require_used(PARAMETERS, source.parameters, set_values(args.changes), '--set {}={}')
    own = source.logged and not (changes or args.described_by)
    tolerance = args.tolerance if args.tolerance is not None else (TOLERANCE if own else np.inf)
    result = replay(source)
    if 'compared' not in result.outcome:
        remedy = 'record the effort command topic; of a table, the columns command (not effort)'
        why = [note for note in source.bag_notes if 'command' in note]
        problem = 'holds no command that answers a state'
        if 'early' in result.outcome:
            problem += ' after an activation'
            why += ['by the timestamps, controller and driver had two clocks: use_sim_time']
        raise RecordingError(f'bag {str(bag)!r}', problem, '; '.join(why) or remedy)
    run, difference = source.run, result.efforts - source.run.effort
    columns = {'recorded': run.effort, 'replayed': result.efforts, 'difference': difference}
    document = _document(source, result, difference, tolerance, changes)
    with atomic_folder(output) as work:
        with csv_table(work / 'rows.csv') as write:
            write(flat_columns(run, columns))
        write_json(work / 'replay.json', document)
        report = replay_report(bag, source.tree, document, run, columns, _options(args))
        report.write(work / 'report.html')
    print_report(report, output)
    return 0 if document['within_tolerance'] else EXIT_DIFFERENT


def _options(args: argparse.Namespace) -> dict[str, list[str]]:
    """Return the given options that ``analyze`` has, too, by name."""
    topic = ['--reference', args.reference] if '/' in args.reference else []
    options = given(args, _MODEL | _READ)
    return options | ({'--reference': topic} if topic else {})


def _changes(args: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters that override recorded ones."""
    changes = set_values(args.changes)
    require_known(PARAMETERS, list(changes), "controller's parameter")
    own = [name[2:].replace('-', '_') for name in given(args, _MODEL)]
    chosen = {key: getattr(args, key) for key in ('law', 'formulation', *own)}
    return changes | {key: value for key, value in chosen.items() if value}


def _document(
    source: ReplaySource,
    result: ReplayResult,
    difference: Array,
    tolerance: float,
    changes: Mapping[str, Any],
) -> dict[str, Any]:
    run = source.run
    away, size = (RmsPeak.of(run.time, x) for x in (difference, run.effort))
    notes = [*source.notes, *result.problems, *source.bag_notes]
    unpaired, first_unpaired = source.unpaired
    counts = Counter({'unpaired': unpaired}) + Counter(result.outcome.tolist())
    missing = counts['lost'] + unpaired + counts['refused']
    compared, lost = (result.outcome == which for which in ('compared', 'lost'))
    differs = compared & ~(np.abs(difference).max(axis=1) <= tolerance)  # or is not finite
    beyond = run.time[differs].tolist()
    first_missing = np.fmin.reduce([*run.time[lost][:1], first_unpaired])
    share = counts['compared'] / (counts['compared'] + missing)
    notes += [f'{counts[key]} {text}' for key, text in _COUNTED.items() if counts[key]]
    if result.reference_error > _REFERENCE_TOLERANCE:
        notes.append(
            f'the reference differs from the recorded one by up to {result.reference_error:.3g}'
        )
    return {
        'joints': list(source.tree.joint_names),
        'law': source.parameters['law'],
        'formulation': source.parameters['formulation'],
        'parameters': 'recorded' if source.recorded else 'usual',
        'changes': dict(changes),
        'commands': counts['compared'],
        'commands_lost': counts['lost'],
        'commands_without_state': unpaired,
        'commands_compared_share': share,
        'first_missing_at': None if math.isnan(first_missing) else float(first_missing),
        'states_unanswered': counts['unanswered'],
        **away.figures('rms', 'peak', 'peak_at'),
        **size.figures('effort_rms'),
        'reference_error': result.reference_error,
        'first_difference_at': beyond[0] if beyond else None,
        'last_difference_at': beyond[-1] if beyond else None,
        'commands_beyond': len(beyond),
        'tolerance': tolerance,
        'within_tolerance': float(away.peak.max()) <= tolerance
        and not (beyond or counts['refused'])
        and share >= LEAST_SHARE,
        'notes': notes,
    }


COMMANDS = {
    'replay': Command(
        run_replay,
        {
            'bag BAG': option(Path, 'bag or storage file'),
            '--law': option(
                None, 'control law (default: as recorded)', choices=sorted(known_laws())
            ),
            '--set KEY=VALUE': option(
                [],
                'override a parameter of the controller, YAML value; may be repeated',
                dest='changes',
                action='append',
            ),
            '--formulation': option(
                None,
                'formulation of the dynamics (default: as recorded)',
                choices=tuple(FORMULATIONS),
            ),
            **_MODEL,
            **_READ,
            '--reference SOURCE': option(
                'auto',
                f'source of the reference: {", ".join(REFERENCES)}, or its topic (default: '
                'what the controller logged; the recorded reference if it logged nothing)',
                type=_reference,
            ),
            '--tolerance NM': option(
                float,
                'effort difference above which the exit code is 1, N m or N (default: '
                f'{TOLERANCE:g} without overrides, otherwise unlimited)',
                check=read.not_negative,
            ),
            **output(_USUAL_OUTPUT),
        },
        lambda: help_text(PARAMETERS),
    ),
}
