# SPDX-License-Identifier: Apache-2.0
"""Panel of one arm: controller state, joint positions and efforts with limits, live plots."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

import numpy as np

from robot_dynamics_ros.description.robot_description import Joint, Limit
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.viewing.arm_scene import limit_colour
from robot_dynamics_ros.viewing.instant import ArmInstant, Numbers

#: Colours of curves and of effort components.
PALETTE = ('#2a6fb0', '#d9822b', '#2e9e5b', '#c0392b', '#7d5ba6', '#8c6239', '#d65db1', '#5f6b73')
_LEVEL_COLOURS = {'ok': '#2e9e5b', 'warning': '#d9822b', 'error': '#c0392b', '': '#8a949c'}
#: Labels of the diagnostics shown in the summary, by key.
_LABELS = {
    'following': 'follows',
    'program': 'program',
    'sigma_min': '\u03c3 min',
    'saturated': 'saturated',
    'limit_guard': 'limit guard',
    'last_contact': 'contact',
    'trajectory': 'trajectory',
}
_BLOCK = 'font-size:.8em;padding:.25em .9em;font-variant-numeric:tabular-nums'
_FAINT = 'opacity:.6'
#: Largest number of curves in a plot.
MAX_CURVES = len(PALETTE)
#: Largest number of samples in a plot.
MAX_SAMPLES = 400
_PADDING = (10, 10, 0, 0)  # pixels: top, right, bottom, left
#: Status keys whose changes are listed as events, and the number of events kept.
_EVENTS = ('message', 'trajectory', 'alarm', 'saturated', 'last_contact')
_MAX_EVENTS = 8


class Plot:
    """A plot of quantities over time, whose curves are named by the first values.

    Args:
        gui: The viser GUI.
        title: Title with the unit.
        scale: Factor from SI units to the plotted unit.
    """

    def __init__(self, gui: Any, title: str, scale: float = 1.0) -> None:
        self._gui, self._title, self._scale = gui, title, scale
        self._names: tuple[str, ...] = ()
        self._rows: deque[list[float]] = deque(maxlen=MAX_SAMPLES)
        self._handle: Any = None
        self._drawn_names: tuple[str, ...] = ()

    def append(self, time: float, values: Numbers) -> None:
        """Add values at a new time, s; other names, or a time that went back, restart the plot."""
        names = tuple(values)[:MAX_CURVES]
        if not names or not math.isfinite(time):
            return
        if names != self._names or time < self._rows[-1][0]:
            self.clear()
            self._names = names
        if not self._rows or time > self._rows[-1][0]:
            self._rows.append([time, *(self._scale * values[name] for name in names)])

    def clear(self) -> None:
        """Forget the added values."""
        self._names = ()
        self._rows.clear()

    def columns(self) -> tuple[Array, ...]:
        """Return times, s, and the values of each curve, each of shape (k,)."""
        return tuple(np.ascontiguousarray(column) for column in np.array(self._rows).T)

    def show(self, container: Any) -> None:
        """Draw the added values."""
        if len(self._rows) < 2:
            return
        if self._handle is not None and self._drawn_names == self._names:
            self._handle.data = self.columns()
        else:
            self._add(container)

    def remove(self) -> None:
        """Remove the plot from the page."""
        if self._handle is not None:
            self._handle.remove()

    def _add(self, container: Any) -> None:
        self.remove()
        self._drawn_names = self._names
        curves = [
            {'label': name, 'stroke': colour, 'width': 1.5, 'points': {'show': False}}
            for name, colour in zip(self._names, PALETTE, strict=False)
        ]
        with container:
            self._handle = self._gui.add_uplot(
                self.columns(),
                ({'label': 't (s)'}, *curves),
                title=self._title,
                scales={'x': {'time': False}},
                height=190,
                padding=_PADDING,
                legend={'show': True},
            )


class ArmPanel:
    """State, joints and plots of one arm.

    Args:
        gui: The viser GUI.
        status: Container of state and joints.
        plots: Container of the plots.
        joints: Joints of the arm by name.
    """

    def __init__(self, gui: Any, status: Any, plots: Any, joints: dict[str, Joint]) -> None:
        self._joints, self._plots_container = joints, plots
        with status:
            self._state, self._bars = gui.add_html(''), gui.add_html('')
            self._history = gui.add_html('')
            self._details = gui.add_folder('diagnostics', expand_by_default=False)
        with self._details:
            self._diagnostics = gui.add_html('')
        self._last_status: dict[str, str] = {}
        self._events: deque[str] = deque(maxlen=_MAX_EVENTS)
        self._plots = {
            'error': Plot(gui, 'tracking error (mrad or mm)', 1e3),
            'f': Plot(gui, 'f of the program (mm or mrad)', 1e3),
            'effort': Plot(gui, 'effort (% of the limit)', 100.0),
            'sigma_min': Plot(gui, 'smallest singular value'),
        }

    def remove(self) -> None:
        """Remove the panel from the page."""
        shown = (self._state, self._bars, self._history, self._details)
        for handle in (*shown, *self._plots.values()):
            handle.remove()

    def append(self, now: ArmInstant) -> None:
        """Add an instant to the plots."""
        error, joints = now.error, self._joints
        rows: dict[str, Numbers] = {
            'error': {name: error[name] for name in joints if name in error},
            'f': now.f,
            'effort': effort_shares(now.effort, joints),
            'sigma_min': {} if math.isnan(now.sigma_min) else {'sigma_min': now.sigma_min},
        }
        for key, plot in self._plots.items():
            plot.append(now.time, rows[key])

    def show(self, now: ArmInstant) -> None:
        """Write state, joints and events."""
        for key, text in {**now.status, 'alarm': now.alarm}.items():
            if key in _EVENTS and text not in ('', 'none') and self._last_status.get(key) != text:
                time = '' if math.isnan(now.time) else f'{now.time:.2f} s: '
                self._events.append(f'{time}{text}')
            self._last_status[key] = text
        self._state.content = state_html(now)
        self._history.content = events_html(self._events)
        self._diagnostics.content = diagnostics_html(now.status)
        self._bars.content = joints_html(self._joints, now)

    def restart(self, instants: Iterable[ArmInstant]) -> None:
        """Replace the contents of the plots."""
        for plot in self._plots.values():
            plot.clear()
        for now in instants:
            self.append(now)

    def draw(self) -> None:
        """Draw the plots."""
        for plot in self._plots.values():
            plot.show(self._plots_container)


def effort_shares(efforts: Numbers, joints: dict[str, Joint]) -> dict[str, float]:
    """Return efforts as fractions of their limits, for the joints with limits."""
    limits = {name: effort_limit(joint) for name, joint in joints.items()}
    return {
        name: efforts[name] / limit for name, limit in limits.items() if limit and name in efforts
    }


def state_html(now: ArmInstant) -> str:
    """Return a summary of the controller state as HTML."""
    status = now.status
    message = status.get('message', 'no controller status received yet')
    colour = _LEVEL_COLOURS.get(status.get('level', ''), _LEVEL_COLOURS[''])
    alarm = f'<div style="color:#c0392b;font-weight:600">{escape(now.alarm)}</div>'
    time = '' if math.isnan(now.time) else f'<span style="float:right">t = {now.time:.2f} s</span>'
    return (
        f'<div style="{_BLOCK}">{time}'
        f'<b><span style="color:{colour}">&#9679;</span> {escape(message)}</b>'
        f'{alarm if now.alarm else ""}{_table(_summary(status))}</div>'
    )


def diagnostics_html(status: Mapping[str, str]) -> str:
    """Return all diagnostics of the controller as HTML, by key."""
    return f'<div style="{_BLOCK}">{_table(status.items())}</div>'


def _summary(status: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield labels and values of the summary."""
    for key, label in _LABELS.items():
        yield label, status.get(key, '')
    if 'rate_hz' in status:
        yield 'rate', f'{status["rate_hz"]} Hz'
    if 'latency_p50_us' in status:
        median, late = status['latency_p50_us'], status.get('latency_p99_us', '')
        yield 'latency', f'{median} \u00b5s, 99 % below {late} \u00b5s'
    if 'state_timeouts' in status:
        late = status['state_timeouts']
        yield 'watchdog', 'states in time' if late == '0' else f'{late} timeouts of the states'


