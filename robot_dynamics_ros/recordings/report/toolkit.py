# SPDX-License-Identifier: Apache-2.0
"""Self-contained HTML reports; the only importer of the plot library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import MissingDependencyError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.metrics.tracking_metrics import TrackingMetrics, tool_path
from robot_dynamics_ros.recordings.recording import Recording

COLOURS = ('#0b6e99', '#d9730d', '#0f7b6c', '#ad1a72', '#6940a5', '#937264', '#dfab01')
_INK = '#37352f'
_MOST_POINTS = 4000
_TOP = 30  # pixels for the legend and the tools above the titles of the panels

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
 body {{ font: 15px/1.5 system-ui, sans-serif; color: #37352f; margin: 2rem auto;
        max-width: 1240px; padding: 0 1rem; }}
 h1 {{ font-size: 1.6rem; margin: 0; }} h2 {{ font-size: 1.1rem; margin: 2rem 0 .3rem; }}
 p.lead {{ margin: .2rem 0 1.2rem; color: #6b6a66; }}
 table {{ border-collapse: collapse; margin: .5rem 0 1rem; }}
 th, td {{ padding: .25rem .9rem; text-align: right; border-bottom: 1px solid #e6e6e4; }}
 th:first-child, td:first-child {{ text-align: left; }} th {{ font-weight: 600; }}
 .tiles {{ display: flex; flex-wrap: wrap; gap: .8rem; margin-bottom: 1rem; }}
 .tile {{ border: 1px solid #e6e6e4; border-radius: 8px; padding: .5rem 1rem; min-width: 9rem; }}
 .tile b {{ display: block; font-size: 1.35rem; }} .tile span {{ color: #6b6a66; }}
</style></head><body>
<h1>{title}</h1><p class="lead">{lead}</p>
{body}
</body></html>
"""


def write_tracking_report(
    path: Path,
    title: str,
    lead: str,
    recording: Recording,
    tree: RobotTree,
    metrics: TrackingMetrics,
    frame: str = 'tool',
) -> None:
    """Write the report of one run: joint tracking, tool path, efforts with limits, errors.

    Args:
        path: The HTML file to write; it needs no network to be read.
        title: Heading, such as 'scara under computed torque'.
        lead: One sentence below it.
        recording: The run.
        tree: The robot.
        metrics: Its figures, shown as tiles and a table.
        frame: The tool frame.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    run = recording.of_joints(tree.joint_names).between(metrics.start, metrics.end)
    thin = run.every(max(1, len(run.time) // _MOST_POINTS))
    figures = [
        ('Tool path against the program', _tool_figure(thin, tree, frame)),
        ('Joint positions, measured and reference', _joint_figure(thin, tree)),
        ('Tracking error, reference − measured', _error_figure(thin, tree)),
        ('Effort and its limit', _effort_figure(thin, tree)),
    ]
    tables = [_tiles(metrics), _table(metrics, tree)]
    path.write_text(page(title, lead, tables, figures), encoding='utf-8')


def page(
    title: str,
    lead: str,
    tables: Sequence[str],
    figures: Sequence[tuple[str, Any]],
    below: Sequence[str] = (),
) -> str:
    """Return a self-contained HTML page.

    Args:
        title: Heading.
        lead: One sentence below it.
        tables: HTML to stand before the figures.
        figures: Headings and plotly figures.
        below: HTML to stand behind the figures.
    """
    body = list(tables)
    for index, (heading, figure) in enumerate(figures):
        body.append(f'<h2>{escape(heading)}</h2>')
        body.append(
            figure.to_html(
                full_html=False, include_plotlyjs=index == 0, config={'displaylogo': False}
            )
        )
    body += below
    return _PAGE.format(title=escape(title), lead=escape(lead), body='\n'.join(body))


def subplots(**options: Any) -> Any:
    """Return an empty figure of panels; see plotly's make_subplots for the options."""
    return _plotly()[1](**options)


def _plotly() -> tuple[Any, Any]:
    try:
        from plotly import graph_objects
        from plotly.subplots import make_subplots
    except ImportError as error:
        raise MissingDependencyError(
            'plotly', 'the HTML report', "install it (pip 'plotly')"
        ) from error
    return graph_objects, make_subplots


def styled(figure: Any, height: int) -> Any:
    """Return a figure in the reports' style, with a height in pixels."""
    figure.update_layout(
        template='plotly_white',
        height=height + _TOP,
        margin={'l': 60, 'r': 20, 't': 30 + _TOP, 'b': 40},
        font={'color': _INK, 'size': 12},
        legend={'orientation': 'h', 'yref': 'container', 'y': 1, 'yanchor': 'top', 'x': 0},
        hovermode='x unified',
    )
    figure.update_yaxes(exponentformat='power')  # a prefix would stand before the panel's unit
    return figure


