# SPDX-License-Identifier: Apache-2.0
"""Evaluate all metrics on a run, chunk by chunk, and collect their figures and remarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.errors import RecordingError, UnknownNameError
from robot_dynamics_ros.estimation.effort_model import EffortModel
from robot_dynamics_ros.estimation.filtering import moving_joints
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.metrics.effort import Contacts
from robot_dynamics_ros.recordings.metrics.effort import CrossCheck, Effort, Energy
from robot_dynamics_ros.recordings.metrics.metric import (
    SEVERITIES,
    Metric,
    MetricRemark,
    Window,
    format_time,
)
from robot_dynamics_ros.recordings.metrics.program import ProgramMetric
from robot_dynamics_ros.recordings.metrics.tracking import Limits, Rates, Tracking, tool_frame
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.timing import (
    SampleTiming,
    find_outliers,
    find_timing,
    make_instants,
    with_neighbours,
)
from robot_dynamics_ros.spatial.scalar import Array

#: Which efforts are evaluated.
EFFORTS = ('auto', 'measured', 'commanded')
_MIN_STATES = 16  # states of a chunk in which motion is detected
_MAX_CHUNKS = 15  # chunks at rest kept in memory, five minutes
_CLEAR_RATIO = 0.8  # ratio of the residuals below which shifted efforts are assumed

#: Called with the rows of a chunk and the columns added by the metrics, by name.
Sink = Callable[[Recording, Mapping[str, Array]], None]


@dataclass(frozen=True)
class EvaluationSettings:
    """Settings of the evaluation.

    Attributes:
        formulation: Formulation of the dynamics.
        effort: One of ``EFFORTS``.
        timing: One of ``timing.TIMINGS``, or 'auto'.
        frame: Tool frame; empty for the default, see ``tracking.tool_frame``.
        program_start: Start of a program's clock, s; None for the first command.
        contacts: File with contact thresholds written by ``calibrate``; empty to detect none.
    """

    formulation: str = 'newton_euler'
    effort: str = 'auto'
    timing: str = 'auto'
    frame: str = ''
    program_start: float | None = None
    contacts: str = ''


class Evaluator:
    """Evaluates a run chunk by chunk.

    Attributes:
        timing: How accelerations, states and efforts correspond; inferred from the first chunk
            in which a joint moves.
        source: Description of the evaluated efforts.

    Args:
        tree: The robot.
        settings: Settings of the evaluation.
        program: A constraint program to evaluate, or None.
        remarks: Custom data of the bag.
        commands: Topic of the commands.

    Raises:
        UnknownNameError: A formulation, effort, timing or frame does not exist.
    """

    timing: SampleTiming
    source: str

    def __init__(
        self,
        tree: RobotTree,
        settings: EvaluationSettings,
        program: Program | None = None,
        remarks: Mapping[str, str] | None = None,
        commands: str = '',
    ) -> None:
        if settings.effort not in EFFORTS:
            raise UnknownNameError('effort', settings.effort, EFFORTS)
        self._tree, self._settings, self._program = tree, settings, program
        self._remarks, self._commands = dict(remarks or {}), commands
        self._model = EffortModel(tree, settings.formulation)
        self._metrics: list[Metric] = []
        self._delay, self._outlier_times = 0, list[float]()
        self.frame = tool_frame(tree, settings.frame)

    def evaluate(self, chunks: Iterable[Recording], sinks: Iterable[Sink] = ()) -> None:
        """Evaluate a run.

        Args:
            chunks: Successive parts of the run.
            sinks: Called with every chunk and its columns.

        Raises:
            UnknownNameError: A joint of the robot was not recorded.
            RecordingError: There are no states.
        """
        chosen = (chunk.of_joints(self._tree.joint_names) for chunk in chunks)
        filled = (chunk for chunk in chosen if len(chunk.time))
        moving, held = _until_motion(filled)
        self._create_metrics(moving.without(find_outliers(moving)))
        reach = 2 * self.timing.half + 2
        before: Recording | None = None
        sinks = tuple(sinks)
        for run, own in with_neighbours(chain(held, filled), reach, reach):
            window = self._window(run, own, before)
            columns: dict[str, Array] = {}
            for metric in self._metrics:
                columns |= metric.take(window)
            for sink in sinks:
                sink(window.run, columns)
            before = window.run.rows(slice(len(window.run.time) - 1, None))

    def figures(self) -> dict[str, Any]:
        """Return the figures of all metrics by name."""
        timing = self.timing
        figures: dict[str, Any] = {
            'timing': {
                'name': timing.name,
                'reason': timing.reason,
                'cutoff_hz': timing.cutoff,
                'period_s': timing.period,
                'even': timing.even,
                'contradictions': len(self._outlier_times),
                'semi_implicit_remainder': timing.residual,
                'trapezoid_remainder': timing.trapezoidal_residual,
            }
        }
        return figures | {metric.name: metric.figures() for metric in self._metrics}

    def findings(self) -> list[MetricRemark]:
        """Return the remarks of all metrics, most severe first."""
        remarks = [finding for metric in self._metrics for finding in metric.findings()]
        if self._outlier_times:
            count, first = len(self._outlier_times), format_time(self._outlier_times[0])
            text = (
                f'{count} states contradict their neighbours, the first at {first}: positions are '
                'inconsistent with the velocities; left out'
            )
            remarks.append(MetricRemark('look', text))
        return sorted(remarks, key=lambda finding: SEVERITIES.index(finding.severity))

    def _create_metrics(self, first: Recording) -> None:
        """Choose efforts and timing from a chunk, and create the metrics."""
        measured = self._settings.effort == 'measured'
        if self._settings.effort == 'auto':
            measured = first.has_measured
        self.timing = find_timing(first, commanded=not measured, name=self._settings.timing)
        self.source = 'commanded'
        if measured:
            self._delay = self._effort_delay(first)
            late = ', delayed by one step' if self._delay else ''
            self.source = f'measured{late}'
        elif not np.isfinite(first.measured_effort).any():
            self.source = 'commanded (none were measured)'
        self._measured = measured
        tree, period = self._tree, self.timing.period
        self._metrics = [
            Tracking(tree, self.frame),
            Effort(self._model, self.source, self.frame),
            CrossCheck(self._model),
            Energy(self._model, self.timing),
            Limits(tree),
            Rates(period, self._remarks, self._commands),
        ]
        if self._settings.contacts:
            self._metrics.append(Contacts(tree, self._settings.contacts))
        if self._program is not None:
            start = self._settings.program_start
            self._metrics.append(ProgramMetric(self._program, start, period))

    def _effort_delay(self, first: Recording) -> int:
        """Return the delay of the measured efforts that fits the model best: 0 or 1 states."""
        if self.timing.name != 'semi_implicit':
            return 0
        sizes = []
        for shift in (0, 1):
            steps = make_instants(first, _shifted(first.measured_effort, shift), self.timing)
            modelled = self._model.evaluate(steps)
            determined = modelled.determined
            residual = np.where(determined, modelled.residual, 0.0)
            sizes.append(float(np.square(residual).sum() / max(1, determined.sum())))
        return int(sizes[1] < _CLEAR_RATIO**2 * sizes[0])

    def _window(self, run: Recording, own: slice, before: Recording | None) -> Window:
        outliers = find_outliers(run)
        if outliers.any():
            self._outlier_times += run.time[own][outliers[own]].tolist()
            run = run.without(outliers)
        effort = run.effort
        if self._measured:
            effort = _shifted(run.measured_effort, self._delay)
        steps = make_instants(run, effort, self.timing)
        inside = (steps.row >= own.start) & (steps.row < own.stop)
        steps = steps.take(inside)
        steps = replace(steps, row=steps.row - own.start)
        rows = replace(run, effort=effort).rows(own)
        return Window(rows, before, steps, self._model.evaluate(steps))


def _shifted(values: Array, shift: int) -> Array:
    """Return rows shifted to ``shift`` rows earlier, with NaN at the end."""
    if not shift:
        return values
    return np.vstack([values[shift:], np.full((shift, values.shape[1]), np.nan)])


def _until_motion(chunks: Iterator[Recording]) -> tuple[Recording, list[Recording]]:
    """Return the chunk from which to infer the timing, and all chunks read so far.

    This is the first chunk in which a joint moves, else the first chunk.

    Raises:
        RecordingError: There are no chunks.
    """
    held: list[Recording] = []
    for chunk in islice(chunks, _MAX_CHUNKS):
        held.append(chunk)
        if len(chunk.time) >= _MIN_STATES and moving_joints(chunk.position, chunk.velocity).any():
            return chunk, held
    if not held:
        raise RecordingError('the recording', 'holds no state', 'record for longer')
    return held[0], held