def _table(rows: Iterable[tuple[str, str]]) -> str:
    lines = ''.join(
        f'<tr><td style="{_FAINT};padding-right:1em;white-space:nowrap;vertical-align:top">'
        f'{escape(label)}</td><td style="overflow-wrap:anywhere">{escape(value)}</td></tr>'
        for label, value in rows
        if value not in ('none', '')
    )
    return f'<table style="border-spacing:0;line-height:1.5">{lines}</table>'


def events_html(events: Iterable[str]) -> str:
    """Return events as HTML, newest first."""
    lines = ''.join(f'<div>{escape(text)}</div>' for text in reversed(list(events)))
    return (
        f'<div style="{_BLOCK}"><div style="{_FAINT}">events</div>{lines}</div>' if lines else ''
    )


def effort_limit(joint: Joint) -> float:
    """Return the effort limit of a joint, N m or N; 0 if the description has none."""
    limit = joint.limit.effort if joint.limit is not None else None
    return limit if limit is not None and math.isfinite(limit) else 0.0


_HEAD = (('joint', ''), ('position in its range', ''), ('effort', ';padding-left:.8em'))


def joints_html(joints: dict[str, Joint], now: ArmInstant) -> str:
    """Return position and effort of every joint as HTML, with bars relative to their limits."""
    origins = {origin: PALETTE[k % len(PALETTE)] for k, origin in enumerate(now.components)}
    rows = ''.join(_joint_rows(joint, now, origins) for joint in joints.values())
    legend = ''.join(
        f'<span style="color:{colour};margin-right:.7em">&#9632; {escape(origin)}</span>'
        for origin, colour in origins.items()
    )
    head = ''.join(f'<td style="{_FAINT}{pad}">{text}</td>' for text, pad in _HEAD)
    return (
        f'<div style="{_BLOCK};max-height:24em;overflow-y:auto">'
        f'<table style="width:100%;border-spacing:0 .15em"><tr>{head}</tr>{rows}</table>'
        f'<div>{legend}</div></div>'
    )


