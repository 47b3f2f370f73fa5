# SPDX-License-Identifier: Apache-2.0
"""Analyze one recording: load its robot, evaluate all metrics, write the files."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.control.topics import PUSHES
from robot_dynamics_ros.errors import (
    ConfigurationError,
    MissingDependencyError,
    RobotDynamicsError,
    known_name,
)
from robot_dynamics_ros.estimation.accumulate import POINTS, thinned
from robot_dynamics_ros.estimation.effort_model import EffortModel
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.arm import tool_frame
from robot_dynamics_ros.model.findings import SEVERITIES, Finding
from robot_dynamics_ros.model.identified import NOTE
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.recordings.bag.files import short_name
from robot_dynamics_ros.recordings.history import History, carried, followed, history, runs_program
from robot_dynamics_ros.recordings.metrics.effort import (
    OF_TEXT,
    UNIDENTIFIED,
    contacts,
    cross_check,
    effort,
    effort_columns,
    energy,
)
from robot_dynamics_ros.recordings.metrics.metric import (
    EvaluatedRun,
    Metric,
    MetricResult,
    Threshold,
    check_thresholds,
)
from robot_dynamics_ros.recordings.metrics.program import (
    constraint_errors,
    recorded_end,
    recorded_starts,
)
from robot_dynamics_ros.recordings.metrics.tracking import (
    limits,
    limits_efforts,
    rates,
    stored_latency,
    tool_path,
    tracking,
)
from robot_dynamics_ros.recordings.outliers import without_outliers
from robot_dynamics_ros.recordings.output_folder import (
    WriteRows,
    csv_table,
    flat_columns,
    parquet_table,
    unused,
    write_json,
)
from robot_dynamics_ros.recordings.plausibility import late_velocities, problem_of
from robot_dynamics_ros.recordings.reading import MOVED, RobotChoice
from robot_dynamics_ros.recordings.recording import EFFORTS, NANO, Recording, format_time
from robot_dynamics_ros.recordings.recording_reader import RecordingReader
from robot_dynamics_ros.recordings.report.runs import (
    BagResult,
    analysis_figures,
    analysis_report,
    bag_events,
    plot_series,
    run_animation,
    run_events,
)
from robot_dynamics_ros.recordings.report.toolkit import command_line
from robot_dynamics_ros.recordings.samples import Preparation, samples_of
from robot_dynamics_ros.recordings.timing import AUTO, first_motion, moving
from robot_dynamics_ros.spatial.scalar import Array

_EXPLAINED = 0.01  # share of the effort that a model may leave unexplained
_IDENTIFIED = Path('out') / 'identified'
#: Options of a recording that a replay has; those of the model are recorded by a controller.
REPLAY_READS = (
    *('--package', '--robot', '--namespace', '--states', '--commands', '--reference'),
    '--recorded-joints',
)
REPLAY_MODEL = (
    *('--gravity', '--identified', '--driver-profile'),
    *('--joints', '--base', '--tip', '--locked', '--mimic', '--loops'),
)
_BLOCK = 1 << 13  # rows of the tables in memory at once, a power of two
#: What of a program the model of a recording lacks.
_LACKS = {'contacts': 'presses on a surface', 'passive': 'closes a loop'}
_CLEAR_RATIO = 0.8  # ratio of the residuals below which shifted efforts are assumed


class AnalysisSettings(NamedTuple):
    """Settings of the analysis of a bag.

    Attributes:
        robot: The robot model.
        formulation: Formulation of the dynamics.
        effort: One of ``recording.EFFORTS``; 'auto': measured if recorded, else commanded.
        timing: One of ``timing.TIMINGS``, or 'auto'.
        cutoff: Cutoff of the filter, Hz; None for no filter, or 'auto' to choose it by the noise.
        frame: Tool frame; empty for the default, see ``model.arm.tool_frame``.
        contacts: File with contact thresholds written by ``calibrate``; empty to detect none.
        program: Constraint program: file, name or text; empty for that of the controller, if any.
        program_start: Start of a program's clock, s; None for that of the controller.
        thresholds: Bounds on the figures.
        options: The words of the options with which the bag is read, by their names, for the
            commands that the report names.
        remarks: Remarks that precede those of the analysis, one sentence each.
        rows: Maximum number of CSV rows; 0 for all.
        tables: Whether to write rows as CSV and Parquet.
        report: Whether to write the HTML report.
    """

    robot: RobotChoice = RobotChoice()
    formulation: str = 'newton_euler'
    effort: str = 'auto'
    timing: str = AUTO
    cutoff: float | str | None = AUTO
    frame: str = ''
    contacts: str = ''
    program: str = ''
    program_start: float | None = None
    thresholds: tuple[Threshold, ...] = ()
    options: Mapping[str, Sequence[str]] = {}
    remarks: tuple[str, ...] = ()
    rows: int = 100_000
    tables: bool = True
    report: bool = True


def analyze_bag(
    bag: str | os.PathLike[str], settings: AnalysisSettings, folder: Path | None = None
) -> BagResult:
    """Analyze one recording.

    Args:
        bag: The bag's folder, or one of its files.
        settings: Settings of the analysis.
        folder: Existing folder for ``metrics.json``, ``rows.csv``, ``rows.parquet`` (with
            pyarrow) and ``report.html``; None to write nothing.

    Raises:
        RobotDynamicsError: The bag cannot be analyzed; the message says why.
    """
    with settings.robot.read(bag) as reader:
        tree = settings.robot.load(reader)
        whole = settings.robot.converted(reader, tree)
        run, past = whole.between(*settings.robot.span), history(reader)
        identified = _identified(settings.robot, reader, tree)
        task, task_notes = _task(settings, reader, whole, run, tree, past)
        load = carried(past, run, tree)
        run = settings.robot.total(run, tree, load.tree)
        run, others = followed(past.acted, run, tree)
        evaluation = evaluate(
            run,
            load.tree,
            settings,
            identified=identified,
            latency=stored_latency(reader.bag.remarks, reader.topics.commands),
            until=load.until,
            **task,
        )
        problems = (Finding('error', problem) for problem in reader.problems)
        moved = [note for note in whole.notes if note.startswith(MOVED)]
        warned = (Finding('warning', note) for note in moved)
        findings = tuple(sorted((*problems, *warned, *evaluation.findings), key=_severity))
        notes = (
            *settings.remarks,
            _model_note(settings.robot, tree, identified),
            *_reference_note(reader),
            *task_notes,
            *load.notes,
            *evaluation.notes,
            *(x for x in dict.fromkeys((*reader.notes, *whole.notes)) if x not in moved),
            *others,
            *_unmodelled(reader, tree),
        )
        steps = _steps(bag, settings, reader, evaluation)
        delay = float(run.arrival_ns[0]) / NANO - float(run.time[0])
        shown = settings.report and folder is not None
        events = bag_events(reader.bag, reader.topics, delay) if shown else []
        events += [(float(run.time[-1]), loss) for loss in reader.bag.losses]
    figures = evaluation.figures
    every = max(1, math.ceil(len(run.time) / settings.rows)) if settings.rows else 1
    if settings.tables and folder is not None:
        figures['rows_csv_every'] = every
    verdicts = tuple(check_thresholds(settings.thresholds, figures, tree.joint_names))
    report = analysis_report(bag, tree, figures, findings, notes, steps, run.origin)
    result = BagResult(str(bag), tree.joint_names, figures, findings, verdicts, notes, report)
    if folder is not None:
        write_json(folder / 'metrics.json', result.as_dict())
        series = _write_rows(folder, evaluation, settings, every)
        if settings.report:
            events += run_events(tree, series, figures)
            plots = analysis_figures(tree, series, figures, run.origin)
            given = evaluation.evaluated
            drawn = given.program, given.program_start
            arm = run_animation(given.run, tree, given.frame, *drawn if None not in drawn else ())
            report._replace(figures=plots, arm=arm, events=events).write(folder / 'report.html')
    return result


def _identified(choice: RobotChoice, reader: RecordingReader, tree: Robot) -> str:
    """Return by what the model was identified; empty if it was not."""
    recorded = str(reader.parameters.get('identified') or '')
    if choice.identified:
        return choice.identified
    if recorded:
        return f'{recorded}, as the recorded controller had it'
    return OF_TEXT if NOTE in tree.xml else ''


def _task(
    settings: AnalysisSettings,
    reader: RecordingReader,
    whole: Recording,
    run: Recording,
    tree: Robot,
    past: History,
) -> tuple[dict[str, Any], list[str]]:
    """Return the program to evaluate, by the attributes of an evaluated run, and notes.

    Args:
        settings: Settings of the analysis; without a program, that of the controller is evaluated.
        reader: The bag.
        whole: What was read of it, where the program may begin before the evaluated run.
        run: The evaluated run.
        tree: The robot.
        past: What the controller did.
    """
    notes, acted = list[str](), past.acted
    ran = next((one for one in acted if runs_program(one.values)), acted[0])
    ramp = ran.values['activation_ramp_s'] if reader.parameters else 0.0
    task: dict[str, Any] = {'ramp': ramp if isinstance(ramp, int | float) else 0.0}  # if damaged
    given, program = settings.program or runs_program(ran.values) and ran.values['program'], None
    try:
        program = load_program(str(given), tree, check=False) if given else None
    except RobotDynamicsError as error:
        if settings.program:
            raise
        notes.append(f'the program of the controller cannot be evaluated: {error}')
    start = settings.program_start
    if program is None:
        if start is not None:
            problem = 'has no effect: the recorded controller ran no program that can be read'
            raise ConfigurationError('--program-start', problem, 'add --program, or leave it out')
        return task, notes
    task['program'] = program
    starts = recorded_starts(reader, whole, tree, ran) if start is None else [start]
    if not starts:
        return task, notes
    if len(starts) > 1:
        notes.append(f'the program began {len(starts)} times: evaluated from the first start')
    end, why = recorded_end(acted, whole, starts)
    if run.time[-1] >= end:
        notes.append(f'the program is evaluated until {format_time(end)} only: then {why}')
    return {**task, 'program_start': starts[0], 'program_end': end}, notes


def _severity(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)


def _model_note(choice: RobotChoice, tree: Robot, identified: str) -> str:
    """Return whose description is the model."""
    given = 'the given description' if '\n' in choice.robot else f'--robot {choice.robot}'
    note = f'model: {tree.name}, of {given if choice.robot else "the recorded description"}'
    return f'{note}; identified: {identified}' if identified else note


def _reference_note(reader: RecordingReader) -> Iterator[str]:
    """Yield which topic of another name is the reference, or that none is."""
    if reference := reader.topics.reference:
        if not reference.endswith('controller/reference'):
            yield f'reference: {reference}'
        return
    yield 'no reference was recorded: tracking is not evaluated; another topic by --reference'


def _unmodelled(reader: RecordingReader, tree: Robot) -> Iterator[str]:
    """Yield what of the recorded arm its model lacks."""
    pushes = f'{reader.topics.states.rpartition("/")[0]}/{PUSHES}'
    if count := reader.bag.counts.get(pushes):
        yield (
            f'the simulated arm was pushed ({counted(count, "message")} on {pushes}): these '
            'forces are an error of the model here'
        )
    limited = limits_efforts(tree)
    if not limited.all():
        of = f' of {", ".join(np.array(tree.joint_names)[~limited])}' if limited.any() else ''
        yield f'the description gives no effort limits{of}: saturation{of} is not evaluated'


def _write_rows(
    folder: Path, evaluation: RunEvaluation, settings: AnalysisSettings, every: int
) -> dict[str, Array]:
    """Write the tables and return the curves of the report, block by block of the rows."""
    run, program = evaluation.evaluated.run, evaluation.evaluated.program
    names = [row for x in program.stack.constraints for row in x.rows] if program else []
    count, curves = len(run.time), []
    size = max(_BLOCK, thinned(count, POINTS).step)
    with contextlib.ExitStack() as files:
        tables: list[WriteRows] = []
        if settings.tables:
            tables.append(files.enter_context(csv_table(folder / 'rows.csv', every)))
            with contextlib.suppress(MissingDependencyError):
                tables.append(files.enter_context(parquet_table(folder / 'rows.parquet')))
        for start in range(0, count if tables or settings.report else 0, size):
            rows = slice(start, start + size)
            some, columns = run.rows(rows), evaluation.columns(rows)
            for write in tables:
                write(flat_columns(some, columns, names))
            curves += [plot_series(some, columns, count)] if settings.report else []
    names = list(curves[0]) if curves else []
    return {name: np.concatenate([curve[name] for curve in curves]) for name in names}


def _steps(
    bag: str | os.PathLike[str],
    settings: AnalysisSettings,
    reader: RecordingReader,
    evaluation: RunEvaluation,
) -> list[str]:
    """Return the commands that follow an analysis, with the options that it was given."""
    figures, options, steps = evaluation.figures, settings.options, list[str]()
    unexplained = any(x > _EXPLAINED for x in figures['effort'].get('residual_share', ()))
    causes = {finding.cause for finding in evaluation.findings}
    lacks = UNIDENTIFIED in causes or 'drives' in causes and not evaluation.evaluated.identified
    wrong = lacks or any(x.severity == 'error' for x in evaluation.findings)
    if 'gravity' in causes:  # the rest is told with it
        fitted = figures['effort']['gravity']['fitted']
        words = '--gravity', *(f'{round(x, 4) + 0.0:g}' for x in fitted)
        steps.append(command_line('analyze', bag, options={**options, '--gravity': words}))
    elif wrong and unexplained and evaluation.identifiable:
        output = unused(_IDENTIFIED / short_name(Path(bag)))
        of = () if settings.effort == AUTO else ('--effort', settings.effort)
        load = ('--payload', evaluation.evaluated.frame) if 'load' in causes else ()
        for more in (load, ()) if load and 'drives' in causes else (load,):  # of the arm last
            words = *of, *more
            step = command_line('identify', bag, '--output', output, *words, options=options)
            steps.append(step)
    logged = bool(reader.bag.counts.get(reader.topics.changes))
    known = logged or limits_efforts(evaluation.evaluated.model.tree).all()
    if figures['tracking'] and figures['rates']['commands'] and known:
        read = REPLAY_READS if reader.parameters else (*REPLAY_READS, *REPLAY_MODEL)
        how = ('--reference', 'recorded') if reader.parameters and not logged else ()
        own = {name: words for name, words in options.items() if name in read}
        steps.append(command_line('replay', bag, *how, options=own))
    return steps


#: Metrics by name; and those that judge the model, for which the data must be valid.
METRICS: dict[str, Metric] = {
    'tracking': lambda given: tracking(given.run, given.model.tree, given.frame),
    'effort': effort,
    'cross_check': cross_check,
    'energy': energy,
    'limits': lambda given: limits(given.run, given.model.tree, given.source),
    'rates': rates,
    'contacts': contacts,
    'program': constraint_errors,
}
JUDGING = ('effort', 'energy', 'contacts')


class RunEvaluation(NamedTuple):
    """Results of all metrics on a run.

    Attributes:
        evaluated: The run.
        figures: Figures by metric.
        findings: Remarks, most severe first.
        notes: Remarks that judge nothing.
        results: Results by metric.
        identifiable: Whether command ``identify`` accepts the run.
    """

    evaluated: EvaluatedRun
    figures: dict[str, Any]
    findings: list[Finding]
    notes: list[str]
    results: Mapping[str, MetricResult]
    identifiable: bool

    def columns(self, rows: slice) -> dict[str, Array]:
        """Return the columns of all metrics by name, at some rows of the run."""
        tree, frame = self.evaluated.model.tree, self.evaluated.frame
        run = self.evaluated.run.rows(rows)
        q, reference = run.position, run.reference_position
        found = {'error': reference - q, 'reference': reference}
        found |= {'tool': tool_path(tree, q, frame), 'program': tool_path(tree, reference, frame)}
        for result in self.results.values():
            found |= {name: column[rows] for name, column in result.columns.items()}
        return found | effort_columns(self.evaluated, rows)


def evaluate(
    run: Recording,
    tree: Robot,
    settings: AnalysisSettings,
    *,
    until: float = math.inf,
    **more: Any,
) -> RunEvaluation:
    """Evaluate all metrics on a run.

    Args:
        run: The run.
        tree: The robot.
        settings: Settings of the analysis.
        until: Time from which on the arm carries another payload than the model, s.
        more: Further attributes of the evaluated run, see :class:`EvaluatedRun`.

    Raises:
        UnknownNameError: A formulation, effort, timing or frame does not exist, or a joint of the
            robot was not recorded.
    """
    known_name('effort', settings.effort, EFFORTS)
    model, frame = EffortModel(tree, settings.formulation), tool_frame(tree, settings.frame)
    run, outliers = without_outliers(run.of_joints(tree.joint_names))
    measured = settings.effort == 'measured' or (settings.effort == 'auto' and run.has_measured)
    kind = 'measured' if measured else 'commanded'
    preparation = Preparation(settings.timing, cutoff=settings.cutoff, effort=kind)
    samples = samples_of(run, tree, preparation)
    if measured and samples.timing.name == 'semi_implicit' and _is_late(run, model, preparation):
        samples = samples_of(run, tree, replace(preparation, delay=-1))
        kind = 'measured, delayed by one step'
    problems = problem_of(run, tree, measured=measured, samples=samples), outliers.problem
    if not measured and not np.isfinite(run.effort).any():
        kind = 'none'
    elif not measured and not np.isfinite(run.measured_effort).any():
        kind = 'commanded (none were measured)'
    run = replace(run, effort=samples.run.effort)
    if not np.nan_to_num(samples.run.velocity).any():  # noise, whose derivatives move no link
        run = replace(run, velocity=samples.run.velocity)
    timing, steps, more = samples.timing, samples.motion, {'contacts': settings.contacts, **more}
    steps = steps.where(steps.time < until)
    given = EvaluatedRun(run, steps, model, timing, kind, frame, until=until, **more)
    tried = ((name, metric(given)) for name, metric in METRICS.items())
    results = {name: result for name, result in tried if result is not None}
    findings = [Finding('error', f'{text}; no verdict on the model') for text in problems if text]
    valid = not findings
    findings += [
        Finding('ok', f'the program {text}: no verdict on the model, which lacks its forces')
        for name, text in _LACKS.items()
        if getattr(given.program, name, ())
    ]
    judges = not findings
    for name, result in results.items():
        findings += result.findings if judges or name not in JUDGING else ()
    remarks = [*late_velocities(run), *(() if outliers.few else outliers.remarks)]
    findings += [Finding('warning', text) for text in remarks]
    findings.sort(key=_severity)
    figures: dict[str, Any] = {
        'timing': {
            'name': timing.name,
            'reason': timing.reason,
            'cutoff_hz': timing.cutoff,
            'period_s': timing.period,
            'even': timing.even,
            'contradictions': len(outliers.states),
            'effort_outliers': len(outliers.efforts),
            'semi_implicit_remainder': timing.residual,
            'trapezoid_remainder': timing.trapezoidal_residual,
        }
    }
    figures |= {name: dict(result.figures) for name, result in results.items()}
    notes = outliers.remarks if outliers.few else []
    usable = valid and (tree.n == 1 or moving(run).sum() > 1)
    return RunEvaluation(given, figures, findings, notes, results, usable)


def _is_late(run: Recording, model: EffortModel, preparation: Preparation) -> bool:
    """Return whether measured efforts clearly agree better with the model one state earlier.

    Those of a simulator may be delayed by one state, which its first motion shows.
    """
    means = []
    for delay in (0, -1):
        way = replace(preparation, delay=delay)
        instants = samples_of(first_motion(run), model.tree, way).motion
        modelled = model.evaluate(instants)
        determined = modelled.determined & instants.effort.any(axis=0)
        squares = np.square(np.where(determined, modelled.residual, 0.0)).sum()
        means.append(float(squares / max(1, determined.sum())))
    return means[1] < _CLEAR_RATIO**2 * means[0]
