# SPDX-License-Identifier: Apache-2.0
"""The plots of reports; the only importer of the plot library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import MissingDependencyError
from robot_dynamics_ros.recordings.metrics.metric import at
from robot_dynamics_ros.spatial.scalar import Array

#: Colours that are legible on white and on black.
COLOURS = ('#2f86c8', '#e07b1f', '#1f9e7f', '#d0478f', '#8f6fd6', '#a08070', '#d4a017')
#: Of what is wanted, and of what is wrong or at its limit.
GREY, RED = '#9aa0a6', '#e03e3e'
_CLEAR, _GRID, _ZERO = 'rgba(0,0,0,0)', 'rgba(128,128,128,.16)', 'rgba(128,128,128,.45)'
_PLOT, _GAP, _TITLE, _LEGEND, _BOTTOM, _BAND = 170, 54, 34, 28, 46, 14  # pixels
_MOST_POINTS, _MOST_DOTS = 2000, 1500


@dataclass(frozen=True, eq=False)
class PlotLine:
    """A line, or dots, in every panel.

    Attributes:
        values: Shape (N, panels); a panel without a finite value shows none.
        label: In the legend; empty: not there.
        colour, width: Of the line.
        x: Shape (N, panels), where the panels' own does not fit; None: theirs.
        dots: Whether there are dots instead of a line.
    """

    values: Array
    label: str
    colour: str
    width: float = 1.3
    x: Array | None = None
    dots: bool = False

    def trace(self, x: Array, i: int, *, legend: bool) -> dict[str, Any]:
        """Return what plotly draws of it in a panel."""
        x = x if self.x is None else self.x
        x = x if x.ndim == 1 else x[:, i]
        x, values = (
            _thinned(x, self.values[:, i]) if self.dots else _enveloped(x, self.values[:, i])
        )
        there = np.append(np.isfinite(values), False)
        alone = there & ~np.roll(there, 1) & ~np.roll(there, -1)
        return {
            'type': 'scatter',
            'x': x.astype(np.float32),
            'y': values.astype(np.float32),
            'name': self.label,
            'legendgroup': self.label,
            'showlegend': legend and bool(self.label),
            'mode': 'markers' if self.dots else 'lines',
            'connectgaps': bool(2 * alone.sum() > there.sum()),  # sampled now and then: no gaps
            'line': {'color': self.colour, 'width': self.width},
            'marker': {'color': self.colour, 'size': 3, 'opacity': 0.6},
            **_axes_of(i),
        }


def _thinned(x: Array, values: Array) -> tuple[Array, Array]:
    """Return some of many points."""
    step = math.ceil(len(x) / _MOST_DOTS) or 1
    return x[::step], values[::step]


def _enveloped(x: Array, values: Array) -> tuple[Array, Array]:
    """Return smallest and largest values of blocks, so that few points keep every peak."""
    if len(x) <= _MOST_POINTS:
        return x, values
    starts = np.arange(0, len(x), math.ceil(2 * len(x) / _MOST_POINTS))
    extremes = [pick.reduceat(values, starts) for pick in (np.fmin, np.fmax)]
    return np.repeat(x[starts], 2), np.stack(extremes, axis=1).ravel()


def _axes_of(i: int) -> dict[str, str]:
    """Return the names of the axes of a panel."""
    return {'xaxis': f'x{_number(i)}', 'yaxis': f'y{_number(i)}'}


def _number(i: int) -> str:
    return str(i + 1) if i else ''


def panels(
    x: Array,
    titles: Sequence[str],
    curves: Sequence[PlotLine],
    *,
    x_title: str = '',
    limits: Sequence[float] = (),
    log: bool = False,
) -> Any:
    """Return a figure with curves in panels, two a row.

    Args:
        x: Shape (N,), times in s whose axis begins with 0; with an ``x_title`` what that says,
            shape (N,) or (N, panels).
        titles: Of the panels.
        curves: What is drawn in each.
        x_title: Of the axis; empty: the time.
        limits: One per panel; a band below it shows the share that the first curve uses of it,
            and where a curve gets near it, the limit is seen among the curves.
        log: Whether the sizes are drawn, logarithmic.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    legend = len(curves) > 1
    layout = _panel_layout(titles, x_title or time_title(x), banded=bool(len(limits)))
    if not x_title:
        layout['meta'] = {'time': float(x[0]) if len(x) else 0.0}
        x = x - x[:1]
    traces = []
    for i in range(len(titles)):
        drawn = [curve for curve in curves if np.isfinite(curve.values[:, i]).any()]
        traces += [c.trace(x, i, legend=legend and not i) for c in drawn]
        values = np.concatenate([np.zeros(0), *(curve.values[:, i] for curve in drawn)])
        axis = layout[f'yaxis{_number(i)}']
        if log:
            axis['type'] = 'log'
        elif bounds := _bounds(values, flat=not len(limits)):
            axis['range'] = bounds
        if len(limits) and 0.0 < limits[i] < math.inf and drawn:
            traces += _limit(layout, x, curves[0].values[:, i], i, len(titles), limits[i])
    return _figure(traces, layout, legend=legend)


