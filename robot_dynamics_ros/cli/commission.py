# SPDX-License-Identifier: Apache-2.0
"""Check a driver profile against an arm, from a recording or live while the arm holds poses.

Sends no commands. Exit code 1 if an error is found.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros.cli.check_model import too_weak
from robot_dynamics_ros.cli.robot_argument import (
    add_robot_arguments,
    robot_of,
    robot_source,
)
from robot_dynamics_ros.cli.tables import (
    add_json_argument,
    print_problems,
    print_table,
    wide_console,
)
from robot_dynamics_ros.commissioning.driver_samples import (
    DriverSamples,
    check_limits,
    check_velocities,
    check_work,
    driver_samples,
)
from robot_dynamics_ros.commissioning.held_arm import Commissioning, check_held
from robot_dynamics_ros.control.drivers.conversion import DriverConversion, bind, effort_limits
from robot_dynamics_ros.control.drivers.file import load_driver_profile, shipped_profiles
from robot_dynamics_ros.dynamics.joint_terms import largest_gravity_forces
from robot_dynamics_ros.errors import (
    ConfigurationError,
    MissingDependencyError,
    ModelError,
    RecordingError,
)
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.build import EffortLimit
from robot_dynamics_ros.model.check import check_model
from robot_dynamics_ros.model.findings import Finding, error, warning
from robot_dynamics_ros.model.inspection import finding_as_dict
from robot_dynamics_ros.recordings.output_folder import write_json
from robot_dynamics_ros.recordings.report.toolkit import ReportTable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_robot_arguments(parser)
    parser.add_argument(
        '--driver_profile',
        '--profile',
        dest='profile',
        required=True,
        help=f'driver profile: a YAML file, or one of: {", ".join(shipped_profiles())}',
    )
    parser.add_argument(
        '--bag', type=Path, help='recording to check (default: subscribe to the running driver)'
    )
    parser.add_argument(
        '--seconds',
        type=float,
        default=60.0,
        help='without --bag: duration of the live check, s (default: 60)',
    )
    parser.add_argument(
        '--commands',
        action='store_true',
        help='check the commands that hold the arm instead of the efforts that the driver reports',
    )
    parser.add_argument('--namespace', default='', help='namespace of the driver')
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Check the profile and print the findings; return 1 if one is an error."""
    profile = load_driver_profile(args.profile)
    tree, findings = _robot(args, effort_limits(profile))
    driver = bind(profile, tree)
    samples = _samples(args, driver)
    if isinstance(samples, int):
        return samples
    checked, held = examine(tree, driver, samples, commanded=args.commands)
    findings += checked
    _print(tree, held, findings, args.commands)
    if args.json:
        write_json(args.json, _document(tree, held, findings))
    return 1 if any(finding.severity == 'error' for finding in findings) else 0


def examine(
    tree: RobotTree, driver: DriverConversion, samples: DriverSamples, *, commanded: bool
) -> tuple[list[Finding], Commissioning | None]:
    """Return all findings on samples, and the results of the held poses if there are efforts.

    Args:
        tree: The robot.
        driver: The conversion that the profile declares for its driver.
        samples: Samples of an arm that rests in several poses and moves between them.
        commanded: Whether the efforts are the commands of the controller.
    """
    findings = [*check_limits(tree, samples), *check_velocities(tree, samples)]
    report = driver.profile.state.effort
    if report == 'none' and not commanded:
        silent = warning(
            'efforts',
            'according to the profile, the driver reports none',
            'check with --commands while a controller holds the arm',
        )
        return [*findings, silent], None
    try:
        poses = samples.poses()
        by_driver = 'gravity' in driver.profile.compensated_by_driver
        left_out = by_driver and (commanded or report == 'without_compensation')
        held = check_held(tree, poses, gravity_expected=not left_out, commanded=commanded)
    except RecordingError as fault:
        return [*findings, error(fault)], None
    if not commanded and not held.errors:
        findings += check_work(tree, samples)
    return [*findings, *held.findings], held


