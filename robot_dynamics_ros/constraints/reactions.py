# SPDX-License-Identifier: Apache-2.0
r"""Reactions of constraints: multipliers, constraint force, and their derivatives.

.. math:: A\ddot q + b = Q + \Gamma^TN,\qquad \Gamma\ddot q + \beta = 0

:math:`\Gamma^TN` is the force exerted *by the constraint on the robot*. If f is a distance in
metres along a unit normal, its multiplier is in newtons.

Source: constraint-stabilization, sections 2 and 7; errata C3, C11, C13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.errors import SingularityError
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import (
    array,
    jacobian_matrix,
    metric_root,
    require_positive,
)

#: Smallest singular value of the scaled Jacobian, relative to the largest, that is inverted.
#: The condition number of D is the inverse square: beyond 1e14 its inverse has no correct digit.
SMALLEST_RATIO = 1e-7


def reactions(A: Array, b: Array, Q: Array, Gamma: Array, beta: Array) -> Array:
    r"""Return the reactions of independent constraints.

    .. math:: N = -D^{-1}\{\Gamma A^{-1}(Q-b)+\beta\},\qquad D = \Gamma A^{-1}\Gamma^T
        \tag{2.19}

    Args:
        A: Mass matrix, shape (n, n).
        b: Bias force, shape (n,), N m or N.
        Q: Applied efforts, shape (n,), N m or N.
        Gamma: Constraint Jacobian, shape (m, n).
        beta: Drift, shape (m,); add :math:`\Gamma_1\dot f+\Gamma_0f` for Baumgarte
            stabilization.

    Returns:
        New array N, shape (m,).

    Raises:
        SingularityError: D is singular: the constraints are linearly dependent, or m > n
            (erratum C11). Use :func:`constraint_force` instead.
        ShapeError: The shapes do not match, or there is no row.
        NonFiniteError: An argument is not finite.
        ParameterError: A is not positive definite.

    Cost: D is never formed; the triangular factor of :math:`L^{-1}\Gamma^T`, :math:`A = LL^T`,
        avoids the loss of digits from squaring the condition number.
    """
    b, Q, beta, L, X = _scaled(A, b, Q, Gamma, beta)
    return _multiplier(L, X)(Q - b, beta)


def constraint_force(
    A: Array, b: Array, Q: Array, Gamma: Array, beta: Array, tolerance: float = 1e-10
) -> tuple[Array, Array]:
    r"""Return the constraint force of possibly redundant constraints, after Udwadia and Kalaba.

    .. math:: \Gamma^TN = A^{1/2}(\Gamma A^{-1/2})^{+}\big(-\beta-\Gamma A^{-1}(Q-b)\big)

    Args:
        A: Mass matrix, shape (n, n).
        b: Bias force, shape (n,), N m or N.
        Q: Applied efforts, shape (n,), N m or N.
        Gamma: Constraint Jacobian, shape (m, n), of any rank.
        beta: Drift, shape (m,); redundant rows must be consistent.
        tolerance: Singular values below this fraction of the largest count as zero.

    Returns:
        New arrays: the unique force :math:`\Gamma^TN`, shape (n,), N m or N; and the minimum-norm
        reactions N, shape (m,).

    Raises:
        ShapeError: The shapes do not match, or there is no row.
        NonFiniteError: An argument is not finite.
        ParameterError: A is not positive definite, or the tolerance not positive.

    Validity: the constraints are consistent; otherwise the result is a least-squares solution.

    Source: constraint-stabilization, section 2; Udwadia, Kalaba 1992.
    """
    b, Q, beta, L, X = _scaled(A, b, Q, Gamma, beta)
    U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    require_positive(tolerance=tolerance)
    keep = sigma > tolerance * sigma[0]
    U, sigma, Vt = U[:, keep], sigma[keep], Vt[keep]
    required = -beta - X.T @ np.linalg.solve(L, Q - b)
    components = (Vt @ required) / sigma
    return L @ (U @ components), Vt.T @ (components / sigma)


class ReactionDerivatives(NamedTuple):
    r"""Derivatives of the reactions N and of the constrained acceleration.

    Attributes:
        N_q: :math:`\partial N/\partial q`, shape (m, n).
        N_v: :math:`\partial N/\partial\dot q`, shape (m, n).
        N_Q: :math:`\partial N/\partial Q`, shape (m, n).
        a_q: :math:`\partial\ddot q/\partial q`, shape (n, n).
        a_v: :math:`\partial\ddot q/\partial\dot q`, shape (n, n).
        a_Q: :math:`\partial\ddot q/\partial Q`, shape (n, n).
    """

    N_q: Array
    N_v: Array
    N_Q: Array
    a_q: Array
    a_v: Array
    a_Q: Array


def reaction_derivatives(
    A: Array, B: Array, K: Array, Gamma: Array, C_q: Array, C_v: Array
) -> ReactionDerivatives:
    r"""Return the exact derivatives of (2.17), (2.19) at any state, even if f is not 0.

    .. math::
        \partial N/\partial q &= D^{-1}(\Gamma A^{-1}K-C_q),\quad
        \partial N/\partial\dot q = D^{-1}(\Gamma A^{-1}B-C_v),\quad
        \partial N/\partial Q = -D^{-1}\Gamma A^{-1} \\
        \Delta\ddot q &= A^{-1}\big[(E-\Gamma^TD^{-1}\Gamma A^{-1})
        (\Delta Q-B\Delta\dot q-K\Delta q)-\Gamma^TD^{-1}(C_q\Delta q+C_v\Delta\dot q)\big]

    Args:
        A: Mass matrix, shape (n, n).
        B: :math:`\partial b/\partial\dot q`, shape (n, n).
        K: :math:`\partial b/\partial q+\frac{\partial A}{\partial q}\ddot q
            -\frac{\partial\Gamma^T}{\partial q}N`, shape (n, n).
        Gamma: Constraint Jacobian, shape (m, n), of rank m.
        C_q: :math:`\partial(\Gamma\ddot q+\beta)/\partial q` at fixed :math:`\ddot q`, (m, n).
        C_v: :math:`\partial\beta/\partial\dot q=2\dot\Gamma`, shape (m, n).

    Returns:
        New arrays, see :class:`ReactionDerivatives`.

    Raises:
        SingularityError: The constraints are linearly dependent.
        ShapeError: The shapes do not match, or there is no row.
        NonFiniteError: An argument is not finite.
        ParameterError: A is not positive definite.

    Source: constraint-stabilization, section 7, (4.1); erratum C13.
    """
    Gamma = jacobian_matrix(Gamma)
    m, n = Gamma.shape
    A, B, K = (array(name, x, (n, n)) for name, x in (('A', A), ('B', B), ('K', K)))
    C_q, C_v = array('C_q', C_q, (m, n)), array('C_v', C_v, (m, n))
    L = metric_root('A', A, n)
    multiplier = _multiplier(L, np.linalg.solve(L, Gamma.T))
    N_q, N_v = multiplier(-K, C_q), multiplier(-B, C_v)
    N_Q = multiplier(np.eye(n), np.zeros((m, n)))

    def acceleration(force: Array, reaction: Array) -> Array:
        return np.linalg.solve(L.T, np.linalg.solve(L, force + Gamma.T @ reaction))

    return ReactionDerivatives(
        N_q,
        N_v,
        N_Q,
        acceleration(-K, N_q),
        acceleration(-B, N_v),
        acceleration(np.eye(n), N_Q),
    )


def _multiplier(L: Array, X: Array) -> Callable[[Array, Array], Array]:
    r"""Return :math:`(F, d) \mapsto -D^{-1}(\Gamma A^{-1}F+d)`; see :func:`_scaled`.

    Raises:
        SingularityError: The constraints are linearly dependent.
    """
    if X.shape[0] < X.shape[1]:
        raise SingularityError(
            'D = Gamma A^-1 Gamma^T', 0.0, SMALLEST_RATIO, 'more constraints than joints'
        )
    factor, R = np.linalg.qr(X)
    sigma = np.linalg.svd(R, compute_uv=False)
    ratio = float(sigma[-1] / sigma[0]) if sigma[0] > 0.0 else 0.0
    if not ratio > SMALLEST_RATIO:
        raise SingularityError(
            'D = Gamma A^-1 Gamma^T',
            ratio,
            SMALLEST_RATIO,
            'the constraints are linearly dependent; use constraint_force',
        )

    def multiplier(force: Array, bias: Array) -> Array:
        projected = factor.T @ np.linalg.solve(L, force)
        return -np.linalg.solve(R, projected + np.linalg.solve(R.T, bias))

    return multiplier


def _scaled(
    A: Array, b: Array, Q: Array, Gamma: Array, beta: Array
) -> tuple[Array, Array, Array, Array, Array]:
    r"""Return b, Q, beta as arrays, L and :math:`X = L^{-1}\Gamma^T`, so that :math:`D = X^TX`."""
    Gamma = jacobian_matrix(Gamma)
    m, n = Gamma.shape
    A, b, Q = array('A', A, (n, n)), array('b', b, (n,)), array('Q', Q, (n,))
    L = metric_root('A', A, n)
    return b, Q, array('beta', beta, (m,)), L, np.linalg.solve(L, Gamma.T)