def time_title(time: Array) -> str:
    """Return the title of an axis that begins with 0 at the first of the times."""
    return f'time since {at(time[0])} [s]' if len(time) and time[0] else 'time [s]'


def _panel_layout(titles: Sequence[str], x_title: str, *, banded: bool) -> dict[str, Any]:
    """Return axes and titles of panels, two a row; bands for shares of limits below them."""
    rows, wide = math.ceil(len(titles) / 2), 1.0 if len(titles) == 1 else 0.47
    inner = rows * (_PLOT + _GAP) - _GAP
    layout: dict[str, Any] = {'height': inner, 'annotations': [], 'shapes': []}
    for i, title in enumerate(titles):
        row, column = divmod(i, 2)
        left, low = 0.53 * column, inner - row * (_PLOT + _GAP) - _PLOT
        bottom, top, last = low / inner, (low + _PLOT) / inner, i + 2 >= len(titles)
        axes = _axes_of(i)
        layout[f'xaxis{_number(i)}'] = {
            'domain': [left, left + wide],
            'anchor': f'y{len(titles) + i + 1}' if banded else axes['yaxis'],
            'matches': 'x' if i and x_title.startswith('time') else None,
            'title': {'text': x_title if last else '', 'standoff': 8},
        }
        floor = bottom + (_BAND + 6) / inner if banded else bottom
        layout[f'yaxis{_number(i)}'] = {'domain': [floor, top], 'anchor': axes['xaxis']}
        if banded:
            layout[f'yaxis{len(titles) + i + 1}'] = {
                'domain': [bottom, bottom + _BAND / inner], 'anchor': axes['xaxis'],
                'range': [0.0, 1.0], 'fixedrange': True, 'showticklabels': False,
                'showgrid': False, 'zeroline': False,
            }  # fmt: skip
        layout['annotations'].append(_note(f'<b>{title}</b>', left, top, 'left'))
    return layout


def _note(text: str, x: float, y: float, side: str) -> dict[str, Any]:
    return {
        'text': text, 'x': x, 'y': y, 'xref': 'paper', 'yref': 'paper', 'showarrow': False,
        'xanchor': side, 'yanchor': 'bottom', 'font': {'size': 12}, 'yshift': 3,
    }  # fmt: skip


