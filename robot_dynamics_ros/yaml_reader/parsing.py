# SPDX-License-Identifier: Apache-2.0
"""Parse YAML of bounded size, without tags and with unique keys, to plain values.

Values are mappings, lists, strings, numbers, true, false and null; dates stay strings. Nesting
depth and number of values, including those repeated by aliases, are bounded.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

import yaml
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from robot_dynamics_ros.errors import ConfigurationError, shown

#: Limits: bytes of a file, values (with aliases expanded), nesting levels, digits of an integer.
MAX_BYTES, MAX_VALUES, MAX_LEVELS, MAX_DIGITS = 20_000_000, 1_000_000, 64, 100
#: Numbers to base 8 and 60 of YAML 1.1, which other readers take for decimal ones or texts.
_NOT_DECIMAL = re.compile(r'[-+]?0[0-7_]*[1-7][0-7_]*|.*:.*')
_Parser = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)
_CONSTRUCTORS: dict[str, Callable[[Any], Any]] = {
    'tag:yaml.org,2002:null': lambda _: None,
    'tag:yaml.org,2002:bool': SafeConstructor().construct_yaml_bool,
    'tag:yaml.org,2002:int': SafeConstructor().construct_yaml_int,
    'tag:yaml.org,2002:float': SafeConstructor().construct_yaml_float,
}


def read_yaml(source: Any, what: str, shipped: Mapping[str, Path] | None = None) -> Any:
    """Return the content of a YAML file or text; arguments and errors of :func:`yaml_text`."""
    return parse_yaml(*yaml_text(source, what, shipped))


def plain(values: Any) -> Any:
    """Return values to be written: no shared lists, numbers of 13 digits without rounding."""
    return json.loads(json.dumps(values), parse_float=lambda text: float(f'{float(text):.13g}'))


def yaml_text(
    source: Any, what: str, shipped: Mapping[str, Path] | None = None
) -> tuple[str, str]:
    """Return the text of a YAML file or text, and its place for errors.

    Args:
        source: Path of a file, name of a shipped file, or YAML text, which contains a line break
            or ``: ``, ends with ``:`` or begins with ``{``.
        what: Type of the content, for errors, such as 'program'.
        shipped: Shipped files, by name.

    Raises:
        ConfigurationError: The source cannot be read; gives location, problem and remedy.
    """
    if not isinstance(source, (str, os.PathLike)):
        raise ConfigurationError(what, f'is {shown(source)}', 'give YAML text or a path')
    source = os.fspath(source)
    if '\n' in source or ': ' in source or source.endswith(':') or source.lstrip().startswith('{'):
        return source, what
    return file_text(source, what, shipped), f'{what} {shown(source)}'


def file_text(source: str, what: str, shipped: Mapping[str, Path] | None = None) -> str:
    """Return the text of a file given by the user.

    Args:
        source: Path, in which ``~`` and ``~user`` are expanded, or a name of ``shipped``.
        what: Type of the content, for errors.
        shipped: Shipped files, by name.

    Raises:
        ConfigurationError: The file does not exist, cannot be read, is too large or not UTF-8.
    """
    culprit = f'{what} {shown(source)}'
    files = shipped or {}
    path = files.get(source) or _path(source) or files.get(source.removesuffix('.yaml'))
    if path is None:
        known = f', or the name of a shipped one: {", ".join(files)}' if files else ''
        raise ConfigurationError(culprit, 'is not a file', f'give a path{known}')
    try:
        with path.open('rb') as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            culprit, f'cannot be read: {error.strerror}', 'give a readable file'
        ) from error
    if len(content) > MAX_BYTES:
        raise ConfigurationError(culprit, 'is too large', f'give at most {MAX_BYTES} bytes')
    try:
        return content.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        problem = f'is not UTF-8 text (byte {content[error.start]:#x} at {error.start})'
        raise ConfigurationError(culprit, problem, 'save it as UTF-8') from None


#: Key of the texts of files beside the values that name the files.
FILES = 'files'


def texts_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the YAML files that values name, by name, of those that can be read."""
    found = dict[str, str]()
    for value in values.values():
        if isinstance(value, str) and value.endswith(('.yaml', '.yml')) and _path(value):
            with suppress(ConfigurationError):
                found[value] = file_text(value, 'file')
    return found


def with_texts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with the texts under :data:`FILES` in place of the files' names."""
    texts = values.get(FILES) or {}
    known = {key: x for key, x in values.items() if key != FILES}
    return {key: texts.get(x, x) if isinstance(x, str) else x for key, x in known.items()}


def _path(source: str) -> Path | None:
    """Return the path of an existing file, or None; accepts any string."""
    try:
        path = Path(source).expanduser()
        return path if path.is_file() else None
    except (OSError, ValueError, RuntimeError):  # name too long, null byte, unknown user
        return None


class MappingWithLines(dict[str, Any]):
    """A mapping of a file with the line number of each key, counted from 1."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}


yaml.SafeDumper.add_representer(MappingWithLines, yaml.SafeDumper.represent_dict)


def parse_yaml(text: str, what: str, *, octal: bool = False) -> Any:
    """Return the content of a YAML text: mappings as :class:`MappingWithLines`, None if empty.

    Args:
        text: The text.
        what: Type of the content, for errors.
        octal: Whether to accept numbers to base 8 and 60, which nobody writes on purpose.

    Raises:
        ConfigurationError: The text is not valid YAML within the limits; gives the line.

    Cost: about a second for a million values with libyaml, twenty times that without.
    """
    try:
        return _EventReader(what, text, octal).document()
    except ConfigurationError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        mark = getattr(error, 'problem_mark', None)
        place = what if mark is None else f'{what}, line {mark.line + 1}'
        reason = getattr(error, 'problem', None) or ' '.join(str(error).split())
        raise ConfigurationError(place, f'is not valid YAML: {reason}', 'correct it') from error


def yaml_mapping(text: str) -> dict[str, Any]:
    """Return the mapping in a YAML text; empty if the text is anything else."""
    try:
        content = parse_yaml(text, 'text', octal=True)  # of another program, such as rosbag2
    except ConfigurationError:
        return {}
    return content if isinstance(content, dict) else {}


class _EventReader:
    """Converts parser events to plain values; recursion ends at ``MAX_LEVELS``."""

    _key = 'the list'  # the last one of a mapping

    def __init__(self, what: str, text: str, octal: bool) -> None:
        self._what, self._count, self._resolver, self._octal = what, 0, Resolver(), octal
        self._events = yaml.parse(text, Loader=_Parser)
        self._anchors: dict[str, tuple[Any, int]] = {}

    def document(self) -> Any:
        """Return the value of the only document; None if there is none."""
        result = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if self._count:
                    self._refuse(_line(event), 'has a second document', 'keep one')
                result = self._value(next(self._events), 1)
        return result

    def _value(self, event: Any, level: int) -> Any:
        """Return the value that begins with an event."""
        line, before = _line(event), self._count
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                name = event.anchor
                self._refuse(line, f'*{name} is undefined', f'define it first: &{name}')
            value, size = self._anchors[event.anchor]
            self._add(size, line)
            return value
        if event.tag is not None:
            tag = event.tag.replace('tag:yaml.org,2002:', '!!')
            self._refuse(line, f'has the tag {shown(tag)}', 'leave tags out')
        self._add(1, line)
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event, line)
        elif level > MAX_LEVELS:
            self._refuse(line, 'is nested too deeply', f'use at most {MAX_LEVELS} levels')
        elif isinstance(event, yaml.MappingStartEvent):
            value = self._mapping(level + 1)
        else:
            value = [self._value(inner, level + 1) for inner in self._inner_events()]
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._count - before
        return value

    def _inner_events(self) -> Iterator[Any]:
        """Return the first event of each value of a list or mapping, to its end."""
        return takewhile(lambda e: not isinstance(e, yaml.CollectionEndEvent), self._events)

    def _mapping(self, level: int) -> MappingWithLines:
        mapping = MappingWithLines()
        for event in self._inner_events():
            key, line = self._value(event, level), _line(event)
            if not isinstance(key, str):
                kind = shown(key) if not isinstance(key, (list, dict)) else 'of several values'
                self._refuse(line, f'key {kind} is not a name', 'use text')
            if key in mapping:
                self._refuse(line, f'key {shown(key)} is given twice', 'keep one of the two')
            mapping.lines[key], self._key = line, key
            mapping[key] = self._value(next(self._events), level)
        return mapping

    def _add(self, size: int, line: int) -> None:
        """Count values, including those that an alias repeats."""
        self._count += size
        if self._count > MAX_VALUES:
            self._refuse(line, 'has too many values', f'give at most {MAX_VALUES}')

    def _scalar(self, event: Any, line: int) -> Any:
        text: str = event.value
        if not event.implicit[0]:
            return text
        tag = self._resolver.resolve(yaml.ScalarNode, text, (True, False))
        if tag not in _CONSTRUCTORS:
            return text  # includes dates
        if len(text) > MAX_DIGITS and tag.endswith('int'):
            self._refuse(line, f'has a number of {len(text)} digits', 'give a finite number')
        try:
            value = _CONSTRUCTORS[tag](yaml.ScalarNode(tag, text))
            refused = not self._octal and _NOT_DECIMAL.fullmatch(text)
            problem = f'of {self._key} is {value} in YAML 1.1' if refused else ''
        except (ValueError, IndexError, OverflowError):
            problem = 'is not a number'
        if problem:
            remedy = 'give a decimal number, or quote the text'
            self._refuse(line, f'{shown(text)} {problem}', remedy)
        return value

    def _refuse(self, line: int, problem: str, remedy: str) -> NoReturn:
        raise ConfigurationError(f'{self._what}, line {line}', problem, remedy)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
