# SPDX-License-Identifier: Apache-2.0
"""What one bag contributes to an identification, read part by part: on any machine, in any order.

A failure is a value like any other, so that one bag never stops the rest; everything here can be
pickled. Memory: that of a part of the bag.

``gather_bags`` and ``prove`` do so for many bags.
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

CHUNK_S = 60.0  # of a bag in memory at once
_MOST_BLOCKS = 400  # of all bags, beyond one for each half of a bag

_STILL = 'no joint moves freely under a known effort'

Halves = tuple[list[Block], list[Block]]
Jobs = Callable[..., list[Any]]


@dataclass(frozen=True, eq=False)
class Source:
    """A bag and how it is read.

    Attributes:
        path: The bag's folder, or one of its files.
        choice: What its numbers mean, and which part counts.
        tree: The robot that explains all bags.
        description: Of that robot, if it was taken from one of them.
    """

    path: str
    choice: RobotChoice
    tree: RobotTree
    description: str = ''

    def parts(self, notes: list[str], seconds: float | None = None) -> Iterator[Recording]:
        """Yield the bag in parts; what was unusual is in ``notes`` once all were read.

        Raises:
            RecordingError: The bag cannot be read.
        """
        with self.choice.read(self.path, self.tree) as reader:
            if self.description and reader.description not in ('', self.description):
                notes.append('has another robot description, which is not used')
            yield from self.choice.parts(reader, self.tree, seconds or CHUNK_S)
            notes += reader.notes


def blamed(bag: str, reason: str) -> str:
    """Return a reason that names the bag."""
    return reason if bag in reason else f'bag {bag!r}: {reason}'


@dataclass(frozen=True, eq=False)
class Gathered:
    """What a bag says.

    Attributes:
        halves: Blocks of the first and of the second halves of its parts.
        notes: What was unusual in it, one sentence each.
        error: Why it says nothing; empty if it does.
        efforts: How many count (``USED``) or do not, by reason and joint.
    """

    halves: Halves = field(default_factory=lambda: ([], []))
    notes: tuple[str, ...] = ()
    error: str = ''
    efforts: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class EvaluatedBag:
    """How well the nominal and the corrected robot explain a bag; or why nobody knows."""

    sums: tuple[ResidualSums, ResidualSums] | None = None
    notes: tuple[str, ...] = ()
    error: str = ''


def blocks_per_half(bags: int) -> int:
    """Return how many blocks are kept of a half of a bag, if there are so many bags."""
    return max(1, _MOST_BLOCKS // (2 * bags))


def gather_bag(source: Source, plan: IdentificationPlan, most: int) -> Gathered:
    """Return what a bag says; a part of it too short to use is left out.

    Args:
        source: The bag.
        plan: How it is evaluated.
        most: Of the blocks kept of either half, see :class:`BlockStore`.
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
        notes.append(f'{count} {GLITCHES}: left out')
    return Gathered(halves, tuple(notes), efforts=dict(left_out))


def evaluate_bag(source: Source, trial: Trial) -> EvaluatedBag:
    """Return how well robots explain a bag; a part of it too short to use is left out."""
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
        efforts: How many were learned from (``USED``) or left out, by reason, of each joint.
    """

    bag: str
    learned: bool = False
    validated: bool = False
    percent: tuple[list[float], ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ''
    efforts: dict[str, dict[str, int]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        percent = dict(zip(('nominal', 'corrected'), self.percent, strict=False))
        return {**vars(self), 'percent': percent, 'notes': list(self.notes)}


def gather_bags(
    sources: Sequence[Source], plan: IdentificationPlan, early: dict[int, Gathered], run: Jobs
) -> list[Gathered]:
    """Return what each bag says, in their order.

    Args:
        sources: The bags.
        plan: How they are evaluated.
        early: Those that failed already, by their place.
        run: Reads them: ``shown_jobs`` with so many processes, or a Dask scheduler.
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
    """Return how well the robots of a trial explain bags: all together, and each.

    Raises:
        RecordingError: None of them can be used.
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
    for sums in [bag.sums for bag in evaluated if bag.sums]:  # in their order, to the last digit
        for total, part in zip(totals, sums, strict=True):
            total.merge(part)
    usable = [source for source, bag in zip(sources, evaluated, strict=True) if not bag.error]
    if not usable:
        reasons = '; '.join(dict.fromkeys(bag.error for bag in evaluated))
        raise RecordingError('the bags for validation', 'have nothing to prove it on', reasons)
    series, gravity = _first_series(usable[0], identified, trial)
    before, after = (total.residuals(nominal) for total in totals)
    return Evidence((before, after), series, (*after.unproved(), *gravity)), evaluated


def _first_series(
    source: Source, identified: Identification, trial: Trial
) -> tuple[tuple[ResidualSeries, ResidualSeries], tuple[str, ...]]:
    """Return the residuals of the first part of a bag that can be used, and of its gravity."""
    for part in source.parts([]):
        for pair in trial.series(part, []):
            plan, fit = identified.plan, None
            with suppress(RobotDynamicsError):
                if plan.gravity is None:  # else it is estimated already, with all else
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
    """Return what there is to say about each bag; those to learn from come first."""
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
