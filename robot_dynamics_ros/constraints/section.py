# SPDX-License-Identifier: Apache-2.0
"""Reading a program file key by key, so that every refusal names the place and what is known."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from robot_dynamics_ros.errors import (
    ParameterError,
    ProgramError,
    RobotDynamicsError,
    ShapeError,
    UnknownNameError,
)

T = TypeVar('T')

#: No quantity of a robot is larger; squares and products of accepted numbers stay finite.
LARGEST = 1e50
_NUMBERS: tuple[Any, ...] = (int, float, np.integer, np.floating)
_EXPONENT = re.compile(r'[-+]?[0-9]+[eE][-+]?[0-9]+')


class Section:
    """A mapping of a program file.

    Args:
        place: Where it stands, for errors: "constraint 'circle'".
        data: What was read.

    Raises:
        ProgramError: It is no mapping, or a key is no text.
    """

    def __init__(self, place: str, data: Any) -> None:
        if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in data):
            raise ProgramError(place, f'is {shown(data)}', 'give a mapping of keys to values')
        self.place, self._data = place, dict(data)
        self._known: list[str] = []

    def __contains__(self, key: str) -> bool:
        return self._data.get(key) is not None

    def take(self, key: str, read: Callable[[str, Any], T], default: T | None = None) -> T:
        """Return the value of a key, read and checked.

        Args:
            key: The key; it counts as known from now on.
            read: ``(place, value) -> result``; raises ProgramError.
            default: Result if the key is absent.

        Raises:
            ProgramError: The key is missing and has no default, or its value is wrong.
        """
        self._known.append(key)
        place = f'{self.place}, {key}'
        if key not in self:
            if default is None:
                raise ProgramError(self.place, f'{key!r} is missing', 'give it')
            return default
        with blaming(place):
            return read(place, self._data[key])

    def maybe(self, key: str, read: Callable[[str, Any], T]) -> T | None:
        """Return the value of a key, or None if it is absent."""
        self._known.append(key)
        return self.take(key, read) if key in self else None

    def one_of(self, keys: Sequence[str]) -> str:
        """Return which of several keys is given.

        Raises:
            ProgramError: None is, or more than one.
        """
        self._known += keys
        found = [key for key in keys if key in self]
        if len(found) != 1:
            given = ' and '.join(map(repr, found)) or 'none of them'
            raise ProgramError(self.place, f'has {given}', f'give one of {", ".join(keys)}')
        return found[0]

    def close(self) -> None:
        """Refuse keys that nobody has asked for.

        Raises:
            ProgramError: There is one; lists those that are known here.
        """
        for key in self._data:
            if key not in self._known:
                known = ', '.join(sorted(set(self._known)))
                raise ProgramError(self.place, f'unknown key {key!r}', f'known: {known}')


@contextmanager
def blaming(place: str) -> Iterator[None]:
    """Turn errors of constructors into errors that name the place in the file."""
    try:
        yield
    except ProgramError:
        raise
    except UnknownNameError as error:
        known = ', '.join(error.known)
        problem = f'unknown {error.kind} {error.name!r}'
        raise ProgramError(place, problem, f'known: {known}') from error
    except ShapeError as error:
        problem = f'{error.argument} has {_sizes(error.shape)}'
        raise ProgramError(place, problem, f'expected {error.expected}') from error
    except ParameterError as error:
        raise ProgramError(place, f'{error.name} is {error.value!r}', error.reason) from error
    except RobotDynamicsError as error:
        raise ProgramError(place, str(error), 'correct it') from error


def shown(value: Any) -> str:
    """Return a value as text for an error, cut short if it is long."""
    return _SHORT.repr(value)


_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def number(place: str, value: Any) -> float:
    """Return a finite number, of at most LARGEST."""
    if isinstance(value, str) and _EXPONENT.fullmatch(value):
        better = re.sub('[eE]', '.0e', value).replace('e+', 'e')
        better = re.sub(r'e(?=[0-9])', 'e+', better)
        raise ProgramError(
            place, f'is the text {value!r}', f'YAML wants a point in such a number: {better}'
        )
    if isinstance(value, bool) or not isinstance(value, _NUMBERS) or not abs(value) <= LARGEST:
        raise ProgramError(place, f'is {shown(value)}', 'give a finite number')
    return float(value)


def positive(place: str, value: Any) -> float:
    """Return a positive number."""
    if not number(place, value) > 0.0:
        raise ProgramError(place, f'is {value!r}', 'must be positive')
    return float(value)


def not_negative(place: str, value: Any) -> float:
    """Return a number that is not negative."""
    if number(place, value) < 0.0:
        raise ProgramError(place, f'is {value!r}', 'must not be negative')
    return float(value)


def count(place: str, value: Any) -> float:
    """Return a positive number, or infinity for 'endless'."""
    return math.inf if value == 'endless' else positive(place, value)


def numbers(place: str, value: Any) -> list[float]:
    """Return a list of finite numbers; a single number counts as a list of one."""
    values = value if isinstance(value, list) else [value]
    if not values:
        raise ProgramError(place, 'is empty', 'give numbers')
    return [number(place, x) for x in values]


def vector3(place: str, value: Any) -> list[float]:
    """Return three finite numbers."""
    found = numbers(place, value)
    if len(found) != 3:
        raise ProgramError(place, f'has {len(found)} numbers', 'give three: x, y, z')
    return found


def rows(place: str, value: Any) -> list[list[float]]:
    """Return rows of finite numbers, all of one length; a number counts as a row of one."""
    if not isinstance(value, list) or not value:
        raise ProgramError(place, f'is {shown(value)}', 'give a list of rows')
    table = [numbers(f'{place}, row {i}', row) for i, row in enumerate(value)]
    if len({len(row) for row in table}) != 1:
        raise ProgramError(place, 'has rows of different lengths', 'give equal ones')
    return table


def text(place: str, value: Any) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ProgramError(place, f'is {shown(value)}', 'give a text')
    return value


def names(place: str, value: Any) -> list[str]:
    """Return a list of texts."""
    if not isinstance(value, list) or not value:
        raise ProgramError(place, f'is {shown(value)}', 'give a list of names')
    return [text(place, name) for name in value]


def mappings(place: str, value: Any) -> list[dict[str, float]]:
    """Return mappings from name to number; a single one counts as a list of one."""
    given = value if isinstance(value, list) else [value]
    if not given or not all(isinstance(row, Mapping) and row for row in given):
        raise ProgramError(place, f'is {shown(value)}', 'give mappings from joint name to number')
    return [{text(place, k): number(f'{place}, {k}', x) for k, x in row.items()} for row in given]


def switch(place: str, value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise ProgramError(place, f'is {shown(value)}', 'give true or false')
    return value


def _sizes(shape: tuple[int, ...]) -> str:
    return f'{shape[0]} components' if len(shape) == 1 else f'shape {shape}'
