# SPDX-License-Identifier: Apache-2.0
"""Tables of other loggers: which column is what, by its name or by a YAML file.

A table has one row per state and a first line of column names; ``#`` before them is skipped. The
columns are separated by commas, semicolons (then with decimal commas, too), tabs or spaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.drivers.profile import (
    JOINT_EFFORT_UNITS,
    MOTOR_EFFORT_UNITS,
    POSITION_UNITS,
    VELOCITY_UNITS,
)
from robot_dynamics_ros.errors import ConfigurationError, RecordingError
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.yaml_reader import Section, names, positive, text
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

TABLE_SUFFIXES = ('.csv', '.tsv', '.txt')
#: Usual names of the columns (RTDE of UR, libfranka, others), without number or name of the joint.
USUAL: Mapping[str, tuple[str, ...]] = {
    'position': ('actual_q', 'q', 'position', 'positions', 'joint_position', 'pos'),
    'velocity': ('actual_qd', 'qd', 'dq', 'velocity', 'velocities', 'joint_velocity', 'vel'),
    'effort': ('tau_J', 'tau', 'effort', 'efforts', 'torque', 'joint_effort', 'target_moment'),
    'command': ('tau_J_d', 'command', 'commands', 'commanded_effort'),
    'reference_position': ('target_q', 'q_d', 'reference_position'),
    'reference_velocity': ('target_qd', 'dq_d', 'reference_velocity'),
}
_TIMES = ('time', 'timestamp', 'stamp', 't', 'duration')
_UNITS = {'s': 1.0, 'ms': 1e-3, 'us': 1e-6, 'ns': 1e-9}
_UNIT_OF_TIME = {'duration': 'ms'}  # of libfranka
_STEP = 0.5  # a longer period is no number of seconds
_JOINT = re.compile(r'[\s._/\[(-]*(.*?)[\])]?')
#: Units at the end of a column's name: in brackets, or some after a space or ``_``.
_UNIT = re.compile(
    r'(.+?)(?:[\s_]*[\[(]\s*([^\])]+?)\s*[\])]|[\s_]((?:deg|m?rad|mm)(?:/s)?|m/s|rpm|m?N[ *]?m))'
)
_SPELLED = {'°': 'deg', 'degrees': 'deg', 'radians': 'rad', '°/s': 'deg/s'}
#: Sizes of units by what is measured; units of the motor are left to the driver profile.
_SIZES: Mapping[str, Mapping[str, float]] = {
    'position': {name: size for name, (size, _) in POSITION_UNITS.items()},
    'velocity': {name: size for name, (size, _) in VELOCITY_UNITS.items()},
    'effort': {name: size for name, (size, _) in JOINT_EFFORT_UNITS.items()}
    | dict.fromkeys(MOTOR_EFFORT_UNITS, 1.0),
}


class Table(NamedTuple):
    """The rows of a table.

    Attributes:
        time_ns: Times, shape (N,), ns.
        joints: Names of the joints, those of the position's columns if they have only numbers.
        values: Columns by key of ``USUAL``, shape (N, n) each; in SI units if a unit is declared
            in the names of the columns or in the YAML file, else as recorded.
        note: Which columns are what.
    """

    time_ns: Array
    joints: tuple[str, ...]
    values: Mapping[str, Array]
    note: str


def is_table(path: Path) -> bool:
    """Return whether a file is a table, or a YAML file that maps the columns of one."""
    if path.suffix in ('.yaml', '.yml'):
        return 'table' in read_yaml(path, 'table')
    return path.suffix in TABLE_SUFFIXES


def read_table(path: Path) -> Table:
    """Read a table.

    Args:
        path: The table, or a YAML file with keys ``table`` (its path), ``time`` (a column) and
            ``time_unit``, or ``rate`` in Hz, ``joints``, for each key of ``USUAL`` the columns or
            what their names begin with, and ``position_unit``, ``velocity_unit``, ``effort_unit``.

    Raises:
        RecordingError: A column is missing or no number; names the line.
        ConfigurationError: A key of the YAML file is unknown or has a wrong value.
    """
    mapping: dict[str, Any] = {}
    if path.suffix in ('.yaml', '.yml'):
        mapping = _mapping(path)
        path = path.parent / mapping['table']
    heads, rows = _cells(path)
    reader = _TableColumns(path, heads, rows)
    columns: dict[str, dict[str, str]] = {}
    for key, usual in USUAL.items():
        columns[key] = reader.choose(key, mapping.get(key), usual)
    position = columns['position']
    if not position:
        problem = f'has no columns of positions; its columns: {", ".join(heads)}'
        raise RecordingError(f'table {str(path)!r}', problem, _remedy(path, 'position: NAME'))
    units = [_split(head)[1] for head in position.values()]
    if any(units):
        mapping['position_unit'] = units
    named = mapping.get('joints') or [
        x if x and not x.isdigit() else _split(y)[0] for x, y in position.items()
    ]
    values = {}
    for key, found in columns.items():
        if found and len(found) != len(position):
            problem = f'has {len(found)} columns of {key}, {len(position)} of position'
            raise RecordingError(f'table {str(path)!r}', problem, _remedy(path, f'{key}: [A, B]'))
        if found:
            labels = position if set(found) == set(position) else found
            chosen = [found[label] for label in labels]
            values[key] = reader.numbers(chosen) * reader.sizes(key, chosen, mapping)
    if len(named) != len(position):
        problem = f'has {len(position)} columns of position: {", ".join(position.values())}'
        raise RecordingError(f'table {str(path)!r}', problem, f'joints names {len(named)}')
    shown = [f'{key} {", ".join(x.values())}' for key, x in columns.items() if x]
    time_ns, clock = _times(path, mapping, heads, reader)
    return Table(time_ns, tuple(named), values, f'columns: {"; ".join([clock, *shown])}')


def _mapping(path: Path) -> dict[str, Any]:
    section = Section(f'file {path.name!r}', read_yaml(path, 'table'))

    def columns(place: str, value: Any) -> list[str]:
        return names(place, value) if isinstance(value, list) else [text(place, value)]

    readers = {'time': text, 'time_unit': text, 'rate': positive, 'joints': names}
    readers |= {f'{quantity}_unit': columns for quantity in _SIZES}
    taken: dict[str, Any] = {'table': section.take('table', text)}
    for key, read in {**readers, **dict.fromkeys(USUAL, columns)}.items():
        taken[key] = section.optional(key, read)
    section.close()
    return taken


def _remedy(path: Path, line: str) -> str:
    return (
        f'write a YAML file with "table: {path.name}" and "{line}", and give that file; see '
        'docs/recordings.md, "Tables of other loggers"'
    )


def _cells(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the column names, and the cells of every line with its number."""
    if not path.is_file():
        raise RecordingError(f'table {str(path)!r}', 'no such file', 'correct the key table')
    lines = path.read_text(encoding='utf-8-sig', errors='replace').splitlines()
    numbered = [(i, line.strip()) for i, line in enumerate(lines, 1) if line.strip()]
    if len(numbered) < 2:
        raise RecordingError(f'table {str(path)!r}', 'has no rows', 'give names and numbers')
    (_, first), *rest = numbered
    first = first.lstrip('#% ')
    separator = max(',;\t', key=first.count)
    split = separator if separator in first else None
    heads = [cell.strip().strip('"\'') for cell in first.split(split)]
    return heads, [(i, line.split(split)) for i, line in rest if not line.startswith(('#', '%'))]


