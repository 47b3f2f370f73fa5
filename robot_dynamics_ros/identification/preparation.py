# SPDX-License-Identifier: Apache-2.0
"""Preparation of a recording: matching states, accelerations and efforts at equal intervals.

Timestamps of a real arm are not equally spaced. States and measured efforts are interpolated
linearly at equal intervals, also across a few missing samples. Commands are held, not
interpolated, and a missing state splits the recording.

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
from robot_dynamics_ros.estimation.filtering import low_pass, moving_joints, white_noise
from robot_dynamics_ros.identification.unknowns import JointMotion
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.recordings.outliers import without_outliers
from robot_dynamics_ros.recordings.plausibility import StillError
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.series import interpolate_columns
from robot_dynamics_ros.recordings.timing import TIMINGS, differentiated
from robot_dynamics_ros.spatial.scalar import Array

#: Effort to identify from; 'auto': commanded if the recording has commands, else measured.
EFFORTS = ('auto', 'commanded', 'measured')

_GAP = 1.5  # periods between two states that constitute a gap
_JITTER = 0.01  # periods; above this jitter, states are interpolated at equal intervals
_HOLD = 0.02  # s for which a command is held without a new one
SHORTEST = 8  # minimum states in a run
_BRIDGED = 0.06  # s without a state that are interpolated if efforts are measured
_NO_NUMBER = 1e6  # rad, m and their rates: beyond the range of any sensor
_FEW = 0.01  # accepted share of non-finite states


@dataclass(frozen=True, eq=False)
class EqualIntervals:
    """States at equal intervals, with the effort that acts from each state to the next.

    Attributes:
        time: Shape (N,), s.
        q: Positions, shape (N, n), rad or m.
        v: Velocities, shape (N, n), rad/s or m/s.
        effort: Shape (N, n), N m or N.
        period: Interval, s.
    """

    time: Array
    q: Array
    v: Array
    effort: Array
    period: float

    def __len__(self) -> int:
        return len(self.time)


def effort_source(recording: Recording, wanted: str = 'auto') -> str:
    """Return which effort of a recording to use, 'commanded' or 'measured'.

    Raises:
        UnknownNameError: ``wanted`` is not in ``EFFORTS``.
    """
    if known_name('effort', wanted, EFFORTS) != 'auto':
        return wanted
    return 'commanded' if np.isfinite(recording.effort).any() else 'measured'


def equal_intervals(
    recording: Recording, tree: Robot, effort: str = 'auto'
) -> list[EqualIntervals]:
    """Return the gap-free parts of a recording, at equal intervals.

    Args:
        recording: A recording that contains all joints of the robot.
        tree: The robot.
        effort: One of ``EFFORTS``.

    Raises:
        RecordingError: There is no such part, or values are beyond the range of any sensor.
        UnknownNameError: The effort is unknown, or a joint was not recorded.
    """
    measured = effort_source(recording, effort) == 'measured'
    run = recording.of_joints(tree.joint_names)
    _require_states(len(run.time))
    _refuse_impossible(run)
    run, _ = without_outliers(run)
    finite = np.isfinite(run.position).all(axis=1) & np.isfinite(run.velocity).all(axis=1)
    time, q, v = run.time[finite], run.position[finite], run.velocity[finite]
    _require_states(len(time))
    effort_at = run.measured_effort[finite] if measured else run.effort[finite]
    held = _bridged(time, effort_at) if measured else _held(time, effort_at)
    period = float(np.median(np.diff(time)))
    gap = max(_GAP * period, _BRIDGED if measured else 0.0)
    ends = np.flatnonzero(np.diff(time) > gap) + 1
    pieces = np.split(np.arange(len(time)), ends)
    runs = [
        _evenly(EqualIntervals(time[piece], q[piece], v[piece], held[piece], period), measured)
        for piece in pieces
        if len(piece) >= SHORTEST
    ]
    if not runs:
        raise RecordingError(
            'the recording', f'has no {SHORTEST} states in a row', 'record without gaps'
        )
    return runs


def _require_states(count: int) -> None:
    if count < SHORTEST:
        raise RecordingError(
            'the recording',
            f'has {count} states with position and velocity',
            f'at least {SHORTEST} are needed',
        )


def require_motion(recording: Recording, tree: Robot) -> None:
    """Reject a recording in which fewer than two joints move, from which little is identified.

    Args:
        recording: A recording without outliers.
        tree: The robot.

    Raises:
        StillError: Names the joint that moves.
    """
    run = recording.of_joints(tree.joint_names)
    finite = np.isfinite(np.hstack([run.position, run.velocity])).all(axis=1)
    moves = moving_joints(run.position[finite], run.velocity[finite])
    if tree.n > 1 and moves.sum() < 2:
        names = ', '.join(np.array(tree.joint_names)[moves]) or 'no joint'
        raise StillError(
            'the recording',
            f'moves {names} only: the others cannot be identified',
            'record a motion of all joints (command excite designs one)',
        )


def _refuse_impossible(run: Recording) -> None:
    """Reject a recording with values beyond the range of any sensor, or too many NaN.

    Raises:
        RecordingError: Names the joint and the value.
    """
    for name in ('position', 'velocity'):
        values = getattr(run, name)
        largest = np.fmax.reduce(np.abs(values), axis=0, initial=0.0)
        joint = int(np.argmax(largest))
        if largest[joint] > _NO_NUMBER:
            raise RecordingError(
                'the recording',
                f'has a {name} of {largest[joint]:.3g} for joint {run.joints[joint]!r}, beyond '
                'the range of any sensor',
                'repair the driver, or cut the recording with --from and --to',
            )
        lost = ~np.isfinite(values).all(axis=1)
        if lost.mean() > _FEW and np.isfinite(values).any():
            culprit = run.joints[int(np.argmin(np.isfinite(values).sum(axis=0)))]
            raise RecordingError(
                'the recording',
                f'has no {name} (NaN) in {100.0 * lost.mean():.3g} % of its states, most of joint '
                f'{culprit!r}',
                'repair the driver, or cut the recording with --from and --to',
            )


def _bridged(time: Array, effort: Array) -> Array:
    """Return the efforts with missing ones interpolated across at most 60 ms."""
    bridged = effort.copy()
    for j, column in enumerate(effort.T):
        known = np.flatnonzero(np.isfinite(column))
        if 0 < len(known) < len(column):
            after = np.clip(np.searchsorted(known, np.arange(len(column))), 1, len(known) - 1)
            near = time[known[after]] - time[known[after - 1]] <= _BRIDGED
            line = np.interp(time, time[known], column[known], left=np.nan, right=np.nan)
            bridged[:, j] = np.where(near | np.isfinite(column), line, np.nan)
    return bridged


def _held(time: Array, effort: Array) -> Array:
    """Return the efforts with missing ones replaced by the previous one, for up to 20 ms."""
    known = np.isfinite(effort)
    last = np.where(known, np.arange(len(time))[:, np.newaxis], 0)
    last = np.maximum.accumulate(last, axis=0)
    held = np.take_along_axis(effort, last, axis=0)
    held[time[:, np.newaxis] - time[last] > _HOLD] = np.nan
    return held


def _evenly(run: EqualIntervals, measured: bool) -> EqualIntervals:
    """Return a run at equal intervals, interpolated if its timestamps are irregular."""
    steps = np.diff(run.time)
    if np.max(np.abs(steps - run.period)) <= _JITTER * run.period:
        return run
    period = float(steps.mean()) if measured else run.period
    time = np.arange(run.time[0], run.time[-1], period)
    before = np.searchsorted(run.time, time, side='right') - 1
    q, v, effort = (
        interpolate_columns(time, run.time, values) for values in (run.q, run.v, run.effort)
    )
    return EqualIntervals(time, q, v, effort if measured else run.effort[before], period)


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


def prepare(recording: Recording, tree: Robot, preparation: Preparation) -> Samples:
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
    late = preparation.delay
    runs = [
        EqualIntervals(
            run.time[late:], run.q[late:], run.v[late:], run.effort[: len(run) - late], run.period
        )
        for run in equal_intervals(recording, tree, preparation.effort)
        if len(run) >= late + SHORTEST
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
    return Samples(
        np.concatenate([part.time for part in parts]),
        JointMotion.joined([part.motion for part in parts]),
        np.concatenate([part.effort for part in parts]),
        {why: np.concatenate([part.excluded[why] for part in parts]) for why in parts[0].excluded},
        rest,
        parts[0].memory,
    )


def _standstill(runs: Sequence[EqualIntervals], tree: Robot, preparation: Preparation) -> Array:
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
    run: EqualIntervals, tree: Robot, preparation: Preparation, rest: Array
) -> Samples | None:
    """Return the samples of a run; None if it is too short for the filter."""
    from scipy.ndimage import convolve1d

    smooth = low_pass(preparation.cutoff, 1.0 / run.period)
    h = np.full((len(run.time) - 1, 1), run.period)
    q, v, a, v_friction, rows = differentiated(preparation.timing, run.q, run.v, h)
    effort, time = run.effort[rows], run.time[rows]
    if len(time) <= 2 * smooth.half + SHORTEST:
        return None
    speed = convolve1d(v_friction, smooth.taps, axis=0, mode='nearest')  # also at the ends
    moving = np.abs(speed) > rest
    known, margin = np.isfinite(effort), _LIMIT_MARGIN * tree.position_range
    clear = (run.q > tree.position_lower + margin) & (run.q < tree.position_upper - margin)
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
