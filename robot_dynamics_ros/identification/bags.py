# SPDX-License-Identifier: Apache-2.0
"""Identification from bags: reduce and evaluate each bag independently.

Bags can be processed on any machine and in any order: all types here can be pickled. A bag is
read in parts, so memory is bounded by the part. A failure is returned as a value, so one bag does
not stop the others. ``gather_bags`` and ``prove`` process many bags.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from robot_dynamics_ros.errors import RecordingError, RobotDynamicsError
from robot_dynamics_ros.identification.gravity import gravity_mismatch
from robot_dynamics_ros.identification.identify import (
    GLITCHES,
    Identification,
    IdentificationPlan,
    gather,
)
from robot_dynamics_ros.identification.least_squares import Block, BlockStore
from robot_dynamics_ros.identification.validation import (
    Residuals,
    ResidualSeries,
    ResidualSums,
    Trial,
    halved,
)
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.recordings.recording import Recording

CHUNK_S = 60.0  # s, part of a bag in memory at once
_MOST_BLOCKS = 400  # of all bags together, but at least one for each half of a bag

_STILL = 'no joint moves freely under a known effort'

Halves = tuple[list[Block], list[Block]]
Jobs = Callable[..., list[Any]]


@dataclass(frozen=True, eq=False)
class Source:
    """A bag and how it is read.

    Attributes:
        path: The bag's folder, or one of its files.
        choice: Conversion of its numbers, and its time range.
        tree: The robot model for all bags.
        description: URDF text of that robot, if it was taken from a bag.
    """

    path: str
    choice: RobotChoice
    tree: RobotTree
    description: str = ''

    def parts(self, notes: list[str], seconds: float | None = None) -> Iterator[Recording]:
        """Yield the bag in parts; append remarks to ``notes`` after the last part.

        Args:
            notes: Receives the remarks.
            seconds: Length of a part, s; None for ``CHUNK_S``.

        Raises:
            RecordingError: The bag cannot be read.
        """
        with self.choice.read(self.path, self.tree) as reader:
            if self.description and reader.description not in ('', self.description):
                notes.append('has another robot description, which is not used')
            yield from self.choice.parts(reader, self.tree, seconds or CHUNK_S)
            notes += reader.notes


def blamed(bag: str, reason: str) -> str:
    """Return a reason, prefixed with the bag if it does not name it."""
    return reason if bag in reason else f'bag {bag!r}: {reason}'


@dataclass(frozen=True, eq=False)
class Gathered:
    """Regression data of one bag.

    Attributes:
        halves: Blocks of the first halves and of the second halves of its parts.
        notes: Remarks, one sentence each.
        error: Why the bag failed; empty if it did not.
        efforts: Number of effort samples used (``USED``) or excluded, by reason and joint.
    """

    halves: Halves = field(default_factory=lambda: ([], []))
    notes: tuple[str, ...] = ()
    error: str = ''
    efforts: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class EvaluatedBag:
    """Residuals of the nominal and the corrected robot on one bag, or the reason of a failure."""

    sums: tuple[ResidualSums, ResidualSums] | None = None
    notes: tuple[str, ...] = ()
    error: str = ''


def blocks_per_half(bags: int) -> int:
    """Return the number of blocks to keep per half of a bag, for a number of bags."""
    return max(1, _MOST_BLOCKS // (2 * bags))


def gather_bag(source: Source, plan: IdentificationPlan, most: int) -> Gathered:
    """Return the regression data of a bag, without parts that are too short.

    Args:
        source: The bag.
        plan: The identification plan.
        most: Limit of the blocks kept per half, see :class:`BlockStore`.
    """
    stores = BlockStore(most), BlockStore(most)
    notes: list[str] = []
    short: list[str] = []
    left_out: Counter[tuple[str, str]] = Counter()
    try:
        for part in source.parts(notes):
            for store, half in zip(stores, halved(part), strict=True):
                try:
                    store.add(gather(half, plan, left_out))
                except RecordingError as error:
                    short.append(str(error))
    except (RobotDynamicsError, OSError) as error:
        return Gathered(error=blamed(source.path, str(error)))
    halves = stores[0].blocks, stores[1].blocks
    if not any(halves):
        return Gathered(error=blamed(source.path, short[0] if short else _STILL))
    if count := left_out.pop((GLITCHES, ''), 0):
        notes.append(f'{count} {GLITCHES}: excluded')
    return Gathered(halves, tuple(notes), efforts=dict(left_out))


def evaluate_bag(source: Source, trial: Trial) -> EvaluatedBag:
    """Return the residuals of the robots of a trial on a bag, without parts that are too short."""
    sums = ResidualSums(trial.nominal.n), ResidualSums(trial.nominal.n)
    notes: list[str] = []
    short: list[str] = []
    try:
        for part in source.parts(notes):
            for pair in trial.series(part, short):
                for total, series in zip(sums, pair, strict=True):
                    total.add(series)
    except (RobotDynamicsError, OSError) as error:
        return EvaluatedBag(error=blamed(source.path, str(error)))
    if not sums[0].instants:
        return EvaluatedBag(error=blamed(source.path, short[0]))
    return EvaluatedBag(sums, tuple(notes))


@dataclass(frozen=True, eq=False)
class Evidence:
    """Residuals of the nominal and the corrected robot on the validation recordings.

    Attributes:
        residuals: Of the nominal and of the corrected robot.
        series: Time series of both for the first recording.
        remarks: Further remarks, one sentence each.
    """

    residuals: tuple[Residuals, Residuals]
    series: tuple[ResidualSeries, ResidualSeries]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class BagNews:
    """Results and remarks of one bag.

    Attributes:
        bag: Its path.
        learned: Whether the robot was identified from it.
        validated: Whether the result was validated on it.
        percent: Residual of each joint in percent of its RMS effort, nominal and corrected, if
            validated; NaN for a joint that never moves.
        notes: Remarks, one sentence each.
        error: Why the bag failed; empty if it did not.
        efforts: Number of effort samples used (``USED``) or excluded, by reason and joint.
    """

    bag: str
    learned: bool = False
    validated: bool = False
    percent: tuple[list[float], ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ''
    efforts: dict[str, dict[str, int]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the results for JSON."""
        percent = dict(zip(('nominal', 'corrected'), self.percent, strict=False))
        return {**vars(self), 'percent': percent, 'notes': list(self.notes)}


