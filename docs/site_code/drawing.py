# SPDX-License-Identifier: Apache-2.0
"""Draw boxes, arrows and curves as SVG text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import accumulate, pairwise

import numpy as np

INK, PAPER, EDGE = '#22313f', '#eef3f7', '#8aa0b4'
COLOURS = ('#0b6e99', '#d9534f', '#3c8d40', '#8a4fbf')
_LINE = 18  # px from one line of text to the next


class Drawing:
    """An SVG picture, built from boxes, arrows, curves and text."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self._size, self._title, self._parts = (width, height), title, []  # type: ignore[var-annotated]

    def text(
        self,
        x: float,
        y: float,
        words: str,
        anchor: str = 'middle',
        size: int = 14,
        ground: str = 'white',
    ) -> None:
        """Add one line of text, in bold if it begins with '*', readable across lines."""
        weight = ' font-weight="bold"' if words.startswith('*') else ''
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{weight} '
            f'fill="{INK}" stroke="{ground}" stroke-width="4" paint-order="stroke">'
            f'{escape(words.removeprefix("*"))}</text>'
        )

    def box(
        self, x: float, y: float, width: float, height: float, words: str, fill: str = PAPER
    ) -> None:
        """Draw a box with centred lines of text."""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" '
            f'fill="{fill}" stroke="{EDGE}"/>'
        )
        lines = words.split('\n')
        first = y + height / 2 + 5 - _LINE * (len(lines) - 1) / 2
        for k, line in enumerate(lines):
            self.text(
                x + width / 2, first + _LINE * k, line, size=14 if k == 0 else 12, ground=fill
            )

    def arrow(self, x1: float, y1: float, x2: float, y2: float, colour: str = INK) -> None:
        """Draw an arrow from one point to another."""
        self._parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            'stroke-width="1.5" marker-end="url(#head)"/>'
        )

    def dot(self, x: float, y: float, colour: str) -> None:
        """Draw a disc."""
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colour}"/>')

    def curve(
        self,
        points: Sequence[tuple[float, float]],
        colour: str,
        dashed: bool,
        width: float = 2,
    ) -> None:
        """Draw a polyline."""
        path = ' '.join(f'{x:.1f},{y:.1f}' for x, y in points)
        dash = ' stroke-dasharray="7 5"' if dashed else ''
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}" '
            f'stroke-linejoin="round"{dash}/>'
        )

    def moving(
        self, frames: Sequence[Sequence[tuple[float, float]]], seconds: float, colour: str
    ) -> None:
        """Draw a polyline with joints that passes through the given frames, again and again."""
        values = ';'.join(' '.join(f'{x:.1f},{y:.1f}' for x, y in frame) for frame in frames)
        self._parts.append(
            f'<polyline points="{values.partition(";")[0]}" fill="none" stroke="{colour}" '
            'stroke-width="9" stroke-opacity="0.75" stroke-linecap="round" '
            'stroke-linejoin="round" '
            f'marker-mid="url(#joint)">{_repeated("points", values, seconds)}</polyline>'
        )

    def trail(self, points: Sequence[tuple[float, float]], seconds: float, colour: str) -> None:
        """Draw a polyline that grows by one point per frame, again and again."""
        path = ' '.join(f'{x:.1f},{y:.1f}' for x, y in points)
        steps = [math.dist(a, b) for a, b in pairwise(points)]
        whole = sum(steps)
        rest = ';'.join(f'{whole - done:.1f}' for done in accumulate(steps, initial=0.0))
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{whole:.1f}">'
            f'{_repeated("stroke-dashoffset", rest, seconds)}</polyline>'
        )

    def svg(self) -> str:
        """Return the SVG text."""
        width, height = self._size
        head = (
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
            f'markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="context-stroke"/>'
            '</marker><marker id="joint" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="1" '
            f'markerHeight="1"><circle cx="4" cy="4" r="3" fill="{PAPER}"/></marker></defs>'
        )
        return '\n'.join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
                f'font-family="sans-serif"><title>{escape(self._title)}</title>{head}',
                f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
                *self._parts,
                '</svg>\n',
            ]
        )


def _repeated(attribute: str, values: str, seconds: float) -> str:
    return (
        f'<animate attributeName="{attribute}" values="{values}" dur="{seconds:g}s" '
        'repeatCount="indefinite"/>'
    )


def fitted(
    points: np.ndarray, left: float, right: float, top: float, bottom: float
) -> Callable[[np.ndarray], list[tuple[float, float]]]:
    """Return the function from points in a plane, (k, 2), to pixels that fits these into a box.

    They stand in its middle on its bottom; its sides are in px.
    """
    low, span = points.min(axis=0), np.ptp(points, axis=0)
    scale = float(((right - left, bottom - top) / span).min())
    origin = np.array([(left + right - scale * span[0]) / 2, bottom])

    def place(flat: np.ndarray) -> list[tuple[float, float]]:
        return [(float(x), float(y)) for x, y in origin + (flat - low) * (scale, -scale)]

    return place


def _ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers from low to high."""
    coarse = 10.0 ** math.floor(math.log10(high - low))
    step = next(s for s in (0.1, 0.2, 0.5, 1.0, 2.0) if (high - low) / (s * coarse) <= 6) * coarse
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def plot(
    title: str,
    labels: tuple[str, str],
    curves: Mapping[str, Sequence[tuple[float, float]]],
    dashed: Sequence[str] = (),
) -> str:
    """Return a plot of curves with linear axes.

    Args:
        title: Title of the plot.
        labels: Axis labels with units, x and y.
        curves: Points (x, y) by legend entry.
        dashed: Legend entries of the dashed curves.
    """
    left, right, top, bottom = 80.0, 740.0, 50.0, 330.0
    drawing = Drawing(780, 390, title)
    xs, ys = zip(*(point for points in curves.values() for point in points), strict=True)
    low, high = min(0.0, *ys), max(ys) * 1.05

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x, y = point
        return (
            left + (right - left) * (x - min(xs)) / (max(xs) - min(xs)),
            bottom - (bottom - top) * (y - low) / (high - low),
        )

    drawing.text(390, 26, f'*{title}', size=15)
    for y in _ticks(low, high):
        height = place((min(xs), y))[1]
        drawing.curve([(left, height), (right, height)], '#dddddd', False)
        drawing.text(left - 8, height + 4, f'{y:g}', 'end', 12)
    for x in _ticks(min(xs), max(xs)):
        drawing.text(place((x, low))[0], bottom + 20, f'{x:g}', size=12)
    drawing.text(410, bottom + 44, labels[0], size=13)
    drawing.text(left, 44, labels[1], 'start', 13)
    for k, (name, points) in enumerate(curves.items()):
        drawing.curve([place(point) for point in points], COLOURS[k], name in dashed)
        drawing.curve([(500, 66 + 20 * k), (530, 66 + 20 * k)], COLOURS[k], name in dashed)
        drawing.text(538, 70 + 20 * k, name, 'start', 13)
    return drawing.svg()
