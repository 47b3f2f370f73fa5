# SPDX-License-Identifier: Apache-2.0
"""How well a model explains recorded efforts, joint by joint."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.identification.preparation import (
    Preparation,
    Samples,
    prepare,
)
from robot_dynamics_ros.identification.unknowns import TERMS, Unknowns
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.scalar import Array


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
        rms_effort: Of all samples.
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


def residual_series(
    recording: Recording,
    tree: RobotTree,
    preparation: Preparation,
    drive: Mapping[str, Array] | None = None,
) -> ResidualSeries:
    """Return what a model leaves unexplained of a recording.

    Args:
        recording: Any of the robot.
        tree: The model: inertias, gravity, friction, armature.
        preparation: As for the identification.
        drive: What the drives add beyond the tree, by term, shape (n,) each; nothing by default.

    Raises:
        RecordingError: Nothing of the recording can be used.
    """
    samples = prepare(recording, tree, preparation)
    unknowns = Unknowns(tree, tuple(TERMS))
    values = unknowns.nominal.copy()
    for term, value in (drive or {}).items():
        unknowns.term(values, term)[:] = value
    columns = unknowns.columns(samples.motion)
    load = columns[:, :, : unknowns.links] @ values[: unknowns.links]
    explained = columns @ values
    friction = explained - load - tree.armature * samples.motion.a
    residual = samples.effort - explained
    at_rest = _beyond_friction(samples, tree, residual)
    residual = np.where(samples.usable, residual, np.where(samples.at_rest, at_rest, np.nan))
    v = samples.motion.v_friction
    return ResidualSeries(
        samples.time, samples.effort, residual, samples.usable, v, load, friction
    )


def _beyond_friction(samples: Samples, tree: RobotTree, residual: Array) -> Array:
    """Return the residual that Coulomb friction of any value up to its level cannot explain."""
    needed = residual + tree.coulomb_friction * samples.motion.direction
    return np.sign(needed) * np.maximum(np.abs(needed) - tree.coulomb_friction, 0.0)


def validate(
    recordings: Iterable[Recording],
    tree: RobotTree,
    preparation: Preparation,
    drive: Mapping[str, Array] | None = None,
) -> Residuals:
    """Return how well a model explains recordings, read one at a time.

    Args:
        recordings: Of the robot, best not those it was identified from.
        tree: The model.
        preparation: As for the identification.
        drive: What the drives add beyond the tree, by term, shape (n,) each; nothing by default.

    Raises:
        RecordingError: There is no recording, or nothing of one can be used.
    """
    total = ResidualSums(tree.n)
    for recording in recordings:
        total.add(residual_series(recording, tree, preparation, drive))
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
        self.effort = self.effort + np.square(series.effort).sum(axis=0)
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
        rms_effort = np.sqrt(self.effort / self.all)
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