def _limit(
    layout: dict[str, Any], x: Array, values: Array, i: int, count: int, limit: float
) -> Iterator[dict[str, Any]]:
    """Yield the band of the share of a limit; add the limit and the largest share in words."""
    share = np.abs(values) / limit
    largest = float(np.nanmax(share, initial=0.0))
    right, top = (layout[f'{axis}axis{_number(i)}']['domain'][1] for axis in 'xy')
    layout['annotations'].append(
        _note(f'{100.0 * largest:.3g} % of ±{limit:g}', right, top, 'right')
    )
    axes = _axes_of(i)
    for end in (-limit, limit):
        layout['shapes'].append({
            'type': 'line', 'xref': f'{axes["xaxis"]} domain', 'yref': axes['yaxis'], 'x0': 0,
            'x1': 1, 'y0': end, 'y1': end, 'line': {'color': RED, 'width': 1.2, 'dash': 'dash'},
        })  # fmt: skip
    band = {'xaxis': axes['xaxis'], 'yaxis': f'y{count + i + 1}'}
    layout['shapes'].append({
        'type': 'rect', 'xref': f'{band["xaxis"]} domain', 'yref': f'{band["yaxis"]} domain',
        'x0': 0, 'x1': 1, 'y0': 0, 'y1': 1, 'fillcolor': _GRID, 'line': {'width': 0},
    })  # fmt: skip
    for shown, colour in ((share, COLOURS[0]), (np.where(share >= 1.0, 1.0, np.nan), RED)):
        if np.isfinite(shown).any():
            line = PlotLine(shown[:, np.newaxis], 'share of the limit', colour, 0.0)
            yield line.trace(x, 0, legend=False) | {
                'fill': 'tozeroy', 'fillcolor': colour, 'hovertemplate': '%{y:.1%}', **band,
            }  # fmt: skip


def _bounds(values: Array, *, flat: bool) -> list[float] | None:
    """Return bounds of an axis; None: those that plotly chooses.

    Args:
        values: What is drawn.
        flat: Whether only a line without ups and downs is given bounds: 0 is beside it then.
    """
    values = values[np.isfinite(values)]
    level = float(np.abs(values).max(initial=0.0))
    if not level:
        return None
    if np.ptp(values) <= 1e-3 * level:
        low, high = sorted((0.0, 1.3 * float(values[0])))
        return [low - 0.1 * level, high + 0.1 * level]
    room = 0.08 * float(np.ptp(values))
    return None if flat else [float(values.min()) - room, float(values.max()) + room]


@dataclass(frozen=True, eq=False)
class BarGroup:
    """Bars of one colour: their heights, standard deviations or none, label and colour."""

    values: Sequence[float]
    deviations: Sequence[float]
    label: str
    colour: str


def bars(names: Sequence[str], groups: Sequence[BarGroup], y_title: str) -> Any:
    """Return a figure with groups of bars side by side.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    layout = _panel_layout([y_title], ' ', banded=False)
    traces = [
        {
            'type': 'bar', 'x': list(names), 'y': list(group.values), 'name': group.label,
            'marker': {'color': group.colour},
            'error_y': {'array': list(group.deviations), 'visible': bool(len(group.deviations))},
        }
        for group in groups
    ]  # fmt: skip
    return _figure(traces, layout, legend=True)


# The plot library -------------------------------------------------------------------------------


def _figure(
    traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any], *, legend: bool
) -> Any:
    figure = subplots()
    return styled(type(figure)(data=traces, layout=layout), layout['height'], legend=legend)


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


def styled(figure: Any, height: int, *, legend: bool = True) -> Any:
    """Return a figure in the reports' style, with the height of its panels in pixels."""
    top = _TITLE + _LEGEND * legend
    figure.update_layout(
        template='none',
        height=height + top + _BOTTOM,
        margin={'l': 62, 'r': 16, 't': top, 'b': _BOTTOM},
        paper_bgcolor=_CLEAR,
        plot_bgcolor=_CLEAR,
        font={'size': 12, 'family': 'system-ui, sans-serif'},
        legend={'orientation': 'h', 'yref': 'container', 'y': 1, 'yanchor': 'top', 'x': 0},
        hovermode='x unified',
    )
    figure.update_xaxes(gridcolor=_GRID, zerolinecolor=_ZERO)
    figure.update_yaxes(gridcolor=_GRID, zerolinecolor=_ZERO, exponentformat='power')
    return figure
