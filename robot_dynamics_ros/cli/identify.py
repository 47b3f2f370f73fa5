# SPDX-License-Identifier: Apache-2.0
"""Identify inertia and friction from bags, prove it on others, correct the URDF."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from robot_dynamics_ros.cli.tables import wide_console
from robot_dynamics_ros.description.shipped import ROBOTS, robot_file
from robot_dynamics_ros.errors import ConfigurationError, RecordingError, UnknownNameError
from robot_dynamics_ros.identification.bags import CHUNK_S, Gathered, Source, Trial
from robot_dynamics_ros.identification.choice import AUTO, Request
from robot_dynamics_ros.identification.correction import corrected_urdf
from robot_dynamics_ros.identification.identify import (
    Identification,
    IdentificationPlan,
    conclude,
    make_plan,
)
from robot_dynamics_ros.identification.intervals import EFFORTS
from robot_dynamics_ros.identification.least_squares import Block
from robot_dynamics_ros.identification.many_bags import (
    BagNews,
    Evidence,
    Where,
    bag_news,
    gather_bags,
    prove,
)
from robot_dynamics_ros.identification.preparation import TIMINGS
from robot_dynamics_ros.identification.results import FILES, print_results, write_results
from robot_dynamics_ros.identification.unknowns import DEFAULT_TERMS, TERMS
from robot_dynamics_ros.model.check import check_model
from robot_dynamics_ros.recordings.bag_jobs import find_bags
from robot_dynamics_ros.recordings.reading import RobotChoice

_WORSE = 1.2  # times the residual of the nominal robot: less is chance
_NOTHING = 0.1  # percent of the RMS effort: a residual that nobody minds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        'bags',
        nargs='+',
        type=Path,
        metavar='BAG',
        help='recordings to learn from: bag, storage file, or folder of bags',
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
        '--force', action='store_true', help='replace results that are there already'
    )
    _add_robot_arguments(parser)
    _add_method_arguments(parser)
    parser.add_argument(
        '--most',
        type=float,
        metavar='PERCENT',
        help='exit code 1 if a residual exceeds this share of the RMS effort',
    )
    parser.add_argument(
        '--jobs', type=int, default=0, help='processes; 0: one for each processor (default)'
    )
    parser.add_argument(
        '--scheduler',
        default='',
        metavar='tcp://HOST:PORT',
        help='Dask scheduler whose workers shall read the bags; they must see the same files',
    )


def _add_robot_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--robot',
        default='',
        help=f'nominal URDF or xacro file, or one of: {", ".join(ROBOTS)} (default: the '
        'description in the first bag)',
    )
    parser.add_argument(
        '--gravity',
        type=float,
        nargs=3,
        metavar=('X', 'Y', 'Z'),
        help='of the recordings, base frame, m/s^2 (default: what the recorded controller was '
        'told, else 0 0 -9.81; Gazebo has 0 0 -9.8)',
    )
    parser.add_argument(
        '--effort-limit', type=float, metavar='NM', help='where the description gives none'
    )
    parser.add_argument('--namespace', default='', help='of the robot, if the bags have several')


def _add_method_arguments(parser: argparse.ArgumentParser) -> None:
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


def run(args: argparse.Namespace) -> int:
    """Identify, prove, write; return 1 if a bag failed or the result is not good enough."""
    _refuse_overwriting(args)
    if not (args.prior_weight > 0.0 and math.isfinite(args.prior_weight)):
        raise ConfigurationError(
            '--prior-weight', f'is {args.prior_weight:g}', 'give a positive number'
        )
    bags, others = find_bags(args.bags), find_bags(args.validate)
    plan, description, early = _plan(args, bags)
    where = Where(args.jobs, args.scheduler)
    sources = [_source(args, bag, description) for bag in bags]
    gathered = gather_bags(sources, plan, early, where)
    first, second = (list(chain.from_iterable(bag.halves[k] for bag in gathered)) for k in (0, 1))
    found = conclude([*first, *second], plan, args.prior_weight)
    if others:
        proof = f'validated on {_listed(others)}'
        proofs, trial = [_source(args, bag, description) for bag in others], Trial.of(found)
    else:
        proof = 'each half of a recording validated by a model of the other halves'
        proofs = [s for s, bag in zip(sources, gathered, strict=True) if not bag.error]
        trial = _crossed(first, second, plan, args.prior_weight)
    evidence, judged = prove(found, proofs, trial, where)
    problems = _problems(found, evidence, args.most)
    remarks = [proof, *evidence.remarks, *problems]
    news = bag_news(sources, gathered, proofs, judged, plan.unknowns.tree)
    _write(args, found, evidence, remarks, news)
    print_results(wide_console(), found, evidence, remarks, news)
    print(f'written: {", ".join(str(args.output / name) for name in FILES)}')
    return 1 if problems or any(bag.error for bag in news) else 0


def _refuse_overwriting(args: argparse.Namespace) -> None:
    if args.output.exists() and not args.output.is_dir():
        raise ConfigurationError(f'--output {args.output}', 'is a file', 'name a folder')
    there = [name for name in FILES if (args.output / name).exists()]
    if there and not args.force:
        raise ConfigurationError(
            f'--output {args.output}', f'has {", ".join(there)}', 'give another, or --force'
        )


def _listed(bags: Sequence[Path], most: int = 3) -> str:
    names = ', '.join(str(bag) for bag in bags[:most])
    return f'{names} and {len(bags) - most} more' if len(bags) > most else names


def _source(args: argparse.Namespace, bag: Path, description: str) -> Source:
    return Source(str(bag), args.namespace, description)


def _plan(
    args: argparse.Namespace, bags: Sequence[Path]
) -> tuple[IdentificationPlan, str, dict[int, Gathered]]:
    """Decide on the first bag that allows it how all are evaluated.

    Returns:
        The plan; the description it was made from, if that was in the bag; and the bags before,
        which failed.
    """
    choice, request = _choice(args), _request(args)
    early: dict[int, Gathered] = {}
    for place, bag in enumerate(bags):
        try:
            with choice.read(bag) as reader:
                tree, _ = choice.load(reader)
                start = next(reader.chunks(CHUNK_S))
                description = '' if choice.robot or choice.description else reader.description
                return make_plan(start, tree, args.terms, request), description, early
        except (RecordingError, UnknownNameError) as error:
            early[place] = Gathered(error=_source(args, bag, '').blamed(str(error)))
    reasons = '; '.join(dict.fromkeys(bag.error for bag in early.values()))
    raise RecordingError('the bags', 'have nothing to identify from', reasons)


def _choice(args: argparse.Namespace) -> RobotChoice:
    shipped = args.robot in ROBOTS
    return RobotChoice(
        robot=args.robot if shipped else '',
        description='' if shipped else str(robot_file(args.robot)),
        gravity=tuple(args.gravity) if args.gravity else None,
        effort_limit=args.effort_limit,
        namespace=args.namespace,
    )


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


def _crossed(
    first: Sequence[Block], second: Sequence[Block], plan: IdentificationPlan, prior_weight: float
) -> Trial:
    """Return the trial in which each half is explained by what the other says."""
    try:
        return Trial.of(*(conclude(half, plan, prior_weight) for half in (second, first)))
    except RecordingError as error:
        raise RecordingError(
            'the recordings',
            'are too short for their halves to prove each other',
            'give --validate BAG, or record for longer',
        ) from error


def _problems(found: Identification, evidence: Evidence, most: float | None) -> list[str]:
    """Return what is wrong with the result."""
    check = check_model(corrected_urdf(found), effort_limit=1.0)
    problems = [f'the corrected robot: {finding}' for finding in check.errors]
    before, after = evidence.residuals
    if after.worst > max(_WORSE * before.worst, _NOTHING):
        problems.append(
            'the corrected robot explains the recordings worse than the nominal one '
            f'({after.worst:.3g} % against {before.worst:.3g} %): do not use it'
        )
    if most is not None:
        problems += [
            f'the residual of {joint} is {percent:.3g} % of its RMS effort, more than {most:g} %'
            for joint, percent in zip(after.joints, after.percent, strict=True)
            if percent > most
        ]
        problems += after.unproved()
    return problems


def _write(
    args: argparse.Namespace,
    found: Identification,
    evidence: Evidence,
    remarks: Sequence[str],
    news: Sequence[BagNews],
) -> None:
    try:
        write_results(args.output, found, evidence, remarks, news)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(
            f'--output {args.output}', reason, 'name a folder that can be written'
        ) from error
