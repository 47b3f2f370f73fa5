# SPDX-License-Identifier: Apache-2.0
r"""Motion of a robot that is held by constraints, with or without Baumgarte's stabilization.

The constraint is imposed on the acceleration, :math:`\Gamma\ddot q+\beta=0`, so rounding and
truncation make f itself drift: like :math:`t^2` without stabilization. Baumgarte's terms replace
:math:`\beta` by :math:`\beta+\Gamma_1\dot f+\Gamma_0f` and let it decay instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.constraint import Constraint
from robot_dynamics_ros.constraints.reactions import constraint_force
from robot_dynamics_ros.constraints.stabilization import gain_matrix
from robot_dynamics_ros.dynamics.formulation import Formulation
from robot_dynamics_ros.errors import DivergenceError, ParameterError
from robot_dynamics_ros.spatial.scalar import Array

Effort = Callable[[float, Array, Array], Array]


class ConstrainedMotion(NamedTuple):
    """A simulated motion; row k is instant k.

    Attributes:
        times: Shape (k,), s.
        q: Joint positions, shape (k, n), rad or m.
        v: Joint velocities, shape (k, n), rad/s or m/s.
        f: Constraint value, shape (k, m): the drift.
        N: Reactions (of smallest norm if the constraints are redundant), shape (k, m).
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
        constraint: The constraints; redundant rows are allowed if they agree.
        effort: ``Q(t, q, v)``, new array of shape (n,), N m or N.
        q: Start, shape (n,), rad or m.
        v: Shape (n,), rad/s or m/s.
        duration: s.
        step: Step of the fourth-order Runge-Kutta method, s.
        G0: Baumgarte gain on f, 1/s^2; see :func:`gain_matrix`. 0 for none.
        G1: Baumgarte gain on its rate, 1/s.

    Returns:
        The motion at every step, start included.

    Raises:
        ParameterError: Duration or step is not positive.
        DivergenceError: The motion left the finite numbers.
    """
    for name, value in (('duration', duration), ('step', step)):
        if not 0.0 < value < np.inf:
            raise ParameterError(name, value, 'must be positive and finite')
    G0, G1 = gain_matrix('G0', G0, constraint.m), gain_matrix('G1', G1, constraint.m)
    n = formulation.tree.n

    def respond(t: float, x: Array) -> tuple[Array, Array, Array]:
        """Return acceleration, constraint value and reactions."""
        q, v = x[:n], x[n:]
        f, f_dot, Gamma, beta = constraint.evaluate(q, v, t)
        A, b, Q = formulation.mass_matrix(q), formulation.bias_forces(q, v), effort(t, q, v)
        if not math.isfinite(f.sum() + f_dot.sum() + beta.sum() + b.sum() + Q.sum()):
            raise DivergenceError('the constrained motion', t)
        force, N = constraint_force(A, b, Q, Gamma, beta + G1 @ f_dot + G0 @ f)
        return np.linalg.solve(A, Q - b + force), f, N

    def rate(t: float, x: Array) -> Array:
        return np.concatenate([x[n:], respond(t, x)[0]])

    steps = int(np.ceil(duration / step - 1e-9))
    x = np.concatenate([q, v]).astype(float)
    rows = []
    for k in range(steps + 1):
        t = k * step
        _, f, N = respond(t, x)
        rows.append((x, f, N))
        x = _runge_kutta(rate, t, x, step)
    states = np.array([row[0] for row in rows])
    return ConstrainedMotion(
        step * np.arange(steps + 1),
        states[:, :n],
        states[:, n:],
        np.array([row[1] for row in rows]),
        np.array([row[2] for row in rows]),
    )


def _runge_kutta(rate: Callable[[float, Array], Array], t: float, x: Array, h: float) -> Array:
    k1 = rate(t, x)
    k2 = rate(t + h / 2.0, x + h / 2.0 * k1)
    k3 = rate(t + h / 2.0, x + h / 2.0 * k2)
    k4 = rate(t + h, x + h * k3)
    return x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
