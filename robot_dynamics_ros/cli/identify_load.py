# SPDX-License-Identifier: Apache-2.0
"""What command identify does with a load: weigh it, or estimate the gains of the drives by it."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from robot_dynamics_ros.control.drivers.file import shipped_profiles
from robot_dynamics_ros.control.drivers.profile import NEED_CONSTANT
from robot_dynamics_ros.errors import ConfigurationError, RecordingError
from robot_dynamics_ros.identification.bags import Gathered, Source
from robot_dynamics_ros.identification.identify import Identification
from robot_dynamics_ros.identification.loads import (
    DriveGains,
    LoadEstimate,
    estimate_load,
    gains_by_load,
    gains_by_weight,
)
from robot_dynamics_ros.recordings.output_folder import claim, filled
from robot_dynamics_ros.recordings.recording import Recording


class Learned(NamedTuple):
    """The robot that bags speak of, how each bag is read, and what it says."""

    identified: Identification
    sources: list[Source]
    gathered: list[Gathered]


Learn = Callable[[Sequence[Path]], Learned]
_PAYLOAD, _PROFILE = 'payload.yaml', 'driver_profile.yaml'


def add_load_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        '--payload',
        default='',
        metavar='FRAME',
        help='find mass, centre and inertia of what this link carries in BAG',
    )
    parser.add_argument(
        '--unloaded',
        nargs='+',
        type=Path,
        default=[],
        metavar='BAG',
        help='with --payload: runs of the same arm without the load, to learn the arm from and to '
        'scale its drive gains by its own weight (default: the arm is as described)',
    )
    parser.add_argument(
        '--given_gains',
        action='store_true',
        help='with --payload: do not scale the drive gains of the profile',
    )
    parser.add_argument(
        '--gains',
        nargs=2,
        type=Path,
        metavar=('UNLOADED', 'LOADED'),
        help='estimate the drive gains of --driver_profile from two runs, and write the profile',
    )
    parser.add_argument('--load', type=float, metavar='KG', help='with --gains: mass of the load')


def weigh(args: argparse.Namespace, learn: Learn) -> int:
    """Weigh a load, or estimate the gains by it; write the result and return 0.

    Args:
        args: As parsed.
        learn: Returns the robot that bags speak of, and how they are read.

    Raises:
        RobotDynamicsError: Nothing can be estimated; says why.
    """
    name = _PROFILE if args.gains else _PAYLOAD
    claim(args.output, args.output, force=args.force, files=[name])
    text, said = _gains(args, learn) if args.gains else _payload(args, learn)
    with filled(args.output) as folder:
        (folder / name).write_text(text, encoding='utf-8')
    print(*said, f'written: {args.output / name}', sep='\n')
    return 0


def _payload(args: argparse.Namespace, learn: Learn) -> tuple[str, list[str]]:
    if len(args.bags) != 1:
        raise ConfigurationError('--payload', f'has {len(args.bags)} bags', 'give the loaded run')
    identified, (source, *_), _ = learn(args.unloaded or args.bags)
    loaded = _whole(replace(source, path=str(args.bags[0])))
    gains = DriveGains.of_profile(identified.tree)
    if not args.unloaded:
        identified = _as_described(identified)
        gains = replace(gains, source=f'{gains.source}, arm as described')
    elif args.driver_profile and not args.given_gains:
        gains = gains_by_weight(identified, _whole(replace(source, path=str(args.unloaded[0]))))
    load = estimate_load(identified, loaded, args.payload, gains)
    return _payload_text(load), _payload_sentences(load)


def _whole(source: Source) -> Recording:
    """Return all of a bag that counts."""
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
    return [
        f'{payload.frame} carries {payload.mass:.4g} ± {load.mass_deviation:.2g} kg '
        f'({load.gains.source})',
        f'centre: {centre} m, deviations {sure}',
        'inertia about it: '
        + ', '.join(
            f'{axis} {payload.inertia[i, i]:.3g} ± {load.inertia_deviation[i, i]:.1g}'
            for i, axis in enumerate(('xx', 'yy', 'zz'))
        )
        + ' kg m^2',
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
    header = (
        '# Parameters of the controller: what the arm carries. Standard deviations:\n'
        f'# {yaml.safe_dump(deviations, default_flow_style=True, width=math.inf)}'
        f'# {load.gains.source}\n'
    )
    return header + yaml.safe_dump({'/**': {'ros__parameters': values}}, sort_keys=False)


def _gains(args: argparse.Namespace, learn: Learn) -> tuple[str, list[str]]:
    if args.load is None or not args.load > 0.0 or not args.driver_profile:
        raise ConfigurationError(
            '--gains', 'lacks --load or --driver_profile', 'give the mass in kg, and the profile'
        )
    identified, (source, *_), _ = learn([args.gains[0]])
    loaded = _whole(replace(source, path=str(args.gains[1])))
    frame = args.payload or identified.tree.link_names[-1]
    gains, joints = gains_by_load(identified, loaded, frame, args.load)
    return _profile_text(args.driver_profile, source, identified, gains, joints)


def _profile_text(
    name_or_path: str,
    source: Source,
    identified: Identification,
    gains: DriveGains,
    corrected: list[str],
) -> tuple[str, list[str]]:
    """Return the profile with the new gains, and what there is to say of each joint."""
    driver = source.choice.driver(source.tree)
    assert driver is not None
    path = Path(shipped_profiles().get(name_or_path, name_or_path))
    data: dict[str, Any] = yaml.safe_load(path.read_text(encoding='utf-8'))
    rows = {row['joint']: dict(row) for row in data.get('joints', []) if isinstance(row, dict)}
    profile, said = driver.profile, [gains.source]
    known = {row.joint: row for row in profile.joints}
    for i, name in enumerate(identified.tree.joint_names):
        row = known.get(name, profile.defaults)
        unit = row.measured_effort_unit or row.effort_unit
        if name not in corrected:
            said.append(f'{name}: the load does not tell its gain, which stays as given')
            continue
        if unit not in NEED_CONSTANT or row.torque_constant is None:
            raise ConfigurationError(
                f'driver profile {name_or_path!r}, joint {name!r}',
                'has no torque_constant to correct',
                f'give the unit of its effort, one of {", ".join(NEED_CONSTANT)}, and a first '
                'torque_constant',
            )
        constant = row.torque_constant * float(gains.factor[i])
        deviation = row.torque_constant * float(gains.deviation[i])
        entry = rows.setdefault(name, {'joint': name})
        entry['torque_constant'] = round(constant, 6)
        said.append(f'{name}: torque constant {constant:.4g} ± {deviation:.2g}')
    if not rows:
        raise RecordingError('the loaded run', 'tells no gain', 'use a heavier load')
    order = [row.joint for row in profile.joints] or list(identified.tree.joint_names)
    data['joints'] = [rows.get(name, {'joint': name}) for name in order]
    header = ''.join(f'# {sentence}\n' for sentence in said)
    return header + yaml.safe_dump(data, sort_keys=False), said
