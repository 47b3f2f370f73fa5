# SPDX-License-Identifier: Apache-2.0
"""Measure the latency from a state to its command over DDS, by parts, compared with echoes.

The peers run in separate processes and are measured alternately, in blocks; the medians of the
blocks are reported, so that disturbances affect all peers.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.latency_nodes import KINDS, SEVERAL, WITHIN
from benchmark.latency_probe import Peer, Probe, own_ros, processes, trip_figures
from benchmark.measuring import in_turns, note, save, show
from robot_dynamics_ros.spatial.scalar import Array

EXECUTORS = ('events', 'single')
_PERIOD = 1e-3
_BASE = 'typed echo'
_WATCHED = 'controller, monitor and recorder on'
#: Upper limit of a watched round trip, relative to the typed echo's.
MOST_WATCHED = 1.15
#: Round trips before switching to another peer, and warm-up trips that are not counted.
_SPAN, _WAKING = 50, 5
#: Allowed relative deviation of the sum of the parts from the whole.
CLOSED = 0.1
#: A program that keeps a processor busy, and the number of instances.
_BUSY, _BUSY_LOOPS = (sys.executable, '-c', 'while True: pass'), 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument('--budget', action='store_true', help='parts of the time, by timestamps')
    parser.add_argument(
        '--watched', action='store_true', help='with monitor, recorder and diagnostics'
    )
    parser.add_argument('--executor', choices=EXECUTORS, help='only this executor')
    parser.add_argument('--blocks', type=int, default=9, help='blocks per peer')
    parser.add_argument('--messages', type=int, default=400, help='messages per block')


def main(args: argparse.Namespace) -> int:
    """Measure, print and write ``out/benchmark/latency.json``; 1 if a budget does not add up."""
    executors = (args.executor,) if args.executor else EXECUTORS
    measure = budget if args.budget else watched if args.watched else comparison
    with own_ros():
        results = {name: measure(name, args.blocks, args.messages) for name in executors}
    save(f'latency{"_budget" * args.budget or "_watched" * args.watched}.json', results)
    return int(any(not one.get('closed', True) for one in results.values()))


# Round trips -------------------------------------------------------------------------------------


def comparison(executor: str, blocks: int, messages: int) -> dict[str, Any]:
    """Return times of round trips, us: one after the other, periodic, and with busy loops.

    Trips longer than a period are late; one after the other those longer than 1 ms.
    """
    peers = {kind: Peer(kind, executor) for kind in (*KINDS, SEVERAL)}
    results: dict[str, Any] = {}
    with _answering(peers) as probes:
        several = probes.pop(SEVERAL)
        results['one after the other'] = _alternate(probes, blocks, messages)
        probes[SEVERAL] = several
        for hertz in (1000, 2000):
            results[f'at {hertz} Hz'] = _alternate(probes, blocks, messages, period=1.0 / hertz)
        with processes([_BUSY] * _BUSY_LOOPS):
            busy = f'at 1000 Hz, {_BUSY_LOOPS} busy loops in parallel'
            results[busy] = _alternate(probes, blocks, messages, period=1e-3)
    for title, rows in results.items():
        _show_trips(f'{title}, {executor} executor, us', rows)
    return results


def watched(executor: str, blocks: int, messages: int) -> dict[str, Any]:
    """Return times of round trips with and without monitor and recorder, us."""
    peers = {kind: Peer(kind, executor) for kind in (_BASE, 'controller')}
    peer = peers[_WATCHED] = Peer('controller', executor, title='watched')
    results: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        _answering(peers) as probes,
        processes(peer.listeners(folder)),
    ):
        probes[_WATCHED].wait_for_listeners()
        results['at 1000 Hz'] = _alternate(probes, blocks, messages, period=_PERIOD)
        results['one after the other'] = _alternate(probes, blocks, messages)
    for title, rows in results.items():
        _show_trips(f'{title}, {executor} executor, us', rows)
        ratio = rows[_WATCHED]['p50'] / rows[_BASE]['p50']
        note(f'watched: {ratio:.2f} of the typed echo, at most {MOST_WATCHED} allowed')
    return results


@contextmanager
def _answering(peers: Mapping[str, Peer]) -> Iterator[dict[str, Probe]]:
    """Run peers, and yield the probe of each once it answers."""
    with processes([peer.command() for peer in peers.values()]):
        probes = {name: Probe(peer.arms) for name, peer in peers.items()}
        for probe in probes.values():
            probe.wait_for_peer()
        yield probes


def _alternate(
    probes: Mapping[str, Probe], blocks: int, messages: int, *, period: float = 0.0
) -> dict[str, dict[str, float]]:
    """Return figures of each peer, measured alternately for a few trips within each block."""
    count = min(_SPAN, messages) + _WAKING
    measures = {name: partial(probe.measure, count, period) for name, probe in probes.items()}
    times: dict[str, list[Array]] = {name: [] for name in probes}
    for _ in range(blocks):
        spans = in_turns(measures, max(1, messages // _SPAN))
        for name, parts in spans.items():
            times[name].append(np.concatenate([part[_WAKING:] for part in parts]))
    base = times[_BASE]
    return {name: trip_figures(values, base, period or _PERIOD) for name, values in times.items()}


def _show_trips(title: str, rows: Mapping[str, Mapping[str, float]]) -> None:
    base = rows[_BASE]
    listed = [
        (
            name,
            *(round(row[key]) for key in ('p50', 'p99', 'worst')),
            f'{row["p50"] / base["p50"]:.2f}',
            f'{row["p99"] / base["p99"]:.2f} ({row["low"]:.2f} to {row["high"]:.2f})',
            f'{row["missed"]:.2%}',
        )
        for name, row in rows.items()
    ]
    headings = ('node', 'p50', 'p99', 'worst', 'p50 / echo', 'p99 / echo', 'late')
    show(title, headings, listed)


# Budget ------------------------------------------------------------------------------------------


def budget(executor: str, blocks: int, messages: int) -> dict[str, Any]:
    """Return the parts of a round trip, by timestamps on every answer, us.

    For every peer with timestamps there is one without, to measure the cost of timestamps.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = {kind: Path(folder) / f'{kind}.json' for kind in KINDS}
        peers = {kind: Peer(kind, executor, str(file)) for kind, file in files.items()}
        without = {f'{kind}, plain': Peer(kind, executor) for kind in KINDS}
        with _answering(peers | without) as probes:
            figures = _alternate(probes, blocks, messages)
        parts = {
            kind: _parts(probes[kind].rows, json.loads(file.read_text()))
            for kind, file in files.items()
        }
    for kind, row in parts.items():
        plain = figures[f'{kind}, plain']
        row.update(
            zip(_TAIL, (plain['p99'], plain['worst'], 100.0 * plain['missed']), strict=True)
        )
        row[_PLAIN] = _middle([trip['duration'] for trip in probes[f'{kind}, plain'].rows])
    _separate_conversion(parts)
    return _show_budget(parts, executor)


