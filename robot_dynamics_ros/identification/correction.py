# SPDX-License-Identifier: Apache-2.0
r"""Export of an identification: corrected URDF, YAML, table rows, JSON; and drives in currents.

Drives whose torque constants are unknown are identified in the unit of their current,

.. math:: i_j = c_j\,\tau_{l,j} + J_j a_j + b_j v_j + i_{c,j}\,\mathrm{sign}\,v_j + \dots

with the effort :math:`\tau_l` of the rigid bodies as described. Each joint has its own factor c,
so masses and currents cannot be separated: twice the masses with half of c give the same current.
Terms beyond viscous and Coulomb friction are included if they reduce the held-out residual.
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

_UNCHANGED = 1e-9  # relative change below which the <inertial> of a body is not rewritten


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
    """Return the URDF text of the robot with the identified values, otherwise unchanged.

    Raises:
        ConfigurationError: The robot was not made from a URDF.
    """
    xml = identified.plan.unknowns.tree.xml
    if not xml:
        raise ConfigurationError('robot', 'has no URDF text', 'load it from a URDF')
    return patch_urdf(xml, corrected_links(identified), corrected_joints(identified))


def parameter_patch(identified: Identification) -> dict[str, Any]:
    """Return the changed values by link and joint, including terms that a URDF cannot hold."""
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
    """Return the drive terms of a joint that a URDF cannot hold, and deviations of all terms."""
    unknowns, deviations = identified.plan.unknowns, identified.physical.deviations
    values = {term: float(described(identified.tree, term)[i]) for term in DRIVE_TERMS}
    sizes = {term: float(unknowns.term(deviations, term)[i]) for term in unknowns.terms}
    return {
        **values,
        STRIBECK_VELOCITY: float(stribeck_velocity(identified.tree)[i]),
        'deviations': {term: value for term, value in sizes.items() if value},
    }


def parameter_text(identified: Identification) -> str:
    """Return :func:`parameter_patch` as YAML text, with the formula in a header comment."""
    values = parameter_patch(identified)
    header = ''.join(f'# {line}\n' for line in values.pop('formula').splitlines())
    return header + yaml.safe_dump(values, sort_keys=False)


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
    """Return a row per drive term of the corrected robot."""
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


#: Name of the factor c: current per N m or N.
PER_EFFORT = 'current_per_effort'
_ALWAYS = (PER_EFFORT, 'armature', 'damping', 'coulomb_friction')
_FREE = 100.0  # prior deviation of a term, in RMS currents: practically uninformative
_GAIN = 0.01  # relative reduction of the held-out residual required to include a term
_FOLDS = 6


@dataclass(frozen=True)
class JointCurrent:
    """Current model of one joint.

    Attributes:
        values: By term, in units of current per powers of rad or m and s; ``PER_EFFORT`` in
            current per N m or N.
        deviations: Standard deviations of the values.
        held_out: RMS residual of held-out segments, relative to the RMS current.
    """

    values: dict[str, float]
    deviations: dict[str, float]
    held_out: float


def joint_currents(samples: Samples, tree: RobotTree) -> list[JointCurrent]:
    """Return the current models of all joints.

    Args:
        samples: Samples of all recordings, with currents as efforts.
        tree: The robot as described.
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
    """Return the cross-validated RMS residual, relative to the RMS current."""
    total = 0.0
    for stretch in np.array_split(np.arange(len(current)), _FOLDS):
        others = np.delete(np.arange(len(current)), stretch)
        fit = _fit({t: columns[t][others] for t in terms}, terms, current[others])
        X = np.column_stack([columns[term][stretch] for term in terms])
        total += float(np.square(current[stretch] - X @ fit.values).sum())
    return float(np.sqrt(total / np.square(current).sum()))
