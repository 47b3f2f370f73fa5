# SPDX-License-Identifier: Apache-2.0
"""Self-contained HTML reports; the only importer of the plot library.

Every command that evaluates something builds one :class:`Report`: it is written as HTML, and its
findings, tables and notes are printed on the terminal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import MissingDependencyError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.metrics.metric import MetricRemark, at
from robot_dynamics_ros.spatial.scalar import Array

COLOURS = ('#0b6e99', '#d9730d', '#0f7b6c', '#ad1a72', '#6940a5', '#937264', '#dfab01')
#: Of what is wanted, and of what is wrong or at its limit.
GREY, RED = '#9b9a97', '#e03e3e'
_INK, _PALE = '#37352f', '#e6e6e4'
_BADGES = {'wrong': RED, 'look': COLOURS[1], 'good': COLOURS[2]}
_TOP = 30  # pixels for the legend and the tools above the titles of the panels
_NEAR = 0.6  # share of a limit from which on it is drawn among the curves without flattening them
_MOST_POINTS = 4000

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
 body {{ font: 15px/1.5 system-ui, sans-serif; color: #37352f; margin: 2rem auto;
        max-width: 1240px; padding: 0 1rem; }}
 h1 {{ font-size: 1.6rem; margin: 0; }} h2 {{ font-size: 1.1rem; margin: 2rem 0 .3rem; }}
 p.lead {{ margin: .2rem 0 1.2rem; color: #6b6a66; }} p.finding {{ margin: .35rem 0; }}
 p.finding b {{ color: #fff; border-radius: 4px; padding: .1rem .5rem; margin-right: .6rem;
               font-size: .8rem; }}
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


@dataclass(frozen=True)
class ReportTable:
    """A table of texts; the first column stands left, the others right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def html(self) -> str:
        """Return it as HTML."""
        rows = [_cells('th', self.head), *(_cells('td', row) for row in self.rows)]
        return f'<table>{"".join(f"<tr>{row}</tr>" for row in rows)}</table>'


def _cells(kind: str, texts: Iterable[str]) -> str:
    return ''.join(f'<{kind}>{escape(text)}</{kind}>' for text in texts)


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
        below: HTML to stand behind the figures.
    """

    title: str
    lead: str
    findings: Sequence[MetricRemark] = ()
    tiles: Sequence[tuple[str, str]] = ()
    tables: Sequence[ReportTable] = ()
    notes: Sequence[str] = ()
    figures: Sequence[tuple[str, Any]] = ()
    below: Sequence[str] = ()

    def write(self, path: Path) -> None:
        """Write it as one HTML file, which needs no network to be read."""
        head = [
            *(_finding(finding) for finding in self.findings),
            tiles(self.tiles),
            *(table.html() for table in self.tables),
            note_list(self.notes),
        ]
        text = page(self.title, self.lead, head, self.figures, self.below)
        path.write_text(text, encoding='utf-8')


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


def _finding(finding: MetricRemark) -> str:
    badge = f'<b style="background:{_BADGES[finding.severity]}">{finding.severity}</b>'
    return f'<p class="finding">{badge}{escape(finding.text)}</p>'


def tiles(pairs: Sequence[tuple[str, str]]) -> str:
    """Return tiles of a value and its name as HTML."""
    cells = (
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for value, name in pairs
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def note_list(notes: Sequence[str]) -> str:
    """Return sentences as an HTML list; empty without any."""
    lines = ''.join(f'<li>{escape(note[0].upper() + note[1:])}.</li>' for note in notes if note)
    return f'<details open><summary>Notes</summary><ul>{lines}</ul></details>' if lines else ''


def quantity(value: float, unit: str = '') -> str:
    """Return a number with its unit, a dash for NaN."""
    return '–' if math.isnan(value) else f'{value:.4g} {unit}'.strip()


def joint_units(tree: RobotTree, revolute: str, prismatic: str) -> list[str]:
    """Return a unit for each joint."""
    return [prismatic if slides else revolute for slides in tree.prismatic]


def joint_titles(tree: RobotTree, revolute: str, prismatic: str) -> list[str]:
    """Return a title with its unit for each joint's panel."""
    units = joint_units(tree, revolute, prismatic)
    return [f'{name} [{unit}]' for name, unit in zip(tree.joint_names, units, strict=True)]


# Figures ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PlotLine:
    """A line in every panel.

    Attributes:
        values: Shape (N, panels); a panel without a finite value shows none.
        label: In the legend; empty: not there.
        colour, width: Of the line.
    """

    values: Array
    label: str
    colour: str
    width: float = 1.3