class _TableColumns:
    """The columns of a table by name."""

    def __init__(self, path: Path, heads: list[str], rows: list[tuple[int, list[str]]]) -> None:
        self._path, self._heads, self._rows = path, heads, rows

    def choose(
        self, key: str, given: Sequence[str] | None, usual: Sequence[str]
    ) -> dict[str, str]:
        """Return the columns of a key by number or name of the joint, in the table's order."""
        if given and len(given) > 1:
            missing = [name for name in given if name not in self._heads]
            if missing:
                raise self._missing(key, missing[0])
            return {str(i): name for i, name in enumerate(given)}
        stems = list(given or usual)
        every = {stem for names in USUAL.values() for stem in names} | set(stems)
        for stem in stems:
            found = {}
            for head in self._heads:
                if _stem(head, every) == stem:
                    bare = _split(head)[0].removeprefix('state.')
                    label = _JOINT.fullmatch(bare[len(stem) :])
                    found[label[1] if label else ''] = head
            if found:
                return found
        if given:
            raise self._missing(key, given[0])
        return {}

    def numbers(self, heads: Sequence[str]) -> Array:
        """Return columns as numbers, shape (N, len(heads)); NaN where a cell is empty."""
        places = [self._heads.index(head) for head in heads]
        return np.array([[self._number(row, place) for place in places] for row in self._rows])

    def sizes(self, key: str, heads: Sequence[str], mapping: Mapping[str, Any]) -> Array:
        """Return the SI values of the units of columns, shape (len(heads),).

        A unit in a column's name comes first, then that of the YAML file; others have the unit of
        the positions (per s), or SI units.
        """
        quantity = next((x for x in _SIZES if x in key), 'effort')  # a command is an effort
        given = mapping.get(f'{quantity}_unit')
        if given is None and quantity == 'velocity':
            given = [unit and f'{unit}/s' for unit in mapping.get('position_unit') or ()]
        units = len(heads) * given if given and len(given) == 1 else given or len(heads) * ['']
        if len(units) != len(heads):
            problem = f'has {len(units)} units, {len(heads)} columns'
            raise ConfigurationError(f'{quantity}_unit', problem, 'give one, or one for each')
        return np.array([self._size(quantity, *x) for x in zip(heads, units, strict=True)])

    def _size(self, quantity: str, head: str, unit: str) -> float:
        unit = _split(head)[1] or unit
        sizes = _SIZES[quantity]
        if quantity == 'velocity' and unit in POSITION_UNITS:  # dq1_deg: per s is understood
            unit += '/s'
        if not unit or unit in sizes:
            return sizes.get(unit, 1.0)
        problem = f'column {head!r}: its unit {unit!r} is none of {quantity}'
        remedy = f'known: {", ".join(sizes)}'
        raise RecordingError(f'table {str(self._path)!r}', problem, remedy)

    def _number(self, row: tuple[int, list[str]], place: int) -> float:
        line, cells = row
        cell = cells[place].strip().strip('"') if place < len(cells) else ''
        try:
            return float(cell.replace(',', '.')) if cell else np.nan
        except ValueError:
            raise RecordingError(
                f'table {str(self._path)!r}',
                f'line {line}, column {self._heads[place]!r}: {cell!r} is no number',
                'correct or remove that line',
            ) from None

    def _missing(self, key: str, name: str) -> RecordingError:
        problem = f'has no column {name!r} for {key}; its columns: {", ".join(self._heads)}'
        return RecordingError(f'table {str(self._path)!r}', problem, f'correct {key}')


