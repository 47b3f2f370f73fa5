# SPDX-License-Identifier: Apache-2.0
r"""What a joint's drive adds to the rigid-body dynamics: friction and armature.

.. math:: \tau_{motor} = \tau + J_a\,a + b\,v + \tau_c \tanh(v / v_s)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array


@dataclass(frozen=True, eq=False)
class JointTerms:
    """Friction and armature of every joint; a term that is switched off is an array of zeros.

    Attributes:
        damping: Viscous coefficient, shape (n,), N m s/rad or N s/m.
        coulomb_friction: Coulomb level, shape (n,), N m or N.
        armature: Reflected drive inertia, shape (n,), kg m^2 or kg.
        stiction_velocity: Width of the smooth sign, rad/s or m/s; the level is 76 % reached at it.
    """

    damping: Array
    coulomb_friction: Array
    armature: Array
    stiction_velocity: float = 1e-3

    def __post_init__(self) -> None:
        if not self.stiction_velocity > 0.0:
            raise ParameterError('stiction_velocity', self.stiction_velocity, 'must be positive')

    @classmethod
    def of(
        cls,
        tree: RobotTree,
        *,
        friction: bool = True,
        armature: bool = True,
        stiction_velocity: float = 1e-3,
    ) -> JointTerms:
        """Return the terms that a robot's description gives, or zeros where switched off."""
        none = np.zeros(tree.n)
        return cls(
            tree.damping if friction else none,
            tree.coulomb_friction if friction else none,
            tree.armature if armature else none,
            stiction_velocity,
        )

    def friction(self, v: Array) -> Array:
        r"""Return :math:`b\,v + \tau_c\tanh(v/v_s)`, new array of shape (n,), N m or N."""
        return self.damping * v + self.coulomb_friction * np.tanh(v / self.stiction_velocity)

    def effort(self, v: Array, a: Array) -> Array:
        """Return armature times acceleration plus friction, new array of shape (n,)."""
        return self.armature * a + self.friction(v)


def largest_gravity_forces(tree: RobotTree, samples: int = 500) -> Array:
    """Return the largest effort that gravity was found to need at each joint.

    Args:
        tree: The robot.
        samples: Number of random positions within the joint limits (one turn where endless); the
            same ones in every call.

    Returns:
        New array, shape (n,), N m or N: a lower bound of the true maximum, close to it for arms.

    Cost: ``samples`` inverse dynamics.
    """
    lower = np.maximum(tree.position_lower, -math.pi)
    upper = np.maximum(np.minimum(tree.position_upper, math.pi), lower)
    random = np.random.default_rng(0)
    model = make_formulation('newton_euler', tree)
    largest = np.zeros(tree.n)
    for _ in range(samples):
        q = random.uniform(lower, upper)
        largest = np.maximum(largest, np.abs(model.gravity_forces(q)))
    return largest
