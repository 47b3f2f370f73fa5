# SPDX-License-Identifier: Apache-2.0
"""Terminal output of reports and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.arm import arm_ends
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.recordings.metrics.metric import Threshold, flat_figures
from robot_dynamics_ros.recordings.recording import format_time
from robot_dynamics_ros.recordings.report.toolkit import Report, ReportTable

_STYLES = {
    'error': 'bold red',
    'warning': 'yellow',
    'ok': 'green',
}
_WIDTH_IN_FILES = 150
_WIDEST, _FRAME = 24, 3  # width of a cell that is not wrapped; that of a column's frame


def say(text: str, style: str = '') -> None:
    """Print a text as it is, in a style of rich if the output is a terminal."""
    Console(highlight=False, markup=False, soft_wrap=True).print(text, style=style)


def print_lines(style: str, word: str, texts: Iterable[str]) -> None:
    """Print texts, one line each, after a styled word."""
    for text in texts:
        Console(highlight=False, soft_wrap=True).print(
            f'[{style}]{escape(word)}[/] {escape(text)}'
        )


def show_arm(tree: Robot, frame: str, planned: Iterable[str]) -> None:
    """Print what was taken for the joints and the tool of an arm, and the remarks on it.

    Args:
        tree: The arm.
        frame: Its tool frame.
        planned: Remarks on its planned motion, which are printed last.
    """
    print_lines('yellow', 'remark:', tree.remarks)
    ends = arm_ends(tree)
    chains = f'; --tip takes one chain: {", ".join(ends)}' if len(ends) > 1 else ''
    say(f'joints: {", ".join(tree.joint_names)} (--joints takes others{chains})')
    say(f'tool frame: {frame} (--frame takes another)')
    print_lines('bold yellow', 'remark:', planned)


def print_findings(findings: Iterable[Finding], shown: Callable[[str], str] = str) -> None:
    """Print findings on a recording, a model or a driver profile, one line each.

    Args:
        findings: The findings.
        shown: Converts their text.
    """
    for finding in findings:
        severity = finding.severity
        print_lines(_STYLES[severity], f'{severity:>5}', [shown(str(finding))])


def print_table(table: ReportTable) -> None:
    """Print a table; one that is too wide in parts below each other, so that no number breaks."""
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH_IN_FILES
    title, widths, room = table.title, _least_widths(table), console.width
    for places in _parts(widths, room):
        shown = Table(title=escape(title) or None, title_justify='left')
        free = room - 1 - sum(widths[place] + _FRAME for place in places)
        console.width = room - min(free, 0)  # rich would cut, a terminal wraps
        for place in places:
            heading = table.head[place]
            texts = '\n'.join((heading, *(row[place] for row in table.rows)))
            longest = max(map(len, texts.splitlines()), default=0)
            more = min(longest - widths[place], max(free, 0))
            free -= more
            width = widths[place] + more  # without it rich may exceed the console, and cut
            shown.add_column(escape(heading), justify='right', overflow='fold', width=width)
        shown.columns[0].justify = 'left'
        for row in table.rows:
            shown.add_row(*(escape(row[place]) for place in places))
        console.print(shown)
        title = ''
    if table.text:
        say(table.text, 'dim')


def _least_widths(table: ReportTable) -> list[int]:
    """Return the width of each column that breaks no word of its heading and no short cell."""
    words = [heading.split() for heading in table.head]
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(words)
    return [
        min(max(map(len, (*heading, *cells)), default=0), _WIDEST)
        for heading, cells in zip(words, columns, strict=True)
    ]


def _parts(widths: Sequence[int], width: int) -> Iterator[list[int]]:
    """Yield the columns of each part that fits into a width, the first column in all of them."""
    room = width - 1 - widths[0] - _FRAME
    part, free = [0], room
    for place, one in enumerate(widths[1:], 1):
        if one + _FRAME > free and len(part) > 1:
            yield part
            part, free = [0], room
        part.append(place)
        free -= one + _FRAME
    yield part


def print_report(report: Report, output: Path) -> None:
    """Print a report without plots and what is below them, its findings last, and its folder."""
    say(report.lead)
    for table in report.tables:
        rows = [[report.since(cell) for cell in row] for row in table.rows]
        print_table(table._replace(rows=rows))
    clock = [f'times: since {format_time(report.origin)}'] if report.origin else []
    print_lines('dim', ' note', [*clock, *map(report.since, report.notes)])
    say(f'results: {output}')
    print_findings(report.findings, report.since)
    print_lines('dim', ' next', report.steps)


def print_thresholds(results: Iterable[Threshold], where: str = '') -> None:
    """Print the violated thresholds, one line each."""
    passed = [f'{where}{result}' for result in results if not result.holds]
    print_lines('red', 'threshold', passed)


def print_figures(figures: Mapping[str, Any], joints: Sequence[str]) -> None:
    """Print the names of the metrics that can have a threshold, one per line."""
    say('\n'.join(flat_figures(figures, joints)))
