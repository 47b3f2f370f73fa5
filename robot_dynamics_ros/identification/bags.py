# SPDX-License-Identifier: Apache-2.0
"""Identification from bags: reduce and evaluate each bag independently.

Bags can be processed on any machine and in any order: all types here can be pickled. A failure
is returned as a value, so one bag does not stop the others. ``prove`` validates on many bags.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from robot_dynamics_ros.errors import RecordingError, RobotDynamicsError
from robot_dynamics_ros.estimation.accumulate import ResidualSums
from robot_dynamics_ros.estimation.hypotheses import GravityFit
from robot_dynamics_ros.estimation.regressor import inertial_parameters
from robot_dynamics_ros.identification.identify import IdentificationPlan, gather
from robot_dynamics_ros.identification.least_squares import Block, reduced
from robot_dynamics_ros.identification.validation import (
    Residuals,
    ResidualSeries,
    Trial,
    evaluated,
    fitted_gravity,
    halved,
    percent_of,
    residual_sums,
)
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.recordings.history import Carried, carried, history
from robot_dynamics_ros.recordings.outliers import require_clean
from robot_dynamics_ros.recordings.plausibility import late_velocities
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.scalar import Array

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
        remarks: Which joints are locked or left out, one sentence each.
        is_load_known: Whether the payload of the recorded controller is subtracted, and the
            recording used up to where it changes.
    """

    path: str
    choice: RobotChoice
    tree: Robot
    description: str = ''
    remarks: tuple[str, ...] = ()
    is_load_known: bool = True

    def read(self) -> tuple[Recording, list[str]]:
        """Return the recording without outliers, and remarks, one sentence each.

        A source that was the last to be read is not read again.

        Raises:
            RecordingError: The bag cannot be read, or has too many outliers.
        """
        kept = _LAST.get(self)  # another thread may clear it
        if kept is not None:
            return kept
        _LAST.clear()  # before another one is in memory
        with self.choice.read(self.path, self.tree) as reader:
            run = self.choice.run(reader, self.tree)
            other = self.description and reader.description not in ('', self.description)
            notes = ['has another robot description, which is not used'] if other else []
            notes += [*self.remarks, *run.notes]
            known = self.is_load_known
            load = carried(history(reader), run, self.tree) if known else Carried(self.tree)
            notes += load.notes
        if load.payload:
            added = inertial_parameters(load.tree) - inertial_parameters(self.tree)
            run = replace(run, carried=added)
        run = run.rows(run.time < load.until)
        run, outliers = require_clean(run)
        kept = _LAST[self] = run, [*notes, *outliers, *late_velocities(run)]
        return kept


#: What the last source gave; it vanishes with that source, on a worker after its job.
_LAST = WeakKeyDictionary[Source, tuple[Recording, list[str]]]()


class BagOutcome(NamedTuple):
    """What was found in a bag, or why it failed.

    Attributes:
        bag: Its path.
        notes: Remarks, one sentence each.
        error: Why the bag failed; empty if it did not.
        efforts: Number of effort samples used (``USED``) or excluded, by reason and joint.
        halves: Blocks of its first and second half, if the robot was identified from it.
        sums: Residuals of the nominal and the corrected robot, if they were validated on it.
    """

    bag: str
    notes: tuple[str, ...] = ()
    error: str = ''
    efforts: Mapping[str, Mapping[str, int]] = {}
    halves: tuple[Sequence[Block], Sequence[Block]] = ((), ())
    sums: tuple[ResidualSums, ...] = ()

    @classmethod
    def failed(cls, bag: str, reason: str) -> BagOutcome:
        """Return a failure, whose reason names the bag."""
        return cls(bag, error=reason if bag in reason else f'bag {bag!r}: {reason}')

    @property
    def learned(self) -> bool:
        """Whether the robot was identified from it."""
        return any(self.halves)

    def percent(self, tree: Robot) -> list[list[float]]:
        """Return the residuals of the nominal and the corrected robot, see :func:`percent_of`.

        Empty if it was not validated.
        """
        return [percent_of(tree, sums).tolist() for sums in self.sums]

    def with_proof(self, proof: BagOutcome) -> BagOutcome:
        """Return the result with that of the validation on the same bag."""
        notes = tuple(dict.fromkeys((*self.notes, *proof.notes)))
        return self._replace(notes=notes, error=self.error or proof.error, sums=proof.sums)

    def as_dict(self, tree: Robot) -> dict[str, Any]:
        """Return the results with a robot for JSON."""
        return {
            'bag': self.bag,
            'learned': self.learned,
            'validated': bool(self.sums),
            'percent': dict(zip(('nominal', 'corrected'), self.percent(tree), strict=False)),
            'notes': list(self.notes),
            'error': self.error,
            'efforts': self.efforts,
        }


