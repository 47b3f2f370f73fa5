# SPDX-License-Identifier: Apache-2.0
r"""Gain design for a program from the model, and stability margins of the loop.

The law reduces the robot to :math:`\ddot f = u`, so the gains act on double integrators. Poles can
be placed row by row. LQR weights the error against the *efforts* :math:`\tau = A\Gamma^{+}u` of
its correction, and so couples the rows like the inertia of the robot does.

For the margins at the plant input, robot and law are linearized about a point of the program. The
loop, opened at the drives, is :math:`L(s) = K\,(sE-A_p)^{-1}B_p\,e^{-sT}` with
:math:`K = -\partial\tau_c/\partial(q,\dot q)`, and :math:`S = (E+L)^{-1}`.

For one drive with the others closed, :math:`L_i = 1/S_{ii}-1` has the classical gain, phase and
delay margins. For all drives together, the disk margin is
:math:`\alpha = 2/\lVert S-T\rVert_\infty`, :math:`T=E-S`, with each drive scaled by its effort
limit; all gains may vary between :math:`\tfrac{2-\alpha}{2+\alpha}` and
:math:`\tfrac{2+\alpha}{2-\alpha}`, all phases by :math:`2\arctan\tfrac\alpha2`.

Source: constraint-stabilization, sections 3.2, (3.5), and 7 (the linearization); Bryson's rule for
the weights; Seiler, Packard, Gahinet, "An introduction to disk margins", IEEE Control Systems
40(5), 2020.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.damped_inverse import TaskInverse
from robot_dynamics_ros.constraints.error_dynamics import sampled_radius
from robot_dynamics_ros.constraints.feasibility import FeasibilityCheck
from robot_dynamics_ros.constraints.program import NullSpaceTask, Program
from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.dynamics import make_formulation
from robot_dynamics_ros.dynamics.joint_terms import inertia_matrix, linearize_driven
from robot_dynamics_ros.dynamics.sampled_loop import Sampling, largest_ratio
from robot_dynamics_ros.errors import ParameterError, ShapeError
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.spatial.validation import require_positive


class Gains(NamedTuple):
    r"""Gains of (3.5).

    Attributes:
        G0: :math:`\Gamma_0`, shape (m, m), 1/s^2.
        G1: :math:`\Gamma_1`, shape (m, m), 1/s.
    """

    G0: Array
    G1: Array


def frequency_for(settling_time: float, overshoot: float = 0.0) -> tuple[float, float]:
    r"""Return natural frequency and damping ratio for a settling time and an overshoot.

    :math:`\zeta = -\ln p/\sqrt{\pi^2+\ln^2p}`; after the settling time, the error is within 2 % of
    its initial value: :math:`e^{-\omega_0T}(1+\omega_0T) = 0.02` for :math:`\zeta=1`, else
    :math:`e^{-\zeta\omega_0T} = 0.02\sqrt{1-\zeta^2}`.

    Args:
        settling_time: T, s.
        overshoot: p, relative to the initial error, in [0, 1).

    Returns:
        Natural frequency, rad/s, and damping ratio.

    Raises:
        ParameterError: A number is out of its range.
    """
    require_positive(settling_time=settling_time)
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
        error: Acceptable error per row, shape (m,), m or rad; :math:`Q_0` is diagonal with their
            inverse squares (Bryson's rule).
        rate: Acceptable rate of the error per row, shape (m,), m/s or rad/s.
        effort: Acceptable correcting effort per joint, shape (n,), N m or N.

    Returns:
        Gains, in general full matrices. All roots of (3.5) are stable.

    Raises:
        ParameterError: An acceptable value is not positive and finite, or m > n.
        ShapeError: An array has the wrong shape.
    """
    m, n = program.m, program.n
    if m > n:
        raise ParameterError('program', program.name, 'has more conditions than joints')
    for name, value, size in (('error', error, m), ('rate', rate, m), ('effort', effort, n)):
        if value.shape != (size,):
            raise ShapeError(name, value.shape, (size,))
        if not np.all((value > 0.0) & (value < np.inf)):
            raise ParameterError(name, value.tolist(), 'must be positive and finite')
    along = np.unique(np.linspace(0, len(path.times) - 1, 21).round().astype(int))
    weights = (_effort_weight(program, path.q[k], path.times[k], effort) for k in along)
    R = np.mean([*weights], axis=0)
    zero, E = np.zeros((m, m)), np.eye(m)
    A, B = np.block([[zero, E], [zero, zero]]), np.vstack([zero, E])
    Q = np.diag(np.concatenate([error**-2.0, rate**-2.0]))
    from scipy.linalg import solve_continuous_are  # late: slow to import

    P = solve_continuous_are(A, B, Q, R)
    K = np.linalg.solve(R, B.T @ P)
    return Gains(K[:, :m], K[:, m:])


