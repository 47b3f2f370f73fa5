# SPDX-License-Identifier: Apache-2.0
"""States, accelerations and efforts of a recording that belong together, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.recordings.recording import NANO, Recording
from robot_dynamics_ros.recordings.timing import SampleTiming, regular, smoother
from robot_dynamics_ros.spatial.scalar import Array


@dataclass(frozen=True, eq=False)
class Steps:
    """Instants at which the equation of motion can be judged.

    Attributes:
        row: Index of the state to which each belongs, shape (M,), increasing.
        q, v, a: Shape (M, n), rad or m, per s, per s^2.
        v_friction: Velocity at which friction acts, shape (M, n).
        effort: Shape (M, n), N m or N; NaN where there is none.
    """

    row: Array
    q: Array
    v: Array
    a: Array
    v_friction: Array
    effort: Array

    def take(self, rows: Array) -> Steps:
        """Return some of the instants."""
        return Steps(*(value[rows] for value in vars(self).values()))


def make_steps(run: Recording, effort: Array, timing: SampleTiming) -> Steps:
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
        return Steps(rows, q[:-1], v[:-1], a, v[1:], effort[:-1]).take(good)
    if timing.name == 'continuous':
        middle = 0.5 * (v[1:] + v[:-1])
        found = Steps(rows, 0.5 * (q[1:] + q[:-1]), middle, a, middle, effort[:-1])
    else:
        rows, good = rows[1:], good[1:] & good[:-1]
        central = 0.5 * (a[1:] + a[:-1])
        found = Steps(rows, q[1:-1], v[1:-1], central, v[1:-1], effort[1:-1])
    return _smooth(found, good, timing)


def _smooth(steps: Steps, good: Array, timing: SampleTiming) -> Steps:
    """Return the instants with all signals through the same filter."""
    filtering = smoother(timing) if timing.cutoff is not None else None
    if filtering is None or filtering.half == 0:
        return steps.take(good)
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
    return Steps(rows, q, v, a, v_friction, efforts).take(whole)


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
