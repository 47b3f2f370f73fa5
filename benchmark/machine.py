# SPDX-License-Identifier: Apache-2.0
"""What the measured machine is."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

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
