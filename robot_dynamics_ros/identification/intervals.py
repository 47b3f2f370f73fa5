# SPDX-License-Identifier: Apache-2.0
"""Split a recording at gaps and resample it at equal intervals, with the acting effort.

Timestamps of a real arm are not equally spaced. States and measured efforts are interpolated
linearly at equal intervals, also across a few missing samples. Commands are held, not
interpolated, and a missing state splits the recording.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.errors import RecordingError, known_name
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.linear_algebra import along_lines
from robot_dynamics_ros.spatial.scalar import Array

#: Effort to identify from; 'auto': commanded if the recording has commands, else measured.
EFFORTS = ('auto', 'commanded', 'measured')

_GAP = 1.5  # periods between two states that constitute a gap
_JITTER = 0.01  # periods; above this jitter, states are interpolated at equal intervals
_HOLD = 0.02  # s for which a command is held without a new one
SHORTEST = 8  # minimum states in a run
_BRIDGED = 0.06  # s without a state that are interpolated if efforts are measured
_NEIGHBOURS = 5  # samples of the median filter for glitches
_STRANGE = 10.0  # robust standard deviations from the median, and
_LARGE = 0.1  # share of the range of the signal, above which a sample is a glitch
_TOO_FAST = 3.0  # times the velocity limit
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
    recording: Recording, tree: RobotTree, effort: str = 'auto'
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
    finite = np.isfinite(run.position).all(axis=1) & np.isfinite(run.velocity).all(axis=1)
    finite &= ~glitches(run, tree).any(axis=1)
    time, q, v = run.time[finite], run.position[finite], run.velocity[finite]
    _require_states(len(time))
    held = run.measured_effort[finite] if measured else _held(time, run.effort[finite])
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


def glitches(run: Recording, tree: RobotTree) -> Array:
    """Return the mask of outliers, shape (N, n): far from neighbouring samples or above limits.

    Args:
        run: Recording with columns in the joint order of the robot.
        tree: The robot, for its velocity limits.
    """
    limit = np.where(tree.velocity_limit > 0.0, tree.velocity_limit, np.inf)
    alone = _alone(run.position) | _alone(run.velocity)
    return alone | (np.abs(run.velocity) > _TOO_FAST * limit) & _apart(run.velocity)


def _alone(values: Array) -> Array:
    distance = np.abs(values - _median(values))
    usual = 1.4826 * np.nanmedian(distance, axis=0)
    low, high = np.nanpercentile(values, (2.0, 98.0), axis=0)
    return distance > np.maximum(_STRANGE * usual, _LARGE * (high - low) + 1e-12)


def _apart(values: Array) -> Array:
    return np.abs(values) > _TOO_FAST * np.abs(_median(values))


def _median(values: Array) -> Array:
    from scipy.ndimage import median_filter

    return median_filter(np.nan_to_num(values), size=(_NEIGHBOURS, 1), mode='nearest')


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
    q, v, effort = (along_lines(time, run.time, values) for values in (run.q, run.v, run.effort))
    return EqualIntervals(time, q, v, effort if measured else run.effort[before], period)
