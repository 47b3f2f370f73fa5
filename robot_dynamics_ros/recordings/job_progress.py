# SPDX-License-Identifier: Apache-2.0
"""Show how far the work on many bags is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from robot_dynamics_ros.recordings.bag_jobs import run_jobs

Result = TypeVar('Result')


def shown_jobs(
    title: str,
    work: Callable[[Any], Result],
    items: Sequence[Any],
    failed: Callable[[Any, str], Result],
    error_of: Callable[[Result], str],
    *,
    jobs: int = 1,
    scheduler: str = '',
) -> list[Result]:
    """Return what the work returns for each item, in their order; show progress meanwhile.

    The arguments are those of ``run_jobs``, what is done, and what tells why a result is a
    failure (empty if it is none).
    """
    console = Console(stderr=True)
    columns = (TextColumn(title), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn())
    told = TextColumn('{task.fields[bad]}')
    quiet = not console.is_terminal
    results: dict[int, Result] = {}
    bad = 0
    with Progress(*columns, told, console=console, transient=True, disable=quiet) as progress:
        shown = progress.add_task('', total=len(items), bad='')
        for place, result in run_jobs(work, items, failed, jobs=jobs, scheduler=scheduler):
            results[place] = result
            bad += bool(error_of(result))
            text = f'{bad} failed' if bad else ''
            progress.update(shown, advance=1, bad=text)
            if quiet and len(items) > 1:
                line = f'{title}: {len(results)} of {len(items)} bags'
                console.print(f'{line}, {text}' if text else line, highlight=False)
    return [results[place] for place in range(len(items))]