#: What a report shows of a bag: its curves, the zero of their times, s, and the gravity that fits.
Shown = tuple[ResidualSeries, float, GravityFit | None]
#: Runs work on bags, under a title.
Jobs = Callable[[str, Callable[[Source], BagOutcome], Sequence[Source]], list[BagOutcome]]


def blocks_per_half(bags: int) -> int:
    """Return the number of blocks to keep per half of a bag, for a number of bags."""
    return max(1, _MOST_BLOCKS // (2 * bags))


def gather_bag(source: Source, plan: IdentificationPlan, most: int) -> BagOutcome:
    """Return the regression data of a bag, without a half that is too short.

    Args:
        source: The bag.
        plan: The identification plan.
        most: Limit of the blocks kept per half, see :func:`reduced`.
    """
    short: list[str] = []
    efforts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    halves: list[list[Block]] = []
    try:
        run, notes = source.read()
        for half in halved(run):
            try:
                halves.append(reduced(gather(half, plan, efforts), most))
            except RecordingError as error:
                halves.append([])
                short.append(str(error))
    except (RobotDynamicsError, OSError) as error:
        return BagOutcome.failed(source.path, str(error))
    if not any(halves):
        return BagOutcome.failed(source.path, short[0] if short else _STILL)
    return BagOutcome(source.path, tuple(notes), efforts=efforts, halves=(halves[0], halves[1]))


def evaluate_bag(source: Source, trial: Trial, shown: list[Shown] | None = None) -> BagOutcome:
    """Return the residuals of the robots of a trial on a bag.

    Args:
        source: The bag.
        trial: The robots.
        shown: Receives what a report shows of the bag, if it can be used.
    """
    own, pairs = list[Shown](), []
    try:
        run, notes = source.read()
        whole = evaluated(run, trial.nominal, trial.preparation)
        pieces, origin = trial.pieces(run, whole), run.origin
        del run
        _LAST.clear()  # nothing reads it again, and it is nearly as large as its samples
        for piece, tree in pieces:
            curves: Sequence[Array] = ()
            if shown is not None and not own:
                curves = tuple(np.empty((4, *piece.q.shape)))
                series = ResidualSeries(piece.time, piece.effort, piece.v_friction, *curves)
                own.append((series, origin, fitted_gravity(whole, trial.nominal)))
            models = (trial.nominal, curves[:1]), (tree, curves[1:])
            pairs.append([residual_sums(piece, robot, *filled) for robot, filled in models])
    except (RobotDynamicsError, OSError) as error:
        return BagOutcome.failed(source.path, str(error))
    if shown is not None:
        shown += own
    sums = tuple(reduce(ResidualSums.merged, robot) for robot in zip(*pairs, strict=True))
    return BagOutcome(source.path, tuple(notes), sums=sums)


class Evidence(NamedTuple):
    """Residuals of the nominal and the corrected robot on the validation recordings.

    Attributes:
        residuals: Of the nominal and of the corrected robot.
        series: Of the first recording that can be used, or of its first half.
        origin: Zero of its times in texts and plots, s.
        remarks: Further remarks, one sentence each.
    """

    residuals: tuple[Residuals, Residuals]
    series: ResidualSeries
    origin: float
    remarks: tuple[str, ...]


def prove(
    gathered: Sequence[BagOutcome],
    sources: Sequence[Source],
    trial: Trial,
    run: Jobs,
) -> tuple[Evidence, list[BagOutcome]]:
    """Validate the robots of a trial on bags.

    Args:
        gathered: Results of the bags that the robot was identified from.
        sources: The bags to validate on.
        trial: The robots.
        run: Executor: ``run_with_progress`` with local processes or a Dask scheduler.

    Returns:
        The total evidence, and the result of each bag, those used for identification first.

    Raises:
        RecordingError: No bag can be used.
    """
    shown, judged = list[Shown](), list[BagOutcome]()
    for source in sources:  # not by a worker, up to the one that is shown
        judged.append(evaluate_bag(source, trial, shown))
        if shown:
            break
    else:
        reasons = '; '.join(dict.fromkeys(bag.error for bag in judged))
        raise RecordingError('the bags for validation', 'have no usable data', reasons)
    judged += run('validating others', partial(evaluate_bag, trial=trial), sources[len(judged) :])
    ((series, origin, fit),) = shown
    gravity = []
    if fit is not None and fit.verdict not in ('agrees', 'perhaps'):
        gravity.append(fit.sentence('give --gravity {}', 'give --gravity 0 0 0'))
    by_robot = zip(*(bag.sums for bag in judged if not bag.error), strict=True)
    merged = (reduce(ResidualSums.merged, sums) for sums in by_robot)  # in order: same rounding
    before, after = (Residuals.of(trial.nominal, sums) for sums in merged)
    evidence = Evidence((before, after), series, origin, (*after.unproved(), *gravity))
    results = {result.bag: result for result in gathered}
    for proof in judged:
        results[proof.bag] = results.get(proof.bag, BagOutcome(proof.bag)).with_proof(proof)
    return evidence, list(results.values())
