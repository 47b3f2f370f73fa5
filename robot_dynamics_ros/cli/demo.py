# SPDX-License-Identifier: Apache-2.0
"""Demonstrations: control laws over ROS 2 (``demo``), and identification (``identify_demo``).

``demo`` simulates arms under each control law, records and reports. ``identify_demo`` excites an
arm with a wrong model, records, identifies, and tracks again.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.cli import identify
from robot_dynamics_ros.cli.arguments import (
    JOINTS,
    MAPPING,
    ROBOT_HELP,
    SETUP,
    Command,
    option,
    refuse_given,
)
from robot_dynamics_ros.cli.excite import excitation_trajectory, write_excitation
from robot_dynamics_ros.cli.new_robot import planned_arm, shipped_parameters
from robot_dynamics_ros.cli.processes import SHOWN, LockstepRun
from robot_dynamics_ros.cli.scene import SCENES, run_scenes
from robot_dynamics_ros.cli.sign_of_life import tell
from robot_dynamics_ros.cli.tables import print_lines, print_report, print_table, say, show_arm
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.description.shipped import ROBOTS, shipped_robot
from robot_dynamics_ros.geometry.collisions import make_checker
from robot_dynamics_ros.identification import design_excitation
from robot_dynamics_ros.model import Robot, load_robot
from robot_dynamics_ros.model.payload import Payload, with_payload
from robot_dynamics_ros.recordings.comparison import compare_recordings
from robot_dynamics_ros.recordings.lockstep import SETTLE, simulate, write_recording
from robot_dynamics_ros.recordings.metrics.analysis import AnalysisSettings, analyze_bag
from robot_dynamics_ros.recordings.metrics.tracking import EXACT
from robot_dynamics_ros.recordings.output_folder import folder_name, make_empty, write_json
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.replay import ReplaySource, replay
from robot_dynamics_ros.recordings.report.runs import BagResult
from robot_dynamics_ros.recordings.report.toolkit import ReportTable, command_line
from robot_dynamics_ros.simulation.imperfections import (
    Imperfections,
    ImperfectPlant,
    with_mismatch,
)
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

#: Start time of the trajectory, s; before it, the controller is activated and settles.
START_S = 0.5

#: Minimum ratios of RMS errors, PD + gravity to computed torque: of each joint, of the tool.
JOINT_RATIO, TOOL_RATIO = 20.0, 50.0
#: Joints and tools whose reference travels less are not compared; rad, m; mm.
LEAST_TRAVEL, LEAST_TOOL = (0.05, 0.02), 5.0
_TITLES = {'pd_gravity': 'PD + gravity', 'computed_torque': 'computed torque'}
LAWS = tuple(_TITLES)


class Arm(NamedTuple):
    """An arm to run.

    Attributes:
        name: Its name.
        source: A shipped robot, or a parameter file.
        frame: The tool frame.
    """

    name: str
    source: str | Path
    frame: str = 'tool'


class DemoRun(NamedTuple):
    """Results of one arm under one law.

    Attributes:
        law: The law.
        result: The analysis of its motion.
        is_prismatic: Which joints slide.
        difference: Largest difference of the commands from those by Pinocchio, N m or N.
    """

    law: str
    result: BagResult
    is_prismatic: tuple[bool, ...]
    difference: float


def run_demo(args: argparse.Namespace) -> int:
    """Run every arm under every law, then every scene; return 1 if one is out of tolerance."""
    if args.view:
        os.environ[SHOWN] = '1'
        say('open http://127.0.0.1:8080 in a browser')
    arms = _arms(args)
    laws = [args.law] if args.law else LAWS
    results = {
        arm.name: [run_scene(arm, law, _folder(args, arm, law)) for law in laws] for arm in arms
    }
    problems = []
    for name, runs in results.items():
        _print(name, runs)
        if any(str(x) == EXACT for run in runs for x in run.result.findings):
            say(EXACT)
        problems += outside_band(name, runs)
    print_lines('red', 'out of tolerance:', problems)
    folders = ', '.join(str(_folder(args, arm, law)) for arm in arms for law in laws)
    say(f'recordings, metrics and reports: {folders}\n')
    outside = 0
    if not (args.robot or args.law or args.no_scenes):
        outside = run_scenes(SCENES, args.output / 'scenes')
    bags = [_folder(args, arms[-1], law) / 'bag' for law in laws]
    kind = 'compare' if len(bags) == 2 else 'analyze'
    command = command_line(kind, *bags, '--from', f'{START_S:g}')  # as in the tables
    say(f'see the last arm: {command}')
    return 1 if problems or outside else 0


def _folder(args: argparse.Namespace, arm: Arm, law: str) -> Path:
    """Return the folder of the results of an arm under a law."""
    folder: Path = args.output / folder_name(arm.name) / law
    return folder


def _arms(args: argparse.Namespace) -> list[Arm]:
    """Return the selected arms; plan the motion of a user-supplied one, and print its choice."""
    args.robot = args.robot or args.one
    if args.robot is None:
        refuse_given(args, JOINTS | SETUP, 'the shipped arms')
        return [Arm(name, name) for name in ROBOTS]
    if args.robot in ROBOTS and shipped_parameters(args):  # those of mechanisms have no motion
        return [Arm(args.robot, args.robot)]
    arm = planned_arm(args)
    show_arm(arm.tree, arm.frame, arm.remarks)
    return [Arm(arm.tree.name, arm.parameters, arm.frame)]


def run_scene(arm: Arm, law: str, out: Path) -> DemoRun:
    """Run one arm under one law in its own processes; write bag, metrics and report.

    Args:
        arm: The arm.
        law: The control law.
        out: Folder of the results; previous content is replaced.

    Raises:
        SceneError: A node failed, or the trajectory was rejected.
        PeerTimeoutError: A node did not become ready or did not exit.
    """
    motion = {'start_time_s': START_S, 'end_simulator': True}
    bag = LockstepRun(arm.source, {'law': law}, {}, motion).record(
        out, f'{arm.name}, {_TITLES[law]}'
    )
    choice = RobotChoice(span=(START_S, math.inf))
    result = analyze_bag(bag, AnalysisSettings(choice, frame=arm.frame, tables=False), out)
    source = ReplaySource(bag, {'formulation': 'pinocchio'})
    difference = float(np.nanmax(np.abs(replay(source).efforts - source.run.effort)))
    return DemoRun(law, result, source.tree.joint_is_prismatic, difference)


def outside_band(robot: str, runs: Sequence[DemoRun]) -> list[str]:
    """Return where computed torque improves on PD + gravity by less than the required ratio.

    Compared are the tool and the joints that move.
    """
    if len(runs) < len(LAWS):
        return []
    pd, torque = (run.result.figures['tracking'] for run in runs)
    wanted = [
        *(JOINT_RATIO * x for x in _moves(runs[0])),
        TOOL_RATIO * (pd['tool_travel_mm'] > LEAST_TOOL),
    ]
    before, after = ([*errors['rms_error'], errors['tool_rms_mm']] for errors in (pd, torque))
    rows = zip((*runs[0].result.joints, 'tool'), before, after, wanted, strict=True)
    return [
        f'{robot} {name}: {a / b:.1f} times, {ratio:g} required'
        for name, a, b, ratio in rows
        if not a >= ratio * b
    ]


def _moves(run: DemoRun) -> list[bool]:
    """Return whether each joint moves far enough for its errors to tell anything."""
    travel = run.result.figures['tracking']['travel']
    return [x > LEAST_TRAVEL[slides] for x, slides in zip(travel, run.is_prismatic, strict=True)]


def _print(robot: str, runs: Sequence[DemoRun]) -> None:
    """Print the runs of one arm: rows for each joint, a column for each law."""
    columns = [_column(run) for run in runs]
    rows = [(title, *(column[title] for column in columns)) for title in columns[0]]
    joints = zip(runs[0].result.joints, _moves(runs[0]), strict=True)
    still = ', '.join(name for name, moves in joints if not moves)
    text = f'this motion hardly moves {still}, whose errors tell nothing' if still else ''
    print_table(ReportTable(('', *(_TITLES[run.law] for run in runs)), rows, robot, text))


def _column(run: DemoRun) -> dict[str, str]:
    """Return the figures of a run by their titles."""
    tracked, used, rates = (run.result.figures[key] for key in ('tracking', 'limits', 'rates'))
    column = {}
    for i, joint in enumerate(run.result.joints):
        unit, force = ('m', 'N') if run.is_prismatic[i] else ('rad', 'N m')
        errors = f'{tracked["rms_error"][i]:.6e} / {tracked["peak_error"][i]:.2e}'
        efforts = f'{used["effort_peak"][i]:.2f} of {used["effort_limit"][i]:g}'
        column[f'{joint} RMS / peak error, {unit}'] = errors
        column[f'{joint} peak effort of limit, {force}'] = efforts
    late, rms, peak = rates['latency_us'], tracked['tool_rms_mm'], tracked['tool_peak_mm']
    return column | {
        'tool RMS / peak error, mm': f'{rms:.6g} / {peak:.3g}',
        'saturated ticks': str(sum(used['saturated_ticks'])),
        'commands': str(rates['commands']),
        'latency state to effort p50 / p99, us': f'{late["p50"]:.0f} / {late["p99"]:.0f}',
        'commands − those by Pinocchio, at most, N m or N': f'{run.difference:.1e}',
    }


# Identification ----------------------------------------------------------------------------------

_PERIOD = 1e-3  # s
_FREQUENCY = 15.0  # natural frequency of the feedback, rad/s
_LEAST_GAIN = 10.0  # minimum ratio of the tracking errors before and after
_TEST_SEED, _TEST_PERIOD = 4, 8.0  # of the tracked motion, which differs from the excitation; s

#: Deviations of the simulated arm from its description: an unmodelled tool, heavier links, other
#: friction.
TOOL_MASS = 1.2  # kg
WEAR: dict[str, Any] = {
    'mass': 1.1,
    'damping': 1.6,
    'coulomb_friction': 0.6,
    'com_shift': (0.01, -0.006, 0.004),
}
#: Sensor noise: standard deviations of position and velocity, rad or m, rad/s or m/s.
NOISE = Imperfections(position_noise=2e-6, velocity_noise=2e-4, seed=1)


def tool() -> Payload:
    """Return the tool of the simulated arm that its description lacks."""
    inertia = np.diag([0.003, 0.004, 0.002])
    return Payload(TOOL_MASS, np.array([0.04, -0.02, 0.05]), inertia)


def run_identify_demo(args: argparse.Namespace) -> int:
    """Run all stages; return 1 if the corrected model tracks too little better."""
    out: Path = args.output / args.robot
    make_empty(out, 'before')
    nominal = load_robot(shipped_robot(args.robot))
    real = with_payload(with_mismatch(nominal, **WEAR), tool())
    test = _test_motion(nominal)
    say(f'{args.robot}: unlike its description, the arm has a tool of {TOOL_MASS:g} kg,')
    say('heavier links and other friction; its sensors have noise')
    _track('the description', nominal, real, test, out / 'before')
    _excite(out, nominal, real)
    code = identify.run(
        identify.COMMANDS['identify'].parse([str(out / 'bag'), '--output', str(out)])
    )
    corrected = load_robot(out / 'corrected.urdf')
    _track('the corrected model', corrected, real, test, out / 'after')
    bags = [out / name / 'bag' for name in ('before', 'after')]
    names = ('by the description', 'by the corrected model')
    figures, report = compare_recordings(bags, names, RobotChoice(span=(SETTLE, math.inf)))
    folder = out / 'comparison'
    write_json(folder / 'comparison.json', figures)
    report.write(folder / 'report.html')
    print_report(report, folder)
    gains = 1.0 / np.array(figures['error_ratio'])
    say(f'written: {out}/; start with {out}/comparison/report.html')
    if failed := gains.min() < _LEAST_GAIN:
        say(f'failed: a joint tracks only {gains.min():.3g} times better')
    return int(code or failed)


def _test_motion(tree: Robot) -> Trajectory:
    """Return a motion within the limits that is not used for identification."""
    excitation = design_excitation(
        tree, period=_TEST_PERIOD, seed=_TEST_SEED, iterations=0, checker=make_checker(tree)[0]
    )
    return excitation_trajectory(excitation)


def _simulate(title: str, model: Robot, real: Robot, motion: Trajectory) -> Recording:
    plant = ImperfectPlant(MujocoPlant(real, _PERIOD), NOISE)
    given = {'law': 'computed_torque', 'natural_frequency': [_FREQUENCY], 'period': _PERIOD}
    told = lambda share: tell(f'{title}: {100.0 * share:.0f} %')  # noqa: E731
    return simulate(ControllerSession(model, given), plant, motion, told)


def _track(
    by: str,
    model: Robot,
    real: Robot,
    motion: Trajectory,
    folder: Path,
) -> None:
    """Track the motion with a model; write the bag and its analysis."""
    write_recording(folder / 'bag', _simulate(f'tracking by {by}', model, real, motion))
    choice = RobotChoice(span=(SETTLE, math.inf))
    analyze_bag(folder / 'bag', AnalysisSettings(choice, tables=False), folder)


def _excite(out: Path, nominal: Robot, real: Robot) -> None:
    """Design, run and record an excitation motion."""
    excitation = design_excitation(nominal, checker=make_checker(nominal)[0], tell=tell)
    write_excitation(out, nominal, excitation, 1)
    say(
        f'exciting motion: condition {excitation.condition:.3g}, random motions '
        f'{excitation.random_condition:.3g}'
    )
    motion = excitation_trajectory(excitation)
    run = _simulate('recording the exciting motion', nominal, real, motion)
    write_recording(out / 'bag', run)


COMMANDS = {
    'demo': Command(
        run_demo,
        {
            'robot': option(
                None, f'only this arm: {ROBOT_HELP} (default: both shipped arms)', nargs='?'
            ),
            **MAPPING,
            '--robot': option(None, 'same as the first argument', dest='one', without='robot'),
            **JOINTS,
            **SETUP,
            '--law': option(None, 'only this law', choices=LAWS),
            '--no-scenes': option(False, 'skip the constraint-stabilization scenes'),
            '--view': option(False, 'show every run in a browser: http://127.0.0.1:8080'),
            '--output': option(Path('out'), 'folder of the results'),
        },
    ),
    'identify_demo': Command(
        run_identify_demo,
        {
            '--robot': option('scara', 'simulated arm', choices=sorted(ROBOTS)),
            '--output': option(Path('out/identify_demo'), 'folder of the results'),
        },
    ),
}
