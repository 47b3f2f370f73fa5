# SPDX-License-Identifier: Apache-2.0
"""Fuzz robots, programs, loops, profiles, parameters, trajectories, bags, command lines.

Every input must be accepted, or rejected in one clear line: an error of this package. Anything
else is a violation: another exception, a message of several lines or of thousands of characters,
more than ten seconds of processor time, more than a gigabyte. Every input has its own random
number generator, so ``--kind KIND --first I --inputs 1`` reproduces a single one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil

from benchmark.fuzz_kinds import KINDS
from benchmark.measuring import show, with_progress
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.recordings.bag_jobs import run_jobs

LONGEST_S, MOST_BYTES, LONGEST_MESSAGE = 10.0, 1 << 30, 5000
_CHUNK = 250


@dataclass
class Tally:
    """Results of the inputs of a kind.

    Attributes:
        accepted, refused: Number of accepted and of rejected inputs.
        slowest: Longest processor time of an input, s.
        breaches: Index and description of each violation.
    """

    accepted: int = 0
    refused: int = 0
    slowest: float = 0.0
    breaches: list[tuple[int, str]] = field(default_factory=list)

    def count(self, index: int, verdict: str, said: str, seconds: float) -> None:
        """Count an input: 'accepted', 'refused' or 'breach', its message, and its time, s."""
        self.slowest = max(self.slowest, seconds)
        if verdict == 'breach':
            self.breaches.append((index, ' '.join(said.split())[:300]))
        else:
            setattr(self, verdict, getattr(self, verdict) + 1)

    def add(self, other: Tally) -> None:
        """Add the results of further inputs."""
        self.accepted += other.accepted
        self.refused += other.refused
        self.slowest = max(self.slowest, other.slowest)
        self.breaches += other.breaches


def text_of(kind: str, index: int, seed: int) -> tuple[str, int]:
    """Return an input of the campaign, and the index of its seed text."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind), index])
    seeds = KINDS[kind].seeds()
    origin = int(rng.integers(len(seeds)))
    return KINDS[kind].mutate(seeds[origin], rng), origin


def evaluate(kind: str, text: str, origin: int) -> tuple[str, str]:
    """Return 'accepted', 'refused' or 'breach' of an input, and its message."""
    try:
        with _time_limit(LONGEST_S), warnings.catch_warnings():
            warnings.simplefilter('ignore')
            KINDS[kind].read(text, origin)
    except RobotDynamicsError as error:
        said = str(error)
        clear = len(said.strip().splitlines()) == 1 and len(said) <= LONGEST_MESSAGE
        return ('refused' if clear else 'breach'), said
    except Exception as error:
        return 'breach', f'{type(error).__name__}: {error}'
    return 'accepted', ''


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Stop after a processor time, s, or after ten times that wall time."""

    def stop(*_: object) -> None:
        raise TimeoutError(f'longer than {seconds:g} s')

    timers = {signal.SIGPROF: signal.ITIMER_PROF, signal.SIGALRM: signal.ITIMER_REAL}
    before = {number: signal.signal(number, stop) for number in timers}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10.0 * seconds)
    try:
        yield
    finally:
        for number, timer in timers.items():
            signal.setitimer(timer, 0.0)
            signal.signal(number, before[number])


@cache
def _warm_up(kind: str) -> None:
    """Read every seed unchanged, so that no input includes the time of imports and loading."""
    for origin, text in enumerate(KINDS[kind].seeds()):
        with contextlib.suppress(RobotDynamicsError):
            KINDS[kind].read(text, origin)


def run_chunk(chunk: tuple[str, range], seed: int) -> Tally:
    """Read some inputs of a kind in a separate folder; nothing may be written elsewhere."""
    (kind, indices), tally = chunk, Tally()
    with memory_limited(), own_folder():
        _warm_up(kind)
        for index in indices:
            (text, origin), begin = text_of(kind, index, seed), time.process_time()
            verdict, said = evaluate(kind, text, origin)
            tally.count(index, verdict, said, time.process_time() - begin)
    return tally


@contextlib.contextmanager
def own_folder() -> Iterator[None]:
    """Work deep inside a temporary folder that also holds temporary files."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, 'a', 'b', 'here')  # paths upwards stay inside
        work.mkdir(parents=True)
        before = Path.cwd()
        os.chdir(work)
        try:
            with patch.object(tempfile, 'tempdir', folder):
                yield
        finally:
            os.chdir(before)


