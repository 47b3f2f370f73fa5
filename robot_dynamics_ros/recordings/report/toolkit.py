# SPDX-License-Identifier: Apache-2.0
"""Self-contained HTML reports with findings, tables, plots and a 3D animation of the arm.

Every command that evaluates data builds one :class:`Report`; its plots come from ``figures``. The
arm is animated by a script in the page.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import sys
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from itertools import chain, zip_longest
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.program_shapes import ProgramShape, program_shapes
from robot_dynamics_ros.geometry import LinkShape, robot_shapes
from robot_dynamics_ros.geometry.triangles import Triangles, joined
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.recordings.recording import format_time
from robot_dynamics_ros.recordings.report.figures import plot_library
from robot_dynamics_ros.spatial.scalar import Array

#: Largest numbers of triangles and instants of an animation, to limit the file size.
MAX_FACES, MAX_INSTANTS = 20_000, 1000
_BODY = """<div class="arm" tabindex="0">
<canvas></canvas><div class="legend">{legend}</div>
<div class="controls"><button type="button" class="play" title="play (space)">▶</button>
<div class="track">
<input type="range" min="0" max="1" step="any" value="0" aria-label="time"></div>
<output></output>
<select aria-label="speed"><option value="0.1">0.1 ×</option><option value="0.25">0.25 ×</option>
<option value="0.5">0.5 ×</option><option value="1" selected>1 ×</option>
<option value="2">2 ×</option><option value="5">5 ×</option></select>
<button type="button" class="loop" aria-pressed="false" title="repeat (L)">⟳</button></div>
<p class="hint">Drag to rotate, Shift+drag to pan, Ctrl+wheel to zoom, double-click to reset. Space
plays, the arrow keys step, L repeats; a click into a plot over time goes there.</p>
{remarks}</div>"""


class ArmMotion(NamedTuple):
    """One motion of the arm.

    Attributes:
        label: Label in the legend, such as 'measured'.
        positions: Joint positions, shape (N, n), rad or m; the arm is hidden where any is NaN.
        colour: Colour of the tool path.
        ghost: Whether to draw the arm translucent, in that colour.
    """

    label: str
    positions: Array
    colour: str
    ghost: bool = False


class ArmAnimation(NamedTuple):
    """3D animation of one or several motions of an arm.

    Attributes:
        tree: The robot.
        frame: The tool frame, whose path is drawn.
        time: Shape (N,), s, increasing.
        motions: One or several motions at these times.
        program: The program that drew it, if one did.
        program_start: Its start among these times, s.
    """

    tree: Robot
    frame: str
    time: Array
    motions: Sequence[ArmMotion]
    program: Program | None = None
    program_start: float = 0.0

    def parts(self, origin: float = 0.0) -> tuple[str, dict[str, Any] | None]:
        """Return HTML and data; nothing without a description or finite positions.

        Args:
            origin: Zero of the displayed times, s.
        """
        finite = np.isfinite(self.motions[0].positions).all(axis=1)
        if not self.tree.xml or not finite.any():
            return '', None
        shapes, remarks = robot_shapes(self.tree.xml, MAX_FACES)
        frame = self.tree.frame(self.frame)
        document = {
            'bodies': _bodies(self.tree),
            'tool': {'body': frame.body, 'p': _rounded(frame.p_BF)},
            'origin': origin,
            'shapes': _shapes(self.tree, shapes),
            **self._motions(np.flatnonzero(finite)),
        }
        legend = ''.join(
            f'<span><i style="background:{motion.colour}"></i>{escape(motion.label)}</span>'
            for motion in self.motions
        )
        told = _folded('Some geometry cannot be shown as described', [*map(escape, remarks)])
        return _BODY.format(legend=legend, remarks=told), document

    def _motions(self, rows: Array) -> dict[str, Any]:
        rows = rows[
            np.linspace(0, len(rows) - 1, min(len(rows), MAX_INSTANTS)).round().astype(int)
        ]
        start, q = float(self.time[rows[0]]), self.motions[0].positions[rows]
        times = (self.time[rows] - self.program_start).tolist()
        shapes = program_shapes(self.program) if self.program else ()
        return {
            'drawings': [_drawing(shape, times, q) for shape in shapes],
            'start': start,
            'time': _encoded(self.time[rows] - start),
            'motions': [
                {
                    'positions': _encoded(_body_positions(self.tree, motion.positions[rows])),
                    'colour': motion.colour,
                    'ghost': motion.ghost,
                }
                for motion in self.motions
            ],
        }


def _body_positions(tree: Robot, q: Array) -> Array:
    """Return the joint positions of all bodies for q (N, n), NaN where one is not finite."""
    positions, known = np.full((len(q), tree.bodies), np.nan), np.isfinite(q).all(axis=1)
    positions[known] = tree.positions(q[known])
    return positions


def _folded(summary: str, lines: Sequence[str], state: str = '') -> str:
    """Return HTML lines under a summary, which hides or shows them; nothing without lines."""
    items = ''.join(f'<li>{line}</li>' for line in lines)
    return f'<details {state}><summary>{summary}</summary><ul>{items}</ul></details>' * bool(lines)


def _bodies(tree: Robot) -> list[dict[str, Any]]:
    """Return the joint of each body relative to its parent."""
    return [
        {
            'parent': tree.parent[i],
            'R': _rounded(tree.R_PJ[i]),
            'p': _rounded(tree.p_PJ[i]),
            'axis': _rounded(tree.axis[i]),
            'prismatic': bool(tree.prismatic[i]),
        }
        for i in range(tree.bodies)
    ]


def _rounded(values: Array) -> list[float]:
    return [round(x, 9) for x in np.asarray(values, dtype=float).ravel().tolist()]


def _shapes(tree: Robot, shapes: Sequence[LinkShape]) -> list[dict[str, Any]]:
    """Return surfaces in body frames, merged by body and colour."""
    groups: dict[tuple[int, Any], list[Triangles]] = {}
    for shape in shapes:
        if shape.link in tree.frames:
            frame = tree.frames[shape.link]
            placed = shape.transformed(frame.R_BF, frame.p_BF)
            groups.setdefault((frame.body, shape.colour), []).append(placed)
    return [
        {'body': body, 'colour': colour, **_surface_of(joined(parts))}
        for (body, colour), parts in groups.items()
    ]


def _drawing(shape: ProgramShape, times: list[float], positions: Array) -> dict[str, Any]:
    """Return a shape of a program, and its places at instants, or the only one."""
    places = [shape.at(t, q) for t, q in zip(times, positions, strict=True)]
    rows = np.array([np.append(A, p) for A, p in places])
    return {
        **({} if shape.surface is None else _surface_of(shape.surface)),
        'colour': shape.colour,
        'line': _encoded(shape.line),
        'poses': _encoded(rows[:1] if (rows == rows[0]).all() else rows),
    }


def _surface_of(surface: Triangles) -> dict[str, str]:
    return {'vertices': _encoded(surface.vertices), 'faces': _encoded(surface.faces, 'u4')}


def _encoded(values: Array, kind: str = 'f4') -> str:
    """Encode numbers as base64 of little-endian bytes."""
    data = np.ascontiguousarray(values, dtype=np.dtype(f'<{kind}'))
    return b64encode(data.tobytes()).decode('ascii')


#: Time, s on the clock of the recording, and what happened.
Event = tuple[float, str]
_BADGE_COLOURS = {'error': 'red', 'warning': 'yellow', 'ok': 'green'}
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
{style}</style></head><body>
<h1>{title}</h1><p class="lead">{lead}</p>
{body}
{packed}
<script>
{script}</script>
</body></html>
"""
_CLOCK = re.compile(r'\b(\d{7,}(?:\.\d+)?) s\b')
#: Data of a page by name, compressed.
_PACKED = '<script type="application/octet-stream" id="{name}">{text}</script>'


