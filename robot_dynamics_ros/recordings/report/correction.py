# SPDX-License-Identifier: Apache-2.0
"""The report of a correction: the same controller and motion, by the old and the new model."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.metrics.tracking_metrics import TrackingMetrics, tool_path
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.report.toolkit import COLOURS, page, styled, subplots
from robot_dynamics_ros.spatial.scalar import Array

_MOST_POINTS = 3000
_NAMES = ('by the description', 'by the corrected model')
_COLOURS = (COLOURS[1], COLOURS[0])
_LOWEST = 1e-9  # m or rad; what a logarithmic axis shows at least


def write_correction_report(
    path: Path,
    title: str,
    lead: str,
    tree: RobotTree,
    runs: tuple[Recording, Recording],
    metrics: tuple[TrackingMetrics, TrackingMetrics],
    links: Sequence[tuple[str, str]],
    frame: str = 'tool',
) -> None:
    """Write the report as one self-contained HTML file.

    Args:
        path: The file to write.
        title: Heading.
        lead: One sentence below it.
        tree: The robot, for its geometry.
        runs: Under the old and under the new model.
        metrics: Of both.
        links: File and description of what belongs to it.
        frame: Of the tool.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    before, after = metrics
    thin = [
        _thin(run.of_joints(tree.joint_names).between(judged.start, judged.end))
        for run, judged in zip(runs, metrics, strict=True)
    ]
    head = [_tiles(before, after), '<h2>Tracking error, RMS</h2>', _table(tree, before, after)]
    figures = [
        ('Distance of the tool from its path, mm, logarithmic', _tool_figure(thin, tree, frame)),
        ('Tracking errors of the joints, size, logarithmic', _joint_figure(thin, tree)),
    ]
    rows = [
        f'<li><a href="{escape(file)}">{escape(file)}</a>: {escape(text)}</li>'
        for file, text in links
    ]
    below = ['<h2>What belongs to it</h2>', f'<ul>{"".join(rows)}</ul>'] if links else []
    path.write_text(page(title, lead, head, figures, below), encoding='utf-8')


def _thin(run: Recording) -> Recording:
    return run.every(max(1, len(run.time) // _MOST_POINTS))


def ratio_text(before: float, after: float) -> str:
    """Return how many times less, to two digits and without an exponent."""
    return f'{float(f"{before / max(after, _LOWEST):.2g}"):,.15g} times less'


def _tiles(before: TrackingMetrics, after: TrackingMetrics) -> str:
    old, new = before.tool_rms_mm, after.tool_rms_mm
    tiles = [
        (f'{old:.3g} mm', f'tool error {_NAMES[0]}, RMS'),
        (f'{new:.3g} mm', f'tool error {_NAMES[1]}, RMS'),
        (ratio_text(old, new), 'same controller, same motion, same arm'),
    ]
    cells = (f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for value, name in tiles)
    return f'<div class="tiles">{"".join(cells)}</div>'


def _table(tree: RobotTree, before: TrackingMetrics, after: TrackingMetrics) -> str:
    units = ['m' if slides else 'rad' for slides in tree.prismatic]
    rows = [
        (joint, f'{old:.3g} {unit}', f'{new:.3g} {unit}', ratio_text(old, new))
        for joint, old, new, unit in zip(
            tree.joint_names, before.rms_error, after.rms_error, units, strict=True
        )
    ]
    head = ('joint', *_NAMES, '')
    lines = [''.join(f'<th>{escape(text)}</th>' for text in head)]
    lines += [''.join(f'<td>{escape(text)}</td>' for text in row) for row in rows]
    return f'<table>{"".join(f"<tr>{line}</tr>" for line in lines)}</table>'


def _tool_figure(runs: Sequence[Recording], tree: RobotTree, frame: str) -> Any:
    figure = subplots(rows=1, cols=1)
    for run, name, colour in zip(runs, _NAMES, _COLOURS, strict=True):
        paths = (tool_path(tree, q, frame) for q in (run.reference_position, run.position))
        distance = 1e3 * np.linalg.norm(np.subtract(*paths), axis=1)
        _add(figure, run.time, distance, name, colour, 1, 1)
    figure.update_yaxes(type='log', exponentformat='power', title_text='mm')
    figure.update_xaxes(title_text='time [s]')
    return styled(figure, 340)


def _joint_figure(runs: Sequence[Recording], tree: RobotTree) -> Any:
    rows = (tree.n + 1) // 2
    units = ['m' if slides else 'rad' for slides in tree.prismatic]
    titles = [f'{name} [{unit}]' for name, unit in zip(tree.joint_names, units, strict=True)]
    figure = subplots(
        rows=rows, cols=2, shared_xaxes='all', subplot_titles=titles, vertical_spacing=0.12
    )
    for run, colour in zip(runs, _COLOURS, strict=True):
        error = np.abs(run.reference_position - run.position)
        for i in range(tree.n):
            place = i // 2 + 1, i % 2 + 1
            _add(figure, run.time, error[:, i], '', colour, *place)  # colours as above
    figure.update_yaxes(type='log', exponentformat='power')
    for column in (1, 2):
        figure.update_xaxes(title_text='time [s]', row=rows, col=column)
    return styled(figure, 240 * rows + 60)


def _add(
    figure: Any, time: Array, values: Array, name: str, colour: str, row: int, column: int
) -> None:
    figure.add_scatter(
        x=time, y=np.maximum(values, _LOWEST), name=name, showlegend=bool(name),
        line={'color': colour, 'width': 1.3}, row=row, col=column,
    )  # fmt: skip
