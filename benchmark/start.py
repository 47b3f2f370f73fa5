# SPDX-License-Identifier: Apache-2.0
"""Measure the start of the controller's process, until it waits for states and until it commands.

It alternates with a process that imports rclpy, numpy and the controller's message packages.
Both find their modules compiled to bytecode, as in an installed package.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import psutil

from benchmark.latency_probe import Peer, Probe, own_ros
from benchmark.measuring import note, save, show

_BLOCKS = 9
_PACKAGES = (
    'diagnostic_msgs.msg',
    'geometry_msgs.msg',
    'lifecycle_msgs.srv',
    'sensor_msgs.msg',
    'std_msgs.msg',
    'std_srvs.srv',
    'trajectory_msgs.msg',
)
_UNTIL = (
    'imports',
    'controller waits for states',
    'first command',
    'processor time: imports',
    'processor time: controller waits for states',
)
_IMPORTS = f'import numpy, rclpy.lifecycle, {", ".join(_PACKAGES)}'
#: Code of the installed executable ``controller``.
_CONTROLLER = 'from robot_dynamics_ros.ros.executables import controller; controller()'


def main() -> int:
    """Measure with a cache of kernels, print and write ``out/benchmark/start.json``."""
    os.environ.pop('PYTHONDONTWRITEBYTECODE', None)
    with own_ros(), tempfile.TemporaryDirectory() as os.environ['PYTHONPYCACHEPREFIX']:
        rows = [_one_start(k) for k in range(_BLOCKS + 1)][1:]  # the first fills caches
    middle, least = np.median(rows, axis=0).tolist(), np.min(rows, axis=0).tolist()
    seconds = {name: list(pair) for name, *pair in zip(_UNTIL, middle, least, strict=True)}
    shown = [
        (name, *pair, pair[0] / seconds[_UNTIL[3 * name.startswith('processor')]][0])
        for name, pair in seconds.items()
    ]
    show('start of a process, s', ('until', 'median', 'shortest', 'by the imports'), shown)
    note('the first command: once both sides have discovered each other')
    save('start.json', {'seconds': seconds})
    return 0


def _one_start(k: int) -> tuple[float, ...]:
    """Return wall times, s: imports, controller until ready, controller until commanding.

    Then processor times, s: imports, controller until ready.
    """
    begin, used = time.perf_counter(), os.times()
    subprocess.run([sys.executable, '-c', _IMPORTS], check=True)
    imported, after = time.perf_counter(), os.times()
    importing = after[2] + after[3] - used[2] - used[3]
    peer = Peer('controller', title=f'start {k}')
    command = [sys.executable, '-c', _CONTROLLER, *peer.command()[6:]]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as node:
        assert node.stderr is not None
        next(line for line in node.stderr if 'states on' in line)
        ready = time.perf_counter()
        starting = sum(psutil.Process(node.pid).cpu_times()[:2])
        Probe(peer.arms).wait_for_peer()
        answered = time.perf_counter()
        node.terminate()
    return imported - begin, ready - imported, answered - imported, importing, starting
