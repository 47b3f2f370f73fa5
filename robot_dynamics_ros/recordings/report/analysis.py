# SPDX-License-Identifier: Apache-2.0
"""Report of an analyzed recording: findings, figures and plots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robot_dynamics_ros.estimation.accumulate import DecimatedSeries, Envelope
from robot_dynamics_ros.estimation.effort_model import ORIGINS
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.metrics.metric import MetricRemark, format_time
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.report.figures import COLOURS, GREY, PlotLine, panels
from robot_dynamics_ros.recordings.report.toolkit import (
    ArmAnimation,
    Report,
    ReportTable,
    joint_table,
    joint_titles,
    joint_units,
    measured_arm,
)
from robot_dynamics_ros.spatial.scalar import Array

_MEASURED, _ERROR, _MODEL = COLOURS[0], COLOURS[1], COLOURS[3]
_OMITTED = ('acceleration', 'tool', 'program')


class Curves:
    """Collects the plotted curves of a run chunk by chunk, decimated but with all peaks."""

    def __init__(self, n: int) -> None:
        self._envelope, self._positions = Envelope(500), DecimatedSeries(2 * n)

    def __call__(self, recording: Recording, columns: Mapping[str, Array]) -> None:
        """Add the rows of a chunk and the columns of the metrics."""
        drawn = {name: x for name, x in columns.items() if name not in _OMITTED}
        self._envelope.take(recording.time, {'position': recording.position, **drawn})
        positions = np.hstack([recording.position, columns['reference']])
        self._positions.take(recording.time, positions)

    def series(self) -> dict[str, Array]:
        """Return 'time' (N,), s, and the curves (N, k) by name."""
        return self._envelope.series()

    def arm(self, tree: RobotTree, frame: str) -> ArmAnimation:
        """Return an animation of the run, with its reference as a ghost."""
        motions = measured_arm(*np.hsplit(self._positions.values, 2))
        return ArmAnimation(tree, frame, self._positions.time, motions)

    def figures(self, tree: RobotTree, figures: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return headings and plotly figures, except those without data.

        Raises:
            MissingDependencyError: The plot library is not installed.
        """
        series = self.series()
        drawn: list[tuple[str, Any]] = []
        for heading, titles, lines, limits in _panels(tree, series, figures):
            lines = [line for line in lines if np.isfinite(line.values).any()]
            if lines:
                drawn.append((heading, panels(series['time'], titles, lines, limits=limits)))
        return drawn


_Panels = tuple[str, list[str], list[PlotLine], Sequence[float]]


def motion_panels(tree: RobotTree, series: Mapping[str, Array]) -> list[_Panels]:
    """Return headings, panel titles, curves and limits of the tracking plots.

    Args:
        tree: The robot.
        series: 'tool_error' (N,) or (N, 1), m; 'reference', 'position', 'error' (N, n), rad or m.
    """
    angle, small = joint_titles(tree, 'rad', 'm'), joint_titles(tree, 'mrad', 'mm')
    followed = bool(np.isfinite(series['reference']).any())
    distance = PlotLine(1e3 * series['tool_error'].reshape(-1, 1), 'distance', _ERROR)
    return [
        ('Distance of the tool from its reference', ['distance [mm]'], [distance], ()),
        (
            'Joint positions, measured and reference' if followed else 'Joint positions, measured',
            angle,
            [
                PlotLine(series['reference'], 'reference', GREY, 4.0),
                PlotLine(series['position'], 'measured', _MEASURED, 1.5),
            ],
            (),
        ),
        (
            'Tracking error, reference − measured',
            small,
            [PlotLine(1e3 * series['error'], 'error', _ERROR)],
            (),
        ),
    ]


def _panels(
    tree: RobotTree, series: Mapping[str, Array], figures: Mapping[str, Any]
) -> list[_Panels]:
    """Return headings, panel titles, curves and limits of all plots."""
    force = joint_titles(tree, 'N m', 'N')
    limits = figures['limits']['effort_limit']
    limits = limits if np.isfinite(limits).any() else ()
    origins = [PlotLine(series[origin], origin, COLOURS[i]) for i, origin in enumerate(ORIGINS)]
    shown: list[_Panels] = [
        *motion_panels(tree, series),
        (
            'Effort, recorded and model',
            force,
            [
                PlotLine(series['effort'], 'recorded', GREY, 4.0),
                PlotLine(series['model'], 'model', _MODEL, 1.5),
            ],
            limits,
        ),
        (
            'Residual, recorded − model',
            force,
            [PlotLine(series['residual'], 'residual', _ERROR)],
            (),
        ),
        ('Model effort by origin', force, origins, ()),
        ('Energy', ['of the arm [J]', 'unexplained, cumulative [J]'], _energy(series), ()),
        (
            'Time between states',
            ['[ms]'],
            [PlotLine(1e3 * series['period'], 'period', _MEASURED, 1.0)],
            (),
        ),
    ]
    if 'external_effort' in series:
        lines = [PlotLine(series['external_effort'], 'external', _ERROR)]
        shown.append(('External effort of the environment on each joint', force, lines, ()))
    rows = figures.get('program', {}).get('rows', [])
    if rows:
        lines = [PlotLine(series['constraint'], 'f', _MEASURED)]
        titles = [f'{row} [m or rad]' for row in rows]
        shown.append(('Constraints of the program', titles, lines, ()))
    return shown


