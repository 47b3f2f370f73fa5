# SPDX-License-Identifier: Apache-2.0
"""What happens to a recording until the equation of motion is evaluated on it, for every command.

1. Outliers are unknown (``recordings.outliers``).
2. The efforts that act at a state are those measured, or commanded some states before.
3. A joint that moves by no more than its noise rests where it is at the median: noise, whose
   accelerations move no link, tells nothing of what it carries.
4. Timing, gaps and filter follow from the states (``recordings.timing``).
5. Between gaps, also where the clock jumps, velocities are differentiated, and all signals,
   including the direction of dry friction, pass through the same filter.
6. The effort of a known payload is subtracted.

That is all to evaluate a model (:func:`samples_of`). To identify one (:func:`prepare`), samples
are excluded of a joint at rest, where Coulomb friction may have any value up to its level; at a
joint limit, whose contact force is unknown; and with a command at the effort limit. With a filter,
samples are excluded whose window contains such a state.

Commands are those that ``recordings.recording_reader`` assigns to the states; one that is missing
is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.errors import ParameterError, RecordingError, known_name
from robot_dynamics_ros.estimation.effort_model import (
    AT_EFFORT,
    AT_LIMIT,
    NO_EFFORT,
    SATURATED,
    STICKING,
    Instants,
    exclusions,
    marked,
    smooth_sign,
)
from robot_dynamics_ros.estimation.filtering import LowPass, low_pass, white_noise
from robot_dynamics_ros.estimation.regressor import regressor
from robot_dynamics_ros.estimation.rest import standstill
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.recordings.recording import EFFORTS, LEAST_STATES, ROUNDING_S, Recording
from robot_dynamics_ros.recordings.timing import (
    BRIDGED,
    SampleTiming,
    find_timing,
    longest_piece,
    moving,
    pieces,
)
from robot_dynamics_ros.spatial.scalar import Array

_EVEN = 1.5  # ratio of four steps in a row up to which the third derivative is told
_SLAB = 8192  # instants whose regressor is in memory at once
_LIMIT_MARGIN = 1e-3  # share of a joint's range next to a limit
_ANSWERED = 0.5  # share of the states from which commands are not merely held
_NO_NUMBER = 1e6  # rad, m and their rates: beyond the range of any sensor


def effort_source(recording: Recording, wanted: str = 'auto') -> str:
    """Return which efforts of a recording to use, 'commanded' or 'measured'.

    Commands that leave out a joint, as a gripper of its own driver, or answer less than half of
    the states, are used only without measured efforts.

    Raises:
        UnknownNameError: ``wanted`` is not in ``EFFORTS``.
    """
    if known_name('effort', wanted, EFFORTS) != 'auto':
        return wanted
    commanded = np.isfinite(recording.effort).any(axis=0)
    enough = commanded.all() and (recording.answer_ns >= 0).mean() >= _ANSWERED
    return 'commanded' if enough or commanded.any() > recording.has_measured else 'measured'


@dataclass(frozen=True)
class Preparation:
    """Settings for making samples from a recording.

    Attributes:
        timing: One of ``TIMINGS``, or 'auto' to infer it.
        delay: Periods from a state to the step in which its effort acts.
        cutoff: Cut-off frequency of the zero-phase low-pass filter, Hz; None for no filter, or
            'auto' to choose it by the noise.
        standstill: Speed below which a joint counts as at rest, one per joint, rad/s or m/s;
            empty: see :func:`.standstill`.
        effort: One of ``EFFORTS``; 'auto': see :func:`effort_source`.
        reversals: Whether measured efforts are used whose filter window contains a joint at rest.
        lag: Time by which measured efforts are shown later than the states, s.
    """

    timing: str = 'semi_implicit'
    delay: int = 0
    cutoff: float | str | None = None
    standstill: tuple[float, ...] = ()
    effort: str = 'auto'
    reversals: bool = True
    lag: float = 0.0


class Samples(NamedTuple):
    """Motions and efforts of a recording, which tell what each effort is excluded for.

    Attributes:
        motion: Motion and efforts at N times; its row is that of the state in the recording.
        run: The recording whose efforts act at its states, and whose resting joints rest.
        timing: How its accelerations, states and efforts correspond.
        standstill: Speeds below which the joints count as at rest, shape (n,), rad/s or m/s;
            empty unless prepared to identify.
        memory: Number of samples that share measurements with a given one, including itself.
    """

    motion: Instants
    run: Recording
    timing: SampleTiming
    standstill: Array
    memory: int = 1

    @property
    def driven(self) -> Instants:
        """The motion, without efforts of joints at which all are zero.

        They are unknown, as of a gripper whose driver tells none.
        """
        acts = np.nan_to_num(self.run.effort).any(axis=0)
        if acts.all():
            return self.motion
        return replace(self.motion, effort=np.where(acts, self.motion.effort, np.nan))

    def near(self, time: Array, mask: Array, periods: float = 0.0) -> Array:
        """Return which samples have a masked time within the reach of the filter, shape (M, n).

        Args:
            time: Times of the mask, shape (N,), s, increasing.
            mask: Shape (N, n).
            periods: Further reach.
        """
        reach = (self.timing.half + periods) * self.timing.period + ROUNDING_S
        count = np.vstack([np.zeros(mask.shape[1], dtype=int), np.cumsum(mask, axis=0)])
        first = np.searchsorted(time, self.motion.time - reach)
        end = np.searchsorted(time, self.motion.time + reach, side='right')
        return np.asarray(count[end] > count[first])

    def about(self, count: int) -> Samples:
        """Return ``count`` to twice as many of the samples, at regular intervals, or all."""
        return self._replace(motion=self.motion.about(count))


def samples_of(
    recording: Recording,
    tree: Robot,
    preparation: Preparation,
    sign: Callable[[Array], Array] = smooth_sign,
) -> Samples:
    """Return motions and efforts of a recording, as every command evaluates them.

    Args:
        recording: A recording without outliers that contains all joints of the robot.
        tree: The robot without payload.
        preparation: The settings.
        sign: Direction of Coulomb friction by velocity.

    Raises:
        UnknownNameError: The timing or effort is unknown, or a joint was not recorded.
        ParameterError: The cut-off is out of range.
    """
    run = recording.of_joints(tree.joint_names)
    measured = effort_source(run, preparation.effort) == 'measured'
    run = acting(run, measured=measured, late=preparation.delay)
    moves, known = moving(run), run.complete
    if known.any() and not moves.all():
        at = np.median(run.position[known], axis=0)
        position = np.where(moves | ~np.isfinite(run.position), run.position, at)
        velocity = np.where(moves, run.velocity, 0.0 * run.velocity)
        run = replace(run, position=position, velocity=velocity)
    if measured and preparation.lag:
        run = _led(run, preparation.lag)
    timing = find_timing(
        run, commanded=not measured, name=preparation.timing, cutoff=preparation.cutoff
    )
    rows = np.flatnonzero(run.complete)
    steps, valid = timing.steps(run.stamp_ns[rows]), timing.single(run.stamp_ns[rows])
    if timing.name == 'sampled':
        near = steps <= BRIDGED * timing.period
        valid = near[1:] & near[:-1]

    place, columns = rows, np.empty((5, 0, tree.n))
    for j in range(tree.n):  # one by one: they are long
        states = run.position[rows, j : j + 1], run.velocity[rows, j : j + 1]
        time, q, v, a, friction, own = differentiated(timing.name, steps, *states)
        derived = (q, a, v) if friction is v else (q, a, v, friction)
        signals = [*(x[:, 0] for x in derived), run.effort[rows[own], j]]
        if timing.cutoff is None or not len(time):
            of_motion, direction = signals[:-1], sign(signals[-2])
            parts = [(valid, [x[valid] for x in (*of_motion, direction, signals[-1])])]
        else:
            parts = [
                _filtered(time[part], valid[part], [x[part] for x in signals], timing, sign)
                for part in pieces(time, timing.period)
            ]
        kept, found = zip(*parts, strict=True)
        if not j:
            place = rows[own][np.concatenate(kept)]
            columns = np.empty((len(signals) + 1, len(place), tree.n))
        for column, several in zip(columns, zip(*found, strict=True), strict=True):
            column[:, j] = np.concatenate(several)
    q, a, v, *other, direction, effort = columns
    if len(run.carried):
        effort = effort - _carried(run, tree, q, v, a)
    none = np.zeros(q.shape, np.uint8)
    friction = other[0] if other else v
    motion = Instants(place, run.time[place], q, v, a, friction, direction, effort, none)
    return Samples(motion, run, timing, np.zeros(0))


def acting(run: Recording, *, measured: bool, late: int) -> Recording:
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
    longest = (abs(late) + 0.5) * run.period
    together = (source == every - late) & (np.abs(time - time[source]) <= longest)
    return replace(run, effort=np.where(together[:, np.newaxis], effort[source], np.nan))


def _led(run: Recording, lag: float) -> Recording:
    """Return a recording with the efforts that it shows a time later, s; NaN across a gap."""
    from scipy.interpolate import CubicSpline

    wanted, effort = run.time + lag, np.full(run.effort.shape, np.nan)
    for j, column in enumerate(run.effort.T):
        known = np.isfinite(column)
        times = run.time[known]
        if len(times) < LEAST_STATES:
            continue
        after = np.clip(np.searchsorted(times, wanted), 1, len(times) - 1)
        near = known & (times[after] - times[after - 1] <= BRIDGED * run.period)
        near &= (wanted >= times[0]) & (wanted <= times[-1])
        effort[near, j] = CubicSpline(times, column[known])(wanted[near])
    return replace(run, effort=effort)


def effort_rates(motion: Instants) -> Array:
    """Return the derivatives of the efforts by time, shape (M, n); NaN across a gap."""
    if len(motion.time) < 2:
        return np.full(motion.effort.shape, np.nan)
    steps = np.gradient(motion.time)
    rates = np.gradient(motion.effort, motion.time, axis=0)
    return np.where((steps <= BRIDGED * np.median(steps))[:, np.newaxis], rates, np.nan)


def _carried(run: Recording, tree: Robot, q: Array, v: Array, a: Array) -> Array:
    """Return the effort of the known payload of a recording, shape (M, n), N m or N."""
    effort = np.zeros(q.shape)
    for start in range(0, len(effort), _SLAB):
        some = slice(start, start + _SLAB)
        effort[some] = regressor(tree, q[some], v[some], a[some]) @ run.carried
    return effort


def prepare(recording: Recording, tree: Robot, preparation: Preparation) -> Samples:
    """Make samples from a recording.

    Args:
        recording: A recording without outliers that contains all joints of the robot.
        tree: The robot, for its joints and limits.
        preparation: The settings.

    Returns:
        The samples of all gap-free parts of the recording, concatenated.

    Raises:
        UnknownNameError: The timing or effort is unknown, or a joint was not recorded.
        ParameterError: The delay or the cut-off is out of range.
        RecordingError: The recording has no states without a gap, or values beyond any sensor.
    """
    if preparation.delay < 0:
        raise ParameterError('delay', preparation.delay, 'a command acts after its state')
    recording = recording.of_joints(tree.joint_names)
    complete = recording.complete
    if complete.sum() < LEAST_STATES:
        raise RecordingError(
            'the recording',
            f'has {counted(int(complete.sum()), "state")} with position and velocity',
            f'at least {LEAST_STATES} are needed',
        )
    for name in ('position', 'velocity'):
        size = np.nan_to_num(np.abs(getattr(recording, name))).max(axis=0)
        if size.max() > _NO_NUMBER:
            problem = f'has a {name} of {size.max():.3g}, beyond the range of any sensor'
            culprit = f'joint {recording.joints[int(size.argmax())]!r} of the recording'
            raise RecordingError(culprit, problem, 'cut that part with --from and --to')
    samples = samples_of(recording, tree, preparation, np.sign)
    run, timing = samples.run.rows(complete), samples.timing
    motion = samples.driven.take(samples.motion.row >= preparation.delay)
    smooth = low_pass(timing.cutoff, 1.0 / timing.period)
    rest = _standstill(run, smooth, tree, preparation)
    slow, every = np.abs(motion.v_friction) <= rest, motion.time
    # Friction at rest is unknown, as is when a filtered velocity had its real reversal. Measured
    # efforts of such windows are used where they tell more of slow friction than they distort.
    measured = effort_source(recording, preparation.effort) == 'measured'
    crossed = measured and preparation.reversals
    if smooth.half and not measured:  # a reversal may leap over the speeds of rest
        slow[1:] |= np.diff(motion.v_friction > 0.0, axis=0)
    rows = (np.r_[piece] for piece in pieces(every, timing.period))
    kept = np.concatenate([piece[:: smooth.step] for piece in rows])
    motion = motion.take(kept)
    if len(kept) < LEAST_STATES:
        raise RecordingError(
            'the recording',
            f'has no {LEAST_STATES} usable states in a row',
            'record for longer, or choose a higher cut-off',
        )
    memory = 1 + 2 * smooth.half // smooth.step
    samples = Samples(motion, run, timing, rest, memory)
    margin = _LIMIT_MARGIN * tree.position_range
    states = exclusions(tree, run.position, run.effort, margin, AT_EFFORT)
    states[:-1] |= states[1:] & AT_LIMIT  # at both ends of a step
    excluded = marked(~np.isfinite(motion.effort), NO_EFFORT)
    for bit in (AT_LIMIT, SATURATED):
        excluded |= marked(samples.near(run.time, states & bit > 0), bit)
    slow = slow[kept] if crossed else samples.near(every, slow)
    excluded |= marked(slow & (excluded == 0), STICKING)
    return samples._replace(motion=replace(motion, excluded=excluded))


def _standstill(run: Recording, smooth: LowPass, tree: Robot, preparation: Preparation) -> Array:
    """Return the speeds below which the joints count as at rest, shape (n,)."""
    if preparation.standstill:
        if len(preparation.standstill) != tree.n:
            raise ParameterError('standstill', preparation.standstill, f'give {tree.n} speeds')
        return np.array(preparation.standstill)
    gain = float(np.linalg.norm(smooth.taps))
    noise = gain * white_noise(longest_piece(run).velocity)
    return standstill(run.velocity, noise, tree.velocity_limits())


def differentiated(name: str, steps: Array, q: Array, v: Array) -> tuple[Array, ...]:
    """Differentiate the velocities and evaluate the motion at the matching instants.

    Args:
        name: One of ``TIMINGS``.
        steps: Times from each of N states to the next, shape (N - 1,), s.
        q: Positions, shape (N, n), rad or m.
        v: Velocities, shape (N, n), rad/s or m/s.

    Returns:
        Time since the first state, shape (M,); position, velocity, acceleration and velocity of
        friction (the same array, but for 'semi_implicit'), each of shape (M, n); indices (M,) of
        the states with the corresponding efforts.
    """
    time, h = np.append(0.0, np.cumsum(steps)), steps[:, np.newaxis]
    a, states = np.diff(v, axis=0), np.arange(len(v))
    a /= np.where(h > 0.0, h, 1.0)
    if name == 'semi_implicit':
        return time[:-1], q[:-1], v[:-1], a, v[1:], states[:-1]
    if name == 'continuous':
        time, q, v = (0.5 * (x[1:] + x[:-1]) for x in (time, q, v))
        return time, q, v, a, v, states[:-1]
    central = (h[1:] * a[:-1] + h[:-1] * a[1:]) / np.maximum(h[1:] + h[:-1], 1e-12)
    if len(steps) >= 4:  # its own bend tells the third derivative of the velocity, but at gaps
        four = np.lib.stride_tricks.sliding_window_view(steps, 4)
        even = four.max(axis=1) <= _EVEN * four.min(axis=1)
        bend = np.diff(np.diff(central, axis=0) / np.maximum(h[1:-1], 1e-12), axis=0)
        third = 2.0 * bend / np.maximum(h[1:-2] + h[2:-1], 1e-12)
        central[1:-1] -= np.where(even[:, np.newaxis], h[1:-2] * h[2:-1] / 6.0 * third, 0.0)
    v = v[1:-1]
    return time[1:-1], q[1:-1], v, central, v, states[1:-1]


def _filtered(
    time: Array,
    valid: Array,
    signals: Sequence[Array],
    timing: SampleTiming,
    direction: Callable[[Array], Array],
) -> tuple[Array, list[Array]]:
    """Apply the same filter to all signals of a joint, in a piece without gaps.

    It acts on values at equal intervals, on lines between the instants.

    Args:
        time: Shape (M,), s.
        valid: Mask of the instants that can be used, shape (M,).
        signals: Those of the motion, the velocity of friction last, and the effort, shape (M,).
        timing: Has the cut-off.
        direction: Direction of Coulomb friction by velocity.

    Returns:
        Mask of the instants that have filtered values, shape (M,); the values, with the direction
        before the effort, shape (K,) each.
    """
    period = timing.period
    grid = np.arange(time[0], time[-1] + 0.5 * period, period)
    low = low_pass(timing.cutoff, 1.0 / period)._replace(step=1)
    middle = grid[low.half : len(grid) - low.half]

    def smooth(column: Array, known: Array) -> Array:
        """Return filtered values, NaN where the window has a gap or reaches beyond the ends."""
        times = time[known]
        if len(times) < 2 or len(middle) < 2:
            return np.full(len(middle), np.nan)
        after = np.clip(np.searchsorted(times, grid - ROUNDING_S), 1, len(times) - 1)
        near = times[after] - times[after - 1] <= BRIDGED * period
        near &= (grid >= times[0] - period) & (grid <= times[-1] + period)
        smoothed = low(np.interp(grid, times, column[known]))
        smoothed[~low.all_valid(near)] = np.nan
        return smoothed

    *motion, effort = signals
    columns = [smooth(x, valid) for x in motion]
    inside = np.isfinite(columns[-1])
    if not inside.any():
        return np.zeros(len(time), dtype=bool), [np.zeros(0)] * (len(signals) + 1)
    sign = direction(np.interp(time, middle[inside], columns[-1][inside]))
    columns += [smooth(sign, valid), smooth(effort, valid & np.isfinite(effort))]
    at = np.clip(np.searchsorted(middle, time - ROUNDING_S), 1, len(middle) - 1)
    keep = valid & (time >= middle[0] - ROUNDING_S) & (time <= middle[-1] + ROUNDING_S)
    keep &= inside[at] & inside[at - 1]
    at = at[keep]
    share = (time[keep] - middle[at - 1]) / (middle[at] - middle[at - 1])
    for k, x in enumerate(columns):
        columns[k] = (1.0 - share) * x[at - 1] + share * x[at]
    return keep, columns
