# SPDX-License-Identifier: Apache-2.0
"""What a command that computes for long prints meanwhile, in a terminal or not."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_PERIOD_S = 5.0
_step = ''


def tell(step: str) -> None:
    """Set what the command is said to do, such as 'step 3 of 60'."""
    global _step
    _step = step


@contextmanager
def sign_of_life(name: str) -> Iterator[None]:
    """Print to stderr every 5 s for how long a command has run, and its step if it tells one.

    While a live display (of rich, which replaces stderr meanwhile) shows that, nothing is printed.

    Args:
        name: Name of the command.
    """
    begin, over, stream = time.monotonic(), threading.Event(), sys.stderr

    def repeat() -> None:
        while not over.wait(_PERIOD_S):
            if stream and sys.stderr is stream:  # None if closed, and print took stdout
                seconds = f'{time.monotonic() - begin:.0f} s'
                print(
                    f'{name}: {", ".join(filter(None, (_step, seconds)))}', file=stream, flush=True
                )

    tell('')
    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
