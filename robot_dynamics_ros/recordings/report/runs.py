# SPDX-License-Identifier: Apache-2.0
"""Reports of constraint programs, replays, tracking runs and model corrections."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.error_dynamics import DecayComparison
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.arm import tool_frame
from robot_dynamics_ros.recordings.metrics.metric import MetricRemark
from robot_dynamics_ros.recordings.metrics.program import ProgramMetrics, ProgramRun
from robot_dynamics_ros.recordings.metrics.tracking import TrackingMetrics, tracking
from robot_dynamics_ros.recordings.recording import Recording, format_time
from robot_dynamics_ros.recordings.report.analysis import plot_motion, plot_series, run_animation
from robot_dynamics_ros.recordings.report.figures import (
    COLOURS,
    GREY,
    RED,
    PlotLine,
    Plots,
)
from robot_dynamics_ros.recordings.report.toolkit import (
    FORCE,
    LENGTH,
    NO_UNIT,
    ArmAnimation,
    Report,
    ReportList,
    ReportTable,
    joint_table,
    joint_titles,
    joint_units,
    measured_arm,
    quantity,
)
from robot_dynamics_ros.spatial.scalar import Array

_NAMES = ('by the description', 'by the corrected model')
_LOWEST = 1e-9  # m or rad; lower bound on logarithmic axes


def program_report(title: str, lead: str, metrics: ProgramMetrics) -> Report:
    """Return the report of a constraint program, without plots.

    Args:
        title: Heading.
        lead: One sentence below it.
        metrics: Metrics of the constraints.
    """
    head = ('row of f', 'at start', 'largest deviation', 'of largest start', 'final RMS')
    rows = [
        (
            name,
            quantity(metrics.initial_f[i], unit),
            quantity(metrics.deviation[i], unit),
            quantity(100 * metrics.relative[i], '%'),
            quantity(metrics.floor[i], unit),
        )
        for i, name in enumerate(metrics.rows)
        for unit in [name.rpartition('(')[2].rstrip(')')]
    ]
    note = f'smallest singular value {metrics.sigma_min:.4g}; {metrics.damped_ticks} ticks damped'
    return Report(title, lead, tables=[ReportTable(head, rows)], notes=[note])


def program_figures(
    run: ProgramRun, design: DecayComparison, recording: Recording, tree: Robot
) -> list[tuple[str, Any]]:
    """Return headings and plotly figures: f and its designed decay, conditioning, efforts.

    Args:
        run: The recorded constraints.
        design: The exact decay.
        recording: The recorded run, for its efforts.
        tree: The robot.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    time, f, exact, rows = run.time, run.f, design.exact, list(run.rows)
    sigma = run.sigma_min[:, np.newaxis]
    plots, efforts = Plots(time), Plots(recording.time)
    plots.add(
        'Constraints, measured and designed',
        rows,
        PlotLine(exact, 'design', GREY, 5.0),
        PlotLine(f, 'measured', COLOURS[0], 1.5),
    )
    distance = PlotLine(np.maximum(np.abs(f - exact), 1e-16), 'deviation', COLOURS[1])
    plots.add('Deviation from the design, |f − design|', rows, distance, log=True)
    damped = np.where(run.damped[:, np.newaxis], sigma, np.nan)
    plots.add(
        'Smallest singular value of the constraint Jacobian',
        ['smallest singular value [1]'],
        PlotLine(sigma, 'smallest singular value', COLOURS[3], 1.5),
        PlotLine(damped, 'inverse damped', RED, 4.0),
    )
    force = joint_titles(tree, *FORCE)
    _plot_efforts(
        efforts, force, recording.of_joints(tree.joint_names), tree.effort_limit.tolist()
    )
    return plots.drawn + efforts.drawn


def _plot_efforts(
    plots: Plots, titles: Sequence[str], run: Recording, limits: Sequence[float]
) -> None:
    command = PlotLine(run.effort, 'command', COLOURS[2])
    plots.add('Effort and its limit', titles, command, limits=limits)


