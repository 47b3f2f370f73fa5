# SPDX-License-Identifier: Apache-2.0
"""Panel of one arm: controller state, joint positions and efforts with limits, live plots."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass
from html import escape
from itertools import cycle
from time import localtime, strftime
from typing import Any

import numpy as np

from robot_dynamics_ros.description.urdf import Joint, Limit
from robot_dynamics_ros.recordings.recording import span_origin
from robot_dynamics_ros.viewing.arm import ArmInstant, Numbers, Status, number
from robot_dynamics_ros.viewing.arm_scene import limit_colour
from robot_dynamics_ros.viewing.events import COLOURS, SEVERITIES, EventLog

#: Colours of curves and of effort components.
PALETTE = ('#2a6fb0', '#d9822b', '#2e9e5b', '#c0392b', '#7d5ba6', '#8c6239', '#d65db1', '#5f6b73')
#: Labels and units of the diagnostics in the summary, by key.
_SUMMARY = {
    'following': ('follows', ''),
    'program': ('program', ''),
    'sigma_min': ('\u03c3 min', ''),
    'saturated': ('saturated', ''),
    'limit_guard': ('limit guard', ''),
    'last_contact': ('contact', ''),
    'trajectory': ('trajectory', ''),
    'rate_hz': ('rate', ' Hz'),
    'latency_p50_us': ('latency, median', ' \u00b5s'),
    'latency_p99_us': ('latency, 99 % below', ' \u00b5s'),
    'state_timeouts': ('watchdog', ' timeouts of the states'),
}
_BLOCK = 'font-size:.8em;padding:.25em .9em;font-variant-numeric:tabular-nums'
_FAINT = 'opacity:.6'
_LIST = f'{_BLOCK};height:12em;overflow-y:auto'  # fixed: nothing below it moves
_MAX_CURVES, _MAX_SAMPLES = len(PALETTE), 400  # of a plot
_MAX_ROWS = 5000  # instants that are kept
_WINDOWS = {'5 s': 5.0, '10 s': 10.0, '30 s': 30.0, '120 s': 120.0}
_PADDING = (10, 10, 0, 0)  # pixels: top, right, bottom, left
#: Plots by quantity: title, factor to the plotted unit, whether shown at first, and the least
#: range of the axis on both sides of 0, so that rounding errors look like 0; 0: it may omit 0.
_PLOTS = {
    'error': ('tracking error (mrad or mm)', 1e3, True, 0.05),
    'f': ('f of the program (mm or mrad)', 1e3, True, 0.05),
    'effort': ('commanded effort (% of the limit)', 100.0, True, 1.0),
    'measured': ('measured effort (% of the limit)', 100.0, False, 1.0),
    'position': ('position (rad or m)', 1.0, False, 0.0),
    'velocity': ('velocity (rad/s or m/s)', 1.0, False, 0.05),
    'sigma_min': ('smallest singular value', 1.0, True, 0.0),
    'latency': ('latency of the commands (\u00b5s)', 1.0, False, 1.0),
}
_ROW_UNIT = re.compile(r'\((m|rad)\)$')  # of a row of a program, plotted a thousand times
_AT_LIMIT, _NEARLY = '#d72828', 0.98  # colour of an effort at its limit, from this share on


@dataclass(eq=False)
class Plot:
    """A plot of quantities over time.

    Attributes:
        gui: The viser GUI.
        container: Where to draw it.
        order: Place among the plots.
        title: Title with the unit.
        scale: Factor from SI units to the plotted unit.
        shown: Whether it is drawn at first.
        least: Least range of the axis on both sides of 0; 0: none.
    """

    gui: Any
    container: Any
    order: float
    title: str
    scale: float
    shown: InitVar[bool]
    least: float

    def __post_init__(self, shown: bool) -> None:
        self._tick = self.gui.add_checkbox(self.title, initial_value=shown)
        self._handle: Any = None
        self._drawn = '', ['']

    def show(self, rows: Sequence[tuple[float, Numbers]], clock: str) -> None:
        """Draw values at times, s, on a clock; the curves are those of the last row."""
        every = list(rows[-1][1]) if rows and self._tick.value else []
        names, left_out = every[:_MAX_CURVES], ', '.join(every[_MAX_CURVES:])
        alike = [row for row in rows if list(row[1])[:_MAX_CURVES] == names]
        if self._handle is not None and self._drawn != (clock, names):  # or of a law without it
            self._handle.remove()
            self._handle = None
        if len(alike) < 2 or not names:
            return
        table = np.array([[t, *(self.scale * x[name] for name in names)] for t, x in alike])
        columns = tuple(np.ascontiguousarray(column) for column in table.T)
        if self._handle is not None:
            self._handle.data = columns
            return
        self._drawn = clock, names
        curves = [
            {'label': name, 'stroke': colour, 'width': 1.5, 'points': {'show': False}}
            for name, colour in zip(names, PALETTE, strict=False)
        ]
        unit = self.title.partition('(')[2].rstrip(')')
        end = {'pad': 0.1, 'soft': self.least, 'mode': 1}
        ends = {'range': {'min': end | {'soft': -self.least}, 'max': end}}
        with self.container:
            self._handle = self.gui.add_uplot(
                columns,
                ({'label': f'seconds {clock}'}, *curves),
                title=f'{self.title}; left out: {left_out}' if left_out else self.title,
                scales={'x': {'time': False}, 'y': ends if self.least else {}},
                axes=({}, {'label': unit, 'labelSize': 16}),
                height=190,
                padding=_PADDING,
                legend={'show': True},
                order=self.order,
            )


class ArmPanel:
    """State, joints and plots of one arm.

    Attributes:
        joints: Joints of the arm by name.

    Args:
        gui: The viser GUI.
        status: Container of state and joints.
        plots: Container of the plots.
    """

    def __init__(self, gui: Any, status: Any, plots: Any) -> None:
        self.joints: dict[str, Joint] = {}
        self._limits: dict[str, float] = {}  # of the efforts, of joints that have one
        self._rows: deque[tuple[float, dict[str, Numbers]]] = deque(maxlen=_MAX_ROWS)
        with status:
            self._state, self._bars = gui.add_html(''), gui.add_html('')
            with gui.add_folder('events'):
                self._least = gui.add_dropdown('at least', SEVERITIES)
                self._word = gui.add_text('with the word', '')
                self._history = gui.add_html('')
                gui.add_button('save as CSV').on_click(self._save)
            with gui.add_folder('diagnostics', expand_by_default=False):
                self._diagnostics = gui.add_html('')
        self._origin, self.log = 0, EventLog()
        with plots:
            self._window = gui.add_dropdown('window', tuple(_WINDOWS), initial_value='10 s')
            with gui.add_folder('curves', expand_by_default=False):
                self._plots = {
                    key: Plot(gui, plots, float(place), *about)
                    for place, (key, about) in enumerate(_PLOTS.items(), start=1)
                }

    def list_joints(self, joints: dict[str, Joint]) -> None:
        """Show the joints of an arm, whose state is not known yet."""
        self.joints = joints
        self._limits = {name: x for name, joint in joints.items() if (x := effort_limit(joint))}
        self._bars.content = joints_html(joints, ArmInstant())

    def append(self, now: ArmInstant) -> None:
        """Add an instant to the plots, which begin anew if time went back."""
        if not math.isfinite(now.time):
            return
        if self._rows and now.time < self._rows[-1][0]:
            self._rows.clear()
        if not self._rows:
            self._origin = math.floor(span_origin(now.time))
        if not self._rows or now.time > self._rows[-1][0]:
            self._rows.append((now.time, self._plotted(now)))

    def show(self, now: ArmInstant) -> None:
        """Write state, joints and events."""
        self.log.update(now)
        listed = self.log.html(self._least.value, self._word.value)
        self._state.content = state_html(now, self._origin)
        self._history.content = f'<div style="{_LIST}">{listed}</div>'
        told = _table(_told(now.status).items())
        self._diagnostics.content = f'<div style="{_BLOCK}">{told}</div>'
        self._bars.content = joints_html(self.joints, now)

    def draw(self) -> None:
        """Draw the plots."""
        length, rows = _WINDOWS[self._window.value], list(self._rows)
        times = np.array([t for t, _ in rows])
        # The first instant of each of some fixed intervals, so that a curve only moves.
        places = np.unique(np.floor(times * _MAX_SAMPLES / length), return_index=True)[1]
        shown = [rows[i] for i in places if times[-1] - times[i] <= length]
        for key, plot in self._plots.items():
            drawn = [(t - self._origin, values[key]) for t, values in shown if values[key]]
            plot.show(drawn, _clock(self._origin) or 'on the simulated clock')

    def _save(self, event: Any) -> None:
        text = self.log.table().encode()
        event.client.send_file_download('events.csv', text, save_immediately=True)

    def _plotted(self, now: ArmInstant) -> dict[str, Numbers]:
        """Return the quantities of each plot at an instant."""
        limits, one = self._limits, dict.fromkeys(self.joints, 1.0)
        delays = {x: number(now.status.get(f'latency_{x}_us')) for x in ('p50', 'p99')}
        return {
            'error': _relative(now.error, one),
            'f': {_ROW_UNIT.sub(r'(m\1)', row): x for row, x in now.f.items()},
            'effort': _relative(now.effort, limits),
            'measured': _relative(now.measured, limits),
            'position': _relative(now.position, one),
            'velocity': _relative(now.velocity, one),
            'sigma_min': {} if math.isnan(now.sigma_min) else {'sigma_min': now.sigma_min},
            'latency': {name: x for name, x in delays.items() if math.isfinite(x)},
        }


def _relative(values: Numbers, units: Numbers) -> dict[str, float]:
    """Return the values by joint that have a unit, in it and in the order of the units."""
    return {name: values[name] / x for name, x in units.items() if name in values}


def effort_limit(joint: Joint) -> float:
    """Return the effort limit of a joint, N m or N; 0 if the description has none."""
    limit = joint.limit.effort if joint.limit is not None else None
    return limit if limit is not None and math.isfinite(limit) else 0.0


def _clock(origin: int) -> str:
    """Return what times count from, a time since 1970, s; empty for 0, on a simulated clock."""
    return strftime('after %H:%M:%S', localtime(origin)) if origin else ''


def state_html(now: ArmInstant, origin: int) -> str:
    """Return a summary of the controller state, its time s after an origin, as HTML."""
    status = now.status
    message = status.get('message', 'no controller status received yet')
    colour = COLOURS[status.get('level', '')]
    alarm = f'<div style="color:#c0392b;font-weight:600">{escape(now.alarm)}</div>'
    time = f't = {now.time - origin:.2f} s {_clock(origin)}' if math.isfinite(now.time) else ''
    known = _told(status)
    rows = [(label, f'{known[k]}{unit}') for k, (label, unit) in _SUMMARY.items() if k in known]
    return (
        f'<div style="{_BLOCK}"><span style="float:right">{time}</span>'
        f'<b><span style="color:{colour}">&#9679;</span> {escape(message)}</b>'
        f'{alarm if now.alarm else ""}{_table(rows)}</div>'
    )


def _told(status: Status) -> dict[str, str]:
    return {key: value for key, value in status.items() if value not in ('none', '')}


def _table(rows: Iterable[tuple[str, str]]) -> str:
    lines = ''.join(
        f'<tr><td style="{_FAINT};padding-right:1em;white-space:nowrap;vertical-align:top">'
        f'{escape(label)}</td><td style="overflow-wrap:anywhere">{escape(value)}</td></tr>'
        for label, value in rows
    )
    return f'<table style="border-spacing:0;line-height:1.5">{lines}</table>'


def joints_html(joints: dict[str, Joint], now: ArmInstant) -> str:
    """Return position and effort of every joint as HTML, with bars relative to their limits."""
    origins = dict(zip(now.components, cycle(PALETTE)))
    rows = ''.join(_joint_row(joint, now, origins) for joint in joints.values())
    legend = ''.join(
        f'<span style="color:{colour};margin-right:.7em">&#9632; {escape(origin)}</span>'
        for origin, colour in origins.items()
    )
    return (
        f'<div style="{_BLOCK};max-height:24em;overflow-y:auto">'
        f'<table style="width:100%;border-spacing:0 .15em"><tr style="{_FAINT}"><td>joint</td>'
        '<td>position in its range</td><td style="padding-left:.8em">effort</td></tr>'
        f'{rows}</table><div>{legend}</div></div>'
    )


def _joint_row(joint: Joint, now: ArmInstant, origins: dict[str, str]) -> str:
    """Return the table row of a joint: name, position in its range, effort and its components."""
    position = now.position.get(joint.name, math.nan)
    effort, limit = now.effort.get(joint.name, math.nan), effort_limit(joint)
    unit, force = ('m', 'N') if joint.kind == 'prismatic' else ('rad', 'N m')
    full = 0.0 < _NEARLY * limit < abs(effort)
    bars = _bar(effort, limit, _AT_LIMIT if full else PALETTE[0], 6)
    for origin, colour in origins.items():
        bars += _bar(now.components[origin].get(joint.name, 0.0), limit, colour, 2)
    known = f' of {limit:g}' if limit else ''
    amount = '' if math.isnan(effort) else f'{effort:.2f}{known} {force}'
    place = 'unknown' if math.isnan(position) else f'{position:.3f} {unit}'
    if (error := now.error.get(joint.name, math.nan)) == error:
        place += f', error {_rounded(1e3 * error)} m{unit}'
    return (
        f'<tr><td style="width:24%">{escape(joint.name)}</td><td style="width:31%">'
        f'{_marker(position, joint.limit)}<span style="opacity:.7">{place}</span></td>'
        f'<td style="padding-left:.8em">{bars}<span style="opacity:.7">{amount}</span></td></tr>'
    )


def _rounded(value: float) -> str:
    """Return a number with two decimals, without a sign if they are zeros."""
    return f'{round(value, 2) + 0.0:.2f}'


def _marker(position: float, limit: Limit | None) -> str:
    """Return a marker at a position on a track, whose ends are the limits."""
    if limit is None or limit.range is None or not math.isfinite(position):
        return ''
    share = float(np.interp(position, limit.range, (0.0, 1.0)))
    near = limit_colour(position, limit)
    return _track(96.0 * share, 4.0, f'rgb{near}' if near else PALETTE[0], 6)


def _bar(value: float, limit: float, colour: str, height: int) -> str:
    """Return a bar from the centre of a track, whose ends are the limits."""
    share = value / limit if limit > 0.0 and math.isfinite(value) else 0.0
    wide = 50.0 * min(abs(share), 1.0)
    return _track(50.0 - wide if share < 0.0 else 50.0, wide, colour, height)


def _track(left: float, wide: float, colour: str, height: int) -> str:
    """Return a track with a coloured part, in percent of its width, and a height in pixels."""
    return (
        '<div style="position:relative;background:rgba(128,128,128,.22);border-radius:2px;'
        f'height:{height}px;margin-bottom:1px"><div style="position:absolute;left:{left:.1f}%;'
        f'width:{wide:.1f}%;height:100%;background:{colour}"></div></div>'
    )
