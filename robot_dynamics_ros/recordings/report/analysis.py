# SPDX-License-Identifier: Apache-2.0
"""Result of an analyzed recording, and its report: findings, figures and plots."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.estimation.accumulate import envelope, thinned
from robot_dynamics_ros.estimation.effort_model import ORIGINS
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.recordings.bag.files import short_name
from robot_dynamics_ros.recordings.metrics.metric import ThresholdResult
from robot_dynamics_ros.recordings.recording import (
    Recording,
    format_duration,
    format_time,
)
from robot_dynamics_ros.recordings.report.figures import COLOURS, GREY, PlotLine, Plots
from robot_dynamics_ros.recordings.report.toolkit import (
    FORCE,
    LENGTH,
    NO_UNIT,
    ROUNDING,
    ArmAnimation,
    Report,
    ReportTable,
    joint_table,
    joint_titles,
    measured_arm,
    quantity,
)
from robot_dynamics_ros.spatial.scalar import Array

_MEASURED, _ERROR, _MODEL = COLOURS[0], COLOURS[1], COLOURS[3]
_OMITTED = ('acceleration', 'tool', 'program')
#: Figures of the decay of a constraint program, and their headings.
_DECAY = {
    'initial': 'at start',
    'deviation': 'largest deviation from its decay',
    'floor': f'RMS of f in the last quarter of the motion (0: below {ROUNDING:g})',
}


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
    findings: tuple[Finding, ...] = ()
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
            'findings': [{'severity': x.severity, 'text': str(x)} for x in self.findings],
            'thresholds': [
                {'threshold': str(v.threshold), 'value': v.value, 'holds': v.holds}
                for v in self.verdicts
            ],
            'notes': list(self.notes),
        }


def plot_series(run: Recording, columns: Mapping[str, Array], count: int = 0) -> dict[str, Array]:
    """Return 'time' (K,), s, and the plotted curves (K, k), decimated but with all peaks.

    Args:
        run: The recording.
        columns: Columns of its N rows by name, shape (N,) or (N, k).
        count: Number of all rows if these are some, see ``envelope``.
    """
    shown = {name: values for name, values in columns.items() if name not in _OMITTED}
    return envelope(run.time, {'position': run.position, **shown}, count=count)


def run_animation(run: Recording, tree: Robot, frame: str, *program: Any) -> ArmAnimation:
    """Return an animation of a run, its reference as a ghost, and a program with its start, s."""
    rows = thinned(len(run.time))
    motions = measured_arm(run.position[rows], run.reference_position[rows])
    return ArmAnimation(tree, frame, run.time[rows], motions, *program)


def plot_motion(plots: Plots, tree: Robot, series: Mapping[str, Array]) -> None:
    """Draw the tracking of a run.

    Args:
        plots: The figures drawn so far.
        tree: The robot.
        series: 'tool_error' (N,) or (N, 1), m; 'reference', 'position', 'error' (N, n), rad or m.
    """
    plots.add(
        'Distance of the tool from its reference',
        ['distance [mm]'],
        PlotLine(1e3 * series['tool_error'].reshape(-1, 1), 'distance', _ERROR),
    )
    followed = bool(np.isfinite(series['reference']).any())
    plots.add(
        'Joint positions, measured and reference' if followed else 'Joint positions, measured',
        joint_titles(tree, *LENGTH),
        PlotLine(series['reference'], 'reference', GREY, 4.0),
        PlotLine(series['position'], 'measured', _MEASURED, 1.5),
    )
    plots.add(
        'Tracking error, reference − measured',
        joint_titles(tree, 'mrad', 'mm'),
        PlotLine(1e3 * series['error'], 'error', _ERROR),
    )


def analysis_figures(
    tree: Robot, series: Mapping[str, Array], figures: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """Return headings and plotly figures of an analysis, except those without data.

    Args:
        tree: The robot.
        series: The curves, see :func:`plot_series`.
        figures: Figures of all metrics, by metric name.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    plots, force = Plots(series['time']), joint_titles(tree, *FORCE)
    plot_motion(plots, tree, series)
    limits = figures['limits']['effort_limit']
    plots.add(
        'Effort, recorded and model',
        force,
        PlotLine(series['effort'], 'recorded', GREY, 4.0),
        PlotLine(series['model'], 'model', _MODEL, 1.5),
        limits=limits if np.isfinite(limits).any() else (),
    )
    residual = PlotLine(series['residual'], 'residual', _ERROR)
    plots.add('Residual, recorded − model', force, residual)
    origins = (PlotLine(series[origin], origin, COLOURS[i]) for i, origin in enumerate(ORIGINS))
    plots.add('Model effort by origin', force, *origins)
    kinetic, potential = series['kinetic'], series['potential'] - series['potential'][:1]
    nothing = np.full(kinetic.shape, np.nan)
    plots.add(
        'Energy',
        ['of the arm [J]', 'unexplained, cumulative [J]'],
        PlotLine(np.hstack([kinetic, nothing]), 'kinetic', COLOURS[0]),
        PlotLine(np.hstack([potential, nothing]), 'potential, from the start', COLOURS[2]),
        PlotLine(np.hstack([nothing, series['unexplained_energy']]), 'unexplained', _ERROR),
    )
    period = PlotLine(1e3 * series['period'], 'period', _MEASURED, 1.0)
    plots.add('Time between states', ['[ms]'], period)
    if 'external_effort' in series:
        external = PlotLine(series['external_effort'], 'external', _ERROR)
        plots.add('External effort of the environment on each joint', force, external)
    rows = figures.get('program', {}).get('rows', [])
    if rows:
        constraint = PlotLine(series['constraint'], 'f', _MEASURED)
        titles = [f'{row} [m or rad]' for row in rows]
        design = PlotLine(series['design'], 'design', GREY, 5.0)
        plots.add('Constraints of the program, and its designed decay', titles, design, constraint)
        off = np.abs(series['constraint'] - series['design'])
        distance = PlotLine(np.where(off > ROUNDING, off, np.nan), 'deviation', _ERROR)
        plots.add('Deviation from the design, |f − design|', titles, distance, log=True)
        sigma = PlotLine(series['singular_value'], 'smallest singular value', _MODEL)
        plots.add('Smallest singular value of the constraint Jacobian', ['[1]'], sigma)
    return plots.drawn


