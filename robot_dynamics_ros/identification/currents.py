# SPDX-License-Identifier: Apache-2.0
r"""Drives in amperes, where nobody knows the torque that an ampere makes.

.. math:: i_j = c_j\,\tau_{l,j} + J_j a_j + b_j v_j + i_{c,j}\,\mathrm{sign}\,v_j + \dots

with the effort :math:`\tau_l` of the rigid bodies as they are described. Each joint has its own
factor c, so that masses and currents cannot be separated: twice the masses with half of c is the
same current. Terms beyond viscous and Coulomb friction are taken in where they lower the residual
of held-out stretches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.dynamics.joint_terms import FRICTION_TERMS
from robot_dynamics_ros.identification.evidence import Ridge
from robot_dynamics_ros.identification.preparation import Samples
from robot_dynamics_ros.identification.regressor import inertial_parameters, regressor
from robot_dynamics_ros.identification.unknowns import TERMS, stribeck_velocity
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

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
