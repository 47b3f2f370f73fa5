# SPDX-License-Identifier: Apache-2.0
"""The report of one run of a constraint program."""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.error_dynamics import DecayComparison
from robot_dynamics_ros.recordings.metrics.program import ProgramMetrics, ProgramRun
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.report.toolkit import (
    COLOURS,
    GREY,
    RED,
    PlotLine,
    Report,
    ReportTable,
    panels,
    thinning,
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
    some, rows = thinning(run.time), list(run.rows)
    time, f, exact = run.time[some], run.f[some], design.exact[some]
    sigma = run.sigma_min[some, np.newaxis]
    both = [PlotLine(exact, 'design', GREY, 5.0), PlotLine(f, 'measured', COLOURS[0], 1.5)]
    distance = PlotLine(np.maximum(np.abs(f - exact), 1e-16), 'distance', COLOURS[1])
    damped = np.where(run.damped[some, np.newaxis], sigma, np.nan)
    condition = [
        PlotLine(sigma, 'smallest singular value', COLOURS[3], 1.5),
        PlotLine(damped, 'inverse damped', RED, 4.0),
    ]
    drawn = recording.rows(thinning(recording.time))
    effort = [PlotLine(drawn.effort, 'command', COLOURS[2])]
    limits = effort_limit.tolist()
    return [
        ('Constraints, measured and designed', panels(time, rows, both)),
        ('Distance from the design, |f − design|', panels(time, rows, [distance], log=True)),
        ('Smallest singular value of the constraint Jacobian', panels(time, [''], condition)),
        ('Effort and its limit', panels(drawn.time, drawn.joints, effort, limits=limits)),
    ]
