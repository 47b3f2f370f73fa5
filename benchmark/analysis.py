# SPDX-License-Identifier: Apache-2.0
"""Compare analyzing a ten-minute 1 kHz recording with only deserializing it; time and memory."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rosbags.highlevel import AnyReader

from benchmark.measuring import in_own_process, in_turns, save, show_rows
from robot_dynamics_ros.control.laws.registry import make_law
from robot_dynamics_ros.control.trajectories.motions import Sine
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.lockstep import SETTLE, run_lockstep, write_recording
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, analyze_bag
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

PERIOD_S = 1e-3
#: Motion of the joints: rad or m, and Hz.
CENTRE, AMPLITUDE = (0.0, 0.3, 0.12, 0.0), (0.6, 0.5, 0.05, 1.0)
FREQUENCY = (0.18, 0.27, 0.37, 0.46)
MINUTES = (1.0, 10.0)
ROUNDS = 2
_TIMEOUT_S = 3600.0  # timeout of one run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument('--minutes', type=float, nargs='+', default=MINUTES)
    parser.add_argument('--rounds', type=int, default=ROUNDS)


def main(args: argparse.Namespace) -> int:
    """Measure, print and write ``out/benchmark/analysis.json``."""
    measured = []
    with tempfile.TemporaryDirectory(prefix='benchmark_analysis_') as folder:
        for length in args.minutes:
            bag = Path(folder) / f'bag_{length:g}'
            size = write_bag(bag, 60.0 * length)
            figures = measure(bag, args.rounds)
            measured.append({'min': length, 'MB': size * 1e-6, **figures})
    title = '1 kHz recording of four joints: states, commands, references'
    show_rows(title, measured)
    print(
        'rosbags: only deserializing every message; analyze: metrics, rows.csv, report.\n'
        'Processor seconds, minimum of the rounds; wall: wall time'
    )
    save('analysis.json', measured)
    return 0


def write_bag(path: Path, seconds: float) -> int:
    """Write a simulated run of the SCARA at 1 kHz; return its size in bytes."""
    tree = load_robot(shipped_robot('scara'))
    law = make_law('computed_torque', tree, period=PERIOD_S)
    motion = Sine(CENTRE, AMPLITUDE, FREQUENCY, duration=seconds - SETTLE)
    write_recording(path, run_lockstep(MujocoPlant(tree, PERIOD_S), law, motion))
    return sum(file.stat().st_size for file in path.iterdir())


def measure(bag: Path, rounds: int) -> dict[str, float]:
    """Return the minimum time and the peak memory of each, in separate processes.

    The processes run alternately. Times in s are processor times of all threads, so that other
    load on the machine has little effect; ``wall`` is wall time.
    """
    contenders = {'rosbags': deserialize, 'analyze': analyze, 'figures': analyze_figures}
    runs = in_turns({name: partial(_run, work, bag) for name, work in contenders.items()}, rounds)
    least = {
        f'{name}\n{key}': min(run[key] for run in of)
        for key in ('s', 'wall, s')
        for name, of in runs.items()
    }
    peak = {f'{name}\npeak, MB': max(run['MB'] for run in of) for name, of in runs.items()}
    ratios = {
        f'ratio\n{key}': least[f'analyze\n{key}'] / least[f'rosbags\n{key}']
        for key in ('s', 'wall, s')
    }
    return least | ratios | peak


def _run(work: Callable[[Path], None], bag: Path) -> dict[str, Any]:
    """Return the cost of ``work`` in a separate process.

    Raises:
        RecordingError: It failed.
    """
    figures = in_own_process(cost, work, bag, limit_s=_TIMEOUT_S)
    if reason := figures.get('note'):
        raise RecordingError(f'bag {str(bag)!r}', f'was not read by {work.__name__}', reason)
    return figures


def deserialize(bag: Path) -> None:
    """Deserialize every message with rosbags, and do nothing else."""
    with AnyReader([bag]) as reader:
        for connection, _, data in reader.messages():
            reader.deserialize(data, connection.msgtype)


def analyze(bag: Path) -> None:
    """Run ``analyze BAG``: metrics, rows.csv, report."""
    with tempfile.TemporaryDirectory() as folder:
        analyze_bag(bag, AnalysisSettings(), Path(folder))


def analyze_figures(bag: Path) -> None:
    """Compute the metrics without writing files."""
    analyze_bag(bag, AnalysisSettings())


def cost(work: Callable[[Path], None], bag: Path) -> Iterator[dict[str, float]]:
    """Yield the cost of ``work``: processor time, s, wall time, s, peak memory, MB."""
    begin = time.process_time(), time.perf_counter()
    work(bag)
    end = time.process_time(), time.perf_counter()
    yield {'s': end[0] - begin[0], 'wall, s': end[1] - begin[1], 'MB': _peak_memory()}


def _peak_memory() -> float:
    """Return the peak resident memory of this process, MB.

    On Linux ``ru_maxrss`` of a new process includes the parent's memory, VmHWM does not.
    """
    lines = Path('/proc/self/status').read_text(encoding='utf-8').splitlines()
    peak = next(line for line in lines if line.startswith('VmHWM:'))
    return float(peak.split()[1]) * 1.024e-3
