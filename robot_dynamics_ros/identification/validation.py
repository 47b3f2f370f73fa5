# SPDX-License-Identifier: Apache-2.0
"""Validation: residuals of each joint between recorded efforts and a model; plausible values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.estimation.accumulate import ResidualSums
from robot_dynamics_ros.estimation.effort_model import EffortModel, Instants
from robot_dynamics_ros.estimation.hypotheses import POSSIBLE_ARM, GravityFit, possible_masses
from robot_dynamics_ros.estimation.residual_causes import EffortResidual, resolved
from robot_dynamics_ros.identification.identify import Identification
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.recordings.outliers import require_clean
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.samples import Preparation, samples_of
from robot_dynamics_ros.recordings.timing import AUTO
from robot_dynamics_ros.spatial.scalar import Array

_SLOWEST = 1e-9  # rad/s or m/s: a joint below this peak velocity never moves


class ResidualSeries(NamedTuple):
    """Efforts of one recording over time, and what two models leave of them; shape (N, n).

    Attributes:
        time: Shape (N,), s.
        effort: Recorded effort, N m or N.
        velocity: rad/s or m/s.
        before: What the nominal robot leaves, see :attr:`.ModelEfforts.unexplained`, N m or N.
        after: What the corrected robot leaves.
        load: Rigid-body effort of the corrected robot.
        friction: Its friction, all terms.
    """

    time: Array
    effort: Array
    velocity: Array
    before: Array
    after: Array
    load: Array
    friction: Array


class Residuals(NamedTuple):
    """Residuals of a model on recordings; lists are per joint, N m or N.

    Attributes:
        joints: Joint names.
        rms_effort: RMS effort of the samples in which the joint slides.
        rms: RMS residual of these samples.
        percent: See :func:`percent_of`.
        peak: Largest residual of these samples.
        sliding: Number of these samples.
        at_rest: Number of samples at rest, where Coulomb friction may have any value up to its
            level.
        rms_at_rest: RMS excess over that level at rest.
    """

    joints: list[str]
    rms_effort: list[float]
    rms: list[float]
    percent: list[float]
    peak: list[float]
    sliding: list[int]
    at_rest: list[int]
    rms_at_rest: list[float]

    @classmethod
    def of(cls, tree: Robot, sums: ResidualSums) -> Residuals:
        """Return the residuals of the joints of a robot with these statistics."""
        residual, effort, excess = sums
        columns = (
            np.nan_to_num(effort.rms),
            np.nan_to_num(residual.rms),
            percent_of(tree, sums),
            residual.peak,
            residual.count,
            excess.count,
            np.nan_to_num(excess.rms),
        )
        return cls(list(tree.joint_names), *(column.tolist() for column in columns))

    @property
    def worst(self) -> float:
        """The largest percentage; NaN if no joint slides."""
        return float(np.fmax.reduce(self.percent, initial=math.nan))

    def unproved(self) -> list[str]:
        """Return the joints that could not be validated, one sentence each."""
        return [
            f'{joint} never slides in the recordings for validation: it is not validated'
            for joint, count in zip(self.joints, self.sliding, strict=True)
            if count == 0
        ]


def evaluated(recording: Recording, tree: Robot, preparation: Preparation) -> Instants:
    """Return motions and efforts of a recording without outliers, as every command evaluates them.

    The timing is that of the preparation; the filter is chosen from the noise.

    Raises:
        UnknownNameError: The timing or effort is unknown, or a joint was not recorded.
        RecordingError: There is no sample.
    """
    motion = samples_of(recording, tree, replace(preparation, cutoff=AUTO)).driven
    if not len(motion.row):
        raise RecordingError('the recording', 'has no usable states in a row', 'record for longer')
    return motion


def residual_sums(motion: Instants, tree: Robot, *curves: Array) -> ResidualSums:
    """Return the statistics of what a model leaves: inertias, gravity, friction, armature.

    Args:
        motion: Motions and efforts, of one instant at least.
        tree: The model.
        curves: Receive, as far as given, what is left, the rigid-body efforts and the friction,
            shape (M, n) each, N m or N.
    """
    sums = list[ResidualSums]()
    for rows, model in EffortModel(tree).blocks(motion):
        left = model.unexplained
        parts = left, model.rigid, model.parts['friction']
        for curve, values in zip(curves, parts, strict=False):
            curve[rows] = values
        given = motion.time[rows], motion.effort[rows], left, model.determined
        sums.append(ResidualSums.of(*given))
    return reduce(ResidualSums.merged, sums)


def fitted_gravity(motion: Instants, tree: Robot) -> GravityFit | None:
    """Return the gravity that a model would need; None if it loads no joint.

    Coulomb friction has the sign of the velocity, as in the identification; residuals have its
    smooth sign, as those of every command.
    """
    exact = replace(motion, sign=np.sign(motion.v_friction))
    return EffortResidual(EffortModel(tree), exact).gravity


class Trial(NamedTuple):
    """The robots to validate on a bag.

    Attributes:
        nominal: The robot as described.
        preparation: Preparation of the samples.
        corrected: One robot for all, or one for each half of a recording.
    """

    nominal: Robot
    preparation: Preparation
    corrected: tuple[Robot, ...]

    @classmethod
    def of(cls, *identified: Identification) -> Trial:
        """Return the trial of identifications: one for all, or one for each half."""
        plan = identified[0].plan
        corrected = tuple(each.tree for each in identified)
        return cls(plan.unknowns.tree, plan.preparation, corrected)

    def pieces(self, run: Recording, whole: Instants) -> list[tuple[Instants, Robot]]:
        """Return the samples of a recording, or of each half, with the corrected robot."""
        middle = int(np.searchsorted(whole.time, halved(run)[1].time[0]))
        halves = [whole.take(slice(middle)), whole.take(slice(middle, None))]  # views
        pieces = [whole] if len(self.corrected) == 1 else halves
        return [pair for pair in zip(pieces, self.corrected, strict=True) if len(pair[0].row)]


def halved(recording: Recording) -> tuple[Recording, Recording]:
    """Split a recording into two parts in which the joints travel equally far.

    This avoids splitting a recording that begins or ends at rest into motion and rest.
    """
    speed = np.abs(np.nan_to_num(recording.velocity))
    gone = np.cumsum((speed / np.maximum(speed.max(axis=0), _SLOWEST)).sum(axis=1))
    middle = int(np.searchsorted(gone, 0.5 * gone[-1])) if gone[-1] > 0.0 else len(gone) // 2
    return recording.rows(slice(None, middle)), recording.rows(slice(middle, None))


def validate(recordings: Iterable[Recording], tree: Robot, preparation: Preparation) -> Residuals:
    """Return the residuals of a model on recordings.

    Args:
        recordings: Recordings of the robot, read one at a time, preferably not those that it was
            identified from.
        tree: The model.
        preparation: As for the identification.

    Raises:
        RecordingError: There is no recording, no part of one can be used, or it has too many
            outliers.
    """
    clean = (require_clean(run.of_joints(tree.joint_names))[0] for run in recordings)
    sums = [residual_sums(evaluated(run, tree, preparation), tree) for run in clean]
    if not sums:
        raise RecordingError('validation', 'has no recording', 'give at least one')
    return Residuals.of(tree, reduce(ResidualSums.merged, sums))


def percent_of(tree: Robot, sums: ResidualSums) -> Array:
    """Return RMS residuals in percent of the RMS effort, shape (n,).

    0 if drives resolve neither, which tells nothing; NaN if the joint never slides.
    """
    effort, residual = np.nan_to_num(sums.effort.rms), np.nan_to_num(sums.residual.rms)
    tells = np.maximum(effort, residual) > resolved(tree, effort)
    percent = 100.0 * residual / np.where(effort > 0.0, effort, 1.0)
    return np.where(sums.residual.count > 0, tells * percent, np.nan)


_UNEXPLAINED = 60.0  # percent of the effort
SMALL = 0.005  # of an effort limit: less tells of noise, not of another robot
_REACH = 1.5  # from a joint to the centre of mass, in link sizes
_TRIFLE = 1e-3  # of the mass of the arm: a lighter link tells of no mismatch


def implausible(identified: Identification, after: Residuals | None = None) -> list[str]:
    """Return the reasons why an identified model is implausible; empty if it is plausible.

    Args:
        identified: The identification.
        after: Its residuals on the validation recordings, if known.
    """
    nominal, tree = identified.plan.unknowns.tree, identified.tree
    ratio, said = float(tree.mass.sum() / nominal.mass.sum()), []
    if not POSSIBLE_ARM[0] <= ratio <= POSSIBLE_ARM[1]:
        said.append(f'the whole arm would weigh {ratio:.2g} times its nominal mass')
    counts = np.abs(tree.mass - nominal.mass) > _TRIFLE * nominal.mass.sum()
    for i in np.flatnonzero(counts & ~possible_masses(tree.mass, nominal.mass)).tolist():
        said.append(
            f'{tree.link_names[i]} would weigh {tree.mass[i]:.3g} kg, its nominal mass is '
            f'{nominal.mass[i]:.3g} kg'
        )
    # The size of a link is the distance to its child joints, or to the end of its mass. A link
    # without any may carry a tool of any length.
    parent = np.array(nominal.parent)
    spread = np.sqrt(np.trace(nominal.inertia, axis1=1, axis2=2) / (2.0 * nominal.mass))
    size = np.linalg.norm(nominal.com, axis=1) + spread
    np.maximum.at(size, parent, np.where(parent < 0, 0.0, np.linalg.norm(nominal.p_PJ, axis=1)))
    distance = np.linalg.norm(tree.com, axis=1)
    for i in np.unique(parent[(parent >= 0) & (distance > _REACH * size)[parent]]).tolist():
        said.append(
            f'the centre of mass of {tree.link_names[i]} would be {distance[i]:.2g} m from its '
            f'joint, the link reaches {size[i]:.2g} m'
        )
    if after:
        matters = np.array(after.rms) > resolved(nominal, np.array(after.rms_effort), SMALL)
        percent = matters * np.nan_to_num(after.percent)
        if percent.max() > _UNEXPLAINED:
            joint = after.joints[int(np.argmax(percent))]
            every = ', '.join(map('{} {:.3g} %'.format, after.joints, after.percent))
            worst = f'{percent.max():.3g} % of the effort of {joint} remain unexplained'
            said.append(f'{worst} ({every})')
    asked = (
        'check units, gains, the order of joints, gravity, the description, and the load '
        '(--payload LINK measures one)'
    )
    return [f'the data do not match this robot: {"; ".join(said)}: {asked}'] if said else []
