# SPDX-License-Identifier: Apache-2.0
"""Tables of other loggers: which column is what, by its name or by a YAML file.

A table has one row per state; see ``column_names`` for the names of its columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.drivers.profile import MOTOR_EFFORT_UNITS, POSITION_UNITS
from robot_dynamics_ros.errors import ConfigurationError, RecordingError
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.recordings.bag.column_names import (
    QUANTITIES,
    SIZES,
    UNITS_OF_TIME,
    parse,
    split,
)
from robot_dynamics_ros.recordings.bag.table_cells import read_cells
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader import Section, names, positive, text
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

TABLE_SUFFIXES = ('.csv', '.tsv', '.txt')
_TIMES = ('time', 'timestamp', 'stamp', 't', 'duration')
_UNNAMED = ('', 'index')
_UNIT_OF_TIME = {'duration': 'ms'}  # of libfranka
_STEP = 0.5  # a longer period is no number of seconds
_REMEDY = (
    'name its columns, and their units, in a YAML file beside it, and give that file: see '
    'docs/recordings.md, "Tables of other loggers"'
)
_MANY = 3  # more columns that only count are named by the first and the last
#: Columns of a key by joint; several are ambiguous.
_Group = dict[str, list[str]]


class Table(NamedTuple):
    """The rows of a table.

    Attributes:
        time_ns: Times, shape (N,), ns.
        joints: Names of the joints, those of the position's columns if they have only numbers.
        values: Columns by key, see ``QUANTITIES``, shape (N, n) each; in SI units if a unit is
            declared in the names of the columns or in the YAML file, else as recorded.
        notes: Which columns are what, and which are not read.
        units: The declared units by key and joint; those of motors are left to a driver profile.
    """

    time_ns: Array
    joints: tuple[str, ...]
    values: Mapping[str, Array]
    notes: list[str]
    units: Mapping[str, Mapping[str, str]]


def is_table(path: Path) -> bool:
    """Return whether a file is a table, or a YAML file that maps the columns of one."""
    if path.suffix in ('.yaml', '.yml'):
        content = read_yaml(path, 'table')
        return isinstance(content, dict) and 'table' in content
    return path.suffix.lower() in TABLE_SUFFIXES


def read_table(path: Path) -> Table:
    """Read a table.

    Args:
        path: The table, or a YAML file with keys ``table`` (its path), ``time`` (a column) and
            ``time_unit``, or ``rate`` in Hz, ``joints``, for each key of ``QUANTITIES`` the
            columns, and ``position_unit``, ``velocity_unit``, ``effort_unit``.

    Raises:
        RecordingError: A column is missing, ambiguous or no number; names it, or the line.
        ConfigurationError: A key of the YAML file is unknown or has a wrong value.
    """
    mapping: dict[str, Any] = {}
    if path.suffix in ('.yaml', '.yml'):
        mapping = _mapping(path)
        path = path.parent / mapping['table']
    sheet = _Sheet(path, mapping)
    columns = sheet.columns()
    position = columns['position']
    named = mapping.get('joints') or [sheet.joint(head) for head in position]
    if len(named) != len(position):
        problem = f'has {len(position)} columns of position: {", ".join(position)}'
        raise RecordingError(sheet.culprit, problem, f'joints names {len(named)}')
    declared = {key: sheet.units(key, heads, position) for key, heads in columns.items()}
    values = {
        key: sheet.numbers(heads) * [SIZES[QUANTITIES[key]].get(x, 1.0) for x in declared[key]]
        for key, heads in columns.items()
    }
    units = {key: {joint: unit for joint, unit in zip(named, own, strict=True) if unit}
             for key, own in declared.items()}  # fmt: skip
    time_ns, clock, times = sheet.times()
    shown = [f'{key} {_brief(heads)}' for key, heads in columns.items()]
    notes = [f'columns: {"; ".join([clock, *shown])}', *sheet.notes]
    read = {*times, *chain(*columns.values())}
    if unread := [head for head in sheet.heads if head not in read]:
        notes.append(f'columns that are not read: {_brief(unread)}')
    efforts = zip(columns.get('effort', ()), declared.get('effort', ()), strict=True)
    currents = [head for head, unit in efforts if unit in MOTOR_EFFORT_UNITS]
    if currents:
        notes.append(
            f'{_brief(currents)}: efforts of the motors; their unit, torque_constant and '
            'gear_ratio are given by a driver profile (--driver-profile)'
        )
    return Table(time_ns, tuple(named), values, notes, units)


def _mapping(path: Path) -> dict[str, Any]:
    section = Section(f'file {path.name!r}', read_yaml(path, 'table'))

    def columns(place: str, value: Any) -> list[str]:
        return names(place, value) if isinstance(value, list) else [text(place, value)]

    readers = {'time': text, 'time_unit': text, 'rate': positive, 'joints': names}
    readers |= {f'{quantity}_unit': columns for quantity in SIZES}
    taken: dict[str, Any] = {'table': section.take('table', text)}
    for key, read in {**readers, **dict.fromkeys(QUANTITIES, columns)}.items():
        taken[key] = section.optional(key, read)
    section.close()
    return {key: value for key, value in taken.items() if value is not None}


class _Sheet:
    """The cells of a table by column, and what the columns are.

    Args:
        path: The table.
        mapping: Content of its YAML file.
    """

    def __init__(self, path: Path, mapping: Mapping[str, Any]) -> None:
        self.culprit, self._path, self._mapping = f'table {str(path)!r}', path, mapping
        self.heads, self._lines, self._cells, self.notes = read_cells(path)
        self._parsed = {head: column for head in self.heads if (column := parse(head))}

    def columns(self) -> dict[str, list[str]]:
        """Return the columns of every key, in the order of those of position.

        Raises:
            RecordingError: They are missing or ambiguous.
        """
        position = next(self._options('position'), {})
        found: dict[str, _Group] = {'position': position}
        for key in QUANTITIES:
            groups = list(self._options(key))
            group = next((x for x in groups if position.keys() <= x.keys()), None)
            by_order = {key, 'position'} & self._mapping.keys()
            if group is None and groups and by_order and len(groups[0]) == len(position):
                group = dict(zip(position, groups[0].values(), strict=True))
            if group is None:  # incomplete, unless it is of something else
                meant = (x for x in groups
                         if len(x) == len(position) or x.keys() & position.keys())  # fmt: skip
                group = groups[0] if key in self._mapping else next(meant, None)
            if group is not None:
                found[key] = group
        for key, group in found.items():
            if wrong := [joint for joint in position if len(group.get(joint, ())) != 1]:
                joints = ', '.join(self.joint(position[joint][0]) for joint in wrong)
                problem = f'has no single column of {key} for {joints} among '
                raise self._error(problem + ', '.join(chain(*group.values())))
        if not position:
            raise self._error(f'has no columns of positions; its columns: {", ".join(self.heads)}')
        return {key: [group[joint][0] for joint in position] for key, group in found.items()}

    def _error(self, problem: str) -> RecordingError:
        return RecordingError(self.culprit, problem, _REMEDY)

    def _options(self, key: str) -> Iterator[_Group]:
        """Yield the columns that may be those of a key, preferred ones first."""
        if given := self._mapping.get(key):
            yield self._given(key, given)
            return
        own = [(x, head) for head, x in self._parsed.items() if x.key == key]
        for rank in sorted({x.rank for x, _ in own}):
            group: _Group = {}
            for column, head in own:
                if column.rank == rank:
                    group.setdefault(column.label, []).append(head)
            yield group

    def _given(self, key: str, given: Sequence[str]) -> _Group:
        """Return the columns that a YAML file lists for a key."""
        if missing := [name for name in given if name not in self.heads]:
            problem = f'has no column {missing[0]!r} for {key}; its columns: '
            raise RecordingError(
                self.culprit, problem + ', '.join(self.heads), f'correct {key}, list all columns'
            )
        joints = [x.label if (x := self._parsed.get(head)) else '' for head in given]
        if len({*joints}) < len(given):
            joints = [str(i) for i in range(len(given))]
        return {joint: [head] for joint, head in zip(joints, given, strict=True)}

    def joint(self, head: str) -> str:
        """Return the name of the joint of a column; that of the column if it has only a number."""
        column = self._parsed.get(head)
        named = column is not None and column.joint and not column.joint.isdigit()
        return column.joint if column and named else split(head)[0]

    def numbers(self, heads: Sequence[str]) -> Array:
        """Return columns as numbers, shape (N, len(heads)); NaN where a cell is empty."""
        return np.column_stack([self._numbers(head) for head in heads])

    def _numbers(self, head: str) -> Array:
        if self.heads.count(head) > 1:
            problem = f'has {self.heads.count(head)} columns {head!r}'
            raise RecordingError(self.culprit, problem, 'give each a name of its own')
        numbers = []
        for line, cell in zip(self._lines, self._column(head), strict=True):
            try:
                numbers.append(float(cell.replace(',', '.') or 'nan'))
            except ValueError:
                problem = f'line {line}, column {head!r}: {cell!r} is no number'
                remedy = 'correct or remove that line, or give each joint a column of its own'
                raise RecordingError(self.culprit, problem, remedy) from None
        return np.array(numbers)

    def units(self, key: str, heads: Sequence[str], position: Sequence[str]) -> list[str]:
        """Return the units of columns; empty: as recorded.

        A unit in the YAML file comes first, then that in the column's name, or A if it names
        currents, then that of the columns of position (for velocities per s).
        """
        quantity = QUANTITIES[key]
        given = self._mapping.get(f'{quantity}_unit') or ['']
        others = self._mapping.get('position_unit') or [split(head)[1] for head in position]
        if quantity == 'velocity':
            others = [unit and f'{unit}/s' for unit in others]
        elif quantity == 'effort':
            others = ['']
        given, others = (len(heads) * x if len(x) == 1 else x for x in (given, others))
        if len(given) != len(heads) or len(others) != len(heads):
            problem = f'has {max(len(given), len(others))} units, {len(heads)} columns'
            raise ConfigurationError(f'{quantity}_unit', problem, 'give one, or one for each')
        found = zip(heads, given, others, strict=True)
        return [
            self._unit(quantity, x, own or self._own_unit(x) or other) for x, own, other in found
        ]

    def _own_unit(self, head: str) -> str:
        return x.unit if (x := self._parsed.get(head)) else split(head)[1]

    def _unit(self, quantity: str, head: str, unit: str) -> str:
        sizes = SIZES[quantity]
        if quantity == 'velocity' and unit in POSITION_UNITS:  # dq1_deg: per s is understood
            unit += '/s'
        if not unit or unit in sizes:
            return unit
        problem = f'column {head!r}: its unit {unit!r} is none of {quantity}'
        raise RecordingError(self.culprit, problem, f'known: {", ".join(sizes)}')

    def _clocks(self) -> list[str]:
        """Return the columns named as times, or unnamed with dates, likely ones first."""
        words = {head: re.findall(r'[^\W_]+', head.lower()) for head in self.heads}
        named = [head for head, found in words.items() if found and found[0] in _TIMES]
        named += [head for head, found in words.items() if {*found} & {'time', 'stamp'}]
        dated = [
            x for x in self.heads if x in _UNNAMED and _dates(self._column(x)[:1]) is not None
        ]
        return list(dict.fromkeys(named + dated))

    def _column(self, head: str) -> list[str]:
        return self._cells[self.heads.index(head)]

    def times(self) -> tuple[Array, str, list[str]]:
        """Return the times of the rows, shape (N,), ns, how they were found, and from where."""
        if rate := self._mapping.get('rate'):
            steps = np.arange(1, len(self._lines) + 1)
            return np.rint(steps * (NANO / rate)).astype(np.int64), f'{rate:g} Hz', []
        name = self._mapping.get('time') or next(iter(self._clocks()), '')
        if name not in self.heads:
            problem = f'has no column of times{f" {name!r}" if name else ""}'
            hint = '; with rate: HZ in place of time if there is none'
            raise self._error(f'{problem}{hint}: {", ".join(self.heads)}')
        cells = self._column(name)
        if (dates := _dates(cells)) is not None:
            return dates, f'time {name}, dates', [name]
        pair = name.removesuffix('sec') + 'nanosec'
        if name.endswith('sec') and pair in self.heads:
            seconds, rest = self._ticks(name, cells, 9), self._ticks(pair, self._column(pair), 0)
            return seconds + rest, f'time {name} and {pair}', [name, pair]
        unit = self._mapping.get('time_unit') or _unit_of_time(name)
        if unit and unit not in UNITS_OF_TIME:
            known = f'give one of {", ".join(UNITS_OF_TIME)}'
            raise ConfigurationError('time_unit', f'is {unit!r}', known)
        ticks = self._ticks(name, cells, 9 + UNITS_OF_TIME[unit or 's'])
        step = np.median(np.diff(ticks)) / NANO if len(ticks) > 1 else 0.0
        if not unit and step > _STEP:
            raise self._error(f'column {name!r} advances by {step:g}: in which time_unit?')
        return ticks, f'time {name} in {unit or "s"}', [name]

    def _ticks(self, name: str, cells: Sequence[str], exponent: int) -> Array:
        """Return a column of times, shape (N,), ns, exactly."""
        ticks = np.empty(len(cells), dtype=np.int64)
        for k, cell in enumerate(cells):
            try:
                time = Decimal(cell.replace(',', '.')).scaleb(exponent)
                ticks[k] = int(time.to_integral_value())
            except (ArithmeticError, ValueError) as error:
                problem = f'line {self._lines[k]}, column {name!r}: {cell!r} is no time'
                remedy = 'give numbers, or dates such as 2026-01-31T12:00:00.002; or remove it'
                if others := [head for head in self._clocks() if head != name]:
                    remedy += f'; or give time in a YAML file: {", ".join(others)}'
                raise RecordingError(self.culprit, problem, remedy) from error
        return ticks


def _brief(heads: Sequence[str]) -> str:
    """Return names of columns as text; of more than three that only count, first and last."""
    runs = [list(x) for _, x in groupby(heads, lambda head: re.sub(r'\d+', '#', head))]
    return ', '.join(f'{x[0]} to {x[-1]}' if len(x) > _MANY else ', '.join(x) for x in runs)


def _unit_of_time(name: str) -> str:
    """Return the unit of times in the name of their column; empty if it has none."""
    for unit in UNITS_OF_TIME:
        if re.search(rf'[\s_(\[]{unit}(?:ec)?[)\]]?$', name.lower()):
            return unit
    return _UNIT_OF_TIME.get(name, '')


def _dates(cells: Sequence[str]) -> Array | None:
    """Return ISO dates as times since 1970, shape (N,), ns; None if they are none."""
    if not all(re.match(r'\d{4}-\d\d-\d\d[T ]\d\d:', cell) for cell in cells):
        return None
    bare = [re.sub(r'(?:Z|[+-]\d\d:?\d\d)$', '', x).replace(',', '.') for x in cells]
    try:
        return np.array(bare, dtype='datetime64[ns]').astype(np.int64)
    except ValueError:
        return None
