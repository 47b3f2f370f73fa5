# SPDX-License-Identifier: Apache-2.0
"""Times of short calls on a machine that also does other things.

Contenders take turns in short blocks and the shortest block of each counts: what disturbs one
disturbs the others, and a block without disturbance is found for each.
"""

from __future__ import annotations

import timeit
from collections.abc import Mapping
from typing import Any, NamedTuple


class Contender(NamedTuple):
    """A statement to be timed, and the names in it."""

    statement: str
    names: dict[str, Any]


def race(
    contenders: Mapping[str, Contender], seconds: float = 2e-3, rounds: int = 40
) -> dict[str, float]:
    """Return the shortest mean time of each statement, ns.

    Args:
        contenders: What to time, by name.
        seconds: Least length of a block.
        rounds: Blocks for each.
    """
    timers = {
        name: timeit.Timer(contender.statement, globals=contender.names)
        for name, contender in contenders.items()
    }
    numbers = {name: _calls(timer, seconds) for name, timer in timers.items()}
    best = dict.fromkeys(timers, float('inf'))
    for _ in range(rounds):
        for name, timer in timers.items():
            best[name] = min(best[name], timer.timeit(numbers[name]) / numbers[name] * 1e9)
    return best


def _calls(timer: timeit.Timer, seconds: float) -> int:
    number = 1
    while timer.timeit(number) < seconds:
        number *= 2
    return number
