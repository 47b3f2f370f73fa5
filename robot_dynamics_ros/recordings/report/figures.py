# SPDX-License-Identifier: Apache-2.0
"""Plots of reports, as data for plotly's script; the only module that imports plotly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import MissingDependencyError
from robot_dynamics_ros.estimation.accumulate import POINTS, envelope, thinned
from robot_dynamics_ros.recordings.recording import format_time
from robot_dynamics_ros.spatial.scalar import Array

#: Colours legible on white and on black.
COLOURS = ('#2f86c8', '#e07b1f', '#1f9e7f', '#d0478f', '#8f6fd6', '#a08070', '#d4a017')
#: Colours of references, and of errors and limits.
GREY, RED = '#9aa0a6', '#e03e3e'
_CLEAR, _GRID, _ZERO = 'rgba(0,0,0,0)', 'rgba(128,128,128,.16)', 'rgba(128,128,128,.45)'
_PLOT, _GAP, _TITLE, _LEGEND, _BOTTOM = 170, 54, 34, 28, 46  # pixels
_BAND = 0.1  # of the height of a panel
_MAX_POINTS, _MAX_DOTS = 4 * POINTS, 1500


class Plots:
    """Figures over the same times, with their headings, in order of display.

    What is drawn is data for plotly's script: as plotly's classes it took a quarter of a command.

    Attributes:
        drawn: Headings, and plotly figures as data.

    Args:
        series: 'time' (N,), s, and columns (N, k) by name.
        origin: Zero of the displayed times, s, see ``span_origin``.
    """

    def __init__(self, series: Mapping[str, Array], origin: float) -> None:
        self._series, self.drawn = series, list[tuple[str, Any]]()
        self._origin = origin

    def add(
        self,
        heading: str,
        titles: Sequence[str],
        *lines: tuple[Any, ...],
        scale: float = 1.0,
        over: str = 'time',
        x_title: str = '',
        limits: Sequence[float] = (),
        log: bool = False,
    ) -> None:
        """Draw columns in panels, two per row; nothing if none has a finite value.

        Args:
            heading: Heading of the figure.
            titles: Titles of the panels, with units.
            lines: Name of a column, then its label in the legend, empty for none, its colour and
                its width, or a usual one; left out if there is no such column.
            scale: Factor to the unit of the panels.
            over: Name of the column of the abscissae; with ``x_title`` unless it is the time.
            x_title: Title of the x axis, over which dots are drawn; empty for lines over the time.
            limits: One limit per panel; a band below the panel shows the fraction of it used by
                the first line, and the limit is drawn, visible if a line comes near it.
            log: Whether the y axis is logarithmic.

        Raises:
            MissingDependencyError: The plot library is not installed.
        """
        series = self._series
        known = [x for x in lines if x[0] in series and np.isfinite(series[x[0]]).any()]
        if not known:
            return
        figure, x = self._framed(titles, x_title, legend=len(known) > 1), series[over]
        layout = figure['layout']
        x = x if x_title else np.tile(x - self._origin, (len(titles), 1)).T
        for i in range(len(titles)):
            drawn = [(scale * series[name][:, i], *style) for name, *style in known]
            drawn = [line for line in drawn if np.isfinite(line[0]).any()]
            within = bool(len(limits) and 0.0 < limits[i] < math.inf and drawn)
            place = {'xaxis': _axis('x', i), 'yaxis': _axis('y', i)}
            shown = {'showlegend': len(known) > 1 and not i, **place}
            figure['data'] += [_trace(x[:, i], *y, dots=bool(x_title)) | shown for y in drawn]
            axis = layout[_axis('yaxis', i)]
            if log:
                axis['type'] = 'log'
            elif bounds := _bounds([line[0] for line in drawn], banded=within):
                axis['range'] = bounds
            if within:
                _add_limit(figure, x[:, i], drawn[0][0], limits[i], i, len(titles) + i)
        self.drawn.append((heading, figure))

    def _framed(self, titles: Sequence[str], x_title: str, *, legend: bool) -> dict[str, Any]:
        """Return a figure with empty panels, whose axes have titles."""
        origin, figure = self._origin, deepcopy(_untitled(len(titles), legend))
        since = f'time since {format_time(origin)} [s]' if origin else 'time [s]'
        layout = figure['layout']
        for annotation, title in zip(layout['annotations'], titles, strict=True):
            annotation['text'] = f'<b>{title}</b>'
        for i in range(len(titles))[-2:]:  # the lowest panel of each column
            layout[_axis('xaxis', i)]['title'] = {'text': x_title or since, 'standoff': 8}
        if not x_title:
            layout['meta'] = {'time': origin}
            for i in range(1, len(titles)):
                layout[_axis('xaxis', i)]['matches'] = 'x'
        return figure


def _trace(
    x: Array, y: Array, label: str, colour: str, width: float = 1.3, *, dots: bool = False
) -> dict[str, Any]:
    """Return the plotly trace of a line, or of dots, of shape (N,)."""
    if dots:
        few = thinned(len(x), _MAX_DOTS // 2)
        x, y = x[few], y[few]
    elif len(x) > _MAX_POINTS:
        x, (y,) = (one.T for one in envelope(x, {'': y}).values())
    finite = np.append(np.isfinite(y), False)
    isolated = finite & ~np.roll(finite, 1) & ~np.roll(finite, -1)
    return {
        'type': 'scatter',
        'x': x,
        'y': y.astype(np.float32),
        'name': label,
        'legendgroup': label,
        'mode': 'markers' if dots else 'lines',
        'connectgaps': bool(2 * isolated.sum() > finite.sum()),  # sparse samples
        'line': {'color': colour, 'width': width},
        'marker': {'color': colour, 'size': 3, 'opacity': 0.6},
    }


def _axis(name: str, i: int) -> str:
    """Return the plotly name of an axis, as 'x', 'x2', 'xaxis2'."""
    return f'{name}{i + 1 if i else ""}'


@cache
def _untitled(count: int, legend: bool) -> dict[str, Any]:
    """Return an empty figure with panels, two per row, once: plotly takes a while."""
    columns, rows = min(2, count), math.ceil(count / 2)
    height, top = rows * (_PLOT + _GAP) - _GAP, _TITLE + _LEGEND * legend
    cells: list[Any] = [{} if i < count else None for i in range(rows * columns)]
    figure = _plotly('subplots').make_subplots(
        rows=rows,
        cols=columns,
        subplot_titles=['of the panel'] * count,
        specs=[cells[columns * row : columns * (row + 1)] for row in range(rows)],
        vertical_spacing=_GAP / height,
        horizontal_spacing=0.06,
    )
    figure.update_annotations(font_size=12)
    figure.update_xaxes(gridcolor=_GRID, zerolinecolor=_ZERO)
    figure.update_yaxes(gridcolor=_GRID, zerolinecolor=_ZERO, exponentformat='power')
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
    return dict(figure.to_plotly_json())


def _add_limit(
    figure: dict[str, Any], x: Array, values: Array, limit: float, i: int, band: int
) -> None:
    """Add lines at a limit of a panel, and a band with its used fraction on axis ``band``."""
    share, layout = np.abs(values) / limit, figure['layout']
    across, own, used = f'{_axis("x", i)} domain', _axis('y', i), _axis('y', band)
    layout[_axis('yaxis', band)] = {
        'overlaying': own, 'anchor': _axis('x', i), 'range': [0.0, 1.0 / _BAND],
        'visible': False, 'fixedrange': True,
    }  # fmt: skip
    over = np.where(share >= 1.0, 1.0, np.nan)
    for shown, colour in ((np.fmin(share, 1.0), COLOURS[0]), (over, RED)):
        if np.isfinite(shown).any():
            figure['data'].append(_trace(x, shown, 'of the limit', colour, 0.0) | {
                'fill': 'tozeroy', 'fillcolor': colour, 'hovertemplate': '%{y:.1%}',
                'xaxis': _axis('x', i), 'yaxis': used, 'showlegend': False,
            })  # fmt: skip
    place = {'xref': across, 'x0': 0, 'x1': 1}
    line = place | {'type': 'line', 'line': {'color': RED, 'width': 1.2, 'dash': 'dash'}}
    ground = {'type': 'rect', 'fillcolor': _GRID, 'line': {'width': 0}, 'yref': used}
    layout['shapes'] = [
        *layout.get('shapes', ()),
        *(line | {'y0': end, 'y1': end, 'yref': own} for end in (-limit, limit)),
        place | ground | {'y0': 0.0, 'y1': 1.0},
    ]
    largest = 100.0 * np.nanmax(share)
    layout['annotations'].append(
        {'text': f'band: share of the limit, at most {largest:.3g} % of ±{limit:g}', 'x': 1,
         'y': 1.5 * _BAND, 'xanchor': 'right', 'yanchor': 'middle', 'font': {'size': 10},
         'xref': across, 'yref': f'{own} domain', 'showarrow': False}
    )  # fmt: skip


def _bounds(curves: Sequence[Array], *, banded: bool) -> list[float]:
    """Return the range of an axis; empty for plotly's choice.

    Args:
        curves: The plotted values; constant ones have 0 beside them.
        banded: Whether there is a band below them.
    """
    values = np.concatenate([np.zeros(0), *(curve[np.isfinite(curve)] for curve in curves)])
    level = float(np.abs(values).max(initial=0.0))
    if not level:
        return []
    low, high = float(values.min()), float(values.max())
    margin = 0.08 * (high - low)
    if high - low > 1e-3 * level and not banded:
        return []
    if high - low <= 1e-3 * level:
        (low, high), margin = sorted((0.0, 1.3 * low)), 0.1 * level
    low, high = low - margin, high + margin
    return [low - banded * 1.6 * _BAND * (high - low), high]


def plot_library() -> bytes:
    """Return the script that draws the figures in a page.

    Raises:
        MissingDependencyError: The plot library is not installed.
    """
    return str(_plotly('offline').get_plotlyjs()).encode()


def _plotly(module: str) -> Any:
    try:
        return import_module(f'plotly.{module}')
    except ImportError as error:
        remedy = "install it (pip 'plotly')"
        raise MissingDependencyError('plotly', 'the HTML report', remedy) from error
