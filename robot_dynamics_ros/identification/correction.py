# SPDX-License-Identifier: Apache-2.0
"""An identification as text and numbers: corrected URDF, YAML, rows of tables, JSON."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import yaml

from robot_dynamics_ros.description.robot_description import Inertial
from robot_dynamics_ros.description.urdf_patch import JointDynamics, patch_urdf
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.identification.identify import Identification
from robot_dynamics_ros.identification.regressor import PER_BODY, inertial_parameters, tensor_of
from robot_dynamics_ros.identification.unknowns import (
    FORMULA,
    Unknowns,
    body_links,
    described,
    link_inertial,
    stribeck_velocity,
)
from robot_dynamics_ros.model.identified import DRIVE_TERMS, STRIBECK_VELOCITY
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia, shift_inertia

_UNCHANGED = 1e-9  # relative; a body changed by less stays as it is written


def corrected_links(identified: Identification) -> dict[str, Inertial]:
    """Return the new <inertial> of every link that changes, in its own frame."""
    nominal = identified.plan.unknowns.tree
    before, after = inertial_parameters(nominal), inertial_parameters(identified.tree)
    inertials: dict[str, Inertial] = {}
    for i, links in enumerate(body_links(nominal)):
        at = slice(PER_BODY * i, PER_BODY * (i + 1))
        if np.max(np.abs(after[at] - before[at])) > _UNCHANGED * np.max(np.abs(before[at])):
            part = _inertia_of(after[at] - links.fixed)
            inertials[links.carrier] = link_inertial(nominal, links.carrier, part)
    return inertials


def _inertia_of(block: Any) -> RigidBodyInertia:
    mass, com = float(block[0]), block[1:4] / block[0]
    return RigidBodyInertia(mass, com, shift_inertia(tensor_of(block), -mass, com))


def corrected_joints(identified: Identification) -> dict[str, JointDynamics]:
    """Return the new <dynamics> of every joint."""
    tree = identified.tree
    return {
        name: JointDynamics(*values)
        for name, *values in zip(
            tree.joint_names,
            tree.damping.tolist(),
            tree.coulomb_friction.tolist(),
            tree.armature.tolist(),
            strict=True,
        )
    }


def corrected_urdf(identified: Identification) -> str:
    """Return the robot's URDF text with the identified values; all else as it was.

    Raises:
        ConfigurationError: The robot was not made from a URDF.
    """
    xml = identified.plan.unknowns.tree.xml
    if not xml:
        raise ConfigurationError('robot', 'has no URDF text', 'load it from a URDF')
    return patch_urdf(xml, corrected_links(identified), corrected_joints(identified))


def parameter_patch(identified: Identification) -> dict[str, Any]:
    """Return the changed values by link and joint: what the URDF says, and what it cannot."""
    links = {
        name: {
            'mass': value.mass,
            'origin': {'xyz': list(value.origin.xyz), 'rpy': list(value.origin.rpy)},
            'inertia': {
                key: getattr(value, key) for key in ('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz')
            },
        }
        for name, value in corrected_links(identified).items()
    }
    joints = {
        name: {
            'damping': value.damping,
            'coulomb_friction': value.friction,
            'armature': value.armature,
            **_further_terms(identified, i),
        }
        for i, (name, value) in enumerate(corrected_joints(identified).items())
    }
    return {
        'robot': identified.tree.name,
        'formula': FORMULA,
        'gravity': identified.tree.gravity.tolist(),
        'links': links,
        'joints': joints,
    }


def _further_terms(identified: Identification, i: int) -> dict[str, Any]:
    """Return what the drive of a joint has beyond a URDF, and how surely all of it is known."""
    unknowns, deviations = identified.plan.unknowns, identified.physical.deviations
    values = {term: float(described(identified.tree, term)[i]) for term in DRIVE_TERMS}
    sizes = {term: float(unknowns.term(deviations, term)[i]) for term in unknowns.terms}
    return {
        **values,
        STRIBECK_VELOCITY: float(stribeck_velocity(identified.tree)[i]),
        'deviations': {term: value for term, value in sizes.items() if value},
    }


def parameter_text(identified: Identification) -> str:
    """Return the same as YAML text, with the formula in its header."""
    values = parameter_patch(identified)
    header = ''.join(f'# {line}\n' for line in values.pop('formula').splitlines())
    return header + yaml.safe_dump(values, sort_keys=False)


class Row(NamedTuple):
    """One value: its name, what the nominal model says, what the data say, and how surely."""

    name: str
    nominal: float
    value: float
    deviation: float
    unit: str


def base_rows(identified: Identification) -> list[Row]:
    """Return the base parameters."""
    unknowns, estimate = identified.plan.unknowns, identified.estimate
    nominal = estimate.base.B @ unknowns.nominal
    units = [unknowns.units[k] for k in estimate.base.leading.tolist()]
    return [
        Row(*values)
        for values in zip(
            estimate.base.names,
            nominal.tolist(),
            estimate.values.tolist(),
            estimate.deviations.tolist(),
            units,
            strict=True,
        )
    ]


def joint_rows(identified: Identification) -> list[Row]:
    """Return the terms of the drives, as the corrected robot has them."""
    unknowns = identified.plan.unknowns
    rows = [_row(unknowns, identified, k) for k in range(unknowns.links, len(unknowns))]
    return [row for row in rows if row.deviation or row.nominal or not _further(row.name)]


def _further(name: str) -> bool:
    return name.rsplit('.', 1)[1] in DRIVE_TERMS


def _row(unknowns: Unknowns, identified: Identification, k: int) -> Row:
    return Row(
        unknowns.names[k],
        float(unknowns.nominal[k]),
        float(identified.physical.values[k]),
        float(identified.physical.deviations[k]),
        unknowns.units[k],
    )


def as_dict(identified: Identification) -> dict[str, Any]:
    """Return all numbers of an identification for JSON."""
    plan, estimate = identified.plan, identified.estimate
    return {
        'robot': identified.tree.name,
        'gravity': identified.tree.gravity.tolist(),
        'gravity_estimate': plan.gravity.as_dict() if plan.gravity else None,
        'preparation': vars(plan.preparation) | {'chosen': plan.choice.sentence()},
        'terms': list(plan.unknowns.terms),
        'condition': estimate.condition,
        'joints': [
            {'name': name, 'usable_samples': int(count), 'noise': float(noise)}
            for name, count, noise in zip(
                identified.tree.joint_names, estimate.counts, estimate.noise, strict=True
            )
        ],
        'base_parameters': [row._asdict() for row in base_rows(identified)],
        'parameters': [
            row._asdict() | {'told_by_data': float(share)}
            for row, share in zip(
                [_row(plan.unknowns, identified, k) for k in range(len(plan.unknowns))],
                identified.physical.data_share,
                strict=True,
            )
        ],
        'chosen': list(identified.chosen),
        'not_told': identified.silence(),
    }