def _energy(series: Mapping[str, Array]) -> list[PlotLine]:
    """Return the curves of two panels: energy of the arm, and unexplained energy, J."""
    kinetic, potential = series['kinetic'], series['potential'] - series['potential'][:1]
    nothing = np.full(kinetic.shape, np.nan)
    return [
        PlotLine(np.hstack([kinetic, nothing]), 'kinetic', COLOURS[0]),
        PlotLine(np.hstack([potential, nothing]), 'potential, from the start', COLOURS[2]),
        PlotLine(np.hstack([nothing, series['unexplained_energy']]), 'unexplained', _ERROR),
    ]


def analysis_report(
    title: str,
    lead: str,
    tree: RobotTree,
    figures: Mapping[str, Any],
    findings: Sequence[MetricRemark],
    notes: Sequence[str],
) -> Report:
    """Return the report of an analysis, without plots.

    Args:
        title: Heading.
        lead: One sentence below it.
        tree: The robot.
        figures: Figures of all metrics, by metric name.
        findings: Remarks of the metrics, most severe first.
        notes: Remarks about the bag.
    """
    tables = [_joint_table(tree, figures), *_program_table(figures.get('program') or {})]
    remarks = [*_method_notes(figures), *notes]
    return Report(title, lead, findings, _tiles(figures), tables, remarks)


def _tiles(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    rates, tracking = figures['rates'], figures['tracking']
    tiles = [
        (f'{rates["duration_s"]:.4g} s', f'{rates["states"]} states at {rates["rate_hz"]:.4g} Hz')
    ]
    if tracking:
        tiles.append((f'{tracking["tool_rms_mm"]:.4g} mm', 'tool error, RMS'))
        tiles.append((f'{tracking["tool_peak_mm"]:.4g} mm', 'tool error, peak'))
    if 'residual_share' in figures['effort']:
        share = np.fmax.reduce(figures['effort']['residual_share'])
        tiles.append((f'{100 * share:.3g} %', 'effort unexplained by the model, worst joint'))
    share = np.fmax.reduce(figures['limits']['effort_share'])
    if not math.isnan(share):
        tiles.append((f'{100 * share:.0f} %', 'peak effort, of its limit'))
    tiles.append((f'{rates["jitter_us"]["p99"]:.3g} µs', 'jitter of the period, 99 %'))
    latency = rates['latency_us']
    if latency:
        tiles.append((f'{latency["p50"]:.4g} µs', f'median latency; 99 %: {latency["p99"]:.4g}'))
    return tiles


def _joint_table(tree: RobotTree, figures: Mapping[str, Any]) -> ReportTable:
    lengths, forces = joint_units(tree, 'rad', 'm'), joint_units(tree, 'N m', 'N')
    tracking, effort, limits = (figures[name] for name in ('tracking', 'effort', 'limits'))
    nothing, none, percent = [math.nan] * tree.n, [''] * tree.n, ['%'] * tree.n
    unexplained = np.multiply(100.0, effort.get('residual_share', nothing)).tolist()
    of_limit = np.multiply(100.0, limits['effort_share']).tolist()
    return joint_table(
        tree,
        [
            ('RMS error', tracking.get('rms_error', nothing), lengths),
            ('peak error', tracking.get('peak_error', nothing), lengths),
            ('RMS effort', effort.get('effort_rms', nothing), forces),
            ('RMS residual', effort.get('residual_rms', nothing), forces),
            ('unexplained', unexplained, percent),
            ('peak effort', limits['effort_peak'], forces),
            ('limit', limits['effort_limit'], forces),
            ('of limit', of_limit, percent),
            ('saturated ticks', limits['saturated_ticks'] or nothing, none),
        ],
    )


def _program_table(program: Mapping[str, Any]) -> list[ReportTable]:
    """Return a table of the errors of each row of a constraint program, if there is one."""
    if not program:
        return []
    rows = [
        [row, f'{program["rms"][i]:.4g}', f'{program["peak"][i]:.4g}', format_time(when)]
        for i, (row, when) in enumerate(zip(program['rows'], program['peak_at'], strict=True))
    ]
    head = (f'constraint of {program["program"]}', 'RMS of f, m or rad', 'peak', 'at')
    return [ReportTable(head, rows)]


def _method_notes(figures: Mapping[str, Any]) -> list[str]:
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
    left = [f'{why}: {sum(n)}' for why, n in effort.get('left_out', {}).items() if sum(n)]
    if left:
        notes.append(f'efforts left out of the residual: {", ".join(left)}')
    energy = figures['energy']
    if energy:
        notes.append(
            f'energy: work of the drives {energy["work_of_drives"]:.4g} J; gain of the arm '
            f'{energy["gained"]:.4g} J, loss by modelled friction '
            f'{energy["lost_in_friction"]:.4g} J, {energy["unexplained"]:.3g} J are unexplained'
        )
    return notes
