# SPDX-License-Identifier: Apache-2.0
"""Simulate arms under each control law over ROS 2, record and report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from robot_dynamics_ros.cli.arguments import JOINTS, MAPPING, ROBOT_HELP, SETUP, Command, option
from robot_dynamics_ros.cli.new_robot import parameter_file
from robot_dynamics_ros.cli.processes import (
    SHOWN,
    LockstepRun,
    Tell,
    print_outside_band,
    run_all,
)
from robot_dynamics_ros.cli.scene import SCENES, run_scenes
from robot_dynamics_ros.cli.tables import print_table
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
from robot_dynamics_ros.recordings.report.toolkit import ReportTable

#: Start time of the trajectory, s; before it, the controller is activated and settles.
START_S = 0.5
_COMMANDS = '/effort_controller/commands'

#: Minimum ratios of RMS errors, PD + gravity to computed torque: of each joint, of the tool.
JOINT_RATIO, TOOL_RATIO = 20.0, 50.0
LAWS = ('pd_gravity', 'computed_torque')
ROBOTS = ('scara', 'four_dof')
_TITLES = {'pd_gravity': 'PD + gravity', 'computed_torque': 'computed torque'}


class Arm(NamedTuple):
    """An arm to run: its name, a shipped robot or a parameter file, and the tool frame."""

    name: str
    source: str | Path
    frame: str = 'tool'


class DemoRun(NamedTuple):
    """Results of one arm under one law: metrics, which joints slide, latency percentiles, us."""

    law: str
    metrics: TrackingMetrics
    slides: tuple[bool, ...]
    latency: dict[str, float]


def run(args: argparse.Namespace) -> int:
    """Run every arm under every law, then every scene; return 1 if one is out of tolerance."""
    console = Console()
    if args.view:
        os.environ[SHOWN] = '1'
        console.print('open http://127.0.0.1:8080 in a browser')
    arms = _arms(args)
    laws = [args.law] if args.law else LAWS
    results = run_all(
        console,
        {
            f'{arm.name}, {_TITLES[law]}': partial(run_scene, arm, law, args.out / arm.name / law)
            for arm in arms
            for law in laws
        },
    )
    problems = []
    for k, arm in enumerate(arms):
        runs = results[k * len(laws) : (k + 1) * len(laws)]
        _print(arm.name, runs)
        problems += outside_band(arm.name, runs)
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


def run_scene(arm: Arm, law: str, out: Path, tell: Tell) -> DemoRun:
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
    motion = {'start_time_s': START_S, 'end_simulator': True}
    bag = LockstepRun(arm.source, {'law': law}, {}, motion).record(out, tell)
    recording = read_recording(bag)
    tree = load_robot(recording.description)
    window = (START_S, float(recording.time[-1]))
    metrics = tracking_metrics(recording, tree, window, arm.frame)
    with BagReader(bag) as reader:
        remarks = reader.remarks
    latency = {p: float(remarks[f'{_COMMANDS} latency_{p}_us']) for p in ('p50', 'p99')}
    document = {'robot': arm.name, 'law': law, **vars(metrics), 'latency_us': latency}
    write_json(out / 'metrics.json', document)
    write_tracking_report(
        out / 'report.html',
        f'{arm.name} under {_TITLES[law]}',
        'Recorded over ROS 2 in lockstep with the simulator, 1 kHz.',
        recording,
        tree,
        metrics,
        arm.frame,
    )
    return DemoRun(law, metrics, tree.slides, latency)


def outside_band(robot: str, runs: Sequence[DemoRun]) -> list[str]:
    """Return where computed torque improves on PD + gravity by less than the required ratio."""
    if len(runs) < len(LAWS):
        return []
    pd, torque = (run.metrics for run in runs)
    before, after = [*pd.rms_error, pd.tool_rms_mm], [*torque.rms_error, torque.tool_rms_mm]
    wanted = [*(JOINT_RATIO for _ in pd.joints), TOOL_RATIO]
    rows = zip((*pd.joints, 'tool'), before, after, wanted, strict=True)
    return [
        f'{robot} {name}: {a / b:.1f} times, {ratio:g} required'
        for name, a, b, ratio in rows
        if not a / b >= ratio
    ]


def _print(robot: str, runs: Sequence[DemoRun]) -> None:
    """Print the runs of one arm: rows for each joint, a column for each law."""
    metrics = [run.metrics for run in runs]
    rows = []
    for i, joint in enumerate(metrics[0].joints):
        unit, force = ('m', 'N') if runs[0].slides[i] else ('rad', 'N m')
        errors = (f'{m.rms_error[i]:.6e} / {m.peak_error[i]:.2e}' for m in metrics)
        efforts = (f'{m.peak_effort[i]:.2f} of {m.effort_limit[i]:g}' for m in metrics)
        rows.append((f'{joint} RMS / peak error, {unit}', *errors))
        rows.append((f'{joint} peak effort of limit, {force}', *efforts))
    tool = (f'{m.tool_rms_mm:.6g} / {m.tool_peak_mm:.3g}' for m in metrics)
    late = (f'{run.latency["p50"]:.0f} / {run.latency["p99"]:.0f}' for run in runs)
    rows += [
        ('tool RMS / peak error, mm', *tool),
        ('saturated ticks', *(str(sum(m.saturated_ticks)) for m in metrics)),
        ('commands', *(str(m.commands) for m in metrics)),
        ('latency state to effort p50 / p99, us', *late),
    ]
    print_table(ReportTable(('', *(_TITLES[run.law] for run in runs)), rows, robot))


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
