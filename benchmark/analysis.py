# SPDX-License-Identifier: Apache-2.0
"""Analysis of a ten-minute 1 kHz recording against only deserializing it with rosbags; memory."""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore

from benchmark.measuring import apart, save, show
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.bag.reader import BagWriter
from robot_dynamics_ros.recordings.metrics.bag_analysis import Task, analyze_bag
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_HEADINGS = (
    'min', 'MB', 'rosbags\ns', 'analyze\ns', 'figures\nonly, s', 'ratio', 'rosbags\nwall, s',
    'analyze\nwall, s', 'ratio', 'rosbags\npeak, MB', 'analyze\npeak, MB',
)  # fmt: skip
PERIOD_NS = 1_000_000
MINUTES = (1.0, 10.0)
ROUNDS = 2
_PATIENCE_S = 3600.0  # of one piece of work
_STATES, _COMMANDS = '/joint_states', '/effort_controller/commands'
_REFERENCE, _DESCRIPTION = '/controller/reference', '/robot_description'
_JOINT_STATE, _EFFORTS = 'sensor_msgs/msg/JointState', 'std_msgs/msg/Float64MultiArray'


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
            measured.append({'minutes': length, 'megabytes': size * 1e-6, **figures})
    title = '1 kHz recording of four joints: states, commands, references'
    show(title, _HEADINGS, (figures.values() for figures in measured), width=120)
    print(
        'rosbags: only deserializing every message; analyze: figures, rows.csv, report.\n'
        'Seconds of processors, the least of the rounds; wall: by the clock'
    )
    save('analysis.json', measured)
    return 0


def write_bag(path: Path, count: int) -> int:
    """Write a run of the SCARA of so many states at 1 kHz; return its size in bytes.

    States obey semi-implicit steps and the efforts are those of the model, as a simulator has it.
    """
    tree = load_robot(shipped_robot('scara'))
    kernels = compile_kernel(tree, outputs=('inverse_dynamics',))
    h = PERIOD_NS * 1e-9
    t = h * np.arange(-1, count + 1)[:, np.newaxis]
    w = np.array([1.1, 1.7, 2.3, 2.9])
    q = np.array([0.0, 0.3, 0.12, 0.0]) + np.array([0.6, 0.5, 0.05, 1.0]) * np.sin(w * t)
    v = np.diff(q, axis=0) / h
    q, a = q[1:-1], np.diff(v, axis=0) / h
    v_now, v_next = v[:-1], v[1:]
    friction = tree.damping * v_next + tree.coulomb_friction * np.tanh(v_next / 1e-3)
    tau = kernels.batch('inverse_dynamics', q, v_now, a) + tree.armature * a + friction
    store = get_typestore(Stores.ROS2_JAZZY)
    with BagWriter(path) as bag:
        bag.add_topic(_DESCRIPTION, 'std_msgs/msg/String', latched=True)
        text = store.types['std_msgs/msg/String'](data=tree.xml)
        bag.write(_DESCRIPTION, 0, bytes(store.serialize_cdr(text, 'std_msgs/msg/String')))
        streams = {
            _STATES: (_JOINT_STATE, _states(store, tree.joint_names, q, v_now)),
            _COMMANDS: (_EFFORTS, _efforts(store, tau)),
            _REFERENCE: (_JOINT_STATE, _states(store, tree.joint_names, q + 1e-4, v_now)),
        }
        for topic, (kind, _) in streams.items():
            bag.add_topic(topic, kind)
        for k in range(count):
            for topic, (_, rows) in streams.items():
                bag.write(topic, k * PERIOD_NS, rows[k].tobytes())
    return sum(file.stat().st_size for file in path.iterdir())


