# SPDX-License-Identifier: Apache-2.0
"""Log of what changes a session besides its states: enough to compute its commands again.

A change is logged once it is applied, with what the session made of a request, not with what was
sent. It is dated by the first tick that it acts on, and numbered without gaps. While a session is
inactive, nothing is logged; the next activation contains the state of everything.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.errors import ConfigurationError, RecordingError, shown

SCHEMA = 1  #: version of the text of a change
_MAX_DATED = 1000  # changes that have not been fetched
#: Kinds of which the last one remains in effect while inactive.
_KEPT = ('payload', 'speed', 'enabling', 'measured wrench')
#: Kinds of which only the last one before a tick has an effect.
_REPLACED = ('target', 'target wrench', 'measured wrench', 'speed')


class Change(NamedTuple):
    """A change of a session.

    Attributes:
        number: Number in the log, from 1.
        kind: 'activation', or one of ``requests.REPEATED``.
        stamp_ns: Timestamp of the state whose tick is the first that it acts on, ns; 1 ns after
            the last state if no tick follows.
        tick: Number of that tick, from 1.
        content: Arguments of the function that applies it again, by name.
    """

    number: int
    kind: str
    stamp_ns: int
    tick: int
    content: dict[str, Any]

    def text(self) -> str:
        """Return the change as JSON."""
        return json.dumps({'schema': SCHEMA, **self._asdict()}, default=_packed)

    @classmethod
    def read(cls, text: str, place: str = '') -> Change:
        """Return the change in a text.

        Args:
            text: See :meth:`text`.
            place: Where the text was found, for errors.

        Raises:
            RecordingError: It has another schema, or is none of ours; names the key.
        """
        place = ', '.join(filter(None, ('changes of the controller', place)))
        try:
            fields = json.loads(text, object_hook=_unpacked)
        except (ValueError, TypeError, RecursionError) as error:
            raise RecordingError(place, f'cannot be read: {error}', 'record it again') from error
        with read.reported_as(RecordingError):
            section = read.Section(place, fields)
            if (schema := section.take('schema', _WHOLE)) != SCHEMA:
                problem = f'has schema {schema}, and schema {SCHEMA} is known'
                raise ConfigurationError(place, problem, 'record it again')
            content = section.take('kind', partial(_keys_of, _CONTENTS))
            made = section.build(cls, {**_FIELDS, 'content': content})
            section.close()
            return made


def _value(kinds: type | tuple[type, ...], words: str) -> Callable[[str, Any], Any]:
    """Return a reader of a value of some types, and no other number for a switch."""

    def reader(place: str, value: Any) -> Any:
        if isinstance(value, bool) is not (kinds is bool) or not isinstance(value, kinds):
            raise ConfigurationError(place, f'is {shown(value)}', f'give {words}')
        return value

    return reader


def _numbers(place: str, value: Any) -> Any:
    try:
        kind = np.array(value).dtype.kind if isinstance(value, list | np.ndarray) else ''
    except ValueError:  # of rows of different lengths
        kind = ''
    if kind not in ('i', 'f'):
        raise ConfigurationError(place, f'is {shown(value)}', 'give a list of numbers')
    return value


def _points(place: str, value: Any) -> Any:
    if not isinstance(value, list) or len(value) != 4:
        remedy = 'give lists of times, positions, velocities and accelerations'
        raise ConfigurationError(place, f'is {shown(value)}', remedy)
    return [row if row is None else _numbers(place, row) for row in value]


def _keys(keys: str) -> Callable[[str, Any], dict[str, Any]]:
    """Return a reader of a mapping with these keys, see ``_CONTENTS``."""

    def reader(place: str, value: Any) -> dict[str, Any]:
        section, found = read.Section(place, value), dict[str, Any]()
        for key in keys.split():
            name = key.rstrip('?')
            found[name] = (section.optional if key != name else section.take)(name, _VALUES[name])
        section.close()
        return found

    return reader


def _kept(place: str, value: Any) -> dict[str, Any]:
    section = read.Section(place, value)
    return {kind: section.take(kind, _keys_of(_KEPT, place, kind)) for kind in section}


def _keys_of(known: Collection[str], place: str, kind: Any) -> Callable[[str, Any], Any]:
    """Return a reader of the content of a kind of change, one of those that are known."""
    if not isinstance(kind, str) or kind not in known:
        raise ConfigurationError(place, f'is {shown(kind)}', f'give one of {", ".join(known)}')
    return _keys(_CONTENTS[kind])


_WHOLE, _TEXT = _value(int, 'a whole number'), _value(str, 'a text')
_SWITCH, _MAPPING = _value(bool, 'true or false'), _value(dict, 'a mapping')
_FIELDS: read.Readers = {'number': _WHOLE, 'kind': _TEXT, 'stamp_ns': _WHOLE, 'tick': _WHOLE}
#: Keys of the content of each kind, those with ? may be null; and what their values are.
_CONTENTS = {
    'activation': 'parameters state kept',
    'trajectory': 'points start_ns now_ns rows measured?',
    'parameters': 'values rehearsed?',
    'payload': 'carried',
    'target': 'target',
    'target wrench': 'axes wrench',
    'measured wrench': 'frame wrench',
    'speed': 'factor',
    'enabling': 'pressed',
    'silence': 'seconds',
    'locked': 'positions',
    'deactivate': 'moves?',
    **dict.fromkeys(('hold', 'brake', 'reaction', 'resume'), ''),
}
_VALUES: read.Readers = {
    **dict.fromkeys(('parameters', 'values'), _MAPPING),
    **dict.fromkeys(('carried', 'pressed', 'moves'), _SWITCH),
    **dict.fromkeys(('axes', 'frame'), _TEXT),
    **dict.fromkeys(('stamp_ns', 'start_ns', 'now_ns'), _WHOLE),
    **dict.fromkeys(
        ('q', 'v', 'rows', 'measured', 'rehearsed', 'target', 'wrench', 'seconds', 'positions'),
        _numbers,
    ),
    'factor': read.number,
    'points': _points,
    'state': _keys('stamp_ns q v'),
    'kept': _kept,
}


def _packed(values: Any) -> Any:
    """Return an array as JSON; the text of each number would take a thousand times as long."""
    if isinstance(values, np.ndarray):
        return {'float64': b64encode(values.tobytes()).decode(), 'shape': values.shape}
    return values.item()


def _unpacked(fields: dict[str, Any]) -> Any:
    if fields.keys() != {'float64', 'shape'}:
        return fields
    return np.frombuffer(b64decode(fields['float64'])).reshape(fields['shape']).copy()


class ChangeLog:
    """The changes of one session.

    Attributes:
        waiting: Changes without a date, and their contents.
        dated: Changes to be fetched, oldest first; beyond 1000, the oldest are lost.
        quiet: Whether further commands without a state repeat the last one; they are not logged.
    """

    def __init__(self) -> None:
        self._number, self._active, self.quiet = 0, False, False
        self.dated: deque[Change] = deque(maxlen=_MAX_DATED)
        self.waiting: list[tuple[str, dict[str, Any]]] = []
        self._kept: dict[str, dict[str, Any]] = {}

    def begin(self, **state: Any) -> None:
        """Log an activation with its state, and what was changed before."""
        self._active = True
        self.add('activation', kept=self._kept.copy(), **state)

    def add(self, kind: str, **content: Any) -> None:
        """Log a change; it waits for its first tick."""
        if kind in _KEPT:
            self._kept[kind] = content
        if not self._active:
            return
        self.quiet = False
        if self.waiting and kind in _REPLACED:
            self.waiting = [one for one in self.waiting if one[0] != kind]
        self.waiting.append((kind, content))

    def add_silence(self, seconds: float) -> None:
        """Log a command without a state, ``seconds`` after the last command."""
        if self.quiet or not self._active:
            return
        if not (self.waiting and self.waiting[-1][0] == 'silence'):
            self.add('silence', seconds=[])
        self.waiting[-1][1]['seconds'].append(seconds)

    def skip_repeated(self, repeats: bool) -> None:
        """Note whether further commands without a state repeat the last one."""
        self.quiet = repeats

    def date(self, stamp_ns: int, tick: int) -> None:
        """Date what waits by the tick of a state, the ``tick``-th one that was answered."""
        self.quiet = False
        for kind, content in self.waiting:
            self._number += 1
            self.dated.append(Change(self._number, kind, stamp_ns, tick, content))
        self.waiting = []

    def end(self, stamp_ns: int, tick: int) -> None:
        """Date what waits after the last answered state, and log nothing from now on."""
        self.date(stamp_ns + 1, tick)
        self._active = False
