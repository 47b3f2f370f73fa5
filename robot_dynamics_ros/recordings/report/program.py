# SPDX-License-Identifier: Apache-2.0
"""The report of one run of a constraint program."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.error_dynamics import DecayComparison
from robot_dynamics_ros.recordings.program_run import ProgramMetrics, ProgramRun
from robot_dynamics_ros.recordings.report.toolkit import COLOURS, page, styled, subplots

_MOST_POINTS = 4000


def write_program_report(
    path: Path,
    title: str,
    lead: str,
    run: ProgramRun,
    metrics: ProgramMetrics,
    design: DecayComparison,
    effort: tuple[Any, Any, Any, Any],
) -> None:
    """Write the report: f against its designed decay, conditioning, efforts with limits.

    Args:
        path: The HTML file to write; it needs no network to be read.
        title: Heading.
        lead: One sentence below it.
        run: The recorded constraints.
        metrics: Their figures.
        design: The exact decay.
        effort: Joint names, times (N,), efforts (N, n) and limits (n,).

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    step = max(1, len(run.time) // _MOST_POINTS)
    figures = [
        ('Constraints, measured and designed', _constraint_figure(run, design, step)),
        ('Distance from the design', _deviation_figure(run, design, step)),
        ('Smallest singular value of the constraint Jacobian', _sigma_figure(run, step)),
        ('Effort and its limit', _effort_figure(*effort)),
    ]
    path.write_text(page(title, lead, [_table(metrics)], figures), encoding='utf-8')


def _grid(titles: list[str]) -> tuple[Any, list[tuple[int, int]]]:
    rows = (len(titles) + 1) // 2
    figure = subplots(rows=rows, cols=2, subplot_titles=titles, vertical_spacing=0.3 / rows)
    places = [(i // 2 + 1, i % 2 + 1) for i in range(len(titles))]
    for column in (1, 2):
        figure.update_xaxes(title_text='time [s]', row=rows, col=column)
    return figure, places


def _constraint_figure(run: ProgramRun, design: DecayComparison, step: int) -> Any:
    figure, places = _grid(list(run.rows))
    for i, (row, col) in enumerate(places):
        lines = (
            (design.exact, 'design', {'color': '#9b9a97', 'width': 5}),
            (run.f, 'measured', {'color': COLOURS[0], 'width': 1.5}),
        )
        for values, name, line in lines:
            figure.add_scatter(
                x=run.time[::step], y=values[::step, i], name=name, line=line,
                showlegend=i == 0, row=row, col=col,
            )  # fmt: skip
    return styled(figure, 260 * ((len(places) + 1) // 2) + 60)


def _deviation_figure(run: ProgramRun, design: DecayComparison, step: int) -> Any:
    figure = subplots(rows=1, cols=1)
    distance = np.maximum(np.abs(run.f - design.exact), 1e-16)
    for i, name in enumerate(run.rows):
        line = {'color': COLOURS[i % len(COLOURS)], 'width': 1.3}
        figure.add_scatter(x=run.time[::step], y=distance[::step, i], name=name, line=line)
    figure.update_yaxes(type='log', exponentformat='power', title_text='|f − design|')
    figure.update_xaxes(title_text='time [s]')
    return styled(figure, 340)


def _sigma_figure(run: ProgramRun, step: int) -> Any:
    figure = subplots(rows=1, cols=1)
    line = {'color': COLOURS[3], 'width': 1.5}
    figure.add_scatter(
        x=run.time[::step], y=run.sigma_min[::step], line=line, name='smallest singular value'
    )
    damped = np.where(run.damped, run.sigma_min, np.nan)
    if run.damped.any():
        line = {'color': '#e03e3e', 'width': 4}
        figure.add_scatter(x=run.time[::step], y=damped[::step], line=line, name='inverse damped')
    figure.update_yaxes(rangemode='tozero')
    figure.update_xaxes(title_text='time [s]')
    return styled(figure, 300)


def _effort_figure(joints: Any, time: Any, effort: Any, limit: Any) -> Any:
    step = max(1, len(time) // _MOST_POINTS)
    figure, places = _grid(list(joints))
    for i, (row, col) in enumerate(places):
        figure.add_scatter(
            x=time[::step], y=effort[::step, i], name='command', showlegend=i == 0,
            line={'color': COLOURS[2], 'width': 1.3}, row=row, col=col,
        )  # fmt: skip
        for sign in (-1.0, 1.0):
            figure.add_hline(
                y=sign * float(limit[i]), line_dash='dash', line_color='#e03e3e',
                row=row, col=col,
            )  # fmt: skip
    return styled(figure, 240 * ((len(places) + 1) // 2) + 60)


def _table(metrics: ProgramMetrics) -> str:
    head = ('row', 'f at start', 'largest distance from design', 'of the start', 'floor (RMS)')
    rows = [
        (
            escape(name),
            f'{metrics.initial_f[i]:.4g}',
            f'{metrics.deviation[i]:.3e}',
            f'{100 * metrics.relative[i]:.3g} %',
            f'{metrics.floor[i]:.3e}',
        )
        for i, name in enumerate(metrics.rows)
    ]
    cells = ''.join(f'<tr>{"".join(f"<td>{c}</td>" for c in row)}</tr>' for row in rows)
    return f'<table><tr>{"".join(f"<th>{c}</th>" for c in head)}</tr>{cells}</table>'
