# SPDX-License-Identifier: Apache-2.0
"""Cells of tables: text of any separator and encoding.

The names of the columns are in the last line before the first row of numbers that has as many
cells; ``#`` before them, and all other lines above, are skipped. Columns are separated by
semicolons (then with decimal commas, too), tabs, commas or spaces. A row that ends earlier than
most may end within a number: it is left out, with a note.
"""

from __future__ import annotations

import csv
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from statistics import mode

from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.parameters import counted
from robot_dynamics_ros.recordings.bag.column_names import is_unit

_COMMENT = ('#', '%')
_LAST = 3  # lines whose separator is that of the table: one may end early
_NUMBER = re.compile(r'[+-]?(?:[.,]?\d[\d.,]*(?:e[+-]?\d+)?|nan|inf)', re.I)
_REMEDY = (
    'give text with a line of names, and rows of numbers below, separated by semicolons, '
    'tabs, commas or spaces; a spreadsheet exports it as CSV'
)


def read_cells(path: Path) -> tuple[list[str], list[int], list[tuple[str, ...]], list[str]]:
    """Return the names of the columns, the line of every row, the cells by column, and notes.

    Raises:
        RecordingError: The file does not exist, has no names or no numbers, or a row has more
            cells than there are names, or all have fewer; names the line.
    """
    culprit = f'table {str(path)!r}'
    if not path.is_file():
        raise RecordingError(culprit, 'no such file', 'correct the key table')
    above, rows = list[list[str]](), dict[int, list[str]]()
    for line, comment, cells_of_line in _lines(path):
        filled = _filled(cells_of_line)
        if rows or _is_row(filled):
            rows |= {} if comment else {line: cells_of_line}
        else:
            above.append(filled)
    count = len(_filled(next(iter(rows.values()), [])))
    heads = next((x for x in reversed(above) if len(x) == count), above[-1] if above else [])
    if not (rows and heads):
        problem = f'has no {"line of names above its numbers" if rows else "row of numbers"}'
        raise RecordingError(culprit, problem, _REMEDY)
    longest, usual = max(map(len, rows.values())), mode(map(len, rows.values()))
    complete = {line: row for line, row in rows.items() if len(row) >= min(usual, len(heads))}
    for line, row in rows.items():
        if len(_filled(row)) > len(heads) or longest < len(heads):
            problem = f'line {line} has {len(row)} cells below {len(heads)} names'
            remedy = (
                'name every column; separate them by semicolons if numbers have decimal commas'
            )
            raise RecordingError(culprit, problem, remedy)
    notes = list[str]()
    if early := [line for line in rows if line not in complete]:
        many, short = counted(len(early), 'row'), counted(len(rows[early[0]]), 'cell')
        notes.append(
            f'{many} left out that end early, the first in line {early[0]}: '
            f'{short} below {len(heads)} names'
        )
    k = above.index(heads)
    if k and len(above[k - 1]) == count and all(map(is_unit, heads)):
        heads = [f'{a} [{b}]' if b else a for a, b in zip(above[k - 1], heads, strict=True)]
    columns = [*zip_longest(*complete.values(), fillvalue='')][: len(heads)]
    return heads, list(complete), columns, notes


def _lines(path: Path) -> Iterator[tuple[int, bool, list[str]]]:
    """Yield the number of each line with text, whether it is a comment, and its cells."""
    data = path.read_bytes()
    marked = 'utf-16' if data[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) else 'utf-8-sig'
    wide = {data[:1]: 'utf-16-be', data[1:2]: 'utf-16-le'}.get(b'\0', marked)  # without a mark
    try:
        content = data.decode(wide)
    except UnicodeDecodeError:
        content = data.decode('cp1252', errors='replace')  # of Excel
    lines = [line.strip(' \r\0') for line in content.splitlines()]  # zeros: of a lost block
    last = [x for x in reversed(lines) if x.strip() and not x.startswith(_COMMENT)][:_LAST]
    separator = mode(next((x for x in ';\t,' if x in line), ' ') for line in last or [''])
    for number, line in enumerate(lines, 1):
        bare = line.lstrip('#% ')
        if separator == ' ':
            bare = ' '.join(bare.split())
        if not bare.strip():
            continue
        try:
            (cells,) = csv.reader([bare], delimiter=separator, skipinitialspace=True)
        except csv.Error as error:  # a text without columns, as of another format
            raise RecordingError(
                f'table {str(path)!r}', f'line {number}: {error}', _REMEDY
            ) from error
        yield number, line.startswith(_COMMENT), [cell.strip() for cell in cells]


def _filled(cells: list[str]) -> list[str]:
    """Return the cells of a line without empty ones at its end, but at least one."""
    return cells[: max((i for i, cell in enumerate(cells, 1) if cell), default=1)]


def _is_row(cells: Sequence[str]) -> bool:
    """Return whether cells are a row of a table: at least half of them are numbers."""
    return 2 * sum(bool(_NUMBER.fullmatch(cell)) for cell in cells) >= len(cells)
