# SPDX-License-Identifier: Apache-2.0
"""Results of command ``identify``: files and terminal output.

Also its two special modes: drive identification in the unit of motor currents, without torque
constants; and a loaded run, to estimate the load or the drive gains.
"""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from robot_dynamics_ros.cli.arguments import Options, option, recording_choice
from robot_dynamics_ros.cli.tables import print_report, print_table
from robot_dynamics_ros.control.drivers.profile import NEED_CONSTANT, shipped_profiles
from robot_dynamics_ros.errors import ConfigurationError, RecordingError
from robot_dynamics_ros.identification import (
    Identification,
    IdentificationPlan,
    Request,
    gather,
    make_plan,
)
from robot_dynamics_ros.identification.bags import BagOutcome, Evidence, Source
from robot_dynamics_ros.identification.correction import (
    JointCurrent,
    as_dict,
    commented,
    corrected_urdf,
    joint_currents,
    parameter_text,
)
from robot_dynamics_ros.identification.least_squares import Block
from robot_dynamics_ros.identification.loads import (
    STILL_TRUSTED,
    DriveGains,
    LoadEstimate,
    estimate_load,
    gains_by_load,
    gains_by_weight,
)
from robot_dynamics_ros.identification.preparation import effort_source, require_motion
from robot_dynamics_ros.identification.report import identification_report, pictures
from robot_dynamics_ros.identification.unknowns import (
    FORMULA,
    PER_EFFORT,
    TERMS,
    CurrentUnknowns,
    stribeck_velocity,
    structural_base,
)
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.recordings.bag.files import short_name
from robot_dynamics_ros.recordings.output_folder import atomic_folder, choose_folder, write_json
from robot_dynamics_ros.recordings.plausibility import check_recording
from robot_dynamics_ros.recordings.recording import Recording, current_unit
from robot_dynamics_ros.recordings.report.toolkit import ReportTable
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

#: Files written to the output folder.
FILES = ('corrected.urdf', 'parameters.yaml', 'identification.json', 'report.html')
_MOST_NOTES = 10  # about bags
_CONTRADICTION = 2.0  # ratio of gains by a load to those by the arm's own weight, and its inverse
_UNKNOWN = (
    'without torque constants, masses, loads and torques cannot be known; give them in the\n'
    'driver profile (identify --gains corrects an initial value from a run with a known load)'
)


