# SPDX-License-Identifier: Apache-2.0
"""Tables of analyzed recordings for the terminal and as CSV."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from robot_dynamics_ros.recordings.metrics.bag_analysis import BagResult
from robot_dynamics_ros.recordings.metrics.metric import MetricRemark

_STYLES = {'wrong': 'bold red', 'look': 'yellow', 'good': 'green'}

_WIDTH_IN_FILES = 150

#: Columns of the summary of many bags, and their headings.
SUMMARY = {
    'bag': 'bag',
    'duration_s': 's',
    'states': 'states',
    'rate_hz': 'Hz',
    'tool_rms_mm': 'tool RMS\nmm',
    'tool_peak_mm': 'tool peak\nmm',
    'residual_share': 'unexplained\nworst joint, %',
    'saturated': 'saturated\nticks',
    'gaps': 'gaps',
    'thresholds': 'thresholds',
    'findings': 'findings',
}


def wide_console() -> Console:
    """Return a console; where the output is no terminal it is wide enough for the tables."""
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH_IN_FILES
    return console


def print_findings(console: Console, findings: Sequence[MetricRemark]) -> None:
    """Print findings, one line each."""
    for finding in findings:
        style = _STYLES[finding.severity]
        text = f'[{style}]{finding.severity:>5}[/] {escape(finding.text)}'
        console.print(text, highlight=False, soft_wrap=True)


def joint_table(result: BagResult) -> Table:
    """Return the figures of every joint."""
    tracking, effort = result.figures['tracking'], result.figures['effort']
    limits = result.figures['limits']
    table = Table(title='rad, m, N m, N', title_justify='left')
    table.add_column('joint')
    for heading in (
        'RMS error', 'peak error', 'RMS effort', 'RMS residual', 'unexplained', 'peak effort',
        'of limit', 'saturated',
    ):  # fmt: skip
        table.add_column(heading, justify='right')
    for i, joint in enumerate(result.joints):
        saturated = limits['saturated_ticks']
        table.add_row(
            escape(joint),
            _number(tracking, 'rms_error', i),
            _number(tracking, 'peak_error', i),
            _number(effort, 'effort_rms', i),
            _number(effort, 'residual_rms', i),
            _percent(effort, 'residual_share', i),
            _number(limits, 'effort_peak', i),
            _percent(limits, 'effort_share', i),
            str(saturated[i]) if saturated else '-',
        )
    return table


def program_table(program: Mapping[str, Any]) -> Table:
    """Return how far each row of a constraint program was from zero."""
    table = Table(
        title=f'program {escape(program["program"])}: f in m or rad', title_justify='left'
    )
    table.add_column('row of f')
    for heading in ('RMS', 'peak', 'at, s'):
        table.add_column(heading, justify='right')
    for i, row in enumerate(program['rows']):
        cells = (program['rms'][i], program['peak'][i], program['peak_at'][i])
        table.add_row(escape(row), *(f'{value:.4g}' for value in cells))
    return table


def summary_rows(results: Sequence[BagResult]) -> list[dict[str, Any]]:
    """Return a row of figures for each bag."""
    return [_summary_row(result) for result in results]


def _summary_row(result: BagResult) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(SUMMARY, math.nan)
    row |= {'bag': result.bag, 'thresholds': '', 'findings': 'failed' if result.error else ''}
    if result.error:
        return row
    figures = result.figures
    tracking, effort = figures['tracking'], figures['effort']
    shares = [x for x in effort.get('residual_share', ()) if not math.isnan(x)]
    failed = [str(verdict) for verdict in result.verdicts if not verdict.holds]
    return row | {
        **{key: figures['rates'][key] for key in ('duration_s', 'states', 'rate_hz', 'gaps')},
        **{key: tracking.get(key, math.nan) for key in ('tool_rms_mm', 'tool_peak_mm')},
        'residual_share': 100.0 * max(shares) if shares else math.nan,
        'saturated': figures['limits']['ticks_with_saturation'],
        'thresholds': '; '.join(failed) or ('kept' if result.verdicts else ''),
        'findings': _counted(result.findings),
    }


def _counted(findings: Sequence[MetricRemark]) -> str:
    counts = {severity: 0 for severity in _STYLES}
    for finding in findings:
        counts[finding.severity] += 1
    return ', '.join(f'{count} {severity}' for severity, count in counts.items() if count)


def summary_table(results: Sequence[BagResult]) -> Table:
    """Return the summary of many bags."""
    table = Table()
    for key, heading in SUMMARY.items():
        words = key in ('bag', 'thresholds', 'findings')
        table.add_column(heading, justify='left' if words else 'right', overflow='fold')
    for result, row in zip(results, summary_rows(results), strict=True):
        style = 'red' if result.error else ('yellow' if not result.passed else '')
        table.add_row(*(escape(_cell(value)) for value in row.values()), style=style)
    return table


def write_summary_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the summary of many bags."""
    with path.open('w', encoding='utf-8', newline='') as file:
        writer = csv.DictWriter(file, list(SUMMARY), lineterminator='\n')
        writer.writeheader()
        for row in rows:
            writer.writerow({k: '' if _is_nan(v) else v for k, v in row.items()})


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _cell(value: Any) -> str:
    if _is_nan(value):
        return '-'
    return f'{value:.4g}' if isinstance(value, float) else str(value)


def _number(figures: Mapping[str, Any], key: str, i: int) -> str:
    return _cell(float(figures[key][i])) if key in figures else '-'


def _percent(figures: Mapping[str, Any], key: str, i: int) -> str:
    value = float(figures[key][i]) if key in figures else math.nan
    return '-' if math.isnan(value) else f'{100.0 * value:.3g} %'
