# SPDX-License-Identifier: Apache-2.0
r"""Gains for a program from the model: placed poles, or LQR on what the drives have to give.

The law makes :math:`\ddot f = u` of the robot, so the gains act on double integrators. Poles may
be placed row by row. LQR weighs the error against the *efforts*
:math:`\tau = A\Gamma^{+}u` that it takes to correct it, and so couples the rows as the robot's
inertia does.

Source: constraint-stabilization, sections 3.2, (3.5); Bryson's rule for the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.error_dynamics import sampled_radius
from robot_dynamics_ros.constraints.feasibility import FeasibilityCheck
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.stabilization import TaskInverse
from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.errors import ParameterError, ShapeError
from robot_dynamics_ros.spatial.scalar import Array


class Gains(NamedTuple):
    r"""Gains of (3.5).

    Attributes:
        G0: :math:`\Gamma_0`, shape (m, m), 1/s^2.
        G1: :math:`\Gamma_1`, shape (m, m), 1/s.
    """

    G0: Array
    G1: Array


def gains_from_poles(poles: Sequence[tuple[complex, complex]]) -> Gains:
    r"""Place the two poles of every row: :math:`\gamma_0 = p_1p_2,\ \gamma_1 = -(p_1+p_2)`.

    Args:
        poles: A pair per row, real or conjugate, with negative real parts, 1/s.

    Returns:
        Diagonal gains.

    Raises:
        ParameterError: A pair is not stable, or neither real nor conjugate.
    """
    g0, g1 = [], []
    for k, (p1, p2) in enumerate(poles):
        total, product = complex(p1) + complex(p2), complex(p1) * complex(p2)
        scale = max(abs(p1), abs(p2), 1e-300)
        if abs(total.imag) > 1e-9 * scale or abs(product.imag) > 1e-9 * scale**2:
            raise ParameterError(f'poles of row {k}', (p1, p2), 'must be real or conjugate')
        if not (complex(p1).real < 0.0 and complex(p2).real < 0.0):
            raise ParameterError(f'poles of row {k}', (p1, p2), 'must have negative real parts')
        g0.append(product.real)
        g1.append(-total.real)
    return Gains(np.diag(g0), np.diag(g1))


def frequency_for(settling_time: float, overshoot: float = 0.0) -> tuple[float, float]:
    r"""Return natural frequency and damping ratio for a settling time and an overshoot.

    :math:`\zeta = -\ln p/\sqrt{\pi^2+\ln^2p}`; the error is within 2 % of its start after the
    settling time: :math:`e^{-\omega_0T}(1+\omega_0T) = 0.02` for :math:`\zeta=1`,
    :math:`e^{-\zeta\omega_0T} = 0.02\sqrt{1-\zeta^2}` for less.

    Args:
        settling_time: s.
        overshoot: Part of the initial error, in [0, 1).

    Returns:
        Natural frequency, rad/s, and damping ratio.

    Raises:
        ParameterError: A number is out of its range.
    """
    if not 0.0 < settling_time < math.inf:
        raise ParameterError('settling_time', settling_time, 'must be positive and finite')
    if not 0.0 <= overshoot < 1.0:
        raise ParameterError('overshoot', overshoot, 'must be in [0, 1)')
    if overshoot == 0.0:
        return 5.833920 / settling_time, 1.0
    log = math.log(overshoot)
    zeta = -log / math.sqrt(math.pi**2 + log**2)
    return -math.log(0.02 * math.sqrt(1.0 - zeta**2)) / (zeta * settling_time), zeta


def lqr_gains(
    program: Program, path: FeasibilityCheck, error: Array, rate: Array, effort: Array
) -> Gains:
    r"""Return the gains that minimize :math:`\int(f^TQ_0f+\dot f^TQ_1\dot f+\tau^TR\tau)\,dt`.

    With :math:`\ddot f = u` and the correcting effort :math:`\tau = A\Gamma^{+}u`; the weight of u
    is the mean of :math:`(A\Gamma^+)^TR\,A\Gamma^+` along the program.

    Args:
        program: The program; m <= n.
        path: Its feasibility check.
        error: Error that is acceptable per row, shape (m,), m or rad: :math:`Q_0` is diagonal
            with the squares of their inverses (Bryson).
        rate: Rate of the error that is acceptable per row, shape (m,), m/s or rad/s.
        effort: Effort that correcting may take per joint, shape (n,), N m or N.

    Returns:
        Gains, in general full matrices. All roots of (3.5) are stable.

    Raises:
        ParameterError: An acceptable amount is not positive, or m > n.
        ShapeError: It has the wrong shape.
    """
    m, n = program.m, program.n
    if m > n:
        raise ParameterError('program', program.name, 'has more conditions than joints')
    for name, value, size in (('error', error, m), ('rate', rate, m), ('effort', effort, n)):
        if value.shape != (size,):
            raise ShapeError(name, value.shape, (size,))
        if not np.all(value > 0.0):
            raise ParameterError(name, value.tolist(), 'must be positive')
    R = np.mean([_effort_weight(program, q, t, effort) for t, q in _points(path)], axis=0)
    zero, E = np.zeros((m, m)), np.eye(m)
    A, B = np.block([[zero, E], [zero, zero]]), np.vstack([zero, E])
    Q = np.diag(np.concatenate([error**-2.0, rate**-2.0]))
    from scipy.linalg import solve_continuous_are  # late: slow to import

    P = solve_continuous_are(A, B, Q, R)
    K = np.linalg.solve(R, B.T @ P)
    return Gains(K[:, :m], K[:, m:])


def largest_period(gains: Gains, discretization: str) -> float:
    """Return the largest control period at which the sampled error is stable, s, to 1 %.

    Args:
        gains: The gains.
        discretization: How the plant advances, see ``look_ahead``.
    """
    low = high = 1e-6
    while sampled_radius(*gains, high, discretization) < 1.0 and high < 1e3:
        low, high = high, 2.0 * high
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        if sampled_radius(*gains, middle, discretization) < 1.0:
            low = middle
        else:
            high = middle
    return low


def _points(path: FeasibilityCheck) -> list[tuple[float, Array]]:
    chosen = np.unique(np.linspace(0, len(path.times) - 1, 21).round().astype(int))
    return [(float(path.times[k]), path.q[k]) for k in chosen]


def _effort_weight(program: Program, q: Array, t: float, effort: Array) -> Array:
    Gamma = program.stack.evaluate(q, np.zeros(program.n), t).Gamma
    A = make_formulation('newton_euler', program.tree).mass_matrix(q) + np.diag(
        program.tree.armature
    )
    metric = program.metric if program.metric is not None else None
    if metric is None and program.inverse == 'inertia':
        metric = A
    task = A @ TaskInverse(Gamma, metric, None, program.singularity).matrix()
    scaled = task / effort[:, None]
    return scaled.T @ scaled
