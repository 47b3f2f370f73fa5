# SPDX-License-Identifier: Apache-2.0
"""Identification from bags: reduce and evaluate each bag independently.

Bags can be processed on any machine and in any order: all types here can be pickled. A bag is
read in parts, so memory is bounded by the part. A failure is returned as a value, so one bag does
not stop the others. ``prove`` validates on many bags.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from robot_dynamics_ros.errors import RecordingError, RobotDynamicsError
from robot_dynamics_ros.identification.gravity import gravity_mismatch
from robot_dynamics_ros.identification.identify import (
    Identification,
    IdentificationPlan,
    gather,
)
from robot_dynamics_ros.identification.least_squares import Block, BlockStore
from robot_dynamics_ros.identification.validation import (
    JointResiduals,
    Residuals,
    ResidualSeries,
    Trial,
    halved,
)
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.recordings.outliers import OutlierTimes
from robot_dynamics_ros.recordings.reading import CHUNK_S, RobotChoice
from robot_dynamics_ros.recordings.recording import Recording

_MOST_BLOCKS = 400  # of all bags together, but at least one for each half of a bag

_STILL = 'no joint moves freely under a known effort'


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
    tree: Robot
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


@dataclass(frozen=True, eq=False)
class BagOutcome:
    """What was found in a bag, or why it failed.

    Attributes:
        bag: Its path.
        notes: Remarks, one sentence each.
        error: Why the bag failed; empty if it did not.
        efforts: Number of effort samples used (``USED``) or excluded, by reason and joint.
        halves: Blocks of the first halves and of the second halves of its parts, if the robot was
            identified from it.
        sums: Residuals of the nominal and the corrected robot, if they were validated on it.
    """

    bag: str
    notes: tuple[str, ...] = ()
    error: str = ''
    efforts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    halves: tuple[Sequence[Block], Sequence[Block]] = ((), ())
    sums: tuple[JointResiduals, ...] = ()

    @classmethod
    def failed(cls, bag: str, reason: str) -> BagOutcome:
        """Return a failure, whose reason names the bag."""
        return cls(bag, error=reason if bag in reason else f'bag {bag!r}: {reason}')

    @property
    def learned(self) -> bool:
        """Whether the robot was identified from it."""
        return any(self.halves)

    @property
    def percent(self) -> list[list[float]]:
        """Residual of each joint in percent of its RMS effort, nominal and corrected.

        Empty if it was not validated; NaN for a joint that never moves.
        """
        return [total.residuals().percent for total in self.sums]

    def with_proof(self, proof: BagOutcome) -> BagOutcome:
        """Return the result with that of the validation on the same bag."""
        notes = tuple(dict.fromkeys((*self.notes, *proof.notes)))
        return replace(self, notes=notes, error=self.error or proof.error, sums=proof.sums)

    def as_dict(self) -> dict[str, Any]:
        """Return the results for JSON."""
        return {
            'bag': self.bag,
            'learned': self.learned,
            'validated': bool(self.sums),
            'percent': dict(zip(('nominal', 'corrected'), self.percent, strict=False)),
            'notes': list(self.notes),
            'error': self.error,
            'efforts': self.efforts,
        }


#: Runs work on bags, under a title.
Jobs = Callable[[str, Callable[[Source], BagOutcome], Sequence[Source]], list[BagOutcome]]


def blocks_per_half(bags: int) -> int:
    """Return the number of blocks to keep per half of a bag, for a number of bags."""
    return max(1, _MOST_BLOCKS // (2 * bags))


def gather_bag(source: Source, plan: IdentificationPlan, most: int) -> BagOutcome:
    """Return the regression data of a bag, without parts that are too short.

    Args:
        source: The bag.
        plan: The identification plan.
        most: Limit of the blocks kept per half, see :class:`BlockStore`.
    """
    stores = BlockStore(most), BlockStore(most)
    notes: list[str] = []
    short: list[str] = []
    efforts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    outliers = OutlierTimes()
    try:
        for part in source.parts(notes):
            outliers.take(part.of_joints(source.tree.joint_names))
            for store, half in zip(stores, halved(part), strict=True):
                try:
                    store.add(gather(half, plan, efforts))
                except RecordingError as error:
                    short.append(str(error))
    except (RobotDynamicsError, OSError) as error:
        return BagOutcome.failed(source.path, str(error))
    halves = stores[0].blocks, stores[1].blocks
    if not any(halves):
        return BagOutcome.failed(source.path, short[0] if short else _STILL)
    if problem := outliers.problem():
        return BagOutcome.failed(source.path, problem)
    notes += outliers.remarks()
    return BagOutcome(source.path, tuple(notes), efforts=efforts, halves=halves)


def evaluate_bag(source: Source, trial: Trial) -> BagOutcome:
    """Return the residuals of the robots of a trial on a bag, without parts that are too short."""
    sums = trial.sums()
    notes: list[str] = []
    short: list[str] = []
    try:
        for part in source.parts(notes):
            for pair in trial.series(part, short):
                for total, series in zip(sums, pair, strict=True):
                    total.take(series)
    except (RobotDynamicsError, OSError) as error:
        return BagOutcome.failed(source.path, str(error))
    if not sums[0].count:
        return BagOutcome.failed(source.path, short[0])
    return BagOutcome(source.path, tuple(notes), sums=sums)


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


def prove(
    identified: Identification,
    gathered: Sequence[BagOutcome],
    sources: Sequence[Source],
    trial: Trial,
    run: Jobs,
) -> tuple[Evidence, list[BagOutcome]]:
    """Validate the robots of a trial on bags.

    Args:
        identified: The identification.
        gathered: Results of the bags that it was made from.
        sources: The bags to validate on.
        trial: The robots.
        run: Executor: ``run_with_progress`` with local processes or a Dask scheduler.

    Returns:
        The total evidence, and the result of each bag, those used for identification first.

    Raises:
        RecordingError: No bag can be used.
    """
    evaluated = run(
        'validating',
        partial(evaluate_bag, trial=trial),
        sources,
    )
    totals = trial.sums()
    for bag in evaluated:  # fixed order: same rounding
        for total, part in zip(totals, bag.sums, strict=False):  # a failed bag has none
            total.merge(part)
    usable = [source for source, bag in zip(sources, evaluated, strict=True) if not bag.error]
    if not usable:
        reasons = '; '.join(dict.fromkeys(bag.error for bag in evaluated))
        raise RecordingError('the bags for validation', 'have no usable data', reasons)
    series, gravity = _first_series(usable[0], identified, trial)
    before, after = (total.residuals() for total in totals)
    evidence = Evidence((before, after), series, (*after.unproved(), *gravity))
    results = {result.bag: result for result in gathered}
    for proof in evaluated:
        results[proof.bag] = results.get(proof.bag, BagOutcome(proof.bag)).with_proof(proof)
    return evidence, list(results.values())


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
