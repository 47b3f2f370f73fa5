# SPDX-License-Identifier: Apache-2.0
"""Metrics of tracking errors, use of joint limits, and timing of a recording."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.estimation.accumulate import Quantiles, RmsPeak
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.recordings.metrics.metric import Metric, MetricRemark, Window
from robot_dynamics_ros.recordings.reading import UNLIMITED
from robot_dynamics_ros.recordings.recording import (
    NANO,
    Recording,
    format_duration,
    format_time,
    unwrapped,
)
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_POSITION_TOLERANCE = 1e-6  # tolerance of the position limits, rad or m
_SATURATION = 1.0 - 1e-9  # fraction of the effort limit from which a command is saturated


def tool_path(tree: Robot, positions: Array, frame: str = 'tool') -> Array:
    """Return the tool positions in the base frame, shape (N, 3), m, for joint positions (N, n).

    Tool positions are NaN where a joint position is not finite.
    """
    kernels = compile_kernel(tree, outputs=('frame_motion',), frame=frame)
    finite = np.isfinite(positions).all(axis=1)
    points = np.full((len(positions), 3), np.nan)
    if finite.any():
        q = positions[finite]
        points[finite] = kernels.batch('frame_motion', q, np.zeros_like(q))[1]
    return points


class Tracking(Metric):
    """Tracking errors of joints (reference - measured), and distance of the tool to its reference.

    Args:
        tree: The robot.
        frame: The tool frame.
    """

    name = 'tracking'

    def __init__(self, tree: Robot, frame: str) -> None:
        self._tree, self._frame = tree, frame
        self._position, self._velocity = RmsPeak(tree.n), RmsPeak(tree.n)
        self._tool = RmsPeak(1)

    def take(self, window: Window) -> dict[str, Array]:
        """Evaluate a chunk, see :meth:`Metric.take`."""
        return self.add(window.run)

    def add(self, run: Recording) -> dict[str, Array]:
        """Evaluate rows, and return their columns by name."""
        error = run.reference_position - run.position
        self._position.take(run.time, error)
        self._velocity.take(run.time, run.reference_velocity - run.velocity)
        paths = (run.position, run.reference_position)
        tool, program = (tool_path(self._tree, q, self._frame) for q in paths)
        distance = np.linalg.norm(program - tool, axis=1)
        self._tool.take(run.time, distance[:, np.newaxis])
        return {
            'reference': run.reference_position,
            'error': error,
            'tool': tool,
            'program': program,
            'tool_error': distance,
        }

    def figures(self) -> dict[str, Any]:
        """Return RMS and peak errors of joints and tool; empty without a reference."""
        if not self._position.count.any():
            return {}
        return {
            'frame': self._frame,
            **self._position.figures('rms_error', 'peak_error', 'peak_error_at'),
            'rms_velocity_error': self._velocity.rms.tolist(),
            'tool_rms_mm': 1e3 * float(self._tool.rms[0]),
            'tool_peak_mm': 1e3 * float(self._tool.peak[0]),
            'tool_peak_at': float(self._tool.peak_time[0]),
            'states': int(self._position.count[0]),
        }


def limits_efforts(tree: Robot) -> bool:
    """Return whether the description of a recorded robot limits its efforts."""
    return bool((tree.effort_limit < UNLIMITED).all())


class Limits(Metric):
    """Use of the effort, velocity and position limits.

    Args:
        tree: The robot.
    """

    name = 'limits'

    def __init__(self, tree: Robot) -> None:
        n, self._tree, self._efforts = tree.n, tree, limits_efforts(tree)
        self._effort, self._velocity = RmsPeak(n), RmsPeak(n)
        self._margin = np.full(n, np.inf)
        self._saturated, self._outside = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self._ticks = 0

    def take(self, window: Window) -> dict[str, Array]:
        """Evaluate a chunk, see :meth:`Metric.take`."""
        self.add(window.run)
        return {}

    def add(self, run: Recording) -> None:
        """Evaluate rows."""
        tree = self._tree
        self._effort.take(run.time, run.effort)
        self._velocity.take(run.time, run.velocity)
        saturated = np.abs(run.effort) >= tree.effort_limit * _SATURATION
        self._saturated += saturated.sum(axis=0)
        self._ticks += int(saturated.any(axis=1).sum())
        margin = np.minimum(run.position - tree.position_lower, tree.position_upper - run.position)
        self._margin = np.fmin(self._margin, np.fmin.reduce(margin, axis=0))
        self._outside += (margin < -_POSITION_TOLERANCE).sum(axis=0)

    def figures(self) -> dict[str, Any]:
        """Return peaks, fractions of the limits, and counts, by joint."""
        tree = self._tree
        limit = tree.effort_limit if self._efforts else np.full(tree.n, np.nan)
        peak = np.where(self._effort.count > 0, self._effort.peak, np.nan)
        return {
            'effort_peak': peak.tolist(),
            'effort_limit': limit.tolist(),
            'effort_share': (peak / limit).tolist(),
            'saturated_ticks': self._saturated.tolist() if self._efforts else [],
            'ticks_with_saturation': self._ticks if self._efforts else 0,
            'velocity_peak': self._velocity.peak.tolist(),
            'velocity_share': (self._velocity.peak / tree.velocity_limit).tolist(),
            'position_margin': self._margin.tolist(),
            'states_outside': self._outside.tolist(),
        }

    def findings(self) -> list[MetricRemark]:
        """Report joints at or beyond their limits."""
        texts = []
        for j, name in enumerate(self._tree.joint_names):
            if self._efforts and self._saturated[j]:
                texts.append(f'{name}: {self._saturated[j]} commands at the effort limit')
            if self._outside[j]:
                texts.append(
                    f'{name}: {self._outside[j]} states beyond the position limits, by up to '
                    f'{-self._margin[j]:.3g} {"m" if self._tree.joint_is_prismatic[j] else "rad"}'
                )
        return [MetricRemark('look', text) for text in texts]


@dataclass(frozen=True)
class TrackingMetrics:
    """Tracking figures of a run; lists have one entry per joint, in the order of ``joints``.

    Attributes:
        joints: Joint names.
        start, end: The evaluated window, s of simulated time.
        travel, tool_travel_mm: Range of the reference, rad or m; of that of the tool, mm.
        rms_error, peak_error: Position error, rad or m.
        tool_rms_mm, tool_peak_mm: Distance between the tool and its reference, mm.
        peak_effort, effort_limit: Commanded effort and its limit, N m or N.
        saturated_ticks: Number of commands at the limit (within 1e-9, relative).
        commands: Number of commands in the window.
    """

    joints: list[str]
    start: float
    end: float
    travel: list[float]
    tool_travel_mm: float
    rms_error: list[float]
    peak_error: list[float]
    tool_rms_mm: float
    tool_peak_mm: float
    peak_effort: list[float]
    effort_limit: list[float]
    saturated_ticks: list[int]
    commands: int


def tracking_metrics(
    recording: Recording, tree: Robot, window: tuple[float, float], frame: str = 'tool'
) -> TrackingMetrics:
    """Evaluate a recorded run against its recorded reference.

    States without a reference, which a slow controller did not process, are ignored.

    Args:
        recording: States, references and commands at common timestamps.
        tree: The robot, whose joints the recording must contain.
        window: First and last timestamp to evaluate, s.
        frame: The tool frame.

    Returns:
        The figures; error = reference - measured.
    """
    run = unwrapped(recording.of_joints(tree.joint_names).between(*window), tree)
    tracking, limits = Tracking(tree, frame), Limits(tree)
    columns = tracking.add(run)
    limits.add(run)
    errors, peaks = tracking.figures(), limits.figures()
    return TrackingMetrics(
        joints=list(tree.joint_names),
        start=float(run.time[0]),
        end=float(run.time[-1]),
        travel=_range(columns['reference']).tolist(),
        tool_travel_mm=1e3 * float(np.linalg.norm(_range(columns['program']))),
        peak_effort=peaks['effort_peak'],
        commands=int(np.isfinite(run.effort).all(axis=1).sum()),
        **{key: peaks[key] for key in ('effort_limit', 'saturated_ticks')},
        **{key: errors[key] for key in ('rms_error', 'peak_error', 'tool_rms_mm', 'tool_peak_mm')},
    )


def _range(rows: Array) -> Array:
    """Return the range of each column, ignoring NaN."""
    return np.fmax.reduce(rows) - np.fmin.reduce(rows)


# Rates -------------------------------------------------------------------------------------------

_GAP = 1.5  # median periods
_LATE = 0.8  # periods; a later command misses most of its step


class Rates(Metric):
    """Period and jitter of the states, gaps between them, and latency of the commands.

    Args:
        period: Median time between states, s.
        remarks: Custom data of the bag, in which our recorder stores the latencies.
        commands: Topic of the commands.
    """

    name = 'rates'

    def __init__(self, period: float, remarks: dict[str, str], commands: str) -> None:
        self._period, self._commands = period, commands
        self._steps, self._jitter, self._latency = Quantiles(), Quantiles(), Quantiles()
        self._gaps, self._longest, self._longest_at = 0, 0.0, float('nan')
        self._answered = self._states = 0
        self._remarks = remarks
        self._first = self._last = float('nan')

    def take(self, window: Window) -> dict[str, Array]:
        """Evaluate a chunk, see :meth:`Metric.take`."""
        run, skip = window.with_last()
        steps = np.diff(run.stamp_ns) / NANO
        self._steps.take(steps)
        self._jitter.take(np.abs(steps - self._period))
        gaps = steps > _GAP * self._period
        self._gaps += int(gaps.sum())
        if len(steps) and steps.max() > self._longest:
            self._longest = float(steps.max())
            self._longest_at = float(run.time[int(steps.argmax())])
        own = window.run
        answered = own.answer_ns >= 0
        self._latency.take((own.answer_ns - own.arrival_ns)[answered] / NANO)
        self._answered += int(answered.sum())
        self._states += len(own.time)
        if np.isnan(self._first):
            self._first = float(own.time[0])
        self._last = float(own.time[-1])
        return {'period': np.concatenate([[np.nan], steps])[skip:]}

    def latency_us(self) -> dict[str, float]:
        """Return the latency from state to command by percentile, µs; empty if unknown.

        Our recorder measures it by source times and stores it in the bag; otherwise it is the
        difference of the receive times, unless these are the timestamps of the states.
        """
        with contextlib.suppress(KeyError, ValueError):  # metadata may be damaged
            return {
                name: float(self._remarks[f'{self._commands} latency_{name}_us'])
                for name in ('p50', 'p99')
            }
        if not self._latency.count or not self._latency.largest > 0.0:
            return {}
        return self._latency.figures(1e6, 50, 99)

    def figures(self) -> dict[str, Any]:
        """Return rate, jitter, gaps and latency."""
        return {
            'states': self._states,
            'commands': self._answered,
            'duration_s': self._last - self._first,
            'rate_hz': 1.0 / self._period if self._period else float('nan'),
            'period_ms': self._steps.figures(1e3, 1, 50, 99),
            'jitter_us': self._jitter.figures(1e6, 50, 99),
            'gaps': self._gaps,
            'longest_gap_ms': 1e3 * self._longest if self._gaps else 0.0,
            'longest_gap_at': self._longest_at if self._gaps else float('nan'),
            'latency_us': self.latency_us(),
        }

    def findings(self) -> list[MetricRemark]:
        """Report gaps and late commands."""
        remarks = []
        if self._gaps:
            text = (
                f'{self._gaps} {"gap" if self._gaps == 1 else "gaps"} between states, the longest '
                f'{format_duration(self._longest)} at {format_time(self._longest_at)}'
            )
            remarks.append(MetricRemark('look', text))
        measured = f'{self._commands} latency_p99_us' in self._remarks
        late = self._latency.at(0.99) if self._latency.count and not measured else 0.0
        if self._period and late > _LATE * self._period:
            text = (
                f'1 % of the commands are later than {format_duration(late)}, the period is '
                f'{format_duration(self._period)}'
            )
            remarks.append(MetricRemark('look', text))
        return remarks