def _joint_rows(joint: Joint, now: ArmInstant, origins: dict[str, str]) -> str:
    """Return the table row of a joint: name, position in its range, effort and its components."""
    position = now.position.get(joint.name, math.nan)
    effort, limit = now.effort.get(joint.name, math.nan), effort_limit(joint)
    unit, force = ('m', 'N') if joint.kind == 'prismatic' else ('rad', 'N m')
    marker = _marker(position, joint.limit)
    parts = {
        colour: now.components[origin].get(joint.name, 0.0) for origin, colour in origins.items()
    }
    bars = _bar(effort, limit, '#2a6fb0', 6)
    bars += ''.join(_bar(value, limit, colour, 2) for colour, value in parts.items())
    amount = '' if math.isnan(effort) else f'{effort:.2f} of {limit:g} {force}'
    place = 'unknown' if math.isnan(position) else f'{position:.3f} {unit}'
    return (
        f'<tr><td style="width:24%">{escape(joint.name)}</td>'
        f'<td style="width:31%">{marker}<span style="opacity:.7">{place}</span></td>'
        f'<td style="padding-left:.8em">{bars}<span style="opacity:.7">{amount}</span></td></tr>'
    )


_TRACK = 'position:relative;background:rgba(128,128,128,.22);border-radius:2px;height:{}px'


def _marker(position: float, limit: Limit | None) -> str:
    """Return a marker at a position on a track, whose ends are the limits."""
    if limit is None or limit.range is None or not math.isfinite(position):
        return ''
    lower, upper = limit.range
    left = 100.0 * min(max((position - lower) / (upper - lower), 0.0), 1.0)
    colour = limit_colour(position, limit) or (42, 111, 176)
    return (
        f'<div style="{_TRACK.format(6)}"><div style="position:absolute;left:calc({left:.1f}% - '
        f'2px);width:4px;height:6px;background:rgb{colour}"></div></div>'
    )


def _bar(value: float, limit: float, colour: str, height: int) -> str:
    """Return a bar from the centre of a track, whose ends are the limits."""
    share = value / limit if limit > 0.0 and math.isfinite(value) else 0.0
    wide = 50.0 * min(abs(share), 1.0)
    left = 50.0 - wide if share < 0.0 else 50.0
    colour = '#d72828' if abs(share) > 0.98 and height > 2 else colour
    return (
        f'<div style="{_TRACK.format(height)};margin-bottom:1px"><div style="position:absolute;'
        f'left:{left:.1f}%;width:{wide:.1f}%;height:100%;background:{colour}"></div></div>'
    )
