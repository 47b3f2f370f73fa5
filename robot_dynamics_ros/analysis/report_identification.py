# SPDX-License-Identifier: Apache-2.0
"""The report of an identification: what was explained before and after, and how surely."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from robot_dynamics_ros.analysis.identification.document import Row, base_rows, joint_rows
from robot_dynamics_ros.analysis.identification.identify import Identification
from robot_dynamics_ros.analysis.identification.validation import Residuals, ResidualSeries
from robot_dynamics_ros.analysis.report import COLOURS, page, styled, subplots
from robot_dynamics_ros.model.robot_tree import RobotTree

_MOST_POINTS = 3000


def write_identification_report(
    path: Path,
    title: str,
    lead: str,
    found: Identification,
    residuals: tuple[Residuals, Residuals],
    series: tuple[ResidualSeries, ResidualSeries],
    remarks: Sequence[str] = (),
) -> None:
    """Write the report as one self-contained HTML file.

    Args:
        path: The file to write.
        title: Heading.
        lead: One sentence below it.
        found: The identification.
        residuals: Of the nominal and of the corrected robot, on recordings for validation.
        series: The same of one recording, in time.
        remarks: What else is to be said, one sentence each.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    before, after = residuals
    tree = found.tree
    tables = [
        _tiles(found, before, after),
        '<h2>Unexplained effort, recordings for validation</h2>',
        _residual_table(tree, before, after),
        '<h2>What the data tell: base parameters</h2>',
        _value_table(base_rows(found)),
        '<h2>Friction and armature of the corrected robot</h2>',
        _value_table(joint_rows(found)),
        '<h2>What the data could not tell</h2>',
        _list([*found.silence()]),
        '<h2>How it was evaluated</h2>',
        _list([found.plan.choice.sentence(), *remarks]),
    ]
    figures = [
        ('Residual with the nominal and the corrected model', _residual_figure(tree, series)),
        ('Recorded effort', _effort_figure(tree, series[0])),
    ]
    path.write_text(page(title, lead, tables, figures), encoding='utf-8')


def _force(tree: RobotTree, i: int) -> str:
    return 'N' if tree.prismatic[i] else 'N m'


def _tiles(found: Identification, before: Residuals, after: Residuals) -> str:
    tiles = [
        (f'{before.worst:.3g} %', 'largest residual before, of RMS effort'),
        (f'{after.worst:.3g} %', 'largest residual after'),
        (f'{len(found.estimate.base)}', 'base parameters'),
        (f'{found.estimate.condition:.3g}', 'condition of the regressor'),
    ]
    cells = (f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for value, name in tiles)
    return f'<div class="tiles">{"".join(cells)}</div>'


def _residual_table(tree: RobotTree, before: Residuals, after: Residuals) -> str:
    head = ('joint', 'RMS effort', 'before', 'after', 'before', 'after', 'peak after', 'at rest')
    rows = [
        (
            escape(joint),
            f'{before.rms_effort[i]:.4g} {_force(tree, i)}',
            f'{before.rms[i]:.4g} {_force(tree, i)}',
            f'{after.rms[i]:.3g} {_force(tree, i)}',
            f'{before.percent[i]:.4g} %',
            f'{after.percent[i]:.3g} %',
            f'{after.peak[i]:.3g} {_force(tree, i)}',
            f'{after.at_rest[i]} samples',
        )
        for i, joint in enumerate(before.joints)
    ]
    return _table(head, rows)


def _value_table(rows: Sequence[Row]) -> str:
    head = ('parameter', 'nominal', 'identified', 'standard deviation', 'unit')
    cells = [
        (
            escape(row.name),
            f'{row.nominal:.6g}',
            f'{row.value:.6g}',
            f'{row.deviation:.2g}',
            escape(row.unit),
        )
        for row in rows
    ]
    return _table(head, cells)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    titles = ''.join(f'<th>{title}</th>' for title in head)
    body = ''.join(f'<tr>{"".join(f"<td>{cell}</td>" for cell in row)}</tr>' for row in rows)
    return f'<table><tr>{titles}</tr>{body}</table>'


def _list(sentences: Sequence[str]) -> str:
    if not sentences:
        return '<p>Nothing: every parameter is told.</p>'
    return f'<ul>{"".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)}</ul>'


def _panels(tree: RobotTree) -> tuple[Any, list[tuple[int, int]]]:
    """Return an empty figure with a panel per joint, two a row, and the panels' places."""
    rows = (tree.n + 1) // 2
    titles = [f'{name} [{_force(tree, i)}]' for i, name in enumerate(tree.joint_names)]
    figure = subplots(
        rows=rows, cols=2, shared_xaxes='all', subplot_titles=titles, vertical_spacing=0.12
    )
    for column in (1, 2):
        figure.update_xaxes(title_text='time [s]', row=rows, col=column)
    return figure, [(i // 2 + 1, i % 2 + 1) for i in range(tree.n)]


def _residual_figure(tree: RobotTree, series: tuple[ResidualSeries, ResidualSeries]) -> Any:
    figure, places = _panels(tree)
    for part, name, colour in zip(
        series, ('nominal', 'corrected'), (COLOURS[1], COLOURS[0]), strict=True
    ):
        step = max(1, len(part.time) // _MOST_POINTS)
        for i, (row, column) in enumerate(places):
            figure.add_scatter(
                x=part.time[::step], y=part.residual[::step, i], name=name, legendgroup=name,
                showlegend=i == 0, line={'color': colour, 'width': 1.3}, row=row, col=column,
            )  # fmt: skip
    return styled(figure, 260 * ((tree.n + 1) // 2) + 60)


def _effort_figure(tree: RobotTree, series: ResidualSeries) -> Any:
    figure, places = _panels(tree)
    step = max(1, len(series.time) // _MOST_POINTS)
    for i, (row, column) in enumerate(places):
        figure.add_scatter(
            x=series.time[::step], y=series.effort[::step, i], name=tree.joint_names[i],
            showlegend=False, line={'color': COLOURS[2], 'width': 1.3}, row=row, col=column,
        )  # fmt: skip
    return styled(figure, 240 * ((tree.n + 1) // 2) + 40)