def _grid(tree: RobotTree, unit: Sequence[str]) -> tuple[Any, Any, list[tuple[int, int]]]:
    """Return an empty figure with a panel per joint, two a row, and the panels' places."""
    go, make_subplots = _plotly()
    rows = (tree.n + 1) // 2
    titles = [f'{name} [{u}]' for name, u in zip(tree.joint_names, unit, strict=True)]
    figure = make_subplots(
        rows=rows, cols=2, shared_xaxes='all', subplot_titles=titles, vertical_spacing=0.12
    )
    for column in (1, 2):
        figure.update_xaxes(title_text='time [s]', row=rows, col=column)
    return go, figure, [(i // 2 + 1, i % 2 + 1) for i in range(tree.n)]


def _units(tree: RobotTree, revolute: str, prismatic: str) -> list[str]:
    return [prismatic if slides else revolute for slides in tree.prismatic]


def _joint_figure(run: Recording, tree: RobotTree) -> Any:
    go, figure, places = _grid(tree, _units(tree, 'rad', 'm'))
    for i, (row, col) in enumerate(places):
        show = i == 0
        figure.add_scatter(
            x=run.time, y=run.reference_position[:, i], name='reference', showlegend=show,
            line={'color': '#9b9a97', 'width': 4}, row=row, col=col,
        )  # fmt: skip
        figure.add_scatter(
            x=run.time, y=run.position[:, i], name='measured', showlegend=show,
            line={'color': COLOURS[0], 'width': 1.5}, row=row, col=col,
        )  # fmt: skip
    return styled(figure, 260 * ((tree.n + 1) // 2) + 60)


def _error_figure(run: Recording, tree: RobotTree) -> Any:
    scale = np.where(tree.prismatic, 1e6, 1e3)
    _, figure, places = _grid(tree, _units(tree, 'mrad', 'µm'))
    error = (run.reference_position - run.position) * scale
    for i, (row, col) in enumerate(places):
        figure.add_scatter(
            x=run.time, y=error[:, i], name=tree.joint_names[i], showlegend=False,
            line={'color': COLOURS[1], 'width': 1.3}, row=row, col=col,
        )  # fmt: skip
    return styled(figure, 240 * ((tree.n + 1) // 2) + 40)


def _effort_figure(run: Recording, tree: RobotTree) -> Any:
    _, figure, places = _grid(tree, _units(tree, 'N m', 'N'))
    for i, (row, col) in enumerate(places):
        figure.add_scatter(
            x=run.time, y=run.effort[:, i], name='command', showlegend=i == 0,
            line={'color': COLOURS[2], 'width': 1.3}, row=row, col=col,
        )  # fmt: skip
        for sign in (-1.0, 1.0):
            figure.add_hline(
                y=sign * float(tree.effort_limit[i]), line_dash='dash',
                line_color='#e03e3e', row=row, col=col,
            )  # fmt: skip
    return styled(figure, 240 * ((tree.n + 1) // 2) + 60)


def _tool_figure(run: Recording, tree: RobotTree, frame: str) -> Any:
    go, make_subplots = _plotly()
    program = tool_path(tree, run.reference_position, frame)
    tool = tool_path(tree, run.position, frame)
    figure = make_subplots(
        rows=1, cols=2, specs=[[{'type': 'scene'}, {'type': 'xy'}]], column_widths=[0.5, 0.5],
        subplot_titles=('path in space [m]', 'distance to the program [mm]'),
    )  # fmt: skip
    for points, name, colour, width in (
        (program, 'program', '#9b9a97', 8),
        (tool, 'tool', COLOURS[0], 3),
    ):
        x, y, z = points.T
        line = {'color': colour, 'width': width}
        figure.add_scatter3d(x=x, y=y, z=z, mode='lines', name=name, line=line, row=1, col=1)
    figure.add_scatter(
        x=run.time, y=1e3 * np.linalg.norm(program - tool, axis=1), name='distance',
        line={'color': COLOURS[1], 'width': 1.3}, showlegend=False, row=1, col=2,
    )  # fmt: skip
    figure.update_xaxes(title_text='time [s]', row=1, col=2)
    figure.update_yaxes(rangemode='tozero', row=1, col=2)
    figure.update_scenes(aspectmode='data', xaxis_title='x', yaxis_title='y', zaxis_title='z')
    return styled(figure, 440)


def _tiles(metrics: TrackingMetrics) -> str:
    share = float(np.max(np.array(metrics.peak_effort) / np.array(metrics.effort_limit)))
    tiles = [
        (f'{metrics.tool_rms_mm:.4g} mm', 'tool error, RMS'),
        (f'{metrics.tool_peak_mm:.4g} mm', 'tool error, peak'),
        (f'{100 * share:.0f} %', 'largest share of an effort limit'),
        (f'{sum(metrics.saturated_ticks)}', 'saturated ticks'),
        (f'{metrics.commands}', 'commands'),
    ]
    cells = (f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for value, name in tiles)
    return f'<div class="tiles">{"".join(cells)}</div>'


def _table(metrics: TrackingMetrics, tree: RobotTree) -> str:
    head = ('joint', 'RMS error', 'peak error', 'peak effort', 'limit', 'saturated')
    rows = []
    for i, joint in enumerate(metrics.joints):
        length, force = ('m', 'N') if tree.prismatic[i] else ('rad', 'N m')
        rows.append(
            (
                escape(joint),
                f'{metrics.rms_error[i]:.3e} {length}',
                f'{metrics.peak_error[i]:.3e} {length}',
                f'{metrics.peak_effort[i]:.3f} {force}',
                f'{metrics.effort_limit[i]:g} {force}',
                f'{metrics.saturated_ticks[i]}',
            )
        )
    cells = ''.join(f'<tr>{"".join(f"<td>{c}</td>" for c in row)}</tr>' for row in rows)
    return f'<table><tr>{"".join(f"<th>{c}</th>" for c in head)}</tr>{cells}</table>'
