# SPDX-License-Identifier: Apache-2.0
"""Safe reader of user-written YAML files, with errors that name the location and the line.

``parsing`` converts a file to plain values. :class:`Section` reads a mapping key by key, so that
every error names the location and the keys known there. The functions below read single values.

All errors are ``ConfigurationError``; :func:`reported_as` converts them to the error class of a
type of file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from numbers import Real
from typing import Any, TypeVar

from robot_dynamics_ros.errors import (
    ConfigurationError,
    DescriptionError,
    ParameterError,
    ProgramError,
    RobotDynamicsError,
    brief,
    shown,
)

T = TypeVar('T')
#: Readers of values, ``(place, value) -> result``, by key.
Readers = Mapping[str, Callable[[str, Any], Any]]

#: Largest accepted number; squares and products of accepted numbers are finite.
LARGEST = 1e50
#: Sign, integer part, fraction, sign and digits of the exponent.
_EXPONENT = re.compile(r'([-+]?)(?=\.?[0-9])([0-9]*)(\.[0-9]*)?[eE]([-+]?)([0-9]+)')
_LINE = re.compile(r' \(line \d+\)$')


@contextmanager
def reported_as(kind: type[DescriptionError], before: str = '') -> Iterator[None]:
    """Convert the errors of this module to those of a type of file.

    Args:
        kind: The error class.
        before: Prefix of the culprit in the message.
    """
    try:
        yield
    except (ConfigurationError, ProgramError) as error:
        raise kind(f'{before}{error.culprit}', error.problem, error.remedy) from error


class Section:
    """A mapping of a file, read key by key.

    Args:
        place: Its location, for errors, such as "constraint 'circle'".
        data: The value from the file.

    Raises:
        ConfigurationError: The value is not a mapping, or a key is not a string.
    """

    def __init__(self, place: str, data: Any) -> None:
        if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in data):
            problem = 'is empty' if data is None else f'is {shown(data)}'
            raise ConfigurationError(place, problem, 'give a mapping of keys to values')
        self.place, self._data = place, dict(data)
        self._lines: Mapping[str, int] = getattr(data, 'lines', {})
        self._known: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __contains__(self, key: str) -> bool:
        return self._data.get(key) is not None

    def take(self, key: str, read: Callable[[str, Any], T], default: T | None = None) -> T:
        """Return the checked value of a key.

        Args:
            key: The key, which is added to the known keys.
            read: ``(place, value) -> result``; raises ConfigurationError.
            default: Result if the key is absent.

        Raises:
            ConfigurationError: The key is missing and has no default, or its value is invalid.
        """
        self._known.append(key)
        place = self._at(key)
        if key not in self:
            if default is None:
                given = brief(', '.join(self._data)) or 'nothing'
                raise ConfigurationError(self.place, f'{key!r} is missing', f'given: {given}')
            return default
        with located_errors(place):
            return read(place, self._data[key])

    def optional(self, key: str, read: Callable[[str, Any], T]) -> T | None:
        """Return the value of a key, or None if it is absent."""
        self._known.append(key)
        return self.take(key, read) if key in self else None

    def build(
        self, make: Callable[..., T], required: Readers, optional: Readers | None = None
    ) -> T:
        """Return the object that a constructor builds from the values of keys.

        Args:
            make: The constructor.
            required: Readers of the required keys, in the order of the positional arguments.
            optional: Readers of the optional keys, which are keyword arguments of the constructor;
                absent keys use its defaults.

        Raises:
            ConfigurationError: A required key is missing, or a value is invalid.
        """
        values = [self.take(key, read) for key, read in required.items()]
        options = {key: self.optional(key, read) for key, read in (optional or {}).items()}
        return make(*values, **{key: value for key, value in options.items() if key in self})

    def one_of(self, keys: Sequence[str]) -> str:
        """Return which one of several keys is present.

        Raises:
            ConfigurationError: None or more than one is present.
        """
        self._known += keys
        present = [key for key in keys if key in self]
        if len(present) != 1:
            listed = ' and '.join(map(repr, present)) or 'none of them'
            raise ConfigurationError(self.place, f'has {listed}', f'give one of {", ".join(keys)}')
        return present[0]

    def alternatives(self, *groups: Sequence[str]) -> int:
        """Return which one of several groups of keys is present; 0 if none is.

        Raises:
            ConfigurationError: Keys of two groups are present.
        """
        self._known += [key for group in groups for key in group]
        present = [(i, key) for i, group in enumerate(groups) for key in group if key in self]
        for i, key in present:
            if i != present[0][0]:
                remedy = f'give {", or ".join(" and ".join(group) for group in groups)}'
                raise ConfigurationError(self._at(key), f'has {present[0][1]} beside it', remedy)
        return present[0][0] if present else 0

    def close(self) -> None:
        """Check that the mapping has no unknown keys, after all known ones were read.

        Raises:
            ConfigurationError: A key is unknown; lists the known keys.
        """
        for key in self._data:
            if key not in self._known:
                known = ', '.join(sorted(set(self._known)))
                place = self.place
                if line := self._line(key):
                    place = _LINE.sub('', place) + line
                raise ConfigurationError(place, f'unknown key {shown(key)}', f'known: {known}')

    def _at(self, key: str) -> str:
        """Return the location of a key."""
        return f'{self.place}, {key}{self._line(key)}'

    def _line(self, key: str) -> str:
        return f' (line {self._lines[key]})' if key in self._lines else ''


def built(
    make: Callable[..., T], required: Readers, optional: Readers | None = None
) -> Callable[[str, Any], T]:
    """Return a reader of a mapping whose keys are arguments of a constructor.

    Args:
        make: The constructor.
        required: Readers of its required arguments; see :meth:`Section.build`.
        optional: Readers of its optional arguments; all other keys are rejected.
    """

    def read(place: str, value: Any) -> T:
        section = Section(place, value)
        made = section.build(make, required, optional)
        section.close()
        return made

    return read


def mapping_of(read_one: Callable[[str, Any], T]) -> Callable[[str, Any], dict[str, T]]:
    """Return a reader of a mapping from any names to values that a reader accepts."""

    def read(place: str, value: Any) -> dict[str, T]:
        section = Section(place, value)
        return {name: section.take(name, read_one) for name in section}

    return read


@contextmanager
def located_errors(place: str) -> Iterator[None]:
    """Convert errors of constructors into errors that name the location in the file."""
    try:
        yield
    except (ConfigurationError, ProgramError):
        raise
    except ParameterError as error:
        raise ConfigurationError(
            place, f'{error.name} is {shown(error.value)}', error.reason
        ) from error
    except RobotDynamicsError as error:
        problem, _, remedy = str(error).partition('; ')
        raise ConfigurationError(place, problem, remedy or 'correct it') from error


def number(place: str, value: Any) -> float:
    """Return a finite number of absolute value up to LARGEST."""
    if isinstance(value, str) and (parts := _EXPONENT.fullmatch(value)):
        sign, whole, fraction, exponent_sign, digits = parts.groups()
        corrected = f'{sign}{whole or 0}{fraction or ".0"}e{exponent_sign or "+"}{digits}'
        remedy = f'YAML needs a decimal point and a sign of the exponent: {corrected}'
        raise ConfigurationError(place, f'is the text {value!r}', remedy)
    number = isinstance(value, Real) and not isinstance(value, bool)  # includes NumPy scalars
    if not number or not abs(value) <= LARGEST:
        raise ConfigurationError(place, f'is {shown(value)}', 'give a finite number')
    return float(value)


def written(place: str, text: str) -> float:
    """Return the finite number that a text is, also of forms that YAML does not know."""
    value: Any = text
    with suppress(ValueError):
        value = float(text)
    return number(place, value)


def positive(place: str, value: Any) -> float:
    """Return a positive number."""
    if not number(place, value) > 0.0:
        raise ConfigurationError(place, f'is {shown(value)}', 'must be positive')
    return float(value)


def not_negative(place: str, value: Any) -> float:
    """Return a non-negative number."""
    if number(place, value) < 0.0:
        raise ConfigurationError(place, f'is {value!r}', 'must not be negative')
    return float(value)


def at_most(
    most: float, read: Callable[[str, Any], float] = positive
) -> Callable[[str, Any], float]:
    """Return a reader of a number, positive or as read, up to a bound."""

    def reader(place: str, value: Any) -> float:
        if (number := read(place, value)) > most:
            raise ConfigurationError(place, f'is {number:g}', f'give at most {most:g}, SI units')
        return number

    return reader


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
    if not isinstance(value, list) or len(value) != 3:
        raise ConfigurationError(place, f'is {shown(value)}', 'give three numbers: x, y, z')
    return numbers(place, value)


def angles(place: str, values: list[float], turns: int = 1) -> list[float]:
    """Return angles in rad, none of which is more than a turn, or several.

    Raises:
        ConfigurationError: One is, as if it were in degrees.
    """
    for x in values:
        if abs(x) > turns * math.tau + 1e-3:
            remedy = f'angles are in rad: {x:g} degrees are {math.radians(x):.4g}'
            more = 'a turn' if turns == 1 else f'{turns} turns'
            raise ConfigurationError(place, f'is {x:g} rad, more than {more}', remedy)
    return values


def entries(place: str, value: Any, of: str) -> list[Any]:
    """Return a list that is not empty, of what its entries are called."""
    if not isinstance(value, list) or not value:
        raise ConfigurationError(place, f'is {shown(value)}', f'give a list of {of}')
    return value


def each_once(place: str, names: Sequence[str]) -> None:
    """Raise ConfigurationError if a name is there more than once."""
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(place, f'{name!r} is named twice', 'name it once')


def rows(place: str, value: Any) -> list[list[float]]:
    """Return rows of finite numbers of equal length; a number counts as a row of one."""
    given = enumerate(entries(place, value, 'rows'))
    table = [numbers(f'{place}, row {i}', row) for i, row in given]
    if len({len(row) for row in table}) != 1:
        raise ConfigurationError(place, 'has rows of different lengths', 'give equal ones')
    return table


def text(place: str, value: Any) -> str:
    """Return a non-empty string."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError(place, f'is {shown(value)}', 'give a text')
    return value


def names(place: str, value: Any) -> list[str]:
    """Return a non-empty list of non-empty strings."""
    return [text(place, name) for name in entries(place, value, 'names')]


def mappings(place: str, value: Any) -> list[dict[str, float]]:
    """Return mappings from name to number; a single mapping counts as a list of one."""
    entries = value if isinstance(value, list) else [value]
    if not entries or not all(isinstance(row, Mapping) and row for row in entries):
        raise ConfigurationError(
            place, f'is {shown(value)}', 'give mappings from joint name to number'
        )
    return [mapping_of(number)(place, row) for row in entries]


def switch(place: str, value: Any) -> bool:
    """Return a Boolean."""
    if not isinstance(value, bool):
        raise ConfigurationError(place, f'is {shown(value)}', 'give true or false')
    return value