def replay_report(
    title: str,
    tree: Robot,
    document: Mapping[str, Any],
    run: Recording,
    columns: Mapping[str, Array],
) -> Report:
    """Return the report of a replay.

    Args:
        title: Heading.
        tree: The robot.
        document: The figures, as in ``replay.json``.
        run: The recording.
        columns: 'recorded', 'replayed' and 'difference', shape (N, n), N m or N.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    series, force = plot_series(run, columns.items()), joint_titles(tree, *FORCE)
    plots = Plots(series['time'])
    plots.add(
        'Effort, recorded and replayed',
        force,
        PlotLine(series['recorded'], 'recorded', GREY, 4.0),
        PlotLine(series['replayed'], 'replayed', COLOURS[0], 1.5),
    )
    difference = PlotLine(series['difference'], 'difference', COLOURS[1])
    plots.add('Difference, replayed − recorded', force, difference)
    units = joint_units(tree, *FORCE)
    rows = [
        [
            joint,
            *(f'{document[key][i]:.4g} {units[i]}' for key in ('effort_rms', 'rms', 'peak')),
            format_time(document['peak_at'][i]),
        ]
        for i, joint in enumerate(document['joints'])
    ]
    head = ('joint', 'RMS effort', 'RMS difference', 'peak difference', 'at')
    tiles = [
        (f'{max(document["peak"]):.3g}', 'largest difference, N m or N'),
        (f'{document["commands"]} commands', 'compared'),
    ]
    return Report(
        title,
        _lead(document),
        _verdict(document),
        tiles,
        [ReportTable(head, rows)],
        document['notes'],
        figures=plots.drawn,
        arm=run_animation(run, tree, tool_frame(tree)),
    )


def _lead(document: Mapping[str, Any]) -> str:
    changed = ', '.join(f'{key} = {value}' for key, value in document['changes'].items())
    parameters = (
        'with the recorded parameters'
        if document['parameters'] == 'recorded'
        else 'with default parameters, as the bag has none'
    )
    return (
        f'{document["law"]} by {document["formulation"]}, {document["commands"]} commands; '
        f'{parameters}{f"; changed: {changed}" if changed else ""}.'
    )


def _verdict(document: Mapping[str, Any]) -> list[MetricRemark]:
    """Report whether the commands agree with the recorded ones; empty without a tolerance."""
    tolerance, compared = document['tolerance'], document['commands']
    if document['first_difference_at'] is not None:
        first, last = (
            format_time(document[f'{which}_difference_at']) for which in ('first', 'last')
        )
        text = (
            f'{document["commands_beyond"]} of {compared} commands differ by more than '
            f'{tolerance:g} or are not finite, the first at {first}, the last at {last}'
        )
        return [MetricRemark('wrong', text)]
    text = f'every effort is within {tolerance:g}'
    if document['first_missing_at'] is not None:
        total = round(compared / document['commands_compared_share'])
        text = (
            f'{compared} of {total} commands compared, the first that is missing at '
            f'{format_time(document["first_missing_at"])}; of these, {text}'
        )
    if not math.isfinite(tolerance):
        return []
    return [MetricRemark('good' if document['within_tolerance'] else 'wrong', text)]


def write_tracking_report(
    path: Path,
    title: str,
    lead: str,
    recording: Recording,
    tree: Robot,
    metrics: TrackingMetrics,
    frame: str = 'tool',
    notes: Sequence[str] = (),
) -> None:
    """Write the report of one run: joint tracking, tool path, efforts with limits, errors.

    Args:
        path: The HTML file to write, readable offline.
        title: Heading, such as 'scara under computed torque'.
        lead: One sentence below it.
        recording: The run.
        tree: The robot.
        metrics: Metrics of the run, shown as tiles and a table.
        frame: The tool frame.
        notes: Remarks on the motion.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    run = _window(recording, tree, metrics)
    series = {'position': run.position, **tracking(run, tree, frame).columns}
    plots = Plots(run.time)
    plot_motion(plots, tree, series)
    _plot_efforts(plots, joint_titles(tree, *FORCE), run, metrics.effort_limit)
    arm = ArmAnimation(tree, frame, run.time, measured_arm(run.position, run.reference_position))
    tables = [_table(metrics, tree)]
    report = Report(title, lead, tiles=_tiles(metrics), tables=tables, notes=notes)
    replace(report, figures=plots.drawn, arm=arm).write(path)


