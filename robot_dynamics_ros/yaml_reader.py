# SPDX-License-Identifier: Apache-2.0
"""The one reader of YAML: what users write, safe by construction, refused with place and line.

A file is UTF-8 text of a bounded size. Its values are mappings with unique names, lists, texts,
numbers, true, false and null; tags are refused, and what looks like a date stays a text. Depth,
number of values and what aliases repeat are bounded. :class:`Section` then reads a mapping key by
key, so that every refusal names the place and what is known there.

Everything here raises ``ConfigurationError``; :func:`reported_as` makes the error of a kind of
file of it.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
import yaml
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from robot_dynamics_ros.errors import (
    ConfigurationError,
    DescriptionError,
    ParameterError,
    ProgramError,
    RobotDynamicsError,
    ShapeError,
    UnknownNameError,
    shown,
)

T = TypeVar('T')
#: How the values of keys are read: ``(place, value) -> result`` by key.
Readers = Mapping[str, Callable[[str, Any], Any]]

#: No quantity of a robot is larger; squares and products of accepted numbers stay finite.
LARGEST = 1e50
_NUMBERS: tuple[Any, ...] = (int, float, np.integer, np.floating)
_EXPONENT = re.compile(r'[-+]?[0-9]+[eE][-+]?[0-9]+')
#: Bounds of what is read: bytes of a file, its values (aliases written out), levels, digits.
MOST_BYTES, MOST_VALUES, MOST_LEVELS, MOST_DIGITS = 20_000_000, 1_000_000, 64, 100
_LONGEST_PATH = 4096
_Parser = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)
_BUILD: dict[str, Callable[[Any], Any]] = {
    'tag:yaml.org,2002:null': lambda _: None,
    'tag:yaml.org,2002:bool': SafeConstructor().construct_yaml_bool,
    'tag:yaml.org,2002:int': SafeConstructor().construct_yaml_int,
    'tag:yaml.org,2002:float': SafeConstructor().construct_yaml_float,
}


def read_yaml(source: Any, what: str, shipped: Mapping[str, Path] | None = None) -> Any:
    """Return what a YAML file or text says.

    Args:
        source: Path of a file, name of a shipped one, or the text itself: what has a line break or
            ``: `` in it, or begins with ``{``.
        what: What it is, for errors: 'program'.
        shipped: Files that ship with the package, by name.

    Raises:
        ConfigurationError: It cannot be read; says what and where, and what would be right.
    """
    if not isinstance(source, (str, os.PathLike)):
        raise ConfigurationError(what, f'is {shown(source)}', 'give YAML text or a path')
    word = os.fspath(source)
    if '\n' in word or ': ' in word or word.endswith(':') or word.lstrip().startswith('{'):
        return parse_yaml(word, what)
    return parse_yaml(file_text(word, what, shipped), f'{what} {shown(word)}')


def file_text(word: str, what: str, shipped: Mapping[str, Path] | None = None) -> str:
    """Return the text of the file that a user names.

    Args:
        word: Its path; ``~`` and ``~user`` are understood; or a name of ``shipped``.
        what: What it is, for errors.
        shipped: Files that ship with the package, by name.

    Raises:
        ConfigurationError: It is no file, cannot be read, is too large or no UTF-8 text.
    """
    culprit = f'{what} {shown(word)}'
    path = (shipped or {}).get(word.removesuffix('.yaml')) or _path(word)
    if path is None:
        known = f', or one of those that ship: {", ".join(shipped)}' if shipped else ''
        raise ConfigurationError(culprit, 'is no file', f'give a path{known}')
    try:
        with path.open('rb') as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            culprit, f'cannot be read: {error.strerror}', 'give a file that can be'
        ) from error
    if len(content) > MOST_BYTES:
        raise ConfigurationError(culprit, 'is too large', f'give at most {MOST_BYTES} bytes')
    try:
        return content.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        problem = f'is no UTF-8 text (byte {content[error.start]:#x} at {error.start})'
        raise ConfigurationError(culprit, problem, 'save it as UTF-8') from None


def _path(word: str) -> Path | None:
    """Return the path of a file that exists, or None; whatever the word is."""
    if len(word) > _LONGEST_PATH:
        return None
    try:
        path = Path(word).expanduser()
        return path if path.is_file() else None
    except (OSError, ValueError, RuntimeError):  # too long a name, a null byte, no such user
        return None


class Lined(dict[str, Any]):
    """A mapping of a file that knows the line of each key, counted from 1."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}


def parse_yaml(text: str, what: str) -> Any:
    """Return what a YAML text says; mappings as :class:`Lined`, an empty text as None.

    Args:
        text: The text.
        what: What it is, for errors.

    Raises:
        ConfigurationError: It is no YAML of the kind that is allowed; says where.

    Cost: about a second for a million values with libyaml, twenty times that without.
    """
    builder = _Builder(what)
    try:
        for event in yaml.parse(text, Loader=_Parser):
            builder.take(event)
    except ConfigurationError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        mark = getattr(error, 'problem_mark', None)
        place = what if mark is None else f'{what}, line {mark.line + 1}'
        reason = getattr(error, 'problem', None) or ' '.join(str(error).split())
        raise ConfigurationError(place, f'is no YAML: {reason}', 'correct it') from error
    return builder.result


class _Open:
    """A list or mapping that is being read, and which values its aliases stand for."""

    def __init__(self, value: Any, anchor: str | None, before: int) -> None:
        self.value, self.anchor, self.before = value, anchor, before
        self.key: str | None = None


class _Builder:
    """Builds plain values from the events of a parser, one level of Python for any depth."""

    def __init__(self, what: str) -> None:
        self.result: Any = None
        self._what, self._documents, self._count = what, 0, 0
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._resolver = Resolver()

    def take(self, event: Any) -> None:
        """Take the next event of the parser."""
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.ScalarEvent):
            self._refuse_tag(event, line)
            value = self._scalar(event, line)
            self._add(value, line, 1)
            self._name(event.anchor, value, 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._refuse_tag(event, line)
            self._begin(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self._stack.pop()
            self._name(done.anchor, done.value, self._count - done.before)
        elif isinstance(event, yaml.AliasEvent):
            self._repeat(event.anchor, line)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._refuse(line, 'has a second document', 'keep one')

    def _begin(self, event: Any, line: int) -> None:
        mapping = isinstance(event, yaml.MappingStartEvent)
        new = _Open(Lined() if mapping else [], event.anchor, self._count)
        self._add(new.value, line, 1)
        self._stack.append(new)
        if len(self._stack) > MOST_LEVELS:
            self._refuse(line, 'is nested too deeply', f'use at most {MOST_LEVELS} levels')

    def _add(self, value: Any, line: int, size: int) -> None:
        """Put a value where it belongs: into a list, as a key, or as the value of one."""
        self._count += size
        if self._count > MOST_VALUES:
            self._refuse(line, 'has too many values', f'give at most {MOST_VALUES}')
        if not self._stack:
            self.result = value
            return
        top = self._stack[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key is None:
            top.key = self._new_key(top.value, value, line)
        else:
            top.value[top.key], top.key = value, None

    def _new_key(self, mapping: Lined, key: Any, line: int) -> str:
        if not isinstance(key, str):
            kind = shown(key) if not isinstance(key, (list, dict)) else 'of several values'
            self._refuse(line, f'key {kind} is not a name', 'use text')
        if key in mapping:
            self._refuse(line, f'key {shown(key)} is given twice', 'keep one of the two')
        mapping.lines[key] = line
        return str(key)

    def _scalar(self, event: Any, line: int) -> Any:
        text: str = event.value
        if not event.implicit[0]:
            return text
        tag = self._resolver.resolve(yaml.ScalarNode, text, (True, False))
        if tag not in _BUILD:
            return text  # also what looks like a date
        if len(text) > MOST_DIGITS and tag.endswith('int'):
            self._refuse(line, f'has a number of {len(text)} digits', 'give a finite number')
        try:
            return _BUILD[tag](yaml.ScalarNode(tag, text))
        except (ValueError, IndexError, OverflowError):
            self._refuse(line, f'{shown(text)} is no number', 'write a number, or quote the text')

    def _repeat(self, anchor: str | None, line: int) -> None:
        if anchor is None or anchor not in self._anchors:
            self._refuse(line, f'*{anchor} stands for nothing', f'name it before: &{anchor}')
        self._add(self._anchors[anchor][0], line, self._anchors[anchor][1])

    def _name(self, anchor: str | None, value: Any, size: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)

    def _refuse_tag(self, event: Any, line: int) -> None:
        if event.tag is not None:
            tag = event.tag.replace('tag:yaml.org,2002:', '!!')
            self._refuse(line, f'has the tag {shown(tag)}', 'leave tags out')

    def _refuse(self, line: int, problem: str, remedy: str) -> NoReturn:
        raise ConfigurationError(f'{self._what}, line {line}', problem, remedy)


@contextmanager
def reported_as(kind: type[DescriptionError], before: str = '') -> Iterator[None]:
    """Make the error of a kind of file of what this module raises.

    Args:
        kind: Its class.
        before: What the culprit is a part of.
    """
    try:
        yield
    except (ConfigurationError, ProgramError) as error:
        raise kind(f'{before}{error.culprit}', error.problem, error.remedy) from error


class Section:
    """A mapping of a file, read key by key.

    Args:
        place: Where it stands, for errors: "constraint 'circle'".
        data: What was read.

    Raises:
        ConfigurationError: It is no mapping, or a key is no text.
    """

    def __init__(self, place: str, data: Any) -> None:
        if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in data):
            raise ConfigurationError(
                place, f'is {shown(data)}', 'give a mapping of keys to values'
            )
        self.place, self._data = place, dict(data)
        self._lines: Mapping[str, int] = getattr(data, 'lines', {})
        self._known: list[str] = []

    def __contains__(self, key: str) -> bool:
        return self._data.get(key) is not None

    def take(self, key: str, read: Callable[[str, Any], T], default: T | None = None) -> T:
        """Return the value of a key, read and checked.

        Args:
            key: The key; it counts as known from now on.
            read: ``(place, value) -> result``; raises ConfigurationError.
            default: Result if the key is absent.

        Raises:
            ConfigurationError: The key is missing and has no default, or its value is wrong.
        """
        self._known.append(key)
        place = self._at(key)
        if key not in self:
            if default is None:
                raise ConfigurationError(self.place, f'{key!r} is missing', 'give it')
            return default
        with blaming(place):
            return read(place, self._data[key])

    def maybe(self, key: str, read: Callable[[str, Any], T]) -> T | None:
        """Return the value of a key, or None if it is absent."""
        self._known.append(key)
        return self.take(key, read) if key in self else None

    def build(
        self, make: Callable[..., T], required: Readers, optional: Readers | None = None
    ) -> T:
        """Return what a constructor makes of the values of keys.

        Args:
            make: The constructor.
            required: How each key that must be given is read, in the constructor's order.
            optional: How each other key is read, by the constructor's own names; where one is
                absent, the constructor's default counts.

        Raises:
            ConfigurationError: A required key is missing, or a value is wrong.
        """
        values = [self.take(key, read) for key, read in required.items()]
        chosen = {key: self.maybe(key, read) for key, read in (optional or {}).items()}
        return make(*values, **{key: value for key, value in chosen.items() if key in self})

    def one_of(self, keys: Sequence[str]) -> str:
        """Return which of several keys is given.

        Raises:
            ConfigurationError: None is, or more than one.
        """
        self._known += keys
        found = [key for key in keys if key in self]
        if len(found) != 1:
            given = ' and '.join(map(repr, found)) or 'none of them'
            raise ConfigurationError(self.place, f'has {given}', f'give one of {", ".join(keys)}')
        return found[0]

    def close(self) -> None:
        """Refuse keys that nobody has asked for.

        Raises:
            ConfigurationError: There is one; lists those that are known here.
        """
        for key in self._data:
            if key not in self._known:
                known = ', '.join(sorted(set(self._known)))
                raise ConfigurationError(
                    self.place + self._line(key), f'unknown key {shown(key)}', f'known: {known}'
                )

    def _at(self, key: str) -> str:
        """Return the place of a key."""
        return f'{self.place}, {key}{self._line(key)}'

    def _line(self, key: str) -> str:
        return f' (line {self._lines[key]})' if key in self._lines else ''


def built(
    make: Callable[..., T], required: Readers, optional: Readers | None = None
) -> Callable[[str, Any], T]:
    """Return the reader of a mapping whose keys are arguments of a constructor.

    Args:
        make: The constructor.
        required: Its arguments that must be given; see :meth:`Section.build`.
        optional: Its other arguments; every other key is refused.
    """

    def read(place: str, value: Any) -> T:
        section = Section(place, value)
        made = section.build(make, required, optional)
        section.close()
        return made

    return read


@contextmanager
def blaming(place: str) -> Iterator[None]:
    """Turn errors of constructors into errors that name the place in the file."""
    try:
        yield
    except (ConfigurationError, ProgramError):
        raise
    except UnknownNameError as error:
        known = ', '.join(error.known)
        problem = f'unknown {error.kind} {error.name!r}'
        raise ConfigurationError(place, problem, f'known: {known}') from error
    except ShapeError as error:
        problem = f'{error.argument} has {_sizes(error.shape)}'
        raise ConfigurationError(place, problem, f'expected {error.expected}') from error
    except ParameterError as error:
        raise ConfigurationError(
            place, f'{error.name} is {error.value!r}', error.reason
        ) from error
    except RobotDynamicsError as error:
        raise ConfigurationError(place, str(error), 'correct it') from error


def number(place: str, value: Any) -> float:
    """Return a finite number, of at most LARGEST."""
    if isinstance(value, str) and _EXPONENT.fullmatch(value):
        better = re.sub('[eE]', '.0e', value).replace('e+', 'e')
        better = re.sub(r'e(?=[0-9])', 'e+', better)
        raise ConfigurationError(
            place, f'is the text {value!r}', f'YAML wants a point in such a number: {better}'
        )
    if isinstance(value, bool) or not isinstance(value, _NUMBERS) or not abs(value) <= LARGEST:
        raise ConfigurationError(place, f'is {shown(value)}', 'give a finite number')
    return float(value)


def positive(place: str, value: Any) -> float:
    """Return a positive number."""
    if not number(place, value) > 0.0:
        raise ConfigurationError(place, f'is {value!r}', 'must be positive')
    return float(value)


def not_negative(place: str, value: Any) -> float:
    """Return a number that is not negative."""
    if number(place, value) < 0.0:
        raise ConfigurationError(place, f'is {value!r}', 'must not be negative')
    return float(value)


def count(place: str, value: Any) -> float:
    """Return a positive number, or infinity for 'endless'."""
    return math.inf if value == 'endless' else positive(place, value)


def numbers(place: str, value: Any) -> list[float]:
    """Return a list of finite numbers; a single number counts as a list of one."""
    values = value if isinstance(value, list) else [value]
    if not values:
        raise ConfigurationError(place, 'is empty', 'give numbers')
    return [number(place, x) for x in values]


def vector3(place: str, value: Any) -> list[float]:
    """Return three finite numbers."""
    found = numbers(place, value)
    if len(found) != 3:
        raise ConfigurationError(place, f'has {len(found)} numbers', 'give three: x, y, z')
    return found


def rows(place: str, value: Any) -> list[list[float]]:
    """Return rows of finite numbers, all of one length; a number counts as a row of one."""
    if not isinstance(value, list) or not value:
        raise ConfigurationError(place, f'is {shown(value)}', 'give a list of rows')
    table = [numbers(f'{place}, row {i}', row) for i, row in enumerate(value)]
    if len({len(row) for row in table}) != 1:
        raise ConfigurationError(place, 'has rows of different lengths', 'give equal ones')
    return table


def text(place: str, value: Any) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError(place, f'is {shown(value)}', 'give a text')
    return value


def names(place: str, value: Any) -> list[str]:
    """Return a list of texts."""
    if not isinstance(value, list) or not value:
        raise ConfigurationError(place, f'is {shown(value)}', 'give a list of names')
    return [text(place, name) for name in value]


def mappings(place: str, value: Any) -> list[dict[str, float]]:
    """Return mappings from name to number; a single one counts as a list of one."""
    given = value if isinstance(value, list) else [value]
    if not given or not all(isinstance(row, Mapping) and row for row in given):
        raise ConfigurationError(
            place, f'is {shown(value)}', 'give mappings from joint name to number'
        )
    return [{text(place, k): number(f'{place}, {k}', x) for k, x in row.items()} for row in given]


def switch(place: str, value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise ConfigurationError(place, f'is {shown(value)}', 'give true or false')
    return value


def _sizes(shape: tuple[int, ...]) -> str:
    return f'{shape[0]} components' if len(shape) == 1 else f'shape {shape}'
