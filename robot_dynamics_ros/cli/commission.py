# SPDX-License-Identifier: Apache-2.0
"""Check a driver profile against a held arm, without sending commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from robot_dynamics_ros import yaml_reader as read
from robot_dynamics_ros.cli.arguments import JSON, ROBOT, Command, Outcome, option, robot_of
from robot_dynamics_ros.cli.check_model import doubtful_limits, model_check
from robot_dynamics_ros.cli.tables import print_findings, print_table, say
from robot_dynamics_ros.commissioning.command_delay import CommandDelay, estimate_delay
from robot_dynamics_ros.commissioning.held_arm import Commissioning, HeldPoses, check_held
from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface, driven_robot
from robot_dynamics_ros.control.drivers.profile import load_driver_profile, shipped_profiles
from robot_dynamics_ros.dynamics.joint_terms import largest_gravity_forces
from robot_dynamics_ros.errors import MissingDependencyError, ModelError, RecordingError
from robot_dynamics_ros.estimation.hypotheses import named
from robot_dynamics_ros.estimation.rest import moving_joints
from robot_dynamics_ros.model import Robot, load_arm, load_robot
from robot_dynamics_ros.model.build import EffortLimit
from robot_dynamics_ros.model.findings import Finding, error, warning
from robot_dynamics_ros.model.inspection import finding_as_dict
from robot_dynamics_ros.recordings.outliers import without_outliers
from robot_dynamics_ros.recordings.plausibility import (
    effort_findings,
    limit_findings,
    turn_findings,
    velocity_findings,
)
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.recordings.recording import (
    LEAST_STATES,
    Recording,
    in_model_units,
    unwrapped,
)
from robot_dynamics_ros.recordings.recording_reader import with_velocities
from robot_dynamics_ros.recordings.report.toolkit import EFFORT, NO_UNIT, ReportTable, joint_table
from robot_dynamics_ros.symbolic.kernel import compile_kernel

_DELAY_TOLERANCE = 0.25  # periods by which a measured delay may differ from that of the profile


def commission(args: argparse.Namespace) -> Outcome:
    """Check the profile and print the findings; the exit code is 1 if one is an error."""
    profile = load_driver_profile(args.profile)
    arm = robot_of(args, load=load_arm)
    grips = any(row.joint in arm.locked for row in profile.joints)
    load = load_robot if grips else load_arm  # the joints that the profile drives
    tree, findings = driven_robot(profile, partial(_robot, args, load))
    driver = DriverInterface(profile, tree)
    run = _from_bag(args, tree) if args.bag else _by_listening(args, tree, driver)
    if isinstance(run, int):
        return run
    run, outliers = without_outliers(run)
    source = f'bag {str(args.bag)!r}' if args.bag else 'the states'
    left_out = partial(Finding, culprit=source, remedy='check the driver and its timestamps')
    findings += [left_out('error', text) for text in [outliers.problem] if text]
    findings += [left_out('warning', text) for text in outliers.remarks]
    run = run if args.commands else replace(run, effort=run.measured_effort)
    reported = np.isfinite(run.effort).any(axis=0) | args.commands
    run = run.rows(np.isfinite(np.hstack([run.position, run.effort[:, reported]])).all(axis=1))
    if not len(run.time):
        problem = f'has no {"command" if args.commands else "effort"} of every joint at one state'
        raise RecordingError(source, problem, 'record them, or see --commands')
    checked, held = examine(tree, driver, run, commanded=args.commands)
    findings += checked
    delay = measured_delay(tree, driver, run) if args.commands else None
    if isinstance(delay, CommandDelay):
        findings += compared_delay(driver, delay)
    if held is not None:
        print_table(_table(tree, held, 'commanded' if args.commands else 'measured'))
    print_findings(findings)
    wrong = any(finding.severity == 'error' for finding in findings)
    if not wrong:
        say('no errors found in the profile', 'green')
    if delay is not None:
        say(_delay_text(delay))
    document = _document(tree, held, findings)
    if isinstance(delay, CommandDelay):
        document['delay'] = delay._asdict()
    return int(wrong), document


def examine(
    tree: Robot, driver: DriverInterface, run: Recording, *, commanded: bool
) -> tuple[list[Finding], Commissioning | None]:
    """Return all findings on a run, and the results of the held poses if there are efforts.

    Args:
        tree: The robot.
        driver: The conversion that the profile declares for its driver.
        run: Run of an arm that rests in several poses and moves between them, in model units.
        commanded: Whether its efforts are the commands of the controller; else measured.
    """
    time, q, v, effort = run.time, run.position, run.velocity, run.effort
    findings = [*turn_findings(run, tree), *limit_findings(tree, q)]
    if len(q) >= LEAST_STATES and np.isfinite(v).all():
        findings += velocity_findings(tree, time, q, v)
    if driver.profile.state.effort == 'none' and not commanded:
        silent = warning(
            'efforts',
            'according to the profile, the driver reports none',
            'check with --commands while a controller holds the arm',
        )
        return [*findings, silent], None
    try:
        poses = HeldPoses.of(driver, time, q, effort, commanded=commanded)
        by_driver = 'gravity' in driver.profile.compensated_by_driver
        left_out = by_driver and (commanded or driver.reports_less)
        held = check_held(tree, poses, gravity_expected=not left_out)
    except RecordingError as fault:
        return [*findings, error(fault)], None
    findings += held.findings
    moves = np.zeros(tree.n, dtype=bool)
    if not commanded and not held.errors:
        expected = tree.with_gravity(0.0 * tree.gravity) if left_out else tree
        findings += effort_findings(run, expected)
        moves = moving_joints(q, v)
    remedy = 'choose other poses, or check it in motion: see docs/commissioning.md'
    for joints, what in ((~moves, 'sign and unit were'), (moves, 'its unit was')):
        if len(unloaded := np.flatnonzero(~held.loaded & joints)):
            text = f'gravity does not change there: {what} not checked'
            findings.append(warning(named(tree, unloaded), text, remedy))
    return findings, held


def measured_delay(tree: Robot, driver: DriverInterface, run: Recording) -> CommandDelay | str:
    """Return the delay of the commands, or why they do not show it.

    Args:
        tree: The robot.
        driver: See :func:`examine`.
        run: A run with commands, in model units.
    """
    share = None
    if driver.profile.compensated_by_driver:
        gravity = compile_kernel(tree, outputs=('gravity_forces',)).gravity_forces
        driver.compensate(gravity, gravity)
        share = driver.compensation
    try:
        return estimate_delay(tree, run.time, run.position, run.velocity, run.effort, share)
    except RecordingError as fault:
        return str(fault)


def compared_delay(driver: DriverInterface, delay: CommandDelay) -> list[Finding]:
    """Return a warning if a measured delay contradicts that of the profile."""
    profile = driver.profile
    away = abs(delay.periods - profile.delay)
    if away <= max(_DELAY_TOLERANCE, 3.0 * delay.deviation):
        return []
    text = f'of the commands is {delay.periods:.2f} periods, {profile.delay:g} in the profile'
    return [warning('delay', text, f'give delay: {delay.periods:.2g}')]


def _delay_text(delay: CommandDelay | str) -> str:
    if isinstance(delay, str):
        return f'delay not measured: {delay}'
    late = 1e3 * delay.periods * delay.period
    return (
        f'delay of the commands: {delay.periods:.2f} +- {delay.deviation:.2f} periods, '
        f'{late:.2f} ms, by {", ".join(delay.joints)}'
    )


def _robot(
    args: argparse.Namespace, load: Callable[..., Robot], limits: EffortLimit
) -> tuple[Robot, list[Finding]]:
    """Load the robot even if effort limits are missing; return it and the faults found."""
    try:
        tree = robot_of(args, limits, load)
    except ModelError:
        faults = list(model_check(args, limits).errors)
        tree = robot_of(args, load=load)  # raises if the fault is not a missing limit
        enough = np.maximum(tree.effort_limit, largest_gravity_forces(tree))
        return tree.with_changes(effort_limit=enough), faults
    forces = largest_gravity_forces(tree)
    return tree, doubtful_limits(tree, forces, '; is the limit in the unit of the profile?')


def _from_bag(args: argparse.Namespace, tree: Robot) -> Recording:
    """Return the run of a bag."""
    choice = RobotChoice(topics={'namespace': args.namespace}, driver_profile=args.profile)
    with choice.read(args.bag, tree) as reader:
        return choice.run(reader, tree)


def _by_listening(
    args: argparse.Namespace, tree: Robot, driver: DriverInterface
) -> Recording | int:
    """Return the run of a running driver, or an exit code."""
    ros = ['--ros-args', '-r', f'__ns:=/{args.namespace.strip("/")}'] if args.namespace else []
    try:
        node = import_module('robot_dynamics_ros.ros.driver_connection')
    except ImportError as missing:
        raise MissingDependencyError(
            missing.name or 'rclpy', 'subscribing to a driver', 'source ROS 2, or give --bag'
        ) from missing
    found = node.collect_states(driver, args.seconds, commands=args.commands, args=ros)
    if isinstance(found, int):
        return found
    time, position, velocity, effort = found
    unknown = np.full(position.shape, np.nan)
    names, columns = driver.names, (time, position, velocity, effort, unknown, unknown)
    measured = unknown if args.commands else effort
    run = Recording(names, *columns, measured_effort=measured)
    run = unwrapped(in_model_units(run, driver), tree)
    return with_velocities(run, tree.joint_is_continuous)


def _table(tree: Robot, held: Commissioning, source: str) -> ReportTable:
    columns = [
        ('slope', np.where(held.loaded, held.slope, np.nan), NO_UNIT),
        ('mean difference', held.offset, EFFORT),
        ('RMS difference', held.residual, EFFORT),
    ]
    title = f'Efforts, {source}, against gravity in {held.poses} poses'
    return joint_table(tree, columns, title=title)


def _document(tree: Robot, held: Commissioning | None, findings: list[Finding]) -> dict[str, Any]:
    document: dict[str, Any] = {'findings': [finding_as_dict(finding) for finding in findings]}
    if held is not None:
        document['poses'] = held.poses
        document['joints'] = {
            name: {
                'loaded': held.loaded[i],
                'slope': held.slope[i] if held.loaded[i] else None,
                'mean_difference': held.offset[i],
                'rms_difference': held.residual[i],
            }
            for i, name in enumerate(tree.joint_names)
        }
    return document


COMMANDS = {
    'commission': Command(
        commission,
        ROBOT
        | {
            '--driver-profile FILE': option(
                None,
                f'driver profile: a YAML file, or one of: {", ".join(shipped_profiles())}',
                dest='profile',
                required=True,
            ),
            '--bag': option(Path, 'recording to check (default: subscribe to the running driver)'),
            '--seconds': option(
                60.0, 'duration of the live check, s', check=read.positive, without='--bag'
            ),
            '--commands': option(
                False,
                'check the commands that hold the arm instead of the efforts that the driver '
                'reports',
            ),
            '--namespace': option('', 'namespace of the driver'),
        }
        | JSON,
    )
}
