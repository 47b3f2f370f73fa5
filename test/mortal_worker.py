# SPDX-License-Identifier: Apache-2.0
"""Tasks for worker processes in an importable module, and a check for remaining processes."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_TICKS = os.sysconf('SC_CLK_TCK')
_BEGIN_S, _END_S = 180.0, 60.0  # imports take a minute on a busy machine


def killed_on(word: str, item: str) -> str:
    """Process items, and kill the process at one of them, as the out-of-memory killer does."""
    if item == word:
        os.kill(os.getpid(), signal.SIGKILL)
    return item.upper()


def blocks_interrupt(_: int) -> bool:
    """Tell whether this process blocks SIGINT, so that an interrupt while it starts is silent."""
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def errors_when_ended(
    words: Sequence[str], way: int, has_begun: Callable[[list[float]], bool]
) -> str:
    """Start a module, end it by a signal once it runs; return its errors if no process remains.

    Args:
        words: Module and arguments.
        way: Signal; an interrupt is also sent to its workers, as by a terminal.
        has_begun: Receives the processor time of each of its processes, s.
    """
    command, pipe = [sys.executable, '-m', *words], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, start_new_session=True) as parent:
        group = parent.pid
        try:
            _await(lambda: has_begun(_times(group)), 'the workers', _BEGIN_S)
            os.killpg(group, way) if way == signal.SIGINT else os.kill(group, way)
            _await(lambda: not _times(group), 'the end of all', _END_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        return parent.communicate()[1].decode()


def _await(condition: Callable[[], bool], what: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def _times(group: int) -> list[float]:
    """Return the processor times, s, of the running processes of a group."""
    found = []
    for entry in Path('/proc').glob('[0-9]*/stat'):
        with contextlib.suppress(OSError):
            state, _, its_group, *rest = entry.read_text('utf-8').rpartition(')')[2].split()
            if int(its_group) == group and state != 'Z':
                found.append(sum(map(int, rest[8:10])) / _TICKS)
    return found
