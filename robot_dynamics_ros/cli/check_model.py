# SPDX-License-Identifier: Apache-2.0
"""Print mass and inertia of every link, and report errors of the model."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence

from robot_dynamics_ros.cli.arguments import (
    EFFORT_LIMIT,
    JSON,
    ROBOT,
    Command,
    Outcome,
    joints_of,
    option,
    robot_of,
    robot_source,
)
from robot_dynamics_ros.cli.tables import print_findings, print_lines, print_table, say
from robot_dynamics_ros.dynamics.joint_terms import largest_gravity_forces
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.geometry.collisions import unchecked_links
from robot_dynamics_ros.geometry.robot_shapes import collision_shapes
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.build import EffortLimit
from robot_dynamics_ros.model.findings import Finding, merged, warning
from robot_dynamics_ros.model.inspection import ModelCheck, finding_as_dict
from robot_dynamics_ros.model.load import check_model
from robot_dynamics_ros.recordings.report.toolkit import ReportTable, quantity
from robot_dynamics_ros.spatial.scalar import Array

#: Times the largest effort against gravity; drives of arms have up to 9.
STRONGEST = 20.0


def check(args: argparse.Namespace) -> Outcome:
    """Check and print the model; the exit code is 1 if it has errors.

    Raises:
        DescriptionError: The description cannot be read.
    """
    checked = model_check(args, args.effort_limit)
    if not (checked.robot or checked.links or checked.joints) and checked.errors[0].fault:
        raise checked.errors[0].fault  # the description cannot be read
    needed: dict[str, float] = {}
    findings = list(checked.findings)
    try:
        tree = robot_of(args, args.effort_limit)
    except RobotDynamicsError as error:
        verdict = f'refused: {error}'
        if not checked.errors:
            findings.append(Finding('error', str(error), 'robot', 'correct it'))
    else:
        verdict = f'loads with {len(tree.joint_names)} joints: {", ".join(tree.joint_names)}'
        told = tuple(finding.remedy for finding in findings if finding.remedy)
        for remark in tree.remarks:  # such as on the positions of locked joints
            if not remark.endswith(told):
                say(f'remark: {remark}', 'yellow')
        forces = largest_gravity_forces(tree)
        needed = dict(zip(_drives(tree)[1], forces.tolist(), strict=True))
        findings += doubtful_limits(tree, forces, ' within its joint limits', math.inf)
        findings += [
            warning(
                f'link {name!r}',
                f'is not checked for collisions: {reason}',
                'give <collision> or <visual> elements that can be read',
                'not checked',
            )
            for name, reason in unchecked_links(tree, collision_shapes(tree.xml)).items()
        ]
    _print(checked, needed, findings, verdict if findings else '')
    document = checked.as_dict() | {
        'largest_gravity_effort': needed,
        'findings': [finding_as_dict(finding) for finding in findings],
    }
    return int(any(args.strict or x.severity == 'error' for x in findings)), document


def model_check(args: argparse.Namespace, effort_limit: EffortLimit) -> ModelCheck:
    """Return what is wrong with the robot that the arguments select, see ``check_model``."""
    path, mappings = robot_source(args)
    loops = joints_of(args, args.robot)['loops']
    return check_model(path, effort_limit=effort_limit, mappings=mappings, loops=loops)


def doubtful_limits(
    tree: Robot, needed: Array, remark: str, strongest: float = STRONGEST
) -> list[Finding]:
    """Return a warning for each effort limit that cannot hold the arm, or is no limit of a drive.

    Args:
        tree: The robot.
        needed: Its ``largest_gravity_forces``, shape (n,), N m or N.
        remark: Text appended to the warnings of weak drives.
        strongest: Limit of a drive, in efforts against gravity.
    """
    kind, names = _drives(tree)
    weak = f'the arm cannot hold every posture{remark}'
    distant = 'so high a limit bounds nothing; give that of the drive, in the URDF or profile'
    most = int(needed.argmax())  # its share tells whether the limits are those of drives
    strong = needed[most] > 0.0 and tree.effort_limit[most] > strongest * needed[most]
    return [
        warning(
            f'{kind} {name!r}',
            f'gravity alone needs {needed[i]:.3g}, the effort limit is {tree.effort_limit[i]:g}',
            weak if needed[i] > tree.effort_limit[i] else distant,
        )
        for i, name in enumerate(names)
        if needed[i] > tree.effort_limit[i] or strong and i == most
    ]


def _drives(tree: Robot) -> tuple[str, tuple[str, ...]]:
    """Return what the drives of a robot are called, and their names."""
    if tree.drives_coordinates:
        return 'joint', tree.joint_names
    return 'actuator', tree.actuator_names


def _print(
    check: ModelCheck, needed: dict[str, float], findings: Sequence[Finding], verdict: str
) -> None:
    size = f'{len(check.joints)} moving joints, {check.moving_mass:.6g} kg in motion'
    print_lines('bold', f'{check.robot or "unreadable robot"}:', [size])
    if check.links:
        print_table(_link_table(check))
    if check.joints:
        print_table(_joint_table(check, needed))
    print_findings(merged(findings))
    say(verdict or 'no problems found', '' if verdict else 'green')


def _link_table(check: ModelCheck) -> ReportTable:
    head = (
        'link',
        'moved by',
        'mass',
        'centre of mass',
        'principal moments',
        'triangle\nmargin',
        'least eigenvalue\nof pseudo-inertia',
        'equivalent box',
        'density\nat least',
    )
    rows = [
        (
            link.name,
            link.moved_by or '(base)',
            quantity(link.mass),
            _numbers(link.com),
            _numbers(link.principal_moments),
            quantity(link.triangle_margin),
            quantity(float(link.pseudo_inertia_eigenvalues[0])),
            _numbers(link.equivalent_box, 3),
            quantity(link.least_density),
        )
        for link in check.links
    ]
    return ReportTable(head, rows, 'Links: inertia about the centre of mass, SI units')


def _joint_table(check: ModelCheck, needed: dict[str, float]) -> ReportTable:
    drives = ('damping', 'friction', 'armature')
    head = ('joint', 'type', 'limits', 'velocity', 'effort', 'to hold\nagainst gravity', *drives)
    rows = [
        (
            joint.name,
            joint.kind,
            f'{quantity(joint.lower)} … {quantity(joint.upper)}',
            quantity(joint.velocity),
            quantity(math.nan if joint.effort is None else joint.effort),
            quantity(needed.get(joint.name, math.nan)),
            *(quantity(getattr(joint, name)) for name in drives),
        )
        for joint in check.joints
    ]
    return ReportTable(head, rows, 'Joints: rad or m, N m or N')


def _numbers(values: Iterable[float], digits: int = 4) -> str:
    return ' '.join(quantity(float(f'{value:.{digits}g}')) for value in values)


COMMANDS = {
    'check_model': Command(
        check,
        ROBOT | EFFORT_LIMIT | {'--strict': option(False, 'treat warnings as errors')} | JSON,
    )
}