def _states(store: Any, names: tuple[str, ...], q: Any, v: Any) -> Any:
    """Return serialized joint states as rows of bytes: one message, its numbers replaced."""
    marks = [np.full(len(names), 1.5), np.full(len(names), 2.5)]
    stamp = store.types['builtin_interfaces/msg/Time'](sec=0, nanosec=0)
    header = store.types['std_msgs/msg/Header'](stamp=stamp, frame_id='')
    message = store.types[_JOINT_STATE](header, list(names), *marks, np.zeros(0))
    rows = _copies(store, message, _JOINT_STATE, len(q))
    stamps = np.arange(len(q), dtype=np.int64) * PERIOD_NS
    seconds = np.column_stack([stamps // 10**9, stamps % 10**9]).astype('<u4')
    rows[:, 4:12] = seconds.view(np.uint8).reshape(len(q), 8)
    for mark, values in zip(marks, (q, v), strict=True):
        _replace(rows, mark, values)
    return rows


def _efforts(store: Any, tau: Any) -> Any:
    layout = store.types['std_msgs/msg/MultiArrayLayout'](dim=[], data_offset=0)
    mark = np.full(tau.shape[1], 1.5)
    rows = _copies(store, store.types[_EFFORTS](layout=layout, data=mark), _EFFORTS, len(tau))
    _replace(rows, mark, tau)
    return rows


def _copies(store: Any, message: Any, kind: str, count: int) -> Any:
    data = bytes(store.serialize_cdr(message, kind, little_endian=True))
    return np.tile(np.frombuffer(data, np.uint8), (count, 1))


def _replace(rows: Any, mark: Any, values: Any) -> None:
    at = rows[0].tobytes().index(mark.tobytes())
    flat = np.ascontiguousarray(values).view(np.uint8)
    rows[:, at : at + 8 * len(mark)] = flat.reshape(len(rows), -1)


def measure(bag: Path, rounds: int = ROUNDS) -> dict[str, float]:
    """Return the least seconds and the peak memory of each, always in a process of its own.

    They take turns. Seconds are those in which a processor worked for the process, all threads
    together, so that others on the machine hardly count; ``wall`` is by the clock.
    """
    contenders = {'rosbags': deserialize, 'analyze': analyze, 'figures': analyze_figures}
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, work in contenders.items():
            figures = apart(cost, work, bag, limit_s=_PATIENCE_S)
            if reason := figures.get('note'):
                raise RecordingError(f'bag {str(bag)!r}', f'was not read by {name}', reason)
            runs[name].append(figures)
    worked, wall = (
        {name: min(run[key] for run in of) for name, of in runs.items()} for key in ('s', 'wall_s')
    )
    peak = {name: max(run['mb'] for run in of) for name, of in runs.items()}
    return {
        'rosbags_s': worked['rosbags'],
        'analyze_s': worked['analyze'],
        'figures_only_s': worked['figures'],
        'ratio': worked['analyze'] / worked['rosbags'],
        'rosbags_wall_s': wall['rosbags'],
        'analyze_wall_s': wall['analyze'],
        'wall_ratio': wall['analyze'] / wall['rosbags'],
        'rosbags_mb': peak['rosbags'],
        'analyze_mb': peak['analyze'],
    }


def deserialize(bag: Path) -> None:
    """Deserialize every message with rosbags, and do nothing else."""
    with AnyReader([bag]) as reader:
        for connection, _, data in reader.messages():
            reader.deserialize(data, connection.msgtype)


def analyze(bag: Path) -> None:
    """Do what ``analyze BAG`` does: figures, rows.csv, report."""
    with tempfile.TemporaryDirectory() as folder:
        analyze_bag(bag, Task(), Path(folder))


def analyze_figures(bag: Path) -> None:
    """Compute the figures and write nothing."""
    analyze_bag(bag, Task())


def cost(work: Callable[[Path], None], bag: Path) -> Iterator[dict[str, float]]:
    """Yield what some work takes: seconds of processors, seconds by the clock, peak memory."""
    begin = time.process_time(), time.perf_counter()
    work(bag)
    end = time.process_time(), time.perf_counter()
    yield {'s': end[0] - begin[0], 'wall_s': end[1] - begin[1], 'mb': _peak_memory()}


def _peak_memory() -> float:
    """Return the peak of the resident memory of this process, MB.

    Linux counts the parent's into ``ru_maxrss`` of a new process, but not into VmHWM.
    """
    status = Path('/proc/self/status')
    if status.is_file():
        for line in status.read_text(encoding='utf-8').splitlines():
            if line.startswith('VmHWM:'):
                return float(line.split()[1]) * 1.024e-3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1.024e-3
