# SPDX-License-Identifier: Apache-2.0
"""How well a model explains recorded efforts, joint by joint."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.effort_model import Instants, explanation
from robot_dynamics_ros.identification.intervals import effort_source
from robot_dynamics_ros.identification.preparation import Preparation
from robot_dynamics_ros.identification.regressor import inertial_parameters, regressor
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.timing import contradictions, find_timing, make_instants
from robot_dynamics_ros.spatial.scalar import Array

_AT_ONCE = 4096  # instants whose regressor is in memory


@dataclass(frozen=True, eq=False)
class ResidualSeries:
    """Residuals of one recording in time.

    Attributes:
        time: Shape (N,), s.
        effort: Recorded, shape (N, n), N m or N.
        residual: Recorded minus explained, shape (N, n); at rest what exceeds the Coulomb
            friction; NaN where the effort is not known (limits, saturation).
        sliding: Where the joint moves and the residual is complete, shape (N, n).
        velocity: Shape (N, n), rad/s or m/s.
        load: Effort of the rigid bodies by the model, shape (N, n).
        friction: Of the model, all of its terms, shape (N, n).
    """

    time: Array
    effort: Array
    residual: Array
    sliding: Array
    velocity: Array
    load: Array
    friction: Array


@dataclass(frozen=True)
class Residuals:
    """How well a model explains recordings; lists are per joint, N m or N.

    Attributes:
        joints: Joint names.
        rms_effort: Of the samples in which the joint slides.
        rms: Residual of the samples in which the joint slides.
        percent: ``rms`` in percent of ``rms_effort``; NaN if the joint never slides.
        peak: Largest residual of the samples in which the joint slides.
        sliding: Number of these samples.
        at_rest: Number of samples at rest, where Coulomb friction may have any value up to its
        level. rms_at_rest: What exceeds that level there.
    """

    joints: list[str]
    rms_effort: list[float]
    rms: list[float]
    percent: list[float]
    peak: list[float]
    sliding: list[int]
    at_rest: list[int]
    rms_at_rest: list[float]

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON."""
        return dict(vars(self))

    @property
    def worst(self) -> float:
        """The largest percentage; NaN if no joint slides."""
        return max((p for p in self.percent if not math.isnan(p)), default=math.nan)

    def unproved(self) -> list[str]:
        """Return of which joints nothing is known, one sentence each."""
        return [
            f'{joint} never slides in the recordings for validation: nothing is proved of it'
            for joint, count in zip(self.joints, self.sliding, strict=True)
            if count == 0
        ]


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A recording as it is evaluated, by every command alike.

    Attributes:
        time: Of the instants, shape (M,), s.
        instants: Motions and the efforts that belong to them.
    """

    time: Array
    instants: Instants

    def split(self, time: float) -> tuple[Evaluated, Evaluated]:
        """Return what is before a time, s, and what is not."""
        before = self.time < time
        first, second = (
            Evaluated(self.time[which], self.instants.take(which)) for which in (before, ~before)
        )
        return first, second

    def residuals(self, tree: RobotTree) -> ResidualSeries:
        """Return what a model leaves unexplained.

        Args:
            tree: The model: inertias, gravity, friction, armature.

        Raises:
            RecordingError: There is no instant.
        """
        x = self.instants
        if not len(self.time):
            raise RecordingError(
                'the recording', 'has no states in a row that can be used', 'record for longer'
            )
        load = _rigid_efforts(tree, x)
        model = explanation(tree, JointTerms.of(tree), x, load)
        residual = np.where(model.good, model.residual, model.excess)
        friction = model.parts['friction']
        return ResidualSeries(
            self.time, x.effort, residual, model.good, x.v_friction, load, friction
        )


def evaluated(recording: Recording, tree: RobotTree, preparation: Preparation) -> Evaluated:
    """Return a recording as it is evaluated.

    The timing is that of the preparation; the filter is what the noise asks for.

    Raises:
        UnknownNameError: There is no such timing or effort, or a joint was not recorded.
    """
    run = recording.of_joints(tree.joint_names)
    run = run.without(contradictions(run))
    measured = effort_source(run, preparation.effort) == 'measured'
    effort = run.measured_effort if measured else run.effort
    late = preparation.delay
    effort = np.vstack([np.full((late, tree.n), np.nan), effort[: len(effort) - late]])
    timing = find_timing(run, commanded=not measured, name=preparation.timing)
    instants = make_instants(run, effort, timing)
    return Evaluated(run.time[instants.row], instants)


def _rigid_efforts(tree: RobotTree, instants: Instants) -> Array:
    """Return the inverse dynamics without friction and armature, shape (M, n), N m or N."""
    parameters = inertial_parameters(tree)
    motion = instants.q, instants.v, instants.a
    rows = range(0, len(instants.row), _AT_ONCE)
    parts = [regressor(tree, *(x[k : k + _AT_ONCE] for x in motion)) @ parameters for k in rows]
    return np.concatenate(parts)


def residual_series(
    recording: Recording, tree: RobotTree, preparation: Preparation
) -> ResidualSeries:
    """Return what a model leaves unexplained of a recording.

    Args:
        recording: Any of the robot.
        tree: The model: inertias, gravity, friction, armature.
        preparation: As for the identification; only its effort, timing and delay count.

    Raises:
        RecordingError: Nothing of the recording can be used.
    """
    return evaluated(recording, tree, preparation).residuals(tree)


def validate(
    recordings: Iterable[Recording], tree: RobotTree, preparation: Preparation
) -> Residuals:
    """Return how well a model explains recordings, read one at a time.

    Args:
        recordings: Of the robot, best not those it was identified from.
        tree: The model.
        preparation: As for the identification.

    Raises:
        RecordingError: There is no recording, or nothing of one can be used.
    """
    total = ResidualSums(tree.n)
    for recording in recordings:
        total.add(residual_series(recording, tree, preparation))
    return total.residuals(tree)


class ResidualSums:
    """Sums of squares over recordings, one added after the other.

    Args:
        n: Number of joints.
    """

    def __init__(self, n: int) -> None:
        zero = np.zeros(n)
        self.effort, self.slide, self.rest = zero, zero, zero
        self.peak = zero
        self.all, self.sliding, self.at_rest = (np.zeros(n, dtype=int) for _ in range(3))

    def add(self, series: ResidualSeries) -> None:
        """Take over a recording."""
        known = np.isfinite(series.residual)
        square = np.where(known, np.square(np.nan_to_num(series.residual)), 0.0)
        slides, rests = series.sliding, known & ~series.sliding
        effort = np.where(slides, series.effort, 0.0)
        self.effort = self.effort + np.square(effort).sum(axis=0)
        self.slide = self.slide + (square * slides).sum(axis=0)
        self.rest = self.rest + (square * rests).sum(axis=0)
        self.peak = np.maximum(self.peak, np.sqrt((square * slides).max(axis=0, initial=0.0)))
        self.all = self.all + len(series.time)
        self.sliding = self.sliding + slides.sum(axis=0)
        self.at_rest = self.at_rest + rests.sum(axis=0)

    def merge(self, other: ResidualSums) -> None:
        """Take over what was added to another one."""
        self.effort = self.effort + other.effort
        self.slide = self.slide + other.slide
        self.rest = self.rest + other.rest
        self.peak = np.maximum(self.peak, other.peak)
        self.all = self.all + other.all
        self.sliding = self.sliding + other.sliding
        self.at_rest = self.at_rest + other.at_rest

    def residuals(self, tree: RobotTree) -> Residuals:
        """Return the figures of all recordings.

        Raises:
            RecordingError: There was none.
        """
        if not self.all.any():
            raise RecordingError('validation', 'has no recording', 'give at least one')
        rms_effort = np.sqrt(self.effort / np.maximum(self.sliding, 1))
        rms = np.sqrt(self.slide / np.maximum(self.sliding, 1))
        percent = 100.0 * rms / np.where(rms_effort > 0.0, rms_effort, 1.0)
        percent = np.where(self.sliding > 0, percent, np.nan)
        return Residuals(
            joints=list(tree.joint_names),
            rms_effort=rms_effort.tolist(),
            rms=rms.tolist(),
            percent=percent.tolist(),
            peak=self.peak.tolist(),
            sliding=self.sliding.tolist(),
            at_rest=self.at_rest.tolist(),
            rms_at_rest=np.sqrt(self.rest / np.maximum(self.at_rest, 1)).tolist(),
        )
