# SPDX-License-Identifier: Apache-2.0
"""Run constraint-stabilization scenes over ROS 2 and compare f(q, t) with its designed decay."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.cli.arguments import JOINTS, PACKAGES, SETUP, Command, option, refuse_given
from robot_dynamics_ros.cli.new_robot import PROGRAM, URDF, planned_arm, robot_of_folder
from robot_dynamics_ros.cli.processes import LockstepRun
from robot_dynamics_ros.cli.tables import print_lines, print_report, show_arm
from robot_dynamics_ros.constraints.feasibility import solve, starting_configuration
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.program_file import load_program
from robot_dynamics_ros.description.shipped import MECHANISMS, ROBOTS
from robot_dynamics_ros.errors import ConfigurationError, known_name
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, analyze_bag
from robot_dynamics_ros.recordings.metrics.program import contact_forces
from robot_dynamics_ros.recordings.output_folder import write_json
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.recordings.report.toolkit import Report
from robot_dynamics_ros.spatial.scalar import Array

_OFF = 0.005  # initial value of every row of f of an own arm, m or rad
_OWN_SECONDS, _MOST_SECONDS = 6.0, 60.0  # duration, as long as its signals
_REST = 1.0  # s, after the last of them
_FORCE, _OVERSHOOT, _ALONG = 0.5, 0.3, 5e-4  # N RMS; share of the desired force; m RMS
_SETTLED = 2.2  # s of a program with contacts, after which they are evaluated
_EXTRA = [
    'controller/constraint sensor_msgs/msg/JointState',
    'controller/constraint_condition std_msgs/msg/Float64MultiArray',
]


class Scene(NamedTuple):
    """A robot, a constraint program, and the tolerances of the run.

    Attributes:
        robot: Shipped robot or mechanism, or the parameter file of another arm.
        program: Shipped program, or a file.
        title: Description of the scene.
        start: Initial joint positions, rad or m, with an initial error whose decay is measured.
        duration: Simulated time, s.
        relative: Maximum deviation of f from its designed decay, as a share of the initial error;
            None where the design does not apply (damped inverse).
        parameters: Additional parameters of controller and simulator.
        plant: Additional parameters of the simulator; they make the tool a force sensor.
        remarks: Remarks on the planning of the program.
    """

    robot: str | Path
    program: str
    title: str
    start: tuple[float, ...]
    duration: float
    relative: float | None = 0.02
    parameters: Mapping[str, Any] = {}
    plant: Mapping[str, Any] = {}
    remarks: tuple[str, ...] = ()


def on_board(program: str) -> dict[str, Any]:
    """Return simulator parameters for a 1 kg board, damping ratio 2 %, and a wrench sensor."""
    return {
        'substeps': 5,
        'board_program': program,
        'board_stiffness': 1e4,
        'board_damping': 4.0,
        'board_friction': 0.3,
        'wrench_topic': 'controller/measured_wrench',
    }


SCENES = {
    'circle': Scene(
        'scara',
        'scara_circle',
        'the SCARA draws a circle; the tool height is a separate constraint',
        start=(-0.30, 1.28, 0.10, 0.90),
        duration=6.0,
    ),
    'moving_plane': Scene(
        'four_dof',
        'four_dof_moving_plane',
        'the tool on a tilting, heaving plane with fixed pitch; null-space joint-limit avoidance',
        start=(0.10, -1.15, -0.25, 0.65),
        duration=10.0,
        parameters={'limits_profile': 'paper'},
    ),
    'near_singular': Scene(
        'four_dof',
        'near_singular',
        'the tool passes within 1 mm of the stretched-elbow singularity',
        start=(0.0, -1.75, 1.50, -0.15),
        duration=6.5,
        relative=None,
    ),
    'four_bar': Scene(
        'four_bar',
        'four_bar_loop',
        'a four-bar linkage, its loop closed by a cut-loop constraint',
        start=(0.04, -0.0019637349039214, 0.3, -0.3945205097181221),
        duration=6.0,
    ),
    'scara_press': Scene(
        'scara',
        'scara_press',
        'the quill presses on a board with 20 N and draws',
        start=(-0.4146067107991759, 1.5638032628051262, 0.115, 1.1491965520059502),
        duration=4.0,
        relative=None,
        plant=on_board('scara_press'),
    ),
    'four_dof_board': Scene(
        'four_dof',
        'four_dof_board',
        'the tool presses with 8 N on a tilted, moving board and draws on it',
        start=(0.07904011499611181, -1.0936081837958962, -0.3939949938249821, 0.5776031776208783),
        duration=4.0,
        relative=None,
        plant=on_board('four_dof_board'),
    ),
}


def run(args: argparse.Namespace) -> int:
    """Run scenes; return 1 if one is out of tolerance.

    Raises:
        UnknownNameError: A scene is unknown; lists those that exist.
        RobotDynamicsError: The arm is rejected, or no motion stays within its limits.
    """
    if args.scene and args.scene[0] not in SCENES and _is_robot(args.scene[0]):
        args.robot, *args.mapping = args.scene
        arm = planned_arm(args)
        show_arm(arm.tree, arm.frame, arm.remarks)
        own = own_scene(arm.parameters, args.program)._replace(remarks=arm.remarks)
        name = Path(args.program).stem if args.program else 'plane'
        return run_scenes({name: own}, args.output)
    refuse_given(args, JOINTS | SETUP | OWN, 'the shipped scenes')
    chosen = {name: SCENES[known_name('scene', name, SCENES)] for name in args.scene or SCENES}
    return run_scenes(chosen, args.output)


def _is_robot(word: str) -> bool:
    """Return whether a word means a shipped arm, or a file, which need not exist."""
    return word in ROBOTS or os.path.isfile(word) or word != Path(word).stem


def own_scene(settings: Path, program: str = '') -> Scene:
    """Return the scene of a user-supplied arm: its program, started with an error to decay.

    Args:
        settings: The parameter file that ``new_robot`` wrote.
        program: File of a constraint program; empty: the one in the same folder, a swinging plane.

    Raises:
        ConfigurationError: No joint moves the tool, so that there is no program; the program
            presses on a surface; no posture near its start has that error.
        ProgramError: The program cannot be read.
    """
    folder = settings.parent
    path = Path(program) if program else folder / PROGRAM
    if not program and not path.is_file():
        problem = 'has no constraint program: its tool stands still'
        raise ConfigurationError(f'robot {folder / URDF}', problem, 'name another: --frame')
    tree = robot_of_folder(folder)
    task = load_program(str(path), tree)
    if task.contacts:
        remedy = (
            'run it by simulate, with the parameters board_program and wrench_topic, and control: '
            "docs/compliance.md, 'Force along a constrained direction'"
        )
        raise ConfigurationError(f'program {task.name!r}', 'presses on a surface', remedy)
    title = f'the tool of {tree.name} on a swinging plane, the posture held'
    if program:
        title = task.description.rstrip(' .') or f'program {task.name} on {tree.name}'
    changes = [t for signal in task.stack.signals for t in signal.changes if t < math.inf]
    end = max(changes, default=0.0) + _REST
    seconds = min(max(_OWN_SECONDS, task.horizon, end), _MOST_SECONDS)
    start = tuple(_off_by(task, starting_configuration(task)).tolist())
    return Scene(settings, str(path), title, start, seconds, None if program else 0.02)


def _off_by(program: Program, q: Array) -> Array:
    """Return a posture near q at which every row of f is ``_OFF`` at time 0.

    Raises:
        ConfigurationError: There is none within the joint limits.
    """
    tree, (q, found) = program.tree, solve(program, q, 0.0, _OFF)
    inside = bool(np.all((q >= tree.reference_lower) & (q <= tree.reference_upper)))
    if np.abs(found.f - _OFF).max() > 0.1 * _OFF or not inside:
        problem = f'no posture within the joint limits near its start has f = {_OFF} in every row'
        remedy = 'give start: {position: {...}}, joint positions at which f is 0 at time 0'
        raise ConfigurationError(f'program {program.name!r}', problem, remedy)
    return q


def run_scenes(scenes: Mapping[str, Scene], out: Path) -> int:
    """Run scenes in sequence with a progress display, and print their metrics.

    Returns:
        1 if a scene is out of tolerance, else 0.
    """
    results = {name: run_scene(scene, name, out / name) for name, scene in scenes.items()}
    problems = []
    for name, (metrics, report) in results.items():
        print_report(report, out / name)
        problems += [f'{name}: {text}' for text in outside_band(scenes[name], metrics)]
    print_lines('red', 'out of tolerance:', problems)
    return 1 if problems else 0


def run_scene(scene: Scene, name: str, out: Path) -> tuple[dict[str, Any], Report]:
    """Run a scene in its own processes; write bag, metrics and report.

    Args:
        scene: What to run.
        name: Its name.
        out: Folder of the results; the results of an earlier run are replaced.

    Returns:
        The metrics, as in ``metrics.json``, and the report without plots.

    Raises:
        SceneError: A node failed.
        PeerTimeoutError: A node did not exit.
    """
    return _evaluate(scene, lockstep_run(scene).record(out, f'scene {name}'), out)


def lockstep_run(scene: Scene) -> LockstepRun:
    """Return the nodes of a scene with their parameters."""
    control = {
        'law': 'constraint_stabilization',
        'program': scene.program,
        'activation_ramp_s': 0.0,
        'lead_in': 0.0,  # a scene measures the decay of the initial error
        # Known from the start: no wrench is lost at the contact.
        'sensor_frame': 'tool' if scene.plant else '',
        **scene.parameters,
    }
    plant = {
        'initial_position': scene.start,
        'end_time_s': scene.duration,
        'lockstep_timeout_s': 60.0,
        **scene.parameters,
        **scene.plant,
    }
    topics = {'extra_topics': _EXTRA}
    return LockstepRun(scene.robot, control, plant, {'kind': 'none'}, topics)


def _evaluate(scene: Scene, bag: Path, out: Path) -> tuple[dict[str, Any], Report]:
    # Joints without a drive declare no limit.
    choice = RobotChoice(effort_limit=1.0 if scene.robot in MECHANISMS else None)
    with choice.read(bag) as reader:
        program = load_program(scene.program, choice.load(reader), check=False)
        forces = contact_forces(reader.bag, program, _SETTLED)
    lead = f'{scene.title[0].upper()}{scene.title[1:]}; recorded over ROS 2 in lockstep, 1 kHz'
    remarks = (lead, *map(str, forces), *scene.remarks)
    settings = AnalysisSettings(choice, effort='commanded', remarks=remarks, tables=False)
    result = analyze_bag(bag, settings, out)
    assert result.report is not None
    document = result.as_dict() | {'forces': [force._asdict() for force in forces]}
    write_json(out / 'metrics.json', document)
    return document, result.report


def outside_band(scene: Scene, figures: Mapping[str, Any]) -> list[str]:
    """Return the tolerances that a run violates, one sentence each."""
    problems, share = [], float(np.fmax.reduce(figures['limits']['effort_share']))
    if share > 1.0:
        problems.append(f'an effort is {share:.3f} of its limit')
    if scene.relative is not None:
        decay = figures['program']
        for row, relative in zip(decay['rows'], decay['relative'], strict=True):
            if not relative <= scene.relative:
                problems.append(
                    f'{row} deviates from its design by {100 * relative:.2f} % of the initial '
                    f'error, {100 * scene.relative:g} % are allowed'
                )
    for force in figures['forces']:
        if not (force['deviation'] <= _FORCE and force['overshoot'] <= _OVERSHOOT):
            problems.append(
                f'{force["row"]}: off by {force["deviation"]:.2f} N (RMS), overshoot '
                f'{100 * force["overshoot"]:.0f} %; {_FORCE:g} N and {100 * _OVERSHOOT:g} % are '
                'allowed'
            )
        if not force['along'] <= _ALONG:
            problems.append(f'off along the surface by {1e3 * force["along"]:.2f} mm (RMS)')
    return problems


_TITLES = '; '.join(f'{name}: {scene.title}' for name, scene in SCENES.items())
_SCENES_HELP = (
    f'scenes to run (default: all). {_TITLES}. Or a shipped arm or a file, followed by '
    'NAME:=VALUE arguments of a xacro file: its tool on a generated swinging plane, or --program'
)
OWN = {'--program': option('', 'with an arm: file of the constraint program to run')}

COMMANDS = {
    'scene': Command(
        run,
        {
            'scene': option(None, _SCENES_HELP, nargs='*'),
            **PACKAGES,
            **JOINTS,
            **SETUP,
            **OWN,
            '--output': option(Path('out/scenes'), 'folder of the results'),
        },
    )
}
