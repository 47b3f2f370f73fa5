# SPDX-License-Identifier: Apache-2.0
"""Simulate arms under each control law over ROS 2, record and report."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from robot_dynamics_ros.cli.arguments import JOINTS, MAPPING, ROBOT_HELP, SETUP, Command, option
from robot_dynamics_ros.cli.new_robot import parameter_file
from robot_dynamics_ros.cli.processes import (
    SHOWN,
    SceneProcesses,
    begin_motion,
    print_outside_band,
    run_recorded,
    shown_scenes,
)
from robot_dynamics_ros.cli.scene import SCENES, run_scenes
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.recordings.metrics.tracking import (
    TrackingMetrics,
    tool_frame,
    tracking_metrics,
)
from robot_dynamics_ros.recordings.output_folder import write_json
from robot_dynamics_ros.recordings.reading import read_recording
from robot_dynamics_ros.recordings.report.runs import write_tracking_report
from robot_dynamics_ros.ros.controller.parameters import lockstep_parameters

#: Start time of the trajectory, s; before it, the controller is activated and settles.
START_S = 0.5
_RUN_SECONDS = 900.0
_END = re.compile(r'to t = ([0-9.]+) s')
_COMMANDS = '/effort_controller/commands'


#: Minimum ratios of RMS errors, PD + gravity to computed torque: of each joint, of the tool.
JOINT_RATIO, TOOL_RATIO = 20.0, 50.0


@dataclass(frozen=True)
class Arm:
    """An arm to run: its name, a shipped robot or a parameter file, and the tool frame."""

    name: str
    source: str | Path
    frame: str = 'tool'


@dataclass(frozen=True)
class DemoRun:
    """Results of one arm under one law."""

    robot: str
    law: str
    metrics: TrackingMetrics
    prismatic: tuple[bool, ...]
    latency_p50_us: float
    latency_p99_us: float

    def as_dict(self) -> dict[str, Any]:
        """Return the results for JSON."""
        latency = {'p50': self.latency_p50_us, 'p99': self.latency_p99_us}
        return {
            'robot': self.robot,
            'law': self.law,
            **vars(self.metrics),
            'latency_us': latency,
        }


LAWS = ('pd_gravity', 'computed_torque')
ROBOTS = ('scara', 'four_dof')
_TITLES = {'pd_gravity': 'PD + gravity', 'computed_torque': 'computed torque'}


def run(args: argparse.Namespace) -> int:
    """Run every arm under every law, then every scene; return 1 if one is out of tolerance."""
    console = Console()
    if args.view:
        os.environ[SHOWN] = '1'
        console.print('open http://127.0.0.1:8080 in a browser')
    arms = _arms(args)
    robots = [arm.name for arm in arms]
    laws = [args.law] if args.law else LAWS
    runs: dict[tuple[str, str], DemoRun] = {}
    with shown_scenes(console) as show:
        for arm in arms:
            for law in laws:
                tell = show(f'{arm.name}, {_TITLES[law]}')
                runs[arm.name, law] = run_scene(arm, law, args.out / arm.name / law, tell)
    for robot in robots:
        _print(console, [run for (name, _), run in runs.items() if name == robot])
    problems = [text for robot in robots for text in outside_band(runs, robot)]
    print_outside_band(console, problems)
    console.print(f'recordings, metrics and reports: {args.out}/<arm>/<law>/\n')
    outside, parents = 0, Path(sys.executable).parents
    last = args.out / arms[-1].name / laws[-1] / 'bag'
    if not (args.robot or args.one or args.law or args.no_scenes):
        outside = run_scenes(SCENES, args.out / 'scenes', console)
        last = args.out / 'scenes' / list(SCENES)[-1] / 'bag'
    python = os.path.relpath(sys.executable) if Path.cwd() in parents else sys.executable
    console.print(f'see the last run: {python} -m robot_dynamics_ros view {last}', soft_wrap=True)
    return 1 if problems or outside else 0


def _arms(args: argparse.Namespace) -> list[Arm]:
    """Return the selected arms; plan the motion of a user-supplied one."""
    args.robot = args.robot or args.one
    if args.robot is None:
        return [Arm(name, name) for name in ROBOTS]
    settings = parameter_file(args)
    if settings.parent.name == 'config':
        return [Arm(args.robot, args.robot)]
    tree = load_robot(settings.with_name('robot.urdf'))
    return [Arm(tree.name or 'arm', settings, tool_frame(tree, args.frame or args.tip))]


def run_scene(arm: Arm, law: str, out: Path, tell: Callable[[float, float], None]) -> DemoRun:
    """Run one arm under one law in its own processes; write bag, metrics and report.

    Args:
        arm: The arm.
        law: The control law.
        out: Folder of the results; previous content is replaced.
        tell: Callback that receives the simulated time and its end, s.

    Raises:
        SceneError: A node failed, or the trajectory was rejected.
        PeerTimeoutError: A node did not become ready or did not exit.
    """
    start = partial(_start, arm.source, law)
    bag = run_recorded(out, start, _RUN_SECONDS, tell)
    return _evaluate(arm, law, bag, out)


def _start(robot: str | Path, law: str, nodes: SceneProcesses, bag: Path) -> float:
    """Start the nodes of a scene; return its end time, s, once the simulation runs."""
    lockstep = {'mode': 'lockstep', 'start_paused': True, 'on_end': 'exit'}
    nodes.start('recorder', 'record', {'bag': str(bag), 'progress': True}, robot)
    control = {'law': law, 'await_listeners': ['recorder'], **lockstep_parameters()}
    nodes.start('controller', 'control', control, robot)
    nodes.start('simulator', 'simulate', lockstep, robot)
    begin_motion(nodes, robot, {'start_time_s': START_S, 'end_simulator': True})
    return float(_END.findall(nodes.output('trajectory'))[-1])


def _evaluate(arm: Arm, law: str, bag: Path, out: Path) -> DemoRun:
    recording = read_recording(bag)
    tree = load_robot(recording.description)
    window = (START_S, float(recording.time[-1]))
    metrics = tracking_metrics(recording, tree, window, arm.frame)
    with BagReader(bag) as reader:
        remarks = reader.remarks
    run = DemoRun(
        arm.name,
        law,
        metrics,
        tree.slides,
        float(remarks[f'{_COMMANDS} latency_p50_us']),
        float(remarks[f'{_COMMANDS} latency_p99_us']),
    )
    write_json(out / 'metrics.json', run.as_dict())
    write_tracking_report(
        out / 'report.html',
        f'{arm.name} under {_TITLES[law]}',
        'Recorded over ROS 2 in lockstep with the simulator, 1 kHz.',
        recording,
        tree,
        metrics,
        arm.frame,
    )
    return run


def outside_band(runs: dict[tuple[str, str], DemoRun], robot: str) -> list[str]:
    """Return where computed torque improves on PD + gravity by less than the required ratio."""
    pair = [runs.get((robot, law)) for law in ('pd_gravity', 'computed_torque')]
    if pair[0] is None or pair[1] is None:
        return []
    pd, torque = pair[0].metrics, pair[1].metrics
    problems = []
    for i, joint in enumerate(pd.joints):
        ratio = pd.rms_error[i] / torque.rms_error[i]
        if not ratio >= JOINT_RATIO:
            problems.append(f'{robot} {joint}: {ratio:.1f} times, {JOINT_RATIO:g} required')
    ratio = pd.tool_rms_mm / torque.tool_rms_mm
    if not ratio >= TOOL_RATIO:
        problems.append(f'{robot} tool: {ratio:.1f} times, {TOOL_RATIO:g} required')
    return problems


def _print(console: Console, runs: list[DemoRun]) -> None:
    """Print the runs of one arm: rows for each joint, a column for each law."""
    table = Table(title=f'\n{runs[0].robot}', title_justify='left', title_style='bold')
    table.add_column('')
    for run in runs:
        table.add_column(_TITLES[run.law], justify='right')
    for i, joint in enumerate(runs[0].metrics.joints):
        unit, force = ('m', 'N') if runs[0].prismatic[i] else ('rad', 'N m')
        table.add_row(
            f'{joint} RMS / peak error, {unit}',
            *(f'{r.metrics.rms_error[i]:.6e} / {r.metrics.peak_error[i]:.2e}' for r in runs),
        )
        table.add_row(
            f'{joint} peak effort of limit, {force}',
            *(f'{r.metrics.peak_effort[i]:.2f} of {r.metrics.effort_limit[i]:g}' for r in runs),
        )
    table.add_section()
    rows: dict[str, Callable[[DemoRun], str]] = {
        'tool RMS / peak error, mm': lambda r: (
            f'{r.metrics.tool_rms_mm:.6g} / {r.metrics.tool_peak_mm:.3g}'
        ),
        'saturated ticks': lambda r: str(sum(r.metrics.saturated_ticks)),
        'commands': lambda r: str(r.metrics.commands),
        'latency state to effort p50 / p99, us': lambda r: (
            f'{r.latency_p50_us:.0f} / {r.latency_p99_us:.0f}'
        ),
    }
    for name, text in rows.items():
        table.add_row(name, *map(text, runs))
    console.print(table)


COMMANDS = {
    'demo': Command(
        run,
        {
            'robot': option(
                None, f'only this arm: {ROBOT_HELP} (default: both shipped arms)', nargs='?'
            ),
            **MAPPING,
            '--robot': option(None, 'same as the first argument', dest='one'),
            **JOINTS,
            **SETUP,
            '--law': option(None, 'only this law', choices=LAWS),
            '--no-scenes': option(False, 'skip the constraint-stabilization scenes'),
            '--view': option(False, 'show every run in a browser: http://127.0.0.1:8080'),
            '--out': option(Path('out'), 'folder of the results'),
        },
    )
}
