# SPDX-License-Identifier: Apache-2.0
"""A program: constraints with gains, what the free joints do, and how singularities are met."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from robot_dynamics_ros.constraints.constraint import Stack
from robot_dynamics_ros.constraints.error_dynamics import proved_stable
from robot_dynamics_ros.constraints.null_space import NullSpaceTask
from robot_dynamics_ros.constraints.task_inverse import Singularity
from robot_dynamics_ros.errors import ParameterError, ShapeError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

INVERSES = ('euclidean', 'inertia')


@dataclass(frozen=True)
class Start:
    """Where the arm is expected to be when the program starts.

    Attributes:
        position: Shape (n,), rad or m.
        tolerance: Largest entry of f that is accepted there, m or rad.
    """

    position: Array
    tolerance: float


@dataclass(frozen=True, eq=False)
class Program:
    r"""Everything that the law needs to hold :math:`f(q, t) = 0`.

    Attributes:
        name: The program's name.
        stack: The constraints, m rows.
        G0: Gain :math:`\Gamma_0`, shape (m, m), 1/s^2.
        G1: Gain :math:`\Gamma_1`, shape (m, m), 1/s.
        weights: Row weights for m > n, shape (m,).
        inverse: Joint metric of the inverse: 'euclidean' or 'inertia'.
        metric: Another joint metric, diagonal, shape (n,); replaces the one of ``inverse``.
        null_space: What the joints do that f leaves free.
        singularity: What to do near rank loss.
        blend: Time over which an initial error is faded out of the target, s; 0: it decays by
            the gains.
        passive: Indices of joints without a drive. A closed loop of the mechanism moves them,
            whose rows of f are ``mechanical``.
        mechanical: Indices of the rows that the mechanism itself holds, as many as there are
            passive joints.
        start: Where the arm is expected to be, or None.
        refuse_below: Smallest singular value along the path that is accepted.
        description: For people.
        remarks: What is legal but may surprise, one sentence each.
    """

    name: str
    stack: Stack
    G0: Array
    G1: Array
    weights: Array
    inverse: str = 'euclidean'
    metric: Array | None = None
    null_space: NullSpaceTask | None = None
    singularity: Singularity = field(default_factory=lambda: Singularity(0.01))
    blend: float = 0.0
    passive: tuple[int, ...] = ()
    mechanical: tuple[int, ...] = ()
    start: Start | None = None
    refuse_below: float = 1e-3
    description: str = ''
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        m = self.m
        for name, value, shape in (
            ('G0', self.G0, (m, m)),
            ('G1', self.G1, (m, m)),
            ('weights', self.weights, (m,)),
        ):
            if value.shape != shape:
                raise ShapeError(name, value.shape, shape)
        if self.inverse not in INVERSES:
            raise ParameterError('inverse', self.inverse, f'must be one of {", ".join(INVERSES)}')
        if len(self.passive) != len(self.mechanical):
            raise ParameterError(
                'passive',
                [self.tree.joint_names[i] for i in self.passive],
                f'needs as many rows of mechanical constraints; there are {len(self.mechanical)}',
            )
        if not 0.0 <= self.blend < np.inf:
            raise ParameterError('blend', self.blend, 'must be finite and not negative')

    @property
    def tree(self) -> RobotTree:
        """The robot."""
        return self.stack.tree

    @property
    def m(self) -> int:
        """Number of rows of f."""
        return self.stack.m

    @property
    def n(self) -> int:
        """Number of joints."""
        return self.stack.tree.n

    @property
    def horizon(self) -> float:
        """Time until which everything has been seen once, s."""
        return self.stack.horizon

    @property
    def proved(self) -> bool:
        r"""Whether the designed decay is proved for the whole class, not only checked on the path.

        For :math:`m\le n` and full rank it is; for m > n if the weighted gains are symmetric
        positive definite.
        """
        return self.m <= self.n or proved_stable(self.G0, self.G1, self.weights)

    def settling_velocity(self, q: Array, v: Array) -> Array:
        """Return the velocity to which the free joints settle, new array of shape (n,)."""
        return v if self.null_space is None else self.null_space.settling_velocity(q, v)

    def free_acceleration(self, q: Array, v: Array) -> Array:
        """Return v of (3.1), new array of shape (n,); zero without a null-space task."""
        if self.null_space is None:
            return np.zeros(self.n)
        return self.null_space.acceleration(q, v)
