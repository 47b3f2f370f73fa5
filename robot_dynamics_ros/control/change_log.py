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
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import RecordingError, shown

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
        _check(place, fields, 'schema number kind stamp_ns tick content')
        if (schema := fields.pop('schema')) != SCHEMA:
            problem = f'has schema {schema}, and schema {SCHEMA} is known'
            raise RecordingError(place, problem, 'record it again')
        content = fields['content']
        _check_content(place, fields['kind'], content, _KEYS)
        for kind, kept in content.get('kept', {}).items():
            _check_content(f'{place}, kept', kind, kept, _KEPT)
        if 'state' in content:
            _check(f'{place}, state', content['state'], 'stamp_ns q v')
        return cls(**fields)


def _check_content(place: str, kind: str, content: Any, known: Collection[str]) -> None:
    if kind not in known:
        raise RecordingError(f'{place}, kind', f'is {kind!r}', f'give one of {", ".join(known)}')
    _check(f'{place}, content of {kind!r}', content, _KEYS[kind])
    for key in _KEYS[kind].split():
        content.setdefault(key.rstrip('?'), None)


def _check(place: str, fields: Any, keys: str) -> None:
    """Refuse a mapping that has not these keys with values of their types; see ``_KEYS``."""
    given = fields if isinstance(fields, dict) else {}
    known = {key.rstrip('?'): key.endswith('?') for key in keys.split()}
    for name in (*known, *sorted(given.keys() - known)):
        value = given.get(name)
        may_miss = value is None and known.get(name)
        if name not in known or not (may_miss or _fits(name, value)):
            problem = f'is {shown(value)}' if name in given else 'is missing'
            raise RecordingError(f'{place}, {name}', problem, 'record it again')


def _fits(name: str, value: Any) -> bool:
    """Return whether a value is of the type of its key, see ``_TYPES``; of others numbers."""
    if any(name in names.split() for names in _TYPES.values()):
        return name in _TYPES.get(type(value), '').split()
    if name == 'points':  # times, positions, velocities, accelerations
        rows = value if isinstance(value, list) else []
        return len(rows) == 4 and all(row is None or _fits('row', row) for row in rows)
    try:
        return isinstance(value, list | np.ndarray) and np.array(value).dtype.kind in 'if'
    except ValueError:  # of rows of different lengths
        return False


#: Keys of the content of each kind; those with ? may be null or missing.
_KEYS = {
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
#: Keys whose values have a type.
_TYPES: dict[type, str] = {
    int: 'schema number stamp_ns tick start_ns now_ns factor',
    float: 'factor',
    str: 'kind axes frame',
    dict: 'content parameters values state kept',
    bool: 'carried pressed moves',
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
