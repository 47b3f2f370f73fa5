# SPDX-License-Identifier: Apache-2.0
"""What command identify writes and prints.

What command identify does where currents are all that is known of the efforts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import yaml

from robot_dynamics_ros.cli.robot_argument import recording_choice
from robot_dynamics_ros.cli.tables import print_report, print_table, wide_console
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.identification.bags import BagNews, Evidence
from robot_dynamics_ros.identification.choice import Request
from robot_dynamics_ros.identification.correction import as_dict, corrected_urdf, parameter_text
from robot_dynamics_ros.identification.currents import PER_EFFORT, JointCurrent, joint_currents
from robot_dynamics_ros.identification.identify import Identification, make_plan
from robot_dynamics_ros.identification.plausibility import check_recording
from robot_dynamics_ros.identification.preparation import concatenate, prepare
from robot_dynamics_ros.identification.report import identification_report, pictures
from robot_dynamics_ros.identification.unknowns import FORMULA, TERMS, stribeck_velocity
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.recordings.bag.files import short_name
from robot_dynamics_ros.recordings.driver_units import current_unit
from robot_dynamics_ros.recordings.output_folder import claim, filled, write_json
from robot_dynamics_ros.recordings.report.toolkit import ReportTable

#: What is written into the output folder.
FILES = ('corrected.urdf', 'parameters.yaml', 'identification.json', 'report.html')
_MOST_NOTES = 10  # about bags
_UNKNOWN = (
    'without torque constants, masses, loads and torques cannot be known; give them in\n'
    'the driver profile (identify --gains corrects a first one by a run with a known load)'
)


def deliver_results(
    output: Path,
    result: Identification,
    evidence: Evidence,
    remarks: Sequence[str],
    bags: Sequence[BagNews],
) -> None:
    """Write corrected URDF, changed values, numbers and report, all or none; print the report.

    Raises:
        ConfigurationError: The folder cannot be written.
    """
    before, after = evidence.residuals
    document = as_dict(result) | {
        'bags': [bag.as_dict() for bag in bags],
        'residuals': {'nominal': vars(before), 'corrected': vars(after)},
        'remarks': list(remarks),
    }
    learned = listed([short_name(Path(bag.bag)) for bag in bags if bag.learned])
    lead = f'Learned from {learned}; {remarks[0]}.'
    report = identification_report(
        lead, result, evidence, [*remarks[1:], *_bag_sentences(bags)], bags
    )
    with filled(output) as folder:
        urdf, patch, numbers, page = (folder / name for name in FILES)
        urdf.write_text(corrected_urdf(result), encoding='utf-8')
        patch.write_text(parameter_text(result), encoding='utf-8')
        write_json(numbers, document)
        replace(report, figures=pictures(result, evidence.series)).write(page)
    print_report(wide_console(), report, output)


def listed(names: Sequence[object], most: int = 3) -> str:
    """Return names in one line, the first few of many."""
    text = ', '.join(map(str, names[:most]))
    return f'{text} and {len(names) - most} more' if len(names) > most else text


def _bag_sentences(bags: Sequence[BagNews]) -> list[str]:
    """Return what was unusual in bags: failures first, one sentence each."""
    failed = [f'failed: {bag.error}' for bag in bags if bag.error]
    notes = [f'{bag.bag}: {note}' for bag in bags for note in bag.notes if not bag.error]
    sentences = [*failed, *notes]
    if len(sentences) > _MOST_NOTES:
        more = f'and {len(sentences) - _MOST_NOTES} more about bags: see {FILES[2]}'
        return [*sentences[:_MOST_NOTES], more]
    return sentences


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
    currents = joint_currents(concatenate(parts), tree)
    unit = current_unit(args.driver_profile)
    with filled(output) as folder:
        text = currents_text(tree, currents, unit)
        (folder / 'parameters.yaml').write_text(text, encoding='utf-8')
    _print(tree, currents, unit)
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


def currents_text(tree: RobotTree, currents: Sequence[JointCurrent], unit: str) -> str:
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
            for i, (joint, row) in enumerate(zip(tree.joint_names, currents, strict=True))
        },
    }
    header = ''.join(f'# {line}\n' for line in formula)
    return header + yaml.safe_dump(values, sort_keys=False)


def _print(tree: RobotTree, currents: Sequence[JointCurrent], unit: str) -> None:
    rows = []
    for joint, row, slides in zip(tree.joint_names, currents, tree.prismatic, strict=True):
        for term, value in row.values.items():
            deviation = f'{row.deviations[term]:.2g}'
            name, written = f'{joint}.{term}', f'{value:.6g}'
            rows.append((name, written, deviation, _unit(term, unit, bool(slides))))
        rows.append((f'{joint}, held out', f'{100 * row.held_out:.3g}', '', '% unexplained'))
    console, head = wide_console(), ('parameter', 'identified', 'deviation', 'unit')
    print_table(console, ReportTable(head, rows, f'Drives in {unit}'))
    mean = 100.0 * np.mean([row.held_out for row in currents])
    console.print(
        f'held-out stretches: {mean:.3g} % of the current unexplained, mean of the joints'
    )
