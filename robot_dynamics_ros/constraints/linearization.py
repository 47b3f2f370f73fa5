# SPDX-License-Identifier: Apache-2.0
r"""Linear motion of a constrained robot, and of a robot under control, about a program."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.constraint import Constraint
from robot_dynamics_ros.constraints.reactions import (
    ReactionDerivatives,
    reaction_derivatives,
    reactions,
)
from robot_dynamics_ros.dynamics.formulation import Formulation
from robot_dynamics_ros.spatial.differentiation import jacobian
from robot_dynamics_ros.spatial.scalar import Array


class SecondDerivatives(NamedTuple):
    r"""How a constraint's Jacobian and drift change with the state.

    Attributes:
        hessian: :math:`\frac{\partial\Gamma^T}{\partial q}N`, the matrix
            :math:`\sum_aN_a\,\partial^2f_a/\partial q_i\partial q_j`, symmetric, shape (n, n).
        C_q: :math:`\partial(\Gamma a+\beta)/\partial q` at fixed a, shape (m, n).
        C_v: :math:`\partial\beta/\partial\dot q = 2\dot\Gamma`, shape (m, n).
    """

    hessian: Array
    C_q: Array
    C_v: Array


def second_derivatives(
    constraint: Constraint, q: Array, v: Array, t: float, N: Array, a: Array
) -> SecondDerivatives:
    """Return the second derivatives of a constraint, contracted; exact to rounding.

    Args:
        constraint: The constraint.
        q: Joint positions, shape (n,), rad or m.
        v: Joint velocities, shape (n,), rad/s or m/s.
        t: Program time, s.
        N: Reactions, shape (m,).
        a: Joint accelerations, shape (n,).

    Returns:
        New arrays, see :class:`SecondDerivatives`.

    Source: constraint-stabilization, section 7.
    """
    q, v = np.asarray(q, dtype=float), np.asarray(v, dtype=float)

    def rates(x: Array) -> Array:
        _, _, Gamma, beta = constraint.evaluate(x, v, t)
        return np.concatenate([Gamma.T @ N, Gamma @ a + beta])

    by_q = jacobian(rates, q)
    by_v = jacobian(lambda x: constraint.evaluate(q, x, t).beta, v)
    return SecondDerivatives(by_q[: len(q)], by_q[len(q) :], by_v)


def constrained_linearization(
    formulation: Formulation,
    constraint: Constraint,
    q: Array,
    v: Array,
    Q: Array,
    t: float,
    armature: Array | None = None,
) -> ReactionDerivatives:
    r"""Return the linear motion of a constrained robot: (4.1) with the reactions eliminated.

    Args:
        formulation: The robot's dynamics.
        constraint: Independent constraints, at most n rows.
        q: Joint positions, shape (n,), rad or m.
        v: Joint velocities, shape (n,), rad/s or m/s.
        Q: Efforts, shape (n,), N m or N.
        t: Program time, s.
        armature: Drive inertia added to the diagonal of A, shape (n,); none if None.

    Returns:
        Derivatives of reactions and acceleration, see :class:`ReactionDerivatives`.

    Raises:
        SingularityError: The constraints depend on each other.

    Source: constraint-stabilization, section 7; zaremba-screw-recursion, section 12.
    """
    _, _, Gamma, beta = constraint.evaluate(q, v, t)
    extra = np.zeros(len(q)) if armature is None else armature
    A, b = formulation.mass_matrix(q) + np.diag(extra), formulation.bias_forces(q, v)
    N = reactions(A, b, Q, Gamma, beta)
    a = np.linalg.solve(A, Q - b + Gamma.T @ N)
    dynamics = formulation.derivatives(q, v, a)
    second = second_derivatives(constraint, q, v, t, N, a)
    K = dynamics[0] - second.hessian
    return reaction_derivatives(A, dynamics[1], K, Gamma, second.C_q, second.C_v)
