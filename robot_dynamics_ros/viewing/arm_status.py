# SPDX-License-Identifier: Apache-2.0
"""Numbers of one arm as HTML: what its controller tells, its joints against their limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from html import escape

from robot_dynamics_ros.description.robot_description import Joint
from robot_dynamics_ros.viewing.instant import ArmInstant

#: Colours of curves and parts of an effort.
PALETTE = ('#2a6fb0', '#d9822b', '#2e9e5b', '#c0392b', '#7d5ba6', '#8c6239', '#d65db1', '#5f6b73')
_LEVELS = {'ok': '#2e9e5b', 'warning': '#d9822b', 'error': '#c0392b', '': '#8a949c'}
#: What is shown of the controller's diagnostics first: its key, in the words of a person.
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


def state_html(now: ArmInstant) -> str:
    """Return what a person wants to know of the controller first."""
    status = now.status
    message = status.get('message', 'no controller heard yet')
    colour = _LEVELS.get(status.get('level', ''), _LEVELS[''])
    alarm = f'<div style="color:#c0392b;font-weight:600">{escape(now.alarm)}</div>'
    time = '' if math.isnan(now.time) else f'<span style="float:right">t = {now.time:.2f} s</span>'
    return (
        f'<div style="{_BLOCK}">{time}'
        f'<b><span style="color:{colour}">&#9679;</span> {escape(message)}</b>'
        f'{alarm if now.alarm else ""}{_table(_summary(status))}</div>'
    )


def diagnostics_html(status: Mapping[str, str]) -> str:
    """Return all that the controller tells of itself, by its own keys."""
    return f'<div style="{_BLOCK}">{_table(status.items())}</div>'


def _summary(status: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield labels and values of what is told first."""
    for key, label in _LABELS.items():
        yield label, status.get(key, '')
    if 'rate_hz' in status:
        yield 'rate', f'{status["rate_hz"]} Hz'
    if 'latency_p50_us' in status:
        median, late = status['latency_p50_us'], status.get('latency_p99_us', '')
        yield 'latency', f'{median} \u00b5s, 99 % below {late} \u00b5s'
    if 'state_timeouts' in status:
        late = status['state_timeouts']
        yield 'watchdog', 'states in time' if late == '0' else f'{late} times without states'


def _table(rows: Iterable[tuple[str, str]]) -> str:
    lines = ''.join(
        f'<tr><td style="{_FAINT};padding-right:1em;white-space:nowrap;vertical-align:top">'
        f'{escape(label)}</td><td style="overflow-wrap:anywhere">{escape(value)}</td></tr>'
        for label, value in rows
        if value not in ('none', '')
    )
    return f'<table style="border-spacing:0;line-height:1.5">{lines}</table>'


def events_html(events: Iterable[str]) -> str:
    """Return what has happened, the newest first."""
    lines = ''.join(f'<div>{escape(text)}</div>' for text in reversed(list(events)))
    return (
        f'<div style="{_BLOCK}"><div style="{_FAINT}">events</div>{lines}</div>' if lines else ''
    )


def effort_limit(joint: Joint) -> float:
    """Return the largest effort of a joint, N m or N; 0 where the description has none."""
    limit = joint.limit.effort if joint.limit is not None else None
    return limit if limit is not None and math.isfinite(limit) else 0.0


_HEAD = (('joint', ''), ('position in its range', ''), ('effort', ';padding-left:.8em'))


def joints_html(joints: dict[str, Joint], now: ArmInstant) -> str:
    """Return position and effort of every joint as bars against their limits."""
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
    """Return the row of a joint: name, place within its range, effort and its parts."""
    position = now.position.get(joint.name, math.nan)
    effort, most = now.effort.get(joint.name, math.nan), effort_limit(joint)
    unit, force = ('m', 'N') if joint.kind == 'prismatic' else ('rad', 'N m')
    limit = joint.limit
    marker = ''
    if limit and limit.lower is not None and limit.upper is not None and limit.upper > limit.lower:
        share = (position - limit.lower) / (limit.upper - limit.lower)
        marker = _marker(share)
    parts = {
        colour: now.components[origin].get(joint.name, 0.0) for origin, colour in origins.items()
    }
    bars = _bar(effort, most, '#2a6fb0', 6)
    bars += ''.join(_bar(value, most, colour, 2) for colour, value in parts.items())
    amount = '' if math.isnan(effort) else f'{effort:.2f} of {most:g} {force}'
    place = 'no number' if math.isnan(position) else f'{position:.3f} {unit}'
    return (
        f'<tr><td style="width:24%">{escape(joint.name)}</td>'
        f'<td style="width:31%">{marker}<span style="opacity:.7">{place}</span></td>'
        f'<td style="padding-left:.8em">{bars}<span style="opacity:.7">{amount}</span></td></tr>'
    )


_TRACK = 'position:relative;background:rgba(128,128,128,.22);border-radius:2px;height:{}px'


def _marker(share: float) -> str:
    """Return a mark at a share of a track; its ends are the limits."""
    if not math.isfinite(share):
        return ''
    near = min(share, 1.0 - share)
    colour = '#d72828' if near < 0.02 else '#f5aa1e' if near < 0.1 else '#2a6fb0'
    left = 100.0 * min(max(share, 0.0), 1.0)
    return (
        f'<div style="{_TRACK.format(6)}"><div style="position:absolute;left:calc({left:.1f}% - '
        f'2px);width:4px;height:6px;background:{colour}"></div></div>'
    )


def _bar(value: float, most: float, colour: str, height: int) -> str:
    """Return a bar from the middle of a track, whose ends are the limits."""
    share = value / most if most > 0.0 and math.isfinite(value) else 0.0
    wide = 50.0 * min(abs(share), 1.0)
    left = 50.0 - wide if share < 0.0 else 50.0
    colour = '#d72828' if abs(share) > 0.98 and height > 2 else colour
    return (
        f'<div style="{_TRACK.format(height)};margin-bottom:1px"><div style="position:absolute;'
        f'left:{left:.1f}%;width:{wide:.1f}%;height:100%;background:{colour}"></div></div>'
    )