def analysis_report(
    bag: str | os.PathLike[str],
    tree: Robot,
    figures: Mapping[str, Any],
    findings: Sequence[Finding],
    notes: Sequence[str],
    steps: Sequence[str] = (),
) -> Report:
    """Return the report of an analysis, without plots.

    Args:
        bag: Path of the bag.
        tree: The robot.
        figures: Figures of all metrics, by metric name.
        findings: Remarks of the metrics, most severe first.
        notes: Remarks about the bag.
        steps: Commands to go on with.
    """
    rates = figures['rates']
    lead = f'{bag}: {tree.name}, {rates["duration_s"]:.4g} s, {_states(rates)}.'
    title = f'Recording {short_name(Path(bag))}'
    tables = [_joint_table(tree, figures), *_program_table(figures.get('program') or {})]
    remarks = [*_method_notes(tree.joint_names, figures), *notes]
    return Report(title, lead, findings, _tiles(figures), tables, remarks, steps=steps)


def _states(rates: Mapping[str, Any]) -> str:
    """Return the number of states and their rate, if they have one."""
    rate = rates['rate_hz']
    return counted(rates['states'], 'state') + ('' if math.isnan(rate) else f' at {rate:.4g} Hz')


def _tiles(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    rates, tracking = figures['rates'], figures['tracking']
    tiles = [(f'{rates["duration_s"]:.4g} s', _states(rates))]
    if tracking and not math.isnan(tracking['tool_rms_mm']):
        tiles.append((f'{tracking["tool_rms_mm"]:.4g} mm', 'tool error, RMS'))
        tiles.append((f'{tracking["tool_peak_mm"]:.4g} mm', 'tool error, peak'))
    if 'residual_share' in figures['effort']:
        share = np.fmax.reduce(figures['effort']['residual_share'])
        tiles.append((f'{100 * share:.3g} %', 'effort unexplained by the model, worst joint'))
    share = np.fmax.reduce(figures['limits']['effort_share'])
    if not math.isnan(share):
        tiles.append((f'{100 * share:.0f} %', 'peak effort, of its limit'))
    jitter = format_duration(1e-6 * rates['jitter_us']['p99'])
    tiles.append((jitter, 'jitter of the period, 99 %'))
    latency = rates['latency_us']
    if latency:
        median, late = (format_duration(1e-6 * latency[key]) for key in ('p50', 'p99'))
        tiles.append((median, f'median latency; 99 %: {late}'))
    return tiles


def _joint_table(tree: Robot, figures: Mapping[str, Any]) -> ReportTable:
    tracking, effort, limits = (figures[name] for name in ('tracking', 'effort', 'limits'))
    nothing, percent = [math.nan] * tree.n, ('%', '%')
    unexplained = np.multiply(100.0, effort.get('residual_share', nothing)).tolist()
    of_limit = np.multiply(100.0, limits['effort_share']).tolist()
    return joint_table(
        tree,
        [
            ('RMS error', tracking.get('rms_error', nothing), LENGTH),
            ('peak error', tracking.get('peak_error', nothing), LENGTH),
            ('RMS effort', effort.get('effort_rms', nothing), FORCE),
            ('RMS residual', effort.get('residual_rms', nothing), FORCE),
            ('unexplained', unexplained, percent),
            ('peak effort', limits['effort_peak'], FORCE),
            ('limit', limits['effort_limit'], FORCE),
            ('of limit', of_limit, percent),
            ('saturated ticks', limits['saturated_ticks'] or nothing, NO_UNIT),
        ],
    )


def _program_table(program: Mapping[str, Any]) -> list[ReportTable]:
    """Return a table of the errors of each row of a constraint program, if there is one."""
    if not program:
        return []
    rows = []
    for i, (row, when) in enumerate(zip(program['rows'], program['peak_at'], strict=True)):
        known = [quantity(program[key][i]) for key in _DECAY if key in program]
        peaks = f'{program["rms"][i]:.4g}', f'{program["peak"][i]:.4g}', format_time(when)
        rows.append([row, *peaks, *known])
    head = (f'constraint of {program["program"]}', 'RMS of f, m or rad', 'peak', 'at')
    return [ReportTable((*head, *(text for key, text in _DECAY.items() if key in program)), rows)]


def _method_notes(joints: Sequence[str], figures: Mapping[str, Any]) -> list[str]:
    """Return notes on how the figures were obtained."""
    effort, check = figures['effort'], figures['cross_check']
    notes = [
        f'efforts: {effort["source"]}; formulation: {effort.get("formulation", "none")}',
        f'timing: {figures["timing"]["reason"]}',
    ]
    if not math.isnan(check.get('relative', math.nan)):
        notes.append(
            f'{check["against"]} agrees on {check["states"]} of the recorded states to '
            f'{check["relative"]:.1g} of the effort'
        )
    elif 'skipped' in check:
        notes.append(f'not checked against another formulation: {check["skipped"]}')
    left = []
    for why, n in effort.get('left_out', {}).items():
        which = [joint for joint, count in zip(joints, n, strict=True) if count]
        own = f' of {", ".join(which)}' if len(which) < len(n) else ''
        left += [f'{why}: {sum(n)}{own}'] if which else []
    if left:
        notes.append(f'states left out of the residual, summed over the joints: {", ".join(left)}')
    counts = zip(joints, effort.get('evaluated', ()), strict=False)
    if unused := [joint for joint, count in counts if not count]:
        notes.append(f'no state is left of {", ".join(unused)}')
    if end := figures.get('program', {}).get('end'):
        notes.append(
            f'the motion of the program ends at {format_time(end)}; the figures of f without the '
            'arm at its start and its end: --from and --to'
        )
    tracking = figures['tracking']
    if tracking and not math.isnan(tracking['tool_rms_mm']):
        rms, peak = (f'{tracking[key]:.4g} mm' for key in ('tool_rms_mm', 'tool_peak_mm'))
        most = f'at most {peak}, at {format_time(tracking["tool_peak_at"])}'
        notes.append(f'tool: {tracking["frame"]} is {rms} from its reference, RMS; {most}')
    energy = figures['energy']
    if energy:
        notes.append(
            f'energy: work of the drives {energy["work_of_drives"]:.4g} J; gain of the arm '
            f'{energy["gained"]:.4g} J, loss by modelled friction '
            f'{energy["lost_in_friction"]:.4g} J, {energy["unexplained"]:.3g} J are unexplained'
        )
    return notes
