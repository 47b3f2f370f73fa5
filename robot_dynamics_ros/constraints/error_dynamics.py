# SPDX-License-Identifier: Apache-2.0
r"""Error dynamics :math:`\ddot f+\Gamma_1\dot f+\Gamma_0f=0`: gains, stability, solution.

Source: constraint-stabilization, sections 3.1 (m > n) and 3.2, (3.5).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_dynamics_ros.dynamics.sampled_loop import FeedbackLoop, Sampling, spectral_radius
from robot_dynamics_ros.errors import SingularityError
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import (
    array,
    as_finite_array,
    gain_matrix,
    spread_numbers,
)


def gains_from_frequency(natural_frequency: Array, damping_ratio: Array) -> tuple[Array, Array]:
    r"""Return :math:`\Gamma_0=\omega_0^2`, :math:`\Gamma_1=2\zeta\omega_0` as diagonal matrices.

    Args:
        natural_frequency: :math:`\omega_0` per row, shape (m,), rad/s.
        damping_ratio: :math:`\zeta` per row, shape (m,).

    Returns:
        New arrays G0, 1/s^2, and G1, 1/s, each of shape (m, m).

    Raises:
        ShapeError, NonFiniteError, ParameterError: As of :func:`array`.
    """
    w = array('natural_frequency', natural_frequency, ('m',))
    zeta = spread_numbers('damping_ratio', damping_ratio, len(w))
    return np.diag(w**2), np.diag(2.0 * zeta * w)


def state_matrix(G0: Array, G1: Array) -> Array:
    r"""Return the state matrix of (3.5) for the state :math:`(f,\dot f)`, shape (2m, 2m).

    Args:
        G0: Gain as of :func:`gain_matrix`, 1/s^2.
        G1: Gain, 1/s.

    Raises:
        ShapeError, NonFiniteError, ParameterError: As of :func:`gain_matrix`.
    """
    G0, G1 = _matrices(G0, G1)
    m = len(G0)
    return np.block([[np.zeros((m, m)), np.eye(m)], [-G0, -G1]])


def roots(G0: Array, G1: Array) -> Array:
    r"""Return the 2m roots of :math:`\det(s^2E+s\Gamma_1+\Gamma_0)=0`, rightmost first, 1/s."""
    values = np.linalg.eigvals(state_matrix(G0, G1))
    if not values.imag.any():
        values = values.real  # NumPy 2.5 returns complex numbers always
    return values[np.argsort(-values.real)]


def stabilizing(G0: Array, G1: Array) -> bool:
    """Return whether all roots of (3.5) have a negative real part (beyond rounding).

    Source: constraint-stabilization, section 3.2.
    """
    values = roots(G0, G1)
    return bool(values[0].real < -1e-9 * np.abs(values).max())


def projected_gains(
    G0: Array, G1: Array, M: Array, weights: Array | None = None
) -> tuple[Array, Array]:
    r"""Return the gains of the joint error for more conditions than joints (m > n).

    For consistent conditions :math:`f=M(q-q_p(t))`, the joint error satisfies

    .. math:: \ddot e+M^+\Gamma_1M\,\dot e+M^+\Gamma_0M\,e=0,\qquad
              M^+=(M^TWM)^{-1}M^TW,

    and stability of (3.5) is *not* sufficient for its stability.

    Args:
        G0: Gain, shape (m, m), 1/s^2.
        G1: Gain, shape (m, m), 1/s.
        M: Jacobian of rank n, shape (m, n).
        weights: Row weights, shape (m,) or (m, m); ones if None.

    Returns:
        New arrays :math:`M^+\Gamma_0M` and :math:`M^+\Gamma_1M`, each of shape (n, n).

    Raises:
        SingularityError: The rank of M is less than n.
        ShapeError, NonFiniteError, ParameterError: M is no matrix, or as of :func:`gain_matrix`.

    Source: constraint-stabilization, section 3.1; erratum C8.
    """
    M = array('M', M, ('m', 'n'))
    if np.linalg.matrix_rank(M) < M.shape[1]:
        raise SingularityError('M^T W M', 0.0, 1e-15, 'the conditions leave joints free')
    W = gain_matrix('weights', 1.0 if weights is None else weights, len(M))
    left = np.linalg.solve(M.T @ W @ M, M.T @ W)
    G0, G1 = gain_matrix('G0', G0, len(M)), gain_matrix('G1', G1, len(M))
    return left @ G0 @ M, left @ G1 @ M


def proved_stable(G0: Array, G1: Array, weights: Array | None = None) -> bool:
    r"""Return whether the projected error is proved stable for *every* full-column-rank Jacobian.

    It is if :math:`W\Gamma_0` and :math:`W\Gamma_1` are symmetric positive definite.

    Source: constraint-stabilization, section 3.1 (m > n, condition iii).
    """
    G0, G1 = _matrices(G0, G1)
    W = gain_matrix('weights', 1.0 if weights is None else weights, len(G0))
    return all(_positive_definite(W @ G) for G in (G0, G1))


def exact_error(G0: Array, G1: Array, f0: Array, f_dot0: Array, times: Array) -> Array:
    r"""Return the exact solution f(t) of (3.5).

    .. math:: \begin{pmatrix}f\\\dot f\end{pmatrix}(t)
        = \exp\begin{pmatrix}0&E\\-\Gamma_0&-\Gamma_1\end{pmatrix}^{t}
          \begin{pmatrix}f\\\dot f\end{pmatrix}(0)

    Args:
        G0: Gain, shape (m, m), 1/s^2.
        G1: Gain, shape (m, m), 1/s.
        f0: Value at time 0, shape (m,).
        f_dot0: Rate at time 0, shape (m,).
        times: Instants, increasing, shape (k,), s.

    Returns:
        New array, shape (k, m).
    """
    from scipy.linalg import expm  # here: loading scipy takes longer than starting a controller

    S = state_matrix(G0, G1)
    m = len(S) // 2
    state = np.concatenate([array('f0', f0, (m,)), array('f_dot0', f_dot0, (m,))])
    rows, last, step, advance = [], 0.0, 0.0, np.eye(len(S))
    for t in array('times', times, ('instants',)):
        if abs(t - last - step) > 1e-12 * abs(step):  # equal steps share one exponential
            step = t - last
            advance = expm(S * step)
        state, last = advance @ state, t
        rows.append(state[:m])
    return np.array(rows)


def error_loop(G0: Array, G1: Array, **more: Any) -> FeedbackLoop:
    """Return (3.5) as the sampled loop of a law that predicts with its commanded acceleration."""
    return FeedbackLoop('program', np.eye(len(G0)), G0, G1, 'commanded', **more)


def sampled_radius(G0: Array, G1: Array, sampling: Sampling) -> float:
    """Return the spectral radius of (3.5) closed once per period; it is stable below 1.

    Args:
        G0: Gain, shape (m, m), 1/s^2.
        G1: Gain, shape (m, m), 1/s.
        sampling: Period, discretization and delay.
    """
    return spectral_radius(error_loop(G0, G1), sampling)


def _matrices(G0: Any, G1: Any) -> tuple[Array, Array]:
    m = len(np.atleast_1d(as_finite_array('G0', G0)))
    return gain_matrix('G0', G0, m), gain_matrix('G1', G1, m)


def _positive_definite(matrix: Array) -> bool:
    symmetric = np.allclose(matrix, matrix.T, rtol=1e-9, atol=0.0)
    return symmetric and bool(np.linalg.eigvalsh((matrix + matrix.T) / 2.0)[0] > 0.0)
