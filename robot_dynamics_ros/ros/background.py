# SPDX-License-Identifier: Apache-2.0
"""Work of a second in a callback that has to answer, while the control ticks go on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar('T')


class Beside(Protocol):
    """Does work while something else goes on."""

    def __call__(self, work: Callable[[], T], /) -> T:
        """Return what the work returns; raise what it raises."""


_IDLE_S = 2e-4
#: Python lets a thread keep the interpreter for 5 ms: five ticks of a loop at 1 kHz.
_SWITCH_S = 1e-4


def beside(
    work: Callable[[], T], tick: Callable[[], bool], watch: Callable[[], None], period: float
) -> T:
    """Do work in a thread of its own; meanwhile tick in this one, as an executor would.

    Args:
        work: What takes long; touches nothing that ticks touch.
        tick: Answers a message that waits; returns whether there was one.
        watch: Called every ``period`` seconds.
        period: s.

    Returns:
        What the work returns; raises what it raises.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        with ThreadPoolExecutor(1) as pool:
            result, watched = pool.submit(work), time.perf_counter()
            while not result.done():
                if not tick():
                    time.sleep(_IDLE_S)
                if time.perf_counter() - watched >= period:
                    watch()
                    watched = time.perf_counter()
            return result.result()
    finally:
        sys.setswitchinterval(usual)
