# SPDX-License-Identifier: Apache-2.0
"""Analyze one recording: load its robot, evaluate the metrics, write the result files."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.errors import MissingDependencyError, RobotDynamicsError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.bag.files import short_name
from robot_dynamics_ros.recordings.metrics.analysis import EvaluationSettings, Evaluator, Sink
from robot_dynamics_ros.recordings.metrics.metric import (
    MetricRemark,
    Threshold,
    ThresholdResult,
    check_thresholds,
)
from robot_dynamics_ros.recordings.metrics.tracking import limits_efforts
from robot_dynamics_ros.recordings.output_folder import (
    CsvTable,
    ParquetTable,
    flat_columns,
    pyarrow,
    write_json,
)
from robot_dynamics_ros.recordings.reading import RecordingReader, RobotChoice
from robot_dynamics_ros.recordings.recording import Recording, current_unit
from robot_dynamics_ros.recordings.report.analysis import Curves, analysis_figures, analysis_report
from robot_dynamics_ros.recordings.report.toolkit import Report
from robot_dynamics_ros.spatial.scalar import Array


@dataclass(frozen=True)
class AnalysisSettings:
    """Settings of the analysis of a bag.

    Attributes:
        robot: The robot model.
        evaluation: Settings of the evaluation.
        program: Constraint program: file, name or text; empty for that of the controller, if any.
        thresholds: Bounds on the figures.
        rows: Maximum number of CSV rows; 0 for all.
        tables: Whether to write rows as CSV and Parquet.
        report: Whether to write the HTML report.
    """

    robot: RobotChoice = field(default_factory=RobotChoice)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    program: str = ''
    thresholds: tuple[Threshold, ...] = ()
    rows: int = 100_000
    tables: bool = True
    report: bool = True


@dataclass(frozen=True)
class BagResult:
    """Result of the analysis of a bag.

    Attributes:
        bag: Path of the bag.
        joints: Joint names of the robot.
        figures: Figures of all metrics, by metric name.
        findings: Remarks of the metrics, most severe first.
        verdicts: Results of the thresholds.
        notes: Remarks about the bag.
        report: The report without plots; None if the analysis failed.
        error: Why the analysis failed; empty on success.
        seconds: Duration of the analysis, s.
    """

    bag: str
    joints: tuple[str, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[MetricRemark, ...] = ()
    verdicts: tuple[ThresholdResult, ...] = ()
    notes: tuple[str, ...] = ()
    report: Report | None = None
    error: str = ''
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the analysis succeeded and every threshold holds."""
        return not self.error and all(verdict.holds for verdict in self.verdicts)

    def as_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON, without the duration."""
        return {
            'bag': self.bag,
            'joints': list(self.joints),
            **self.figures,
            'findings': [vars(finding) for finding in self.findings],
            'thresholds': [
                {'threshold': str(v.threshold), 'value': v.value, 'holds': v.holds}
                for v in self.verdicts
            ],
            'notes': list(self.notes),
        }


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
        tree, evaluation = settings.robot.load(reader), settings.evaluation
        unit = current_unit(settings.robot.driver_profile)
        if unit:
            evaluation = replace(evaluation, contacts='')
        notes: list[str] = []
        program = _program(settings, reader, tree, notes)
        commands = reader.topics.commands
        evaluator = Evaluator(tree, evaluation, program, reader.bag.remarks, commands)
        curves, every = Curves(tree.n), 1
        sinks: list[Sink] = []
        if folder is not None and settings.report:
            sinks.append(curves)
        if folder is not None and settings.tables:
            every = _row_step(reader, settings.rows)
            rows = (
                [row for part in program.stack.constraints for row in part.rows] if program else []
            )
            sinks.append(_table_sink(stack, folder, every, rows))
        own = program if not settings.program else None
        parts = settings.robot.parts(reader, tree)
        if unit:
            parts = _without(parts, 'effort', 'measured_effort')
            notes.append(
                f'efforts are in {unit}, and the driver profile gives no torque_constant: '
                'residual, energy, saturation, loads and contacts are not evaluated'
            )
        if own is not None:  # the controller did not follow the joint reference
            parts = _without(parts, 'reference_position', 'reference_velocity')
        evaluator.evaluate(parts, sinks)
        figures, findings = evaluator.figures(), tuple(evaluator.findings())
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
    rates = figures['rates']
    lead = (
        f'{bag}: {tree.name}, {rates["duration_s"]:.4g} s, {rates["states"]} states at '
        f'{rates["rate_hz"]:.4g} Hz.'
    )
    title = f'Recording {short_name(Path(bag))}'
    report = analysis_report(title, lead, tree, figures, findings, notes)
    seconds = time.perf_counter() - begin
    result = BagResult(
        str(bag), tree.joint_names, figures, findings, verdicts, tuple(notes), report, '', seconds
    )
    if folder is not None:
        write_json(folder / 'metrics.json', result.as_dict())
        if settings.report:
            arm = curves.arm(tree, evaluator.frame)
            plots = analysis_figures(tree, curves.series(), figures)
            replace(report, figures=plots, arm=arm).write(folder / 'report.html')
    return result


def _program(
    settings: AnalysisSettings, reader: RecordingReader, tree: RobotTree, notes: list[str]
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


def _row_step(reader: RecordingReader, rows: int) -> int:
    count = reader.bag.counts.get(reader.topics.states, 0)
    return max(1, math.ceil(count / rows)) if rows else 1


def _table_sink(
    stack: contextlib.ExitStack, folder: Path, every: int, rows: Sequence[str]
) -> Sink:
    csv = stack.enter_context(CsvTable(folder / 'rows.csv', every))
    tables: list[Any] = [csv]
    with contextlib.suppress(MissingDependencyError):
        pyarrow()
        tables.append(stack.enter_context(ParquetTable(folder / 'rows.parquet')))

    def sink(recording: Recording, columns: Mapping[str, Array]) -> None:
        flat = flat_columns(recording, columns, rows)
        for table in tables:
            table.add(flat)

    return sink