def deliver_results(
    output: Path,
    result: Identification,
    evidence: Evidence,
    remarks: Sequence[str],
    bags: Sequence[BagOutcome],
) -> None:
    """Write corrected URDF, parameters, JSON and report, all or none; print the report.

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
    patch_file = output / FILES[1]
    with atomic_folder(output) as folder:
        urdf, patch, numbers, page = (folder / name for name in FILES)
        urdf.write_text(corrected_urdf(result), encoding='utf-8')
        patch.write_text(parameter_text(result), encoding='utf-8')
        write_json(numbers, document)
        replace(report, figures=pictures(result, evidence.series)).write(page)
    print_report(report, output)
    file = shlex.quote(str(patch_file))
    print(f'next: analyze BAG --identified {file}; in nodes -p identified:={file}')


def tilt_remarks(plan: IdentificationPlan, args: argparse.Namespace) -> list[str]:
    """Return that gravity points elsewhere than in the model, if it does, in one sentence."""
    if plan.gravity is None or not plan.gravity.tilted:
        return []
    return [plan.gravity.sentence(given=bool(args.gravity))]


def listed(names: Sequence[object], most: int = 3) -> str:
    """Return names in one line, the first ``most`` of many."""
    text = ', '.join(map(str, names[:most]))
    return f'{text} and {len(names) - most} more' if len(names) > most else text


def _bag_sentences(bags: Sequence[BagOutcome]) -> list[str]:
    """Return remarks on bags, one sentence each, failures first."""
    sentences = [f'failed: {bag.error}' for bag in bags if bag.error]
    sentences += [f'{bag.bag}: {note}' for bag in bags for note in bag.notes if not bag.error]
    more = len(sentences) - _MOST_NOTES
    about = [f'and {more} more about bags: see {FILES[2]}'] if more > 0 else []
    return [*sentences[:_MOST_NOTES], *about]


def identify_currents(args: argparse.Namespace, bags: Sequence[Path], request: Request) -> int:
    """Identify each joint's drive in the unit of its current, print and write; return 0.

    Args:
        args: Parsed arguments.
        bags: Recordings to identify from.
        request: User settings of the preparation.

    Raises:
        RobotDynamicsError: A bag cannot be read, or is not of this robot.
    """
    if args.validate or args.most is not None or args.terms is not None:
        raise ConfigurationError(
            '--validate, --most, --terms',
            'need efforts, and the driver profile has no torque_constant',
            'omit them: held-out segments of the bags validate and select the terms',
        )
    output = choose_folder(args.output, args.output, force=args.force)
    choice, plan, blocks = recording_choice(args), None, list[Block]()
    for bag in bags:
        with choice.read(bag) as reader:
            tree = choice.load(reader)
            for part in choice.parts(reader, tree, math.inf):
                if plan is None:
                    measured = effort_source(part, request.effort) == 'measured'
                    check_recording(part, tree, measured=measured, currents=True)
                    require_motion(part, tree)
                    unknowns = CurrentUnknowns(tree)
                    plan = make_plan(part, tree, request=request)
                    plan = replace(plan, unknowns=unknowns, base=structural_base(unknowns))
                blocks += gather(part, plan)
    assert plan is not None
    currents = joint_currents(blocks, plan)
    unit = current_unit(args.driver_profile)
    with atomic_folder(output) as folder:
        text = currents_text(tree, currents, unit)
        (folder / 'parameters.yaml').write_text(text, encoding='utf-8')
    _print(tree, currents, unit)
    print(_UNKNOWN, f'written: {output / "parameters.yaml"}', sep='\n')
    return 0


def _unit(term: str, unit: str, slides: bool) -> str:
    """Return the unit of a joint's term, with current in place of effort."""
    effort, m = ('N', 'm') if slides else ('N m', 'rad')
    if term == 'armature':
        return f'{unit} s^2/{m}'
    if term in (PER_EFFORT, 'load_friction'):
        return f'{unit}/({effort})'
    return TERMS[term][slides].replace(effort, unit, 1)


def currents_text(tree: RobotTree, currents: Sequence[JointCurrent], unit: str) -> str:
    """Return the terms of all joints as YAML, with the formula in a header comment."""
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
                'units': {
                    term: _unit(term, unit, tree.joint_is_prismatic[i]) for term in row.values
                },
            }
            for i, (joint, row) in enumerate(zip(tree.joint_names, currents, strict=True))
        },
    }
    return commented(formula, values)


def _print(tree: RobotTree, currents: Sequence[JointCurrent], unit: str) -> None:
    rows = []
    for joint, row, slides in zip(
        tree.joint_names, currents, tree.joint_is_prismatic, strict=True
    ):
        for term, value in row.values.items():
            number, deviation = f'{value:.6g}', f'{row.deviations[term]:.2g}'
            rows.append((f'{joint}.{term}', number, deviation, _unit(term, unit, slides)))
        rows.append((f'{joint}, held out', f'{100 * row.held_out:.3g}', '', '% unexplained'))
    head = ('parameter', 'identified', 'deviation', 'unit')
    print_table(ReportTable(head, rows, f'Drives in {unit}'))
    mean = 100.0 * np.mean([row.held_out for row in currents])
    print(f'held-out segments: {mean:.3g} % of the current unexplained, mean of the joints')


class Learned(NamedTuple):
    """The identified robot, the usable sources of its bags, and the outcome of each bag."""

    identified: Identification
    sources: list[Source]
    gathered: list[BagOutcome]


