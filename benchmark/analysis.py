# SPDX-License-Identifier: Apache-2.0
"""Compare analyzing a ten-minute 1 kHz recording with only deserializing it; time and memory."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.highlevel import AnyReader

from benchmark.measuring import apart, save, show_rows
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.metrics.bag_analysis import AnalysisSettings, analyze_bag
from robot_dynamics_ros.recordings.reading import write_recording
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.symbolic.kernel import compile_kernel

PERIOD_NS = 1_000_000
MINUTES = (1.0, 10.0)
ROUNDS = 2
_TIMEOUT_S = 3600.0  # timeout of one run


def main(arguments: Sequence[str] = ()) -> int:
    """Measure, print and write ``out/benchmark/analysis.json``."""
    parser = argparse.ArgumentParser(prog='python -m benchmark analysis', description=__doc__)
    parser.add_argument('--minutes', type=float, nargs='+', default=MINUTES)
    parser.add_argument('--rounds', type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    measured = []
    with tempfile.TemporaryDirectory(prefix='benchmark_analysis_') as folder:
        for length in options.minutes:
            bag = Path(folder) / f'bag_{length:g}'
            size = write_bag(bag, round(length * 60_000))
            figures = measure(bag, options.rounds)
            measured.append({'min': length, 'MB': size * 1e-6, **figures})
    title = '1 kHz recording of four joints: states, commands, references'
    show_rows(title, measured, width=120)
    print(
        'rosbags: only deserializing every message; analyze: metrics, rows.csv, report.\n'
        'Processor seconds, minimum of the rounds; wall: wall time'
    )
    save('analysis.json', measured)
    return 0


def write_bag(path: Path, count: int) -> int:
    """Write a run of the SCARA with ``count`` states at 1 kHz; return its size in bytes.

    States follow semi-implicit steps and the efforts are those of the model, as in a simulator.
    """
    tree = load_robot(shipped_robot('scara'))
    kernels = compile_kernel(tree, outputs=('inverse_dynamics',))
    h = PERIOD_NS * 1e-9
    t = h * np.arange(-1, count + 1)
    w = np.array([1.1, 1.7, 2.3, 2.9])
    q = np.array([0.0, 0.3, 0.12, 0.0]) + [0.6, 0.5, 0.05, 1.0] * np.sin(w * t[:, np.newaxis])
    v = np.diff(q, axis=0) / h
    q, a = q[1:-1], np.diff(v, axis=0) / h
    friction = tree.damping * v[1:] + tree.coulomb_friction * np.tanh(v[1:] / 1e-3)
    tau = kernels.batch('inverse_dynamics', q, v[:-1], a) + tree.armature * a + friction
    names, reference = tree.joint_names, (q + 1e-4, v[:-1])
    run = Recording(names, t[1:-1], q, v[:-1], tau, *reference, description=tree.xml)
    write_recording(path, run)
    return sum(file.stat().st_size for file in path.iterdir())


def measure(bag: Path, rounds: int = ROUNDS) -> dict[str, float]:
    """Return the minimum time and the peak memory of each, in separate processes.

    The processes run alternately. Times in s are processor times of all threads, so that other
    load on the machine has little effect; ``wall`` is wall time.
    """
    contenders = {'rosbags': deserialize, 'analyze': analyze, 'figures': analyze_figures}
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, work in contenders.items():
            figures = apart(cost, work, bag, limit_s=_TIMEOUT_S)
            if reason := figures.get('note'):
                raise RecordingError(f'bag {str(bag)!r}', f'was not read by {name}', reason)
            runs[name].append(figures)
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
