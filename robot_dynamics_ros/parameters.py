# SPDX-License-Identifier: Apache-2.0
"""Parameter declarations, each made once and used everywhere.

Laws, loop settings, payloads and nodes declare their parameters as :class:`Parameter` objects.
The ROS declaration with its descriptors, the validation of values, the defaults of a replay, the
command-line help and the tables of the documentation are all derived from these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import partial
from numbers import Integral, Real
from textwrap import wrap
from typing import Any, TypeVar

import numpy as np

from robot_dynamics_ros.errors import (
    ConfigurationError,
    ParameterError,
    UnknownNameError,
    known_name,
)

#: Values by name, such as those of parameters.
Values = Mapping[str, Any]
_INDENT = ' ' * 6
_NOUNS = {bool: 'true or false', int: 'whole number', float: 'finite number', str: 'text'}


@dataclass(frozen=True)
class Parameter:
    """One declared parameter.

    Attributes:
        name: Name of the parameter.
        default: Default value; determines the type: bool, int, float, str, or a list of these.
        description: One sentence, without the unit.
        low, high: Bounds of a number, or of each number of a list; None if unbounded.
        unit: Unit of a number, such as 'rad/s'.
        choices: Allowed names; empty if any text is allowed.
        per_joint: Whether a list has one entry for all joints or one per joint.
        size: Required number of entries of a list; None if any.
        entries: Meaning of the entries, such as 'x, y, z'; may be empty.
        fixed: Whether it can only be set at startup.
        only: Name of the parameter that decides whether this one is used, such as 'kind', and its
            values with which it is; empty: always used.
    """

    name: str
    default: Any
    description: str
    low: float | None = None
    high: float | None = None
    _: KW_ONLY
    unit: str = ''
    choices: tuple[str, ...] = ()
    per_joint: bool = False
    size: int | None = None
    entries: str = ''
    fixed: bool = False
    only: tuple[Any, ...] = ()

    @property
    def is_list(self) -> bool:
        """Whether the value is a list."""
        return isinstance(self.default, list)

    @property
    def kind(self) -> type:
        """Type of the value, or of the entries of a list."""
        return type(self.default[0] if self.is_list else self.default)

    @property
    def sentence(self) -> str:
        """The description with the choices that use the parameter, and the unit."""
        users = f'{", ".join(map(_word, self.only[1:]))}: ' if self.only else ''
        if self.only[1:] in ((True,), (False,)):
            users = f'{self.only[0]} {users}'
        text = users + self.description.rstrip('.')
        return f'{text} [{self.unit}].' if self.unit else f'{text}.'

    def check(self, value: Any, n: int | None = None) -> Any:
        """Validate a value and return it in its declared type; lists and arrays as a new list.

        Args:
            value: The value; for ``per_joint``, a single number is accepted as a list of one.
            n: Number of joints; None if not yet known.

        Raises:
            ParameterError: Wrong type, number of entries or range; states what is allowed.
            UnknownNameError: The name is not in ``choices``; lists them.
        """
        if self.choices and str(value) not in self.choices:
            raise UnknownNameError(self.name.replace('_', ' '), value, self.choices)
        if not self.is_list:
            if self._accepts(value):
                return self.kind(value)
            raise ParameterError(self.name, value, self.requirement(n))
        entries = value.tolist() if isinstance(value, np.ndarray) else value
        if self.per_joint and not isinstance(entries, (list, tuple)):
            entries = [entries]
        listed = isinstance(entries, (list, tuple)) and self._accepts_count(len(entries), n)
        if listed and all(self._accepts(entry) for entry in entries):
            return [self.kind(entry) for entry in entries]
        raise ParameterError(self.name, value, self.requirement(n))

    def _accepts_count(self, count: int, n: int | None) -> bool:
        if self.size is not None:
            return count == self.size
        return not self.per_joint or (count > 0 if n is None else count in (1, n))

    def _accepts(self, value: Any) -> bool:
        if self.kind is bool:
            return isinstance(value, (bool, np.bool_))
        if self.kind is str:
            return isinstance(value, str)
        number = isinstance(value, Integral if self.kind is int else Real)
        return number and not isinstance(value, bool) and self._within(value)

    def _within(self, value: Any) -> bool:
        try:
            value = float(value)
        except OverflowError:  # an integer of hundreds of digits
            return False
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        return math.isfinite(value) and low <= value <= high

    def requirement(self, n: int | None = None) -> str:
        """Return the allowed values in words.

        Args:
            n: Number of joints; None if not known.
        """
        if self.choices:
            return f'must be one of {", ".join(name or "(nothing)" for name in self.choices)}'
        noun = _NOUNS[self.kind]
        if not self.is_list:
            return f'must be {noun if self.kind in (bool, str) else f"a {noun}"}{self.range}'
        if self.per_joint and n in (None, 1):
            return f'give one {noun}{self.range} for all joints, or one per joint'
        if self.per_joint:
            return f'give 1 or {n} {noun}s{self.range}, for all joints or one per joint'
        count = 'a list of' if self.size is None else str(self.size)
        entries = f': {self.entries}' if self.entries else ''
        return f'give {count} {noun if self.kind is str else f"{noun}s"}{self.range}{entries}'

    @property
    def range(self) -> str:
        """The range in words, with a leading space; empty if there is none."""
        if self.low is None and self.high is None:
            return ''
        if self.high is None:
            return f' of at least {self.low:g}'
        return f' of at most {self.high:g}' if self.low is None else (
            f' from {self.low:g} to {self.high:g}'
        )  # fmt: skip


#: A parameter that can only be set at startup; its arguments are those of :class:`Parameter`.
FixedParameter = partial(Parameter, fixed=True)


def only(chooser: str, *values: Any) -> Callable[..., tuple[Parameter, ...]]:
    """Return a function that lets parameters be used only with some values of another one."""
    return lambda *those: tuple(replace(one, only=(chooser, *values)) for one in those)


def parameter(default: Any, description: str, *bounds: float | None, **more: Any) -> Any:
    """Return a dataclass field that declares a parameter with the name of the field.

    Args:
        default: As in :class:`Parameter`.
        description: As in :class:`Parameter`.
        bounds: ``low`` and ``high``.
        more: ``unit``, ``choices``, ``per_joint``, ``size``, ``fixed``.
    """
    metadata = {'parameter': lambda name: Parameter(name, default, description, *bounds, **more)}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


_Settings = TypeVar('_Settings', bound='Settings')


class Settings:
    """Base of dataclasses whose fields declare parameters of the same names."""

    @classmethod
    def of(cls: type[_Settings], values: Values) -> _Settings:
        """Return the settings from a mapping of parameters; other names are ignored."""
        names = (one.name for one in parameters_of(cls))
        return cls(**{name: values[name] for name in names if name in values})


def parameters_of(kind: Any) -> tuple[Parameter, ...]:
    """Return the parameters that the fields of a dataclass declare."""
    return tuple(
        entry.metadata['parameter'](entry.name)
        for entry in fields(kind)
        if 'parameter' in entry.metadata
    )


def defaults(parameters: Iterable[Parameter]) -> dict[str, Any]:
    """Return the default values by name; lists are copied."""
    return {one.name: list(one.default) if one.is_list else one.default for one in parameters}


def checked(
    parameters: Iterable[Parameter], values: Values, n: int | None = None
) -> dict[str, Any]:
    """Validate values; return declared ones in their declared type and others unchanged.

    Args:
        parameters: The declared parameters.
        values: Values by name; need not be complete.
        n: Number of joints; None if not yet known.

    Raises:
        ParameterError: A value is rejected.
        UnknownNameError: A value is not among the choices of its parameter.
    """
    result = dict(values)
    for one in parameters:
        if one.name in result:
            result[one.name] = one.check(result[one.name], n)
    return result


def require_known(parameters: Iterable[Parameter], names: Iterable[str], kind: str) -> None:
    """Reject undeclared names.

    Args:
        parameters: The declared parameters.
        names: The names to check.
        kind: Kind of the names, such as "parameter of law 'pd_gravity'".

    Raises:
        UnknownNameError: A name is unknown; names the nearest or lists the declared ones.
    """
    known = [one.name for one in parameters]
    for name in names:
        known_name(kind, name, known)


def unused(
    parameters: Iterable[Parameter],
    values: Values,
    given: Iterable[str],
    form: str = '-p {}:={}',
) -> list[ConfigurationError]:
    """Return an error for each parameter given on purpose without effect with the other values.

    Args:
        parameters: The declared parameters.
        values: All values by name.
        given: Names of the parameters that were given.
        form: How a parameter is given, with places for its name and value.
    """
    errors, named = [], {one.name: one for one in parameters}
    given = frozenset(given)
    for name in filter(given.__contains__, named):
        used: Parameter | None = named[name]
        while used and used.only:  # a choice may itself be without effect
            chooser, *users = used.only
            if values[chooser] not in users:
                problem = f'has no effect with {chooser} {_word(values[chooser], repr)}'
                cure = form.format(chooser, ' or '.join(map(_word, users)))
                remedy = f'give {cure} too, or omit it'
                errors.append(ConfigurationError(f'parameter {name!r}', problem, remedy))
                break
            used = named.get(chooser)
    return errors


def _word(value: Any, shown: Callable[[Any], str] = str) -> str:
    return str(value).lower() if isinstance(value, bool) else shown(value)


def require_used(
    parameters: Iterable[Parameter],
    values: Values,
    given: Iterable[str],
    form: str = '-p {}:={}',
) -> None:
    """Require that parameters given on purpose have an effect, see :func:`unused`.

    Raises:
        ConfigurationError: One has none; names the choices that use it.
    """
    for error in unused(parameters, values, given, form):
        raise error


def spread(value: list[float], n: int) -> list[float]:
    """Expand one number for all joints to n; return n numbers unchanged."""
    return value * n if len(value) == 1 else value


def table(parameters: Iterable[Parameter]) -> str:
    """Return a Markdown table: name, default, allowed values, description."""
    rows = ['| parameter | default | allowed | description |', '| --- | --- | --- | --- |']
    for one in parameters:
        cells = (f'`{one.name}`', f'`{shown(one)}`', _allowed(one), one.sentence)
        rows.append(f'| {" | ".join(cell.replace("|", chr(92) + "|") for cell in cells)} |')
    return '\n'.join(rows) + '\n'


def help_text(parameters: Iterable[Parameter]) -> str:
    """Return one paragraph per parameter for the command-line help."""
    lines = ['parameters:']
    for one in parameters:
        lines += ['', f'  {one.name} = {shown(one)}   ({_allowed(one)})']
        lines += wrap(one.sentence, 88, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return '\n'.join(lines)


def shown(one: Parameter) -> str:
    """Return the default in YAML notation."""
    if isinstance(one.default, str):
        return one.default or "''"
    return str(one.default).replace('True', 'true').replace('False', 'false')


def _allowed(one: Parameter) -> str:
    text = one.requirement().removeprefix('must be ').removeprefix('give ')
    return f'{text}; at the start only' if one.fixed else text


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as '1 point' or '2 points'."""
    return f'{count} {noun}' if count == 1 else f'{count} {noun}s'