def gather_bags(
    sources: Sequence[Source], plan: IdentificationPlan, early: dict[int, Gathered], run: Jobs
) -> list[Gathered]:
    """Return the regression data of all bags, in their order.

    Args:
        sources: The bags.
        plan: The identification plan.
        early: Bags that failed already, by index.
        run: Executor: ``run_with_progress`` with local processes or a Dask scheduler.
    """
    left = [place for place in range(len(sources)) if place not in early]
    results = run(
        'gathering',
        partial(gather_bag, plan=plan, most=blocks_per_half(len(sources))),
        [sources[place] for place in left],
        lambda source, reason: Gathered(error=blamed(source.path, reason)),
        lambda result: result.error,
    )
    every = early | dict(zip(left, results, strict=True))
    return [every[place] for place in range(len(sources))]


def prove(
    identified: Identification, sources: Sequence[Source], trial: Trial, run: Jobs
) -> tuple[Evidence, list[EvaluatedBag]]:
    """Validate the robots of a trial on bags; return the total evidence and that of each bag.

    Raises:
        RecordingError: No bag can be used.
    """
    evaluated = run(
        'validating',
        partial(evaluate_bag, trial=trial),
        sources,
        lambda source, reason: EvaluatedBag(error=blamed(source.path, reason)),
        lambda result: result.error,
    )
    nominal = identified.plan.unknowns.tree
    totals = ResidualSums(nominal.n), ResidualSums(nominal.n)
    for sums in [bag.sums for bag in evaluated if bag.sums]:  # fixed order: same rounding
        for total, part in zip(totals, sums, strict=True):
            total.merge(part)
    usable = [source for source, bag in zip(sources, evaluated, strict=True) if not bag.error]
    if not usable:
        reasons = '; '.join(dict.fromkeys(bag.error for bag in evaluated))
        raise RecordingError('the bags for validation', 'have no usable data', reasons)
    series, gravity = _first_series(usable[0], identified, trial)
    before, after = (total.residuals(nominal) for total in totals)
    return Evidence((before, after), series, (*after.unproved(), *gravity)), evaluated


def _first_series(
    source: Source, identified: Identification, trial: Trial
) -> tuple[tuple[ResidualSeries, ResidualSeries], tuple[str, ...]]:
    """Return the residual series of the first usable part of a bag, and remarks on gravity."""
    for part in source.parts([]):
        for pair in trial.series(part, []):
            plan, fit = identified.plan, None
            with suppress(RobotDynamicsError):
                if plan.gravity is None:  # otherwise the plan has estimated it
                    fit = gravity_mismatch(part, plan.unknowns.tree, plan.preparation)
            if fit is None or fit.verdict in ('agrees', 'perhaps'):
                return pair, ()
            return pair, (fit.sentence('give --gravity {}', 'give --gravity 0 0 0'),)
    raise RecordingError(f'bag {source.path!r}', 'cannot be read again', 'do not change it')


def bag_news(
    sources: Sequence[Source],
    gathered: Sequence[Gathered],
    proofs: Sequence[Source],
    evaluated: Sequence[EvaluatedBag],
    tree: RobotTree,
) -> list[BagNews]:
    """Return the results of each bag, those used for identification first."""
    news = {
        source.path: BagNews(
            source.path,
            not said.error,
            notes=said.notes,
            error=said.error,
            efforts=_by_reason(said.efforts),
        )
        for source, said in zip(sources, gathered, strict=True)
    }
    for source, proof in zip(proofs, evaluated, strict=True):
        old = news.get(source.path, BagNews(source.path))
        news[source.path] = replace(
            old,
            validated=not proof.error,
            percent=tuple(sums.residuals(tree).percent for sums in proof.sums or ()),
            notes=tuple(dict.fromkeys((*old.notes, *proof.notes))),
            error=old.error or proof.error,
        )
    return list(news.values())


def _by_reason(efforts: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """Return counts by reason, then by joint."""
    reasons = dict.fromkeys(why for why, _ in efforts)
    return {why: {j: n for (own, j), n in efforts.items() if own == why} for why in reasons}
