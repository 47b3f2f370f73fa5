# SPDX-License-Identifier: Apache-2.0
"""Reports: written as one HTML file that needs no network, printed on the terminal.

Every command that evaluates something builds one :class:`Report`; its plots come from
``figures``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.metrics.metric import MetricRemark
from robot_dynamics_ros.recordings.report.arm import ArmAnimation

_LIGHTS = {'wrong': 'red', 'look': 'yellow', 'good': 'green'}
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
{style}</style></head><body>
<h1>{title}</h1><p class="lead">{lead}</p>
{body}
<script>
{script}</script>
</body></html>
"""


@dataclass(frozen=True)
class ReportTable:
    """A table of texts; the first column stands left, the others right.

    Attributes:
        head: Headings of the columns.
        rows: Texts.
        title: Above it, or empty.
        text: A sentence above it, or empty.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ''
    text: str = ''

    def html(self) -> str:
        """Return it as HTML."""
        rows = [_cells('th', self.head), *(_cells('td', row) for row in self.rows)]
        body = ''.join(f'<tr>{row}</tr>' for row in rows)
        text = f'<p>{_html(self.text)}</p>' if self.text else ''
        return f'{_heading(self.title)}{text}<div class="scroll"><table>{body}</table></div>'


def _html(text: str) -> str:
    return escape(text, quote=False)


def _cells(kind: str, texts: Iterable[str]) -> str:
    return ''.join(f'<{kind}>{_html(text)}</{kind}>' for text in texts)


def _heading(title: str) -> str:
    return f'<h2>{_html(title)}</h2>' if title else ''


@dataclass(frozen=True)
class ReportList:
    """Sentences under a title.

    Attributes:
        title: Above them.
        lines: One each.
        files: A file of the same folder that each line is about, as a link; or none at all.
    """

    title: str
    lines: Sequence[str]
    files: Sequence[str] = ()

    def html(self) -> str:
        """Return it as HTML."""
        links = [f'<a href="{escape(file)}">{_html(file)}</a>: ' for file in self.files]
        pairs = zip(links or [''] * len(self.lines), self.lines, strict=True)
        lines = ''.join(f'<li>{link}{_html(line)}</li>' for link, line in pairs)
        return f'{_heading(self.title)}<ul>{lines}</ul>'


@dataclass(frozen=True, eq=False)
class Report:
    """What there is to say about a run, the gravest first.

    Attributes:
        title: Heading.
        lead: One sentence below it.
        findings: What is worth saying.
        tiles: Values and their names.
        tables: Figures.
        notes: How it was evaluated and what was unusual, one sentence each.
        figures: Headings and plotly figures.
        arm: The arm along its motion, above the tables; or None.
        below: What stands behind the figures.
    """

    title: str
    lead: str
    findings: Sequence[MetricRemark] = ()
    tiles: Sequence[tuple[str, str]] = ()
    tables: Sequence[ReportTable] = ()
    notes: Sequence[str] = ()
    figures: Sequence[tuple[str, Any]] = ()
    below: Sequence[ReportTable | ReportList] = ()
    arm: ArmAnimation | None = None

    def write(self, path: Path) -> None:
        """Write it as one HTML file, which needs no network to be read."""
        path.write_text(self.html(), encoding='utf-8')

    def html(self) -> str:
        """Return it as a page that needs no network."""
        body = [
            *(_finding(finding) for finding in self.findings),
            _tiles(self.tiles),
            arm := self.arm.html() if self.arm else '',
            *(table.html() for table in self.tables),
            _notes(self.notes),
            *(_figure(*pair, first=not i) for i, pair in enumerate(self.figures)),
            *(part.html() for part in self.below),
        ]
        return _PAGE.format(
            title=_html(self.title),
            lead=_html(self.lead),
            style=_shipped('page.css'),
            body='\n'.join(body),
            script='\n'.join(map(_shipped, ('page.js', 'arm.js') if arm else ('page.js',))),
        )


def _shipped(name: str) -> str:
    return (files(__package__) / name).read_text(encoding='utf-8')


def _finding(finding: MetricRemark) -> str:
    badge = f'<b class="{_LIGHTS[finding.severity]}">{finding.severity}</b>'
    return f'<p class="finding">{badge}<span>{_html(finding.text)}</span></p>'


def _tiles(pairs: Sequence[tuple[str, str]]) -> str:
    cells = (
        f'<div class="tile"><b>{_html(value)}</b><span>{_html(name)}</span></div>'
        for value, name in pairs
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def _notes(notes: Sequence[str]) -> str:
    lines = ''.join(f'<li>{_html(note[0].upper() + note[1:])}.</li>' for note in notes if note)
    return f'<details open><summary>Notes</summary><ul>{lines}</ul></details>' if lines else ''


def _figure(heading: str, figure: Any, *, first: bool) -> str:
    plot = figure.to_html(
        full_html=False,
        include_plotlyjs=first,
        config={'displaylogo': False, 'responsive': True},
    )
    return f'<div class="figure">{_heading(heading)}{plot}</div>'


# Texts ------------------------------------------------------------------------------------------


def quantity(value: float, unit: str = '') -> str:
    """Return a number with its unit, a dash for NaN."""
    return '–' if math.isnan(value) else f'{value:.4g} {unit}'.strip()


def joint_units(tree: RobotTree, revolute: str, prismatic: str) -> list[str]:
    """Return a unit for each joint."""
    return [prismatic if slides else revolute for slides in tree.slides]


def joint_titles(tree: RobotTree, revolute: str, prismatic: str) -> list[str]:
    """Return a title with its unit for each joint's panel."""
    units = joint_units(tree, revolute, prismatic)
    return [f'{name} [{unit}]' for name, unit in zip(tree.joint_names, units, strict=True)]
