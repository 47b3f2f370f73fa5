# SPDX-License-Identifier: Apache-2.0
"""Tables of other loggers: which column is what, by its name or by a YAML file.

A table has one row per state; see ``column_names`` for the names of its columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
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
    Column,
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
    joints = tuple(mapping.get('joints') or map(sheet.joint, position))
    if len(joints) != len(position):
        problem = f'has {len(position)} columns of position: {", ".join(position)}'
        raise RecordingError(sheet.culprit, problem, f'joints names {len(joints)}')
    values, units = dict[str, Array](), dict[str, dict[str, str]]()
    for key, heads in columns.items():
        declared, sizes = sheet.units(key, heads, position), SIZES[QUANTITIES[key]]
        values[key] = sheet.numbers(heads) * [sizes.get(unit, 1.0) for unit in declared]
        units[key] = {joint: x for joint, x in zip(joints, declared, strict=True) if x}
    time_ns, clock, times = sheet.times()
    shown = [f'{key} {_brief(heads)}' for key, heads in columns.items()]
    notes = [f'columns: {"; ".join([clock, *shown])}', *sheet.notes]
    read = {*times, *chain(*columns.values())}
    if unread := [head for head in sheet.heads if head not in read]:
        notes.append(f'columns that are not read: {_brief(unread)}')
    efforts = dict(zip(joints, columns.get('effort', ()), strict=False))
    own = units.get('effort', {})
    if currents := [efforts[joint] for joint, x in own.items() if x in MOTOR_EFFORT_UNITS]:
        notes.append(
            f'{_brief(currents)}: efforts of the motors; their unit, torque_constant and '
            'gear_ratio are given by a driver profile (--driver-profile)'
        )
    return Table(time_ns, joints, values, notes, units)


def _mapping(path: Path) -> dict[str, Any]:
    section = Section(f'file {path.name!r}', read_yaml(path, 'table'))

    def columns(place: str, value: Any) -> list[str]:
        return names(place, value) if isinstance(value, list) else [text(place, value)]

    keys = (*(f'{quantity}_unit' for quantity in SIZES), *QUANTITIES)
    readers: dict[str, Any] = {'time': text, 'time_unit': text, 'rate': positive, 'joints': names}
    readers |= dict.fromkeys(keys, columns)
    taken: dict[str, Any] = {'table': section.take('table', text)}
    taken |= {key: section.optional(key, read) for key, read in readers.items()}
    section.close()
    return {key: value for key, value in taken.items() if value is not None}


class _Sheet:
    """The cells of a table by column, and what the columns are.

    Args:
        path: The table.
        mapping: Content of its YAML file.
    """

    def __init__(self, path: Path, mapping: Mapping[str, Any]) -> None:
        self.culprit, self._mapping = f'table {str(path)!r}', mapping
        self.heads, self._lines, self._cells, self.notes = read_cells(path)
        self._parsed = {x: parse(x) or Column('', '', split(x)[1], 0) for x in self.heads}

    def columns(self) -> dict[str, list[str]]:
        """Return the columns of every key, in the order of those of position.

        Raises:
            RecordingError: They are missing or ambiguous.
        """
        found, position = dict[str, list[str]](), next(self._options('position'), {})
        if not position:
            raise self._error(f'has no columns of positions; its columns: {", ".join(self.heads)}')
        for key in QUANTITIES:
            groups = list(self._options(key))
            whole = [x for x in groups if position.keys() <= x.keys()]
            by_order = {key, 'position'} & self._mapping.keys()
            if by_order and not whole and groups and len(groups[0]) == len(position):
                whole = [dict(zip(position, groups[0].values(), strict=True))]
            meant = whole or [  # incomplete, unless it is of something else
                x
                for x in groups
                if key in by_order or len(x) == len(position) or x.keys() & position.keys()
            ]
            for group in meant[:1]:
                if wrong := [joint for joint in position if len(group.get(joint, ())) != 1]:
                    joints = ', '.join(self.joint(position[joint][0]) for joint in wrong)
                    problem = f'has no single column of {key} for {joints} among '
                    raise self._error(problem + ', '.join(chain(*group.values())))
                found[key] = [group[joint][0] for joint in position]
        return found

    def _error(self, problem: str) -> RecordingError:
        return RecordingError(self.culprit, problem, _REMEDY)

    def _options(self, key: str) -> Iterator[_Group]:
        """Yield the columns that may be those of a key, preferred ones first."""
        own = self._mapping.get(key, ())
        if missing := [head for head in own if head not in self.heads]:
            problem = f'has no column {missing[0]!r} for {key}; its columns: '
            remedy = f'correct {key}, list all columns'
            raise RecordingError(self.culprit, problem + ', '.join(self.heads), remedy)
        if own:
            labels = [self._parsed[head].label for head in own]
            some = labels if len({*labels}) == len(own) else map(str, range(len(own)))
            yield {joint: [head] for joint, head in zip(some, own, strict=True)}
            return
        named = [(x, head) for head, x in self._parsed.items() if x.key == key]
        for rank in sorted({x.rank for x, _ in named}):
            group: _Group = {}
            for column, head in named:
                if column.rank == rank:
                    group.setdefault(column.label, []).append(head)
            yield group

    def joint(self, head: str) -> str:
        """Return the name of the joint of a column; that of the column if it has only a number."""
        joint = self._parsed[head].joint
        return joint if joint and not joint.isdigit() else split(head)[0]

    def _column(
        self, head: str, convert: Callable[[str], Any], what: str = 'number', hint: str = ''
    ) -> Array:
        """Return a column, shape (N,); an error names the cell that cannot be converted."""
        if what == 'number' and self.heads.count(head) > 1:
            problem = f'has {self.heads.count(head)} columns {head!r}'
            raise RecordingError(self.culprit, problem, 'give each a name of its own')
        values = []
        for line, cell in zip(self._lines, self._of(head), strict=True):
            try:
                values.append(convert(cell.replace(',', '.')))
            except (ArithmeticError, ValueError):
                problem = f'line {line}, column {head!r}: {cell!r} is no {what}'
                remedy = 'correct or remove that line, or give each joint a column of its own'
                raise RecordingError(self.culprit, problem, hint or remedy) from None
        return np.array(values)

    def _of(self, head: str) -> Sequence[str]:
        return self._cells[self.heads.index(head)]

    def numbers(self, heads: Sequence[str]) -> Array:
        """Return columns as numbers, shape (N, len(heads)); NaN where a cell is empty."""
        return np.column_stack([self._column(x, lambda cell: float(cell or 'nan')) for x in heads])

    def units(self, key: str, heads: Sequence[str], position: Sequence[str]) -> list[str]:
        """Return the units of columns; empty: as recorded.

        A unit in the YAML file comes first, then that in the column's name, or A if it names
        currents, then that of the columns of position (for velocities per s).
        """
        quantity, found = QUANTITIES[key], list[str]()
        given = self._mapping.get(f'{quantity}_unit') or ['']
        others = self._mapping.get('position_unit') or [self._parsed[x].unit for x in position]
        given, others = (len(heads) * x if len(x) == 1 else x for x in (given, others))
        if not len(given) == len(others) == len(heads):
            problem = f'has {max(len(given), len(others))} units, {len(heads)} columns'
            raise ConfigurationError(f'{quantity}_unit', problem, 'give one, or one for each')
        for head, unit, other in zip(heads, given, others, strict=True):
            unit = unit or self._parsed[head].unit or (other if quantity != 'effort' else '')
            if quantity == 'velocity' and unit in POSITION_UNITS:  # dq1_deg: per s is understood
                unit += '/s'
            if unit and unit not in SIZES[quantity]:
                problem = f'column {head!r}: its unit {unit!r} is none of {quantity}'
                raise RecordingError(self.culprit, problem, f'known: {", ".join(SIZES[quantity])}')
            found.append(unit)
        return found

    def times(self) -> tuple[Array, str, list[str]]:
        """Return the times of the rows, shape (N,), ns, how they were found, and from where."""
        if rate := self._mapping.get('rate'):
            steps = np.arange(1, len(self._lines) + 1)
            return np.rint(steps * (NANO / rate)).astype(np.int64), f'{rate:g} Hz', []
        clocks = self._clocks()
        name = self._mapping.get('time') or (clocks or [''])[0]
        if name not in self.heads:
            problem = f'has no column of times{f" {name!r}" if name else ""}'
            hint = '; with rate: HZ in place of time if there is none'
            raise self._error(f'{problem}{hint}: {", ".join(self.heads)}')
        if (dates := _dates(self._of(name))) is not None:
            return dates, f'time {name}, dates', [name]
        hint = 'give s, or dates such as 2026-01-31T12:00:00.002; name another unit, as in time_ms'
        if others := [head for head in clocks if head != name]:
            hint += f'; or give time in a YAML file: {", ".join(others)}'

        def ticks(head: str, power: int) -> Array:
            def exact(cell: str) -> np.int64:
                return np.int64(int(Decimal(cell).scaleb(power).to_integral_value()))

            return self._column(head, exact, 'time', hint)

        pair = name.removesuffix('sec') + 'nanosec'
        if pair in self.heads:
            return ticks(name, 9) + ticks(pair, 0), f'time {name} and {pair}', [name, pair]
        given = self._mapping.get('time_unit') or _unit_of_time(name)
        unit = given or _unit_since_1970(self._of(name)[0])
        if unit not in UNITS_OF_TIME:
            known = f'give one of {", ".join(UNITS_OF_TIME)}'
            raise ConfigurationError('time_unit', f'is {unit!r}', known)
        found = ticks(name, 9 + UNITS_OF_TIME[unit])
        step = np.median(np.diff(found)) / NANO if len(found) > 1 else 0.0
        if not given and step > _STEP:
            raise self._error(f'column {name!r} advances by {step:g} s: in which time_unit?')
        return found, f'time {name} in {unit}', [name]

    def _clocks(self) -> list[str]:
        """Return the columns named as times, or unnamed with dates, likely ones first."""
        words = {head: re.findall(r'[^\W_]+', head.lower()) for head in self.heads}
        named = [head for head, found in words.items() if found and found[0] in _TIMES]
        named += [head for head, found in words.items() if {*found} & {'time', 'stamp'}]
        named += [x for x in self.heads if x in _UNNAMED and _dates(self._of(x)[:1]) is not None]
        return list(dict.fromkeys(named))


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


def _unit_since_1970(cell: str) -> str:
    """Return the unit in which a number is a time of our days since 1970, else s."""
    with suppress(ArithmeticError):
        return {12: 'ms', 15: 'us', 18: 'ns'}.get(Decimal(cell).adjusted(), 's')
    return 's'


def _dates(cells: Sequence[str]) -> Array | None:
    """Return ISO dates as times since 1970, shape (N,), ns; None if they are none."""
    if not all(re.match(r'\d{4}-\d\d-\d\d[T ]\d\d:', cell) for cell in cells):
        return None
    bare = [re.sub(r'(?:Z|[+-]\d\d:?\d\d)$', '', x).replace(',', '.') for x in cells]
    try:
        return np.array(bare, dtype='datetime64[ns]').astype(np.int64)
    except ValueError:
        return None