class ReportTable(NamedTuple):
    """A table of texts, with the first column left-aligned and the others right-aligned.

    Attributes:
        head: Headings of the columns.
        rows: Texts of the cells.
        title: Heading above the table, or empty.
        text: Sentence above the table, or empty.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ''
    text: str = ''

    def html(self) -> str:
        """Return the table as HTML."""
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


class Report(NamedTuple):
    """A report, with its parts in order of display.

    Attributes:
        title: Heading.
        lead: One sentence below it.
        findings: Remarks, most severe first.
        steps: What to do next: a command, or a sentence with one.
        events: Instants worth a look, with a sentence each, s on the clock of the recording.
        tiles: Values and their names.
        tables: Tables of figures.
        notes: Remarks about the data and its evaluation, one sentence each.
        figures: Headings, and plotly figures as data.
        arm: Animation above the tables, or None.
        below: Tables after the plots.
        origin: Zero of the displayed times, s, see ``span_origin``.
    """

    title: str
    lead: str
    findings: Sequence[Finding] = ()
    tiles: Sequence[tuple[str, str]] = ()
    tables: Sequence[ReportTable] = ()
    notes: Sequence[str] = ()
    figures: Sequence[tuple[str, Any]] = ()
    below: Sequence[ReportTable] = ()
    arm: ArmAnimation | None = None
    steps: Sequence[str] = ()
    events: Sequence[Event] = ()
    origin: float = 0.0

    def since(self, text: str) -> str:
        """Return a text with times on a wall clock relative to the origin."""

        def shown(match: re.Match[str]) -> str:
            time = float(match[1]) - self.origin
            return format_time(time) if self.origin and time >= 0.0 else match[0]

        return _CLOCK.sub(shown, text)

    def write(self, path: Path) -> None:
        """Write the report as one self-contained HTML file."""
        path.write_text(self.html(), encoding='utf-8')

    def html(self) -> str:
        """Return the report as one self-contained HTML page."""
        arm, motion = self.arm.parts(self.origin) if self.arm else ('', None)
        figures = [figure for _, figure in self.figures]
        body = [
            *(self.since(_finding(finding)) for finding in self.findings),
            _tiles(self.tiles),
            arm,
            _events(self.events, self.origin),
            *(self.since(table.html()) for table in self.tables),
            self.since(_notes(self.steps, self.notes)),
            *(
                f'<div class="figure">{_heading(heading)}<div class="plot" '
                f'style="height:{figure["layout"]["height"]}px"></div></div>'
                for heading, figure in self.figures
            ),
            *(part.html() for part in self.below),
        ]
        data = json.dumps(
            {'arm': motion, 'figures': figures}, separators=(',', ':'), default=_typed
        )
        packed = {'data': _packed(data.encode())}
        if figures:
            packed['library'] = _packed_library()
        return _PAGE.format(
            title=_html(self.title),
            lead=_html(self.lead),
            style=_resource('page.css'),
            body='\n'.join(body),
            packed='\n'.join(_PACKED.format(name=name, text=x) for name, x in packed.items()),
            script='\n'.join(map(_resource, ('arm.js', 'page.js') if arm else ('page.js',))),
        )


def _typed(values: Array) -> dict[str, str]:
    """Return an array as plotly's script reads it."""
    return {'dtype': values.dtype.str[1:], 'bdata': b64encode(values.tobytes()).decode('ascii')}


