# SPDX-License-Identifier: Apache-2.0
"""The work of command identify on many bags: gather what they say, prove the result on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from robot_dynamics_ros.errors import RecordingError, RobotDynamicsError
from robot_dynamics_ros.identification.bags import (
    EvaluatedBag,
    Gathered,
    Source,
    Trial,
    blocks_per_half,
    evaluate_bag,
    gather_bag,
)
from robot_dynamics_ros.identification.gravity import gravity_mismatch
from robot_dynamics_ros.identification.identify import Identification, IdentificationPlan
from robot_dynamics_ros.identification.validation import (
    Residuals,
    ResidualSeries,
    ResidualSums,
    residual_series,
)
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.bag_jobs import shown_jobs
from robot_dynamics_ros.recordings.recording import Recording


@dataclass(frozen=True)
class Where:
    """Who reads the bags: so many processes here, or the workers of a Dask scheduler."""

    jobs: int = 1
    scheduler: str = ''


@dataclass(frozen=True, eq=False)
class Evidence:
    """How well the nominal and the corrected robot explain what nothing was learned from.

    Attributes:
        residuals: Of the nominal and of the corrected robot.
        series: The same of the first recording, in time.
        remarks: What else was noticed, one sentence each.
    """

    residuals: tuple[Residuals, Residuals]
    series: tuple[ResidualSeries, ResidualSeries]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class BagNews:
    """What there is to say about one bag.

    Attributes:
        bag: Its path.
        learned: Whether the robot was identified from it.
        validated: Whether the result was evaluated on it.
        percent: Residual of each joint in percent of its RMS effort, nominal and corrected, if
            evaluated; NaN of a joint that never slides.
        notes: What was unusual in it, one sentence each.
        error: Why it failed; empty if it did not.
    """

    bag: str
    learned: bool = False
    validated: bool = False
    percent: tuple[list[float], ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ''

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        percent = dict(zip(('nominal', 'corrected'), self.percent, strict=False))
        return {**vars(self), 'percent': percent, 'notes': list(self.notes)}


def gather_bags(
    sources: Sequence[Source], plan: IdentificationPlan, early: dict[int, Gathered], where: Where
) -> list[Gathered]:
    """Return what each bag says, in their order.

    Args:
        sources: The bags.
        plan: How they are evaluated.
        early: Those that failed already, by their place.
        where: Who reads them.
    """
    left = [place for place in range(len(sources)) if place not in early]
    results = shown_jobs(
        'gathering',
        partial(gather_bag, plan=plan, most=blocks_per_half(len(sources))),
        [sources[place] for place in left],
        lambda source, reason: Gathered(error=source.blamed(reason)),
        lambda result: result.error,
        jobs=where.jobs,
        scheduler=where.scheduler,
    )
    every = early | dict(zip(left, results, strict=True))
    return [every[place] for place in range(len(sources))]


def prove(
    found: Identification, sources: Sequence[Source], trial: Trial, where: Where
) -> tuple[Evidence, list[EvaluatedBag]]:
    """Return how well the robots of a trial explain bags: all together, and each.

    Raises:
        RecordingError: None of them can be used.
    """
    judged = shown_jobs(
        'validating',
        partial(evaluate_bag, trial=trial),
        sources,
        lambda source, reason: EvaluatedBag(error=source.blamed(reason)),
        lambda result: result.error,
        jobs=where.jobs,
        scheduler=where.scheduler,
    )
    nominal = found.plan.unknowns.tree
    totals = ResidualSums(nominal.n), ResidualSums(nominal.n)
    for sums in [bag.sums for bag in judged if bag.sums]:  # in their order, to the last digit
        for total, part in zip(totals, sums, strict=True):
            total.merge(part)
    usable = [source for source, bag in zip(sources, judged, strict=True) if not bag.error]
    if not usable:
        reasons = '; '.join(dict.fromkeys(bag.error for bag in judged))
        raise RecordingError('the bags for validation', 'have nothing to prove it on', reasons)
    series, gravity = _first_series(usable[0], found, trial)
    before, after = (total.residuals(nominal) for total in totals)
    return Evidence((before, after), series, (*after.unproved(), *gravity)), judged


def _first_series(
    source: Source, found: Identification, trial: Trial
) -> tuple[tuple[ResidualSeries, ResidualSeries], tuple[str, ...]]:
    """Return the residuals of the first part of a bag that can be used, and of its gravity."""
    for part in source.parts([]):
        for recording, tree, drive in trial.parted(part):
            try:
                before = residual_series(recording, trial.nominal, trial.preparation)
                after = residual_series(recording, tree, trial.preparation, drive)
            except RecordingError:
                continue
            return (before, after), _gravity_remark(part, found)
    raise RecordingError(f'bag {source.path!r}', 'cannot be read again', 'do not change it')


def _gravity_remark(recording: Recording, found: Identification) -> tuple[str, ...]:
    if found.plan.gravity is not None:  # estimated already, with all else
        return ()
    try:
        mismatch = gravity_mismatch(recording, found.plan.unknowns.tree, found.plan.preparation)
    except RobotDynamicsError:
        return ()
    return (f'{mismatch.sentence}; give --gravity',) if mismatch.found else ()


def bag_news(
    sources: Sequence[Source],
    gathered: Sequence[Gathered],
    proofs: Sequence[Source],
    judged: Sequence[EvaluatedBag],
    tree: RobotTree,
) -> list[BagNews]:
    """Return what there is to say about each bag; those to learn from come first."""
    news = {
        source.path: BagNews(source.path, not said.error, notes=said.notes, error=said.error)
        for source, said in zip(sources, gathered, strict=True)
    }
    for source, proof in zip(proofs, judged, strict=True):
        old = news.get(source.path, BagNews(source.path))
        news[source.path] = BagNews(
            source.path,
            old.learned,
            not proof.error,
            tuple(sums.residuals(tree).percent for sums in proof.sums or ()),
            proof.notes or old.notes,
            old.error or proof.error,
        )
    return list(news.values())