Learn = Callable[[Sequence[Path]], Learned]
_PAYLOAD, _PROFILE = 'payload.yaml', 'driver_profile.yaml'


#: Arguments of a run with a load.
LOAD: Options = {
    '--payload FRAME': option(
        '', 'estimate mass, centre of mass and inertia of the load on this link in BAG'
    ),
    '--unloaded BAG': option(
        [],
        'with --payload: runs of the same arm without the load, to identify the arm and to scale '
        'its drive gains by its own weight (default: the arm is as described)',
        type=Path,
        nargs='+',
    ),
    '--given_gains': option(
        False, 'with --payload: use the drive gains of the profile without scaling'
    ),
    '--gains UNLOADED LOADED': option(
        Path,
        'estimate the drive gains of --driver_profile from two runs, and write the profile',
    ),
    '--load KG': option(float, 'with --gains: mass of the load, kg'),
}


def weigh(args: argparse.Namespace, learn: Learn) -> int:
    """Estimate a load, or the drive gains from a known load; write the result and return 0.

    Args:
        args: Parsed arguments.
        learn: Identifies the robot from bags.

    Raises:
        RobotDynamicsError: Nothing can be estimated; states why.
    """
    name = _PROFILE if args.gains else _PAYLOAD
    choose_folder(args.output, args.output, force=args.force, files=[name])
    text, said = _gains(args, learn) if args.gains else _payload(args, learn)
    with atomic_folder(args.output) as folder:
        (folder / name).write_text(text, encoding='utf-8')
    print(*said, f'written: {args.output / name}', sep='\n')
    return 0


def _payload(args: argparse.Namespace, learn: Learn) -> tuple[str, list[str]]:
    if len(args.bags) != 1:
        raise ConfigurationError('--payload', f'has {len(args.bags)} bags', 'give the loaded run')
    identified, (source, *_), _ = learn(args.unloaded or args.bags)
    loaded = _whole(replace(source, path=str(args.bags[0])))
    described = not args.unloaded
    gains = DriveGains.of_profile(identified.tree, 0.0 if args.given_gains else STILL_TRUSTED)
    if described:
        identified = _as_described(identified)
        gains = replace(gains, source=f'{gains.source}, arm as described')
    elif not args.given_gains:
        gains = gains_by_weight(identified, _whole(replace(source, path=str(args.unloaded[0]))))
    load = estimate_load(identified, loaded, args.payload, gains, described=described)
    tilt = tilt_remarks(identified.plan, args)
    return _payload_text(load), [*tilt, *_payload_sentences(load)]


def _whole(source: Source) -> Recording:
    """Return a bag as one recording."""
    (recording,) = source.parts([], math.inf)
    return recording


def _as_described(identified: Identification) -> Identification:
    unknowns = identified.plan.unknowns
    physical = replace(identified.physical, values=unknowns.nominal)
    return replace(identified, physical=physical, tree=unknowns.tree)


def _payload_sentences(load: LoadEstimate) -> list[str]:
    payload = load.payload
    centre = ', '.join(f'{x:.4f}' for x in payload.com)
    sure = ', '.join(f'{x:.1g}' for x in load.com_deviation)
    inertia = ', '.join(
        f'{axis} {payload.inertia[i, i]:.3g} ± {load.inertia_deviation[i, i]:.1g}'
        for i, axis in enumerate(('xx', 'yy', 'zz'))
    )
    return [
        f'{payload.frame} carries {payload.mass:.4g} ± {load.mass_deviation:.2g} kg '
        f'({load.gains.source})',
        f'centre: {centre} m, deviations {sure}',
        f'inertia about it: {inertia} kg m^2',
    ]


