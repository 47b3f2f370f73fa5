# SPDX-License-Identifier: Apache-2.0
"""What command identify writes and prints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from robot_dynamics_ros.identification.correction import (
    Row,
    as_dict,
    base_rows,
    corrected_urdf,
    joint_rows,
    parameter_text,
)
from robot_dynamics_ros.identification.identify import Identification
from robot_dynamics_ros.identification.many_bags import BagNews, Evidence
from robot_dynamics_ros.identification.report import write_identification_report
from robot_dynamics_ros.identification.validation import Residuals
from robot_dynamics_ros.recordings.bag.files import short_name
from robot_dynamics_ros.recordings.output_folder import filled, write_json

#: What is written into the output folder.
FILES = ('corrected.urdf', 'parameters.yaml', 'identification.json', 'report.html')


_MOST_BAGS = 10  # that are told of one by one in the terminal


def write_results(
    output: Path,
    found: Identification,
    evidence: Evidence,
    remarks: Sequence[str],
    bags: Sequence[BagNews],
) -> None:
    """Write corrected URDF, changed values, all numbers and the report: all of them, or none."""
    before, after = evidence.residuals
    document = as_dict(found) | {
        'bags': [bag.as_dict() for bag in bags],
        'residuals': {'nominal': before.as_dict(), 'corrected': after.as_dict()},
        'remarks': list(remarks),
    }
    learned = [short_name(Path(bag.bag)) for bag in bags if bag.learned]
    with filled(output) as folder:
        urdf, patch, numbers, report = (folder / name for name in FILES)
        urdf.write_text(corrected_urdf(found), encoding='utf-8')
        patch.write_text(parameter_text(found), encoding='utf-8')
        write_json(numbers, document)
        write_identification_report(
            report,
            f'Identification of {found.tree.name}',
            f'Learned from {_names(learned)}; {remarks[0]}.',
            found,
            evidence.residuals,
            evidence.series,
            [*remarks[1:], *bag_sentences(bags)],
        )


def _names(names: Sequence[str], most: int = 3) -> str:
    listed = ', '.join(names[:most])
    return f'{listed} and {len(names) - most} more' if len(names) > most else listed


def bag_sentences(bags: Sequence[BagNews]) -> list[str]:
    """Return what was unusual in bags: failures first, one sentence each."""
    failed = [f'failed: {bag.error}' for bag in bags if bag.error]
    notes = [f'{bag.bag}: {note}' for bag in bags for note in bag.notes if not bag.error]
    return [*failed, *notes]


def print_results(
    console: Console,
    found: Identification,
    evidence: Evidence,
    remarks: Sequence[str],
    bags: Sequence[BagNews],
) -> None:
    """Print values, residuals, what the data could not tell, and which bags failed."""
    console.print(found.plan.choice.sentence())
    console.print(_value_table('Base parameters', base_rows(found)))
    console.print(_value_table('Drives of the corrected robot', joint_rows(found)))
    console.print(_residual_table(*evidence.residuals))
    for sentence in found.silence():
        console.print(f'not told: {sentence}', markup=False)
    for sentence in remarks:
        console.print(sentence, markup=False)
    said = bag_sentences(bags)
    for sentence in said[:_MOST_BAGS]:
        console.print(sentence, markup=False)
    if len(said) > _MOST_BAGS:
        console.print(f'and {len(said) - _MOST_BAGS} more about bags: see {FILES[2]}')
    if len(bags) > 1:
        console.print(_bag_table(bags))


def _bag_table(bags: Sequence[BagNews]) -> Any:
    """Return the bags that the corrected robot explains worst."""
    judged = sorted((bag for bag in bags if bag.validated), key=_worst, reverse=True)
    bad = sum(bool(bag.error) for bag in bags)
    table = Table(
        title=f'{len(bags)} bags, {bad} failed; largest residual of a joint, of its RMS effort',
        title_justify='left',
    )
    table.add_column('bag, the worst first', overflow='fold')
    table.add_column('nominal', justify='right')
    table.add_column('corrected', justify='right')
    for bag in judged[:_MOST_BAGS]:
        table.add_row(escape(bag.bag), *(f'{_largest(part):.3g} %' for part in bag.percent))
    return table


def _worst(bag: BagNews) -> float:
    return _largest(bag.percent[1])


def _largest(percent: Sequence[float]) -> float:
    return max((p for p in percent if not math.isnan(p)), default=0.0)


def _value_table(title: str, rows: Sequence[Row]) -> Any:
    table = Table(title=title, title_justify='left')
    table.add_column('parameter', overflow='fold')
    for heading in ('nominal', 'identified', 'deviation'):
        table.add_column(heading, justify='right')
    table.add_column('unit')
    for row in rows:
        numbers = (f'{row.nominal:.6g}', f'{row.value:.6g}', f'{row.deviation:.2g}')
        table.add_row(row.name, *numbers, row.unit)
    return table


def _residual_table(before: Residuals, after: Residuals) -> Any:
    table = Table(title='Unexplained effort, RMS, N m or N', title_justify='left')
    table.add_column('joint')
    for heading in ('RMS effort', 'nominal', 'corrected', 'nominal', 'corrected'):
        table.add_column(heading, justify='right')
    for i, joint in enumerate(before.joints):
        table.add_row(
            joint,
            f'{before.rms_effort[i]:.4g}',
            f'{before.rms[i]:.4g}',
            f'{after.rms[i]:.3g}',
            f'{before.percent[i]:.4g} %',
            f'{after.percent[i]:.3g} %',
        )
    return table
