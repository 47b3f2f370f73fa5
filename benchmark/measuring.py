# SPDX-License-Identifier: Apache-2.0
"""The machine that is measured on, and times of short calls though it does other things too.

Contenders take turns in short blocks and the shortest block of each counts: what disturbs one
disturbs the others, and a block without disturbance is found for each.
"""

from __future__ import annotations

import os
import platform
import timeit
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

_PACKAGES = ('numpy', 'llvmlite', 'pin', 'mujoco', 'drake', 'dynibo', 'roboticstoolbox-python')


def machine() -> dict[str, str | int | float]:
    """Return processor, system and versions, and how busy the machine is."""
    found: dict[str, str | int | float] = {
        'processor': _processor(),
        'processors': len(os.sched_getaffinity(0)),
        'system': platform.platform(),
        'load': round(os.getloadavg()[0], 2),
        'python': platform.python_version(),
    }
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    for line in Path('/proc/cpuinfo').read_text().splitlines():
        if line.startswith('model name'):
            return line.partition(':')[2].strip()
    return platform.machine()


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
