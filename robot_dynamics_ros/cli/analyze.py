# SPDX-License-Identifier: Apache-2.0
"""Analyze recordings: tracking, torque residual, energy, rates; write reports, test thresholds."""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.cli.arguments import (
    JOBS,
    RECORDING,
    TIMING,
    TOOL_FRAME,
    Command,
    cutoff_of,
    given,
    option,
    output,
    recording_choice,
    threshold,
)
from robot_dynamics_ros.cli.tables import (
    print_figures,
    print_findings,
    print_lines,
    print_report,
    print_table,
    print_thresholds,
    say,
)
from robot_dynamics_ros.dynamics import FORMULATIONS
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.recordings.bag.files import short_name
from robot_dynamics_ros.recordings.bag_jobs import find_bags, run_with_progress
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, analyze_bag
from robot_dynamics_ros.recordings.metrics.metric import Threshold, parse_threshold
from robot_dynamics_ros.recordings.output_folder import (
    atomic_folder,
    choose_folder,
    json_ready,
    write_json,
)
from robot_dynamics_ros.recordings.recording import EFFORTS
from robot_dynamics_ros.recordings.report.runs import BagResult
from robot_dynamics_ros.recordings.report.toolkit import ReportTable, quantity

_USUAL_OUTPUT = Path('out') / 'analysis'
_MANY = 20  # number of bags from which reports are written only on request
EXIT_THRESHOLD, EXIT_FAILED = 1, 2

#: Columns of the summary of many bags, and their headings.
SUMMARY = {
    'bag': 'bag',
    'duration_s': 's',
    'states': 'states',
    'rate_hz': 'Hz',
    'tool_rms_mm': 'tool RMS, mm',
    'tool_peak_mm': 'tool peak, mm',
    'residual_share': 'unexplained, worst joint, %',
    'saturated': 'saturated ticks',
    'gaps': 'gaps',
    'thresholds': 'thresholds',
    'findings': 'findings',
}


def run(args: argparse.Namespace) -> int:
    """Analyze every bag; return 1 if a threshold is violated, 2 if a bag failed."""
    bags = find_bags(args.bags)
    if args.threshold == ['list']:
        result = analyze_bag(bags[0], _settings(args, 1))
        print_figures(result.figures, result.joints)
        return 0
    single = len(bags) == 1
    usual = _USUAL_OUTPUT / (short_name(bags[0]) if single else 'bags')
    output = choose_folder(args.output, usual, force=args.force)
    folders = [output] if single else [output / name for name in bag_names(bags)]
    results = run_with_progress(
        'analyzing',
        partial(_analyze, _settings(args, len(bags))),
        list(zip(bags, folders, strict=True)),
        lambda job, reason: BagResult(str(job[0]), error=reason),
        jobs=args.jobs,
        scheduler=args.scheduler,
    )
    if not single:
        _print_many(results, output)
    elif results[0].report is None:
        print(f'error: {results[0].error}', file=sys.stderr)
    else:
        print_report(results[0].report, output)
        print_thresholds(results[0].verdicts, f'{results[0].bag}: ')
    if any(result.error for result in results):
        return EXIT_FAILED
    return 0 if all(result.passed for result in results) else EXIT_THRESHOLD


def _analyze(settings: AnalysisSettings, job: tuple[Path, Path]) -> BagResult:
    """Analyze one bag and write its folder; a failure is returned as a result."""
    bag, folder = job
    try:
        with atomic_folder(folder) as work:
            return analyze_bag(bag, settings, work)
    except RobotDynamicsError as error:
        return BagResult(str(bag), error=str(error))
    except OSError as error:
        return BagResult(str(bag), error=f'{folder}: {error.strerror or error}')


def _settings(args: argparse.Namespace, count: int) -> AnalysisSettings:
    return AnalysisSettings(
        robot=recording_choice(args),
        options=given(args, RECORDING),
        formulation=args.formulation,
        effort=args.effort,
        timing=args.timing,
        cutoff=cutoff_of(args),
        frame=args.frame,
        contacts=args.contacts,
        program=args.program,
        program_start=args.program_start,
        thresholds=given_thresholds(args),
        rows=args.rows,
        tables=args.tables,
        report=count < _MANY if args.report is None else args.report,
    )


