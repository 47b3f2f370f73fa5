# SPDX-License-Identifier: Apache-2.0
"""Measure both arms in free-running Gazebo: tracking, achieved rate, real-time factor, start.

Needs a sourced ROS 2 with this package, ros_gz_bridge and Gazebo; each run starts
``ros2 launch robot_dynamics_ros gazebo.launch.py``.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.measuring import OUT, Figures, note, save, show
from robot_dynamics_ros.errors import SceneError
from robot_dynamics_ros.messages import stamp_ns
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.recordings.metrics.tracking import tracking_metrics
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.spatial.scalar import Array

#: Robot, law, and whether the joints have Coulomb friction.
RUNS = (
    ('scara', 'computed_torque', False),
    ('scara', 'computed_torque', True),
    ('scara', 'pd_gravity', True),
    ('four_dof', 'computed_torque', False),
    ('four_dof', 'computed_torque', True),
    ('four_dof', 'pd_gravity', True),
)
_SENT = re.compile(r'from t = ([\d.]+) s to t = ([\d.]+) s, after an approach of ([\d.]+) s')
_READY_SECONDS, _SLOWEST, _END_SECONDS = 90.0, 2.0, 30.0


def gazebo_benchmark() -> int:
    """Run every arm in free-running Gazebo: tracking, rate, start; 0 without Gazebo."""
    if shutil.which('ros2') is None or shutil.which('gz') is None:
        note('gazebo: skipped; it needs a sourced ROS 2 and Gazebo (docs/gazebo.md)')
        return 0
    runs = []
    for robot, law, coulomb_friction in RUNS:
        note(f'{robot}, {law}, Coulomb friction {"on" if coulomb_friction else "off"} ...')
        runs.append(measure(robot, law, coulomb_friction))
    for robot in dict.fromkeys(robot for robot, _, _ in RUNS):
        show(robot, [_row(run) for run in runs if run['robot'] == robot])
    save('gazebo.json', {'runs': runs})
    return 0


def measure(robot: str, law: str, coulomb_friction: bool) -> Figures:
    """Launch one arm, let it finish its motion, and evaluate the bag.

    Returns:
        As launched: robot, law, coulomb_friction. ``metrics``: tracking from the end of the
        approach to the end of the motion. ``start_deviation``: largest displacement of any joint
        before its motion, rad or m. ``rate_hz``: commands per second of simulated time.
        ``answered``: share of Gazebo's states, 1 kHz, that got their own command.
        ``gap_p99_ms``: 99th percentile of the time from one command to the next, ms.
        ``real_time_factor``: simulated time per wall time.

    Raises:
        SceneError: The launch failed or did not finish.
    """
    name = f'{robot}_{law}_{"dry" if coulomb_friction else "smooth"}'
    folder = OUT / 'gazebo' / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    friction = f'coulomb_friction:={str(coulomb_friction).lower()}'
    start, end, approach = _launch(
        folder, f'robot:={robot}', f'law:={law}', friction, f'bag:={folder.resolve() / "bag"}'
    )
    with BagReader(folder / 'bag') as bag:
        tree = load_robot(bag.first('/robot_description').data)
        run, states = _pairs(bag, tree)
        factor = _real_time_factor(bag)
    begin = start + approach
    if run.time[-1] < end:
        raise SceneError(name, f'ended at {run.time[-1]:.2f} s', f'the motion ends at {end:.2f} s')
    inside = run.time[(run.time >= begin) & (run.time <= end)]
    due = (states >= begin) & (states <= end)
    before = run.position[run.time < start]
    return {
        'robot': robot,
        'law': law,
        'coulomb_friction': coulomb_friction,
        'metrics': asdict(tracking_metrics(run, tree, (begin, end))),
        'start_deviation': np.abs(before - before[0]).max(),
        'rate_hz': len(inside) / (end - begin),
        'answered': len(inside) / int(due.sum()),
        'gap_p99_ms': float(1e3 * np.percentile(np.diff(inside), 99)),
        'real_time_factor': factor,
    }


def _launch(folder: Path, *arguments: str) -> tuple[float, float, float]:
    """Run one launch until its motion is over; return its start, end and approach time, s."""
    command = ['ros2', 'launch', 'robot_dynamics_ros', 'gazebo.launch.py', 'gui:=false']
    log = folder / 'launch.log'
    with log.open('wb') as out:
        process = subprocess.Popen(
            [*command, 'record:=true', *arguments], stdout=out, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            sent = _SENT.search(log.read_text(encoding='utf-8'))
            if sent and 'world unpaused' in log.read_text(encoding='utf-8'):
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise SceneError('the launch', 'did not become ready', f'see {log}')
            time.sleep(0.2)
        start, end, approach = map(float, sent.groups())
        time.sleep(_SLOWEST * end)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(_END_SECONDS)
    return start, end, approach


def _pairs(bag: BagReader, tree: RobotTree) -> tuple[Recording, Array]:
    """Return the states that have a reference with the same timestamp, and all times, s."""
    states, references = dict[int, Any](), dict[int, Any]()
    topics = {'/joint_states': states, '/controller/reference': references}
    for topic, _, message in bag.messages(*topics):
        topics[topic][stamp_ns(message)] = message
    stamps = sorted(states.keys() & references.keys())

    def rows(messages: Mapping[int, Any], field: str) -> Array:
        named = (
            dict(zip(messages[s].name, getattr(messages[s], field), strict=True)) for s in stamps
        )
        return np.array([[values[name] for name in tree.joint_names] for values in named])

    recording = Recording(
        joints=tree.joint_names,
        time=np.array(stamps) * 1e-9,
        position=rows(states, 'position'),
        velocity=rows(states, 'velocity'),
        effort=rows(references, 'effort'),
        reference_position=rows(references, 'position'),
        reference_velocity=rows(references, 'velocity'),
    )
    return recording, np.array(sorted(states)) * 1e-9


def _real_time_factor(bag: BagReader) -> float:
    """Return it from the diagnostics, sent once per second of wall time with simulated time."""
    times = [1e-9 * stamp_ns(message) for _, _, message in bag.messages('/diagnostics')]
    running = [a for a, b in zip(times, times[1:], strict=False) if a > 0.0 and b > a]
    return (running[-1] - running[0]) / (len(running) - 1)


def _row(run: Figures) -> dict[str, str]:
    """Return the results of a run as printed."""
    metrics, friction = run['metrics'], '' if run['coulomb_friction'] else 'no '
    row = {'': f'{run["law"]}\n{friction}Coulomb friction'}
    errors = (metrics[name] for name in ('joints', 'rms_error', 'peak_error'))
    for joint, rms, peak in zip(*errors, strict=True):
        row[f'{joint} RMS / peak,\nmrad or mm'] = f'{1e3 * rms:.2f} / {1e3 * peak:.2f}'
    return row | {
        'tool RMS / peak,\nmm': f'{metrics["tool_rms_mm"]:.2f} / {metrics["tool_peak_mm"]:.2f}',
        'commands\nper second': f'{run["rate_hz"]:.0f}',
        'states\nanswered, %': f'{100 * run["answered"]:.1f}',
        'time between\ncommands p99, ms': f'{run["gap_p99_ms"]:.1f}',
        'real-time\nfactor': f'{run["real_time_factor"]:.2f}',
        'deviation before\nthe motion': f'{run["start_deviation"]:.1e}',
    }
