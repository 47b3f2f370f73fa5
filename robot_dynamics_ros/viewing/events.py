# SPDX-License-Identifier: Apache-2.0
"""What has happened to an arm: one entry when a condition begins, and one when it ends."""

from __future__ import annotations

import csv
import io
import math
import re
import time
from collections import deque
from html import escape
from typing import NamedTuple

from robot_dynamics_ros.recordings.recording import WALL_CLOCK
from robot_dynamics_ros.viewing.arm import ArmInstant, begins_anew, number

SEVERITIES = ('ok', 'warning', 'error')
COLOURS = {'ok': '#2e9e5b', 'warning': '#d9822b', 'error': '#c0392b', '': '#8a949c'}
_KEPT = 500
#: Keys of the status whose changes are events.
_CHANGES = ('message', 'trajectory', 'last_contact')
_AMOUNT = re.compile(r'\b\d+(\.\d+)?\b')  # in the text of a condition; not that of joint4
_LATE_S = 2.0  # after an activation, in which its status may be on its way
_AGE = re.compile(r' for \d+ s$')


class LoggedEvent(NamedTuple):
    """An entry: time of day, time of the state, s, severity and text."""

    clock: str
    time: float
    severity: str
    text: str


class EventLog:
    """The last events of an arm.

    Attributes:
        events: The events, oldest first.
    """

    def __init__(self) -> None:
        self.events: deque[LoggedEvent] = deque(maxlen=_KEPT)
        self._time = math.nan
        self._last: dict[str, str] = {}
        self._active: dict[str, str] = {}  # conditions
        self._commands, self._counts = '', set[str]()  # of commands, and limited ones by joint

    def update(self, now: ArmInstant) -> None:
        """Add what is new in an instant."""
        self._time, status, stale = now.time, now.status, 'stale' in now.status
        self._condition('error', 'alarm', now.alarm)
        self._condition('error', 'stale', status['message'] if stale else '')
        if status.get('commands', self._commands) != self._commands:  # new diagnostics
            counts = set(status.get('saturated', 'none').split(', '))
            if begins_anew({'commands': self._commands}, status):
                self._last, self._counts = {}, set()
                self._add('ok', 'the controller begins anew')
            self._commands = status['commands']
            full = ', '.join(sorted(x.split(':')[0] for x in counts - self._counts - {'none'}))
            self._counts = counts
            text = full and f'efforts at their limits: {full}'
            self._condition('warning', 'saturated', text)
        for key in () if stale else _CHANGES:
            text = status.get(key, '')
            same = _AMOUNT.sub('', text) if key == 'message' else text
            if text not in ('', 'none') and same != self._last.get(key):
                told = f'{text}{_since(now)}' if key == 'message' else text
                self._add(_severity(key, text, status.get('level', 'ok')), told)
                self._last[key] = same

    def _condition(self, severity: str, key: str, text: str) -> None:
        """Add an entry if a condition has begun, with a text, or ended, without one."""
        before = self._active.get(key, '')
        self._active[key] = text and (before or _AGE.sub('', text))
        if text and not before:
            self._add(severity, self._active[key])
        elif before and not text:
            self._add('ok', f'over: {before}')

    def _add(self, severity: str, text: str) -> None:
        self.events.append(LoggedEvent(time.strftime('%H:%M:%S'), self._time, severity, text))

    def html(self, least: str, word: str) -> str:
        """Return the events of at least a severity that contain a word as HTML, newest first."""
        rank = SEVERITIES.index(least)
        return ''.join(
            f'<div><span style="color:{COLOURS[x.severity]}">&#9679;</span> {x.clock} '
            f'{f"{x.time:.2f} s: " if x.time < WALL_CLOCK else ""}{escape(x.text)}</div>'
            for x in reversed(self.events)
            if SEVERITIES.index(x.severity) >= rank and word.lower() in x.text.lower()
        )

    def table(self) -> str:
        """Return the events as CSV."""
        stream = io.StringIO()
        csv.writer(stream).writerows([LoggedEvent._fields, *self.events])
        return stream.getvalue()


def _since(now: ArmInstant) -> str:
    """Return when an active controller was activated, if the page may not have seen it."""
    begin = number(now.status.get('activated_s'))
    if not now.time - begin > _LATE_S:
        return ''
    clock = time.strftime('%H:%M:%S', time.localtime(begin))
    return f', activated at {f"{begin:.2f} s" if begin < WALL_CLOCK else clock}'


def _severity(key: str, text: str, level: str) -> str:
    if key == 'message':
        return level
    refused = re.match('refused|rejected|aborted', text)
    return 'warning' if refused or key == 'last_contact' else 'ok'