def given_thresholds(args: argparse.Namespace) -> tuple[Threshold, ...]:
    """Return the thresholds of the arguments; none if they are to be listed."""
    listing = args.threshold == ['list']
    return () if listing else tuple(parse_threshold(text) for text in args.threshold)


def bag_names(bags: Sequence[Path]) -> list[str]:
    """Return a unique name for each bag."""
    names: list[str] = []
    for bag in bags:
        name, count = short_name(bag), 1
        while name in names:
            count += 1
            name = f'{short_name(bag)}-{count}'
        names.append(name)
    return names


def _print_many(results: Sequence[BagResult], output: Path) -> None:
    rows = [_summary_row(result) for result in results]
    cells = [[x if isinstance(x, str) else quantity(x) for x in row.values()] for row in rows]
    print_table(ReportTable(tuple(SUMMARY.values()), cells))
    for result in results:
        if result.error:
            print_lines('red', 'failed', [f'{result.bag}: {result.error}'])
        wrong = [finding for finding in result.findings if finding.severity == 'error']
        if wrong:
            say(result.bag)
            print_findings(wrong)
        print_thresholds(result.verdicts, f'{result.bag}: ')
    with atomic_folder(output) as work:
        bags = [{'bag': x.bag, 'error': x.error} if x.error else x.as_dict() for x in results]
        write_json(work / 'summary.json', {'bags': bags})
        _write_summary(work / 'summary.csv', rows)
    bad = sum(bool(result.error) for result in results)
    say(f'{len(results) - bad} of {len(results)} analyzed; results: {output}')
    if bad:
        why = next(result.error for result in results if result.error)
        print(f'error: {bad} of {len(results)} bags: {why}', file=sys.stderr)


def _summary_row(result: BagResult) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(SUMMARY, math.nan)
    row |= {'bag': result.bag, 'thresholds': '', 'findings': 'failed' if result.error else ''}
    if result.error:
        return row
    figures = result.figures
    shares = [x for x in figures['effort'].get('residual_share', ()) if not math.isnan(x)]
    failed = [str(verdict) for verdict in result.verdicts if not verdict.holds]
    counts = Counter(finding.severity for finding in result.findings)
    return row | {
        **{key: figures['rates'][key] for key in ('duration_s', 'states', 'rate_hz', 'gaps')},
        **{key: x for key, x in figures['tracking'].items() if key in SUMMARY and key != 'states'},
        'residual_share': 100.0 * max(shares) if shares else math.nan,
        'saturated': figures['limits']['ticks_with_saturation'],
        'thresholds': '; '.join(failed) or ('kept' if result.verdicts else ''),
        'findings': ', '.join(f'{count} {severity}' for severity, count in counts.items()),
    }


def _write_summary(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with path.open('w', encoding='utf-8', newline='') as file:
        writer = csv.DictWriter(file, list(SUMMARY), lineterminator='\n')
        writer.writeheader()
        writer.writerows(json_ready(row) for row in rows)


COMMANDS = {
    'analyze': Command(
        run,
        {
            'bags BAG': option(Path, 'bag, storage file, or folder of bags', nargs='+'),
            **RECORDING,
            '--formulation': option(
                'newton_euler', 'formulation of the dynamics', choices=tuple(FORMULATIONS)
            ),
            '--effort': option(
                'auto',
                'effort to compare with the model (default: measured if recorded, else commanded)',
                choices=EFFORTS,
            ),
            **TIMING,
            **TOOL_FRAME,
            '--program': option(
                '',
                'constraint program to evaluate (default: that of the recorded controller, if '
                'any)',
            ),
            '--program-start S': option(
                float, 'start time of the program, s (default: as the controller began it)'
            ),
            '--contacts FILE': option(
                '', 'detect contacts with these thresholds (file written by calibrate)'
            ),
            **threshold('metrics.json'),
            **output(_USUAL_OUTPUT),
            '--rows': option(
                100_000,
                'maximum number of rows in rows.csv, 0: no limit',
                needs='--tables',
                check=read.not_negative,
            ),
            '--tables': option(
                False, 'write every instant: rows.csv, and rows.parquet by pyarrow'
            ),
            '--report': option(
                None,
                f'write report.html (default: for fewer than {_MANY} bags)',
                action=argparse.BooleanOptionalAction,
            ),
            **JOBS,
        },
    )
}
