# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the campaigns: random items, progress."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from rich.progress import track

from robot_dynamics_ros.recordings.bag_jobs import run_jobs

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


def described(error: BaseException) -> str:
    """Return an error and what hypothesis notes about it: the reduced example."""
    parts = [described(one) for one in getattr(error, 'exceptions', ())]
    notes = (str(note)[:2000] for note in getattr(error, '__notes__', ()))
    return '\n'.join([f'{type(error).__name__}: {error}'[:2000], *notes, *parts])
