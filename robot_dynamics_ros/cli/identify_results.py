# SPDX-License-Identifier: Apache-2.0
"""Results of command ``identify``: files and terminal output.

Also a loaded run, to estimate the load or the drive gains.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.cli.arguments import JOINTS, PACKAGES, Options, option
from robot_dynamics_ros.cli.tables import print_report
from robot_dynamics_ros.control.drivers.profile import (
    NEED_CONSTANT,
    load_driver_profile,
    shipped_profiles,
)
from robot_dynamics_ros.description.urdf_patch import with_fixed_link
from robot_dynamics_ros.errors import ConfigurationError, RecordingError
from robot_dynamics_ros.identification import Identification, IdentificationPlan
from robot_dynamics_ros.identification.bags import BagOutcome, Evidence, Source
from robot_dynamics_ros.identification.correction import (
    as_dict,
    commented,
    corrected_urdf,
    parameter_text,
)
from robot_dynamics_ros.identification.least_squares import estimated
from robot_dynamics_ros.identification.loads import (
    STILL_TRUSTED,
    DriveGains,
    LoadEstimate,
    estimate_load,
    gains_by_load,
    gains_by_runs,
    gains_by_weight,
)
from robot_dynamics_ros.identification.physical import inertial
from robot_dynamics_ros.identification.report import identification_report, pictures
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.model.robot_tree import STANDARD_GRAVITY
from robot_dynamics_ros.recordings.bag.files import short_name
from robot_dynamics_ros.recordings.output_folder import atomic_folder, require_free, write_json
from robot_dynamics_ros.recordings.recording import Recording
from robot_dynamics_ros.recordings.report.toolkit import command_line
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia
from robot_dynamics_ros.yaml_reader.parsing import read_yaml

#: Files written to the output folder.
FILES = ('corrected.urdf', 'parameters.yaml', 'identification.json', 'report.html')
_MOST_NOTES = 10  # about bags
_OF_NODES = ('--robot', '--effort-limit', *(key.split()[0] for key in {**PACKAGES, **JOINTS}))
_CONTRADICTION = 2.0  # ratio of gains by a load to those by the arm's own weight, and its inverse


def deliver_results(
    output: Path,
    result: Identification,
    evidence: Evidence,
    findings: Sequence[Finding],
    remarks: Sequence[str],
    bags: Sequence[BagOutcome],
    options: Mapping[str, Sequence[str]],
) -> None:
    """Write corrected URDF, parameters, JSON and report, all or none; print the report.

    The commands that the report names have the options with which the bags were read.

    Raises:
        ConfigurationError: The folder cannot be written.
    """
    before, after = evidence.residuals
    document = as_dict(result) | {
        'bags': [bag.as_dict(result.tree) for bag in bags],
        'residuals': {'nominal': before._asdict(), 'corrected': after._asdict()},
        'remarks': [*remarks, *map(str, findings)],
    }
    learned = listed([short_name(Path(bag.bag)) for bag in bags if bag.learned])
    failed = _first([f'failed: {bag.error}' for bag in bags if bag.error])
    findings = [*(Finding('error', reason) for reason in failed), *findings]
    notes = [f'{bag.bag}: {note}' for bag in bags for note in bag.notes if not bag.error]
    usable, file = next((bag.bag for bag in bags if not bag.error), 'BAG'), output / FILES[1]
    read = {name: words for name, words in options.items() if name != '--identified'}
    report = identification_report(
        f'Learned from {learned}; {remarks[0]}',
        result,
        evidence,
        findings,
        [*remarks[1:], *_first(notes)],
        bags,
        [
            command_line('analyze', usable, '--identified', file, options=read),
            _control_line(output, result.tree, options),
        ],
    )
    with atomic_folder(output) as folder:
        urdf, patch, numbers, page = (folder / name for name in FILES)
        urdf.write_text(corrected_urdf(result), encoding='utf-8')
        patch.write_text(parameter_text(result), encoding='utf-8')
        write_json(numbers, document)
        report._replace(figures=pictures(result, evidence)).write(page)
    print_report(report, output)


def _control_line(output: Path, tree: Robot, options: Mapping[str, Sequence[str]]) -> str:
    """Return the command that controls the corrected robot."""
    own = {name: words for name, words in options.items() if name in _OF_NODES}
    if not any(name in own for name in ('--robot', '--joints', '--tip')):
        own['--joints'] = ['--joints', ','.join(tree.joint_names)]
    own.setdefault('--robot', ['--robot', str(output / FILES[0])])
    if tuple(tree.gravity.tolist()) != STANDARD_GRAVITY:
        own['--gravity'] = ['--gravity', *map(str, tree.gravity.tolist())]
    parameters = ['-p', f'identified:={output / FILES[1]}']
    if '--driver-profile' in options:
        parameters += ['-p', f'driver_profile:={options["--driver-profile"][1]}']
    return command_line('control', *parameters, options=own)


def plan_remarks(plan: IdentificationPlan, args: argparse.Namespace) -> list[str]:
    """Return that efforts lag, or gravity points elsewhere than in the model, a sentence each."""
    said = [plan.choice.lag.sentence]
    if plan.gravity is not None and plan.gravity.tilted:
        said.append(plan.gravity.sentence(given=bool(args.gravity)))
    return [sentence for sentence in said if sentence]


def listed(names: Sequence[object], most: int = 3) -> str:
    """Return names in one line, the first ``most`` of many."""
    text = ', '.join(map(str, names[:most]))
    return f'{text} and {len(names) - most} more' if len(names) > most else text


def _first(sentences: Sequence[str]) -> list[str]:
    """Return the first of the sentences on bags, and how many more there are."""
    more = len(sentences) - _MOST_NOTES
    about = [f'and {more} more about bags: see {FILES[2]}'] if more > 0 else []
    return [*sentences[:_MOST_NOTES], *about]


class Learned(NamedTuple):
    """The identified robot, the usable sources of its bags, and the outcome of each bag."""

    identified: Identification
    sources: list[Source]
    gathered: list[BagOutcome]


Learn = Callable[[Sequence[Path]], Learned]
_PAYLOAD, _LOADED, _PROFILE = 'payload.yaml', 'loaded.urdf', 'driver_profile.yaml'


#: Arguments of a run with a load.
LOAD: Options = {
    '--payload FRAME': option(
        '', 'estimate mass, centre of mass and inertia of the load on this link in BAG'
    ),
    '--unloaded BAG': option(
        [],
        'runs of the same arm without the load, to identify the arm and to scale its drive gains '
        'by its own weight (default: the arm is as described)',
        needs='--payload',
        without='--gains',
        type=Path,
        nargs='+',
    ),
    '--given-gains': option(
        False,
        'use the drive gains of the profile without scaling',
        needs='--payload',
        without='--gains',
    ),
    '--gains UNLOADED LOADED': option(
        Path,
        'estimate the drive gains of --driver-profile from two runs, and write the profile',
    ),
    '--load KG': option(float, 'mass of the load, kg', needs='--gains'),
}


def weigh(args: argparse.Namespace, learn: Learn) -> int:
    """Estimate a load, or the drive gains from a known load; write the result and return 0.

    Args:
        args: Parsed arguments.
        learn: Identifies the robot from bags.

    Raises:
        RobotDynamicsError: Nothing can be estimated; states why.
    """
    names = [_PROFILE] if args.gains else [_PAYLOAD, _LOADED]
    require_free(args.output, names, force=args.force)
    *texts, said = _gains(args, learn) if args.gains else _payload(args, learn)
    with atomic_folder(args.output) as folder:
        for name, text in zip(names, texts, strict=True):
            (folder / name).write_text(text, encoding='utf-8')
    print(*said, *(f'written: {args.output / name}' for name in names), sep='\n')
    if not args.gains:
        print(f'the controller takes {_PAYLOAD} behind the parameters of the arm, as --params')
        print(f'{_LOADED} has the load as a link, for one that stays, as a tool')
    return 0


def _payload(args: argparse.Namespace, learn: Learn) -> tuple[str, str, list[str]]:
    if len(args.bags) != 1:
        raise ConfigurationError('--payload', f'has {len(args.bags)} bags', 'give the loaded run')
    if not args.unloaded and args.prior_weight != 1.0:
        raise ConfigurationError('--prior-weight', 'has no effect alone', 'add --unloaded')
    identified, (source, *_), _ = learn(args.unloaded or args.bags)
    loaded = _with_load(replace(source, path=str(args.bags[0])))
    described = not args.unloaded
    gains = DriveGains.of_profile(identified.tree, 0.0 if args.given_gains else STILL_TRUSTED)
    if described:
        unknowns = identified.plan.unknowns
        physical = replace(identified.physical, values=unknowns.nominal)
        identified = replace(identified, physical=physical, tree=unknowns.tree)
        known = f'{gains.source}, arm as described to {STILL_TRUSTED:.0%}'
        gains = gains._replace(source=f'{known}: surer with --unloaded BAG')
    elif not args.given_gains:
        gains = gains_by_weight(identified, replace(source, path=str(args.unloaded[0])).read()[0])
    load = estimate_load(identified, loaded, args.payload, gains, described=described)
    told = plan_remarks(identified.plan, args)
    xml = identified.tree.xml if described else corrected_urdf(identified)
    payload = load.payload
    own = inertial(RigidBodyInertia(payload.mass, payload.com, payload.inertia))
    text = with_fixed_link(xml, payload.frame, f'{payload.frame}_load', own)
    return _payload_text(load), text, [*told, *_payload_sentences(load)]


def _with_load(source: Source) -> Recording:
    """Return a loaded run, whose load is estimated whether the controller knew it or not."""
    return replace(source, is_load_known=False).read()[0]


def _payload_sentences(load: LoadEstimate) -> list[str]:
    payload = load.payload
    values = np.append(payload.com, np.diag(payload.inertia))
    deviations = np.append(load.com_deviation, np.diag(load.inertia_deviation))
    parts = [
        f'{name} {estimated(value, deviation, 1)}' if known else f'{name} not determined'
        for name, value, deviation, known in zip(
            ('x', 'y', 'z', 'xx', 'yy', 'zz'), values, deviations, load.known, strict=True
        )
    ]
    said = [
        f'{payload.frame} carries {estimated(payload.mass, load.mass_deviation)} kg '
        f'({load.gains.source})',
        f'centre, m: {", ".join(parts[:3])}',
        f'inertia about it, kg m^2: {", ".join(parts[3:])}',
    ]
    places = (f'a centre at the origin of {payload.frame}', 'the least possible inertia')
    told = zip(places, np.split(load.known, 2), strict=True)
    if taken := ' and '.join(place for place, known in told if not known.all()):
        said.append(f'for what the motion does not determine, the files have {taken}')
    return said


def _payload_text(load: LoadEstimate) -> str:
    payload, upper = load.payload, np.triu_indices(3)
    values = {
        'payload_mass': payload.mass,
        'payload_com': np.asarray(payload.com).tolist(),
        'payload_inertia': np.asarray(payload.inertia)[upper].tolist(),
        'payload_frame': payload.frame,
    }
    comments = ('Parameters of the controller: the payload of the arm.', *_payload_sentences(load))
    return commented(comments, {'/**': {'ros__parameters': values}})


def _gains(args: argparse.Namespace, learn: Learn) -> tuple[str, list[str]]:
    if args.load is None or not args.load > 0.0 or not args.driver_profile:
        raise ConfigurationError(
            '--gains',
            'lacks --load or --driver-profile',
            'give the mass in kg, and the profile that defines the torque constants',
        )
    profile = load_driver_profile(args.driver_profile)
    if all(row.torque_constant is None for row in profile.joints or [profile.defaults]):
        raise _no_constant(f'driver profile {args.driver_profile!r}')
    identified, (source, *_), _ = learn([args.gains[0]])
    loaded = _with_load(replace(source, path=str(args.gains[1])))
    frame = args.payload or identified.tree.link_names[-1]
    unloaded = source.read()[0]
    gains, joints = gains_by_load(identified, loaded, frame, args.load)
    _require_alike(gains, gains_by_weight(identified, unloaded), joints, args.load)
    gains, joints = gains_by_runs(identified, unloaded, loaded, frame, args.load)
    text, said = _profile_text(args.driver_profile, source, identified, gains, joints)
    return text, [*plan_remarks(identified.plan, args), *said]


def _no_constant(culprit: str) -> ConfigurationError:
    return ConfigurationError(
        culprit,
        'has no torque_constant to correct',
        f'give the unit of the effort, one of {", ".join(NEED_CONSTANT)}, and an initial '
        'torque_constant; for efforts in N m effort_unit: A, torque_constant: 1, gear_ratio: 1',
    )


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
    rows = {row['joint']: dict(row) for row in data.get('joints', [])}
    profile, said = driver.profile, [gains.source]
    known = {row.joint: row for row in profile.joints}
    for i, name in enumerate(identified.tree.joint_names):
        row = known.get(name, profile.defaults)
        unit = row.measured_effort_unit or row.effort_unit
        if name not in corrected:
            said.append(f'{name}: the load does not determine its gain, which stays as given')
            continue
        if unit not in NEED_CONSTANT or row.torque_constant is None:
            raise _no_constant(f'driver profile {name_or_path!r}, joint {name!r}')
        constant = row.torque_constant * float(gains.factor[i])
        deviation = row.torque_constant * float(gains.deviation[i])
        entry = rows.setdefault(name, {'joint': name})
        entry['torque_constant'] = round(constant, 6)
        said.append(f'{name}: torque constant {constant:.4g} ± {deviation:.2g}')
    order = [row.joint for row in profile.joints] or list(identified.tree.joint_names)
    data['joints'] = [rows.get(name, {'joint': name}) for name in order]
    return commented(said, data), said
