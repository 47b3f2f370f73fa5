# SPDX-License-Identifier: Apache-2.0
"""States, accelerations and efforts of a recording that belong together, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from robot_dynamics_ros.estimation.effort_model import Instants, smooth_sign
from robot_dynamics_ros.estimation.filtering import LowPass, low_pass
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.timing import BRIDGED, SampleTiming
from robot_dynamics_ros.spatial.scalar import Array


def make_instants(run: Recording, effort: Array, timing: SampleTiming) -> Instants:
    """Return the instants of a recording; those across gaps or without a state are left out.

    Args:
        run: The recording.
        effort: Its efforts, shape (N, n): for ``semi_implicit`` and ``continuous`` those that act
            from a state to the next, for ``sampled`` those at the state.
        timing: How the three belong together.
    """
    finite: Array = np.asarray(np.isfinite(np.hstack([run.position, run.velocity])).all(axis=1))
    rows, effort = np.flatnonzero(finite), effort[finite]
    q, v, stamps = run.position[finite], run.velocity[finite], run.stamp_ns[finite]
    steps, single = timing.steps(stamps), timing.single(stamps)
    h, time = steps[:, np.newaxis], np.append(0.0, np.cumsum(steps))
    a = np.diff(v, axis=0) / np.where(h > 0.0, h, 1.0)
    if timing.name == 'semi_implicit':
        return _instants(rows[:-1], q[:-1], v[:-1], a, v[1:], effort[:-1]).take(single)
    if timing.name == 'continuous':
        middle, good = 0.5 * (v[1:] + v[:-1]), single
        time = 0.5 * (time[1:] + time[:-1])
        found = _instants(rows[:-1], 0.5 * (q[1:] + q[:-1]), middle, a, middle, effort[:-1])
    else:
        near = steps <= BRIDGED * timing.period
        time, good = time[1:-1], near[1:] & near[:-1]
        central = (h[1:] * a[:-1] + h[:-1] * a[1:]) / np.maximum(h[1:] + h[:-1], 1e-12)
        found = _instants(rows[1:-1], q[1:-1], v[1:-1], central, v[1:-1], effort[1:-1])
    if timing.cutoff is None or not len(time):
        return found.take(good)
    filtering = replace(low_pass(timing.cutoff, 1.0 / timing.period), step=1)
    return _filtered(found, time, good, filtering, timing)


def _instants(
    rows: Array, q: Array, v: Array, a: Array, v_friction: Array, effort: Array
) -> Instants:
    return Instants(rows, q, v, a, v_friction, smooth_sign(v_friction), effort)


def _filtered(
    found: Instants, time: Array, good: Array, filtering: LowPass, timing: SampleTiming
) -> Instants:
    """Return the instants with all signals through the same filter, friction's sign included."""
    if len(good) <= 2 * filtering.half:
        return found.take(np.zeros(len(good), dtype=bool))
    grid = time
    if not (good.all() and np.allclose(np.diff(time), timing.period, rtol=1e-6)):
        grid = np.arange(time[0], time[-1] + 0.5 * timing.period, timing.period)
    whole = filtering.every(_bridged(time, good, grid, timing.period))
    middle = grid[filtering.half : len(grid) - filtering.half]

    def smooth(values: Array, known: Array) -> Array:
        return filtering(_along_lines(time, values, known, grid))

    motion = (found.q, found.v, found.a, found.v_friction)
    q, v, a, v_friction = (smooth(x, good) for x in motion)
    sign = smooth(smooth_sign(_along_lines(middle, v_friction, whole, time)), good)
    known = np.isfinite(found.effort) & good[:, np.newaxis]
    if (known == good[:, np.newaxis]).all():
        effort = smooth(found.effort, good)
    else:
        effort = np.full(q.shape, np.nan)
        for j, there in enumerate(known.T):
            reached = filtering.every(_bridged(time, there, grid, timing.period))
            effort[reached, j] = smooth(found.effort[:, j : j + 1], there)[reached, 0]
    return _at_rows(found, time, good, Instants(middle, q, v, a, v_friction, sign, effort), whole)


def _bridged(time: Array, known: Array, grid: Array, period: float) -> Array:
    """Return which times of a grid lie between known ones that are near each other."""
    times = time[known]
    if len(times) < 2:
        return np.zeros(len(grid), dtype=bool)
    behind = np.clip(np.searchsorted(times, grid - 1e-9), 1, len(times) - 1)
    near = times[behind] - times[behind - 1] <= BRIDGED * period
    inside = (grid >= times[0] - period) & (grid <= times[-1] + period)
    return np.asarray(near & inside)


def _along_lines(time: Array, values: Array, known: Array, grid: Array) -> Array:
    """Return values (N, n) at other times, along straight lines between the known ones."""
    if grid is time and known.all():
        return values
    if not known.any():
        return np.zeros((len(grid), values.shape[1]))
    columns = [np.interp(grid, time[known], column[known]) for column in values.T]
    return np.column_stack(columns)


def _at_rows(
    found: Instants, time: Array, good: Array, smooth: Instants, whole: Array
) -> Instants:
    """Return what is smooth on a grid at the times of the instants that it covers."""
    grid = smooth.row
    at = np.clip(np.searchsorted(grid, time - 1e-9), 1, len(grid) - 1)
    inside = (time >= grid[0] - 1e-9) & (time <= grid[-1] + 1e-9)
    keep = good & inside & whole[at] & whole[at - 1]
    share = ((time - grid[at - 1]) / (grid[at] - grid[at - 1]))[keep, np.newaxis]

    def line(values: Array) -> Array:
        return np.asarray((1.0 - share) * values[at - 1][keep] + share * values[at][keep])

    _, *columns = vars(smooth).values()
    return Instants(found.row[keep], *map(line, columns))


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
