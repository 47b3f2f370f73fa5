# SPDX-License-Identifier: Apache-2.0
"""Latency from a state to its command over DDS, compared with echoes of the same messages.

The peers run in separate processes and are measured alternately, in blocks; the medians of the
blocks are reported, so that disturbances affect all peers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import rclpy

from benchmark.latency_nodes import KINDS, SEVERAL, Peer, Probe
from benchmark.measuring import Figures, Results, in_turns
from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.cli.processes import own_domain
from robot_dynamics_ros.spatial.scalar import Array

LISTENERS = ('monitor', 'record')
_BASE = 'typed echo'
#: Round trips before switching to another peer, and warm-up trips that are not counted.
_SPAN, _WAKING = 50, 5
#: A program that keeps a processor busy, and the number of instances.
_BUSY, _BUSY_LOOPS = (sys.executable, '-c', 'while True: pass'), 3
#: Resamplings of the blocks to estimate the uncertainty of a ratio.
_DRAWS = 1000


def main(args: argparse.Namespace, results: Results) -> int:
    """Latency from a state to its command over DDS.

    A round trip begins just before a state is published and ends in the callback of the command
    that answers it; probe and peers are processes that communicate over DDS, measured alternately,
    50 messages at a time.

    The typed echo is the minimum of a usual Python node: it answers every state by its positions.
    Ratios of p99 have the range of nine of ten resamplings of the blocks.

    Four controllers in one process share one thread of Python: each arm at 1 kHz or above should
    have its own process and processor.
    """
    with own_domain() as domain:
        os.environ |= {'ROS_DOMAIN_ID': str(domain), 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'}
        rclpy.init()
        for run, rows in comparison(args).items():
            results.table(f'{run}, us', [*_rows(rows)], peers=rows)
        rclpy.try_shutdown()
    return 0


def comparison(args: argparse.Namespace) -> Figures:
    """Return times of round trips, us: one after the other, periodic, and with busy loops.

    Trips longer than a period are late; one after the other those longer than 1 ms. With listeners
    a second controller, to which they listen, is compared with one that nobody listens to.
    """
    measure = partial(_alternate, args.blocks, args.messages)
    peers = {kind: Peer(kind) for kind in KINDS}
    with ExitStack() as stack:
        if args.beside:
            peers = {kind: peers[kind] for kind in (_BASE, 'controller')}
            peers[f'controller with {", ".join(args.beside)}'] = Peer('controller', 'w')
        else:
            peers[SEVERAL] = Peer(SEVERAL)
        probes = stack.enter_context(_answering(peers))
        if args.beside:
            *_, (name, peer) = peers.items()
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            stack.enter_context(processes([peer.listener(one, folder) for one in args.beside]))
            probes[name].wait_for_listeners(len(args.beside))
        single = {name: probe for name, probe in probes.items() if name != SEVERAL}
        results = {'one after the other': measure(single)}
        for hertz in (1000, 2000):
            results[f'at {hertz} Hz'] = measure(probes, hertz)
        if not args.beside:
            stack.enter_context(processes([_BUSY] * _BUSY_LOOPS))
            results[f'at 1000 Hz, {_BUSY_LOOPS} busy loops in parallel'] = measure(probes, 1000)
    return results


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


def _rows(results: Mapping[str, Mapping[str, float]]) -> Iterator[dict[str, Any]]:
    base = results[_BASE]
    for name, row in results.items():
        ratio = f'{row["p99"] / base["p99"]:.2f} ({row["low"]:.2f} to {row["high"]:.2f})'
        times = {key: row[key] for key in ('p50', 'p99', 'worst')}
        ratios = {'p50 / echo': row['p50'] / base['p50'], 'p99 / echo': ratio}
        yield {'node': name, **times, **ratios, 'late': f'{row["missed"]:.2%}'}


OPTIONS = {
    '--beside': option((), 'with these beside it', nargs='+', choices=LISTENERS),
    '--blocks': option(9, 'blocks per peer'),
    '--messages': option(400, 'messages per block'),
}
