# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the campaigns: random items, progress, tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from rich.progress import track

from robot_dynamics_ros.cli.tables import print_table
from robot_dynamics_ros.recordings.bag_jobs import run_jobs
from robot_dynamics_ros.recordings.report.toolkit import ReportTable

Item, Result = TypeVar('Item'), TypeVar('Result')


def drawn(items: Sequence[Item], rng: np.random.Generator) -> Item:
    """Return a random item."""
    return items[rng.integers(len(items))]


def run_all(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    lost: Callable[[Item, str], Result],
    jobs: int,
) -> list[Result]:
    """Return the results of all items in order, and show progress; see ``run_jobs``."""
    found = dict(track(run_jobs(work, items, lost, jobs=jobs), total=len(items)))
    return [found[place] for place in range(len(items))]


def show(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table of cells by heading; numbers that are no integers have three digits."""
    headings = list(rows[0]) if rows else []
    print_table(
        ReportTable(headings, [[cell(row[key]) for key in headings] for row in rows], title)
    )


def cell(value: object, digits: int = 3) -> str:
    """Return a value as text, a dash for None."""
    if isinstance(value, float):
        return f'{value:.{digits}g}'
    return '–' if value is None else str(value)


def described(error: BaseException, most: int = 2000) -> str:
    """Return an error and what hypothesis notes about it: the reduced example."""
    parts = [described(one, most) for one in getattr(error, 'exceptions', ())]
    notes = (str(note)[:most] for note in getattr(error, '__notes__', ()))
    return '\n'.join([f'{type(error).__name__}: {error}'[:most], *notes, *parts])