def _robot(args: argparse.Namespace, limits: EffortLimit) -> tuple[RobotTree, list[Finding]]:
    """Load the robot even if effort limits are missing; return it and the faults found."""
    path, mappings = robot_source(args)
    try:
        tree = robot_of(args, limits)
    except ModelError:
        faults = list(check_model(path, effort_limit=limits, mappings=mappings).errors)
        tree = robot_of(args)  # raises if the fault is not a missing limit
        enough = np.maximum(tree.effort_limit, largest_gravity_forces(tree))
        return tree.with_changes(effort_limit=enough), faults
    return tree, too_weak(tree, '; is the limit in the unit of the profile?')


def _samples(args: argparse.Namespace, driver: DriverConversion) -> DriverSamples | int:
    columns = _from_bag(args, driver) if args.bag else _by_listening(args, driver)
    if isinstance(columns, int):
        return columns
    return driver_samples(driver, *columns, commanded=args.commands)


def _from_bag(args: argparse.Namespace, driver: DriverConversion) -> Any:
    from robot_dynamics_ros.recordings.reading import read_recording

    profile = driver.profile
    topics = {'states': _absolute(args.namespace, profile.state.topic)}
    if args.commands:
        topics['commands'] = _absolute(args.namespace, profile.command.topic)
    run = read_recording(
        args.bag, joints=driver.names, command_joints=driver.command_names, **topics
    ).of_joints(driver.names)
    effort = run.effort if args.commands else run.measured_effort
    kept = np.isfinite(effort).all(axis=1) if args.commands else slice(None)
    return run.time[kept], run.position[kept], run.velocity[kept], effort[kept]


def _absolute(namespace: str, topic: str) -> str:
    return (
        topic if topic.startswith('/') else f'/{namespace.strip("/")}/{topic}'.replace('//', '/')
    )


def _by_listening(args: argparse.Namespace, driver: DriverConversion) -> Any:
    ros = ['--ros-args', '-r', f'__ns:=/{args.namespace.strip("/")}'] if args.namespace else []
    if args.seconds <= 0.0:
        raise ConfigurationError('--seconds', f'is {args.seconds:g}', 'must be positive')
    try:
        node = import_module('robot_dynamics_ros.ros.commissioning')
    except ImportError as missing:
        raise MissingDependencyError(
            missing.name or 'rclpy', 'subscribing to a driver', 'source ROS 2, or give --bag'
        ) from missing
    return node.collect_states(driver, args.seconds, commands=args.commands, args=ros)


# Output ----------------------------------------------------------------------------------------


def _print(
    tree: RobotTree, held: Commissioning | None, findings: list[Finding], commanded: bool
) -> None:
    console = wide_console()
    if held is not None:
        print_table(_table(tree, held, 'commanded' if commanded else 'measured'))
        print_table(_correlations(tree, held))
    print_problems(findings)
    if not any(finding.severity == 'error' for finding in findings):
        console.print('[green]no errors found in the profile[/]')


def _table(tree: RobotTree, held: Commissioning, source: str) -> ReportTable:
    rows = [
        (
            name,
            f'{held.slope[i]:.3f}' if held.loaded[i] else 'not loaded',
            f'{held.offset[i]:+.3g}',
            f'{held.residual[i]:.3g}',
        )
        for i, name in enumerate(tree.joint_names)
    ]
    title = f'Efforts, {source}, against gravity in {held.poses} poses, N m or N'
    return ReportTable(('joint', 'slope', 'mean difference', 'RMS difference'), rows, title)


def _correlations(tree: RobotTree, held: Commissioning) -> ReportTable:
    rows = [
        (name, *('-' if np.isnan(x) else f'{x:+.2f}' for x in held.correlation[i]))
        for i, name in enumerate(tree.joint_names)
    ]
    title = 'Correlation of the effort of a joint (row) with gravity at a joint (column)'
    return ReportTable(('', *tree.joint_names), rows, title)


def _document(
    tree: RobotTree, held: Commissioning | None, findings: list[Finding]
) -> dict[str, Any]:
    document: dict[str, Any] = {'findings': [finding_as_dict(finding) for finding in findings]}
    if held is not None:
        document['poses'] = held.poses
        document['joints'] = {
            name: {
                'loaded': bool(held.loaded[i]),
                'slope': float(held.slope[i]) if held.loaded[i] else None,
                'mean_difference': float(held.offset[i]),
                'rms_difference': float(held.residual[i]),
            }
            for i, name in enumerate(tree.joint_names)
        }
    return document
