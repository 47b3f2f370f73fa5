# SPDX-License-Identifier: Apache-2.0
"""Samples of a recording for identification: instants of the equation of motion, and masks.

The instants are those of ``recordings.timing``, as for every other command. Commands are those
that ``recordings.reading`` assigns to the states; one that is missing is unknown.

Excluded are samples of a joint at rest, where Coulomb friction may have any value up to its level;
at a joint limit, whose contact force is unknown; and with a command at the effort limit. With a
filter, samples are excluded whose window contains such a state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from robot_dynamics_ros.errors import ParameterError, RecordingError, known_name
from robot_dynamics_ros.estimation.effort_model import (
    AT_LIMIT,
    NO_EFFORT,
    SATURATED,
    STICKING,
    Instants,
    exclusions,
    marked,
)
from robot_dynamics_ros.estimation.filtering import low_pass, moving_joints, white_noise
from robot_dynamics_ros.estimation.regressor import regressor
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.recordings.plausibility import LEAST_STATES
from robot_dynamics_ros.recordings.recording import EFFORTS, Recording
from robot_dynamics_ros.recordings.timing import (
    BRIDGED,
    TIMINGS,
    SampleTiming,
    acting,
    find_timing,
    longest_piece,
    make_instants,
)
from robot_dynamics_ros.spatial.scalar import Array

_NO_NUMBER = 1e6  # rad, m and their rates: beyond the range of any sensor
_FEW = 0.01  # accepted share of non-finite states


def effort_sources(recording: Recording, wanted: str = 'auto') -> tuple[str, ...]:
    """Return which efforts of a recording can be used, 'commanded' or 'measured', usual one first.

    Commands that leave out a joint, as a gripper of its own driver, are used only without measured
    efforts.

    Raises:
        UnknownNameError: ``wanted`` is not in ``EFFORTS``.
    """
    if known_name('effort', wanted, EFFORTS) != 'auto':
        return (wanted,)
    commanded = np.isfinite(recording.effort).any(axis=0)
    if not recording.has_measured:
        return ('commanded' if commanded.any() else 'measured',)
    return ('commanded', 'measured') if commanded.all() else ('measured',)


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


_SLAB = 8192  # instants whose regressor is in memory at once
_LIMIT_MARGIN = 1e-3  # share of a joint's range next to a limit
_AT_EFFORT = 1.0 - 1e-9  # share of an effort limit from which a command is at it
_SLOW = 5e-3  # share of the peak velocity below which a joint counts as at rest
_CREEP = 1e-4  # the same, of the velocity limit: simulated sticking joints creep slightly
_ROUNDING_S = 1e-9
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
        effort: One of ``EFFORTS``; 'auto': the first of :func:`effort_sources`.
        reversals: Whether measured efforts are used whose filter window contains a joint at rest.
    """

    timing: str = 'semi_implicit'
    delay: int = 0
    cutoff: float | None = None
    standstill: tuple[float, ...] = ()
    effort: str = 'auto'
    reversals: bool = True

    def matched(
        self,
        run: Recording,
        tree: Robot,
        cutoff: float | str | None,
        sign: Callable[[Array], Array],
    ) -> tuple[Instants, Recording, SampleTiming]:
        """Match motions and efforts of a recording: to identify, and to validate.

        Efforts of a joint that are zero throughout, as of a gripper whose driver tells none, are
        unknown. A joint that moves by no more than its noise rests where it is at the median:
        noise, whose accelerations move no link, tells nothing of what it carries. That of a known
        payload is subtracted, and unknown where it changes.

        Args:
            run: The recording, with the joints of the robot.
            tree: The robot without payload.
            cutoff: Of the filter, see ``find_timing``.
            sign: Direction of Coulomb friction by velocity.

        Returns:
            The instants, the recording with the efforts that act at its states, and the timing.

        Raises:
            UnknownNameError: The timing or effort is unknown.
            ParameterError: The delay or the cut-off is out of range.
        """
        known_name('timing', self.timing, TIMINGS)
        if self.delay < 0:
            raise ParameterError('delay', self.delay, 'a command acts after its state')
        measured = effort_sources(run, self.effort)[0] == 'measured'
        run = acting(run, measured=measured, late=self.delay)
        acts = np.nan_to_num(run.effort).any(axis=0)
        moves = moving_joints(*np.nan_to_num([run.position, run.velocity]))
        run = replace(
            run,
            position=np.where(moves, run.position, np.median(run.position, axis=0)),
            velocity=np.where(moves, run.velocity, 0.0),
            effort=np.where(acts, run.effort, np.nan),
        )
        timing = find_timing(run, commanded=not measured, name=self.timing, cutoff=cutoff)
        motion = make_instants(run, timing, sign)
        effort = motion.effort - _carried(run, tree, motion)
        reach = (low_pass(timing.cutoff, 1.0 / timing.period).half + 1) * timing.period
        for part in run.parts[1:]:
            effort[np.abs(motion.time - part.since) <= reach + _ROUNDING_S] = np.nan
        return replace(motion, effort=effort), run, timing


