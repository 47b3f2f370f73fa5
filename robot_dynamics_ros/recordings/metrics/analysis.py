# SPDX-License-Identifier: Apache-2.0
"""Analyze one recording: load its robot, evaluate all metrics chunk by chunk, write the files."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.errors import (
    MissingDependencyError,
    RecordingError,
    RobotDynamicsError,
    UnknownNameError,
)
from robot_dynamics_ros.estimation.effort_model import EffortModel
from robot_dynamics_ros.estimation.filtering import moving_joints
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.arm import tool_frame
from robot_dynamics_ros.recordings.metrics.effort import Contacts, CrossCheck, Effort, Energy
from robot_dynamics_ros.recordings.metrics.metric import (
    SEVERITIES,
    Metric,
    MetricRemark,
    Threshold,
    Window,
    check_thresholds,
)
from robot_dynamics_ros.recordings.metrics.program import ProgramMetric, recorded_start
from robot_dynamics_ros.recordings.metrics.tracking import (
    Limits,
    Rates,
    Tracking,
    limits_efforts,
)
from robot_dynamics_ros.recordings.outliers import OutlierTimes, without_outliers
from robot_dynamics_ros.recordings.output_folder import (
    CsvTable,
    ParquetTable,
    flat_columns,
    write_json,
)
from robot_dynamics_ros.recordings.plausibility import problem_of
from robot_dynamics_ros.recordings.reading import RecordingReader, RobotChoice
from robot_dynamics_ros.recordings.recording import Recording, current_unit
from robot_dynamics_ros.recordings.report.analysis import (
    BagResult,
    Curves,
    analysis_figures,
    analysis_report,
)
from robot_dynamics_ros.recordings.report.events import bag_events, run_events
from robot_dynamics_ros.recordings.timing import (
    AUTO,
    SampleTiming,
    find_timing,
    make_instants,
    with_neighbours,
)
from robot_dynamics_ros.spatial.scalar import Array

#: Which efforts are evaluated.
EFFORTS = ('auto', 'measured', 'commanded')
_MIN_STATES = 16  # states of a chunk in which motion is detected
_MAX_CHUNKS = 5  # chunks at rest kept in memory, five minutes
_CLEAR_RATIO = 0.8  # ratio of the residuals below which shifted efforts are assumed

#: Called with the rows of a chunk and the columns added by the metrics, by name.
Sink = Callable[[Recording, Mapping[str, Array]], None]


@dataclass(frozen=True)
class AnalysisSettings:
    """Settings of the analysis of a bag.

    Attributes:
        robot: The robot model.
        formulation: Formulation of the dynamics.
        effort: One of ``EFFORTS``.
        timing: One of ``timing.TIMINGS``, or 'auto'.
        cutoff: Cutoff of the filter, Hz; None for no filter, or 'auto' to choose it by the noise.
        frame: Tool frame; empty for the default, see ``model.arm.tool_frame``.
        contacts: File with contact thresholds written by ``calibrate``; empty to detect none.
        program: Constraint program: file, name or text; empty for that of the controller, if any.
        program_start: Start of a program's clock, s; None for that of the controller.
        thresholds: Bounds on the figures.
        rows: Maximum number of CSV rows; 0 for all.
        tables: Whether to write rows as CSV and Parquet.
        report: Whether to write the HTML report.
    """

    robot: RobotChoice = field(default_factory=RobotChoice)
    formulation: str = 'newton_euler'
    effort: str = 'auto'
    timing: str = AUTO
    cutoff: float | str | None = AUTO
    frame: str = ''
    contacts: str = ''
    program: str = ''
    program_start: float | None = None
    thresholds: tuple[Threshold, ...] = ()
    rows: int = 100_000
    tables: bool = True
    report: bool = True


def analyze_bag(
    bag: str | os.PathLike[str], settings: AnalysisSettings, folder: Path | None = None
) -> BagResult:
    """Analyze one recording in bounded memory.

    Args:
        bag: The bag's folder, or one of its files.
        settings: Settings of the analysis.
        folder: Existing folder for ``metrics.json``, ``rows.csv``, ``rows.parquet`` (with
            pyarrow) and ``report.html``; None to write nothing.

    Raises:
        RobotDynamicsError: The bag cannot be analyzed; the message says why.
    """
    begin = time.perf_counter()
    with settings.robot.read(bag) as reader, contextlib.ExitStack() as stack:
        tree, unit = settings.robot.load(reader), current_unit(settings.robot.driver_profile)
        if unit:
            settings = replace(settings, contacts='')
        identified = str(reader.parameters.get('identified') or '')
        if identified and not settings.robot.identified:
            robot = replace(settings.robot, identified=identified)
            settings = replace(settings, robot=robot)
        notes: list[str] = []
        program = _program(settings, reader, tree, notes)
        remarks, commands = reader.bag.remarks, reader.topics.commands
        curves, every = Curves(tree.n), 1
        sinks: list[Sink] = [curves] if folder is not None and settings.report else []
        if folder is not None and settings.tables:
            count = reader.bag.counts.get(reader.topics.states, 0)
            every = max(1, math.ceil(count / settings.rows)) if settings.rows else 1
            sinks.append(_table_sink(stack, folder, every, program))
        own = program if not settings.program else None
        if program is not None and settings.program_start is None:
            start, count = recorded_start(reader, tree)
            settings = replace(settings, program_start=start)
            if count > 1:
                notes.append(f'the program began {count} times: evaluated from the first start')
        parts = settings.robot.parts(reader, tree)
        if unit:
            parts = _without(parts, 'effort', 'measured_effort')
            notes.append(
                f'efforts are in {unit}, and the driver profile gives no torque_constant: '
                'residual, energy, saturation, loads and contacts are not evaluated'
            )
        evaluator = Evaluator(tree, settings, program, remarks, commands)
        if own is not None:  # the controller did not follow the joint reference
            parts = _without(parts, 'reference_position', 'reference_velocity')
        evaluator.evaluate(parts, sinks)
        figures = evaluator.figures()
        problems = (MetricRemark('wrong', problem) for problem in reader.problems)
        findings = (*problems, *evaluator.findings())
        events = bag_events(reader.bag, reader.topics, curves.delay) if sinks else []
        events += [(curves.end, loss) for loss in reader.bag.losses]
        if settings.tables and folder is not None:
            figures['rows_csv_every'] = every
        notes += reader.notes
        if own is not None:
            notes.append(
                f'the controller ran program {own.name!r}, which does not follow the joint '
                'reference: tracking is not evaluated'
            )
        if not limits_efforts(tree):
            notes.append('the description gives no effort limits: saturation is not evaluated')
        verdicts = tuple(check_thresholds(settings.thresholds, figures, tree.joint_names))
    report = analysis_report(bag, tree, figures, findings, notes)
    seconds = time.perf_counter() - begin
    result = BagResult(
        str(bag), tree.joint_names, figures, findings, verdicts, tuple(notes), report, '', seconds
    )
    if folder is not None:
        write_json(folder / 'metrics.json', result.as_dict())
        if settings.report:
            series = curves.series()
            events += run_events(tree, series, figures)
            plots = analysis_figures(tree, series, figures)
            arm = curves.arm(tree, evaluator.frame)
            replace(report, figures=plots, arm=arm, events=events).write(folder / 'report.html')
    return result


def _program(
    settings: AnalysisSettings, reader: RecordingReader, tree: Robot, notes: list[str]
) -> Program | None:
    """Return the program given by the task, else that of the controller, if any."""
    if settings.program:
        return load_program(settings.program, tree, check=False)
    recorded = str(reader.parameters.get('program') or '')
    if reader.parameters.get('law') != 'constraint_stabilization' or not recorded:
        return None
    try:
        return load_program(recorded, tree, check=False)
    except RobotDynamicsError as error:
        notes.append(f'the program of the controller cannot be evaluated: {error}')
        return None


def _without(parts: Iterator[Recording], *columns: str) -> Iterator[Recording]:
    """Yield recordings with some of their columns set to NaN."""
    for part in parts:
        missing: Any = np.full(part.position.shape, np.nan)
        yield replace(part, **dict.fromkeys(columns, missing))


def _table_sink(
    stack: contextlib.ExitStack, folder: Path, every: int, program: Program | None
) -> Sink:
    """Return a sink that writes rows as CSV, and as Parquet if pyarrow is installed."""
    tables: list[Any] = [stack.enter_context(CsvTable(folder / 'rows.csv', every))]
    with contextlib.suppress(MissingDependencyError):
        tables.append(stack.enter_context(ParquetTable(folder / 'rows.parquet')))
    rows = [row for part in program.stack.constraints for row in part.rows] if program else []

    def sink(recording: Recording, columns: Mapping[str, Array]) -> None:
        flat = flat_columns(recording, columns, rows)
        for table in tables:
            table.add(flat)

    return sink


class Evaluator:
    """Evaluates a run chunk by chunk.

    Attributes:
        timing: How accelerations, states and efforts correspond; inferred from the first chunk
            in which a joint moves.
        source: Description of the evaluated efforts.

    Args:
        tree: The robot.
        settings: Settings of the analysis.
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
        tree: Robot,
        settings: AnalysisSettings,
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
        self._delay, self._outliers = 0, OutlierTimes()
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
        self._create_metrics(without_outliers(moving))
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
                'contradictions': len(self._outliers.states),
                'effort_outliers': len(self._outliers.efforts),
                'semi_implicit_remainder': timing.residual,
                'trapezoid_remainder': timing.trapezoidal_residual,
            }
        }
        return figures | {metric.name: metric.figures() for metric in self._metrics}

    def findings(self) -> list[MetricRemark]:
        """Return the remarks of all metrics, most severe first."""
        problems = [text for text in (self._problem, self._outliers.problem()) if text]
        remarks = [MetricRemark('wrong', f'{text}; no verdict on the model') for text in problems]
        metrics = (metric for metric in self._metrics if not (problems and metric.judges))
        remarks += [finding for metric in metrics for finding in metric.findings()]
        remarks += [MetricRemark('look', text) for text in self._outliers.remarks()]
        return sorted(remarks, key=lambda finding: SEVERITIES.index(finding.severity))

    def _create_metrics(self, first: Recording) -> None:
        """Choose efforts and timing from a chunk, and create the metrics."""
        measured = self._settings.effort == 'measured'
        if self._settings.effort == 'auto':
            measured = first.has_measured
        self.timing = find_timing(
            first,
            commanded=not measured,
            name=self._settings.timing,
            cutoff=self._settings.cutoff,
        )
        self.source = 'commanded'
        if measured:
            self._delay = self._effort_delay(first)
            late = ', delayed by one step' if self._delay else ''
            self.source = f'measured{late}'
        elif not np.isfinite(first.measured_effort).any():
            self.source = 'commanded (none were measured)'
        self._measured = measured
        self._problem = problem_of(first, self._tree, measured=measured)
        tree, period = self._tree, self.timing.period
        self._metrics = [
            Tracking(tree, self.frame),
            Effort(
                self._model,
                self.source,
                self.frame,
                self.timing.resolution,
                identified=bool(self._settings.robot.identified),
            ),
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
        run = self._outliers.take(run, own)
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
