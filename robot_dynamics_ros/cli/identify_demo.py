# SPDX-License-Identifier: Apache-2.0
"""Demonstrate identification: wrong model, excite, record, identify, track again."""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from robot_dynamics_ros.cli import identify
from robot_dynamics_ros.cli.arguments import Command, option
from robot_dynamics_ros.cli.design import excitation_trajectory, write_excitation
from robot_dynamics_ros.cli.tables import print_table
from robot_dynamics_ros.control.laws.computed_torque import ComputedTorque
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.description.shipped import ROBOTS, shipped_robot
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.geometry.collisions import make_checker
from robot_dynamics_ros.identification import design_excitation
from robot_dynamics_ros.identification.preparation import Preparation
from robot_dynamics_ros.identification.validation import validate
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.model.payload import Payload, with_payload
from robot_dynamics_ros.recordings.lockstep import SETTLE, run_lockstep
from robot_dynamics_ros.recordings.metrics.tracking import (
    TrackingMetrics,
    tracking_metrics,
)
from robot_dynamics_ros.recordings.output_folder import write_json
from robot_dynamics_ros.recordings.reading import write_recording
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.report.runs import (
    correction_table,
    write_correction_report,
    write_tracking_report,
)
from robot_dynamics_ros.simulation.imperfections import (
    Imperfections,
    ImperfectPlant,
    Mismatch,
    with_mismatch,
)
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

PERIOD = 1e-3
_LINKS = (
    ('before.html', 'the motion tracked with the original description'),
    ('report.html', 'identified and unidentified parameters, with deviations'),
    ('after.html', 'the motion tracked with the corrected model'),
    ('corrected.urdf', 'the corrected robot'),
)
_FREQUENCY = 15.0  # natural frequency of the feedback, rad/s
_LEAST_GAIN = 10.0  # minimum ratio of the tracking errors before and after
_MOST_UNEXPLAINED = 2.0  # percent of the RMS effort, beyond the sensor noise
_TEST_SEED, _TEST_PERIOD = 4, 8.0  # of the tracked motion, which differs from the excitation; s

#: Deviations of the simulated arm from its description: an unmodelled tool, heavier links, other
#: friction.
TOOL_MASS = 1.2  # kg
WEAR = Mismatch(mass=1.1, damping=1.6, coulomb_friction=0.6, com_shift=(0.01, -0.006, 0.004))
#: Sensor noise: standard deviations of position and velocity, rad or m, rad/s or m/s.
NOISE = Imperfections(position_noise=2e-6, velocity_noise=2e-4, seed=1)


@dataclass(frozen=True)
class _Stage:
    """A tracked run with one model."""

    title: str
    recording: Recording
    metrics: TrackingMetrics


def tool() -> Payload:
    """Return the tool of the simulated arm that its description lacks."""
    inertia = np.diag([0.003, 0.004, 0.002])
    return Payload(TOOL_MASS, np.array([0.04, -0.02, 0.05]), inertia)


def run(args: argparse.Namespace) -> int:
    """Run all stages; return 1 if the corrected model tracks or explains too little better."""
    console = Console(highlight=False)
    out: Path = args.out / args.robot
    _make_empty(out)
    nominal = load_robot(shipped_robot(args.robot))
    real = with_payload(with_mismatch(nominal, WEAR), tool())
    test = _test_motion(nominal)
    console.print(f'{args.robot}: unlike its description, the arm has a tool of {TOOL_MASS:g} kg,')
    console.print('heavier links and other friction; its sensors have noise')
    before = _track(console, 'the description', nominal, real, test, out / 'before.html')
    recording = _excite(console, out, nominal, real)
    code = identify.run(
        identify.COMMANDS['identify'].parse([str(out / 'bag'), '--output', str(out)])
    )
    corrected = load_robot(out / 'corrected.urdf')
    after = _track(console, 'the corrected model', corrected, real, test, out / 'after.html')
    gains = np.array(before.metrics.rms_error) / np.array(after.metrics.rms_error)
    _write(out, nominal, before, after)
    print_table(correction_table(nominal, before.metrics, after.metrics))
    console.print(f'written: {out}/; start with {out}/summary.html')
    unexplained = _unexplained(recording, corrected, real)
    if gains.min() < _LEAST_GAIN:
        console.print(f'failed: a joint tracks only {gains.min():.3g} times better')
    if unexplained > _MOST_UNEXPLAINED:
        console.print(f'failed: the corrected model leaves {unexplained:.3g} % of an effort')
    return int(code or gains.min() < _LEAST_GAIN or unexplained > _MOST_UNEXPLAINED)


