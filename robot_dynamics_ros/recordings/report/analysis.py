# SPDX-License-Identifier: Apache-2.0
"""The report of an analyzed recording: what was found, then the figures, then the curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.metrics.effort_terms import ORIGINS
from robot_dynamics_ros.recordings.metrics.metric import MetricRemark
from robot_dynamics_ros.recordings.report.curves import Curves
from robot_dynamics_ros.recordings.report.toolkit import COLOURS, page, styled, subplots
from robot_dynamics_ros.spatial.scalar import Array

_BADGES = {
    'wrong': ('#e03e3e', 'wrong'),
    'look': ('#d9730d', 'look'),
    'good': ('#0f7b6c', 'good'),
}
_REFERENCE, _MEASURED, _ERROR = '#9b9a97', COLOURS[0], COLOURS[1]
_RECORDED, _MODEL = COLOURS[2], COLOURS[3]


def write_analysis_report(
    path: Path,
    title: str,
    lead: str,
    tree: RobotTree,
    figures: Mapping[str, Any],
    findings: Sequence[MetricRemark],
    notes: Sequence[str],
    curves: Curves,
) -> None:
    """Write the report.

    Args:
        path: The HTML file to write; it needs no network to be read.
        title: Heading.
        lead: One sentence below it.
        tree: The robot.
        figures: Of all judges, by name.
        findings: What is worth saying, the gravest first.
        notes: What was unusual in the bag.
        curves: What is drawn.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    tables = [
        finding_list(findings),
        _tiles(figures),
        _joint_table(tree, figures),
        _program_table(figures.get('program') or {}),
        _method(figures, notes),
    ]
    path.write_text(page(title, lead, tables, _figures(tree, figures, curves)), encoding='utf-8')


def finding_list(findings: Sequence[MetricRemark]) -> str:
    """Return findings as HTML, one line each behind its badge."""
    lines = []
    for finding in findings:
        colour, word = _BADGES[finding.severity]
        badge = (
            f'<span style="background:{colour};color:#fff;border-radius:4px;padding:.1rem .5rem;'
            f'margin-right:.6rem;font-size:.8rem">{word}</span>'
        )
        lines.append(f'<p style="margin:.35rem 0">{badge}{escape(finding.text)}</p>')
    return f'<div style="margin-bottom:1.2rem">{"".join(lines)}</div>'


