# SPDX-License-Identifier: Apache-2.0
r"""Infer the integrator, the sample times, the gaps and the noise of a recording.

A simulator with semi-implicit Euler steps (MuJoCo, DART) moves by the velocity at the *end* of the
step, :math:`q_{k+1} = q_k + h\,v_{k+1}`, to the last digit, whatever its model. Then the
acceleration of the step is :math:`(v_{k+1} - v_k)/h` and corresponds to :math:`q_k, v_k` and
command k. A real arm, or another integrator, leaves a residual of the order of the period or of
its noise. So does a drive that takes its velocities for the differences of its encoder, exactly,
but its positions advance by whole counts.

If timestamps are irregular, either the samples were taken at these times, or they were taken at
equal intervals and only the timestamps jitter. In the second case positions and velocities are
more consistent under equal intervals, given by a line fitted to all timestamps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, starmap
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.errors import known_name
from robot_dynamics_ros.estimation.filtering import low_pass, noise_cutoff
from robot_dynamics_ros.estimation.rest import moving_joints
from robot_dynamics_ros.recordings.recording import LEAST_STATES, NANO, Recording
from robot_dynamics_ros.spatial.scalar import Array

#: Correspondences between accelerations, states and efforts.
TIMINGS = {
    'semi_implicit': 'the acceleration between two states is assigned to the first',
    'continuous': 'the acceleration between two states is assigned to their midpoint',
    'sampled': 'accelerations are those between the state before and the state after',
}
AUTO = 'auto'  #: chosen from the recording
_EXACT = 1e-4  # relative residual below which a rule is exact: solvers are, to a tolerance
_SOLVED, _SAMPLED, _COARSE = 1e-5, 1e-3, 0.05  # resolution of efforts: of steps; of samples
_REGULAR = 1e-6  # tolerance of equal steps, as a fraction of the period
_EVEN_RATIO = 0.9  # ratio of residuals below which equal intervals are assumed
_MOST = 1e5  # counts of an encoder in a step; those of the last digit of a number are more
_PAUSE_S = 1.0  # from which on a step is no jitter, s
_SHORT = 0.75  # of the mean step: shorter ones are of messages that come late
_SLOW = 0.1  # of the mean square of the changes: smaller ones do not tell the time
PART_S = 60.0  #: of a recording, by which it is chosen how to evaluate all of it, s
#: Longest step that is interpolated, in periods; a longer one is a gap. The monitor,
#: which knows no period, has parameter ``longest_step``.
BRIDGED = 4.5


class SampleTiming(NamedTuple):
    """How accelerations, states and efforts of a recording correspond.

    Attributes:
        name: One of ``TIMINGS``.
        period: Time between two states, s.
        even: Whether states are treated as equally spaced, whatever their timestamps.
        cutoff: Cutoff of the zero-phase low-pass filter on all signals, Hz; None for no filter.
        residual: Residual of the semi-implicit rule, RMS relative to the motion; NaN at rest.
        trapezoidal_residual: The same for the trapezoidal rule, of the filtered signals.
        reason: Why this timing was chosen, one sentence.
    """

    name: str
    period: float
    even: bool
    cutoff: float | None
    residual: float
    trapezoidal_residual: float
    reason: str

    @property
    def resolution(self) -> float:
        """Residual relative to the effort below which the samples show no cause.

        Positions and velocities of the recording agree no better, or solvers leave it.
        """
        if self.name == 'semi_implicit':
            return _SOLVED
        agreement = float(np.fmin(self.residual, self.trapezoidal_residual))
        return min(max(_SAMPLED, agreement), _COARSE) if agreement >= 0.0 else _SAMPLED

    @property
    def half(self) -> int:
        """Number of states that the filter needs on either side of a state."""
        if self.cutoff is None:
            return 0
        return low_pass(self.cutoff, 1.0 / self.period).half

    def steps(self, stamp_ns: Array) -> Array:
        """Return the times between neighbouring states, shape (N - 1,), s."""
        steps = np.diff(stamp_ns) / NANO
        return periods(steps, self.period) * self.period if self.even else steps

    def single(self, stamp_ns: Array) -> Array:
        """Return a mask of the steps that skip no state, shape (N - 1,)."""
        return periods(np.diff(stamp_ns) / NANO, self.period) == 1


def periods(steps: Array, period: float) -> Array:
    """Round steps to whole numbers of periods, at least one; more skip states."""
    return np.maximum(np.rint(steps / period), 1.0) if period else np.ones(len(steps))


def find_timing(
    recording: Recording,
    *,
    commanded: bool,
    name: str = AUTO,
    cutoff: float | str | None = AUTO,
) -> SampleTiming:
    """Infer the sample timing of a recording.

    Args:
        recording: A recording; its first part with motion tells, see :func:`first_motion`.
        commanded: Whether the efforts are commands (zero-order hold), rather than measured.
        name: One of ``TIMINGS``, or 'auto' to infer it from the recording.
        cutoff: Cutoff of the filter, Hz; None for no filter, or 'auto' to choose it by the noise.

    Raises:
        UnknownNameError: The timing is unknown.
    """
    known_name('timing', name, (AUTO, *TIMINGS))
    run = first_motion(recording)
    period, even, (residual, trapezoidal), stamps = _intervals(
        run.stamp_ns, run.position, run.velocity
    )
    if name != AUTO:
        chosen, why = name, 'as chosen'
    elif residual < _EXACT and residual < 0.01 * trapezoidal and not is_counted(run):
        chosen = 'semi_implicit'
        why = (
            'positions advance by the velocity at the end of each step, as those of MuJoCo, to '
            f'within {residual:.0e} of the motion'
        )
    else:
        chosen = 'continuous' if commanded else 'sampled'
        why = (
            'the arm is at rest'
            if np.isnan(residual)
            else 'samples of a continuous motion, as those of a real arm'
        )
        why += '; commands are held' if commanded else '; efforts are measured'
    piece, used = longest_piece(run), None
    if cutoff != AUTO:
        used = None if cutoff is None else float(cutoff)
    elif chosen != 'semi_implicit' and period and len(piece.time) >= LEAST_STATES:
        used = noise_cutoff(piece.velocity, 1.0 / period, len(run.time))  # None at rest
    if used and period:  # noise that the filter removes hides no cause of wrong efforts
        smooth = low_pass(used, 1.0 / period)._replace(step=1)
        stamp_ns = piece.stamp_ns[smooth.half : len(piece.time) - smooth.half]
        if len(piece.time) >= 2 * smooth.half + LEAST_STATES:
            filtered = smooth(piece.position), smooth(piece.velocity)
            steps = np.diff(stamp_ns) / NANO
            left = _residuals(*filtered, steps, periods(steps, period) == 1)[1]
            trapezoidal = float(np.fmin(left, trapezoidal))
    noise = f'; zero-phase low-pass at {used:.3g} Hz' if used else ''
    reason = f'{why}: {TIMINGS[chosen]}{noise}{stamps}'
    return SampleTiming(chosen, period, even, used, residual, trapezoidal, reason)


def parts(time: Array) -> Iterator[slice]:
    """Yield the rows of each part of ``PART_S`` of times (N,), s, whose clock may jump."""
    return _runs(((time - time[0]) / PART_S).astype(np.int64))


def pieces(time: Array, period: float) -> Iterator[slice]:
    """Yield the rows between gaps, also where the clock jumps, of increasing times (N,), s."""
    return _runs(np.cumsum(np.diff(time, prepend=time[:1]) > BRIDGED * period))


def _runs(values: Array) -> Iterator[slice]:
    """Yield the rows of each run of equal values."""
    ends = (np.flatnonzero(np.diff(values)) + 1).tolist()
    return starmap(slice, pairwise([0, *ends, len(values)]))


def moving(run: Recording) -> Array:
    """Return a mask of the joints of a recording that move by more than their noise, shape (n,).

    In too few states none is seen to move.
    """
    known = np.isfinite(run.velocity)
    measured = np.asarray(known.any(axis=0))
    rows = (np.isfinite(run.position) & (known | ~measured)).all(axis=1)
    moves = np.zeros(len(measured), dtype=bool)
    for j in range(len(moves) if rows.sum() >= LEAST_STATES else 0):  # one by one: they are long
        v = np.where(measured[j], run.velocity[rows, j : j + 1], 0.0)
        moves[j] = moving_joints(run.position[rows, j : j + 1], v)[0]
    return moves


def is_counted(run: Recording) -> bool:
    """Return whether the positions of the moving joints advance by counts of an encoder.

    Their steps are then multiples of the smallest one.
    """
    steps = np.abs(np.diff(run.rows(run.complete).position[:, moving(run)], axis=0)).T
    counts = [row[row > 0.0] / row[row > 0.0].min() for row in steps]
    whole = [np.mean(np.abs(x - np.rint(x)) < 0.01) > 0.99 and x.max() < _MOST for x in counts]
    return bool(whole) and all(whole)


def first_motion(run: Recording) -> Recording:
    """Return the first part of a recording in which a joint moves; else the first part."""
    every = [run.rows(rows) for rows in parts(run.time)]
    return next((part for part in every if moving(part).any()), every[0])


def longest_piece(recording: Recording) -> Recording:
    """Return the longest part of a recording without gaps, of its complete states.

    Noise and bandwidth of a signal can only be estimated where it has no steps.
    """
    run = recording.rows(recording.complete)
    return run.rows(
        max(pieces(run.time, recording.period), key=lambda rows: rows.stop - rows.start)
    )


def evened(run: Recording) -> Recording:
    """Return a recording with its states at equal intervals, if their times tell less of them.

    A time is then that of a message, as where a driver stamps what comes in bursts, or in whole
    milliseconds. How many intervals a step has, except in a pause, is told by how far the joints
    move, in comparison to their velocities, or else to the steps around. Not where the rate
    varies, or states are lost while the arm rests.
    """
    part, stamps = first_motion(run), run.stamp_ns.copy()
    steps = np.diff(part.stamp_ns) / NANO
    near = steps < _PAUSE_S
    if not near.any() or steps.min() >= _SHORT * steps[near].mean():
        return run
    several = [run.rows(slice(rows.start, rows.stop + 1)) for rows in parts(run.time)]
    number = np.cumsum(np.append(0.0, np.concatenate([*map(_counts, several)])))
    for rows in _runs(np.cumsum(np.diff(stamps, prepend=stamps[0]) >= _PAUSE_S * NANO)):
        since = stamps[rows] - stamps[rows.start]
        line = np.polyfit(number[rows], since, min(1, len(since) - 1))
        stamps[rows] += np.rint(np.polyval(line, number[rows]) - since).astype(np.int64)
    even = np.diff(stamps[np.isin(run.stamp_ns, part.stamp_ns)]) / NANO
    usual, period = np.median(steps), float(np.median(even))
    whole = periods(steps, usual) * usual
    *others, own = (_compared(part, x)[1] for x in (steps, whole, even))
    late = float(np.quantile(np.abs(run.stamp_ns - stamps), 0.99)) / NANO
    varies = late > steps[near].max()  # by which states behind it come late
    if varies or own >= _EVEN_RATIO * min(others) or (np.diff(stamps) <= 0).any():
        return run
    note = (
        f'timestamps differ by up to {1e3 * late:.3g} ms from equal intervals of '
        f'{1e3 * period:.4g} ms, which the motion fits better: these are used'
    )
    return replace(run, time=stamps / NANO, stamp_ns=stamps, notes=(*run.notes, note))


def _counts(run: Recording) -> Array:
    """Return how many equal intervals each step has by the motion, shape (N - 1,); else 1."""
    steps = np.diff(run.stamp_ns) / NANO
    near = steps < _PAUSE_S
    mean = steps.mean(where=near) if near.any() else 1.0
    counts = np.rint(_compared(run, np.full(len(steps), mean))[0])
    return np.where(near & (counts > 1.0) & (counts < BRIDGED), counts, 1.0)


def _compared(run: Recording, steps: Array) -> tuple[Array, float]:
    """Return the changes of positions, shape (N - 1,), in those that steps (N - 1,), s, expect.

    They are 1 where little is expected. Next is the share that the best joint leaves, or 1.
    """
    change = np.diff(run.position, axis=0)
    slope = np.pad(change / steps[:, np.newaxis], ((1, 1), (0, 0)), mode='edge')
    mean = 0.5 * (run.velocity[1:] + run.velocity[:-1])
    mean = np.where(np.isfinite(mean), mean, 0.5 * (slope[2:] + slope[:-2]))
    moves = moving(run)
    change, mean = np.nan_to_num(change[:, moves]), np.nan_to_num(mean[:, moves])
    size = np.sqrt(np.square(change).sum(axis=0, initial=np.finfo(float).tiny))
    here = (steps < _PAUSE_S)[:, np.newaxis]
    change, expected = here * change / size, here * mean * steps[:, np.newaxis] / size
    square = np.square(expected).sum(axis=1)
    known = square * len(square) > _SLOW * square.sum()
    ratio = np.ones(len(steps))
    ratio[known] = (change * expected).sum(axis=1)[known] / square[known]
    return ratio, float(np.linalg.norm(change - expected, axis=0).min(initial=1.0))


def _intervals(
    stamp_ns: Array, q: Array, v: Array
) -> tuple[float, bool, tuple[float, float], str]:
    """Return period, whether intervals are equal, residuals, and a remark on the timestamps."""
    steps = np.diff(stamp_ns)
    period = float(np.median(steps)) / NANO if len(steps) else 0.0
    steps = steps / NANO
    counts = periods(steps, period)
    single = counts == 1
    if (np.abs(steps - counts * period) <= _REGULAR * period).all():
        return period, True, _residuals(q, v, steps, single), ''
    number = np.append(0.0, np.cumsum(counts))
    line = float(np.polyfit(number, (stamp_ns - stamp_ns[0]) / NANO, 1)[0])
    by_line = _residuals(q, v, counts * line, single)
    by_stamps = _residuals(q, v, steps, single)
    jitter = float(np.quantile(np.abs(steps - counts * period), 0.99))
    spread = f'; steps differ from {1e3 * period:.4g} ms by up to {100 * jitter / period:.2g} %'
    if min(by_line) < _EVEN_RATIO * min(by_stamps):
        how = f'{spread}: treated as equal intervals'
        return line, True, by_line, how
    return period, False, by_stamps, f'{spread}: taken at their own times'


def _residuals(q: Array, v: Array, steps: Array, valid: Array) -> tuple[float, float]:
    """Return the residuals of the semi-implicit and of the trapezoidal rule; NaN at rest.

    A joint whose whole motion is of the size of the rounding of its positions tells neither.
    """
    valid = valid & np.isfinite(v[1:]).all(axis=1) & np.isfinite(v[:-1]).all(axis=1)
    moved = np.diff(q, axis=0)[valid]
    size = np.sqrt(np.square(moved).sum(axis=0))
    farthest = np.abs(q[1:][valid]).max(axis=0, initial=0.0)
    moving = _EXACT * size > np.sqrt(len(moved)) * np.finfo(float).eps * farthest
    if valid.sum() < LEAST_STATES or not moving.any():
        return float('nan'), float('nan')
    residuals = []
    for velocity in (v[1:][valid], 0.5 * (v[1:] + v[:-1])[valid]):
        error = np.sqrt(np.square(moved - steps[valid, np.newaxis] * velocity).sum(axis=0))
        residuals.append(float((error[moving] / size[moving]).max()))
    return residuals[0], residuals[1]
