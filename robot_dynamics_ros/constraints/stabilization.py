# SPDX-License-Identifier: Apache-2.0
r"""Zaremba's stabilizing control (3.1) as pure functions of given matrices.

.. math:: \ddot q_c = \Gamma^{\#}u + P\,v,\quad u = -(\beta+\Gamma_1\dot f+\Gamma_0f), \qquad
          Q_c = A\ddot q_c + b

For :math:`m\le n` and full row rank the closed loop is
:math:`\ddot f+\Gamma_1\dot f+\Gamma_0f=0` exactly, for any v (3.5). For :math:`m>n` only its
projection :math:`\Gamma^TW_f(\ddot f+\Gamma_1\dot f+\Gamma_0f)=0` holds, with row weights
:math:`W_f`.

Source: constraint-stabilization, section 3; errata C3-C5, C7, C8, C10.

The pseudo-inverse :math:`\Gamma^{\#}` and the projector P are in ``damped_inverse``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.damped_inverse import Singularity, TaskInverse
from robot_dynamics_ros.errors import ShapeError, known_name
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import (
    array,
    gain_matrix,
    jacobian_matrix,
    scalars,
)

INVERSES = ('euclidean', 'inertia')


# The law -----------------------------------------------------------------------------------------


def task_acceleration(beta: Array, f: Array, f_dot: Array, G0: Array, G1: Array) -> Array:
    r"""Return :math:`u=-(\beta+\Gamma_1\dot f+\Gamma_0f)` of (3.1), new array of shape (m,).

    Raises:
        ShapeError, NonFiniteError, ParameterError: As of :func:`stabilizing_effort`.
    """
    beta = scalars('beta', beta, ('m',))
    m = len(beta)
    f, f_dot = scalars('f', f, (m,)), scalars('f_dot', f_dot, (m,))
    G0, G1 = _gains('G0', G0, m), _gains('G1', G1, m)
    return -(beta + G1 @ f_dot + G0 @ f)


def _gains(name: str, gain: Array, m: int) -> Array:
    """Return numbers or symbols of shape (m, m), or see :func:`.gain_matrix`."""
    with suppress(ShapeError):
        return scalars(name, gain, (m, m))
    return gain_matrix(name, gain, m)


def commanded_acceleration(inverse: TaskInverse, u: Array, v: Array) -> Array:
    r"""Return :math:`\ddot q_c=\Gamma^{\#}u+Pv` of (3.1), (3.3), new array of shape (n,)."""
    return inverse.solve(u) + inverse.project(v)


def effort(A: Array, b: Array, acceleration: Array) -> Array:
    r"""Return :math:`Q_c=A\ddot q_c+b` of (3.1), new array of shape (n,).

    Raises:
        ShapeError, NonFiniteError, ParameterError: As of :func:`stabilizing_effort`.
    """
    acceleration = scalars('acceleration', acceleration, ('n',))
    n = len(acceleration)
    A, b = scalars('A', A, (n, n)), scalars('b', b, (n,))
    return A @ acceleration + b


# Of given matrices -------------------------------------------------------------------------------


class Stabilized(NamedTuple):
    r"""Result of :func:`stabilizing_effort`; unpacks as ``effort, acceleration, ...``.

    Attributes:
        effort: :math:`Q_c`, shape (n,), N m or N.
        acceleration: :math:`\ddot q_c`, shape (n,), rad/s^2 or m/s^2.
        sigma_min: Smallest singular value of Gamma.
        condition: Condition number of Gamma; infinite if it is singular.
        task_acceleration: :math:`u`, the commanded acceleration of f, shape (m,).
        residual: :math:`\Gamma\ddot q_c - u`, shape (m,); zero unless damped or m > n.
        damped: Whether a singular value was below the threshold, so that (3.5) is approximate.
    """

    effort: Array
    acceleration: Array
    sigma_min: float
    condition: float
    task_acceleration: Array
    residual: Array
    damped: bool


def stabilizing_effort(
    A: Array,
    b: Array,
    Gamma: Array,
    beta: Array,
    f: Array,
    f_dot: Array,
    G0: Array,
    G1: Array,
    v: Array | None = None,
    inverse: str = 'euclidean',
    weights: Array | None = None,
    *,
    metric: Array | None = None,
    singularity: Singularity | None = None,
) -> Stabilized:
    r"""Return the effort that makes f decay as designed, by the control law (3.1), (3.3).

    Args:
        A: Mass matrix, shape (n, n).
        b: Bias force (velocity terms, gravity, external wrenches), shape (n,), N m or N.
        Gamma: Constraint Jacobian, shape (m, n).
        beta: Drift :math:`\dot\Gamma\dot q+(\partial f/\partial t)^{\cdot}`, shape (m,).
        f: Constraint value, shape (m,).
        f_dot: Its rate, shape (m,).
        G0: Gain :math:`\Gamma_0`, shape (m, m), (m,) for a diagonal, or a scalar, 1/s^2.
        G1: Gain :math:`\Gamma_1`, likewise, 1/s.
        v: Free acceleration, projected into the null space, shape (n,); zero if None.
        inverse: Joint metric: 'euclidean' (the paper) or 'inertia' (dynamically consistent).
        weights: Row weights for m > n, shape (m,) or (m, m); ones if None.
        metric: Joint metric, shape (n,) or (n, n), that replaces the one of ``inverse``; for arms
            with both revolute and prismatic joints.
        singularity: Treatment of near rank loss; the default is exact above 1e-6.

    Returns:
        New arrays, see :class:`Stabilized`; bounded for any Gamma, including singular ones.

    Raises:
        ShapeError: An argument has the wrong shape.
        NonFiniteError: An argument is not finite.
        UnknownNameError: There is no such inverse.
        ParameterError: A metric or weight is not positive definite, or an argument is not numeric.

    Validity: :math:`m\le n` with rank m along the program (errata C8, C9). For m > n see
        ``error_dynamics.projected_gains``. For m >= n and full rank v has no effect.

    Cost: one singular value decomposition, about 50 us; the control tick uses compiled code.
    """
    Gamma = jacobian_matrix(Gamma)
    m, n = Gamma.shape
    A, b = array('A', A, (n, n)), array('b', b, (n,))
    v = np.zeros(n) if v is None else array('v', v, (n,))
    beta, f, f_dot = array('beta', beta, (m,)), array('f', f, (m,)), array('f_dot', f_dot, (m,))
    known_name('inverse', inverse, INVERSES)
    if metric is None and inverse == 'inertia':
        metric = A
    u = task_acceleration(beta, f, f_dot, G0, G1)
    solution = TaskInverse(Gamma, metric, weights, singularity)
    a = commanded_acceleration(solution, u, v)
    return Stabilized(
        effort(A, b, a),
        a,
        solution.sigma_min,
        solution.condition,
        u,
        Gamma @ a - u,
        solution.damped,
    )
