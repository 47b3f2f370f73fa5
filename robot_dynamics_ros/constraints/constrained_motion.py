# SPDX-License-Identifier: Apache-2.0
r"""Simulation and linearization of constrained motion.

The constraint is imposed at the acceleration level, :math:`\Gamma\ddot q+\beta=0`, so rounding and
truncation errors make f drift, as :math:`t^2` without stabilization. Baumgarte stabilization
replaces :math:`\beta` by :math:`\beta+\Gamma_1\dot f+\Gamma_0f`, so that f decays.

A constrained or controlled robot is linearized about the motion of a program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.constraint import Constraint
from robot_dynamics_ros.constraints.reactions import (
    ReactionDerivatives,
    constraint_force,
    reaction_derivatives,
    reactions,
)
from robot_dynamics_ros.dynamics import Formulation
from robot_dynamics_ros.errors import DivergenceError
from robot_dynamics_ros.spatial.scalar import Array, jacobian
from robot_dynamics_ros.spatial.validation import array, gain_matrix, require_positive

Effort = Callable[[float, Array, Array], Array]


class ConstrainedMotion(NamedTuple):
    """A simulated motion with one row per instant.

    Attributes:
        times: Instants, shape (k,), s.
        q: Joint positions, shape (k, n), rad or m.
        v: Joint velocities, shape (k, n), rad/s or m/s.
        f: Constraint value, shape (k, m); the drift from 0.
        N: Reactions (the minimum-norm solution if the constraints are redundant), shape (k, m).
    """

    times: Array
    q: Array
    v: Array
    f: Array
    N: Array


def simulate_constrained(
    formulation: Formulation,
    constraint: Constraint,
    effort: Effort,
    q: Array,
    v: Array,
    duration: float,
    step: float = 1e-3,
    G0: Array | float = 0.0,
    G1: Array | float = 0.0,
) -> ConstrainedMotion:
    r"""Simulate :math:`A\ddot q+b=Q+\Gamma^TN` under :math:`\Gamma\ddot q+\beta=0`.

    Args:
        formulation: The robot's dynamics.
        constraint: The constraints; redundant rows are allowed if they are consistent.
        effort: ``Q(t, q, v)``, returns the efforts of the drives, a new array of shape (n,), N m
            or N; drives that move several coordinates act on all of them.
        q: Initial joint positions, shape (n,), rad or m.
        v: Initial joint velocities, shape (n,), rad/s or m/s.
        duration: Simulated time, s.
        step: Step of the fourth-order Runge-Kutta method, s.
        G0: Baumgarte gain on f, 1/s^2; see :func:`gain_matrix`. 0 for none.
        G1: Baumgarte gain on its rate, 1/s.

    Returns:
        The motion at every step, including the initial state.

    Raises:
        ParameterError: Duration or step is not positive.
        ShapeError: A state, the efforts or a gain has the wrong shape.
        DivergenceError: The motion became non-finite.

    Source: constraint-stabilization, section 2, (2.17) to (2.19).
    """
    require_positive(duration=duration, step=step)
    G0, G1 = gain_matrix('G0', G0, constraint.m), gain_matrix('G1', G1, constraint.m)
    n = formulation.n

    def respond(t: float, x: Array) -> tuple[Array, Array, Array]:
        """Return acceleration, constraint value and reactions."""
        q, v = x[:n], x[n:]
        f, f_dot, Gamma, beta = constraint.evaluate(q, v, t)
        Q = array('effort', effort(t, q, v), (n,), finite=False)
        Q = formulation.generalized_forces(q, Q)
        A, b = formulation.mass_matrix(q), formulation.bias_forces(q, v)
        if not math.isfinite(f.sum() + f_dot.sum() + beta.sum() + b.sum() + Q.sum()):
            raise DivergenceError('the constrained motion', t)
        force, N = constraint_force(A, b, Q, Gamma, beta + G1 @ f_dot + G0 @ f)
        return np.linalg.solve(A, Q - b + force), f, N

    def rate(t: float, x: Array) -> Array:
        return np.concatenate([x[n:], respond(t, x)[0]])

    steps = int(np.ceil(duration / step - 1e-9))
    x = np.concatenate([array('q', q, (n,)), array('v', v, (n,))])
    rows = []
    for k in range(steps + 1):
        if k:
            x = _runge_kutta(rate, (k - 1) * step, x, step)
        rows.append((x, *respond(k * step, x)[1:]))
    states, values, N = (np.array(column) for column in zip(*rows, strict=True))
    times = step * np.arange(steps + 1)
    return ConstrainedMotion(times, states[:, :n], states[:, n:], values, N)


def _runge_kutta(rate: Callable[[float, Array], Array], t: float, x: Array, h: float) -> Array:
    k1 = rate(t, x)
    k2 = rate(t + h / 2.0, x + h / 2.0 * k1)
    k3 = rate(t + h / 2.0, x + h / 2.0 * k2)
    k4 = rate(t + h, x + h * k3)
    return x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def second_derivatives(
    constraint: Constraint, q: Array, v: Array, t: float, N: Array, a: Array
) -> tuple[Array, Array, Array]:
    r"""Return the contracted second derivatives of a constraint, exact to rounding.

    Args:
        constraint: The constraint.
        q: Joint positions, shape (n,), rad or m.
        v: Joint velocities, shape (n,), rad/s or m/s.
        t: Program time, s.
        N: Reactions, shape (m,).
        a: Joint accelerations, shape (n,), rad/s^2 or m/s^2.

    Returns:
        New arrays. :math:`\frac{\partial\Gamma^T}{\partial q}N`, the matrix
        :math:`\sum_aN_a\,\partial^2f_a/\partial q_i\partial q_j`, symmetric, shape (n, n);
        :math:`C_q = \partial(\Gamma a+\beta)/\partial q` at fixed a, shape (m, n);
        :math:`C_v = \partial\beta/\partial\dot q = 2\dot\Gamma`, shape (m, n).

    Raises:
        ShapeError, NonFiniteError, ParameterError: An argument is no such array.

    Source: constraint-stabilization, section 7.
    """
    n = constraint.tree.n
    q, v, a = (array(name, x, (n,)) for name, x in (('q', q), ('v', v), ('a', a)))
    N = array('N', N, (constraint.m,))

    def rates(x: Array) -> Array:
        _, _, Gamma, beta = constraint.evaluate(x, v, t)
        return np.concatenate([Gamma.T @ N, Gamma @ a + beta])

    by_q = jacobian(rates, q)
    by_v = jacobian(lambda x: constraint.evaluate(q, x, t).beta, v)
    return by_q[: len(q)], by_q[len(q) :], by_v


def constrained_linearization(
    formulation: Formulation,
    constraint: Constraint,
    q: Array,
    v: Array,
    Q: Array,
    t: float,
    armature: Array | None = None,
) -> ReactionDerivatives:
    r"""Linearize the constrained dynamics: (4.1) with the reactions eliminated.

    Args:
        formulation: The robot's dynamics.
        constraint: Independent constraints, at most n rows.
        q: Joint positions, shape (n,), rad or m.
        v: Joint velocities, shape (n,), rad/s or m/s.
        Q: Efforts, shape (n,), N m or N.
        t: Program time, s.
        armature: Drive inertia added to the diagonal of A, shape (n,); zero if None.

    Returns:
        Derivatives of reactions and acceleration, see :class:`ReactionDerivatives`.

    Raises:
        SingularityError: The constraints are linearly dependent.
        MechanismError: A drive moves several coordinates.

    Source: constraint-stabilization, section 7; zaremba-screw-recursion, section 12.
    """
    formulation.robot.require_direct_drives('the linearization under constraints')
    q, v, Q = (array(name, x, (formulation.n,)) for name, x in (('q', q), ('v', v), ('Q', Q)))
    _, _, Gamma, beta = constraint.evaluate(q, v, t)
    extra = 0.0 * q if armature is None else array('armature', armature, q.shape)
    A, b = formulation.mass_matrix(q) + np.diag(extra), formulation.bias_forces(q, v)
    N = reactions(A, b, Q, Gamma, beta)
    a = np.linalg.solve(A, Q - b + Gamma.T @ N)
    dynamics = formulation.derivatives(q, v, a)
    hessian, C_q, C_v = second_derivatives(constraint, q, v, t, N, a)
    return reaction_derivatives(A, dynamics[1], dynamics[0] - hessian, Gamma, C_q, C_v)
