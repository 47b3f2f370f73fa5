# SPDX-License-Identifier: Apache-2.0
"""Terminal output of reports and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.recordings.metrics.metric import ThresholdResult, flat_figures
from robot_dynamics_ros.recordings.report.toolkit import Report, ReportTable

_STYLES = {
    'error': 'bold red',
    'warning': 'yellow',
    'ok': 'green',
}
_WIDTH_IN_FILES = 150


def wide_console() -> Console:
    """Return a console, 150 columns wide if the output is not a terminal."""
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH_IN_FILES
    return console


def print_lines(style: str, word: str, texts: Iterable[str]) -> None:
    """Print texts, one line each, after a styled word."""
    for text in texts:
        line = f'[{style}]{word}[/] {escape(text)}'
        wide_console().print(line, highlight=False, soft_wrap=True)


def print_findings(findings: Iterable[Finding]) -> None:
    """Print findings on a recording, a model or a driver profile, one line each."""
    for finding in findings:
        severity = finding.severity
        print_lines(_STYLES[severity], f'{severity:>5}', [str(finding)])


def print_table(table: ReportTable) -> None:
    """Print a table."""
    shown = Table(title=escape(table.title) or None, title_justify='left')
    for place, heading in enumerate(table.head):
        shown.add_column(escape(heading), justify='right' if place else 'left', overflow='fold')
    for row in table.rows:
        shown.add_row(*map(escape, row))
    wide_console().print(shown)


def print_report(report: Report, output: Path) -> None:
    """Print a report without its plots, and the output folder."""
    console = wide_console()
    console.print(escape(report.lead), highlight=False, soft_wrap=True)
    print_findings(report.findings)
    for table in report.tables:
        print_table(table)
    for part in report.below:
        if isinstance(part, ReportTable):
            print_table(part)
        else:
            console.print(escape(part.title), style='italic')
            print_lines('dim', '    –', part.lines)
    print_lines('dim', ' next', report.steps)
    print_lines('dim', ' note', report.notes)
    console.print(f'results: {escape(str(output))}', highlight=False)


def print_thresholds(results: Iterable[ThresholdResult], where: str = '') -> None:
    """Print the violated thresholds, one line each."""
    passed = [f'{where}{result}' for result in results if not result.holds]
    print_lines('red', 'threshold', passed)


def print_figures(figures: Mapping[str, Any], joints: Sequence[str]) -> None:
    """Print the names of the metrics that can have a threshold, one per line."""
    names = flat_figures(figures, joints)
    wide_console().print('\n'.join(escape(name) for name in names), highlight=False)
