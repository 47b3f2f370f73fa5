# SPDX-License-Identifier: Apache-2.0
r"""Preparation of a recording: matching states, accelerations and efforts.

Timing: a command is held from one timestamp to the next, so the velocity difference gives the
acceleration under it. The state it is assigned to depends on the integration of the plant:

========================  ==================  ==============  =====================
timing                    state               acceleration    velocity of friction
========================  ==================  ==============  =====================
``semi_implicit``         at the stamp        to the next     at the end of the step
(MuJoCo, DART)
``continuous``            middle of the step  to the next     middle of the step
(a real arm)
``sampled`` (efforts      at the stamp        central         at the stamp
measured, not held)
========================  ==================  ==============  =====================

Excluded are samples of a joint at rest, where Coulomb friction may have any value up to its level;
at a joint limit, whose contact force is unknown; and with a command at the effort limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.errors import ParameterError, RecordingError, known_name
from robot_dynamics_ros.estimation.filtering import low_pass, white_noise
from robot_dynamics_ros.identification.intervals import (
    SHORTEST,
    EqualIntervals,
    equal_intervals,
)
from robot_dynamics_ros.identification.unknowns import JointMotion
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.timing import TIMINGS, differentiated
from robot_dynamics_ros.spatial.scalar import Array

#: Reasons to exclude an effort.
NO_EFFORT, SATURATED = 'not recorded', 'at the effort limit'
AT_LIMIT, AT_REST = 'at a position limit', 'at rest'
_LIMIT_MARGIN = 1e-3  # share of a joint's range next to a limit
_SLOW = 5e-3  # share of the peak velocity below which a joint counts as at rest
_CREEP = 1e-4  # the same, of the velocity limit: simulated sticking joints creep slightly
_SURE = 5.0  # standard deviations of velocity noise above which the direction is certain


@dataclass(frozen=True)
class Preparation:
    """Settings for making samples from a recording.

    Attributes:
        timing: One of ``TIMINGS``.
        delay: Periods from a state to the step in which its command acts.
        cutoff: Cut-off frequency of the zero-phase low-pass filter, Hz; None for no filter.
        standstill: Speed below which a joint counts as at rest, one per joint, rad/s or m/s;
            empty: the maximum of 0.5 % of its peak, five standard deviations of its noise, and
            1e-4 of its velocity limit.
        effort: One of ``EFFORTS``; 'auto': commanded if the recording has commands.
    """

    timing: str = 'semi_implicit'
    delay: int = 0
    cutoff: float | None = None
    standstill: tuple[float, ...] = ()
    effort: str = 'auto'


@dataclass(frozen=True, eq=False)
class Samples:
    """Motions and efforts, with masks of the excluded efforts.

    Attributes:
        time: Shape (N,), s.
        motion: Motion at N times.
        effort: Shape (N, n), N m or N.
        excluded: Masks of the excluded efforts by reason, shape (N, n) each.
        standstill: Speeds below which the joints count as at rest, shape (n,), rad/s or m/s.
        memory: Number of samples that share measurements with a given one, including itself.
    """

    time: Array
    motion: JointMotion
    effort: Array
    excluded: dict[str, Array]
    standstill: Array
    memory: int = 1

    @property
    def usable(self) -> Array:
        """Mask of the efforts that are not excluded, shape (N, n)."""
        return ~np.any(list(self.excluded.values()), axis=0)

    def about(self, count: int) -> Samples:
        """Return ``count`` to twice as many of the samples, at regular intervals, or all."""
        return self.rows(slice(None, None, max(1, len(self.time) // count)))

    def rows(self, rows: slice) -> Samples:
        """Return some of the samples."""
        return Samples(
            self.time[rows],
            self.motion.take(rows),
            self.effort[rows],
            {why: which[rows] for why, which in self.excluded.items()},
            self.standstill,
            self.memory,
        )


def prepare(recording: Recording, tree: RobotTree, preparation: Preparation) -> Samples:
    """Make samples from a recording.

    Args:
        recording: A recording that contains all joints of the robot.
        tree: The robot, for its joints and limits.
        preparation: The settings.

    Returns:
        The samples of all gap-free parts of the recording, concatenated.

    Raises:
        UnknownNameError: The timing or effort is unknown, or a joint was not recorded.
        ParameterError: The delay or the cut-off is out of range.
        RecordingError: The recording has no states without a gap.
    """
    known_name('timing', preparation.timing, TIMINGS)
    if preparation.delay < 0:
        raise ParameterError('delay', preparation.delay, 'a command acts after its state')
    runs = [
        _delayed(run, preparation.delay)
        for run in equal_intervals(recording, tree, preparation.effort)
        if len(run) >= preparation.delay + SHORTEST
    ]
    rest = _standstill(runs, tree, preparation)
    tried = [_samples(run, tree, preparation, rest) for run in runs]
    parts = [part for part in tried if part]
    if not parts:
        raise RecordingError(
            'the recording',
            f'has no {SHORTEST} usable states in a row',
            'record for longer, or choose a higher cut-off',
        )
    return _concatenated(parts)


def _delayed(run: EqualIntervals, delay: int) -> EqualIntervals:
    """Return a run with its efforts delayed by a number of periods."""
    effort = run.effort[: len(run.time) - delay]
    return EqualIntervals(run.time[delay:], run.q[delay:], run.v[delay:], effort, run.period)


def _standstill(
    runs: Sequence[EqualIntervals], tree: RobotTree, preparation: Preparation
) -> Array:
    """Return the speeds below which the joints count as at rest, shape (n,)."""
    if preparation.standstill:
        if len(preparation.standstill) != tree.n:
            raise ParameterError('standstill', preparation.standstill, f'give {tree.n} speeds')
        return np.array(preparation.standstill)
    slowest = _CREEP * tree.speeds()
    for run in runs:
        taps = low_pass(preparation.cutoff, 1.0 / run.period).taps
        left = float(np.linalg.norm(taps))  # noise gain of the filter
        noise, peak = white_noise(run.v) * left, np.abs(run.v).max(axis=0)
        slowest = np.maximum(slowest, np.maximum(_SLOW * peak, _SURE * noise))
    return slowest


def _samples(
    run: EqualIntervals, tree: RobotTree, preparation: Preparation, rest: Array
) -> Samples | None:
    """Return the samples of a run; None if it is too short for the filter."""
    smooth = low_pass(preparation.cutoff, 1.0 / run.period)
    h = np.full((len(run.time) - 1, 1), run.period)
    q, v, a, v_friction, rows = differentiated(preparation.timing, run.q, run.v, h)
    effort, time = run.effort[rows], run.time[rows]
    if len(time) <= 2 * smooth.half + SHORTEST:
        return None
    speed = _smoothed(v_friction, smooth.taps)
    moving = np.abs(speed) > rest
    known, clear = np.isfinite(effort), _off_limits(run.q, tree)
    allowed = {
        NO_EFFORT: known,
        SATURATED: ~known | (np.abs(effort) < tree.effort_limit),
        AT_LIMIT: clear[rows] & clear[rows + 1],
    }
    motion = JointMotion(
        smooth(q), smooth(v), smooth(a), smooth(v_friction), smooth(np.sign(speed))
    )
    # Measured efforts are filtered with the same window as the direction, which may contain a
    # reversal. Commanded efforts are exact elsewhere, so such windows are excluded.
    measured = preparation.effort == 'measured'
    slides = np.abs(motion.v_friction) > rest if measured else smooth.all_valid(moving)
    excluded = {why: ~smooth.all_valid(which) for why, which in allowed.items()}
    excluded[AT_REST] = ~slides & ~np.any(list(excluded.values()), axis=0)
    middle = slice(smooth.half, len(time) - smooth.half, smooth.step)
    return Samples(
        time[middle],
        motion,
        smooth(np.where(known, effort, 0.0)),
        excluded,
        rest,
        1 + 2 * smooth.half // smooth.step,
    )


def _smoothed(values: Array, taps: Array) -> Array:
    """Return the filtered values (N, n) at every sample; the ends are extended."""
    from scipy.ndimage import convolve1d

    return convolve1d(values, taps, axis=0, mode='nearest')


def _off_limits(q: Array, tree: RobotTree) -> Array:
    """Return the mask of positions away from their limits, shape (N, n)."""
    margin = _LIMIT_MARGIN * tree.position_range
    return (q > tree.position_lower + margin) & (q < tree.position_upper - margin)


def _concatenated(parts: Sequence[Samples]) -> Samples:
    first, masks = parts[0], [part.excluded for part in parts]
    return Samples(
        np.concatenate([part.time for part in parts]),
        JointMotion.joined([part.motion for part in parts]),
        np.concatenate([part.effort for part in parts]),
        {why: np.concatenate([mask[why] for mask in masks]) for why in masks[0]},
        first.standstill,
        first.memory,
    )
