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
from robot_dynamics_ros.recordings.recording import LEAST_STATES, NANO, Recording, format_time
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
        total: Number of states of the recording.
        states: Times of states that contradict their neighbours, s.
        efforts: Times of measured efforts that deviate alone, s.
        joints: Joints of these efforts.
        origin: Zero of the times in texts, s.
    """

    total: int
    states: list[float]
    efforts: list[float]
    joints: list[str]
    origin: float

    def problem(self) -> str:
        """Return why the recording allows no verdict; empty if it does."""
        count = len(self.states)
        if count <= TOO_MANY * self.total:
            return ''
        return (
            f'{count} of {self.total} states contradict their neighbours, the first at '
            f'{format_time(self.states[0] - self.origin)}: what is left allows no verdict; check '
            'driver and timestamps'
        )

    @property
    def few(self) -> bool:
        """Whether it is so little that no figure depends on it."""
        return len(self.states) + len(self.efforts) <= _FEW * self.total

    def remarks(self) -> list[str]:
        """Return what was left out, one sentence each."""
        single = (
            f'single measured efforts of {", ".join(self.joints)} that deviate from both sides'
        )
        what = (
            ([] if self.problem() else self.states, 'states that contradict their neighbours'),
            (self.efforts, single),
        )
        return [
            f'left out: {text}, at {counted(len(times), "instant")}, the first at '
            f'{format_time(times[0] - self.origin)}'
            for times, text in what
            if times
        ]


def without_outliers(run: Recording) -> tuple[Recording, Outliers]:
    """Return a recording with NaN for outliers, and what they were; commands are kept."""
    states, efforts = find_outliers(run), find_spikes(run.measured_effort)
    least = 0.5 * _SPIKE_SHARE * np.ptp(np.nan_to_num(run.effort), axis=0)
    for late in range(1, 1 + _LATE):  # an effort that was commanded is none
        efforts[late:] &= ~(np.abs(run.measured_effort[late:] - run.effort[:-late]) < least)
    first, second = (run.time[mask].tolist() for mask in (states, efforts.any(axis=1)))
    joints = np.array(run.joints)[efforts.any(axis=0)].tolist()
    found = Outliers(len(run.time), first, second, joints, run.origin)
    wrong = states[:, np.newaxis]
    changed: dict[str, Any] = {
        name: np.where(mask, np.nan, getattr(run, name))
        for name, mask in (('position', wrong), ('velocity', wrong), ('measured_effort', efforts))
        if mask.any()
    }
    return replace(run, **changed), found


def require_clean(run: Recording, culprit: str = 'the recording') -> tuple[Recording, list[str]]:
    """Return a recording with NaN for outliers, and remarks on them, one sentence each.

    Raises:
        RecordingError: Outliers are too many for a verdict; the message begins with the culprit.
    """
    run, outliers = without_outliers(run)
    if problem := outliers.problem():
        raise RecordingError(culprit, 'is of no use', problem)
    return run, outliers.remarks()


def find_outliers(run: Recording) -> Array:
    """Return a mask of the states that contradict the states around them, shape (N,)."""
    q, v, count = run.position, run.velocity, len(run.time)
    found = np.zeros(count, dtype=bool)
    if count < LEAST_STATES:
        return found
    steps = (np.diff(run.stamp_ns) / NANO)[:, np.newaxis]
    slope = np.diff(q, axis=0) / steps
    speed = np.quantile(np.nan_to_num(np.abs(v)), 0.99, axis=0)
    rounding = _ROUNDING * np.abs(np.nan_to_num(q)).max(axis=0)
    resolution = np.maximum(_resolution(q, _COARSEST), rounding) / float(np.median(steps))
    least = _SPEED_SHARE * speed + _STEPS * (resolution + _resolution(v, _COARSEST))

    def is_large(mean: Array) -> Array:
        difference = np.nan_to_num(np.abs(slope - mean))
        return np.asarray(difference > np.maximum(least, _RATIO * _around(difference, 1)))

    large, end = is_large(0.5 * (v[1:] + v[:-1])), np.any(is_large(v[1:]), axis=1)
    large = np.pad(large, ((1, 1), (0, 0)))  # of two wrong states in a row, both changes
    first, second, third, fourth = (large[i : count - 2 + i] for i in range(4))
    found[1:-1] = (second & third | first & third | second & fourth).any(axis=1)
    found[1:-1] &= end[1:] | end[:-1]
    found[0] = end[0] and (large[1] & ~large[2]).any()
    found[-1] = end[-1] and (large[-2] & ~large[-3]).any()
    return found


def find_spikes(values: Array) -> Array:
    """Return a mask of the values that deviate alone from those around, shape (N, n)."""
    found = np.isinf(values)
    for j, column in enumerate(values.T):
        rows = np.flatnonzero(np.isfinite(column))
        if len(rows) >= LEAST_STATES:
            few = column[rows, np.newaxis]
            found[rows, j] = (_deviates(few, 1) | _deviates(few, 2))[:, 0]
    return found


def _deviates(values: Array, count: int) -> Array:
    """Return a mask of the values of which up to a number in a row deviate, shape (N, n)."""
    from scipy.ndimage import median_filter

    distance = np.abs(values - median_filter(values, (2 * count + 1, 1), mode='nearest'))
    usual = np.maximum(np.median(distance, axis=0), _around(distance, 0)) / 0.6745
    low, high = np.quantile(values, (0.02, 0.98), axis=0)
    least = np.maximum(count * _SPIKE_SHARE * (high - low), _ROUNDING * np.abs(values).max(axis=0))
    ends = np.pad(values, ((count, count), (0, 0)), mode='edge')
    step = np.abs(ends[2 * count :] - ends[: -2 * count])  # the overshoot of a step returns less
    least = np.maximum(least + _STEPS * _resolution(values), step)
    return distance > np.maximum(_SURE * usual, least)


def _around(values: Array, skipped: int) -> Array:
    """Return the larger of the medians of the values before and after each, shape (N, n).

    Args:
        values: Shape (N, n).
        skipped: Number of values on either side that are not used.
    """
    from scipy.ndimage import median_filter

    medians = median_filter(values, (_AROUND, 1), mode='mirror')
    rows, reach = np.arange(len(values)), 1 + skipped + _AROUND // 2
    before, after = (medians[np.clip(rows + k, 0, len(rows) - 1)] for k in (-reach, reach))
    return np.maximum(before, after)


def _resolution(values: Array, largest: float = math.inf) -> Array:
    """Return the smallest change of each column, a step of its sensor, shape (n,).

    It is 0 where there are too few changes, and at most ``largest``.
    """
    change = np.abs(np.diff(values, axis=0))
    changes = (change > 0.0).sum(axis=0)
    smallest = np.where(change > 0.0, change, np.inf).min(axis=0)
    return np.where(changes >= _LEAST_CHANGES, np.minimum(smallest, largest), 0.0)
