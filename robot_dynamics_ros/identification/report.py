# SPDX-License-Identifier: Apache-2.0
"""The report of an identification: what was explained before and after, and how surely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from robot_dynamics_ros.identification.correction import Row, base_rows, joint_rows
from robot_dynamics_ros.identification.identify import Identification
from robot_dynamics_ros.identification.pictures import force, pictures
from robot_dynamics_ros.identification.plausibility import implausible
from robot_dynamics_ros.identification.regressor import PER_BODY
from robot_dynamics_ros.identification.validation import Residuals, ResidualSeries
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.report.toolkit import COLOURS, RED, page
from robot_dynamics_ros.spatial.scalar import Array

_FAIR = 10.0  # percent of a joint's effort that may stay unexplained without a word
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
        _traffic_light(found, before, after),
        _verdict(found, before, after),
        _tiles(found, before, after),
        '<h2>Effort that the model does not explain, in recordings for validation</h2>',
        _residual_table(tree, before, after),
    ]
    figures = pictures(tree, found.plan.unknowns.tree, series)
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
        _list([found.plan.choice.sentence(), *_used(after), *found.chosen, *remarks]),
    ]
    path.write_text(page(title, lead, head, figures, below), encoding='utf-8')


def _used(after: Residuals) -> list[str]:
    """Say how much was left for validation, joint by joint."""
    told = ', '.join(
        f'{joint} {moves} moving and {rests} at rest'
        for joint, moves, rests in zip(after.joints, after.sliding, after.at_rest, strict=True)
    )
    return [f'filtered samples for validation: {told}']


def _traffic_light(found: Identification, before: Residuals, after: Residuals) -> str:
    """Return one sentence in the colour of what it means."""
    wrong = implausible(found, after)
    tilt = found.plan.gravity
    if wrong or not after.worst <= max(before.worst, _LEAST):
        colour, word = RED, 'red'
        said = wrong[0] if wrong else 'the corrected model explains no more than the description'
    elif after.worst > _FAIR or (tilt is not None and tilt.tilted):
        colour, word = COLOURS[1], 'yellow'
        said = (
            tilt.sentence()
            if tilt is not None and tilt.tilted
            else (
                f'up to {after.worst:.2g} % of the effort of a joint stay unexplained: look where'
            )
        )
    else:
        colour, word = COLOURS[2], 'green'
        said = (
            f'the corrected model leaves at most {after.worst:.2g} % of the effort of a joint '
            'unexplained, and its masses are those of such an arm'
        )
    return f'<p class="finding"><b style="background:{colour}">{word}</b>{escape(said)}</p>'


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
            f'{before.rms_effort[i]:.4g} {force(tree, i)}',
            f'{before.rms[i]:.3g} {force(tree, i)}',
            f'{after.rms[i]:.3g} {force(tree, i)}',
            _percent(before.percent[i]),
            _percent(after.percent[i]),
            f'{after.peak[i]:.3g} {force(tree, i)}',
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