def _packed(part: bytes) -> str:
    return b64encode(zlib.compress(part, 9)).decode('ascii')


@cache
def _packed_library() -> str:
    """Return the script that draws figures, which takes 0.2 s to compress, for all reports."""
    return _packed(plot_library())


def _resource(name: str) -> str:
    return (files(__package__) / name).read_text(encoding='utf-8')


def _finding(finding: Finding) -> str:
    badge = f'<b class="{_BADGE_COLOURS[finding.severity]}">{finding.severity}</b>'
    return f'<p class="finding">{badge}<span>{_html(str(finding))}</span></p>'


def _tiles(pairs: Sequence[tuple[str, str]]) -> str:
    cells = (
        f'<div class="tile"><b>{_html(value)}</b><span>{_html(name)}</span></div>'
        for value, name in pairs
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def _events(events: Sequence[Event], origin: float) -> str:
    lines = ''.join(
        f'<li data-time="{time!r}"><button type="button">{format_time(time - origin)}</button>'
        f'{_html(text)}</li>'
        for time, text in sorted(events, key=itemgetter(0))
    )
    since = f', time since {format_time(origin)}' if origin else ''
    return f'<h2>Events{since}</h2><ol class="events">{lines}</ol>' if lines else ''


def _sentence(note: str) -> str:
    """Return a note with a capital, unless it begins with the name of a file."""
    return note[0].upper() + note[1:] if note.split()[0].isalpha() else note


def _notes(steps: Sequence[str], notes: Sequence[str]) -> str:
    lines = [f'Next: <code>{_html(step)}</code>' for step in steps]
    lines += [f'{_html(_sentence(note))}.' for note in notes if note]
    return _folded('Notes', lines, 'open')


#: Numbers below it are rounding of the computation, SI units.
ROUNDING = 1e-12

# Texts ------------------------------------------------------------------------------------------


#: No options of a command, see :func:`command_line`.
NO_OPTIONS: Mapping[str, Sequence[str]] = MappingProxyType({})


def command_line(*words: object, options: Mapping[str, Sequence[str]] = NO_OPTIONS) -> str:
    """Return a command of this program as text for a shell, started as this one was.

    Args:
        words: Its name and arguments.
        options: The words of further options, by their names.
    """
    words = (*words, *chain.from_iterable(options.values()))
    if Path(sys.argv[0]).stem == 'robot-dynamics':
        return shlex.join(['robot-dynamics', *map(str, words)])
    inside = Path.cwd() in Path(sys.executable).parents
    python = os.path.relpath(sys.executable) if inside else sys.executable
    return shlex.join([python, '-m', 'robot_dynamics_ros', *map(str, words)])


def quantity(value: float, unit: str = '') -> str:
    """Format a number with its unit, or a dash for NaN; a count is not rounded.

    Numbers at the rounding of the computation are 0.
    """
    if math.isnan(value):
        return '–'
    value = 0 if abs(value) < ROUNDING else value
    return (f'{value} {unit}' if isinstance(value, int) else f'{value:.4g} {unit}').strip()


#: Units of revolute and prismatic joints.
LENGTH, EFFORT, NO_UNIT, PERCENT = ('rad', 'm'), ('N m', 'N'), ('', ''), ('%', '%')


def joint_table(
    tree: Robot,
    columns: Iterable[tuple[str, Any, tuple[str, str]]],
    idle: Sequence[bool] = (),
    title: str = '',
) -> ReportTable:
    """Return a table with a row for each joint, from heading, values and units of the columns.

    A column without a number is left out.

    Args:
        tree: The robot.
        columns: Heading, one value for each joint, and the units of revolute and prismatic joints.
        idle: Joints of which there is nothing to tell, shape (n,), which have no row.
        title: Heading above the table, or empty.
    """
    heads, cells = ['joint'], [tree.joint_names]
    for head, values, units in columns:
        if not np.isnan(values).all():
            heads.append(head)
            cells.append(tuple(map(quantity, values, joint_units(tree, *units))))
    rows = list(zip(*cells, strict=True))
    return ReportTable(heads, [row for row, none in zip_longest(rows, idle) if not none], title)


def joint_units(tree: Robot, revolute: str, prismatic: str) -> list[str]:
    """Return the unit of each joint, by its type."""
    return [prismatic if slides else revolute for slides in tree.joint_is_prismatic]


def joint_titles(tree: Robot, revolute: str, prismatic: str) -> list[str]:
    """Return a panel title with unit for each joint."""
    units = joint_units(tree, revolute, prismatic)
    return [f'{name} [{unit}]' for name, unit in zip(tree.joint_names, units, strict=True)]


def peak_events(
    tree: Robot, what: str, units: tuple[str, str], peaks: Sequence[float], times: Sequence[float]
) -> Iterator[Event]:
    """Yield when something is largest at each joint, except where it is 0 or unknown.

    Args:
        tree: The robot.
        what: What it is.
        units: Its units at revolute and at prismatic joints.
        peaks: Its largest size by joint.
        times: When it is, s.
    """
    sizes = map(quantity, peaks, joint_units(tree, *units))
    for name, peak, size, at in zip(tree.joint_names, peaks, sizes, times, strict=True):
        if peak > 0.0:
            yield at, f'largest {what} of {name}, {size}'
