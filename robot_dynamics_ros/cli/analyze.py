# SPDX-License-Identifier: Apache-2.0
"""Analyze recordings: tracking, torque residual, energy, rates; report and thresholds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from robot_dynamics_ros.cli.robot_argument import ROBOT_HELP
from robot_dynamics_ros.cli.tables import (
    joint_table,
    print_findings,
    program_table,
    summary_rows,
    summary_table,
    wide_console,
    write_summary_csv,
)
from robot_dynamics_ros.dynamics.registry import FORMULATIONS
from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError
from robot_dynamics_ros.recordings.bag.files import short_name
from robot_dynamics_ros.recordings.bag_jobs import find_bags, run_jobs
from robot_dynamics_ros.recordings.json_files import write_json
from robot_dynamics_ros.recordings.metrics.bag_analysis import (
    BagResult,
    Task,
    analyze_bag,
)
from robot_dynamics_ros.recordings.metrics.evaluator import EFFORTS, Choices
from robot_dynamics_ros.recordings.metrics.thresholds import flat_figures, parse_threshold
from robot_dynamics_ros.recordings.output_folder import claim, filled
from robot_dynamics_ros.recordings.robot_choice import RobotChoice
from robot_dynamics_ros.recordings.timing import TIMINGS

_USUAL_OUTPUT = Path('out') / 'analysis'
_MANY = 20  # bags from which on reports are written only if asked for
EXIT_THRESHOLD, EXIT_FAILED = 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        'bags', nargs='+', type=Path, metavar='BAG', help='bag, storage file, or folder of bags'
    )
    add_robot_choice(parser)
    add_judging_choice(parser)
    parser.add_argument('--program', default='', help='constraint program whose values are shown')
    parser.add_argument(
        '--program-start', type=float, metavar='S', help='when it starts (default: first command)'
    )
    parser.add_argument(
        '--threshold',
        action='append',
        default=[],
        metavar='KEY=VALUE',
        help='bound on a figure of metrics.json (KEY>=VALUE: a lower one); exit code 1 if it is '
        "passed; of a list of joints the worst counts, 'list' shows the figures",
    )
    add_output_arguments(parser, _USUAL_OUTPUT)
    parser.add_argument(
        '--rows', type=int, default=100_000, help='of rows.csv at most, 0: all (default: 100000)'
    )
    parser.add_argument('--no-tables', action='store_true', help='write no rows.csv')
    parser.add_argument(
        '--report',
        action=argparse.BooleanOptionalAction,
        help=f'write report.html (default: for fewer than {_MANY} bags)',
    )
    parser.add_argument(
        '--jobs', type=int, default=0, help='processes; 0: one for each processor (default)'
    )
    parser.add_argument(
        '--scheduler',
        default='',
        metavar='tcp://HOST:PORT',
        help='Dask scheduler whose workers shall do it; they must see the same files',
    )


def add_robot_choice(parser: argparse.ArgumentParser) -> None:
    """Declare which robot explains a recording."""
    parser.add_argument(
        '--robot', default='', metavar='ROBOT', help=f'{ROBOT_HELP} (default: see next)'
    )
    parser.add_argument(
        '--description',
        default='',
        metavar='FILE',
        help='URDF or xacro file (default: the description in the bag)',
    )
    parser.add_argument(
        '--gravity',
        type=float,
        nargs=3,
        metavar=('X', 'Y', 'Z'),
        help="in the base frame, m/s^2 (default: the recorded controller's, else 0 0 -9.81)",
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
    parser.add_argument('--namespace', default='', help='of the robot, if the bag has several')


def robot_choice(args: argparse.Namespace) -> RobotChoice:
    """Return the robot that the arguments choose."""
    return RobotChoice(
        robot=args.robot,
        description=args.description,
        gravity=tuple(args.gravity) if args.gravity else None,
        effort_limit=args.effort_limit,
        joints=tuple(name.strip() for name in args.joints.split(',') if name.strip()),
        namespace=args.namespace,
    )


def add_judging_choice(parser: argparse.ArgumentParser) -> None:
    """Declare what is judged, and how."""
    parser.add_argument(
        '--formulation',
        choices=tuple(FORMULATIONS),
        default='newton_euler',
        help='of the dynamics',
    )
    parser.add_argument(
        '--effort', choices=EFFORTS, default='auto', help='which one (default: measured if there)'
    )
    parser.add_argument(
        '--timing',
        choices=('auto', *TIMINGS),
        default='auto',
        help='how acceleration and effort belong together (default: by the evidence)',
    )
    parser.add_argument('--frame', default='', help='tool frame (default: tool, or the last link)')
    parser.add_argument(
        '--from', dest='start', type=float, default=float('-inf'), metavar='S', help='first stamp'
    )
    parser.add_argument(
        '--to', dest='end', type=float, default=float('inf'), metavar='S', help='last stamp'
    )


def add_output_arguments(parser: argparse.ArgumentParser, usual: Path) -> None:
    """Declare where results go."""
    parser.add_argument(
        '--output', type=Path, metavar='DIR', help=f'folder of the results (default: {usual}/...)'
    )
    parser.add_argument(
        '--force', action='store_true', help='replace files of a folder that is there already'
    )


@dataclass(frozen=True)
class _Job:
    """A bag, what to do with it, and where the results go."""

    bag: Path
    task: Task
    folder: Path


def run(args: argparse.Namespace) -> int:
    """Analyze every bag; return 1 if a threshold is passed, 2 if a bag failed."""
    console = wide_console()
    bags = find_bags(args.bags)
    task = _task(args, len(bags))
    single = len(bags) == 1
    usual = _USUAL_OUTPUT / (short_name(bags[0]) if single else 'bags')
    output = claim(args.output, usual, force=args.force)
    folders = [output] if single else [output / name for name in _names(bags)]
    jobs = [_Job(bag, task, folder) for bag, folder in zip(bags, folders, strict=True)]
    results = _results(jobs, args, Console(stderr=True))
    if single and args.threshold != ['list']:
        _tell_one(console, results[0], output)
    elif not single:
        _tell_many(console, results, output)
    if args.threshold == ['list'] and not results[0].error:
        figures = flat_figures(results[0].figures, results[0].joints)
        console.print('\n'.join(escape(name) for name in figures), highlight=False)
    if any(result.error for result in results):
        return EXIT_FAILED
    return 0 if all(result.passed for result in results) else EXIT_THRESHOLD


def analyze_job(job: _Job) -> BagResult:
    """Analyze one bag into its folder; a failure is a result as well."""
    try:
        with filled(job.folder) as work:
            return analyze_bag(job.bag, job.task, work)
    except RobotDynamicsError as error:
        return BagResult(str(job.bag), error=str(error))
    except OSError as error:
        return BagResult(str(job.bag), error=f'{job.folder}: {error.strerror or error}')


def _died(job: _Job, reason: str) -> BagResult:
    return BagResult(str(job.bag), error=reason)


def _results(jobs: Sequence[_Job], args: argparse.Namespace, console: Console) -> list[BagResult]:
    """Return the results in the order of the bags; show how far it is."""
    results: dict[int, BagResult] = {}
    told = TextColumn('{task.fields[at]}')
    columns = (BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn(), told)
    quiet = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        shown = progress.add_task('', total=len(jobs), at='')
        work = run_jobs(analyze_job, jobs, _died, jobs=args.jobs, scheduler=args.scheduler)
        for place, result in work:
            results[place] = result
            bad = sum(bool(result.error) for result in results.values())
            failed = f', {bad} failed' if bad else ''
            progress.update(shown, advance=1, at=f'{short_name(jobs[place].bag)}{failed}')
            if quiet and len(jobs) > 1:
                print(f'{len(results)} of {len(jobs)}{failed}: {jobs[place].bag}', file=sys.stderr)
    return [results[place] for place in range(len(jobs))]


def _task(args: argparse.Namespace, count: int) -> Task:
    if args.rows < 0:
        raise ConfigurationError('--rows', f'is {args.rows}', 'give 0 (all) or more')
    listing = args.threshold == ['list']
    return Task(
        robot=robot_choice(args),
        choices=Choices(
            formulation=args.formulation,
            effort=args.effort,
            timing=args.timing,
            frame=args.frame,
            start=args.start,
            end=args.end,
            program_start=args.program_start,
        ),
        program=args.program,
        thresholds=() if listing else tuple(parse_threshold(text) for text in args.threshold),
        rows=args.rows,
        tables=not args.no_tables,
        report=count < _MANY if args.report is None else args.report,
    )


def _names(bags: Sequence[Path]) -> list[str]:
    """Return a name for each bag, no two alike."""
    names: list[str] = []
    for bag in bags:
        name, count = short_name(bag), 1
        while name in names:
            count += 1
            name = f'{short_name(bag)}-{count}'
        names.append(name)
    return names


def _tell_one(console: Console, result: BagResult, output: Path) -> None:
    if result.error:
        print(f'error: {result.error}', file=sys.stderr)
        return
    print_findings(console, result.findings)
    console.print(joint_table(result))
    if result.figures.get('program'):
        console.print(program_table(result.figures['program']))
    for note in result.notes:
        console.print(f'[dim] note[/] {escape(note)}', highlight=False, soft_wrap=True)
    _tell_verdicts(console, result)
    console.print(f'results: {escape(str(output))}', highlight=False)


def _tell_many(console: Console, results: Sequence[BagResult], output: Path) -> None:
    console.print(summary_table(results))
    for result in results:
        if result.error:
            text = f'[red]failed[/] {escape(result.bag)}: {escape(result.error)}'
            console.print(text, highlight=False, soft_wrap=True)
        wrong = [finding for finding in result.findings if finding.severity == 'wrong']
        if wrong:
            console.print(escape(result.bag), highlight=False)
            print_findings(console, wrong)
        _tell_verdicts(console, result)
    document = {'bags': [_summary(result) for result in results]}
    with filled(output) as work:
        write_json(work / 'summary.json', document)
        write_summary_csv(work / 'summary.csv', summary_rows(results))
    bad = sum(bool(result.error) for result in results)
    console.print(
        f'{len(results) - bad} of {len(results)} analyzed; results: {escape(str(output))}',
        highlight=False,
    )


def _summary(result: BagResult) -> dict[str, object]:
    return {'bag': result.bag, 'error': result.error} if result.error else result.as_dict()


def _tell_verdicts(console: Console, result: BagResult) -> None:
    for verdict in result.verdicts:
        if not verdict.holds:
            text = f'[red]threshold[/] {escape(result.bag)}: {escape(str(verdict))}'
            console.print(text, highlight=False, soft_wrap=True)
