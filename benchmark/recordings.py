# SPDX-License-Identifier: Apache-2.0
"""Cost of ``analyze`` compared with only reading a recording."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from rosbags.highlevel import AnyReader

from benchmark.measuring import Results, in_own_process, in_turns
from robot_dynamics_ros.cli.arguments import option
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.planning.motions import Sine
from robot_dynamics_ros.recordings.lockstep import SETTLE, simulate, write_recording
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, analyze_bag
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

PERIOD_S = 1e-3
#: Motion of the joints: rad or m, and Hz.
CENTRE, AMPLITUDE = (0.0, 0.3, 0.12, 0.0), (0.6, 0.5, 0.05, 1.0)
FREQUENCY = (0.18, 0.27, 0.37, 0.46)


def main(args: argparse.Namespace, results: Results) -> int:
    """Analyzing a recording, and only reading it: time and memory.

    A 1 kHz run of the SCARA with states, commands and references. *rosbags*: only deserializing
    every message; *analyze*: metrics, `rows.csv` of at most 100 000 rows, `report.html`. Each runs
    in a process of its own, alternately: processor seconds of all threads, the minimum of the
    rounds.
    """
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        for length in args.minutes:
            bag = Path(folder) / f'bag_{length:g}'
            size = write_bag(bag, 60.0 * length)
            measured.append({'min': length, 'MB': size * 1e-6, **analysis_costs(bag, args.rounds)})
    results.table('1 kHz recording of four joints: states, commands, references', measured)
    return 0


def write_bag(path: Path, seconds: float) -> int:
    """Write a simulated run of the SCARA at 1 kHz; return its size in bytes."""
    tree = load_robot(shipped_robot('scara'))
    session = ControllerSession(tree, {'law': 'computed_torque', 'period': PERIOD_S})
    motion = Sine(CENTRE, AMPLITUDE, FREQUENCY, duration=seconds - SETTLE)
    write_recording(path, simulate(session, MujocoPlant(tree, PERIOD_S), motion))
    return sum(file.stat().st_size for file in path.iterdir())


def analysis_costs(bag: Path, rounds: int) -> dict[str, float]:
    """Return the minimum time and the peak memory of each, in separate processes.

    The processes run alternately. Times in s are processor times of all threads, so that other
    load on the machine has little effect; ``wall`` is wall time.
    """
    contenders = {'rosbags': deserialize, 'analyze': analyze, 'figures': analyze_figures}
    runs = in_turns(
        {name: partial(in_own_process, cost, work, bag) for name, work in contenders.items()},
        rounds,
    )

    def chosen(key: str, choose: Callable[[Iterator[float]], float]) -> dict[str, float]:
        return {f'{name}\n{key}': choose(run[key] for run in of) for name, of in runs.items()}

    times = chosen('s', min) | chosen('wall, s', min)
    for key in ('s', 'wall, s'):
        times[f'ratio\n{key}'] = times[f'analyze\n{key}'] / times[f'rosbags\n{key}']
    return times | chosen('peak, MB', max)


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


def cost(work: Callable[[Path], None], bag: Path) -> dict[str, float]:
    """Return the cost of ``work``: processor time, s, wall time, s, peak memory, MB.

    On Linux ``ru_maxrss`` of a new process includes the parent's memory, VmHWM does not.
    """
    used, begin = time.process_time(), time.perf_counter()
    work(bag)
    seconds = {'s': time.process_time() - used, 'wall, s': time.perf_counter() - begin}
    status = Path('/proc/self/status').read_text(encoding='utf-8')
    return seconds | {'peak, MB': float(status.partition('VmHWM:')[2].split()[0]) * 1.024e-3}


OPTIONS = {
    '--minutes': option((1.0, 10.0), 'lengths of the recordings', type=float, nargs='+'),
    '--rounds': option(2, 'runs of each'),
}
