# SPDX-License-Identifier: Apache-2.0
"""Measure the latency from a state to its command over DDS, and the start of the controller.

The peers run in separate processes and are measured alternately, in blocks; the medians of the
blocks are reported, so that disturbances affect all peers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import rclpy

from benchmark.latency_nodes import KINDS, SEVERAL, WITHIN, Peer, Probe
from benchmark.measuring import Figures, in_turns, note, save, show
from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.cli.processes import own_domain
from robot_dynamics_ros.spatial.scalar import Array

EXECUTORS = ('events', 'single')
_BASE, _WATCHED = 'typed echo', 'controller, monitor and recorder on'
#: Upper limit of a watched round trip, relative to the typed echo's.
MOST_WATCHED = 1.15
#: Round trips before switching to another peer, and warm-up trips that are not counted.
_SPAN, _WAKING = 50, 5
#: Allowed relative deviation of the sum of the parts from the whole.
CLOSED = 0.1
#: A program that keeps a processor busy, and the number of instances.
_BUSY, _BUSY_LOOPS = (sys.executable, '-c', 'while True: pass'), 3
#: Resamplings of the blocks to estimate the uncertainty of a ratio.
_DRAWS = 1000


def latency_benchmark(args: argparse.Namespace) -> int:
    """Measure the latency from a state to its command over DDS; 1 if a budget does not add up."""
    executors = (args.executor,) if args.executor else EXECUTORS
    measure = budget if args.budget else watched if args.watched else comparison
    with own_ros():
        results = {name: measure(name, args.blocks, args.messages) for name in executors}
    save(f'latency{"_budget" * args.budget or "_watched" * args.watched}.json', results)
    return int(any(not one.get('closed', True) for one in results.values()))


@contextmanager
def own_ros() -> Iterator[None]:
    """Initialize rclpy in a ROS domain of this process and its peers."""
    with own_domain() as domain:
        os.environ |= {'ROS_DOMAIN_ID': str(domain), 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'}
        rclpy.init()
        try:
            yield
        finally:
            rclpy.try_shutdown()


@contextmanager
def processes(commands: Sequence[Sequence[str]]) -> Iterator[None]:
    """Run commands in separate processes for the duration of a ``with`` block."""
    running = [subprocess.Popen(command) for command in commands]
    try:
        yield
    finally:
        for one in running:
            one.terminate()
        for one in running:
            one.wait(timeout=30)


@contextmanager
def _answering(peers: Mapping[str, Peer]) -> Iterator[dict[str, Probe]]:
    """Run peers, and yield the probe of each once it answers."""
    with processes([peer.command() for peer in peers.values()]):
        probes = {name: Probe(peer.arms) for name, peer in peers.items()}
        for probe in probes.values():
            probe.wait_for_peer()
        yield probes


# Round trips -------------------------------------------------------------------------------------


def comparison(executor: str, blocks: int, messages: int) -> Figures:
    """Return times of round trips, us: one after the other, periodic, and with busy loops.

    Trips longer than a period are late; one after the other those longer than 1 ms.
    """
    measure, busy = partial(_alternate, blocks, messages), f'{_BUSY_LOOPS} busy loops in parallel'
    with _answering({kind: Peer(kind, executor) for kind in (*KINDS, SEVERAL)}) as probes:
        results = {'one after the other': measure({kind: probes[kind] for kind in KINDS})}
        for hertz in (1000, 2000):
            results[f'at {hertz} Hz'] = measure(probes, hertz)
        with processes([_BUSY] * _BUSY_LOOPS):
            results[f'at 1000 Hz, {busy}'] = measure(probes, 1000)
    _show_trips(results, executor)
    return results


def watched(executor: str, blocks: int, messages: int) -> Figures:
    """Return times of round trips with and without monitor and recorder, us."""
    measure = partial(_alternate, blocks, messages)
    peers = {kind: Peer(kind, executor) for kind in (_BASE, 'controller')}
    peer = peers[_WATCHED] = Peer('controller', executor, title='watched')
    with (
        tempfile.TemporaryDirectory() as folder,
        _answering(peers) as probes,
        processes(peer.listeners(folder)),
    ):
        probes[_WATCHED].wait_for_listeners()
        results = {'at 1000 Hz': measure(probes, 1000), 'one after the other': measure(probes)}
    _show_trips(results, executor)
    for title, rows in results.items():
        ratio = rows[_WATCHED]['p50'] / rows[_BASE]['p50']
        note(f'watched, {title}: {ratio:.2f} of the typed echo, at most {MOST_WATCHED} allowed')
    return results


def _alternate(
    blocks: int, messages: int, probes: Mapping[str, Probe], hertz: int = 0
) -> dict[str, dict[str, float]]:
    """Return figures of each peer, measured alternately for a few trips within each block.

    At a rate in Hz, or (0) one after the other.
    """
    period = 1.0 / hertz if hertz else 0.0
    count = min(_SPAN, messages) + _WAKING
    measures = {name: partial(probe.measure, count, period) for name, probe in probes.items()}
    times: dict[str, list[Array]] = {name: [] for name in probes}
    for _ in range(blocks):
        spans = in_turns(measures, max(1, messages // _SPAN))
        for name, parts in spans.items():
            times[name].append(np.concatenate([part[_WAKING:] for part in parts]))
    return {name: trip_figures(own, times[_BASE], period or 1e-3) for name, own in times.items()}


def _show_trips(results: Mapping[str, Mapping[str, Mapping[str, float]]], executor: str) -> None:
    for title, rows in results.items():
        base, listed = rows[_BASE], []
        for name, row in rows.items():
            ratio = f'{row["p99"] / base["p99"]:.2f} ({row["low"]:.2f} to {row["high"]:.2f})'
            times = {key: round(row[key]) for key in ('p50', 'p99', 'worst')}
            ratios = {'p50 / echo': f'{row["p50"] / base["p50"]:.2f}', 'p99 / echo': ratio}
            listed.append({'node': name, **times, **ratios, 'late': f'{row["missed"]:.2%}'})
        show(f'{title}, {executor} executor, us', listed)


def trip_figures(blocks: list[Array], base: list[Array], period: float) -> dict[str, float]:
    """Return medians over blocks of their percentiles, us, the worst, and missed periods.

    ``low`` and ``high`` are the bounds of the ratio of p99 to that of the typed echo in nine of
    ten resamplings of the blocks, the same for both: the influence of disturbances.
    """
    every = np.concatenate(blocks)
    p50, p99 = np.percentile(blocks, [50, 99], axis=1)
    drawn = np.random.default_rng(0).integers(len(blocks), size=(_DRAWS, len(blocks)))
    of_base = np.percentile(base, 99, axis=1)
    ratios = np.median(p99[drawn], axis=1) / np.median(of_base[drawn], axis=1)
    low, high = np.percentile(ratios, [5, 95]).tolist()
    return {
        'p50': np.median(p50),
        'p99': np.median(p99),
        'low': low,
        'high': high,
        'worst': every.max(),
        'missed': (every > 1e6 * period).mean(),
    }


# Budget ------------------------------------------------------------------------------------------

_INSTANTS = ('sent', 'received', 'entered', 'left', 'publishing', 'published')
_TAKE, _CONVERSION = 'executor and take', 'conversion to Python'
_SUM, _WHOLE, _AFTER = 'sum', 'whole', 'after the command (not in the latency)'
_PLAIN = ('whole without stamps', 'p99 without stamps', 'worst without stamps',
          'above 1 ms without stamps, %')  # fmt: skip
_BELOW = (_SUM, _WHOLE, *_PLAIN, _AFTER)  # the parts


def budget(executor: str, blocks: int, messages: int) -> Figures:
    """Return the parts of a round trip, by timestamps on every answer, us.

    For every peer with timestamps there is one without, to measure the cost of timestamps.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = {kind: Path(folder) / f'{kind}.json' for kind in KINDS}
        peers = {kind: Peer(kind, executor, str(file)) for kind, file in files.items()}
        without = {f'{kind}, plain': Peer(kind, executor) for kind in KINDS}
        with _answering(peers | without) as probes:
            figures = _alternate(blocks, messages, probes)
        answers = {kind: json.loads(file.read_text()) for kind, file in files.items()}
    parts = {kind: _parts(probes[kind].rows, rows) for kind, rows in answers.items()}
    for kind, row in parts.items():
        plain = figures[f'{kind}, plain']
        whole = _middle([trip['duration'] for trip in probes[f'{kind}, plain'].rows])
        values = whole, plain['p99'], plain['worst'], 100.0 * plain['missed']
        row |= dict(zip(_PLAIN, values, strict=True))
    # The cost of a Python object for a state: the raw echo and the controller receive bytes.
    raw, typed = parts['raw echo'], parts[_BASE]
    typed[_TAKE], typed[_CONVERSION] = raw[_TAKE], typed[_TAKE] - raw[_TAKE]
    return _show_budget(parts, executor)


