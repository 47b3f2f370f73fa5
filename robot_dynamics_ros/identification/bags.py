# SPDX-License-Identifier: Apache-2.0
"""What one bag contributes to an identification, read part by part: on any machine, in any order.

A failure is a value like any other, so that one bag never stops the rest; everything here can be
pickled. Memory: that of a part of the bag.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from robot_dynamics_ros.control.drivers.conversion import DriverConversion
from robot_dynamics_ros.errors import RecordingError, RobotDynamicsError
from robot_dynamics_ros.identification.identify import Identification, IdentificationPlan, gather
from robot_dynamics_ros.identification.least_squares import Block, BlockStore
from robot_dynamics_ros.identification.preparation import Preparation
from robot_dynamics_ros.identification.validation import ResidualSums, residual_series
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.driver_units import WHOLE, in_model_units, within
from robot_dynamics_ros.recordings.reading import RecordingReader
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.scalar import Array

CHUNK_S = 60.0  # of a bag in memory at once
_MOST_BLOCKS = 400  # of all bags, beyond one for each half of a bag

_SLOWEST = 1e-9  # rad/s or m/s: a joint below never moves
_STILL = 'no joint moves freely under a known effort'

Drive = dict[str, Array]
Halves = tuple[list[Block], list[Block]]


@dataclass(frozen=True)
class Source:
    """A bag and how it is read.

    Attributes:
        path: The bag's folder, or one of its files.
        namespace: Of the robot, if the bag has several.
        description: Of the robot that explains all bags, if it was taken from one of them.
        span: First and last second that counts, see ``driver_units.within``.
        driver: What the numbers of the bag mean; they are SI, at the joints, if None.
    """

    path: str
    namespace: str = ''
    description: str = ''
    span: tuple[float, float] = WHOLE
    driver: DriverConversion | None = None

    def blamed(self, reason: str) -> str:
        """Return a reason that names the bag."""
        return reason if self.path in reason else f'bag {self.path!r}: {reason}'

    def parts(self, notes: list[str]) -> Iterator[Recording]:
        """Yield the bag in parts; what was unusual is in ``notes`` once all were read.

        Raises:
            RecordingError: The bag cannot be read.
        """
        joints = self.driver.names if self.driver else ()
        with RecordingReader(self.path, namespace=self.namespace, joints=joints) as reader:
            if self.description and reader.description not in ('', self.description):
                notes.append('has another robot description, which is not used')
            for part in within(reader.chunks(CHUNK_S), self.span):
                yield in_model_units(part, self.driver)
            notes += reader.notes


@dataclass(frozen=True, eq=False)
class Gathered:
    """What a bag says.

    Attributes:
        halves: Blocks of the first and of the second halves of its parts.
        notes: What was unusual in it, one sentence each.
        error: Why it says nothing; empty if it does.
    """

    halves: Halves = field(default_factory=lambda: ([], []))
    notes: tuple[str, ...] = ()
    error: str = ''


@dataclass(frozen=True, eq=False)
class Trial:
    """The robots that are to explain a bag.

    Attributes:
        nominal: As it was described.
        preparation: How samples are made.
        corrected: Robot and its drives' terms of each half of every part; the same one twice if
            it is to explain the whole.
    """

    nominal: RobotTree
    preparation: Preparation
    corrected: tuple[tuple[RobotTree, Drive], tuple[RobotTree, Drive]]

    @classmethod
    def of(cls, first: Identification, second: Identification | None = None) -> Trial:
        """Return the trial of identifications: one for all, or one for either half."""
        plan = first.plan
        both = first, first if second is None else second
        corrected = tuple((found.tree, found.drive) for found in both)
        return cls(plan.unknowns.tree, plan.preparation, corrected)  # type: ignore[arg-type]

    def parted(self, part: Recording) -> Iterator[tuple[Recording, RobotTree, Drive]]:
        """Yield what is evaluated of a part, and the robot that is to explain it."""
        if self.corrected[0][0] is self.corrected[1][0]:
            yield part, *self.corrected[0]
            return
        for half, robot in zip(halved(part), self.corrected, strict=True):
            yield half, *robot


@dataclass(frozen=True, eq=False)
class EvaluatedBag:
    """How well the nominal and the corrected robot explain a bag; or why nobody knows."""

    sums: tuple[ResidualSums, ResidualSums] | None = None
    notes: tuple[str, ...] = ()
    error: str = ''


def halved(recording: Recording) -> tuple[Recording, Recording]:
    """Return the halves of a recording, between which its joints have gone as far in either.

    A recording that begins or ends with the arm at rest is not cut into motion and rest.
    """
    speed = np.abs(np.nan_to_num(recording.velocity))
    gone = np.cumsum((speed / np.maximum(speed.max(axis=0), _SLOWEST)).sum(axis=1))
    middle = int(np.searchsorted(gone, 0.5 * gone[-1])) if gone[-1] > 0.0 else len(gone) // 2
    return recording.rows(slice(None, middle)), recording.rows(slice(middle, None))


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
    left_out: Counter[str] = Counter()
    try:
        for part in source.parts(notes):
            for store, half in zip(stores, halved(part), strict=True):
                try:
                    store.add(gather(half, plan, left_out))
                except RecordingError as error:
                    short.append(str(error))
    except (RobotDynamicsError, OSError) as error:
        return Gathered(error=source.blamed(str(error)))
    halves = stores[0].blocks, stores[1].blocks
    if not any(halves):
        return Gathered(error=source.blamed(short[0] if short else _STILL))
    return Gathered(halves, (*notes, *(f'{n} {what}: left out' for what, n in left_out.items())))


def evaluate_bag(source: Source, trial: Trial) -> EvaluatedBag:
    """Return how well robots explain a bag; a part of it too short to use is left out."""
    sums = ResidualSums(trial.nominal.n), ResidualSums(trial.nominal.n)
    notes: list[str] = []
    short: list[str] = []
    try:
        for part in source.parts(notes):
            for recording, tree, drive in trial.parted(part):
                try:
                    before = residual_series(recording, trial.nominal, trial.preparation)
                    after = residual_series(recording, tree, trial.preparation, drive)
                except RecordingError as error:
                    short.append(str(error))
                    continue
                sums[0].add(before)
                sums[1].add(after)
    except (RobotDynamicsError, OSError) as error:
        return EvaluatedBag(error=source.blamed(str(error)))
    if not sums[0].all.any():
        return EvaluatedBag(error=source.blamed(short[0]))
    return EvaluatedBag(sums, tuple(notes))
