# SPDX-License-Identifier: Apache-2.0
"""Run one scene of the constraint-stabilization law over ROS 2 and compare f with its design."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from robot_dynamics_ros.cli.processes import (
    IN_LOCKSTEP,
    SceneProcesses,
    own_domain,
    run_recorded,
    shown_scenes,
)
from robot_dynamics_ros.cli.tables import print_report
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.recordings.metrics.program import (
    evaluate_program,
    read_program_run,
)
from robot_dynamics_ros.recordings.reading import read_recording
from robot_dynamics_ros.recordings.report.program import program_figures, program_report
from robot_dynamics_ros.recordings.report.toolkit import Report

_RUN_SECONDS = 600.0
_EXTRA = [
    'controller/constraint sensor_msgs/msg/JointState',
    'controller/constraint_condition std_msgs/msg/Float64MultiArray',
]


@dataclass(frozen=True)
class Scene:
    """A robot under a program, and what the run must reach.

    Attributes:
        robot: Shipped robot or mechanism.
        program: Shipped program.
        title: What there is to see.
        start: Initial joint positions, off the program so that the decay shows, rad or m.
        duration: s.
        relative: Largest distance of f from its designed decay, in parts of the initial error;
            None where the design does not hold (a damped inverse).
        parameters: Further parameters of all nodes.
        plant: Further parameters of the simulator.
    """

    robot: str
    program: str
    title: str
    start: tuple[float, ...]
    duration: float
    relative: float | None = 0.02
    parameters: Mapping[str, Any] = field(default_factory=dict)
    plant: Mapping[str, Any] = field(default_factory=dict)


SCENES = {
    'circle': Scene(
        'scara',
        'scara_circle',
        'the SCARA draws a circle, the tool height as a constraint of its own',
        start=(-0.30, 1.28, 0.10, 0.90),
        duration=6.0,
    ),
    'moving_plane': Scene(
        'four_dof',
        'four_dof_moving_plane',
        'tool on a tilting, heaving plane with fixed pitch, the null space off the limits',
        start=(0.10, -1.15, -0.25, 0.65),
        duration=10.0,
        parameters={'limits_profile': 'paper'},
    ),
    'near_singular': Scene(
        'four_dof',
        'near_singular',
        'a pass within 1 mm of the stretched elbow',
        start=(0.0, -1.75, 1.50, -0.15),
        duration=6.5,
        relative=None,
    ),
    'four_bar': Scene(
        'four_bar',
        'four_bar_loop',
        'a four-bar linkage whose loop is a cut-loop constraint',
        start=(0.04, -0.0019637349039214, 0.3, -0.3945205097181221),
        duration=6.0,
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    listed = '; '.join(f'{name}: {scene.title}' for name, scene in SCENES.items())
    parser.add_argument('scene', nargs='*', help=f'default: all. {listed}')
    parser.add_argument(
        '--out', type=Path, default=Path('out/scenes'), help='folder of the results'
    )


def run(args: argparse.Namespace) -> int:
    """Run scenes; return 1 if one is outside its band.

    Raises:
        UnknownNameError: There is no such scene; lists those that exist.
    """
    for name in args.scene:
        if name not in SCENES:
            raise UnknownNameError('scene', name, SCENES)
    return run_scenes(args.scene or list(SCENES), args.out, Console())


def run_scenes(names: list[str], out: Path, console: Console) -> int:
    """Run scenes one after the other with progress, and print their figures.

    Returns:
        1 if one is outside its band, else 0.
    """
    problems = []
    with shown_scenes(console) as show:
        runs = {n: run_scene(SCENES[n], out / n, show(f'scene {n}')) for n in names}
    for name, (metrics, report) in runs.items():
        print_report(console, report, out / name)
        problems += [f'{name}: {text}' for text in outside_band(SCENES[name], metrics)]
    for text in problems:
        console.print(f'[red]outside the band:[/red] {text}')
    return 1 if problems else 0


def run_scene(
    scene: Scene, out: Path, tell: Callable[[float, float], None]
) -> tuple[dict[str, Any], Report]:
    """Run a scene in its own processes; write bag, metrics and report.

    Args:
        scene: What to run.
        out: Folder of the results; what was there before is replaced.
        tell: Called with the simulated time and its end, s.

    Returns:
        The figures, as in ``metrics.json``, and the report without figures.

    Raises:
        SceneError: A node failed.
        PeerTimeoutError: A node did not end.
    """
    if out.exists():
        shutil.rmtree(out)
    bag = out / 'bag'
    with own_domain() as domain, SceneProcesses(out / 'logs', domain) as nodes:
        _start(nodes, scene, bag)
        run_recorded(nodes, scene.duration, _RUN_SECONDS, tell)
    return _evaluate(scene, bag, out)


def _start(nodes: SceneProcesses, scene: Scene, bag: Path) -> None:
    """Start the nodes; time runs once controller, simulator and recorder hear each other."""
    control = {
        'law': 'constraint_stabilization',
        'program': scene.program,
        'activation_ramp_s': 0.0,
        'command_listeners': 2,
        **IN_LOCKSTEP,
    }
    plant = {
        'mode': 'lockstep',
        'initial_position': scene.start,
        'end_time_s': scene.duration,
        'on_end': 'exit',
        'lockstep_timeout_s': 60.0,
    }
    record = {'bag': str(bag), 'progress': True, 'extra_topics': _EXTRA}
    nodes.start('recorder', 'record', record, scene.robot)
    nodes.start('controller', 'control', control | dict(scene.parameters), scene.robot)
    nodes.start(
        'simulator', 'simulate', plant | dict(scene.parameters) | dict(scene.plant), scene.robot
    )


def _evaluate(scene: Scene, bag: Path, out: Path) -> tuple[dict[str, Any], Report]:
    recording = read_recording(bag)
    limit = 1.0 if scene.robot == 'four_bar' else None  # of joints without a drive
    tree = load_robot(recording.description, effort_limit=limit)
    run = read_program_run(bag)
    metrics, design = evaluate_program(run, load_program(scene.program, tree, check=False))
    share = float(np.nanmax(np.abs(recording.effort) / tree.effort_limit))
    document = metrics.as_dict() | {'largest_effort_share': share}
    (out / 'metrics.json').write_text(json.dumps(document, indent=2), encoding='utf-8')
    lead = f'{scene.title[0].upper()}{scene.title[1:]}. Recorded over ROS 2 in lockstep, 1 kHz.'
    report = program_report(f'{scene.program} on {scene.robot}', lead, metrics)
    note = f'largest share of an effort limit: {100 * share:.0f} %'
    report = replace(report, notes=[*report.notes, note])
    figures = program_figures(run, design, recording, tree.effort_limit)
    replace(report, figures=figures).write(out / 'report.html')
    return document, report


def outside_band(scene: Scene, figures: Mapping[str, Any]) -> list[str]:
    """Return what a run has not reached, by its figures."""
    problems, share = [], figures['largest_effort_share']
    if share > 1.0:
        problems.append(f'an effort is {share:.3f} of its limit')
    if scene.relative is not None:
        for row, relative in zip(figures['rows'], figures['relative'], strict=True):
            if not relative <= scene.relative:
                problems.append(
                    f'{row} is {100 * relative:.2f} % of the initial error from its design, '
                    f'{100 * scene.relative:g} % are allowed'
                )
    return problems
