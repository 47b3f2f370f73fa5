# SPDX-License-Identifier: Apache-2.0
"""Print mass, inertia and consistency of every link and joint, and what is wrong."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from robot_dynamics_ros.cli.robot_argument import (
    add_loops_argument,
    add_robot_arguments,
    given_loops,
    given_robot,
    robot_source,
)
from robot_dynamics_ros.dynamics.joint_terms import largest_gravity_forces
from robot_dynamics_ros.errors import RobotDynamicsError
from robot_dynamics_ros.model.check import check_model
from robot_dynamics_ros.model.findings import Finding, warning
from robot_dynamics_ros.model.inspection import ModelCheck, finding_as_dict

ROUNDING = 1e-12  # what is smaller is printed as 0
WIDTH_IN_FILES = 150  # characters; a terminal has its own width


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_robot_arguments(parser)
    add_loops_argument(parser)
    parser.add_argument(
        '--effort-limit',
        type=float,
        metavar='NM',
        help='limit of the joints whose file gives none, N m or N',
    )
    parser.add_argument('--strict', action='store_true', help='warnings count as errors')
    parser.add_argument('--json', type=Path, metavar='FILE', help='also write the result there')


def run(args: argparse.Namespace) -> int:
    """Print the check; return 1 if something is wrong."""
    path, mappings = robot_source(args)
    loops = given_loops(args)
    check = check_model(path, effort_limit=args.effort_limit, mappings=mappings, loops=loops)
    needed: dict[str, float] = {}
    findings = list(check.findings)
    verdict = ''
    if not loops:
        try:
            tree = given_robot(args, args.effort_limit)
        except RobotDynamicsError as error:
            verdict = f'refused: {error}'
        else:
            verdict = f'loads with {len(tree.joint_names)} joints: {", ".join(tree.joint_names)}'
            forces = [float(force) for force in largest_gravity_forces(tree)]
            needed = dict(zip(tree.joint_names, forces, strict=True))
            findings += _too_weak(check, needed)
    _print(check, needed, findings, verdict if findings else '')
    if args.json:
        document = check.as_dict() | {'largest_gravity_effort': needed}
        document['findings'] = [finding_as_dict(finding) for finding in findings]
        args.json.write_text(json.dumps(document, indent=2, allow_nan=False) + '\n')
    return 1 if check.errors or (args.strict and findings) else 0


def _too_weak(check: ModelCheck, needed: dict[str, float]) -> Iterable[Finding]:
    """Yield the joints whose effort limit does not hold the arm against gravity."""
    for joint in check.joints:
        if joint.effort is not None and needed.get(joint.name, 0.0) > joint.effort:
            yield warning(
                f'joint {joint.name!r}',
                f'gravity alone needs {needed[joint.name]:.3g}, the effort limit is '
                f'{joint.effort:g}',
                'the arm cannot hold itself everywhere within its joint limits',
            )


def _print(
    check: ModelCheck, needed: dict[str, float], findings: Sequence[Finding], verdict: str
) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH_IN_FILES
    console.print(
        f'[bold]{escape(check.robot) or "unreadable robot"}[/]: {len(check.joints)} moving joints,'
        f' {check.moving_mass:.6g} kg in motion'
    )
    if check.links:
        console.print(_link_table(check))
    if check.joints:
        console.print(_joint_table(check, needed))
    for finding in findings:
        colour = 'red' if finding.severity == 'error' else 'yellow'
        console.print(f'[{colour}]{finding.severity}[/] {escape(str(finding))}')
    console.print(escape(verdict) if findings else '[green]nothing is wrong[/]')


def _link_table(check: ModelCheck) -> Any:
    from rich.table import Table

    table = Table(title='Links: inertia about the centre of mass, SI units', title_justify='left')
    for heading in (
        'link',
        'moved by',
        'mass',
        'centre of mass',
        'principal moments',
        'triangle\nmargin',
        'least eigenvalue\nof pseudo-inertia',
        'equivalent box',
        'density\nat least',
    ):
        if heading in ('link', 'moved by'):
            table.add_column(heading, overflow='fold')
        else:
            table.add_column(heading, justify='right', overflow='fold')
    for link in check.links:
        table.add_row(
            link.name,
            link.moved_by or '(base)',
            _number(link.mass),
            _numbers(link.com),
            _numbers(link.principal_moments),
            _number(link.triangle_margin, 3),
            _number(float(link.pseudo_inertia_eigenvalues[0]), 3),
            _numbers(link.equivalent_box, 3),
            _number(link.least_density, 3),
        )
    return table


def _joint_table(check: ModelCheck, needed: dict[str, float]) -> Any:
    from rich.table import Table

    table = Table(title='Joints: rad or m, N m or N', title_justify='left')
    for heading in ('joint', 'type'):
        table.add_column(heading, overflow='fold')
    for heading in ('limits', 'velocity', 'effort', 'to hold\nagainst gravity'):
        table.add_column(heading, justify='right', overflow='fold')
    for heading in ('damping', 'friction', 'armature'):
        table.add_column(heading, justify='right', overflow='fold')
    for joint in check.joints:
        table.add_row(
            joint.name,
            joint.kind,
            f'{_number(joint.lower)} … {_number(joint.upper)}',
            _number(joint.velocity),
            '-' if joint.effort is None else _number(joint.effort),
            _number(needed[joint.name], 3) if joint.name in needed else '-',
            _number(joint.damping),
            _number(joint.friction),
            _number(joint.armature),
        )
    return table


def _number(value: float, digits: int = 4) -> str:
    if math.isnan(value):
        return '-'
    return '0' if abs(value) < ROUNDING else f'{value:.{digits}g}'


def _numbers(values: Iterable[float], digits: int = 4) -> str:
    return ' '.join(_number(float(value), digits) for value in values)
