# SPDX-License-Identifier: Apache-2.0
"""A line chart with logarithmic axes as one HTML file that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

_WIDTH, _HEIGHT = 900, 560
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 210, 50, 60
_COLOURS = ('#0b6e99', '#d9534f', '#3c8d40', '#8a4fbf', '#c77f0a', '#555555', '#d66ba0')

Series = Mapping[str, Sequence[tuple[float, float]]]


def line_chart(title: str, x_label: str, y_label: str, series: Series) -> str:
    """Return an HTML page with one curve for each series of (x, y), both positive."""
    points = [point for curve in series.values() for point in curve]
    x_axis = _Axis([x for x, _ in points], _LEFT, _WIDTH - _RIGHT)
    y_axis = _Axis([y for _, y in points], _HEIGHT - _BOTTOM, _TOP)
    body = [
        _text(_WIDTH / 2, 28, title, 'middle', 17),
        _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 14, x_label, 'middle', 14),
        f'<g transform="translate(20 {_HEIGHT / 2}) rotate(-90)">'
        f'{_text(0, 0, y_label, "middle", 14)}</g>',
    ]
    for x in sorted({x for x, _ in points}):
        body.append(_line(x_axis(x), _TOP, x_axis(x), _HEIGHT - _BOTTOM))
        body.append(_text(x_axis(x), _HEIGHT - _BOTTOM + 20, f'{x:g}', 'middle', 12))
    for y in y_axis.ticks():
        body.append(_line(_LEFT, y_axis(y), _WIDTH - _RIGHT, y_axis(y)))
        body.append(_text(_LEFT - 8, y_axis(y) + 4, f'{y:g}', 'end', 12))
    for k, (name, curve) in enumerate(series.items()):
        colour = _COLOURS[k % len(_COLOURS)]
        path = ' '.join(f'{x_axis(x):.1f},{y_axis(y):.1f}' for x, y in curve)
        body.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        body += [
            f'<circle cx="{x_axis(x):.1f}" cy="{y_axis(y):.1f}" r="3.5" fill="{colour}">'
            f'<title>{escape(name)}: {x:g}, {y:.4g}</title></circle>'
            for x, y in curve
        ]
        height = _TOP + 20 + 22 * k
        body.append(_line(_WIDTH - _RIGHT + 18, height, _WIDTH - _RIGHT + 42, height, colour, 3))
        body.append(_text(_WIDTH - _RIGHT + 50, height + 4, name, 'start', 13))
    drawing = '\n'.join(body)
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="sans-serif" style="max-width: 1100px">\n{drawing}\n</svg></html>\n'
    )


class _Axis:
    """Places numbers on a logarithmic scale between two positions."""

    def __init__(self, values: Sequence[float], first: float, last: float) -> None:
        self._low, self._high = math.log(min(values) * 0.9), math.log(max(values) * 1.1)
        self._first, self._last = first, last

    def __call__(self, value: float) -> float:
        share = (math.log(value) - self._low) / (self._high - self._low)
        return self._first + share * (self._last - self._first)

    def ticks(self) -> list[float]:
        """Return 1, 2, 5, 10, 20, 50, ... as far as they are on the axis."""
        low, high = math.exp(self._low), math.exp(self._high)
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        return [m * 10.0**d for d in decades for m in (1, 2, 5) if low <= m * 10.0**d <= high]


def _line(
    x1: float, y1: float, x2: float, y2: float, colour: str = '#dddddd', width: float = 1
) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{colour}" stroke-width="{width}"/>'
    )


def _text(x: float, y: float, text: str, anchor: str, size: int) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">'
        f'{escape(text)}</text>'
    )
