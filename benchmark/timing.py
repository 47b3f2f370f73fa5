# SPDX-License-Identifier: Apache-2.0
"""Times of calls: alternately, in short blocks, the shortest block of each.

Disturbances of the machine affect all contenders, and each has a block without disturbance.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Mapping
from typing import TypeVar

Result = TypeVar('Result')
Contender = tuple[str, Mapping[str, object]]  #: a statement to time, and its names


def in_turns(calls: Mapping[str, Callable[[], Result]], rounds: int) -> dict[str, list[Result]]:
    """Call functions alternately; return the results of each."""
    results: dict[str, list[Result]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            results[name].append(call())
    return results


def race(
    contenders: Mapping[str, Contender], seconds: float = 2e-3, rounds: int = 40
) -> dict[str, float]:
    """Return the shortest mean time of each statement, ns, in blocks of at least a duration."""
    timers = {
        name: timeit.Timer(call, globals={**names}) for name, (call, names) in contenders.items()
    }
    numbers = dict.fromkeys(timers, 1)
    for name, timer in timers.items():
        while timer.timeit(numbers[name]) < seconds:
            numbers[name] *= 2
    blocks = {name: lambda n=name: timers[n].timeit(numbers[n]) for name in timers}
    return {
        name: min(times) / numbers[name] * 1e9 for name, times in in_turns(blocks, rounds).items()
    }