def panels(
    time: Array,
    titles: Sequence[str],
    curves: Sequence[PlotLine],
    *,
    limits: Sequence[float] = (),
    log: bool = False,
) -> Any:
    """Return a figure with curves over time in panels, two a row.

    Args:
        time: Shape (N,), s; the axis begins with 0.
        titles: Of the panels.
        curves: What is drawn in each.
        limits: One per panel; a bar above it shows the largest share that is used. Near its limit
            a panel shows it among the curves, too.
        log: Whether the sizes are drawn, logarithmic.
    """
    rows = (len(titles) + 1) // 2
    columns = min(2, len(titles))
    spacing = 0.3 / rows
    figure = subplots(
        rows=rows,
        cols=columns,
        shared_xaxes='all',
        subplot_titles=titles,
        vertical_spacing=spacing,
    )
    x = time - time[:1]
    for i in range(len(titles)):
        place = {'row': i // 2 + 1, 'col': i % 2 + 1}
        drawn = [curve for curve in curves if np.isfinite(curve.values[:, i]).any()]
        for curve in drawn:
            _draw(figure, x, curve.values[:, i], curve, place, legend=i == 0 and len(curves) > 1)
        values = np.concatenate([np.zeros(0), *(curve.values[:, i] for curve in drawn)])
        if len(limits):
            _show_limit(figure, x, values, limits[i], place)
        elif not log:
            figure.update_yaxes(range=_flat_bounds(values), **place)
    if log:
        figure.update_yaxes(type='log')
    for column in range(1, columns + 1):
        figure.update_xaxes(title_text=time_title(time), row=rows, col=column)
    return styled(figure, 240 * rows + 60)


def time_title(time: Array) -> str:
    """Return the title of an axis that begins with 0 at the first of the times."""
    return f'time since {at(time[0])} [s]' if len(time) and time[0] else 'time [s]'


def _draw(
    figure: Any, x: Array, values: Array, curve: PlotLine, place: dict[str, int], *, legend: bool
) -> None:
    there = np.append(np.isfinite(values), False)
    alone = there & ~np.roll(there, 1) & ~np.roll(there, -1)
    figure.add_scatter(
        x=x, y=np.asarray(values, dtype=np.float32), name=curve.label, legendgroup=curve.label,
        showlegend=legend and bool(curve.label), mode='lines',
        connectgaps=bool(2 * alone.sum() > there.sum()),  # sampled now and then: no gaps
        line={'color': curve.colour, 'width': curve.width}, **place,
    )  # fmt: skip


def _show_limit(figure: Any, x: Array, values: Array, limit: float, place: dict[str, int]) -> None:
    """Show the largest share of a limit as a bar, and the limit itself where it is near."""
    finite = values[np.isfinite(values)]
    share = float(np.abs(finite).max(initial=0.0)) / limit if limit > 0.0 else math.nan
    if not math.isfinite(share):
        return
    bar = {'type': 'rect', 'xref': 'x domain', 'yref': 'y domain', 'line': {'width': 0}}
    for end, colour in ((1.0, _PALE), (min(1.0, share), RED if share >= 1.0 else COLOURS[0])):
        figure.add_shape(x0=0.0, x1=end, y0=1.0, y1=1.03, fillcolor=colour, **bar, **place)
    figure.add_annotation(
        text=f'{100.0 * share:.3g} % of ±{limit:g}', xref='x domain', yref='y domain', x=1.0,
        y=1.04, xanchor='right', yanchor='bottom', showarrow=False, font={'size': 10}, **place,
    )  # fmt: skip
    for end in (-limit, limit) if share > _NEAR else ():
        figure.add_scatter(
            x=x[[0, -1]], y=[end, end], mode='lines', showlegend=False, hoverinfo='skip',
            line={'color': RED, 'width': 1.2, 'dash': 'dash'}, **place,
        )  # fmt: skip


def _flat_bounds(values: Array) -> list[float] | None:
    """Return bounds that show a line without ups and downs as what it is, with 0 beside it."""
    values = values[np.isfinite(values)]
    level = float(np.abs(values).max(initial=0.0))
    if not level or np.ptp(values) > 1e-3 * level:
        return None
    ends = sorted((0.0, 1.3 * float(values[0])))
    return [ends[0] - 0.1 * level, ends[1] + 0.1 * level]


def paths(
    lines: Sequence[tuple[Array, str]], time: Array, distance: Array, colours: Sequence[str]
) -> Any:
    """Return a figure with two paths in space, and their distance over time.

    Args:
        lines: Points (M, 3), m, and the name of either path.
        time: Shape (N,), s.
        distance: Shape (N,), mm.
        colours: Of both paths and of the distance.
    """
    figure = subplots(
        rows=1, cols=2, specs=[[{'type': 'scene'}, {'type': 'xy'}]],
        subplot_titles=('paths in space [m]', 'distance [mm]'),
    )  # fmt: skip
    for (points, name), colour, width in zip(lines, colours, (8, 3), strict=False):
        x, y, z = points[thinning(points)].astype(np.float32).T
        line = {'color': colour, 'width': width}
        figure.add_scatter3d(x=x, y=y, z=z, mode='lines', name=name, line=line, row=1, col=1)
    some = thinning(time)
    curve = PlotLine(distance[:, np.newaxis], '', colours[-1])
    _draw(
        figure, (time - time[:1])[some], distance[some], curve, {'row': 1, 'col': 2}, legend=False
    )
    figure.update_xaxes(title_text=time_title(time), row=1, col=2)
    figure.update_yaxes(rangemode='tozero', row=1, col=2)
    figure.update_scenes(aspectmode='data', xaxis_title='x', yaxis_title='y', zaxis_title='z')
    return styled(figure, 440)


def thinning(values: Array) -> slice:
    """Return which rows are drawn of many."""
    return slice(None, None, max(1, len(values) // _MOST_POINTS))


def subplots(**options: Any) -> Any:
    """Return an empty figure of panels; see plotly's make_subplots for the options.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    try:
        from plotly.subplots import make_subplots
    except ImportError as error:
        raise MissingDependencyError(
            'plotly', 'the HTML report', "install it (pip 'plotly')"
        ) from error
    return make_subplots(**options)


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
