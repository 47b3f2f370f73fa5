# SPDX-License-Identifier: Apache-2.0
"""The report of an identification: what was explained before and after, and how surely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from robot_dynamics_ros.identification.document import Row, base_rows, joint_rows
from robot_dynamics_ros.identification.identify import Identification
from robot_dynamics_ros.identification.regressor import PER_BODY
from robot_dynamics_ros.identification.validation import Residuals, ResidualSeries
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.report.toolkit import COLOURS, page, styled, subplots
from robot_dynamics_ros.spatial.scalar import Array

_MOST_POINTS = 3000
_LEAST = 1e-9  # percent: rounding
_LEGEND = (
    'A sum is told as a whole, not its parts. Per link, in the frame of its joint: m mass, mx my '
    'mz mass times centre of mass, Ixx … Izz moments about the origin of that frame.'
)


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
    head = [
        _verdict(found, before, after),
        _tiles(found, before, after),
        '<h2>Effort that the model does not explain, in recordings for validation</h2>',
        _residual_table(tree, before, after),
    ]
    figures = [
        (
            'Unexplained effort over time, before and after the correction',
            _residual_figure(tree, series),
        ),
        ('Recorded effort', _effort_figure(tree, series[0])),
    ]
    below = [
        '<h2>What the data could not tell</h2>',
        _list([*found.silence()]),
        '<h2>Friction and armature of the corrected robot</h2>',
        _value_table(joint_rows(found)),
        '<h2>Links of the corrected robot</h2>',
        _link_table(found),
        '<h2>What the data tell: base parameters</h2>',
        f'<p>{_LEGEND}</p>',
        _value_table(base_rows(found)),
        '<h2>How it was evaluated</h2>',
        _list([found.plan.choice.sentence(), *remarks]),
    ]
    path.write_text(page(title, lead, head, figures, below), encoding='utf-8')


def _verdict(found: Identification, before: Residuals, after: Residuals) -> str:
    name = escape(found.tree.name)
    if math.isnan(after.worst):
        return '<p>The recordings for validation have no joint that moves: nothing is proved.</p>'
    if after.worst < before.worst:
        return (
            f"<p>The description of {name} leaves up to {before.worst:.3g} % of a joint's effort "
            f'unexplained, the corrected model {after.worst:.2g} %: '
            f'{_plain(before.worst / max(after.worst, _LEAST))} times less.</p>'
        )
    return (
        f'<p><b>The corrected model explains the recordings no better than the description: '
        f"{after.worst:.3g} % against {before.worst:.3g} % of a joint's effort.</b></p>"
    )


def _plain(ratio: float) -> str:
    """Return a number to two digits without an exponent."""
    return f'{float(f"{ratio:.2g}"):,.15g}'


def _force(tree: RobotTree, i: int) -> str:
    return 'N' if tree.prismatic[i] else 'N m'


def _tiles(found: Identification, before: Residuals, after: Residuals) -> str:
    tiles = [
        (_percent(before.worst), 'unexplained before, worst joint'),
        (_percent(after.worst), 'unexplained after, worst joint'),
        (f'{len(found.estimate.base)}', 'combinations of parameters told'),
        (f'{found.estimate.condition:.3g}', 'condition of the motion (1 is best)'),
    ]
    cells = (f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for value, name in tiles)
    return f'<div class="tiles">{"".join(cells)}</div>'


def _residual_table(tree: RobotTree, before: Residuals, after: Residuals) -> str:
    head = (
        'joint', 'RMS effort', 'unexplained before', 'unexplained after', 'before', 'after',
        'peak after', 'samples moving', 'at rest, left out',
    )  # fmt: skip
    rows = [
        (
            escape(joint),
            f'{before.rms_effort[i]:.4g} {_force(tree, i)}',
            f'{before.rms[i]:.3g} {_force(tree, i)}',
            f'{after.rms[i]:.3g} {_force(tree, i)}',
            _percent(before.percent[i]),
            _percent(after.percent[i]),
            f'{after.peak[i]:.3g} {_force(tree, i)}',
            f'{after.sliding[i]}',
            f'{after.at_rest[i]}',
        )
        for i, joint in enumerate(before.joints)
    ]
    return _table(head, rows)


def _percent(value: float) -> str:
    return 'not moved' if math.isnan(value) else f'{value:.3g} %'


def _value_table(rows: Sequence[Row]) -> str:
    head = ('parameter', 'description', 'identified', 'standard deviation', 'change', 'unit')
    cells = [
        (
            escape(row.name),
            f'{row.nominal:.5g}',
            f'{row.value:.5g}',
            f'{row.deviation:.2g}' if row.deviation else 'not told',
            _change(row.nominal, row.value),
            escape(row.unit),
        )
        for row in rows
    ]
    return _table(head, cells)


def _change(old: float, new: float) -> str:
    if new == old:
        return 'none'
    return f'{100.0 * (new - old) / abs(old):+.3g} %' if old else 'new'


def _link_table(found: Identification) -> str:
    """Return masses and centres of mass, and how much of them the data told."""
    head = (
        'link', 'mass before', 'mass after', 'told by data', 'centre before', 'centre after',
    )  # fmt: skip
    nominal, tree = found.plan.unknowns.tree, found.tree
    rows = [
        (
            escape(name),
            f'{nominal.mass[i]:.4g} kg',
            f'{tree.mass[i]:.4g} kg',
            f'{100.0 * found.physical.told[PER_BODY * i]:.0f} %',
            _millimetres(nominal.com[i]),
            _millimetres(tree.com[i]),
        )
        for i, name in enumerate(tree.link_names)
    ]
    return _table(head, rows)


def _millimetres(point: Array) -> str:
    return ' '.join(f'{1e3 * x + 0.0:.1f}' for x in point.tolist()) + ' mm'


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
        series,
        ('by the description', 'by the corrected model'),
        (COLOURS[1], COLOURS[0]),
        strict=True,
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
