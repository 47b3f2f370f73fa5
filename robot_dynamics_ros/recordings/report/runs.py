# SPDX-License-Identifier: Apache-2.0
"""The reports of single runs: of a constraint program, and of a replay."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.error_dynamics import DecayComparison
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.metrics.metric import MetricRemark, at
from robot_dynamics_ros.recordings.metrics.program import ProgramMetrics, ProgramRun
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.report.figures import (
    COLOURS,
    GREY,
    RED,
    PlotLine,
    panels,
)
from robot_dynamics_ros.recordings.report.toolkit import (
    Report,
    ReportTable,
    joint_titles,
    joint_units,
)
from robot_dynamics_ros.spatial.scalar import Array


def program_report(title: str, lead: str, metrics: ProgramMetrics) -> Report:
    """Return the report, without figures.

    Args:
        title: Heading.
        lead: One sentence below it.
        metrics: Figures of the constraints.
    """
    head = ('row of f', 'at start', 'farthest from design', 'of the start', 'floor (RMS)')
    rows = [
        (
            name,
            f'{metrics.initial_f[i]:.4g}',
            f'{metrics.deviation[i]:.3e}',
            f'{100 * metrics.relative[i]:.3g} %',
            f'{metrics.floor[i]:.3e}',
        )
        for i, name in enumerate(metrics.rows)
    ]
    note = f'smallest singular value {metrics.sigma_min:.4g}; {metrics.damped_ticks} ticks damped'
    return Report(title, lead, tables=[ReportTable(head, rows)], notes=[note])


def program_figures(
    run: ProgramRun, design: DecayComparison, recording: Recording, effort_limit: Array
) -> list[tuple[str, Any]]:
    """Return headings and plotly figures: f against its designed decay, conditioning, efforts.

    Args:
        run: The recorded constraints.
        design: The exact decay.
        recording: The run, for its efforts.
        effort_limit: Shape (n,), N m or N.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    time, f, exact, rows = run.time, run.f, design.exact, list(run.rows)
    sigma = run.sigma_min[:, np.newaxis]
    both = [PlotLine(exact, 'design', GREY, 5.0), PlotLine(f, 'measured', COLOURS[0], 1.5)]
    distance = PlotLine(np.maximum(np.abs(f - exact), 1e-16), 'distance', COLOURS[1])
    damped = np.where(run.damped[:, np.newaxis], sigma, np.nan)
    condition = [
        PlotLine(sigma, 'smallest singular value', COLOURS[3], 1.5),
        PlotLine(damped, 'inverse damped', RED, 4.0),
    ]
    effort = [PlotLine(recording.effort, 'command', COLOURS[2])]
    limits = effort_limit.tolist()
    return [
        ('Constraints, measured and designed', panels(time, rows, both)),
        ('Distance from the design, |f − design|', panels(time, rows, [distance], log=True)),
        ('Smallest singular value of the constraint Jacobian', panels(time, [''], condition)),
        ('Effort and its limit', panels(recording.time, recording.joints, effort, limits=limits)),
    ]


def replay_report(title: str, tree: RobotTree, document: Mapping[str, Any]) -> Report:
    """Return the report, without figures.

    Args:
        title: Heading.
        tree: The robot.
        document: The figures, as in ``replay.json``.
    """
    forces = joint_units(tree, 'N m', 'N')
    rows = [
        [
            joint,
            *(f'{document[key][i]:.4g} {forces[i]}' for key in ('effort_rms', 'rms', 'peak')),
            at(document['peak_at'][i]),
        ]
        for i, joint in enumerate(document['joints'])
    ]
    head = ('joint', 'RMS effort', 'RMS difference', 'peak difference', 'at')
    tiles = [
        (f'{max(document["peak"]):.3g}', 'largest difference, N m or N'),
        (f'{document["commands"]}', 'commands compared'),
    ]
    tables = [ReportTable(head, rows)]
    return Report(title, _lead(document), _verdict(document), tiles, tables, document['notes'])


def replay_figures(tree: RobotTree, series: Mapping[str, Array]) -> list[tuple[str, Any]]:
    """Return headings and plotly figures.

    Args:
        tree: The robot.
        series: 'time' (N,), and 'recorded', 'replayed' and 'difference' (N, n).

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    titles = joint_titles(tree, 'N m', 'N')
    both = [
        PlotLine(series['recorded'], 'recorded', GREY, 4.0),
        PlotLine(series['replayed'], 'replayed', COLOURS[0], 1.5),
    ]
    difference = [PlotLine(series['difference'], 'difference', COLOURS[1])]
    return [
        ('Effort, recorded and replayed', panels(series['time'], titles, both)),
        ('Difference, replayed − recorded', panels(series['time'], titles, difference)),
    ]


def _lead(document: Mapping[str, Any]) -> str:
    changed = ', '.join(f'{key} = {value}' for key, value in document['changes'].items())
    parameters = (
        'with the recorded parameters'
        if document['parameters'] == 'recorded'
        else 'with usual parameters, as the bag has none'
    )
    return (
        f'{document["law"]} by {document["formulation"]}, {document["commands"]} commands; '
        f'{parameters}{f"; set otherwise: {changed}" if changed else ""}.'
    )


def _verdict(document: Mapping[str, Any]) -> list[MetricRemark]:
    """Say whether the commands are those that were recorded; nothing without a tolerance."""
    tolerance = document['tolerance']
    if document['first_difference_at'] is not None and not document['within_tolerance']:
        text = (
            f'{document["commands_beyond"]} of {document["commands"]} commands differ by more '
            f'than {tolerance:g}, the first at {at(document["first_difference_at"])}, the last '
            f'at {at(document["last_difference_at"])}'
        )
        return [MetricRemark('wrong', text)]
    if math.isfinite(tolerance):
        return [MetricRemark('good', f'every effort is within {tolerance:g}')]
    return []