def _parts(trips: list[dict[str, int]], answers: list[dict[str, int]]) -> dict[str, float]:
    """Return the mean of each part over the middle half of the round trips, us, in order."""
    by_stamp = {row['sent']: row for row in answers}
    answered = [trip for trip in trips if trip['sent'] in by_stamp]
    answered.sort(key=lambda trip: trip['duration'])
    rows = [_part(trip, by_stamp[trip['sent']]) for trip in answered]
    return {name: _middle([row[name] for row in rows], ordered=True) for name in rows[0]}


def _middle(times: list[int], *, ordered: bool = False) -> float:
    """Return the mean of the middle half of times in ns, us."""
    quarter = len(times) // 4
    return 1e-3 * np.mean((times if ordered else sorted(times))[quarter:-quarter])


def _part(trip: Mapping[str, int], answer: Mapping[str, int]) -> dict[str, int]:
    """Return the parts of one round trip, ns."""
    own = {name: ns for name, ns in answer.items() if name not in _INSTANTS}
    for name, others in WITHIN.items():
        if name in own:
            own[name] -= sum(answer.get(other, 0) for other in others)
    before = sum(own.values())
    received = answer['received'] or trip['published']
    return {
        'probe: publish': trip['published'] - trip['sent'],
        'state on the wire': received - trip['published'],
        _TAKE: answer['entered'] - received,
        _CONVERSION: 0,
        **own,
        'rest of the callback': answer['publishing'] - answer['entered'] - before,
        'publish': trip['command_sent'] - answer['publishing'],
        'command on the wire': trip['command_received'] - trip['command_sent'],
        'probe: executor and take': trip['callback'] - trip['command_received'],
        _WHOLE: trip['duration'],
        _AFTER: answer['left'] - answer['publishing'] - answer['published'],
    }