def _split(head: str) -> tuple[str, str]:
    """Return a column's name without its unit, and the unit; empty if the name has none.

    Brackets behind a number hold a unit; others a known unit, or else the joint: q[0], tau[elbow].
    """
    found = _UNIT.fullmatch(head)
    if not found:
        return head, ''
    bare, unit = found[1], re.sub(r'N[ *·]?m', 'N m', found[2] or found[3])
    unit = _SPELLED.get(unit, unit)
    known = any(unit in sizes for sizes in _SIZES.values())
    if unit.isdigit() or not (bare[-1].isdigit() or (known and (len(unit) > 1 or '.' in bare))):
        return head, ''
    return bare, unit


def _stem(head: str, stems: set[str]) -> str:
    """Return the longest stem that a column's name begins with, as a word or before a number."""
    head = head.removeprefix('state.')
    fits = [x for x in stems if re.match(rf'{re.escape(x)}\d*(?![^\W_])', head)]
    return max(fits, key=len, default='')


def _times(
    path: Path, mapping: Mapping[str, Any], heads: Sequence[str], columns: _TableColumns
) -> tuple[Array, str]:
    """Return the times of the rows, shape (N,), ns, and how they were found."""
    if rate := mapping.get('rate'):
        count = len(columns.numbers(heads[:1]))
        return np.rint(np.arange(1, count + 1) * (NANO / rate)).astype(np.int64), f'{rate:g} Hz'
    bare = {re.split(r'[\s_(\[]+', head.lower())[0]: head for head in reversed(heads)}
    name = mapping.get('time') or next((bare[x] for x in _TIMES if x in bare), '')
    if name not in heads:
        problem = f'has no column of times{f" {name!r}" if name else ""}: {", ".join(heads)}'
        raise RecordingError(f'table {str(path)!r}', problem, _remedy(path, 'rate: HZ'))
    seconds = columns.numbers([name])[:, 0]
    unit = mapping.get('time_unit') or next(
        (x for x in _UNITS if re.search(rf'[\s_(\[]{x}[)\]]?$', name.lower())),
        _UNIT_OF_TIME.get(name, ''),
    )
    if unit and unit not in _UNITS:
        raise ConfigurationError('time_unit', f'is {unit!r}', f'give one of {", ".join(_UNITS)}')
    if not np.isfinite(seconds).all():
        raise RecordingError(f'table {str(path)!r}', f'column {name!r} has gaps', 'remove them')
    if not unit and len(seconds) > 1 and np.median(np.diff(seconds)) > _STEP:
        problem = f'column {name!r} advances by {np.median(np.diff(seconds)):g}: in which unit?'
        raise RecordingError(f'table {str(path)!r}', problem, _remedy(path, 'time_unit: ms'))
    unit = unit or 's'
    whole = np.floor(seconds)
    scale = round(_UNITS[unit] * NANO)
    times = whole.astype(np.int64) * scale + np.rint((seconds - whole) * scale).astype(np.int64)
    return times, f'time {name} in {unit}'
