# SPDX-License-Identifier: Apache-2.0
"""Close the loop: wrong model, poor tracking, excite, record, identify, track better."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from robot_dynamics_ros.cli import identify
from robot_dynamics_ros.cli.excite import excitation_trajectory, write_excitation
from robot_dynamics_ros.control.laws.computed_torque import ComputedTorque
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.description.shipped import ROBOTS, shipped_robot
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.identification.excitation import design_excitation
from robot_dynamics_ros.model import RobotTree, load_robot
from robot_dynamics_ros.model.payload import Payload, with_payload
from robot_dynamics_ros.recordings.bag.writer import write_recording
from robot_dynamics_ros.recordings.lockstep import SETTLE, run_lockstep
from robot_dynamics_ros.recordings.metrics.tracking import (
    TrackingMetrics,
    tracking_metrics,
)
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.report.tracking import (
    ratio_text,
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
    ('before.html', 'the motion tracked by the description'),
    ('report.html', 'what was identified, how surely, and what not'),
    ('after.html', 'the motion tracked by the corrected model'),
    ('corrected.urdf', 'the corrected robot'),
)
_FREQUENCY = 15.0  # rad/s of the feedback
_LEAST_GAIN = 10.0  # ratio of tracking errors below which the demo has failed
_MOST_UNEXPLAINED = 2.0  # percent of the RMS effort
_TEST_SEED, _TEST_PERIOD = 4, 8.0  # of the motion that is tracked, not the exciting one

#: How the simulated arm differs from its description: a tool that nobody entered, links heavier
#: than drawn, other friction.
TOOL = Payload(1.2, np.array([0.04, -0.02, 0.05]), np.diag([0.003, 0.004, 0.002]))
WEAR = Mismatch(mass=1.1, damping=1.6, coulomb_friction=0.6, com_shift=(0.01, -0.006, 0.004))
#: What its sensors add: standard deviations of position and velocity, rad or m, rad/s or m/s.
NOISE = Imperfections(position_noise=2e-6, velocity_noise=2e-4, seed=1)


@dataclass(frozen=True)
class _Stage:
    """A tracked run under one model."""

    title: str
    recording: Recording
    metrics: TrackingMetrics


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('--robot', choices=sorted(ROBOTS), default='scara')
    parser.add_argument(
        '--out', type=Path, default=Path('out/identify_demo'), help='folder of the results'
    )


def run(args: argparse.Namespace) -> int:
    """Run all stages; return 1 if the corrected model does not track clearly better."""
    console = Console(highlight=False)
    out: Path = args.out / args.robot
    _make_empty(out)
    nominal = load_robot(shipped_robot(args.robot))
    real = with_payload(with_mismatch(nominal, WEAR), TOOL)
    test = _test_motion(nominal)
    console.print(f'{args.robot}: the arm has a tool of {TOOL.mass:g} kg, heavier links and other')
    console.print('friction than its description says; its sensors have noise')
    before = _track(console, 'the description', nominal, real, test, out / 'before.html')
    bag = _excite(console, out, nominal, real)
    code = identify.run(_identify_arguments(bag, out))
    corrected = load_robot(out / 'corrected.urdf')
    after = _track(console, 'the corrected model', corrected, real, test, out / 'after.html')
    gains = np.array(before.metrics.rms_error) / np.array(after.metrics.rms_error)
    _write(out, nominal, before, after)
    _print(console, nominal, before, after)
    console.print(f'written: {out}/; begin with {out}/summary.html')
    if code or gains.min() < _LEAST_GAIN:
        console.print(f'failed: a joint tracks only {gains.min():.3g} times better')
        return 1
    return 0


def _make_empty(out: Path) -> None:
    """Make the folder, or remove the results of an earlier run and nothing else."""
    if out.exists():
        if not (out / 'before.html').exists() and any(out.iterdir()):
            raise ConfigurationError(
                f'--out {out}', 'holds other files', 'give a folder of its own'
            )
        shutil.rmtree(out)
    out.mkdir(parents=True)


def _test_motion(tree: RobotTree) -> Trajectory:
    """Return a motion within the limits that nothing was learned from."""
    found = design_excitation(tree, period=_TEST_PERIOD, seed=_TEST_SEED, iterations=0)
    return excitation_trajectory(found)


def _plant(real: RobotTree) -> ImperfectPlant:
    return ImperfectPlant(MujocoPlant(real, PERIOD), NOISE)


def _law(model: RobotTree) -> ComputedTorque:
    return ComputedTorque(model, natural_frequency=_FREQUENCY, period=PERIOD)


def _simulate(
    console: Console, title: str, model: RobotTree, real: RobotTree, motion: Trajectory
) -> Recording:
    with console.status(title) as status:
        return run_lockstep(
            _plant(real),
            _law(model),
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
    """Track the motion by a model and write the report of the run."""
    recording = _simulate(console, f'tracking by {by}', model, real, motion)
    window = (SETTLE, float(recording.time[-1]))
    metrics = tracking_metrics(recording, model, window)
    lead = 'An arm that differs from its description, under computed torque.'
    write_tracking_report(report, f'{model.name} by {by}', lead, recording, model, metrics)
    return _Stage(by, recording, metrics)


def _excite(console: Console, out: Path, nominal: RobotTree, real: RobotTree) -> Path:
    """Design, run and record an exciting motion; return the bag."""
    with console.status('designing the exciting motion'):
        found = design_excitation(nominal)
    write_excitation(out, nominal, found, 1)
    console.print(
        f'exciting motion: condition {found.condition:.3g}, random motions '
        f'{found.random_condition:.3g}'
    )
    motion = excitation_trajectory(found)
    recording = _simulate(console, 'recording the exciting motion', nominal, real, motion)
    write_recording(out / 'bag', recording)
    return out / 'bag'


def _identify_arguments(bag: Path, out: Path) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    identify.add_arguments(parser)
    return parser.parse_args([str(bag), '--output', str(out), '--most', str(_MOST_UNEXPLAINED)])


def _write(out: Path, nominal: RobotTree, before: _Stage, after: _Stage) -> None:
    stages = before, after
    document: dict[str, Any] = {
        'tracking': [{'model': stage.title, **stage.metrics.as_dict()} for stage in stages]
    }
    (out / 'tracking.json').write_text(json.dumps(document, indent=2) + '\n', encoding='utf-8')
    write_correction_report(
        out / 'summary.html',
        f'{nominal.name}: identified, corrected, tracked again',
        'Computed torque on a simulated arm that differs from its description, along a motion '
        'that nothing was learned from.',
        nominal,
        (before.recording, after.recording),
        (before.metrics, after.metrics),
        _LINKS,
    )


def _print(console: Console, nominal: RobotTree, before: _Stage, after: _Stage) -> None:
    table = Table(title='Tracking error of the same controller, RMS', title_justify='left')
    table.add_column('joint')
    for stage in (before, after):
        table.add_column(f'by {stage.title}', justify='right')
    table.add_column('')
    rows = zip(
        nominal.joint_names,
        nominal.prismatic,
        before.metrics.rms_error,
        after.metrics.rms_error,
        strict=True,
    )
    for joint, slides, old, new in rows:
        unit = 'm' if slides else 'rad'
        table.add_row(joint, f'{old:.3g} {unit}', f'{new:.3g} {unit}', ratio_text(old, new))
    old, new = before.metrics.tool_rms_mm, after.metrics.tool_rms_mm
    table.add_row('tool', f'{old:.3g} mm', f'{new:.3g} mm', ratio_text(old, new))
    console.print(table)