def tile_row(tiles: Sequence[tuple[str, str]]) -> str:
    """Return tiles of a value and its name as HTML."""
    cells = (
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for value, name in tiles
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as HTML."""
    body = ''.join(
        f'<tr>{"".join(f"<td>{escape(cell)}</td>" for cell in row)}</tr>' for row in rows
    )
    return f'<table><tr>{"".join(f"<th>{escape(cell)}</th>" for cell in head)}</tr>{body}</table>'


def note_list(notes: Sequence[str]) -> str:
    """Return remarks as HTML, a list; empty without any."""
    lines = ''.join(f'<li>{escape(note[0].upper() + note[1:])}.</li>' for note in notes if note)
    return f'<details open><summary>Notes</summary><ul>{lines}</ul></details>' if lines else ''


def _tiles(figures: Mapping[str, Any]) -> str:
    rates, tracking = figures['rates'], figures.get('tracking') or {}
    effort, limits = figures.get('effort') or {}, figures['limits']
    tiles = [
        (f'{rates["duration_s"]:.4g} s', f'{rates["states"]} states at {rates["rate_hz"]:.4g} Hz')
    ]
    if tracking:
        tiles.append((f'{tracking["tool_rms_mm"]:.4g} mm', 'tool error, RMS'))
        tiles.append((f'{tracking["tool_peak_mm"]:.4g} mm', 'tool error, peak'))
    if 'residual_share' in effort:
        share = max((x for x in effort['residual_share'] if not math.isnan(x)), default=math.nan)
        tiles.append((f'{100 * share:.3g} %', 'effort unexplained by the model, worst joint'))
    shares = [x for x in limits['effort_share'] if not math.isnan(x)]
    if shares:
        tiles.append((f'{100 * max(shares):.0f} %', 'largest share of an effort limit'))
    tiles.append((f'{rates["jitter_us"]["p99"]:.3g} µs', 'jitter of the period, 99 %'))
    latency = rates['latency_us']
    if latency:
        tiles.append((f'{latency["p50"]:.4g} µs', f'to the command; 99 %: {latency["p99"]:.4g}'))
    return tile_row(tiles)


def _joint_table(tree: RobotTree, figures: Mapping[str, Any]) -> str:
    tracking, effort = figures.get('tracking') or {}, figures.get('effort') or {}
    limits = figures['limits']
    head = [
        'joint', 'RMS error', 'peak error', 'RMS effort', 'RMS residual', 'unexplained',
        'peak effort', 'limit', 'saturated ticks',
    ]  # fmt: skip
    rows = []
    for i, joint in enumerate(tree.joint_names):
        length, force = ('m', 'N') if tree.prismatic[i] else ('rad', 'N m')
        share = _entry(effort, 'residual_share', i)
        saturated = limits['saturated_ticks']
        rows.append(
            [
                joint,
                _quantity(_entry(tracking, 'rms_error', i), length),
                _quantity(_entry(tracking, 'peak_error', i), length),
                _quantity(_entry(effort, 'effort_rms', i), force),
                _quantity(_entry(effort, 'residual_rms', i), force),
                '–' if math.isnan(share) else f'{100 * share:.3g} %',
                _quantity(limits['effort_peak'][i], force),
                _quantity(limits['effort_limit'][i], force),
                str(saturated[i]) if saturated else '–',
            ]
        )
    return html_table(head, rows)


def _program_table(program: Mapping[str, Any]) -> str:
    """Return how far each row of a constraint program was from zero; empty without one."""
    if not program:
        return ''
    rows = [
        [row, f'{program["rms"][i]:.4g}', f'{program["peak"][i]:.4g}', f'{at:.6g} s']
        for i, (row, at) in enumerate(zip(program['rows'], program['peak_at'], strict=True))
    ]
    head = (f'constraint of {program["program"]}', 'RMS of f, m or rad', 'peak', 'at')
    return html_table(head, rows)


def _entry(figures: Mapping[str, Any], key: str, i: int) -> float:
    return float(figures[key][i]) if key in figures else math.nan


def _quantity(value: float, unit: str) -> str:
    return '–' if math.isnan(value) else f'{value:.4g} {unit}'


def _method(figures: Mapping[str, Any], notes: Sequence[str]) -> str:
    """Say how the figures were obtained, and what was unusual."""
    effort, check = figures.get('effort') or {}, figures['cross_check']
    told = [
        f'Efforts: {effort.get("source", "none")}. '
        f'Formulation: {effort.get("formulation", "none")}.',
        f'SampleTiming: {figures["timing"]["reason"]}.',
    ]
    if 'relative' in check and not math.isnan(check['relative']):
        told.append(
            f'{check["against"]} agrees on {check["states"]} of the recorded states to '
            f'{check["relative"]:.1g} of the effort.'
        )
    elif 'skipped' in check:
        told.append(f'Not checked against another formulation: {check["skipped"]}.')
    left = [
        f'{why}: {sum(counts)}'
        for why, counts in effort.get('left_out', {}).items()
        if sum(counts)
    ]
    if left:
        told.append(f'Efforts left out of the residual: {", ".join(left)}.')
    energy = figures.get('energy') or {}
    if energy:
        told.append(
            f'Energy: the drives did {energy["work_of_drives"]:.4g} J of work; the arm gained '
            f'{energy["gained"]:.4g} J, friction of the model took '
            f'{energy["lost_in_friction"]:.4g} J, {energy["unexplained"]:.3g} J are unexplained.'
        )
    told += [f'{note[0].upper()}{note[1:]}.' for note in notes if note]
    lines = ''.join(f'<li>{escape(line)}</li>' for line in told)
    return f'<details open><summary>How this was found</summary><ul>{lines}</ul></details>'


# Curves -----------------------------------------------------------------------------------------


def _figures(tree: RobotTree, figures: Mapping[str, Any], curves: Curves) -> list[tuple[str, Any]]:
    """Return headings and figures; those without data are left out."""
    series = curves.series
    angle, force = joint_units(tree, 'rad', 'm'), joint_units(tree, 'N m', 'N')
    small = joint_units(tree, 'mrad', 'mm')
    series['small error'] = series['error'] * 1e3
    limits = [x for x in figures['limits']['effort_limit'] if not math.isnan(x)]
    found: list[tuple[str, Any]] = []

    def add(heading: str, names: Sequence[tuple[str, str, str, float]], units: Sequence[str],
            lines: Sequence[float] = ()) -> None:  # fmt: skip
        names = [entry for entry in names if np.isfinite(series[entry[0]]).any()]
        if names:
            found.append((heading, joint_panels(tree, series, names, units, lines)))

    if np.isfinite(curves.program).any():
        found.append(('Tool path against its reference', _tool_figure(curves, series)))
    followed = bool(np.isfinite(series['reference']).any())
    add(
        'Joint positions, measured and reference' if followed else 'Joint positions, measured',
        [('reference', 'reference', _REFERENCE, 4.0), ('position', 'measured', _MEASURED, 1.5)],
        angle,
    )
    add('Tracking error, reference − measured', [('small error', 'error', _ERROR, 1.2)], small)
    add(
        'Effort, recorded and by the model',
        [('effort', 'recorded', _REFERENCE, 4.0), ('model', 'model', _MODEL, 1.5)],
        force,
        limits if len(limits) == tree.n else (),
    )
    add('Residual, recorded − model', [('residual', 'residual', _ERROR, 1.2)], force)
    add(
        'Effort of the model by origin',
        [(name, name, COLOURS[i % len(COLOURS)], 1.3) for i, name in enumerate(ORIGINS)],
        force,
    )
    found.append(('Energy', _energy_figure(series)))
    found.append(('Time between states', _period_figure(series)))
    if 'constraint' in series:
        rows = figures['program'].get('rows', [])
        found.append(('Constraints of the program', _constraint_figure(series, rows)))
    return found


def joint_units(tree: RobotTree, revolute: str, prismatic: str) -> list[str]:
    """Return a unit for each joint."""
    return [prismatic if slides else revolute for slides in tree.prismatic]


def joint_panels(
    tree: RobotTree,
    series: Mapping[str, Array],
    names: Sequence[tuple[str, str, str, float]],
    units: Sequence[str],
    limits: Sequence[float] = (),
) -> Any:
    """Return a figure with a panel per joint, two a row.

    Args:
        tree: The robot.
        series: 'time' and columns (N, n).
        names: Key of each line's column, its label, colour and width.
        units: Of each joint.
        limits: Drawn dashed on both sides of 0, one per joint; none if empty.
    """
    rows = (tree.n + 1) // 2
    titles = [f'{name} [{unit}]' for name, unit in zip(tree.joint_names, units, strict=True)]
    figure = subplots(
        rows=rows, cols=2, shared_xaxes='all', subplot_titles=titles, vertical_spacing=0.3 / rows
    )
    legend = len(names) > 1 or bool(limits)
    for i in range(tree.n):
        row, col = i // 2 + 1, i % 2 + 1
        for key, label, colour, width in names:
            figure.add_scatter(
                x=series['time'], y=_thin(series[key][:, i]), name=label, legendgroup=label,
                showlegend=i == 0 and legend, line={'color': colour, 'width': width},
                row=row, col=col,
            )  # fmt: skip
        for sign in (-1.0, 1.0) if limits else ():
            figure.add_scatter(
                x=series['time'][[0, -1]], y=[sign * limits[i]] * 2, name='limit', mode='lines',
                legendgroup='limit', showlegend=i == 0 and sign > 0.0, hoverinfo='skip',
                line={'color': '#e03e3e', 'width': 1.2, 'dash': 'dash'}, row=row, col=col,
            )  # fmt: skip
        bounds = _flat_bounds([series[key][:, i] for key, *_ in names]) if not limits else None
        if bounds is not None:
            figure.update_yaxes(range=bounds, row=row, col=col)
    for column in (1, 2):
        figure.update_xaxes(title_text='time [s]', row=rows, col=column)
    return styled(figure, 240 * rows + 60)


def _flat_bounds(lines: Sequence[Array]) -> list[float] | None:
    """Return bounds that show a line without ups and downs as what it is, with 0 beside it."""
    values = np.concatenate(lines)
    values = values[np.isfinite(values)]
    level = float(np.abs(values).max()) if len(values) else 0.0
    if not level or np.ptp(values) > 1e-3 * level:
        return None
    ends = sorted((0.0, 1.3 * float(values[0])))
    return [ends[0] - 0.1 * level, ends[1] + 0.1 * level]


def _thin(values: Array) -> Array:
    """Return values with the digits that a screen can show, in half the bytes."""
    return np.asarray(values, dtype=np.float32)


def _tool_figure(curves: Curves, series: Mapping[str, Array]) -> Any:
    figure = subplots(
        rows=1, cols=2, specs=[[{'type': 'scene'}, {'type': 'xy'}]],
        subplot_titles=('path in space [m]', 'distance to the reference [mm]'),
    )  # fmt: skip
    lines = ((curves.program, 'reference', _REFERENCE, 8), (curves.tool, 'tool', _MEASURED, 3))
    for points, name, colour, width in lines:
        x, y, z = _thin(points).T
        line = {'color': colour, 'width': width}
        figure.add_scatter3d(x=x, y=y, z=z, mode='lines', name=name, line=line, row=1, col=1)
    figure.add_scatter(
        x=series['time'], y=_thin(1e3 * series['tool_error'][:, 0]), showlegend=False,
        line={'color': _ERROR, 'width': 1.2}, row=1, col=2,
    )  # fmt: skip
    figure.update_xaxes(title_text='time [s]', row=1, col=2)
    figure.update_yaxes(rangemode='tozero', row=1, col=2)
    figure.update_scenes(aspectmode='data', xaxis_title='x', yaxis_title='y', zaxis_title='z')
    return styled(figure, 440)


def _energy_figure(series: Mapping[str, Array]) -> Any:
    figure = subplots(
        rows=1, cols=2, subplot_titles=('energy of the arm [J]', 'unexplained so far [J]')
    )
    start = series['potential'][:1, 0]
    lines = (
        (series['kinetic'][:, 0], 'kinetic', COLOURS[0]),
        (series['potential'][:, 0] - start, 'potential, from the start', COLOURS[2]),
    )
    for values, name, colour in lines:
        figure.add_scatter(
            x=series['time'], y=_thin(values), name=name,
            line={'color': colour, 'width': 1.3}, row=1, col=1,
        )  # fmt: skip
    figure.add_scatter(
        x=series['time'], y=_thin(series['unexplained_energy'][:, 0]), showlegend=False,
        line={'color': _ERROR, 'width': 1.3}, row=1, col=2,
    )  # fmt: skip
    for column in (1, 2):
        figure.update_xaxes(title_text='time [s]', row=1, col=column)
    return styled(figure, 320)


def _period_figure(series: Mapping[str, Array]) -> Any:
    figure = subplots(rows=1, cols=1)
    figure.add_scatter(
        x=series['time'], y=_thin(1e3 * series['period'][:, 0]), showlegend=False,
        line={'color': COLOURS[0], 'width': 1.0},
    )  # fmt: skip
    figure.update_xaxes(title_text='time [s]')
    figure.update_yaxes(title_text='[ms]', rangemode='tozero')
    return styled(figure, 260)


def _constraint_figure(series: Mapping[str, Array], rows: Sequence[str]) -> Any:
    figure = subplots(rows=1, cols=1)
    for i, name in enumerate(rows):
        values = series['constraint'][:, i]
        there = np.isfinite(values)
        figure.add_scatter(
            x=series['time'][there], y=_thin(values[there]), name=name,
            line={'color': COLOURS[i % len(COLOURS)], 'width': 1.3},
        )  # fmt: skip
    figure.update_xaxes(title_text='time [s]')
    figure.update_yaxes(title_text='f [m or rad]')
    return styled(figure, 320)
