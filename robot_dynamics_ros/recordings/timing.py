# SPDX-License-Identifier: Apache-2.0
r"""Infer the integrator and sample times of a recording, and match states, accelerations, efforts.

A simulator with semi-implicit Euler steps (MuJoCo, DART) moves by the velocity at the *end* of the
step, :math:`q_{k+1} = q_k + h\,v_{k+1}`, to the last digit, whatever its model. Then the
acceleration of the step is :math:`(v_{k+1} - v_k)/h` and corresponds to :math:`q_k, v_k` and
command k. A real arm, or another integrator, leaves a residual of the order of the period or of
its noise.

If timestamps are irregular, either the samples were taken at these times, or they were taken at
equal intervals and only the timestamps jitter. In the second case positions and velocities are
more consistent under equal intervals, given by a line fitted to all timestamps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, starmap

import numpy as np

from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.estimation.accumulate import interpolate_columns
from robot_dynamics_ros.estimation.effort_model import Instants, smooth_sign
from robot_dynamics_ros.estimation.filtering import LowPass, low_pass, moving_joints, noise_cutoff
from robot_dynamics_ros.recordings.recording import NANO, Recording
from robot_dynamics_ros.spatial.scalar import Array

#: Correspondences between accelerations, states and efforts.
TIMINGS = {
    'semi_implicit': 'the acceleration between two states is assigned to the first',
    'continuous': 'the acceleration between two states is assigned to their midpoint',
    'sampled': 'the central-difference acceleration is assigned to the state, as is the effort',
}
AUTO = 'auto'  #: chosen from the recording
_EXACT = 1e-4  # relative residual below which a rule is exact: solvers are, to a tolerance
_SOLVED, _SAMPLED, _COARSE = 1e-5, 1e-3, 0.05  # resolution of efforts: of steps; of samples
_REGULAR = 1e-6  # tolerance of equal steps, as a fraction of the period
_EVEN_RATIO = 0.9  # ratio of residuals below which equal intervals are assumed
_MIN_STATES = 16  # steps or states
PART_S = 60.0  #: of a recording, by which it is chosen how to evaluate all of it, s
#: Longest step that is interpolated, in periods; a longer one is a gap.
BRIDGED = 4.5


@dataclass(frozen=True)
class SampleTiming:
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
        return _periods(steps, self.period) * self.period if self.even else steps

    def single(self, stamp_ns: Array) -> Array:
        """Return a mask of the steps that skip no state, shape (N - 1,)."""
        return _periods(np.diff(stamp_ns) / NANO, self.period) == 1


def _periods(steps: Array, period: float) -> Array:
    """Round steps to whole numbers of periods, at least one."""
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
    if name != AUTO and name not in TIMINGS:
        raise UnknownNameError('timing', name, (AUTO, *TIMINGS))
    recording = first_motion(recording)
    period, even, (residual, trapezoidal_residual), stamps = _intervals(recording)
    exact = residual < _EXACT and residual < 0.01 * trapezoidal_residual
    if name != AUTO:
        chosen, why = name, 'as chosen'
    elif exact:
        chosen = 'semi_implicit'
        why = (
            'positions advance by the velocity at the end of each step to within '
            f'{residual:.0e} of the motion, a semi-implicit integrator'
        )
    else:
        chosen = 'continuous' if commanded else 'sampled'
        why = _why(residual, commanded)
    filtered = _cutoff(recording, period, chosen) if cutoff == AUTO else cutoff
    noise = f'; zero-phase low-pass at {filtered:.3g} Hz' if filtered else ''
    reason = f'{why}: {TIMINGS[chosen]}{noise}{stamps}'
    used = None if filtered is None else float(filtered)
    if used and period:
        left = _filtered_residual(recording, period, used)
        trapezoidal_residual = float(np.fmin(left, trapezoidal_residual))
    return SampleTiming(chosen, period, even, used, residual, trapezoidal_residual, reason)


def parts(run: Recording) -> Iterator[slice]:
    """Yield the rows of each part of ``PART_S`` of a recording, whose clock may jump."""
    part = ((run.time - run.time[0]) / PART_S).astype(np.int64)
    edges = np.flatnonzero(np.diff(part)) + 1
    yield from starmap(slice, pairwise([0, *edges.tolist(), len(run.time)]))


def first_motion(run: Recording) -> Recording:
    """Return the first part of a recording in which a joint moves; else the first part."""
    for rows in parts(run):
        part = run.rows(rows)
        finite = part.complete
        if (
            finite.sum() >= _MIN_STATES
            and moving_joints(part.position[finite], part.velocity[finite]).any()
        ):
            return part
    return run.rows(next(parts(run)))


def _cutoff(recording: Recording, period: float, timing: str) -> float | None:
    """Return the cutoff by the noise of the velocities, Hz; None for no filter."""
    if timing == 'semi_implicit' or not period:
        return None
    v = longest_piece(recording).velocity
    if len(v) < _MIN_STATES:
        return None
    return noise_cutoff(v, 1.0 / period, len(recording.time))  # None at rest


def longest_piece(recording: Recording) -> Recording:
    """Return the longest part of a recording without gaps, of its complete states.

    Noise and bandwidth of a signal can only be estimated where it has no steps.
    """
    run, steps = recording.rows(recording.complete), np.diff(recording.time)
    period = float(np.median(steps)) if len(steps) else 0.0
    ends = np.flatnonzero(np.diff(run.time) > BRIDGED * period) + 1
    edges = np.concatenate([[0], ends, [len(run.time)]])
    longest = int(np.argmax(np.diff(edges)))
    return run.rows(slice(edges[longest], edges[longest + 1]))


def _intervals(recording: Recording) -> tuple[float, bool, tuple[float, float], str]:
    """Return period, whether intervals are equal, residuals, and a remark on the timestamps."""
    steps = np.diff(recording.stamp_ns) / NANO
    period = float(np.median(steps)) if len(steps) else 0.0
    counts = _periods(steps, period)
    single = counts == 1
    if (np.abs(steps - counts * period) <= _REGULAR * period).all():
        return period, True, _residuals(recording, steps, single), ''
    number = np.append(0.0, np.cumsum(counts))
    line = float(np.polyfit(number, (recording.stamp_ns - recording.stamp_ns[0]) / NANO, 1)[0])
    by_line = _residuals(recording, counts * line, single)
    by_stamps = _residuals(recording, steps, single)
    jitter = float(np.quantile(np.abs(steps - counts * period), 0.99))
    spread = f'; steps differ from {1e3 * period:.4g} ms by up to {100 * jitter / period:.2g} %'
    if min(by_line) < _EVEN_RATIO * min(by_stamps):
        how = f'{spread}: treated as equal intervals'
        return line, True, by_line, how
    return period, False, by_stamps, f'{spread}: taken at their own times'


def _filtered_residual(recording: Recording, period: float, cutoff: float) -> float:
    """Return the residual of the trapezoidal rule of low-passed signals; NaN if they are short.

    Noise that the filter removes hides no cause of wrong efforts.
    """
    piece, smooth = longest_piece(recording), replace(low_pass(cutoff, 1.0 / period), step=1)
    rows = slice(smooth.half, len(piece.time) - smooth.half)
    if len(piece.time) < 2 * smooth.half + _MIN_STATES:
        return float('nan')
    filtered = replace(
        piece.rows(rows), position=smooth(piece.position), velocity=smooth(piece.velocity)
    )
    steps = np.diff(filtered.stamp_ns) / NANO
    return _residuals(filtered, steps, _periods(steps, period) == 1)[1]


def _why(residual: float, commanded: bool) -> str:
    efforts = 'commands are held' if commanded else 'efforts are measured'
    if np.isnan(residual):
        return f'the arm is at rest, its integrator is unknown; {efforts}'
    return f'no semi-implicit integrator (residual {residual:.0e}); {efforts}'


def _residuals(recording: Recording, steps: Array, valid: Array) -> tuple[float, float]:
    """Return the residuals of the semi-implicit and of the trapezoidal rule; NaN at rest.

    A joint whose whole motion is of the size of the rounding of its positions tells neither.
    """
    v = recording.velocity
    valid = valid & np.isfinite(v[1:]).all(axis=1) & np.isfinite(v[:-1]).all(axis=1)
    moved = np.diff(recording.position, axis=0)[valid]
    size = np.sqrt(np.square(moved).sum(axis=0))
    farthest = np.abs(recording.position[1:][valid]).max(axis=0, initial=0.0)
    moving = _EXACT * size > np.sqrt(len(moved)) * np.finfo(float).eps * farthest
    if valid.sum() < _MIN_STATES or not moving.any():
        return float('nan'), float('nan')
    residuals = []
    for velocity in (v[1:][valid], 0.5 * (v[1:] + v[:-1])[valid]):
        error = np.sqrt(np.square(moved - steps[valid, np.newaxis] * velocity).sum(axis=0))
        residuals.append(float((error[moving] / size[moving]).max()))
    return residuals[0], residuals[1]


def acting(run: Recording, *, measured: bool, late: int = 0) -> Recording:
    """Return a recording whose efforts are those that act at its states; NaN across a gap.

    Args:
        run: The recording.
        measured: Whether measured efforts are meant, rather than commanded ones.
        late: Number of states after which an effort acts; negative for that of a later state.
    """
    time, effort = run.time, run.measured_effort if measured else run.effort
    if not late:
        return replace(run, effort=effort)
    every = np.arange(len(time))
    source = np.clip(every - late, 0, len(time) - 1)
    longest = (abs(late) + 0.5) * float(np.median(np.diff(time)))
    together = (source == every - late) & (np.abs(time - time[source]) <= longest)
    return replace(run, effort=np.where(together[:, np.newaxis], effort[source], np.nan))


def make_instants(
    run: Recording, timing: SampleTiming, sign: Callable[[Array], Array] = smooth_sign
) -> Instants:
    """Match states, accelerations and efforts of a recording, except across gaps.

    Args:
        run: The recording; its efforts are for ``semi_implicit`` and ``continuous`` those that
            act from a state to the next, for ``sampled`` those at the state, see :func:`acting`.
        timing: How accelerations, states and efforts correspond.
        sign: Direction of Coulomb friction by velocity.
    """
    finite = run.complete
    rows, every = np.flatnonzero(finite), slice(None) if finite.all() else finite
    effort, q, v = run.effort[every], run.position[every], run.velocity[every]
    stamps = run.stamp_ns[every]
    steps, single = timing.steps(stamps), timing.single(stamps)
    q, v, a, v_friction, own = differentiated(timing.name, q, v, steps[:, np.newaxis])
    columns = (q, v, a, v_friction, sign(v_friction), effort[own])
    instants = Instants(rows[own], run.time[rows[own]], *columns, np.zeros(q.shape, np.uint8))
    time = np.append(0.0, np.cumsum(steps))
    if timing.name == 'semi_implicit':
        time, valid = time[:-1], single
    elif timing.name == 'continuous':
        time, valid = 0.5 * (time[1:] + time[:-1]), single
    else:
        near = steps <= BRIDGED * timing.period
        time, valid = time[1:-1], near[1:] & near[:-1]
    if timing.cutoff is None or not len(time):
        return instants.where(valid)
    filtering = replace(low_pass(timing.cutoff, 1.0 / timing.period), step=1)
    ends = np.flatnonzero(np.diff(time) > BRIDGED * timing.period) + 1
    pieces = (slice(*pair) for pair in pairwise([0, *ends.tolist(), len(time)]))
    return Instants.joined(
        [_filtered(instants.take(x), time[x], valid[x], filtering, timing, sign) for x in pieces]
    )


def differentiated(name: str, q: Array, v: Array, h: Array) -> tuple[Array, ...]:
    """Differentiate the velocities and evaluate the motion at the matching instants.

    Args:
        name: One of ``TIMINGS``.
        q: Positions of N states, shape (N, n), rad or m.
        v: Velocities, shape (N, n), rad/s or m/s.
        h: Times from each state to the next, shape (N - 1, 1), s.

    Returns:
        Position, velocity, acceleration and velocity of friction, each of shape (M, n), and the
        indices (M,) of the states with the corresponding efforts.
    """
    a, states = np.diff(v, axis=0), np.arange(len(v))
    a /= np.where(h > 0.0, h, 1.0)
    if name == 'semi_implicit':
        return q[:-1], v[:-1], a, v[1:], states[:-1]
    if name == 'continuous':
        middle = 0.5 * (v[1:] + v[:-1])
        return 0.5 * (q[1:] + q[:-1]), middle, a, middle, states[:-1]
    central = (h[1:] * a[:-1] + h[:-1] * a[1:]) / np.maximum(h[1:] + h[:-1], 1e-12)
    return q[1:-1], v[1:-1], central, v[1:-1], states[1:-1]


def _filtered(
    instants: Instants,
    time: Array,
    valid: Array,
    filtering: LowPass,
    timing: SampleTiming,
    direction: Callable[[Array], Array],
) -> Instants:
    """Apply the same filter to all signals, including the direction of dry friction."""
    grid = time
    if not (valid.all() and np.allclose(np.diff(time), timing.period, rtol=1e-6)):
        grid = np.arange(time[0], time[-1] + 0.5 * timing.period, timing.period)
    if len(grid) < 2 * filtering.half + 2:  # too short to interpolate within
        return instants.take(np.zeros(len(valid), dtype=bool))
    covered = filtering.all_valid(_bridged(time, valid, grid, timing.period))
    middle = grid[filtering.half : len(grid) - filtering.half]

    def smooth(values: Array, mask: Array) -> Array:
        return filtering(_along_lines(time, values, mask, grid))

    motion = (instants.q, instants.v, instants.a, instants.v_friction)
    q, v, a, v_friction = (smooth(x, valid) for x in motion)
    sign = smooth(direction(_along_lines(middle, v_friction, covered, time)), valid)
    finite = np.isfinite(instants.effort) & valid[:, np.newaxis]
    if (finite == valid[:, np.newaxis]).all():
        effort = smooth(instants.effort, valid)
    else:
        effort = np.full(q.shape, np.nan)
        for j, column in enumerate(finite.T):
            inside = filtering.all_valid(_bridged(time, column, grid, timing.period))
            effort[inside, j] = smooth(instants.effort[:, j : j + 1], column)[inside, 0]
    columns = (q, v, a, v_friction, sign, effort)
    return _resampled(instants, time, valid, middle, columns, covered)


def _bridged(time: Array, valid: Array, grid: Array, period: float) -> Array:
    """Return a mask of the grid times between known times that are not across a gap."""
    times = time[valid]
    if len(times) < 2:
        return np.zeros(len(grid), dtype=bool)
    after = np.clip(np.searchsorted(times, grid - 1e-9), 1, len(times) - 1)
    near = times[after] - times[after - 1] <= BRIDGED * period
    inside = (grid >= times[0] - period) & (grid <= times[-1] + period)
    return near & inside


def _along_lines(time: Array, values: Array, valid: Array, grid: Array) -> Array:
    """Interpolate the known values (N, n) linearly at other times."""
    if grid is time and valid.all():
        return values
    if not valid.any():
        return np.zeros((len(grid), values.shape[1]))
    return interpolate_columns(grid, time[valid], values[valid])


def _resampled(
    instants: Instants,
    time: Array,
    valid: Array,
    grid: Array,
    columns: tuple[Array, ...],
    covered: Array,
) -> Instants:
    """Return instants with smoothed columns, at those of their times that the grid covers."""
    at = np.clip(np.searchsorted(grid, time - 1e-9), 1, len(grid) - 1)
    inside = (time >= grid[0] - 1e-9) & (time <= grid[-1] + 1e-9)
    keep = valid & inside & covered[at] & covered[at - 1]
    share = ((time - grid[at - 1]) / (grid[at] - grid[at - 1]))[keep, np.newaxis]

    def line(values: Array) -> Array:
        return (1.0 - share) * values[at - 1][keep] + share * values[at][keep]

    q, v, a, v_friction, sign, effort = map(line, columns)
    own, none = (instants.row[keep], instants.time[keep]), instants.excluded[keep]
    return Instants(*own, q, v, a, v_friction, sign, effort, none)
