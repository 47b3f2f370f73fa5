# SPDX-License-Identifier: Apache-2.0
"""Work for worker processes, in a module that they can import."""

from __future__ import annotations

import os
import signal


def killed_on(word: str, item: str) -> str:
    """Do some work, and die of one item as a process without memory does."""
    if item == word:
        os.kill(os.getpid(), signal.SIGKILL)
    return item.upper()
