# SPDX-License-Identifier: Apache-2.0
"""Calibrate contact thresholds (external effort, N m or N) from contact-free recordings."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from robot_dynamics_ros.cli.robot_argument import add_recording_arguments, recording_choice
from robot_dynamics_ros.cli.tables import print_table, wide_console
from robot_dynamics_ros.contact.calibration import CalibrationSamples, calibrate
from robot_dynamics_ros.contact.detector import KINDS, ContactThresholds
from robot_dynamics_ros.contact.effort_fit import FitSamples
from robot_dynamics_ros.errors import ConfigurationError, RecordingError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.bag_jobs import find_bags
from robot_dynamics_ros.recordings.metrics.contacts import ContactStream
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.recordings.recording import Recording, current_unit
from robot_dynamics_ros.recordings.report.toolkit import ReportTable, quantity

_MOST, _BY_RATE = 200.0, 0.2  # bandwidth: maximum, 1/s; share of the state rate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        'bags', nargs='+', type=Path, metavar='BAG', help='recordings without contact'
    )
    parser.add_argument('--output', type=Path, required=True, help='thresholds file to write')
    parser.add_argument(
        '--alarms-per-hour',
        type=float,
        default=20.0,
        help='accepted false alarms per hour of the whole robot (default: 20)',
    )
    parser.add_argument(
        '--bandwidth',
        type=float,
        default=0.0,
        help='bandwidth of the observer, 1/s (default: 0.2 times the state rate, at most 200)',
    )
    parser.add_argument(
        '--delay', type=float, default=0.0, help='delay of commanded efforts, s (default: 0)'
    )
    parser.add_argument(
        '--fit',
        action=argparse.BooleanOptionalAction,
        help='fit efforts to the model first (default: only measured efforts)',
    )
    add_recording_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Calibrate the thresholds, write and print them; return 0."""
    for name in ('alarms_per_hour', 'bandwidth', 'delay'):
        value, positive = getattr(args, name), name == 'alarms_per_hour'
        if not (math.isfinite(value) and (value > 0.0 if positive else value >= 0.0)):
            wanted = 'positive' if positive else '0 or more'
            raise ConfigurationError(f'--{name.replace("_", "-")}', f'is {value:g}', wanted)
    bags, choice = find_bags(args.bags), recording_choice(args)
    if unit := current_unit(choice.driver_profile):
        raise ConfigurationError(
            f'driver profile {choice.driver_profile!r}',
            f'gives no torque_constant: efforts are in {unit}',
            'add it, or omit the profile here and in analyze: efforts are fitted in any unit',
        )
    tree, measured, rate = _survey(bags[0], choice)
    bandwidth = np.full(tree.n, args.bandwidth or min(_MOST, _BY_RATE * rate))
    coarse = ContactThresholds.coarse(tree).coefficients
    start = ContactThresholds(coarse, bandwidth, args.delay)
    fitted = measured if args.fit is None else args.fit
    fitting = _seen(bags, choice, tree, start, measured) if fitted else None
    fit = None if fitting is None else fitting.fit()
    start = ContactThresholds(coarse, bandwidth, args.delay, fit)
    samples = CalibrationSamples()
    stream = ContactStream(tree, start, measured=measured)
    others = [] if fitting is None else fitting.held_out()
    for chunk in _chunks(bags, choice, tree):
        for _, step, _ in stream.take(chunk):
            if step > 0.0:
                samples.take(step, stream.detector)
            else:
                samples.begin_segment()
            if fitting is not None:  # explained by a fit to the other parts
                stream.observer.fit = others[int(fitting.part(len(samples.bands)))]
    result = calibrate(samples, bandwidth, args.alarms_per_hour, args.delay, fit)
    minutes = len(samples.bands) / rate / 60.0
    remarks = {
        'robot': tree.name,
        'effort': 'measured' if measured else 'commanded',
        'minutes': round(minutes, 3),
        'alarms_per_hour': args.alarms_per_hour,
        'factor': round(result.factor, 3),
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    result.thresholds.write(args.output, tree.joint_names, remarks)
    _print(tree, result.thresholds, samples, remarks)
    print(f'written: {args.output}')
    return 0


def _survey(bag: Path, choice: RobotChoice) -> tuple[RobotTree, bool, float]:
    """Return the robot, whether its efforts were measured, and the state rate, Hz."""
    with choice.read(bag) as reader:
        tree = choice.load(reader)
        first = next(iter(choice.parts(reader, tree)), None)
    if first is None or len(first.time) < 2:
        raise RecordingError(f'bag {bag}', 'has fewer than two states', 'record for longer')
    return tree, first.has_measured, 1.0 / float(np.median(np.diff(first.time)))


def _chunks(bags: list[Path], choice: RobotChoice, tree: RobotTree) -> Iterator[Recording]:
    for bag in bags:
        with choice.read(bag) as reader:
            for part in choice.parts(reader, tree):
                yield part.of_joints(tree.joint_names)


def _seen(
    bags: list[Path],
    choice: RobotChoice,
    tree: RobotTree,
    start: ContactThresholds,
    measured: bool,
) -> FitSamples:
    """Return the observer samples of all recordings."""
    fitting = FitSamples()
    stream = ContactStream(tree, start, measured=measured, fitting=fitting)
    for bag in bags:
        fitting.next_recording()
        for chunk in _chunks([bag], choice, tree):
            for _ in stream.take(chunk):
                pass
    return fitting


def _print(
    tree: RobotTree,
    thresholds: ContactThresholds,
    samples: CalibrationSamples,
    remarks: dict[str, object],
) -> None:
    growth = np.array(samples.growth)
    bands = np.einsum('kjc,mjc->kj', thresholds.coefficients, growth) / len(growth)
    rms = np.sqrt(np.square(np.array(samples.bands)).mean(axis=0))
    rows = [
        [name, *(quantity(x) for k in range(len(KINDS)) for x in (rms[k, j], bands[k, j]))]
        for j, name in enumerate(tree.joint_names)
    ]
    heads = [f'{kind}: {what}' for kind in KINDS for what in ('RMS without contact', 'dead band')]
    console = wide_console()
    print_table(ReportTable(('joint', *heads), rows))
    console.print(', '.join(f'{key}: {value}' for key, value in remarks.items()))