#: Longest control period that is searched, s.
_LONGEST_S = 1e3


def largest_period(gains: Gains, discretization: str) -> float:
    """Return the largest control period at which the sampled error is stable, s, within 0.1 %.

    Args:
        gains: The gains.
        discretization: Time discretization of the plant, see ``LookAhead``.
    """
    return _LONGEST_S * largest_ratio(
        lambda part: sampled_radius(*gains, Sampling(_LONGEST_S * part, discretization)) < 1.0
    )


def _effort_weight(program: Program, q: Array, t: float, effort: Array) -> Array:
    Gamma = program.stack.evaluate(q, np.zeros(program.n), t).Gamma
    A = inertia_matrix(program.tree, q)
    inverse = TaskInverse(Gamma, program.joint_metric(q), None, program.singularity)
    task = A @ inverse.matrix()
    scaled = task / effort[:, None]
    return scaled.T @ scaled


_STEP = 1e-5  # step of central differences of the law, rad or m


class Margins(NamedTuple):
    """Stability margins of a loop at the plant input.

    Attributes:
        gain: Gain margin of each drive, a factor, shape (n,); infinite if unlimited.
        phase: Phase margin of each drive, shape (n,), rad; infinite if its loop gain is always
            below 1.
        delay: Delay margin of each drive, in addition to the assumed delay, shape (n,), s.
        disk: Disk margin of all drives together, in [0, 2].
        poles: Poles of the closed loop without delay, 1/s, by falling real part.
    """

    gain: Array
    phase: Array
    delay: Array
    disk: float
    poles: Array

    @property
    def disk_gain(self) -> float:
        """Gain margin of all drives together, a factor; infinite for a disk margin of 2."""
        return (2.0 + self.disk) / (2.0 - self.disk) if self.disk < 2.0 else np.inf

    @property
    def disk_phase(self) -> float:
        """Phase margin of all drives together, rad."""
        return 2.0 * float(np.arctan(self.disk / 2.0))


def program_margins(
    program: Program, path: FeasibilityCheck, index: int, delay: float = 0.0
) -> Margins:
    """Return the stability margins of a program's loop about a point of its path.

    Args:
        program: The program.
        path: Its feasibility check.
        index: Index of the instant in the feasibility check.
        delay: Assumed delay in the loop, s: hold, computation and transport.

    Raises:
        ParameterError: The program follows a joint reference, or has joints without a drive.

    Validity: exact model, no friction, small deviations, frozen time: for a moving program the
        poles differ slightly from the designed ones. The poles leave out motions on which neither
        f nor the null-space task acts: theirs are pairs at 0, which rounding would move by 1e-4.

    Cost: about 0.1 s.
    """
    if program.passive:
        raise ParameterError('program', program.name, 'has joints without a drive')
    still = np.zeros(program.n)
    tree = program.tree.with_changes(damping=still, coulomb_friction=still, drive_friction={})
    law = ConstraintStabilization(
        tree, program=program, friction_compensation=False, limit_effort=False
    )
    t, q, v = float(path.times[index]), path.q[index], path.v[index]
    n, tau, reference = program.n, still.copy(), Reference(program.n)
    law.reset(0.0, q, v)

    def effort(x: Array) -> Array:
        law.effort(t, x[:n].copy(), x[n:].copy(), reference, tau)
        return tau.copy()

    x = np.concatenate([q, v])
    steps = _STEP * np.eye(2 * n)
    K = np.stack([(effort(x - e) - effort(x + e)) / (2.0 * _STEP) for e in steps], axis=-1)
    effort(x)
    model = make_formulation('newton_euler', tree)
    A, B = linearize_driven(model, q, v, law.acceleration)
    return loop_margins(A, B, K, tree.effort_limit, delay, _driven(program, q, v, t))


