# SPDX-License-Identifier: Apache-2.0
"""Export of an identification: corrected URDF, YAML, table rows, JSON; and drives in currents."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import yaml

from robot_dynamics_ros.description.urdf import TENSOR, Inertial, parse_urdf
from robot_dynamics_ros.description.urdf_patch import JointDynamics, patch_urdf
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.estimation.hypotheses import possible_masses
from robot_dynamics_ros.estimation.regressor import (
    PER_BODY,
    inertial_parameters,
)
from robot_dynamics_ros.identification.identify import Identification
from robot_dynamics_ros.identification.physical import body_links, link_inertial
from robot_dynamics_ros.identification.unknowns import (
    DEFAULT_TERMS,
    FORMULA,
    described,
    recorded_speed,
    stribeck_velocity,
)
from robot_dynamics_ros.model.identified import (
    DRIVE_TERMS,
    NOTE,
    RECORDED_SPEED,
    STRIBECK_VELOCITY,
)
from robot_dynamics_ros.model.selection import released
from robot_dynamics_ros.spatial.inertia import body_inertia
from robot_dynamics_ros.yaml_reader.parsing import plain

_UNCHANGED = 1e-9  # relative change below which the <inertial> of a body is not rewritten


def corrected_links(identified: Identification) -> dict[str, Inertial]:
    """Return the new <inertial> of every link that changes, in its own frame."""
    nominal = identified.plan.unknowns.tree
    before, after = inertial_parameters(nominal), inertial_parameters(identified.tree)
    inertials: dict[str, Inertial] = {}
    possible = possible_masses(identified.tree.mass, nominal.mass)  # others are trifles: kept
    for i, (carrier, fixed) in enumerate(body_links(nominal)):
        at = slice(PER_BODY * i, PER_BODY * (i + 1))
        change = np.max(np.abs(after[at] - before[at]))
        if possible[i] and change > _UNCHANGED * np.max(np.abs(before[at])):
            inertials[carrier] = link_inertial(nominal, carrier, body_inertia(after[at] - fixed))
    return inertials


def corrected_joints(identified: Identification) -> dict[str, JointDynamics]:
    """Return the new <dynamics> of every joint; the joint that is followed has its mimic joints'.

    Their friction is only viscous and Coulomb, see ``Identification.urdf_friction``.
    """
    tree = identified.tree
    terms = np.transpose([*identified.urdf_friction, tree.armature]).tolist()
    joints = dict.fromkeys(tree.mimic_joints, JointDynamics(0.0, 0.0))
    return joints | {
        name: JointDynamics(*row) for name, row in zip(tree.joint_names, terms, strict=True)
    }


def corrected_urdf(identified: Identification) -> str:
    """Return the URDF text of the robot with the identified values, and a comment at its end.

    Raises:
        ConfigurationError: The robot was not made from a URDF.
    """
    xml = identified.plan.unknowns.tree.xml
    if not xml:
        raise ConfigurationError('robot', 'has no URDF text', 'load it from a URDF')
    text = patch_urdf(xml, corrected_links(identified), corrected_joints(identified))
    text = re.sub(f'\n<!-- {NOTE}.*?-->', '', text, flags=re.DOTALL).rstrip()
    said = '\n'.join([NOTE, *delivered(identified)]).replace('--', '==')  # ends no comment
    return f'{text}\n<!-- {said} -->\n'


def delivered(identified: Identification) -> list[str]:
    """Return which links the files change and how sure their values are, one sentence or none."""
    if single := identified.single:
        changed = ', '.join(identified.tree.link_names[i] for i in single.bodies)
        return [
            f'the files change {changed}, and other links hardly: the recordings determine '
            'sums of links, so this is as sure as the description of the others'
        ]
    alone, names = identified.estimate.base.alone, identified.tree.link_names
    links = [name for i, name in enumerate(names) if PER_BODY * i not in alone]
    if not links:
        return []
    return [
        f'of {", ".join(links)} only sums with others are known: '
        'their own masses, centres and inertias are no measurements, but close to described ones'
    ]


def parameter_patch(identified: Identification) -> dict[str, Any]:
    """Return the changed values by link and joint, including terms that a URDF cannot hold."""
    links = {
        name: {
            'mass': value.mass,
            'origin': {'xyz': list(value.origin.xyz), 'rpy': list(value.origin.rpy)},
            'inertia': {key: getattr(value, key) for key in TENSOR},
        }
        for name, value in corrected_links(identified).items()
    }
    tree = identified.tree
    followed = dict.fromkeys(DEFAULT_TERMS, 0.0)
    followed[STRIBECK_VELOCITY] = float(stribeck_velocity(tree)[0])
    joints: dict[str, Any] = {name: dict(followed) for name in tree.mimic_joints}
    for i, name in enumerate(tree.joint_names):
        joints[name] = _drive_terms(identified, i)
    return {
        'robot': identified.tree.name,
        'gravity': identified.tree.gravity.tolist(),
        'locked': released(parse_urdf(tree.xml, lambda fault: None))[1],
        'links': links,
        'joints': joints,
    }


def _drive_terms(identified: Identification, i: int) -> dict[str, Any]:
    """Return all drive terms of joint i, and the deviations of the identified ones."""
    tree, unknowns = identified.tree, identified.plan.unknowns
    deviations = identified.physical.deviations[unknowns.drives[:, i]].tolist()
    sizes = dict(zip(unknowns.terms, deviations, strict=True))
    fastest = float(recorded_speed(tree)[i])
    return {
        **{term: float(described(tree, term)[i]) for term in (*DEFAULT_TERMS, *DRIVE_TERMS)},
        STRIBECK_VELOCITY: float(stribeck_velocity(tree)[i]),
        **({RECORDED_SPEED: fastest} if math.isfinite(fastest) else {}),
        'deviations': {term: value for term, value in sizes.items() if 0.0 < value < math.inf},
    }


def parameter_text(identified: Identification) -> str:
    """Return :func:`parameter_patch` as YAML text, with formula and limits in the header."""
    header = [*FORMULA.splitlines(), *delivered(identified)]
    return commented(header, parameter_patch(identified))


def commented(comments: Sequence[str], values: Any) -> str:
    """Return values as YAML, after comments, one line each."""
    header = ''.join(f'# {line}\n' for line in comments)
    return header + yaml.safe_dump(plain(values), sort_keys=False)


class Row(NamedTuple):
    """One parameter: name, nominal value, identified value, standard deviation, unit."""

    name: str
    nominal: float
    value: float
    deviation: float
    unit: str


def base_rows(identified: Identification) -> list[Row]:
    """Return a row per base parameter."""
    unknowns, estimate = identified.plan.unknowns, identified.estimate
    nominal = estimate.base.B @ unknowns.nominal
    units = [unknowns.units[k] for k in estimate.base.leading.tolist()]
    columns = (x.tolist() for x in (nominal, estimate.values, estimate.deviations))
    return [*map(Row, estimate.base.names, *columns, units)]


def as_dict(identified: Identification) -> dict[str, Any]:
    """Return all numbers of an identification for JSON."""
    plan, estimate, single = identified.plan, identified.estimate, identified.single
    unknowns, physical = plan.unknowns, identified.physical
    columns = (x.tolist() for x in (unknowns.nominal, physical.values, physical.deviations))
    rows = map(Row, unknowns.names, *columns, unknowns.units)
    return {
        'robot': identified.tree.name,
        'gravity': identified.tree.gravity.tolist(),
        'gravity_estimate': plan.gravity.as_dict() if plan.gravity else None,
        'preparation': vars(plan.preparation)
        | {'chosen': plan.choice.sentence(), 'lag_deviation': plan.choice.lag.deviation},
        'terms': list(unknowns.terms),
        'condition': estimate.condition,
        'joints': [
            {'name': name, 'usable_samples': int(count), 'noise': float(noise)}
            for name, count, noise in zip(
                identified.tree.joint_names, estimate.counts, estimate.noise, strict=True
            )
        ],
        'base_parameters': [row._asdict() for row in base_rows(identified)],
        'parameters': [row._asdict() for row in rows],
        'single_change': None
        if single is None
        else {
            'links': [identified.tree.link_names[i] for i in single.bodies],
            'mass': single.mass,
            'nominal': single.nominal,
            'deviation': single.deviation,
        },
        'chosen': list(identified.chosen),
        'undetermined': identified.undetermined(),
    }