def _parts(trips: list[dict[str, int]], answers: list[dict[str, int]]) -> dict[str, float]:
    """Return the mean of each part over the middle half of the round trips, us, in order."""
    by_stamp = {row['sent']: row for row in answers}
    pairs = [(trip, by_stamp[trip['sent']]) for trip in trips if trip['sent'] in by_stamp]
    pairs.sort(key=lambda pair: pair[0]['duration'])
    rows = [_part(*pair) for pair in pairs[len(pairs) // 4 : -(len(pairs) // 4)]]
    return {name: 1e-3 * float(np.mean([row[name] for row in rows])) for name in rows[0]}


def _middle(times: list[int]) -> float:
    """Return the mean of the middle half of times in ns, us."""
    quarter = len(times) // 4
    return 1e-3 * float(np.mean(np.sort(times)[quarter:-quarter]))


def _part(trip: Mapping[str, int], answer: Mapping[str, int]) -> dict[str, int]:
    """Return the parts of one round trip, ns."""
    own = {name: ns for name, ns in answer.items() if name not in _INSTANTS}
    for name, others in WITHIN.items():
        if name in own:
            own[name] -= sum(own.get(other, 0) for other in others)
    before = sum(ns for name, ns in own.items() if name != 'published')
    received = answer['received'] or trip['published']
    return {
        'probe: publish': trip['published'] - trip['sent'],
        'state on the wire': received - trip['published'],
        _TAKE: answer['entered'] - received,
        _CONVERSION: 0,
        **{name: ns for name, ns in own.items() if name != 'published'},
        'rest of the callback': answer['publishing'] - answer['entered'] - before,
        'publish': trip['command_sent'] - answer['publishing'],
        'command on the wire': trip['command_received'] - trip['command_sent'],
        'probe: executor and take': trip['callback'] - trip['command_received'],
        _WHOLE: trip['duration'],
        _AFTER: answer['left'] - answer['publishing'] - answer['published'],
    }


_INSTANTS = ('sent', 'received', 'entered', 'left', 'publishing')
_TAKE, _CONVERSION = 'executor and take', 'conversion to Python'
_WHOLE, _PLAIN, _AFTER = 'whole', 'whole without stamps', 'after the command (not in the latency)'
_TAIL = ('p99 without stamps', 'worst without stamps', 'above 1 ms without stamps, %')
_SUM = 'sum'
_BELOW = (_SUM, _WHOLE, _PLAIN, *_TAIL, _AFTER)  # the parts


def _separate_conversion(parts: dict[str, dict[str, float]]) -> None:
    """Separate the cost of converting a state to a Python object.

    The raw echo and the controller receive bytes.
    """
    raw, typed = parts['raw echo'], parts['typed echo']
    typed[_TAKE], typed[_CONVERSION] = raw[_TAKE], typed[_TAKE] - raw[_TAKE]


def _show_budget(parts: dict[str, dict[str, float]], executor: str) -> dict[str, Any]:
    """Print the parts of all peers; return them, and whether they add up to the whole."""
    names = [name for name in parts['controller'] if name not in _BELOW]
    for row in parts.values():
        row[_SUM] = sum(row.get(name, 0.0) for name in names)
    controller, echo = parts['controller'], parts['typed echo']
    above = {name: controller.get(name, 0.0) - echo.get(name, 0.0) for name in (*names, *_BELOW)}
    columns = {**parts, 'controller above typed echo': above}
    title = f'state to command, {executor} executor, means of the middle half, us'
    cells = ((name, *(f'{row.get(name, 0.0):.1f}' for row in columns.values())) for name in above)
    show(title, ('part', *columns), cells)
    off = {kind: row[_SUM] / row[_WHOLE] - 1.0 for kind, row in parts.items()}
    note('sum relative to the whole: ' + ', '.join(f'{kind} {x:+.1%}' for kind, x in off.items()))
    return {
        'parts_us': parts,
        'above_us': above,
        'sum_against_whole': off,
        'closed': all(abs(x) <= CLOSED for x in off.values()),
    }
