# SPDX-License-Identifier: Apache-2.0
"""What command identify writes and prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from robot_dynamics_ros.analysis.identification.correction import corrected_urdf, parameter_patch
from robot_dynamics_ros.analysis.identification.document import (
    Row,
    as_dict,
    base_rows,
    finite,
    joint_rows,
)
from robot_dynamics_ros.analysis.identification.identify import Identification
from robot_dynamics_ros.analysis.identification.validation import Residuals, ResidualSeries
from robot_dynamics_ros.analysis.report_identification import write_identification_report

#: What is written into the output folder.
FILES = ('corrected.urdf', 'parameters.yaml', 'identification.json', 'report.html')


@dataclass(frozen=True, eq=False)
class Evidence:
    """How well the nominal and the corrected robot explain what nothing was learned from.

    Attributes:
        residuals: Of the nominal and of the corrected robot.
        series: The same of the first recording, in time.
        remarks: What else was noticed, one sentence each.
    """

    residuals: tuple[Residuals, Residuals]
    series: tuple[ResidualSeries, ResidualSeries]
    remarks: tuple[str, ...]


def write_results(
    output: Path,
    bags: Sequence[Path],
    found: Identification,
    evidence: Evidence,
    remarks: Sequence[str],
) -> None:
    """Write corrected URDF, changed values, all numbers and the report into a folder."""
    before, after = evidence.residuals
    document = as_dict(found) | {
        'bags': [str(bag) for bag in bags],
        'residuals': {'nominal': before.as_dict(), 'corrected': after.as_dict()},
        'remarks': list(remarks),
    }
    output.mkdir(parents=True, exist_ok=True)
    urdf, patch, numbers, report = (output / name for name in FILES)
    urdf.write_text(corrected_urdf(found), encoding='utf-8')
    patch.write_text(yaml.safe_dump(parameter_patch(found), sort_keys=False), encoding='utf-8')
    numbers.write_text(json.dumps(finite(document), indent=2) + '\n', encoding='utf-8')
    write_identification_report(
        report,
        f'Identification of {found.tree.name}',
        f'from {", ".join(bag.name for bag in bags)}; {remarks[0]}',
        found,
        evidence.residuals,
        evidence.series,
        remarks,
    )


def print_results(
    console: Console, found: Identification, evidence: Evidence, remarks: Sequence[str]
) -> None:
    """Print values, residuals, and what the data could not tell."""
    if not console.is_terminal:
        console.width = 150
    console.print(found.plan.choice.sentence())
    console.print(_value_table('Base parameters', base_rows(found)))
    console.print(_value_table('Drives of the corrected robot', joint_rows(found)))
    console.print(_residual_table(*evidence.residuals))
    for sentence in found.silence():
        console.print(f'not told: {sentence}', markup=False)
    for sentence in remarks:
        console.print(sentence, markup=False)


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
