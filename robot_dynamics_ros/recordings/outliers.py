# SPDX-License-Identifier: Apache-2.0
r"""Find states and measured efforts that a sensor or its transmission has corrupted.

A state is an outlier if the position changes on both sides of it contradict the velocities,

.. math:: d_k = |(q_{k+1} - q_k)/h_k - (v_k + v_{k+1})/2| ,

by more than those of the intervals around it and the steps of the encoder explain, and if a change
beside it contradicts :math:`v_{k+1}` as well, with which a semi-implicit integrator advances
whatever the acceleration: there a joint that starts to slide is no outlier. A joint at rest has no
such differences around, only steps.

A measured effort is an outlier if it alone deviates from both neighbours, by more than others do
and than these differ, or if two in a row do, by twice as much. A push, a hit or a reversal of
friction lasts longer, or is smaller, so it is none; nor is the peak of a step, as of a brake, nor
what was commanded just before, as at a contact or a start.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.recordings.recording import LEAST_STATES, NANO, Recording
from robot_dynamics_ros.spatial.scalar import Array

#: Share of corrupt or unknown states above which a recording allows no verdict.
TOO_MANY = 0.1
_RATIO = 30.0  # to the differences around
_SPEED_SHARE = 0.05  # of the 99 % speed: smaller differences are ignored
_STEPS = 4.0  # steps of the encoder that a difference may have: a change, two velocities, noise
_COARSEST = 1e-2  # rad or m, rad/s or m/s: a larger change is no step of a sensor
_LEAST_CHANGES = 8  # from which the smallest is a step
_ROUNDING = 1e-9  # of the largest value: smaller changes are rounding
_FEW = 1e-3  # share of the states
_AROUND = 5  # samples on either side
_LATE = 3  # samples within which a drive answers a command
_SURE = 10.0  # robust standard deviations of a spike
_SPIKE_SHARE = 1.0 / 6.0  # of the range of the efforts: currents have smaller ones of their own


class Outliers(NamedTuple):
    """What was left out of a recording.

    Attributes:
        states: Times of states that contradict their neighbours, s.
        efforts: Times of measured efforts that deviate alone, s.
        problem: Why the recording allows no verdict; empty if it does.
        remarks: What was left out, one sentence each.
        few: Whether it is so little that no figure depends on it.
    """

    states: list[float]
    efforts: list[float]
    problem: str
    remarks: list[str]
    few: bool


def without_outliers(run: Recording) -> tuple[Recording, Outliers]:
    """Return a recording with NaN for outliers, and what they were; commands are kept."""
    states, efforts, total = find_outliers(run), find_spikes(run.measured_effort), len(run.time)
    least = 0.5 * _SPIKE_SHARE * np.ptp(np.nan_to_num(run.effort), axis=0)
    for late in range(1, 1 + _LATE):  # an effort that was commanded is none
        efforts[late:] &= ~(np.abs(run.measured_effort[late:] - run.effort[:-late]) < least)
    wrong, spikes = (run.time[mask].tolist() for mask in (states, efforts.any(axis=1)))
    problem = ''
    if len(wrong) > TOO_MANY * total:
        problem = (
            f'{len(wrong)} of {total} states contradict their neighbours, the first at '
            f'{run.told(wrong[0])}: what is left allows no verdict; check driver and timestamps'
        )
    joints = ', '.join(np.array(run.joints)[efforts.any(axis=0)])
    kinds = (
        ('states that contradict their neighbours', [] if problem else wrong),
        (f'single measured efforts of {joints} that deviate from both sides', spikes),
    )
    remarks = [
        f'left out: {kind}, at {counted(len(times), "instant")}, the first at {run.told(times[0])}'
        for kind, times in kinds
        if times
    ]
    masks = {'position': states[:, np.newaxis], 'measured_effort': efforts}
    masks['velocity'] = masks['position']
    changed: dict[str, Any] = {
        name: np.where(mask, np.nan, getattr(run, name))
        for name, mask in masks.items()
        if mask.any()
    }
    few = len(wrong) + len(spikes) <= _FEW * total
    return replace(run, **changed), Outliers(wrong, spikes, problem, remarks, few)


def require_clean(run: Recording, culprit: str = 'the recording') -> tuple[Recording, list[str]]:
    """Return a recording with NaN for outliers, and remarks on them, one sentence each.

    Raises:
        RecordingError: Outliers are too many for a verdict; the message begins with the culprit.
    """
    run, outliers = without_outliers(run)
    if outliers.problem:
        raise RecordingError(culprit, 'is of no use', outliers.problem)
    return run, outliers.remarks


def find_outliers(run: Recording) -> Array:
    """Return a mask of the states that contradict the states around them, shape (N,)."""
    count = len(run.time)
    found, end = np.zeros(count, dtype=bool), np.zeros(max(0, count - 1), dtype=bool)
    if count < LEAST_STATES:
        return found
    steps = np.diff(run.stamp_ns) / NANO
    for q, v in zip(run.position.T, run.velocity.T, strict=True):
        slope = np.diff(q) / steps
        speed = np.quantile(np.nan_to_num(np.abs(v)), 0.99)
        rounding = _ROUNDING * np.abs(np.nan_to_num(q)).max()
        resolution = max(_resolution(q, _COARSEST), rounding) / np.median(steps)
        least = _SPEED_SHARE * speed + _STEPS * (resolution + _resolution(v, _COARSEST))
        end |= _is_large(slope - v[1:], least)
        # Of two wrong states in a row, both changes.
        large = np.pad(_is_large(slope - 0.5 * (v[1:] + v[:-1]), least), 1)
        first, second, third, fourth = (large[i : count - 2 + i] for i in range(4))
        found[1:-1] |= second & third | first & third | second & fourth
        found[[0, -1]] |= large[[1, -2]] & ~large[[2, -3]]
    found[1:] &= np.append(end[1:] | end[:-1], end[-1])
    found[0] &= end[0]
    return found


def _is_large(difference: Array, least: float) -> Array:
    """Return a mask of the differences (N,) that are large by themselves and to those around."""
    size = np.nan_to_num(np.abs(difference))
    return np.asarray(size > np.maximum(least, _RATIO * _around(size, 1)))


def find_spikes(values: Array) -> Array:
    """Return a mask of the values that deviate alone from those around, shape (N, n)."""
    found = np.isinf(values)
    for j, column in enumerate(values.T):
        rows = np.flatnonzero(np.isfinite(column))
        if len(rows) >= LEAST_STATES:
            found[rows, j] = _deviates(column[rows], 1) | _deviates(column[rows], 2)
    return found


def _deviates(values: Array, count: int) -> Array:
    """Return a mask of the values of which up to a number in a row deviate, shape (N,)."""
    from scipy.ndimage import median_filter

    distance = np.abs(values - median_filter(values, 2 * count + 1, mode='nearest'))
    usual = np.maximum(np.median(distance), _around(distance, 0)) / 0.6745
    low, high = np.quantile(values, (0.02, 0.98))
    least = max(count * _SPIKE_SHARE * (high - low), _ROUNDING * np.abs(values).max())
    ends = np.pad(values, count, mode='edge')
    step = np.abs(ends[2 * count :] - ends[: -2 * count])  # the overshoot of a step returns less
    return distance > np.maximum(
        _SURE * usual, np.maximum(least + _STEPS * _resolution(values), step)
    )


def _around(values: Array, skipped: int) -> Array:
    """Return the larger of the medians of the values before and after each, shape (N,).

    Args:
        values: Shape (N,).
        skipped: Number of values on either side that are not used.
    """
    from scipy.ndimage import median_filter

    medians = median_filter(values, _AROUND, mode='mirror')
    reach = 1 + skipped + _AROUND // 2
    ends = np.pad(medians, reach, mode='edge')
    return np.maximum(ends[: -2 * reach], ends[2 * reach :])


def _resolution(values: Array, largest: float = math.inf) -> float:
    """Return the smallest change of values (N,), a step of a sensor, at most ``largest``.

    It is 0 where there are too few changes.
    """
    change = np.abs(np.diff(values))
    changes = change[change > 0.0]
    return min(changes.min(), largest) if len(changes) >= _LEAST_CHANGES else 0.0
