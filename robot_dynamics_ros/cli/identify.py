# SPDX-License-Identifier: Apache-2.0
"""Identify inertia and friction from bags, validate them on others, and correct the URDF."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.cli.arguments import (
    JOBS,
    RECORDING,
    TIMING,
    Command,
    cutoff_of,
    given,
    option,
    output,
    recording_choice,
)
from robot_dynamics_ros.cli.identify_results import (
    FILES,
    LOAD,
    Learned,
    deliver_results,
    listed,
    plan_remarks,
    weigh,
)
from robot_dynamics_ros.control.drivers.profile import load_driver_profile
from robot_dynamics_ros.errors import ConfigurationError, RecordingError, UnknownNameError
from robot_dynamics_ros.identification import corrected_urdf
from robot_dynamics_ros.identification.bags import (
    BagOutcome,
    Evidence,
    Jobs,
    Source,
    blocks_per_half,
    gather_bag,
    prove,
)
from robot_dynamics_ros.identification.choice import Request
from robot_dynamics_ros.identification.identify import (
    Identification,
    IdentificationPlan,
    conclude,
    plan_with_gravity,
)
from robot_dynamics_ros.identification.least_squares import Block
from robot_dynamics_ros.identification.unknowns import DEFAULT_TERMS, TERMS
from robot_dynamics_ros.identification.validation import Trial, implausible
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.model.load import check_model
from robot_dynamics_ros.recordings.bag.files import find_files
from robot_dynamics_ros.recordings.bag_jobs import find_bags, run_with_progress
from robot_dynamics_ros.recordings.output_folder import require_free
from robot_dynamics_ros.recordings.plausibility import StillError, check_recording, require_motion
from robot_dynamics_ros.recordings.recording import EFFORTS, WHOLE, Recording, require_torques
from robot_dynamics_ros.recordings.samples import effort_source
from robot_dynamics_ros.recordings.timing import AUTO, parts

_WORSE = 1.2  # times the residual of the nominal robot: a smaller increase may be chance
_FILES = (
    'parameters.yaml has all terms; corrected.urdf, for other programs, the closest viscous and '
    'Coulomb friction; report.html and identification.json have all numbers'
)
_WEIGHS = '--payload or --gains'  # what estimates a load or gains, not the arm
_NOTHING = 0.1  # percent of the RMS effort: a negligible residual


def run(args: argparse.Namespace) -> int:
    """Identify, validate, write; return 1 if a bag failed or the result has problems."""
    require_torques(args.driver_profile)
    profile = load_driver_profile(args.driver_profile) if args.driver_profile else None
    if profile and profile.lacks_gravity and not args.gravity:
        problem = f'is in no effort of driver profile {args.driver_profile!r}'
        raise ConfigurationError('gravity', problem, 'give --gravity 0 0 0')
    if args.gains or args.payload:
        return weigh(args, partial(_learn, args))
    if not args.bags:
        raise ConfigurationError('BAG', 'is missing', 'name the recordings to identify from')
    require_free(args.output, FILES, force=args.force)
    proven = [part for word in args.validate for part in _parts(word)]
    if proven and not any(bag.exists() for bag, _ in proven):
        find_files(proven[0][0])  # which raises, before what takes long
    identified, sources, gathered = _learn(args, args.bags)
    plan = identified.plan
    told = plan_remarks(plan, args)
    if refused := [*_broken(gathered), *implausible(identified)]:
        return _refused(refused, told)
    if args.validate:
        proof = f'validated on {listed(args.validate)}'
        pattern, trial = sources[0], Trial.of(identified)
        proofs = [
            replace(pattern, path=str(bag), choice=replace(pattern.choice, span=edges))
            for bag, edges in proven
        ]
    else:
        proof = 'each half of a recording validated by a model of the other halves'
        usable = {bag.bag for bag in gathered if not bag.error}
        proofs = [source for source in sources if source.path in usable]
        trial = _crossed(*_halves(gathered), plan, args.prior_weight)
    evidence, results = prove(gathered, proofs, trial, _jobs(args))
    if nonsense := implausible(identified, evidence.residuals[1]):
        return _refused(nonsense, told)
    problems = _problems(identified, evidence, args.most)
    findings = [Finding('error', problem) for problem in problems]
    findings += [Finding('warning', remark) for remark in (*told, *evidence.remarks)]
    said, options = [proof, _FILES], given(args, RECORDING)
    deliver_results(args.output, identified, evidence, findings, said, results, options)
    return 1 if problems or any(bag.error for bag in results) else 0


def _learn(args: argparse.Namespace, bags: Sequence[Path]) -> Learned:
    """Identify the robot from bags, in two passes if efforts are measured.

    The second pass takes the load on the gears from the result of the first, and omits
    disturbances.
    """
    bags = find_bags(bags)
    plan, pattern, failed = _plan(args, bags)
    others = bags[len(failed) + 1 :]
    sources = [pattern, *(replace(pattern, path=str(bag)) for bag in others)]

    def fit(plan: IdentificationPlan) -> Learned:
        work = partial(gather_bag, plan=plan, most=blocks_per_half(len(bags)))
        gathered = [*failed, *_jobs(args)('gathering', work, sources)]
        blocks = list(chain(*_halves(gathered)))
        if not blocks:
            raise _nothing_to_identify(gathered)
        return Learned(conclude(blocks, plan, args.prior_weight), sources, gathered)

    learned = fit(plan)
    if plan.preparation.effort == 'measured' and not implausible(learned.identified):
        learned = fit(plan.refined(learned.identified))
    return learned


def _jobs(args: argparse.Namespace) -> Jobs:
    """Return the executor of bag jobs: local processes, or the workers of a scheduler."""
    return partial(
        run_with_progress,
        on_failure=lambda source, reason: BagOutcome.failed(source.path, reason),
        jobs=args.jobs,
        scheduler=args.scheduler,
    )


def _halves(gathered: Sequence[BagOutcome]) -> tuple[list[Block], list[Block]]:
    first, second = (list(chain.from_iterable(bag.halves[k] for bag in gathered)) for k in (0, 1))
    return first, second


def _parts(word: str) -> Iterator[tuple[Path, tuple[float, float]]]:
    """Yield the validation recordings that a word names, each with its time range, s."""
    path, _, span = word.rpartition('@') if '@' in word else (word, '', '')
    whole = Path(word).exists() or not path
    edges = WHOLE if whole or not span else _span(word, span)
    for bag in find_bags([Path(word if whole else path)]):
        yield bag, edges


def _span(word: str, span: str) -> tuple[float, float]:
    try:
        start, end = (edge.strip() for edge in span.split(':'))
        return float(start or -math.inf), float(end or math.inf)
    except ValueError as error:
        raise ConfigurationError(
            f'--validate {word}', 'has no FROM:TO after the @', 'e.g. run@20:30, in seconds'
        ) from error


def _plan(
    args: argparse.Namespace, bags: Sequence[Path]
) -> tuple[IdentificationPlan, Source, list[BagOutcome]]:
    """Make the plan for all bags from the first usable one.

    Returns:
        The plan; the source of that bag, with the robot description if it was in the bag; and the
        failures of the bags before it.
    """
    choice, request = recording_choice(args), _request(args)
    failed: list[BagOutcome] = []
    for bag in bags:
        try:
            with choice.read(bag) as reader:
                tree = choice.load(reader)
                if args.payload:
                    tree.moving_frame(args.payload)  # which raises, before what takes long
                description = '' if choice.robot else reader.description
            source = Source(str(bag), choice, tree, description, tuple(reader.remarks))
            start = _first_moving(source, request.effort)
            plan = plan_with_gravity(
                start, tree, args.terms, request, gravity_known=bool(args.gravity)
            )
            return plan, source, failed
        except (RecordingError, UnknownNameError) as error:
            failed.append(BagOutcome.failed(str(bag), str(error)))
    raise _nothing_to_identify(failed)


def _nothing_to_identify(failed: Sequence[BagOutcome]) -> RecordingError:
    reasons = '; '.join(dict.fromkeys(bag.error for bag in failed))
    return RecordingError('the bags', 'have nothing to identify from', reasons)


def _first_moving(source: Source, effort: str) -> Recording:
    """Return the first part of a bag in which joints move.

    Raises:
        RecordingError: There is none, or a part up to it cannot be of this robot.
    """
    run, _ = source.read()
    refusals: list[StillError] = []
    for rows in parts(run.time):
        part = run.rows(rows)
        try:
            usual = effort_source(part, effort)
            check_recording(part, source.tree, measured=usual == 'measured')
            require_motion(part, source.tree)
        except StillError as error:
            refusals.append(error)
        else:
            return part
    raise refusals[0]


def _request(args: argparse.Namespace) -> Request:
    try:
        delay = args.delay if args.delay == AUTO else int(args.delay)
    except ValueError as error:
        raise ConfigurationError(
            '--delay', f'is {args.delay!r}', 'give a whole number, or auto'
        ) from error
    return Request(args.timing, delay, cutoff_of(args), args.effort)


def _crossed(
    first: Sequence[Block], second: Sequence[Block], plan: IdentificationPlan, prior_weight: float
) -> Trial:
    """Return the cross-validation trial: each half is explained by the model of the other."""
    try:
        return Trial.of(*(conclude(half, plan, prior_weight) for half in (second, first)))
    except RecordingError as error:
        raise RecordingError(
            'the recordings',
            'are too short for cross-validation between their halves',
            'give --validate BAG, or record for longer',
        ) from error


def _problems(identified: Identification, evidence: Evidence, most: float | None) -> list[str]:
    """Return the problems of the result, one sentence each."""
    check = check_model(corrected_urdf(identified), effort_limit=1.0)
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


def _broken(bags: Sequence[BagOutcome]) -> list[str]:
    """Return one sentence per bag with values beyond the range of any sensor."""
    return [
        f'{bag.bag} has values beyond the range of any sensor ({note}): repair the driver'
        for bag in bags
        for note in bag.notes
        if 'with a value beyond' in note
    ]


def _refused(reasons: Sequence[str], remarks: Sequence[str]) -> int:
    """Print remarks, and why nothing is written; return the exit code."""
    warnings, errors = (f'warning: {x}' for x in remarks), (f'error: {x}' for x in reasons)
    print(*warnings, *errors, 'nothing written', sep='\n', file=sys.stderr)
    return 1


COMMANDS = {
    'identify': Command(
        run,
        {
            'bags BAG': option(
                Path,
                'recordings to identify from: bag, storage file, or folder of bags',
                nargs='*',
                without='--gains',
            ),
            '--validate BAG[@FROM:TO]': option(
                [],
                'recordings to validate on, or a time range of them, s (default: cross-validation '
                'between the halves of each bag)',
                nargs='+',
                without=_WEIGHS,
            ),
            **output(),
            **RECORDING,
            '--terms': option(
                None,
                f'drive parameters to identify (default: {" ".join(DEFAULT_TERMS)}; from measured '
                'efforts also those of the others that reduce the residual of held-out segments)',
                nargs='*',
                choices=tuple(TERMS),
            ),
            **TIMING,
            '--delay': option(AUTO, 'periods from a state to the step in which its command acts'),
            '--effort': option(
                AUTO,
                'effort to identify from (default: what held-out segments are explained by best)',
                choices=EFFORTS,
            ),
            '--prior-weight': option(
                1.0,
                'weight of the nominal inertia where the data determine little',
                check=read.positive,
            ),
            **LOAD,
            '--most PERCENT': option(
                float,
                'exit code 1 if a residual exceeds this percentage of the RMS effort',
                check=read.not_negative,
                without=_WEIGHS,
            ),
            **JOBS,
        },
    )
}