def _payload_text(load: LoadEstimate) -> str:
    payload, upper = load.payload, np.triu_indices(3)
    values = {
        'payload_mass': payload.mass,
        'payload_com': np.asarray(payload.com).tolist(),
        'payload_inertia': np.asarray(payload.inertia)[upper].tolist(),
        'payload_frame': payload.frame,
    }
    deviations = {
        'mass': load.mass_deviation,
        'com': load.com_deviation.tolist(),
        'inertia': load.inertia_deviation[upper].tolist(),
    }
    comments = (
        'Parameters of the controller: the payload of the arm. Standard deviations:',
        yaml.safe_dump(deviations, default_flow_style=True, width=math.inf).strip(),
        load.gains.source,
    )
    return commented(comments, {'/**': {'ros__parameters': values}})


def _gains(args: argparse.Namespace, learn: Learn) -> tuple[str, list[str]]:
    if args.load is None or not args.load > 0.0 or not args.driver_profile:
        raise ConfigurationError(
            '--gains', 'lacks --load or --driver_profile', 'give the mass in kg, and the profile'
        )
    identified, (source, *_), _ = learn([args.gains[0]])
    loaded = _whole(replace(source, path=str(args.gains[1])))
    frame = args.payload or identified.tree.link_names[-1]
    gains, joints = gains_by_load(identified, loaded, frame, args.load)
    _require_alike(gains, gains_by_weight(identified, _whole(source)), joints, args.load)
    text, said = _profile_text(args.driver_profile, source, identified, gains, joints)
    return text, [*tilt_remarks(identified.plan, args), *said]


def _require_alike(
    by_load: DriveGains, by_weight: DriveGains, joints: Sequence[str], load: float
) -> None:
    """Reject gains by a load that contradict those by the weight of the arm.

    Raises:
        RecordingError: They do.
    """
    ratio = float(np.median((by_load.factor / by_weight.factor)[np.isfinite(by_load.deviation)]))
    if not 1.0 / _CONTRADICTION < ratio < _CONTRADICTION:
        raise RecordingError(
            f'a load of {load:g} kg',
            f'needs gains {ratio:.2g} times those by which the arm weighs what its description '
            f'says, at {", ".join(joints)}',
            f'was it {load / ratio:.2g} kg, or is the order of the runs UNLOADED LOADED wrong?',
        )


def _profile_text(
    name_or_path: str,
    source: Source,
    identified: Identification,
    gains: DriveGains,
    corrected: list[str],
) -> tuple[str, list[str]]:
    """Return the profile with the new gains as YAML, and one sentence per joint."""
    driver = source.choice.driver(source.tree)
    assert driver is not None
    data: dict[str, Any] = read_yaml(name_or_path, 'driver profile', shipped_profiles())
    rows = {row['joint']: dict(row) for row in data.get('joints', []) if isinstance(row, dict)}
    profile, said = driver.profile, [gains.source]
    known = {row.joint: row for row in profile.joints}
    for i, name in enumerate(identified.tree.joint_names):
        row = known.get(name, profile.defaults)
        unit = row.measured_effort_unit or row.effort_unit
        if name not in corrected:
            said.append(f'{name}: the load does not determine its gain, which stays as given')
            continue
        if unit not in NEED_CONSTANT or row.torque_constant is None:
            raise ConfigurationError(
                f'driver profile {name_or_path!r}, joint {name!r}',
                'has no torque_constant to correct',
                f'give the unit of its effort, one of {", ".join(NEED_CONSTANT)}, and an initial '
                'torque_constant',
            )
        constant = row.torque_constant * float(gains.factor[i])
        deviation = row.torque_constant * float(gains.deviation[i])
        entry = rows.setdefault(name, {'joint': name})
        entry['torque_constant'] = round(constant, 6)
        said.append(f'{name}: torque constant {constant:.4g} ± {deviation:.2g}')
    if not rows:
        raise RecordingError('the loaded run', 'determines no gain', 'use a heavier load')
    order = [row.joint for row in profile.joints] or list(identified.tree.joint_names)
    data['joints'] = [rows.get(name, {'joint': name}) for name in order]
    return commented(said, data), said
