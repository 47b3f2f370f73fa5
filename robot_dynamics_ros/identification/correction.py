# SPDX-License-Identifier: Apache-2.0
r"""An identification as text and numbers: corrected URDF, YAML, rows of tables, JSON.

Drives in amperes, where nobody knows the torque that an ampere makes.

.. math:: i_j = c_j\,\tau_{l,j} + J_j a_j + b_j v_j + i_{c,j}\,\mathrm{sign}\,v_j + \dots

with the effort :math:`\tau_l` of the rigid bodies as they are described. Each joint has its own
factor c, so that masses and currents cannot be separated: twice the masses with half of c is the
same current. Terms beyond viscous and Coulomb friction are taken in where they lower the residual
of held-out stretches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import yaml

from robot_dynamics_ros.description.robot_description import Inertial
from robot_dynamics_ros.description.urdf_patch import JointDynamics, patch_urdf
from robot_dynamics_ros.dynamics.joint_terms import FRICTION_TERMS
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.identification.evidence import Ridge
from robot_dynamics_ros.identification.identify import Identification
from robot_dynamics_ros.identification.preparation import Samples
from robot_dynamics_ros.identification.regressor import (
    PER_BODY,
    inertial_parameters,
    regressor,
    tensor_of,
)
from robot_dynamics_ros.identification.unknowns import (
    FORMULA,
    TERMS,
    Unknowns,
    body_links,
    described,
    link_inertial,
    stribeck_velocity,
)
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.identified import DRIVE_TERMS, STRIBECK_VELOCITY
from robot_dynamics_ros.spatial.inertia import RigidBodyInertia, shift_inertia
from robot_dynamics_ros.spatial.scalar import Array

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


#: The factor c, and what takes the place of N m or N in the units of the other terms.
PER_EFFORT = 'current_per_effort'
_ALWAYS = (PER_EFFORT, 'armature', 'damping', 'coulomb_friction')
_FREE = 100.0  # RMS currents that a term may make: practically free
_GAIN = 0.01  # of the held-out residual, from which on a term is worth having
_FOLDS = 6


@dataclass(frozen=True)
class JointCurrent:
    """What the current of a joint is made of.

    Attributes:
        values: By term, in units of the current by rad or m and s; ``PER_EFFORT`` by N m or N.
        deviations: Standard deviations of these.
        held_out: RMS of what held-out stretches leave unexplained, of the RMS current.
    """

    values: dict[str, float]
    deviations: dict[str, float]
    held_out: float


def joint_currents(samples: Samples, tree: RobotTree) -> list[JointCurrent]:
    """Return what the currents of all joints are made of.

    Args:
        samples: Of all recordings; their efforts are currents.
        tree: The robot as it is described.
    """
    motion = samples.motion
    load = regressor(tree, motion.q, motion.v, motion.a) @ inertial_parameters(tree)
    v, d = motion.v_friction, motion.direction
    columns, speed = {PER_EFFORT: load, 'armature': motion.a}, stribeck_velocity(tree)
    columns |= {name: term(v, d, load, speed) for name, term in FRICTION_TERMS.items()}
    return [
        _joint_current(
            {name: column[use, j] for name, column in columns.items()}, samples.effort[use, j]
        )
        for j, use in enumerate(samples.usable.T)
    ]


def _joint_current(columns: dict[str, Array], current: Array) -> JointCurrent:
    terms = list(_ALWAYS)
    error = _held_out(columns, terms, current)
    for term in TERMS:
        if term not in terms:
            tried = _held_out(columns, [*terms, term], current)
            if tried < (1.0 - _GAIN) * error:
                terms, error = [*terms, term], tried
    fit = _fit(columns, terms, current)
    deviations = np.sqrt(np.diag(fit.covariance()))
    return JointCurrent(
        dict(zip(terms, fit.values.tolist(), strict=True)),
        dict(zip(terms, deviations.tolist(), strict=True)),
        error,
    )


def _fit(columns: dict[str, Array], terms: Sequence[str], current: Array) -> Ridge:
    X = np.column_stack([columns[term] for term in terms])
    size = np.maximum(np.sqrt(np.square(X).mean(axis=0)), np.finfo(float).tiny)
    spread = _FREE * np.sqrt(np.square(current).mean()) / size
    usable = np.ones((len(X), 1), dtype=bool)
    return Ridge(X[:, np.newaxis], current[:, np.newaxis], usable, 0.0 * spread, spread)


def _held_out(columns: dict[str, Array], terms: Sequence[str], current: Array) -> float:
    """Return the residual of each stretch by a fit of the others, of the RMS current."""
    total = 0.0
    for stretch in np.array_split(np.arange(len(current)), _FOLDS):
        others = np.delete(np.arange(len(current)), stretch)
        fit = _fit({t: columns[t][others] for t in terms}, terms, current[others])
        X = np.column_stack([columns[term][stretch] for term in terms])
        total += float(np.square(current[stretch] - X @ fit.values).sum())
    return float(np.sqrt(total / np.square(current).sum()))
