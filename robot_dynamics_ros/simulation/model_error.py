# SPDX-License-Identifier: Apache-2.0
"""A plant that is not what its description says: the model error a controller must bear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

Factor = float | Array


@dataclass(frozen=True, eq=False)
class Mismatch:
    """Factors on the described values; one number for all joints, or an array of shape (n,).

    Attributes:
        mass: Factor on mass and inertia alike, as of another density.
        damping: Factor on the viscous friction.
        coulomb_friction: Factor on the Coulomb friction.
        armature: Factor on the drive inertia.
        com_shift: Displacement of every centre of mass along its link's axes, shape (3,), m.
    """

    mass: Factor = 1.0
    damping: Factor = 1.0
    coulomb_friction: Factor = 1.0
    armature: Factor = 1.0
    com_shift: tuple[float, float, float] = (0.0, 0.0, 0.0)


def with_mismatch(tree: RobotTree, mismatch: Mismatch) -> RobotTree:
    """Return the robot with the mismatch applied.

    Args:
        tree: The robot as described.
        mismatch: How the real one differs.

    Raises:
        ParameterError: A factor is negative, not finite, or of a wrong length; a mass factor is 0.
    """
    mass = _factor(tree, 'mass', mismatch.mass)
    if not mass.all():
        raise ParameterError('mismatch mass', mismatch.mass, 'a factor on masses is positive')
    return tree.with_changes(
        mass=tree.mass * mass,
        inertia=tree.inertia * mass[:, np.newaxis, np.newaxis],
        com=tree.com + _shift(mismatch.com_shift),
        damping=tree.damping * _factor(tree, 'damping', mismatch.damping),
        coulomb_friction=tree.coulomb_friction
        * _factor(tree, 'coulomb_friction', mismatch.coulomb_friction),
        armature=tree.armature * _factor(tree, 'armature', mismatch.armature),
    )


def _factor(tree: RobotTree, name: str, value: Factor) -> Array:
    factor = np.asarray(value, dtype=float)
    if factor.shape not in ((), (1,), (tree.n,)):
        raise ParameterError(f'mismatch {name}', value, f'give one factor or {tree.n}')
    if not (np.isfinite(factor).all() and (factor >= 0.0).all()):
        raise ParameterError(f'mismatch {name}', value, 'factors are finite and not negative')
    return np.broadcast_to(factor, (tree.n,))


def _shift(value: tuple[float, float, float]) -> Array:
    shift = np.asarray(value, dtype=float)
    if shift.shape != (3,) or not np.isfinite(shift).all():
        raise ParameterError('mismatch com_shift', value, 'give three finite numbers, m')
    return shift
