# SPDX-License-Identifier: Apache-2.0
"""The parts of a recording without a gap, at equal intervals, with the effort that acts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from robot_dynamics_ros.errors import RecordingError, UnknownNameError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.scalar import Array

#: Which effort of a recording explains it; 'auto': the commanded one where there are commands.
EFFORTS = ('auto', 'commanded', 'measured')

_GAP = 1.5  # periods between two states from which on they do not belong together
_JITTER = 0.01  # periods; states of a larger jitter are interpolated at equal intervals
_HOLD = 0.02  # s for which a command is taken to be held when no other came
SHORTEST = 8  # states in a run worth using


@dataclass(frozen=True, eq=False)
class EqualIntervals:
    """States at equal intervals with the effort that acts from each to the next."""

    time: Array
    q: Array
    v: Array
    effort: Array
    period: float


def effort_source(recording: Recording, wanted: str = 'auto') -> str:
    """Return whether the commanded or the measured effort of a recording is used.

    Raises:
        UnknownNameError: What is wanted is none of ``EFFORTS``.
    """
    if wanted not in EFFORTS:
        raise UnknownNameError('effort', wanted, EFFORTS)
    if wanted != 'auto':
        return wanted
    return 'commanded' if np.isfinite(recording.effort).any() else 'measured'


def equal_intervals(
    recording: Recording, tree: RobotTree, effort: str = 'commanded'
) -> list[EqualIntervals]:
    """Return the parts of a recording without a gap, at equal intervals.

    Args:
        recording: Must name the robot's joints.
        tree: The robot.
        effort: 'commanded' or 'measured'.

    Raises:
        RecordingError: There is none.
        UnknownNameError: A joint was not recorded.
    """
    run = recording.of_joints(tree.joint_names)
    finite = np.isfinite(run.position).all(axis=1) & np.isfinite(run.velocity).all(axis=1)
    time, q, v = run.time[finite], run.position[finite], run.velocity[finite]
    if len(time) < SHORTEST:
        raise RecordingError(
            'the recording',
            f'has {len(time)} states with position and velocity',
            f'at least {SHORTEST} are needed',
        )
    given = run.effort if effort == 'commanded' else run.measured_effort
    held = _held(time, given[finite])
    period = float(np.median(np.diff(time)))
    ends = np.flatnonzero(np.diff(time) > _GAP * period) + 1
    pieces = np.split(np.arange(len(time)), ends)
    runs = [
        _evenly(EqualIntervals(time[piece], q[piece], v[piece], held[piece], period))
        for piece in pieces
        if len(piece) >= SHORTEST
    ]
    if not runs:
        raise RecordingError(
            'the recording', f'has no {SHORTEST} states in a row', 'record without gaps'
        )
    return runs


def _held(time: Array, effort: Array) -> Array:
    """Return the efforts with the last one in place of a missing one, for a short while."""
    given = np.isfinite(effort)
    last = np.where(given, np.arange(len(time))[:, np.newaxis], 0)
    last = np.maximum.accumulate(last, axis=0)
    held = np.take_along_axis(effort, last, axis=0)
    held[time[:, np.newaxis] - time[last] > _HOLD] = np.nan
    return np.asarray(held)


def _evenly(run: EqualIntervals) -> EqualIntervals:
    """Return a run at equal intervals: interpolated, if its stamps are not."""
    steps = np.diff(run.time)
    if np.max(np.abs(steps - run.period)) <= _JITTER * run.period:
        return run
    time = np.arange(run.time[0], run.time[-1], run.period)
    before = np.searchsorted(run.time, time, side='right') - 1

    def interpolated(values: Array) -> Array:
        return np.column_stack([np.interp(time, run.time, column) for column in values.T])

    return EqualIntervals(
        time, interpolated(run.q), interpolated(run.v), run.effort[before], run.period
    )


def delayed(run: EqualIntervals, delay: int) -> EqualIntervals:
    """Return a run whose commands act so many periods after their states."""
    if delay == 0:
        return run
    late = len(run.time) - delay
    return replace(
        run, time=run.time[delay:], q=run.q[delay:], v=run.v[delay:], effort=run.effort[:late]
    )
