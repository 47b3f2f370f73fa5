# SPDX-License-Identifier: Apache-2.0
r"""How a recorded plant advances, told by the recording itself.

A simulator with semi-implicit Euler steps (MuJoCo, DART) moves by the velocity at the *end* of the
step, :math:`q_{k+1} = q_k + h\,v_{k+1}`, to the last digit, whatever its model. Then the
acceleration of the step is :math:`(v_{k+1} - v_k)/h` and belongs to :math:`q_k, v_k` and to
command k. A real arm, or another integrator, leaves a remainder of the order of the period or of
its noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.estimation.effort_model import Instants
from robot_dynamics_ros.estimation.filtering import low_pass, noise_cutoff
from robot_dynamics_ros.recordings.recording import NANO, Recording
from robot_dynamics_ros.spatial.scalar import Array

#: Ways in which acceleration, state and effort belong together.
TIMINGS = {
    'semi_implicit': 'the acceleration to the next state belongs to the state before it',
    'continuous': 'the acceleration between two states belongs to their middle',
    'sampled': 'the central acceleration belongs to the state, as does the measured effort',
}
_EXACT = 1e-6  # remainder, relative to the motion, that only the right rule leaves
_REGULAR = 0.01  # share of the period by which a step may differ from it
_FEWEST = 16


@dataclass(frozen=True)
class SampleTiming:
    """How acceleration, state and effort of a recording belong together.

    Attributes:
        name: One of ``TIMINGS``.
        period: Time between two states, s.
        cutoff: Of the zero-phase low-pass filter on all signals, Hz; None for none.
        remainder: Of the semi-implicit rule, RMS relative to the motion; NaN at rest.
        trapezoid: The same of the mean of both velocities.
        reason: Why, one sentence.
    """

    name: str
    period: float
    cutoff: float | None
    remainder: float
    trapezoid: float
    reason: str

    @property
    def half(self) -> int:
        """States to either side that a filtered one needs."""
        if self.cutoff is None:
            return 0
        return low_pass(self.cutoff, 1.0 / self.period).half


def find_timing(recording: Recording, *, commanded: bool, name: str = 'auto') -> SampleTiming:
    """Tell how a recorded plant advances.

    Args:
        recording: Some seconds with motion.
        commanded: Whether its efforts are commands, which are held, else measured ones.
        name: One of ``TIMINGS``, to choose it; 'auto': by the evidence.

    Raises:
        UnknownNameError: There is no such timing.
    """
    if name != 'auto' and name not in TIMINGS:
        raise UnknownNameError('timing', name, ('auto', *TIMINGS))
    steps = np.diff(recording.stamp_ns) / NANO
    period = float(np.median(steps)) if len(steps) else 0.0
    remainder, trapezoid = _remainders(recording, steps, period)
    if name == 'auto' and remainder < _EXACT and remainder < 0.01 * trapezoid:
        reason = (
            'positions advance by the velocity at the end of each step to within '
            f'{remainder:.0e} of the motion: a semi-implicit integrator'
        )
        return SampleTiming('semi_implicit', period, None, remainder, trapezoid, reason)
    chosen = name
    if name == 'auto':
        chosen = 'continuous' if commanded else 'sampled'
    cutoff = None if chosen == 'semi_implicit' else _cutoff(recording, period)
    noise = f'; zero-phase low-pass at {cutoff:.3g} Hz' if cutoff else ''
    why = 'as told' if name != 'auto' else _why(remainder, commanded)
    return SampleTiming(
        chosen, period, cutoff, remainder, trapezoid, f'{why}: {TIMINGS[chosen]}{noise}'
    )


def regular(stamp_ns: Array, period: float) -> Array:
    """Return which steps between neighbouring states take the usual time, shape (N - 1,)."""
    steps = np.diff(stamp_ns) / NANO
    return np.asarray(np.abs(steps - period) <= _REGULAR * period)


def _why(remainder: float, commanded: bool) -> str:
    efforts = 'commands are held' if commanded else 'efforts are measured'
    if np.isnan(remainder):
        return f'the arm rests, nothing tells how it advances; {efforts}'
    return f'no semi-implicit integrator (remainder {remainder:.0e}); {efforts}'


def _remainders(recording: Recording, steps: Array, period: float) -> tuple[float, float]:
    """Return the remainders of the semi-implicit and of the trapezoidal rule."""
    good = regular(recording.stamp_ns, period) if len(steps) else np.zeros(0, dtype=bool)
    v = recording.velocity
    good = good & np.isfinite(v[1:]).all(axis=1) & np.isfinite(v[:-1]).all(axis=1)
    if good.sum() < _FEWEST:
        return float('nan'), float('nan')
    moved = np.diff(recording.position, axis=0)[good]
    h = steps[good, np.newaxis]
    size = np.sqrt(np.square(moved).mean(axis=0))
    moving = size > 0.0
    if not moving.any():
        return float('nan'), float('nan')
    found = []
    for velocity in (v[1:][good], 0.5 * (v[1:] + v[:-1])[good]):
        rest = np.sqrt(np.square(moved - h * velocity).mean(axis=0))
        found.append(float((rest[moving] / size[moving]).max()))
    return found[0], found[1]


def _cutoff(recording: Recording, period: float) -> float | None:
    """Return where the noise of the velocities begins, Hz; None if they have none."""
    v = recording.velocity[np.isfinite(recording.velocity).all(axis=1)]
    if len(v) < _FEWEST or not period or not v.any():
        return None
    return noise_cutoff(v, 1.0 / period)


def make_steps(run: Recording, effort: Array, timing: SampleTiming) -> Instants:
    """Return the instants of a recording; those across gaps or without a state are left out.

    Args:
        run: The recording.
        effort: Its efforts, shape (N, n): for ``semi_implicit`` and ``continuous`` those that act
            from a state to the next, for ``sampled`` those at the state.
        timing: How the three belong together.
    """
    v, q = run.velocity, run.position
    finite: Array = np.asarray(np.isfinite(np.hstack([q, v])).all(axis=1))
    good = regular(run.stamp_ns, timing.period) & finite[1:] & finite[:-1]
    h = (np.diff(run.stamp_ns) / NANO)[:, np.newaxis]
    a = np.diff(v, axis=0) / np.where(h > 0.0, h, 1.0)
    rows = np.arange(len(q) - 1)
    if timing.name == 'semi_implicit':
        return Instants(rows, q[:-1], v[:-1], a, v[1:], effort[:-1]).take(good)
    if timing.name == 'continuous':
        middle = 0.5 * (v[1:] + v[:-1])
        found = Instants(rows, 0.5 * (q[1:] + q[:-1]), middle, a, middle, effort[:-1])
    else:
        rows, good = rows[1:], good[1:] & good[:-1]
        central = 0.5 * (a[1:] + a[:-1])
        found = Instants(rows, q[1:-1], v[1:-1], central, v[1:-1], effort[1:-1])
    return _smooth(found, good, timing)


def _smooth(steps: Instants, good: Array, timing: SampleTiming) -> Instants:
    """Return the instants with all signals through the same filter."""
    if timing.cutoff is None:
        return steps.take(good)
    filtering = replace(low_pass(timing.cutoff, 1.0 / timing.period), step=1)
    half = filtering.half
    if len(good) <= 2 * half:
        return steps.take(np.zeros(len(good), dtype=bool))
    whole = filtering.every(good[:, np.newaxis])[:, 0]
    given = np.isfinite(steps.effort)
    efforts = filtering(np.where(given, steps.effort, 0.0))
    efforts[~filtering.every(given)] = np.nan
    q, v, a, v_friction = (
        filtering(np.where(np.isfinite(x), x, 0.0))
        for x in (steps.q, steps.v, steps.a, steps.v_friction)
    )
    rows = steps.row[half : len(good) - half]
    return Instants(rows, q, v, a, v_friction, efforts).take(whole)


def with_neighbours(
    chunks: Iterable[Recording], before: int, behind: int
) -> Iterator[tuple[Recording, slice]]:
    """Yield each chunk with some rows of its neighbours, and where its own rows are in it.

    Args:
        chunks: Parts of a recording, one after the other.
        before: How many rows are needed in front of a chunk.
        behind: How many behind it.
    """
    held: Recording | None = None
    tail: Recording | None = None
    for chunk in chunks:
        if held is not None:
            yield _joined(tail, held, chunk.rows(slice(0, behind)))
            tail = held.rows(slice(max(0, len(held.time) - before), None))
        held = chunk
    if held is not None:
        yield _joined(tail, held, None)


def _joined(
    tail: Recording | None, held: Recording, head: Recording | None
) -> tuple[Recording, slice]:
    start = 0 if tail is None else len(tail.time)
    joined = held if tail is None else tail.followed_by(held)
    if head is not None:
        joined = joined.followed_by(head)
    return joined, slice(start, start + len(held.time))
