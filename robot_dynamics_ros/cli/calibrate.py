# SPDX-License-Identifier: Apache-2.0
"""Calibrate contact thresholds from recordings without contact."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.cli.arguments import (
    FORCE,
    RECORDING,
    Command,
    given,
    option,
    recording_choice,
)
from robot_dynamics_ros.cli.tables import print_table, say
from robot_dynamics_ros.contact.calibration import CalibrationSamples, calibrate
from robot_dynamics_ros.contact.detector import KINDS, ContactThresholds, loop_delay
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.recordings.bag.files import short_name
from robot_dynamics_ros.recordings.bag_jobs import find_bags
from robot_dynamics_ros.recordings.history import carried, history
from robot_dynamics_ros.recordings.metrics.effort import ContactStream
from robot_dynamics_ros.recordings.outliers import require_clean
from robot_dynamics_ros.recordings.output_folder import require_free_file, unused
from robot_dynamics_ros.recordings.plausibility import StillError, check_recording
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.recordings.recording import Recording, require_torques
from robot_dynamics_ros.recordings.report.toolkit import EFFORT, command_line, joint_table

_MOST, _BY_RATE = 200.0, 0.2  # bandwidth: maximum, 1/s; share of the state rate


def run_calibration(args: argparse.Namespace) -> int:
    """Calibrate the thresholds, write and print them; return 0."""
    require_free_file(args.output, force=args.force)
    bags, choice = find_bags(args.bags), recording_choice(args)
    require_torques(choice.driver_profile)
    with choice.read(bags[0]) as reader:
        tree = choice.load(reader)
        identified = bool(choice.identified or reader.parameters.get('identified'))
    usual = choice.profile.delay_s if choice.profile else 0.0
    delay = loop_delay('--delay', usual if args.delay is None else args.delay)
    runs = [_contact_free(bag, choice, tree) for bag in bags]
    measured = all(run.has_measured for run, _ in runs)
    for bag, one in zip(bags, runs, strict=True):
        _require_use(bag, *one, measured=measured)
    slowest = min(_BY_RATE / run.period for run, _ in runs)
    bandwidth = np.full(tree.n, args.bandwidth or min(_MOST, slowest))
    start = ContactThresholds.coarse(tree)._replace(bandwidth=bandwidth, delay=delay)
    samples = CalibrationSamples()
    for run, loaded in runs:
        stream = ContactStream(loaded, start, measured=measured)
        for _, step, _ in stream.take(run):
            if step > 0.0:
                samples.take(step, stream.detector)
    result = calibrate(samples, start.bandwidth, args.alarms_per_hour, delay)
    remarks = {
        'robot': tree.name,
        'effort': 'measured' if measured else 'commanded',
        'minutes': round(samples.seconds / 60.0, 3),
        'alarms_per_hour': args.alarms_per_hour,
        'factor': round(result.factor, 3),
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    result.thresholds.write(args.output, tree.joint_names, remarks)
    _print(tree, result.thresholds, samples, remarks)
    print(f'written: {args.output}')
    if not identified:
        print(_advice(args, bags))
    return 0


def _advice(args: argparse.Namespace, bags: list[Path]) -> str:
    """Return how thresholds of an arm that is not identified become finer, in one sentence."""
    result = unused(Path('out') / 'identified' / short_name(bags[0]))
    line = command_line('identify', *args.bags, '--output', result, options=given(args, RECORDING))
    return (
        'the arm was not identified: what its description misses widens the dead bands, and few '
        f'pushes are found; {line}, then calibrate with --identified {result / "parameters.yaml"}'
    )


def _contact_free(bag: Path, choice: RobotChoice, tree: Robot) -> tuple[Recording, Robot]:
    """Return the recording in a bag without outliers, and the robot with its payload.

    Args:
        bag: The bag.
        choice: How it is read.
        tree: The robot without payload.
    """
    with choice.read(bag) as reader:
        run = choice.run(reader, tree, as_stamped=True)
        held = carried(history(reader), run, tree)
        run = choice.total(run, tree, held.tree)
    for note in held.notes:
        print(f'{bag}: {note}')
    run = require_clean(run, f'bag {str(bag)!r}')[0]
    return run.rows(run.time < held.until), held.tree


def _require_use(bag: Path, run: Recording, tree: Robot, *, measured: bool) -> None:
    """Check that a run can be one of the robot; raises RecordingError that names the bag."""
    try:
        check_recording(run, tree, measured=measured)
    except StillError:  # rests are free of contact, too
        pass
    except RecordingError as error:
        raise RecordingError(f'bag {str(bag)!r}', 'is of no use', str(error)) from error


def _print(
    tree: Robot,
    thresholds: ContactThresholds,
    samples: CalibrationSamples,
    remarks: dict[str, object],
) -> None:
    growth = np.array(samples.growth)
    bands = np.einsum('kjc,mjc->kj', thresholds.coefficients, growth) / len(growth)
    rms = np.sqrt(np.square(np.array(samples.bands)).mean(axis=0))
    columns = [
        (f'{kind}: {what}', values[k], EFFORT)
        for k, kind in enumerate(KINDS)
        for what, values in (('RMS without contact', rms), ('dead band', bands))
    ]
    print_table(joint_table(tree, columns))
    say(', '.join(f'{key}: {value}' for key, value in remarks.items()))


COMMANDS = {
    'calibrate': Command(
        run_calibration,
        {
            'bags BAG': option(Path, 'recordings without contact', nargs='+'),
            '--output': option(Path, 'thresholds file to write', required=True),
            **FORCE,
            '--alarms-per-hour': option(
                20.0, 'accepted false alarms per hour of the whole robot', check=read.positive
            ),
            '--bandwidth': option(
                0.0,
                'bandwidth of the observer, 1/s (default: 0.2 times the state rate, at most 200)',
                check=read.not_negative,
            ),
            '--delay': option(
                float,
                'time from a state until its effort acts, s (default: that of the driver profile, '
                '0 without one)',
            ),
            **RECORDING,
        },
    )
}
