# SPDX-License-Identifier: Apache-2.0
"""Tables of other loggers: which column is what, by its name or by a YAML file.

A table has one row per state; see ``column_names`` for the names of its columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import chain, groupby
from os.path import commonprefix
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from robot_dynamics_ros.control.drivers.profile import MOTOR_EFFORT_UNITS, POSITION_UNITS
from robot_dynamics_ros.errors import ConfigurationError, RecordingError
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.recordings.bag.column_names import (
    KEYS,
    SIZES,
    UNITS_OF_TIME,
    parse,
    split,
)
from robot_dynamics_ros.recordings.bag.table_cells import PARQUET, read_cells
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader import Section, names, positive, text
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

TABLE_SUFFIXES = ('.csv', '.tsv', '.txt', PARQUET)
_QUANTITY = {key: quantity for quantity, keys in KEYS.items() for key in keys}
_TIMES = ('time', 'timestamp', 'stamp', 't', 'duration')
_UNNAMED = ('', 'index', '__index_level_0__')
_UNIT_OF_TIME = {'duration': 'ms'}  # of libfranka
_SINCE_1970 = 1e9  # s: later numbers are times since 1970, in a unit that their size tells
_STEP = 0.5  # a longer period is no number of seconds
_UNKNOWN = 'FILL IN'
_MANY = 3  # more columns that only count are named by the first and the last
#: Columns of a key by the label of the joint; several are ambiguous.
_Group = dict[str, list[str]]


class Table(NamedTuple):
    """The rows of a table.

    Attributes:
        time_ns: Times, shape (N,), ns.
        joints: Names of the joints, those of the position's columns if they have only numbers.
        values: Columns by key, see ``KEYS``, shape (N, n) each; in SI units if a unit is declared
            in the names of the columns or in the YAML file, else as recorded.
        notes: Which columns are what, and which are not read.
        units: The declared unit by key, of the first joint; those of motors are left to a driver
            profile.
    """

    time_ns: Array
    joints: tuple[str, ...]
    values: Mapping[str, Array]
    notes: list[str]
    units: Mapping[str, str]


def is_table(path: Path) -> bool:
    """Return whether a file is a table, or a YAML file that maps the columns of one."""
    if path.suffix in ('.yaml', '.yml'):
        return 'table' in read_yaml(path, 'table')
    return path.suffix.lower() in TABLE_SUFFIXES


def read_table(path: Path) -> Table:
    """Read a table.

    Args:
        path: The table, or a YAML file with keys ``table`` (its path), ``time`` (a column) and
            ``time_unit``, or ``rate`` in Hz, ``joints``, for each key of ``KEYS`` the columns or
            what their names begin with, and ``position_unit``, ``velocity_unit``, ``effort_unit``.

    Raises:
        RecordingError: A column is missing, ambiguous or no number; names it, or the line, and
            gives a YAML file for this table.
        ConfigurationError: A key of the YAML file is unknown or has a wrong value.
        MissingDependencyError: A Parquet file was given and pyarrow is not installed.
    """
    mapping: dict[str, Any] = {}
    if path.suffix in ('.yaml', '.yml'):
        mapping = _mapping(path)
        path = path.parent / mapping['table']
    sheet = _Sheet(path, mapping)
    columns = sheet.columns()
    position = columns['position']
    if any(of_positions := [split(head)[1] for head in position]):
        mapping.setdefault('position_unit', of_positions)
    named = mapping.get('joints') or [sheet.joint(head) for head in position]
    if len(named) != len(position):
        problem = f'has {len(position)} columns of position: {", ".join(position)}'
        raise RecordingError(sheet.culprit, problem, f'joints names {len(named)}')
    declared = {key: sheet.units(key, heads, mapping) for key, heads in columns.items()}
    values = {key: sheet.numbers(heads) * _sizes(key, declared[key])
              for key, heads in columns.items()}  # fmt: skip
    units = {key: unit for key, (unit, *_) in declared.items() if unit}
    time_ns, clock, times = sheet.times()
    shown = [f'{key} {_brief(heads)}' for key, heads in columns.items()]
    notes = [f'columns: {"; ".join([clock, *shown])}']
    read = {*times, *chain(*columns.values())}
    if unread := [head for head in sheet.heads if head not in read]:
        notes.append(f'columns that are not read: {_brief(unread)}')
    for key in ('effort', 'command'):
        if any(map(sheet.is_current, columns.get(key, ()))):
            units.setdefault(key, 'A')
    currents = [head for head in columns.get('effort', ()) if sheet.is_current(head)]
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
    for key, read in {**readers, **dict.fromkeys(_QUANTITY, columns)}.items():
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
        self.heads, self._lines, self._cells = read_cells(path)
        self._parsed = {head: column for head in self.heads if (column := parse(head))}

    def columns(self) -> dict[str, list[str]]:
        """Return the columns of every key, in the order of those of position.

        Raises:
            RecordingError: They are missing or ambiguous.
        """
        options = {key: list(self._options(key)) for key in _QUANTITY}
        others = [set(group) for key in ('velocity', 'effort') for group in options[key]]
        positions = options['position']
        matched = (x for x in positions if any(set(x) <= labels for labels in others))
        position = next(matched, positions[0] if positions else {})
        found: dict[str, _Group] = {'position': position}
        for key, groups in options.items():
            if key == 'position' or not groups:
                continue
            group = next((x for x in groups if set(position) <= set(x)), None)
            by_order = self._listed(key) or self._listed('position')
            if group is None and by_order and len(groups[0]) == len(position):
                group = dict(zip(position, groups[0].values(), strict=True))
            if group is None and key in self._mapping:
                group = _alike(groups[0], position)
            group = _likely(groups, position) if group is None else group
            found |= {} if group is None else {key: group}
        self._require(found)
        return {key: [group[label][0] for label in position] for key, group in found.items()}

    def _require(self, found: Mapping[str, _Group]) -> None:
        """Refuse missing and ambiguous columns; the remedy is a YAML file for this table."""
        position, problem = found['position'], ''
        groups = found.values()
        common = [label for label in position if all(label in group for group in groups)]
        if not position:
            problem = f'has no columns of positions; its columns: {", ".join(self.heads)}'
        for key, group in found.items():
            missing = [label for label in position if label not in group]
            if missing and not problem:
                joints = ', '.join(self.joint(position[label][0]) for label in missing)
                have = ', '.join(heads[0] for heads in group.values())
                problem = f'has no column of {key} for {joints}, only {have}'
            several = [heads for label in common if len(heads := group[label]) > 1]
            if several and not problem:
                problem = f'has several columns of {key} for one joint: {", ".join(several[0])}'
        if problem:
            if not position or len({*map(len, groups)}) == 1:
                columns = {key: [x[0] for x in group.values()] for key, group in found.items()}
            else:
                columns = {key: [x[label][0] for label in common] for key, x in found.items()}
            raise RecordingError(self.culprit, problem, self._remedy(columns))

    def _remedy(self, columns: Mapping[str, list[str]], **more: Any) -> str:
        """Return a remedy with a YAML file for this table, as far as it is known."""
        position = columns.get('position')
        unclear = {*self.heads} - {*self._parsed, self._time()}
        content: dict[str, Any] = {'table': self._path.name, 'time': self._time() or _UNKNOWN}
        if not self._time():
            content['time_unit'] = _UNKNOWN
        if not position:
            content |= {'joints': _UNKNOWN, 'position_unit': _UNKNOWN}
        elif not all(head in self._parsed for head in position):
            content['joints'] = [_UNKNOWN] * len(position)
        else:
            content['joints'] = [self.joint(head) for head in position]
        for key in SIZES:
            if columns.get(key) or unclear:
                content[key] = columns.get(key) or _UNKNOWN
        content |= {**{key: x for key, x in columns.items() if x}, **self._mapping, **more}
        line = yaml.safe_dump(content, default_flow_style=True, sort_keys=False, width=10**6)
        where = 'see docs/recordings.md, "Tables of other loggers"'
        return f'write a YAML file beside it ({where}), and give that file: {line.strip()}'

    def _listed(self, key: str) -> bool:
        """Return whether the YAML file lists the columns of a key."""
        return key in self._mapping and set(self._mapping[key]) <= set(self.heads)

    def _options(self, key: str) -> Iterator[_Group]:
        """Yield the columns that may be those of a key, preferred ones first."""
        given = self._mapping.get(key)
        if given:
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
        """Return the columns that a YAML file lists for a key, or those that begin so."""
        if self._listed(key):
            labels = [x.label if (x := self._parsed.get(head)) else '' for head in given]
            if len({*labels}) < len(given):
                labels = [str(i) for i in range(len(given))]
            return {label: [head] for label, head in zip(labels, given, strict=True)}
        stem = re.compile(rf'(?:state\.)?{re.escape(given[0])}(?=\d*(?![^\W_]))')
        found = {head: self._parsed.get(head) for head in self.heads if stem.match(head)}
        own = [head for head, x in found.items() if x and x.key == key]
        if len(given) > 1 or not found:
            name = next(name for name in given if name not in self.heads)
            problem = f'has no column {name!r} for {key}; its columns: {", ".join(self.heads)}'
            raise RecordingError(self.culprit, problem, f'correct {key}')
        rest = {head: stem.sub('', split(head)[0]).strip(' ._/()[]-') for head in own or found}
        return {x.label if (x := found[head]) else rest[head]: [head] for head in rest}

    def joint(self, head: str) -> str:
        """Return the name of the joint of a column; that of the column if it has only a number."""
        column = self._parsed.get(head)
        named = column is not None and column.joint and not column.joint.isdigit()
        return column.joint if column and named else split(head)[0]

    def is_current(self, head: str) -> bool:
        """Return whether a column of efforts is in a unit of the motor."""
        column = self._parsed.get(head)
        given = self._mapping.get('effort_unit', [''])
        return (given[0] or (column.unit if column else '')) in MOTOR_EFFORT_UNITS

    def numbers(self, heads: Sequence[str]) -> Array:
        """Return columns as numbers, shape (N, len(heads)); NaN where a cell is empty."""
        return np.column_stack([self._numbers(head) for head in heads])

    def _numbers(self, head: str) -> Array:
        if self.heads.count(head) > 1:
            problem = f'has {self.heads.count(head)} columns {head!r}'
            raise RecordingError(self.culprit, problem, 'give each a name of its own')
        cells = [x.replace(',', '.') or 'nan' for x in self._cells[self.heads.index(head)]]
        try:
            return np.array(cells).astype(float)
        except ValueError:
            for line, cell in zip(self._lines, cells, strict=True):
                try:
                    float(cell)
                except ValueError:
                    problem = f'line {line}, column {head!r}: {cell!r} is no number'
                    listed = re.search(r'\d[\s,;]', cell) is not None
                    remedy = (
                        'give each joint a column of its own'
                        if listed
                        else 'correct or remove that line'
                    )
                    raise RecordingError(self.culprit, problem, remedy) from None
            raise

    def units(self, key: str, heads: Sequence[str], mapping: Mapping[str, Any]) -> list[str]:
        """Return the units of columns; empty: as recorded.

        A unit in the YAML file comes first, then that in the column's name, then, for velocities,
        that of the positions (per s).
        """
        quantity = _QUANTITY[key]
        given = mapping.get(f'{quantity}_unit') or ['']
        others = [''] if quantity != 'velocity' else [
            unit and f'{unit}/s' for unit in mapping.get('position_unit') or ['']
        ]  # fmt: skip
        given, others = (len(heads) * x if len(x) == 1 else x for x in (given, others))
        if len(given) != len(heads) or len(others) != len(heads):
            problem = f'has {max(len(given), len(others))} units, {len(heads)} columns'
            raise ConfigurationError(f'{quantity}_unit', problem, 'give one, or one for each')
        found = zip(heads, given, others, strict=True)
        return [self._unit(quantity, x, own or split(x)[1] or other) for x, own, other in found]

    def _unit(self, quantity: str, head: str, unit: str) -> str:
        sizes = SIZES[quantity]
        if quantity == 'velocity' and unit in POSITION_UNITS:  # dq1_deg: per s is understood
            unit += '/s'
        if not unit or unit in sizes:
            return unit
        problem = f'column {head!r}: its unit {unit!r} is none of {quantity}'
        raise RecordingError(self.culprit, problem, f'known: {", ".join(sizes)}')

    def _time(self) -> str:
        """Return the column of times: that of the YAML file, or the likeliest; else empty."""
        return self._mapping.get('time') or next(iter(self._clocks()), '')

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
        name = self._time()
        columns = {key: [head for head, x in self._parsed.items() if x.key == key]
                   for key in SIZES}  # fmt: skip
        if name not in self.heads:
            problem = f'has no column of times{f" {name!r}" if name else ""}'
            remedy = f'{self._remedy(columns)} (with rate: HZ in place of time if there is none)'
            raise RecordingError(self.culprit, f'{problem}: {", ".join(self.heads)}', remedy)
        cells = self._column(name)
        if (dates := _dates(cells)) is not None:
            return dates, f'time {name}, dates', [name]
        pair = name.removesuffix('sec') + 'nanosec'
        if name.endswith('sec') and pair in self.heads:
            seconds, rest = self._ticks(name, cells), self._ticks(pair, self._column(pair))
            times = [round(a * NANO + b) for a, b in zip(seconds, rest, strict=True)]
            return np.array(times, dtype=np.int64), f'time {name} and {pair}', [name, pair]
        ticks = self._ticks(name, cells)
        unit = self._mapping.get('time_unit') or _unit_of_time(name, float(ticks[0]))
        if unit and unit not in UNITS_OF_TIME:
            known = f'give one of {", ".join(UNITS_OF_TIME)}'
            raise ConfigurationError('time_unit', f'is {unit!r}', known)
        step = np.median(np.diff(np.array(ticks, dtype=float))) if len(ticks) > 1 else 0.0
        if not unit and step > _STEP:
            problem = f'column {name!r} advances by {step:g}: in which unit?'
            raise RecordingError(self.culprit, problem, self._remedy(columns, time_unit=_UNKNOWN))
        unit = unit or 's'
        times = [int(x.scaleb(9 + UNITS_OF_TIME[unit]).to_integral_value()) for x in ticks]
        return np.array(times, dtype=np.int64), f'time {name} in {unit}', [name]

    def _ticks(self, name: str, cells: Sequence[str]) -> list[Decimal]:
        """Return a column of times, exactly."""
        ticks = []
        for line, cell in zip(self._lines, cells, strict=True):
            try:
                ticks.append(Decimal(cell.replace(',', '.')))
            except InvalidOperation:
                ticks.append(Decimal('nan'))
            if not ticks[-1].is_finite():
                problem = f'line {line}, column {name!r}: {cell!r} is no time'
                remedy = 'give numbers, or dates such as 2026-01-31T12:00:00.002; or remove it'
                if others := [head for head in self._clocks() if head != name]:
                    remedy += f'; or give time in a YAML file: {", ".join(others)}'
                raise RecordingError(self.culprit, problem, remedy)
        return ticks


def _brief(heads: Sequence[str]) -> str:
    """Return names of columns as text; of more than three that only count, first and last."""
    runs = [list(x) for _, x in groupby(heads, lambda head: re.sub(r'\d+', '#', head))]
    return ', '.join(f'{x[0]} to {x[-1]}' if len(x) > _MANY else ', '.join(x) for x in runs)


def _sizes(key: str, units: Sequence[str]) -> Array:
    """Return the SI values of units, shape (len(units),); 1 for those that are not declared."""
    return np.array([SIZES[_QUANTITY[key]].get(unit, 1.0) for unit in units])


def _alike(group: _Group, position: _Group) -> _Group:
    """Return a group with the labels of position, if only what all labels begin with differs."""
    own, wanted = ({x.removeprefix(commonprefix([*labels])): x for x in labels}
                   for labels in (group, position))  # fmt: skip
    if not wanted.keys() <= own.keys():
        return group
    return {label: group[own[rest]] for rest, label in wanted.items()}


def _likely(groups: Sequence[_Group], position: _Group) -> _Group | None:
    """Return columns that belong to some of the joints, or to as many that are counted."""
    for group in groups if position else groups[:1]:
        counted = len(group) == len(position) and all(map(str.isdigit, group))
        if counted or not position or set(group) & set(position):
            return group
    return None


def _unit_of_time(name: str, first: float) -> str:
    """Return the unit of times by the name of their column or by their size, or empty."""
    for unit in UNITS_OF_TIME:
        if re.search(rf'[\s_(\[]{unit}(?:ec)?[)\]]?$', name.lower()):
            return unit
    since_1970 = (
        x for x, power in UNITS_OF_TIME.items() if 1 <= first * 10**power / _SINCE_1970 < 10
    )
    return _UNIT_OF_TIME.get(name, next(since_1970, ''))


def _dates(cells: Sequence[str]) -> Array | None:
    """Return ISO dates as times since 1970, shape (N,), ns; None if they are none."""
    if not all(re.match(r'\d{4}-\d\d-\d\d[T ]\d\d:', cell) for cell in cells):
        return None
    bare = [re.sub(r'(?:Z|[+-]\d\d:?\d\d)$', '', x).replace(',', '.') for x in cells]
    try:
        return np.array(bare, dtype='datetime64[ns]').astype(np.int64)
    except ValueError:
        return None
