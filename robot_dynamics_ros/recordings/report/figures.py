# SPDX-License-Identifier: Apache-2.0
"""Plots of reports; the only module that imports plotly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import MissingDependencyError
from robot_dynamics_ros.recordings.recording import format_time
from robot_dynamics_ros.spatial.scalar import Array

#: Colours legible on white and on black.
COLOURS = ('#2f86c8', '#e07b1f', '#1f9e7f', '#d0478f', '#8f6fd6', '#a08070', '#d4a017')
#: Colours of references, and of errors and limits.
GREY, RED = '#9aa0a6', '#e03e3e'
_CLEAR, _GRID, _ZERO = 'rgba(0,0,0,0)', 'rgba(128,128,128,.16)', 'rgba(128,128,128,.45)'
_PLOT, _GAP, _TITLE, _LEGEND, _BOTTOM, _BAND = 170, 54, 34, 28, 46, 14  # pixels
_MAX_POINTS, _MAX_DOTS = 2000, 1500


@dataclass(frozen=True, eq=False)
class PlotLine:
    """A line, or markers, with one column of values per panel.

    Attributes:
        values: Shape (N, panels); not drawn in panels without a finite value.
        label: Label in the legend; empty for none.
        colour, width: Colour and width of the line.
        x: Abscissae, shape (N,) or (N, panels); None for those of the panels.
        dots: Whether to draw markers instead of a line.
    """

    values: Array
    label: str
    colour: str
    width: float = 1.3
    x: Array | None = None
    dots: bool = False

    def trace(self, x: Array, i: int, *, legend: bool) -> dict[str, Any]:
        """Return the plotly trace in panel ``i``."""
        x = x if self.x is None else self.x
        x = x if x.ndim == 1 else x[:, i]
        x, values = (
            _decimated(x, self.values[:, i]) if self.dots else _enveloped(x, self.values[:, i])
        )
        finite = np.append(np.isfinite(values), False)
        isolated = finite & ~np.roll(finite, 1) & ~np.roll(finite, -1)
        return {
            'type': 'scatter',
            'x': x.astype(np.float32),
            'y': values.astype(np.float32),
            'name': self.label,
            'legendgroup': self.label,
            'showlegend': legend and bool(self.label),
            'mode': 'markers' if self.dots else 'lines',
            'connectgaps': bool(2 * isolated.sum() > finite.sum()),  # sparse samples
            'line': {'color': self.colour, 'width': self.width},
            'marker': {'color': self.colour, 'size': 3, 'opacity': 0.6},
            **_axes_of(i),
        }


def _decimated(x: Array, values: Array) -> tuple[Array, Array]:
    """Decimate points."""
    step = math.ceil(len(x) / _MAX_DOTS) or 1
    return x[::step], values[::step]


def _enveloped(x: Array, values: Array) -> tuple[Array, Array]:
    """Decimate a curve to the minima and maxima of blocks, which keeps all peaks."""
    if len(x) <= _MAX_POINTS:
        return x, values
    starts = np.arange(0, len(x), math.ceil(2 * len(x) / _MAX_POINTS))
    extremes = [pick.reduceat(values, starts) for pick in (np.fmin, np.fmax)]
    return np.repeat(x[starts], 2), np.stack(extremes, axis=1).ravel()


def _axes_of(i: int) -> dict[str, str]:
    """Return the axis names of a panel."""
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
    """Return a figure with curves in panels, two per row.

    Args:
        x: Times, shape (N,), s, drawn from 0 on; with ``x_title`` any abscissae, shape (N,) or
            (N, panels).
        titles: Titles of the panels.
        curves: Curves to draw in each panel.
        x_title: Title of the x axis; empty for the time.
        limits: One limit per panel; a band below the panel shows the fraction of it used by the
            first curve, and the limit is drawn as a line, visible if a curve comes near it.
        log: Whether the y axis is logarithmic.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    legend = len(curves) > 1
    origin = 0.0 if x_title or not len(x) else float(x[0])
    since = f'time since {format_time(origin)} [s]' if origin else 'time [s]'
    layout = _panel_layout(titles, x_title or since, banded=bool(len(limits)))
    if not x_title:
        layout['meta'] = {'time': origin}
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


class Plots:
    """Figures over the same times, with their headings, in order of display.

    Attributes:
        drawn: Headings and plotly figures.

    Args:
        time: Shape (N,), s.
    """

    def __init__(self, time: Array) -> None:
        self._time, self.drawn = time, list[tuple[str, Any]]()

    def add(self, heading: str, titles: Sequence[str], *lines: PlotLine, **options: Any) -> None:
        """Draw curves in panels, see :func:`panels`; nothing if no curve has a finite value."""
        known = [line for line in lines if np.isfinite(line.values).any()]
        if known:
            self.drawn.append((heading, panels(self._time, titles, known, **options)))


def _panel_layout(titles: Sequence[str], x_title: str, *, banded: bool) -> dict[str, Any]:
    """Return axes and titles of panels, two per row, optionally with bands below them."""
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
        layout['annotations'].append(_annotation(f'<b>{title}</b>', left, top, 'left'))
    return layout


def _annotation(text: str, x: float, y: float, side: str) -> dict[str, Any]:
    return {
        'text': text, 'x': x, 'y': y, 'xref': 'paper', 'yref': 'paper', 'showarrow': False,
        'xanchor': side, 'yanchor': 'bottom', 'font': {'size': 12}, 'yshift': 3,
    }  # fmt: skip


def _limit(
    layout: dict[str, Any], x: Array, values: Array, i: int, count: int, limit: float
) -> Iterator[dict[str, Any]]:
    """Yield the band with the used fraction of a limit; add lines and a label to the layout."""
    share = np.abs(values) / limit
    largest = float(np.fmax.reduce(share, initial=0.0))
    right, top = (layout[f'{axis}axis{_number(i)}']['domain'][1] for axis in 'xy')
    layout['annotations'].append(
        _annotation(f'{100.0 * largest:.3g} % of ±{limit:g}', right, top, 'right')
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
            line = PlotLine(shown[:, np.newaxis], 'fraction of the limit', colour, 0.0)
            yield line.trace(x, 0, legend=False) | {
                'fill': 'tozeroy', 'fillcolor': colour, 'hovertemplate': '%{y:.1%}', **band,
            }  # fmt: skip


def _bounds(values: Array, *, flat: bool) -> list[float] | None:
    """Return the range of an axis; None for plotly's choice.

    Args:
        values: The plotted values.
        flat: Whether to set the range for constant curves only; it then includes 0.
    """
    values = values[np.isfinite(values)]
    level = float(np.abs(values).max(initial=0.0))
    if not level:
        return None
    if np.ptp(values) <= 1e-3 * level:
        low, high = sorted((0.0, 1.3 * float(values[0])))
        return [low - 0.1 * level, high + 0.1 * level]
    margin = 0.08 * float(np.ptp(values))
    return None if flat else [float(values.min()) - margin, float(values.max()) + margin]


@dataclass(frozen=True, eq=False)
class BarGroup:
    """Bars of one colour: heights, standard deviations (may be empty), label and colour."""

    values: Sequence[float]
    deviations: Sequence[float]
    label: str
    colour: str


def bars(names: Sequence[str], groups: Sequence[BarGroup], y_title: str) -> Any:
    """Return a figure with grouped bars.

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
    """Return an empty figure with subplots, with the options of plotly's ``make_subplots``.

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
    """Apply the style of reports to a figure; ``height`` is that of the panels, pixels."""
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