def _driven(program: Program, q: Array, v: Array, t: float) -> Array:
    """Return an orthonormal basis of the states that the law acts on, shape (2n, k)."""
    from scipy.linalg import block_diag, orth  # late: slow to import

    task = program.null_space or NullSpaceTask.of(program.tree)
    rows = program.stack.evaluate(q, v, t).Gamma
    pulled = np.vstack([rows, np.diag(task.stiffness + task.limit_gain)])
    damped = np.vstack([pulled, np.diag(task.damping)])
    return block_diag(orth(pulled.T), orth(damped.T))


def loop_margins(
    A: Array, B: Array, K: Array, scale: Array, delay: float = 0.0, states: Array | None = None
) -> Margins:
    """Return the stability margins of state feedback at the plant input.

    Args:
        A: System matrix, shape (k, k).
        B: Input matrix, shape (k, n).
        K: Feedback ``u = -K x``, shape (n, k).
        scale: Scale of each input in the disk margin, shape (n,).
        delay: Delay at every input, s.
        states: Orthonormal basis of the states whose poles are returned, shape (k, j); None: all.

    Returns:
        See :class:`Margins`. They are meaningless for an unstable loop: check the poles.
    """
    frequencies = np.geomspace(1e-2, 1e4, 1500)  # rad/s
    E, s = np.eye(B.shape[1]), 1j * frequencies[:, np.newaxis, np.newaxis]
    L = K @ np.linalg.solve(s * np.eye(len(A)) - A, B[np.newaxis]) * np.exp(-s * delay)
    S = np.linalg.inv(E + L)
    loops = 1.0 / np.diagonal(S, axis1=1, axis2=2) - 1.0
    scaled = (2.0 * S - E) * scale / scale[:, np.newaxis]
    worst = float(np.linalg.norm(scaled, 2, axis=(1, 2)).max())
    gain, phase, late = np.array([_classical(loop, frequencies) for loop in loops.T]).T
    closed = A - B @ K
    poles = np.linalg.eigvals(closed if states is None else states.T @ closed @ states)
    return Margins(gain, phase, late, 2.0 / worst, poles[np.argsort(-poles.real)])


def _classical(loop: Array, frequencies: Array) -> tuple[float, float, float]:
    """Return gain, phase and delay margins of a scalar loop from its frequency response."""
    a, b, excess = loop[:-1], loop[1:], np.abs(loop) - 1.0
    at = (excess[:-1] * excess[1:] <= 0.0) & (excess[:-1] != excess[1:])
    part = excess[:-1][at] / (excess[:-1] - excess[1:])[at]
    crossing = a[at] + part * (b - a)[at]
    w = frequencies[:-1][at] ** (1.0 - part) * frequencies[1:][at] ** part
    margin = (np.angle(crossing) + np.pi) % (2.0 * np.pi)
    at = (a.imag * b.imag <= 0.0) & (a.imag != b.imag)
    real = (a.real - a.imag * (b - a).real / np.where(at, (b - a).imag, 1.0))[at]
    gains = -1.0 / real[(real > -1.0) & (real < 0.0)]
    smallest = (x.min(initial=np.inf) for x in (gains, margin, margin / w))
    gain, phase, late = map(float, smallest)
    return gain, phase, late