def _unexplained(recording: Recording, model: RobotTree, real: RobotTree) -> float:
    """Return the largest residual of a model in excess of the true arm's, percent of effort."""
    noise, left = (
        np.array(validate([recording], tree, Preparation()).percent) for tree in (real, model)
    )
    return float(np.sqrt(np.maximum(np.square(left) - np.square(noise), 0.0)).max())


def _make_empty(out: Path) -> None:
    """Create the folder, or remove the results of an earlier run; reject other content."""
    if out.exists():
        if not (out / 'before.html').exists() and any(out.iterdir()):
            raise ConfigurationError(
                f'--out {out}', 'holds other files', 'give an empty or new folder'
            )
        shutil.rmtree(out)
    out.mkdir(parents=True)


def _test_motion(tree: RobotTree) -> Trajectory:
    """Return a motion within the limits that is not used for identification."""
    excitation = design_excitation(
        tree, period=_TEST_PERIOD, seed=_TEST_SEED, iterations=0, checker=make_checker(tree)[0]
    )
    return excitation_trajectory(excitation)


def _simulate(
    console: Console, title: str, model: RobotTree, real: RobotTree, motion: Trajectory
) -> Recording:
    plant = ImperfectPlant(MujocoPlant(real, PERIOD), NOISE)
    law = ComputedTorque(model, natural_frequency=_FREQUENCY, period=PERIOD)
    with console.status(title) as status:
        return run_lockstep(
            plant,
            law,
            motion,
            lambda share: status.update(f'{title}: {100.0 * share:.0f} %'),
        )


def _track(
    console: Console,
    by: str,
    model: RobotTree,
    real: RobotTree,
    motion: Trajectory,
    report: Path,
) -> _Stage:
    """Track the motion with a model and write the report of the run."""
    recording = _simulate(console, f'tracking by {by}', model, real, motion)
    window = (SETTLE, float(recording.time[-1]))
    metrics = tracking_metrics(recording, model, window)
    lead = 'An arm that differs from its description, under computed torque.'
    write_tracking_report(report, f'{model.name} by {by}', lead, recording, model, metrics)
    return _Stage(by, recording, metrics)


def _excite(console: Console, out: Path, nominal: RobotTree, real: RobotTree) -> Recording:
    """Design, run and record an excitation motion; return the recording."""
    with console.status('designing the exciting motion'):
        excitation = design_excitation(nominal, checker=make_checker(nominal)[0])
    write_excitation(out, nominal, excitation, 1)
    console.print(
        f'exciting motion: condition {excitation.condition:.3g}, random motions '
        f'{excitation.random_condition:.3g}'
    )
    motion = excitation_trajectory(excitation)
    recording = _simulate(console, 'recording the exciting motion', nominal, real, motion)
    write_recording(out / 'bag', recording)
    return recording


def _write(out: Path, nominal: RobotTree, before: _Stage, after: _Stage) -> None:
    stages = before, after
    document: dict[str, Any] = {
        'tracking': [{'model': stage.title, **vars(stage.metrics)} for stage in stages]
    }
    write_json(out / 'tracking.json', document)
    write_correction_report(
        out / 'summary.html',
        f'{nominal.name}: identified, corrected, tracked again',
        'Computed torque on a simulated arm that differs from its description, along a motion '
        'that was not used for identification.',
        nominal,
        (before.recording, after.recording),
        (before.metrics, after.metrics),
        _LINKS,
    )


COMMANDS = {
    'identify_demo': Command(
        run,
        {
            '--robot': option('scara', 'simulated arm', choices=sorted(ROBOTS)),
            '--out': option(Path('out/identify_demo'), 'folder of the results'),
        },
    )
}