def write_correction_report(
    path: Path,
    title: str,
    lead: str,
    tree: Robot,
    runs: tuple[Recording, Recording],
    metrics: tuple[TrackingMetrics, TrackingMetrics],
    links: Sequence[tuple[str, str]],
) -> None:
    """Write the report of a model correction: the same motion under the old and the new model.

    Args:
        path: The HTML file to write, readable offline.
        title: Heading.
        lead: One sentence below it.
        tree: The robot, for its geometry.
        runs: Runs of the same controller and motion, under the old and under the new model.
        metrics: Metrics of both runs.
        links: Name and description of related files in the same folder.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    before, after = metrics
    windows = [_window(run, tree, m) for run, m in zip(runs, metrics, strict=True)]
    rows = min(len(run.time) for run in windows)
    columns = [tracking(run.rows(slice(rows)), tree, 'tool').columns for run in windows]
    errors = [tracked['error'] for tracked in columns]
    distances = [1e3 * tracked['tool_error'][:, np.newaxis] for tracked in columns]
    plots, joints = Plots(windows[0].time[:rows]), joint_titles(tree, *LENGTH)
    for heading, titles, values in (
        ('Distance of the tool from its path, logarithmic', ['[mm]'], distances),
        ('Tracking errors of the joints, absolute, logarithmic', joints, errors),
    ):
        sizes = [np.maximum(np.abs(x), _LOWEST) for x in values]
        lines = map(PlotLine, sizes, _NAMES, (COLOURS[1], COLOURS[0]))
        plots.add(heading, titles, *lines, log=True)
    old, new = before.tool_rms_mm, after.tool_rms_mm
    tiles = [
        (f'{old:.3g} mm', f'tool error {_NAMES[0]}, RMS'),
        (f'{new:.3g} mm', f'tool error {_NAMES[1]}, RMS'),
        (ratio_text(old, new), 'same controller, same motion, same arm'),
    ]
    files, texts = zip(*links, strict=True)
    below = [ReportList('Related files', texts, files)]
    tables = [correction_table(tree, before, after)]
    Report(title, lead, tiles=tiles, tables=tables, figures=plots.drawn, below=below).write(path)


def _window(recording: Recording, tree: Robot, metrics: TrackingMetrics) -> Recording:
    """Return the rows of the evaluated window."""
    return recording.of_joints(tree.joint_names).between(metrics.start, metrics.end)


def ratio_text(before: float, after: float) -> str:
    """Return the ratio of two errors as text, to two digits and without an exponent."""
    return f'{float(f"{before / max(after, _LOWEST):.2g}"):,.15g} times less'


def _tiles(metrics: TrackingMetrics) -> list[tuple[str, str]]:
    share = float(np.max(np.array(metrics.peak_effort) / np.array(metrics.effort_limit)))
    return [
        (f'{metrics.tool_rms_mm:.4g} mm', 'tool error, RMS'),
        (f'{metrics.tool_peak_mm:.4g} mm', 'tool error, peak'),
        (f'{100 * share:.0f} %', 'peak effort, of its limit'),
        (f'{sum(metrics.saturated_ticks)}', 'saturated ticks'),
        (f'{metrics.commands}', 'commands'),
    ]


def _table(metrics: TrackingMetrics, tree: Robot) -> ReportTable:
    return joint_table(
        tree,
        [
            ('RMS error', metrics.rms_error, LENGTH),
            ('peak error', metrics.peak_error, LENGTH),
            ('peak effort', metrics.peak_effort, FORCE),
            ('limit', metrics.effort_limit, FORCE),
            ('saturated', metrics.saturated_ticks, NO_UNIT),
        ],
    )


def correction_table(tree: Robot, before: TrackingMetrics, after: TrackingMetrics) -> ReportTable:
    """Return a table of the tracking errors under the old and the new model."""
    rows = [
        (joint, f'{old:.3g} {unit}', f'{new:.3g} {unit}', ratio_text(old, new))
        for joint, old, new, unit in zip(
            (*tree.joint_names, 'tool'),
            (*before.rms_error, before.tool_rms_mm),
            (*after.rms_error, after.tool_rms_mm),
            (*joint_units(tree, *LENGTH), 'mm'),
            strict=True,
        )
    ]
    title = 'Tracking error of the same controller, RMS'
    return ReportTable(('joint', *_NAMES, ''), rows, title)
