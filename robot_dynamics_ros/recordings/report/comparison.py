# SPDX-License-Identifier: Apache-2.0
"""The report of two compared runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.accumulate import Envelope
from robot_dynamics_ros.recordings.compare.comparison import Comparison
from robot_dynamics_ros.recordings.report.analysis import (
    html_table,
    joint_panels,
    joint_units,
    note_list,
    tile_row,
)
from robot_dynamics_ros.recordings.report.toolkit import COLOURS, page, styled, subplots
from robot_dynamics_ros.spatial.scalar import Array

_FIRST, _SECOND, _REFERENCE = COLOURS[0], COLOURS[1], '#9b9a97'
_POINTS = 2000


def write_comparison_report(
    path: Path,
    names: Sequence[str],
    tree: RobotTree,
    comparison: Comparison,
    notes: Sequence[str] = (),
) -> None:
    """Write the report.

    Args:
        path: The HTML file to write; it needs no network to be read.
        names: Of both runs.
        tree: The robot.
        comparison: The runs.
        notes: What was unusual in the bags.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    series = _series(tree, comparison)
    angle, force = joint_units(tree, 'rad', 'm'), joint_units(tree, 'N m', 'N')
    small = joint_units(tree, 'mrad', 'mm')

    def both(key: str) -> list[tuple[str, str, str, float]]:
        return [
            (f'first {key}', names[0], _FIRST, 2.5),
            (f'second {key}', names[1], _SECOND, 1.3),
        ]

    figures: list[tuple[str, Any]] = [
        ('Tool paths', _paths(names, comparison)),
        (
            'Joint positions',
            joint_panels(
                tree, series, [('reference', 'reference', _REFERENCE, 5.0), *both('q')], angle
            ),
        ),
        ('Tracking error, reference − measured', joint_panels(tree, series, both('error'), small)),
        (
            'Difference of the positions, second − first',
            joint_panels(tree, series, [('apart', 'difference', COLOURS[3], 1.2)], small),
        ),
        ('Effort', joint_panels(tree, series, both('effort'), force)),
    ]
    alignment = comparison.alignment
    how = 'interpolated between its states' if alignment.interpolated else 'at its own states'
    lead = (
        f'{names[0]} and {names[1]}, {comparison.figures["overlap_s"]:.4g} s in common; the '
        f'second is shifted by {alignment.shift:.6g} s ({alignment.method}) and taken {how}.'
    )
    tables = [_tiles(comparison), _table(tree, names, comparison), note_list(notes)]
    title = f'{names[0]} against {names[1]}'
    path.write_text(page(title, lead, tables, figures), encoding='utf-8')


def _series(tree: RobotTree, comparison: Comparison) -> dict[str, Array]:
    one, other = comparison.first, comparison.second
    columns = {
        'reference': one.reference_position,
        'first q': one.position,
        'second q': other.position,
        'first error': 1e3 * (one.reference_position - one.position),
        'second error': 1e3 * (other.reference_position - other.position),
        'apart': 1e3 * (other.position - one.position),
        'first effort': one.effort,
        'second effort': other.effort,
    }
    envelope = Envelope([f'{key}.{i}' for key in columns for i in range(tree.n)])
    envelope.take(one.time, np.hstack(list(columns.values())))
    flat = envelope.series()
    found = {'time': flat['time']}
    for key in columns:
        found[key] = np.column_stack([flat[f'{key}.{i}'] for i in range(tree.n)])
    return found


def _tiles(comparison: Comparison) -> str:
    figures = comparison.figures
    ratios = [x for x in figures['error_ratio'] if not math.isnan(x)]
    tiles = [
        (f'{figures["difference"]["tool_rms_mm"]:.4g} mm', 'between the tools, RMS'),
        (f'{figures["difference"]["tool_peak_mm"]:.4g} mm', 'between the tools, peak'),
        (f'{comparison.alignment.shift:.6g} s', 'shift in time'),
        (f'{comparison.alignment.correlation:.4f}', 'correlation of the motions'),
    ]
    if ratios:
        tiles.append((f'{max(ratios):.3g} ×', 'error of the second by the first, worst joint'))
    return tile_row(tiles)


def _table(tree: RobotTree, names: Sequence[str], comparison: Comparison) -> str:
    figures = comparison.figures
    head = (
        'joint', f'RMS error, {names[0]}', f'RMS error, {names[1]}', 'second by first',
        'RMS difference of position', f'RMS effort, {names[0]}', f'RMS effort, {names[1]}',
        'RMS difference of effort',
    )  # fmt: skip
    rows = []
    for i, joint in enumerate(figures['joints']):
        length, force = ('m', 'N') if tree.prismatic[i] else ('rad', 'N m')
        rows.append(
            [
                joint,
                _quantity(figures['first']['rms_error'][i], length),
                _quantity(figures['second']['rms_error'][i], length),
                _quantity(figures['error_ratio'][i], ''),
                _quantity(figures['difference']['rms_position'][i], length),
                _quantity(figures['first']['rms_effort'][i], force),
                _quantity(figures['second']['rms_effort'][i], force),
                _quantity(figures['difference']['rms_effort'][i], force),
            ]
        )
    return html_table(head, rows)


def _quantity(value: float, unit: str) -> str:
    return '–' if math.isnan(value) else f'{value:.4g} {unit}'.strip()


def _paths(names: Sequence[str], comparison: Comparison) -> Any:
    figure = subplots(
        rows=1, cols=2, specs=[[{'type': 'scene'}, {'type': 'xy'}]],
        subplot_titles=('paths in space [m]', 'distance between the tools [mm]'),
    )  # fmt: skip
    step = max(1, len(comparison.first_tool) // _POINTS)
    lines = (
        (comparison.first_tool, names[0], _FIRST, 6),
        (comparison.second_tool, names[1], _SECOND, 3),
    )
    for points, name, colour, width in lines:
        x, y, z = points[::step].T.astype(np.float32)
        line = {'color': colour, 'width': width}
        figure.add_scatter3d(x=x, y=y, z=z, mode='lines', name=name, line=line, row=1, col=1)
    apart = 1e3 * np.linalg.norm(comparison.second_tool - comparison.first_tool, axis=1)
    figure.add_scatter(
        x=comparison.first.time[::step], y=apart[::step].astype(np.float32), showlegend=False,
        line={'color': COLOURS[3], 'width': 1.2}, row=1, col=2,
    )  # fmt: skip
    figure.update_xaxes(title_text='time of the first [s]', row=1, col=2)
    figure.update_yaxes(rangemode='tozero', row=1, col=2)
    figure.update_scenes(aspectmode='data', xaxis_title='x', yaxis_title='y', zaxis_title='z')
    return styled(figure, 440)
