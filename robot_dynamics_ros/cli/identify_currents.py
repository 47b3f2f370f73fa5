# SPDX-License-Identifier: Apache-2.0
"""What command identify does where currents are all that is known of the efforts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml
from rich.table import Table

from robot_dynamics_ros.cli.recording_arguments import recording_choice
from robot_dynamics_ros.cli.tables import wide_console
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.identification.choice import Request
from robot_dynamics_ros.identification.currents import PER_EFFORT, JointCurrent, joint_currents
from robot_dynamics_ros.identification.identify import make_plan
from robot_dynamics_ros.identification.plausibility import check_recording
from robot_dynamics_ros.identification.preparation import concatenate, prepare
from robot_dynamics_ros.identification.unknowns import FORMULA, TERMS, stribeck_velocity
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.driver_units import current_unit
from robot_dynamics_ros.recordings.output_folder import claim, filled

_UNKNOWN = (
    'without torque constants, masses, loads and torques cannot be known; give them in\n'
    'the driver profile (identify --gains corrects a first one by a run with a known load)'
)


def identify_currents(args: argparse.Namespace, bags: Sequence[Path], request: Request) -> int:
    """Identify joint by joint in the unit of the currents, print, write; return 0.

    Args:
        args: As parsed.
        bags: To learn from.
        request: What is fixed of the preparation.

    Raises:
        RobotDynamicsError: A bag cannot be read, or is not one of this robot.
    """
    if args.validate or args.most is not None or args.terms is not None:
        raise ConfigurationError(
            '--validate, --most, --terms',
            'need efforts, and the driver profile has no torque_constant',
            'leave them out: held-out stretches of the bags prove and choose',
        )
    output = claim(args.output, args.output, force=args.force)
    choice, preparation, parts = recording_choice(args), None, []
    for bag in bags:
        with choice.read(bag) as reader:
            tree, _ = choice.load(reader)
            for part in choice.parts(reader, tree, float('inf')):
                if preparation is None:
                    check_recording(part, tree, request.effort, currents=True)
                    preparation = make_plan(part, tree, request=request).preparation
                parts.append(prepare(part, tree, preparation))
    found = joint_currents(concatenate(parts), tree)
    unit = current_unit(args.driver_profile)
    with filled(output) as folder:
        text = currents_text(tree, found, unit)
        (folder / 'parameters.yaml').write_text(text, encoding='utf-8')
    _print(tree, found, unit)
    print(_UNKNOWN, f'written: {output / "parameters.yaml"}', sep='\n')
    return 0


def _unit(term: str, unit: str, slides: bool) -> str:
    """Return the unit of a term of a joint, with the current in place of the effort."""
    effort, m = ('N', 'm') if slides else ('N m', 'rad')
    if term == 'armature':
        return f'{unit} s^2/{m}'
    if term in (PER_EFFORT, 'load_friction'):
        return f'{unit}/({effort})'
    return TERMS[term][slides].replace(effort, unit, 1)


def currents_text(tree: RobotTree, found: Sequence[JointCurrent], unit: str) -> str:
    """Return the terms of all joints as YAML text, with the formula in its header."""
    formula = FORMULA.splitlines()[:-2]
    formula[0] = formula[0].replace('effort = rnea', f'current = {PER_EFFORT} rnea')
    formula += [
        'rnea: inverse dynamics of the URDF as described under the gravity below, without the',
        f'friction and armature in it, N m or N. Currents are in {unit}.',
        *_UNKNOWN.splitlines(),
    ]
    speed = stribeck_velocity(tree).tolist()
    names = (PER_EFFORT, *TERMS)
    values = {
        'robot': tree.name,
        'gravity': tree.gravity.tolist(),
        'effort_unit': unit,
        'joints': {
            joint: {
                **dict.fromkeys(names, 0.0),
                **row.values,
                'stribeck_velocity': speed[i],
                'deviations': row.deviations,
                'units': {t: _unit(t, unit, bool(tree.prismatic[i])) for t in row.values},
            }
            for i, (joint, row) in enumerate(zip(tree.joint_names, found, strict=True))
        },
    }
    header = ''.join(f'# {line}\n' for line in formula)
    return header + yaml.safe_dump(values, sort_keys=False)


def _print(tree: RobotTree, found: Sequence[JointCurrent], unit: str) -> None:
    table = Table(title=f'Drives in {unit}', title_justify='left')
    for heading in ('parameter', 'identified', 'deviation', 'unit'):
        table.add_column(heading)
    for joint, row, slides in zip(tree.joint_names, found, tree.prismatic, strict=True):
        for term, value in row.values.items():
            deviation = f'{row.deviations[term]:.2g}'
            table.add_row(f'{joint}.{term}', f'{value:.6g}', deviation, _unit(term, unit, slides))
        table.add_row(f'{joint}, held out', f'{100 * row.held_out:.3g}', '', '% unexplained')
    console = wide_console()
    console.print(table)
    mean = 100.0 * np.mean([row.held_out for row in found])
    console.print(
        f'held-out stretches: {mean:.3g} % of the current unexplained, mean of the joints'
    )