@contextlib.contextmanager
def memory_limited() -> Iterator[None]:
    """Limit a process to a gigabyte more than it begins with: beyond, a ``MemoryError``."""
    with contextlib.suppress(ImportError):
        import_module('llvmlite.binding')  # its library alone uses a tenth of it
    limits = resource.getrlimit(resource.RLIMIT_AS)
    most = psutil.Process().memory_info().vms + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def run(kinds: Sequence[str], inputs: int, seed: int, first: int = 0) -> dict[str, Tally]:
    """Run a campaign on all processors; return the results by kind.

    Args:
        kinds: Keys of ``KINDS``.
        inputs: Number of inputs of each kind.
        seed: Seed of all random numbers.
        first: Index of the first input.
    """
    indices = range(first, first + inputs)
    chunks = [(kind, indices[k : k + _CHUNK]) for k in range(0, inputs, _CHUNK) for kind in kinds]
    results = run_jobs(partial(run_chunk, seed=seed), chunks, _killed, jobs=0)
    tallies = {kind: Tally() for kind in kinds}
    for place, tally in with_progress(results, 'chunks', len(chunks), breaches_of):
        tallies[chunks[place][0]].add(tally)
    return tallies


def _killed(chunk: tuple[str, range], reason: str) -> Tally:
    return Tally(breaches=[(chunk[1][0], reason)])


def breaches_of(result: tuple[Any, Tally]) -> int:
    """Return the number of violations of a result, whose last part is a tally."""
    return len(result[1].breaches)


def report(tallies: dict[str, Tally]) -> None:
    """Print a table, and how to reproduce each kind of violation."""
    headings = ('kind', 'inputs', 'accepted', 'refused', 'breaches', 'slowest, s')
    rows = []
    for kind, tally in tallies.items():
        counts = tally.accepted, tally.refused, len(tally.breaches)
        rows.append((kind, sum(counts), *counts, tally.slowest))
    show('Mutated inputs', headings, rows)
    for kind, tally in tallies.items():
        sorts = Counter(said.partition(':')[0] for _, said in tally.breaches)
        for sort, count in sorts.most_common():
            index, said = next(b for b in tally.breaches if b[1].startswith(sort))
            print(f'{kind} --first {index}: {count} times {said}')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument('--inputs', type=int, default=15_000, help='of each kind')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--first', type=int, default=0, help='index of the first input')
    parser.add_argument('--kind', action='append', choices=KINDS, help='default: all')
    parser.add_argument('--processes', type=int, metavar='N', help='instead: number of inputs '
                        'of all kinds passed to the real command line (ROS 2)')  # fmt: skip
    parser.add_argument('--show', action='store_true', help='print the first input instead')


def main(args: argparse.Namespace) -> int:
    """Run the campaign and print it; return 1 if there is a violation."""
    kinds = args.kind or list(KINDS)
    if args.show:
        print(ascii(text_of(kinds[0], args.first, args.seed)[0]))
        return 0
    begin = time.perf_counter()
    if args.processes:
        from benchmark import fuzz_processes

        tallies = fuzz_processes.run(kinds, args.processes, args.seed, args.first)
    else:
        tallies = run(kinds, args.inputs, args.seed, args.first)
    report(tallies)
    used = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    print(f'seed {args.seed}, {time.perf_counter() - begin:.0f} s, processors {used:.0f} s')
    return int(any(tally.breaches for tally in tallies.values()))
