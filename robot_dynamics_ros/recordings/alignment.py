# SPDX-License-Identifier: Apache-2.0
"""Find the time shift that aligns two recordings of the same motion.

A coarse correlation of all joint velocities over all shifts gives an initial shift, which is then
refined to minimise the position difference, up to a constant offset of each joint as by gravity:
to first order a shift d changes the positions by velocity times d, so each step of d is a linear
least-squares quotient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import ConfigurationError, RecordingError
from robot_dynamics_ros.estimation.accumulate import interpolate_columns
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.recordings.recording import NANO, Recording, format_time, span_origin
from robot_dynamics_ros.spatial.scalar import Array

#: Alignment methods; a number of seconds is accepted as well.
METHODS = ('motion', 'start', 'stamps')
_COARSE_S = 0.005  # step of the correlation
_REFINEMENTS = 20
_FINEST_S = 1e-12
_START_SHARE = 0.02  # of the lower of the two peak speeds: above it the motion has started
_MIN_STATES = 8  # states of a run
#: What is interpolated.
_COLUMNS = (
    'position', 'velocity', 'effort', 'measured_effort', 'reference_position',
    'reference_velocity',
)  # fmt: skip
_LARGEST_GRID = 2_000_000  # correlation samples, or ten per state if that is more


@dataclass(frozen=True)
class Alignment:
    """A time shift between two runs, and how well they agree under it.

    Attributes:
        shift: Time of the second run minus time of the first, s.
        correlation: Correlation of the shifted velocities, -1 to 1; NaN without motion.
        method: Description of how the shift was found.
    """

    shift: float
    correlation: float
    method: str


def align(first: Recording, second: Recording, method: str = 'motion') -> Alignment:
    """Find the shift between two recordings with the same joints.

    Args:
        first: One run.
        second: The other.
        method: One of ``METHODS``, or a shift in seconds: 'motion' aligns the whole motion,
            'start' the start of motion, 'stamps' uses the timestamps unshifted.

    Raises:
        ConfigurationError: The method is unknown.
        RecordingError: A run is too short, or the runs do not overlap.
    """
    for which, run in (('first', first), ('second', second)):
        if len(run.time) < _MIN_STATES:
            problem = f'has {counted(len(run.time), "state")}, fewer than {_MIN_STATES}'
            raise RecordingError(f'the {which} run', problem, 'record for longer')
    one, other = _motions(first, second)
    moving = one.moves and other.moves
    if method not in METHODS:
        shift, how = _parse_shift(method), 'as given'
    elif method == 'stamps':
        shift, how = 0.0, 'timestamps unshifted'
    elif method == 'start' or not moving:
        level = _START_SHARE * min(float(np.abs(motion.v).max()) for motion in (one, other))
        shift = _motion_start(other, level) - _motion_start(one, level)
        how = 'start of motion' if moving else 'first states, nothing moves'
    else:
        shift, how = _refined_shift(one, other, _coarse_shift(one, other)), 'whole motion'
    overlap = min(first.time[-1], second.time[-1] - shift) - max(
        first.time[0], second.time[0] - shift
    )
    if overlap < _MIN_STATES * _period(second):
        raise RecordingError(
            'the runs', f'do not overlap under a shift of {shift:.6g} s', 'choose --align'
        )
    return Alignment(shift, _correlation(one, other, shift), how)


def resample(run: Recording, time: Array) -> Recording:
    """Return a recording at other times (N,), s, within its own: on lines between its states.

    Where a value of one of the two states is missing, that of the nearest is used.
    """
    after = np.clip(np.searchsorted(run.time, time), 1, len(run.time) - 1)
    nearest = run.rows(after - (time - run.time[after - 1] < run.time[after] - time))
    columns: dict[str, Any] = {}
    for name in _COLUMNS:
        line = interpolate_columns(time, run.time, getattr(run, name))
        columns[name] = np.where(np.isfinite(line), line, getattr(nearest, name))
    stamp_ns = np.rint(time * NANO).astype(np.int64)
    return replace(nearest, time=time, stamp_ns=stamp_ns, **columns)


@dataclass(frozen=True, eq=False)
class AlignedMotion:
    """Times (N,), s, and positions and velocities (N, n) used to align a run."""

    time: Array
    q: Array
    v: Array

    @property
    def moves(self) -> bool:
        """Whether any position changes."""
        return bool(np.ptp(self.q, axis=0).max() > 1e-9)

    def at(self, time: Array, values: Array) -> Array:
        """Interpolate values (N, n) linearly at other times."""
        return interpolate_columns(time, self.time, values)

    def overlap(self, time: Array) -> Array:
        """Return a mask of the times that lie within this motion."""
        return (time >= self.time[0]) & (time <= self.time[-1])


def _motions(first: Recording, second: Recording) -> tuple[AlignedMotion, AlignedMotion]:
    """Return the reference motions if they move in both runs, else the measured motions."""
    runs = (first, second)
    motions = [_motion(run.time, run.reference_position, run.reference_velocity) for run in runs]
    if not all(len(motion.time) >= _MIN_STATES and motion.moves for motion in motions):
        motions = [_motion(run.time, run.position, run.velocity) for run in runs]
    return motions[0], motions[1]


def _motion(time: Array, q: Array, v: Array) -> AlignedMotion:
    """Return the motion at the times with finite positions."""
    finite = np.isfinite(q).all(axis=1)
    return AlignedMotion(time[finite], q[finite], _velocity(time[finite], q[finite], v[finite]))


def _velocity(time: Array, q: Array, v: Array) -> Array:
    """Return velocities (N, n), with missing values replaced by position differences."""
    missing = ~np.isfinite(v)
    if len(time) < 2 or not missing.any():
        return v
    return np.where(missing, np.gradient(q, time, axis=0), v)


def _period(run: Recording) -> float:
    return float(np.median(np.diff(run.stamp_ns))) / NANO


def _parse_shift(text: str) -> float:
    try:
        shift = float(text)
    except ValueError:
        shift = math.nan
    if not math.isfinite(shift):
        raise ConfigurationError(
            f'alignment {text!r}', 'is unknown', f'{", ".join(METHODS)}, or seconds'
        )
    return shift


def _motion_start(motion: AlignedMotion, level: float) -> float:
    """Return the first time a joint exceeds a speed, or the start time if none does."""
    moving = np.abs(motion.v).max(axis=1) > level
    return float(motion.time[int(moving.argmax())]) if moving.any() else float(motion.time[0])


def _grid(motion: AlignedMotion) -> tuple[Array, Array]:
    """Return evenly spaced times and the velocities there, each joint divided by its RMS."""
    _check_clock(motion.time)
    time = np.arange(motion.time[0], motion.time[-1], _COARSE_S)
    v = motion.at(time, motion.v)
    size = np.sqrt(np.square(v).mean(axis=0))
    return time, v / np.where(size > 0.0, size, 1.0)


def _check_clock(time: Array) -> None:
    """Reject a time range that is too long for its number of samples.

    Raises:
        RecordingError: The clock jumps; the message gives where.
    """
    if time[-1] - time[0] > _COARSE_S * max(_LARGEST_GRID, 10 * len(time)):
        place = int(np.diff(time).argmax())
        step, begin = time[place + 1] - time[place], time[place] - span_origin(float(time[0]))
        raise RecordingError(
            'a run',
            f'has a clock that jumps by {format_time(step)} at {format_time(begin)}',
            'cut it there with --from or --to',
        )


def _coarse_shift(one: AlignedMotion, other: AlignedMotion) -> float:
    """Return the shift of the largest velocity correlation, to the grid step."""
    from scipy.signal import fftconvolve

    t_one, v_one = _grid(one)
    t_other, v_other = _grid(other)
    total = fftconvolve(v_other, v_one[::-1], axes=0).sum(axis=1)
    lag = (int(total.argmax()) - (len(t_one) - 1)) * _COARSE_S
    return lag + float(t_other[0] - t_one[0])


def _refined_shift(one: AlignedMotion, other: AlignedMotion, shift: float) -> float:
    """Refine a shift to minimise the weighted position difference."""
    size = np.sqrt(np.square(one.v).mean(axis=0))
    weight = 1.0 / np.where(size > 0.0, size, np.inf)
    for _ in range(_REFINEMENTS):
        inside = other.overlap(one.time + shift)
        time = one.time[inside] + shift
        away, v = one.q[inside] - other.at(time, other.q), other.at(time, other.v)
        v = weight * (v - v.mean(axis=0))
        denominator = float(np.square(v).sum())
        if not denominator > 0.0:
            break
        step = float((weight * away * v).sum()) / denominator
        shift += float(np.clip(step, -_COARSE_S, _COARSE_S))
        if abs(step) < _FINEST_S:
            break
    return shift


def _correlation(one: AlignedMotion, other: AlignedMotion, shift: float) -> float:
    time = one.time + shift
    inside = other.overlap(time)
    a, b = one.v[inside], other.at(time[inside], other.v)
    size = np.sqrt(np.square(a).sum(axis=0) * np.square(b).sum(axis=0))
    moving = size > 0.0
    if not moving.any():
        return float('nan')
    return float(((a * b).sum(axis=0)[moving] / size[moving]).mean())