def _carried(run: Recording, tree: Robot, motion: Instants) -> Array:
    """Return the effort of the known payloads of a recording, shape (M, n), N m or N."""
    effort = np.zeros(motion.q.shape)
    which = np.searchsorted([part.since for part in run.parts[1:]], motion.time, side='right')
    for k, part in enumerate(run.parts):
        rows = np.flatnonzero(which == k) if part.payload else ()
        for some in np.array_split(rows, len(rows) // _SLAB + 1):
            if len(some):
                Y = regressor(tree, motion.q[some], motion.v[some], motion.a[some])
                effort[some] = Y[:, :, : len(part.inertia)] @ part.inertia
    return effort


@dataclass(frozen=True, eq=False)
class Samples:
    """Motions and efforts to identify from, which tell what each effort is excluded for.

    Attributes:
        motion: Motion and efforts at N times; its row is that of the state in the recording.
        standstill: Speeds below which the joints count as at rest, shape (n,), rad/s or m/s.
        memory: Number of samples that share measurements with a given one, including itself.
    """

    motion: Instants
    standstill: Array
    memory: int = 1

    def about(self, count: int) -> Samples:
        """Return ``count`` to twice as many of the samples, at regular intervals, or all."""
        every = slice(None, None, max(1, len(self.motion.row) // count))
        return replace(self, motion=self.motion.take(every))


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
    run = recording.of_joints(tree.joint_names)
    measured = effort_sources(run, preparation.effort)[0] == 'measured'
    complete = run.complete
    if complete.sum() < LEAST_STATES:
        raise RecordingError(
            'the recording',
            f'has {counted(int(complete.sum()), "state")} with position and velocity',
            f'at least {LEAST_STATES} are needed',
        )
    _refuse_impossible(run)
    motion, run, timing = preparation.matched(run, tree, preparation.cutoff, np.sign)
    motion = motion.take(motion.row >= preparation.delay)
    smooth = low_pass(preparation.cutoff, 1.0 / timing.period)
    reach, run = smooth.half * timing.period, run.rows(complete)
    rest = _standstill(run, timing.period, tree, preparation)
    slow, every = np.abs(motion.v_friction) <= rest, motion.time
    kept = _decimated(every, BRIDGED * timing.period, smooth.step)
    motion = motion.take(kept)
    if len(motion.row) < LEAST_STATES:
        raise RecordingError(
            'the recording',
            f'has no {LEAST_STATES} usable states in a row',
            'record for longer, or choose a higher cut-off',
        )
    margin = _LIMIT_MARGIN * tree.position_range
    states = exclusions(tree, run.position, run.effort, margin, _AT_EFFORT)
    states[:-1] |= states[1:] & AT_LIMIT  # at both ends of a step
    excluded = marked(~np.isfinite(motion.effort), NO_EFFORT)
    for bit in (AT_LIMIT, SATURATED):
        excluded |= marked(_near(motion.time, run.time, states & bit > 0, reach), bit)
    # Friction at rest is unknown, as is when a filtered velocity had its real reversal. Measured
    # efforts of such windows are used where they tell more of slow friction than they distort.
    crossed = measured and preparation.reversals
    slow = slow[kept] if crossed else _near(motion.time, every, slow, reach)
    excluded |= marked(slow & (excluded == 0), STICKING)
    memory = 1 + 2 * smooth.half // smooth.step
    return Samples(replace(motion, excluded=excluded), rest, memory)


def _decimated(time: Array, gap: float, step: int) -> Array:
    """Return the indices of every ``step``-th of the times, from each gap on."""
    index = np.arange(len(time))
    begins = np.diff(time, prepend=-np.inf) > gap
    return np.flatnonzero((index - np.maximum.accumulate(np.where(begins, index, 0))) % step == 0)


def _near(time: Array, own: Array, mask: Array, reach: float) -> Array:
    """Return which times have a masked one within reach, shape (M, n).

    Args:
        time: The times, shape (M,), s.
        own: Times of the mask, shape (N,), s, increasing.
        mask: Shape (N, n).
        reach: s.
    """
    count = np.vstack([np.zeros(mask.shape[1], dtype=int), np.cumsum(mask, axis=0)])
    first = np.searchsorted(own, time - reach - _ROUNDING_S)
    end = np.searchsorted(own, time + reach + _ROUNDING_S, side='right')
    return count[end] > count[first]


def _standstill(run: Recording, period: float, tree: Robot, preparation: Preparation) -> Array:
    """Return the speeds below which the joints count as at rest, shape (n,)."""
    if preparation.standstill:
        if len(preparation.standstill) != tree.n:
            raise ParameterError('standstill', preparation.standstill, f'give {tree.n} speeds')
        return np.array(preparation.standstill)
    gain = float(np.linalg.norm(low_pass(preparation.cutoff, 1.0 / period).taps))
    noise = gain * white_noise(longest_piece(run).velocity)
    peak = np.abs(run.velocity).max(axis=0)
    return np.maximum(_CREEP * tree.velocity_limits(), np.maximum(_SLOW * peak, _SURE * noise))
