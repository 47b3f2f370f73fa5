# SPDX-License-Identifier: Apache-2.0
"""Identify inertia and friction from bags, prove it on others, correct the URDF."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from robot_dynamics_ros.analysis.identification.choice import AUTO, Request
from robot_dynamics_ros.analysis.identification.correction import corrected_urdf
from robot_dynamics_ros.analysis.identification.gravity import gravity_mismatch
from robot_dynamics_ros.analysis.identification.identify import (
    Identification,
    Plan,
    conclude,
    gather,
    make_plan,
)
from robot_dynamics_ros.analysis.identification.intervals import EFFORTS
from robot_dynamics_ros.analysis.identification.least_squares import Block
from robot_dynamics_ros.analysis.identification.preparation import TIMINGS
from robot_dynamics_ros.analysis.identification.unknowns import DEFAULT_TERMS, TERMS
from robot_dynamics_ros.analysis.identification.validation import (
    ResidualSeries,
    ResidualSums,
    residual_series,
)
from robot_dynamics_ros.analysis.reading import read_chunks
from robot_dynamics_ros.analysis.recording import Recording
from robot_dynamics_ros.apps.identify_results import (
    FILES,
    Evidence,
    print_results,
    write_results,
)
from robot_dynamics_ros.description.shipped import ROBOTS, shipped_robot
from robot_dynamics_ros.errors import ConfigurationError, RecordingError, RobotDynamicsError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.check import check_model
from robot_dynamics_ros.model.robot_tree import STANDARD_GRAVITY, RobotTree

_CHUNK_S = 60.0  # of a bag in memory at once


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        'bags', nargs='+', type=Path, metavar='BAG', help='recordings to learn from'
    )
    parser.add_argument(
        '--validate',
        nargs='+',
        type=Path,
        default=[],
        metavar='BAG',
        help='recordings to prove it on (default: the halves of each bag prove each other)',
    )
    parser.add_argument('--output', type=Path, required=True, help='folder of the results')
    parser.add_argument(
        '--overwrite', action='store_true', help='replace results that are there already'
    )
    parser.add_argument(
        '--robot',
        help=f'nominal URDF or xacro file, or one of: {", ".join(ROBOTS)} (default: the '
        'description in the first bag)',
    )
    parser.add_argument(
        '--gravity',
        type=float,
        nargs=3,
        default=STANDARD_GRAVITY,
        metavar=('X', 'Y', 'Z'),
        help='of the recordings, base frame, m/s^2 (default: 0 0 -9.81; Gazebo has 0 0 -9.8)',
    )
    parser.add_argument(
        '--effort-limit', type=float, metavar='NM', help='where the description gives none'
    )
    parser.add_argument(
        '--terms',
        nargs='*',
        choices=tuple(TERMS),
        default=list(DEFAULT_TERMS),
        help=f'what the drives may add (default: {" ".join(DEFAULT_TERMS)})',
    )
    parser.add_argument('--timing', choices=(AUTO, *TIMINGS), default=AUTO)
    parser.add_argument(
        '--delay', default=AUTO, help='periods from a state to the step its command acts in'
    )
    parser.add_argument(
        '--cutoff', default=AUTO, help="of the zero-phase filter, Hz; 'none' for no filter"
    )
    parser.add_argument('--effort', choices=EFFORTS, default=AUTO, help='which effort explains')
    parser.add_argument(
        '--prior-weight',
        type=float,
        default=1.0,
        help='how much the nominal inertia counts where data are vague (default: 1)',
    )
    parser.add_argument(
        '--most',
        type=float,
        metavar='PERCENT',
        help='exit code 1 if a residual exceeds this share of the RMS effort',
    )


def run(args: argparse.Namespace) -> int:
    """Identify, prove, write; return 1 if a bag failed or the result is not good enough."""
    console = Console(highlight=False)
    _refuse_overwriting(args)
    failed: list[str] = []
    plan, halves = _gather(args, failed)
    found = conclude([*halves[0], *halves[1]], plan, args.prior_weight)
    if args.validate:
        evidence = _on_others(args, found, failed)
        proof = f'validated on {", ".join(str(bag) for bag in args.validate)}'
    else:
        evidence = _on_halves(args, plan, halves, failed)
        proof = 'each half of a recording validated by a model of the other halves'
    problems = _problems(found, evidence, args.most)
    remarks = [proof, *evidence.remarks, *failed, *problems]
    write_results(args.output, args.bags, found, evidence, remarks)
    print_results(console, found, evidence, remarks)
    console.print(f'written: {", ".join(str(args.output / name) for name in FILES)}')
    return 1 if failed or problems else 0


def _refuse_overwriting(args: argparse.Namespace) -> None:
    there = [name for name in FILES if (args.output / name).exists()]
    if there and not args.overwrite:
        raise ConfigurationError(
            f'--output {args.output}', f'has {", ".join(there)}', 'give another, or --overwrite'
        )


def _parts(bags: Sequence[Path], failed: list[str]) -> Iterator[Recording]:
    """Yield the bags in parts; a bag that fails is noted once, and the next one follows."""
    for bag in bags:
        try:
            yield from read_chunks(bag, _CHUNK_S)
        except RecordingError as error:
            text = f'failed: {error}'
            if text not in failed:
                failed.append(text)


def _halved(recording: Recording) -> tuple[Recording, Recording]:
    start, end = recording.time[0], recording.time[-1]
    middle = 0.5 * (start + end)
    return recording.between(start, middle), recording.between(middle, end)


def _gather(
    args: argparse.Namespace, failed: list[str]
) -> tuple[Plan, tuple[list[Block], list[Block]]]:
    """Return the plan and what the first and the second halves of the recordings say."""
    plan: Plan | None = None
    halves: tuple[list[Block], list[Block]] = ([], [])
    for recording in _parts(args.bags, failed):
        try:
            if plan is None:
                plan = make_plan(recording, _robot(args, recording), args.terms, _request(args))
            for blocks, half in zip(halves, _halved(recording), strict=True):
                blocks += gather(half, plan)
        except RecordingError as error:
            failed.append(f'failed: {error}')
    if plan is None:
        raise RecordingError(
            'the bags', 'have nothing to identify from', '; '.join(failed) or 'give at least one'
        )
    return plan, halves


def _robot(args: argparse.Namespace, recording: Recording) -> RobotTree:
    given = shipped_robot(args.robot) if args.robot in ROBOTS else args.robot
    if not given and not recording.description:
        raise ConfigurationError(
            '--robot', 'is not given, and the bag has no robot description', 'give a URDF'
        )
    return load_robot(given or recording.description, args.gravity, effort_limit=args.effort_limit)


def _request(args: argparse.Namespace) -> Request:
    try:
        cutoff = {AUTO: AUTO, 'none': None}.get(args.cutoff, args.cutoff)
        return Request(
            timing=args.timing,
            delay=args.delay if args.delay == AUTO else int(args.delay),
            cutoff=cutoff if cutoff in (AUTO, None) else float(cutoff),
            effort=args.effort,
        )
    except ValueError as error:
        raise ConfigurationError(
            '--delay or --cutoff', str(error), 'give a number, or auto'
        ) from error


def _compare(found: Identification, pairs: Iterator[tuple[Recording, Identification]]) -> Evidence:
    """Return the evidence of recordings, each with the identification it shall judge."""
    nominal, preparation = found.plan.unknowns.tree, found.plan.preparation
    sums = ResidualSums(nominal.n), ResidualSums(nominal.n)
    first: tuple[ResidualSeries, ResidualSeries] | None = None
    remarks: tuple[str, ...] = ()
    for recording, judged in pairs:
        both = (
            residual_series(recording, nominal, preparation),
            residual_series(recording, judged.tree, preparation, judged.offset),
        )
        for total, part in zip(sums, both, strict=True):
            total.add(part)
        if first is None:
            first = both
            remarks = _gravity_remark(recording, found)
    if first is None:
        raise RecordingError('validation', 'has no recording', 'give bags that can be read')
    before, after = (total.residuals(nominal) for total in sums)
    return Evidence((before, after), first, remarks)


def _gravity_remark(recording: Recording, found: Identification) -> tuple[str, ...]:
    try:
        mismatch = gravity_mismatch(recording, found.plan.unknowns.tree, found.plan.preparation)
    except RobotDynamicsError:
        return ()
    return (f'{mismatch.sentence}; give --gravity',) if mismatch.found else ()


def _on_others(args: argparse.Namespace, found: Identification, failed: list[str]) -> Evidence:
    return _compare(found, ((part, found) for part in _parts(args.validate, failed)))


def _on_halves(
    args: argparse.Namespace,
    plan: Plan,
    halves: tuple[list[Block], list[Block]],
    failed: list[str],
) -> Evidence:
    """Judge the first halves by what the second ones say, and the other way round."""
    first, second = (conclude(blocks, plan, args.prior_weight) for blocks in halves)

    def pairs() -> Iterator[tuple[Recording, Identification]]:
        for recording in _parts(args.bags, failed):
            early, late = _halved(recording)
            yield late, first
            yield early, second

    return _compare(first, pairs())


def _problems(found: Identification, evidence: Evidence, most: float | None) -> list[str]:
    """Return what is wrong with the result."""
    check = check_model(corrected_urdf(found), effort_limit=1.0)
    problems = [f'the corrected robot: {finding}' for finding in check.errors]
    after = evidence.residuals[1]
    if most is not None:
        problems += [
            f'the residual of {joint} is {percent:.3g} % of its RMS effort, more than {most:g} %'
            for joint, percent in zip(after.joints, after.percent, strict=True)
            if percent > most
        ]
    return problems