def _show_budget(parts: dict[str, dict[str, float]], executor: str) -> Figures:
    """Print the parts of all peers; return them, and whether they add up to the whole."""
    names = [name for name in parts['controller'] if name not in _BELOW]
    for row in parts.values():
        row[_SUM] = sum(row.get(name, 0.0) for name in names)
    controller, echo = parts['controller'], parts[_BASE]
    above = {name: controller.get(name, 0.0) - echo.get(name, 0.0) for name in (*names, *_BELOW)}
    columns = {**parts, 'controller above typed echo': above}
    title = f'state to command, {executor} executor, means of the middle half, us'
    rows = []
    for name in above:
        cells = {kind: f'{row.get(name, 0.0):.1f}' for kind, row in columns.items()}
        rows.append({'part': name, **cells})
    show(title, rows)
    off = {kind: row[_SUM] / row[_WHOLE] - 1.0 for kind, row in parts.items()}
    note('sum relative to the whole: ' + ', '.join(f'{kind} {x:+.1%}' for kind, x in off.items()))
    return {
        'parts_us': parts,
        'above_us': above,
        'sum_against_whole': off,
        'closed': all(abs(x) <= CLOSED for x in off.values()),
    }


# Start -------------------------------------------------------------------------------------------

_STARTS = 9
_PACKAGES = (
    'diagnostic_msgs.msg',
    'geometry_msgs.msg',
    'lifecycle_msgs.srv',
    'sensor_msgs.msg',
    'std_msgs.msg',
    'std_srvs.srv',
    'trajectory_msgs.msg',
)
_IMPORTS = f'import numpy, rclpy.lifecycle, {", ".join(_PACKAGES)}'
#: Code of the installed executable ``controller``.
_CONTROLLER = 'from robot_dynamics_ros.ros.executables import controller; controller()'


def start_benchmark() -> int:
    """Measure the start of the controller's process, until it waits for states, and commands.

    It alternates with a process that imports rclpy, numpy and the controller's message packages.
    Both find their modules compiled to bytecode, as in an installed package, and kernels cached.
    """
    os.environ.pop('PYTHONDONTWRITEBYTECODE', None)
    with own_ros(), tempfile.TemporaryDirectory() as os.environ['PYTHONPYCACHEPREFIX']:
        starts = [_one_start(k) for k in range(_STARTS + 1)][1:]  # the first fills caches
    times = {name: [row[name] for row in starts] for name in starts[0]}
    seconds = {name: [np.median(own), min(own)] for name, own in times.items()}
    rows = []
    for name, (middle, least) in seconds.items():
        imports = 'processor time: imports' if name.startswith('processor') else 'imports'
        ratio = {'by the imports': middle / seconds[imports][0]}
        rows.append({'until': name, 'median': middle, 'shortest': least, **ratio})
    show('start of a process, s', rows)
    note('the first command: once both sides have discovered each other')
    save('start.json', {'seconds': seconds})
    return 0


def _one_start(k: int) -> dict[str, float]:
    """Return wall and processor times from the start of a process, s."""
    begin, used = time.perf_counter(), os.times()
    subprocess.run([sys.executable, '-c', _IMPORTS], check=True)
    imported, after = time.perf_counter(), os.times()
    peer = Peer('controller', title=f'start {k}')
    command = [sys.executable, '-c', _CONTROLLER, *peer.ros_arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as node:
        assert node.stderr is not None
        next(line for line in node.stderr if 'states on' in line)
        ready = time.perf_counter()
        starting = sum(psutil.Process(node.pid).cpu_times()[:2])
        Probe(peer.arms).wait_for_peer()
        answered = time.perf_counter()
        node.terminate()
    return {
        'imports': imported - begin,
        'controller waits for states': ready - imported,
        'first command': answered - imported,
        'processor time: imports': sum(after[2:4]) - sum(used[2:4]),
        'processor time: controller waits for states': starting,
    }


OPTIONS = {
    'latency': {
        '--budget': option(False, 'parts of the time, by timestamps'),
        '--watched': option(False, 'with monitor, recorder and diagnostics'),
        '--executor': option(None, 'only this executor', choices=EXECUTORS),
        '--blocks': option(9, 'blocks per peer'),
        '--messages': option(400, 'messages per block'),
    },
}
