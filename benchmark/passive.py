# SPDX-License-Identifier: Apache-2.0
"""The cost of viewer, monitor and recorder beside a controller, and their effect on it."""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from benchmark.measuring import Results
from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.cli.processes import SceneProcesses, own_domain
from robot_dynamics_ros.errors import SceneError

_ARM = 'scara'
_START_S, _JOINING_S, _SPAN_S = 60.0, 8.0, 6.0
#: Limits of the viewer's share of a core, %: with a page, and without one.
_MOST_WATCHED, _MOST_IDLE = 15.0, 1.0
#: A round in which other programs take more than this share of a core, %, is repeated.
_MOST_OTHERS, _REPETITIONS = 20.0, 20
_VIEWER, _PAGE = 'viewer, no page', 'viewer, one page'
#: What runs beside the controller: subcommand, and number of open pages.
_BESIDE = {
    'nothing': ('', 0),
    _VIEWER: ('view', 0),
    _PAGE: ('view', 1),
    'monitor': ('monitor', 0),
    'recorder': ('record', 0),
}
_FIGURES = 'answered states a second', 'latency p99, us', 'share of a core, %'


def main(args: argparse.Namespace, results: Results) -> int:
    """Viewer, monitor and recorder beside a controller at 1 kHz in real time.

    The SCARA stands at rest; what runs beside it takes turns. A figure is the median of the
    rounds, and in brackets their range. A round during which other programs were busy is repeated.
    The exit code is 1 if the viewer takes more than 15 % of a core with a page, or 1 % without.
    """
    measured: dict[str, list[tuple[float, ...]]] = {name: [] for name in _BESIDE}
    with own_domain() as domain, tempfile.TemporaryDirectory() as logs:
        os.environ |= {'ROS_DOMAIN_ID': str(domain), 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'}
        rclpy.init()
        with SceneProcesses(Path(logs), domain) as nodes:
            nodes.start('simulator', 'simulate', {'mode': 'real_time'}, _ARM)
            nodes.start('controller', 'control', {'diagnostics_period_s': 0.5}, _ARM)
            health = _Health()
            health.wait()
            for _ in range(args.rounds):
                for name, (command, pages) in _BESIDE.items():
                    measured[name].append(_undisturbed(domain, health, command, pages))
        rclpy.shutdown()
    rows, medians = [], dict[str, list[float]]()
    for name, rounds in measured.items():
        medians[name] = np.nanmedian(rounds, axis=0).tolist()
        ends = zip(np.nanmin(rounds, axis=0), np.nanmax(rounds, axis=0), strict=True)
        cells = [f'{x:.1f} ({low:.1f} to {high:.1f})'
                 for x, (low, high) in zip(medians[name], ends, strict=True)]  # fmt: skip
        rows.append({'beside': name, **dict(zip(_FIGURES, cells, strict=True))})
    results.table(
        f'SCARA at rest in real time, {args.rounds} rounds in turns', rows, rounds=measured
    )
    idle, watched = medians[_VIEWER][-1], medians[_PAGE][-1]
    return int(idle > _MOST_IDLE or watched > _MOST_WATCHED)


class _Health(Node):
    """Receives the diagnostics of the controller.

    Attributes:
        ticks: Commands so far.
        latencies: 99th percentiles of the latency from state to command, us.
    """

    def __init__(self) -> None:
        super().__init__('health')
        self.ticks, self.latencies = 0, list[float]()
        self.create_subscription(DiagnosticArray, '/diagnostics', self._take, 10)
        self._spinner = SingleThreadedExecutor()
        self._spinner.add_node(self)

    def _take(self, message: DiagnosticArray) -> None:
        for status in message.status:
            values = {pair.key: pair.value for pair in status.values}
            if 'commands' in values:
                self.ticks = int(values['commands'])
            if 'latency_p99_us' in values:
                self.latencies.append(float(values['latency_p99_us']))

    def spin(self, seconds: float) -> None:
        """Receive for a time, s."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.0:
            self._spinner.spin_once(timeout_sec=left)

    def wait(self) -> None:
        """Wait until the controller answers states.

        Raises:
            TimeoutError: It does not.
        """
        end = time.monotonic() + _START_S
        while not self.latencies:
            self.spin(0.5)
            if time.monotonic() > end:
                raise TimeoutError('the controller answers no states')


def _undisturbed(domain: int, health: _Health, command: str, pages: int) -> tuple[float, ...]:
    """Return the figures of one round in which the machine had nothing else to do.

    Raises:
        SceneError: There is none.
    """
    for _ in range(_REPETITIONS):
        *figures, others = _round(domain, health, command, pages)
        if others <= _MOST_OTHERS:
            return tuple(figures)
        print(f'repeated: other programs took {others:.0f} % of a core', flush=True)
    raise SceneError('passive', 'the machine is busy with other programs', 'end them')


def _others() -> float:
    """Return the processor time, s, of all programs but this one and its processes.

    The kernel's sum for the whole machine is sampled at its ticks, which programs with a period of
    1 ms meet too often; the times of processes are exact.
    """
    own, used = psutil.Process(), 0.0
    ours = {own.pid, *(process.pid for process in own.children(recursive=True))}
    for process in psutil.process_iter():
        if process.pid not in ours:
            with suppress(psutil.NoSuchProcess):
                used += sum(process.cpu_times()[:4])  # with those of ended children
    return used


def _round(domain: int, health: _Health, command: str, pages: int) -> tuple[float, ...]:
    """Return the figures of one round, and the share of a core that other programs took, %.

    The figures are states a second, p99, us, and share of a core, %.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        other = stack.enter_context(SceneProcesses(Path(folder), domain))
        process = psutil.Process()
        if command == 'view':
            process, address = start_viewer(other)
            stack.enter_context(clients(pages, address))
        elif command:
            bag = {'bag': f'{folder}/bag', 'fail_on_loss': False, 'best_effort': True}
            other.start(command, command, bag if command == 'record' else {}, _ARM)
            process = psutil.Process(other.pid(command))
        health.spin(_JOINING_S)
        health.latencies.clear()
        ticks, used, begin = health.ticks, sum(process.cpu_times()[:2]), time.monotonic()
        before = _others()
        health.spin(_SPAN_S)
        seconds = time.monotonic() - begin
        share = (sum(process.cpu_times()[:2]) - used) / seconds if command else 0.0
        others = (_others() - before) / seconds
        latency = statistics.median(health.latencies or [math.nan])
        return (health.ticks - ticks) / seconds, latency, 100.0 * share, 100.0 * others


def start_viewer(nodes: SceneProcesses) -> tuple[psutil.Process, str]:
    """Start a viewer; return its process and its address once it has one.

    Raises:
        TimeoutError: It has none.
    """
    nodes.start_command('view', ['view', '--port', '0'])
    for _ in range(600):
        printed = re.search(r'http://(\S+)', nodes.output('view'))
        if printed:
            return psutil.Process(nodes.pid('view')), printed.group(1)
        time.sleep(0.1)
    raise TimeoutError('the viewer has no address')


@contextmanager
def clients(count: int, address: str) -> Iterator[None]:
    """Run clients that receive what a page receives, but do not draw."""
    import viser
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    done = threading.Event()

    def read() -> None:
        protocol: Any = [f'viser-v{viser.__version__}']
        with connect(f'ws://{address}', subprotocols=protocol, max_size=None) as socket:
            while not done.is_set():
                try:
                    socket.recv(timeout=1.0)
                except (TimeoutError, ConnectionClosed):
                    continue

    threads = [threading.Thread(target=read, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    yield
    done.set()
    for thread in threads:
        thread.join(5.0)


OPTIONS = {'--rounds': option(5, 'rounds of every row')}
