# SPDX-License-Identifier: Apache-2.0
r"""How far a loop is from instability: margins at the plant input, about a program.

The robot is linearized about a point of the program, and so is the law. Their loop, opened at the
drives, is :math:`L(s) = K\,(sE-A_p)^{-1}B_p\,e^{-sT}` with
:math:`K = -\partial\tau_c/\partial(q,\dot q)`, and :math:`S = (E+L)^{-1}`.

One drive at a time, the others closed: :math:`L_i = 1/S_{ii}-1` has the classical gain, phase
and delay margin. All drives at once: the disk margin
:math:`\alpha = 2/\lVert S-T\rVert_\infty`, :math:`T=E-S`, each drive scaled by its effort limit;
gains may vary together between :math:`\tfrac{2-\alpha}{2+\alpha}` and
:math:`\tfrac{2+\alpha}{2-\alpha}`, phases by :math:`2\arctan\tfrac\alpha2`.

Source: Seiler, Packard, Gahinet, "An introduction to disk margins", IEEE Control Systems 40(5),
2020; constraint-stabilization, section 7 (the linearization).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.constraints.feasibility import FeasibilityCheck
from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.control.laws.constraint_stabilization import ConstraintStabilization
from robot_dynamics_ros.control.laws.control_law import Reference
from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.spatial.scalar import Array

_STEP = 1e-5  # of central differences of the law, rad or m
_LOWEST, _HIGHEST, _COUNT = 1e-2, 1e4, 1500  # of the frequencies that are looked at, rad/s


class Margins(NamedTuple):
    """Margins of a loop at the plant input.

    Attributes:
        gain: Factor by which the gain of one drive may grow, shape (n,); infinite if any may.
        phase: Phase that one drive may lose, shape (n,), rad; infinite if its loop gain stays
            below 1.
        delay: Delay that one drive may have, besides the one assumed, shape (n,), s.
        disk: Disk margin of all drives at once, in [0, 2].
        poles: Poles of the closed loop without delay, 1/s.
    """

    gain: Array
    phase: Array
    delay: Array
    disk: float
    poles: Array

    @property
    def disk_gain(self) -> float:
        """Factor by which all gains may grow together; infinite for a disk margin of 2."""
        return (2.0 + self.disk) / (2.0 - self.disk) if self.disk < 2.0 else np.inf

    @property
    def disk_phase(self) -> float:
        """Phase that all drives may lose together, rad."""
        return 2.0 * float(np.arctan(self.disk / 2.0))


def program_margins(
    program: Program, path: FeasibilityCheck, index: int, delay: float = 0.0
) -> Margins:
    """Return the margins of a program's loop about a point of its path.

    Args:
        program: The program.
        path: Its feasibility check.
        index: Which instant of the feasibility check.
        delay: Delay assumed in the loop, s: hold, computation and transport.

    Raises:
        ParameterError: The program follows a joint reference, or has joints without a drive.

    Validity: exact model, no friction, small deviations, time frozen: on a moving program the
        poles differ a little from the designed ones. A null space without posture adds poles at 0.

    Cost: about 0.1 s.
    """
    if program.passive:
        raise ParameterError('program', program.name, 'has joints without a drive')
    tree = program.tree.with_changes(
        damping=np.zeros(program.n), coulomb_friction=np.zeros(program.n)
    )
    law = ConstraintStabilization(
        tree, program=program, friction_compensation=False, limit_effort=False
    )
    t, q, v = float(path.times[index]), path.q[index], path.v[index]
    n, tau, reference = program.n, np.zeros(program.n), Reference(program.n)
    law.reset(0.0, q, v)

    def effort(x: Array) -> Array:
        law.effort(t, x[:n].copy(), x[n:].copy(), reference, tau)
        return tau.copy()

    x = np.concatenate([q, v])
    steps = _STEP * np.eye(2 * n)
    K = np.stack([(effort(x - e) - effort(x + e)) / (2.0 * _STEP) for e in steps], axis=-1)
    effort(x)
    model = make_formulation('newton_euler', tree)
    dq, dv, M = model.derivatives(q, v, law.acceleration)
    inertia = M + np.diag(tree.armature)
    zero, E = np.zeros((n, n)), np.eye(n)
    A = np.block([[zero, E], [-np.linalg.solve(inertia, dq), -np.linalg.solve(inertia, dv)]])
    B = np.vstack([zero, np.linalg.inv(inertia)])
    return loop_margins(A, B, K, tree.effort_limit, delay)


def loop_margins(A: Array, B: Array, K: Array, scale: Array, delay: float = 0.0) -> Margins:
    """Return the margins of state feedback at the plant input.

    Args:
        A: Plant, shape (k, k).
        B: Its inputs, shape (k, n).
        K: Feedback ``u = -K x``, shape (n, k).
        scale: Size of each input, by which they are compared, shape (n,).
        delay: Delay at every input, s.

    Returns:
        See :class:`Margins`. Margins of a loop that is not stable mean nothing: look at the poles.
    """
    n, k = B.shape[1], len(A)
    E = np.eye(n)
    frequencies = np.geomspace(_LOWEST, _HIGHEST, _COUNT)
    loops, worst = np.zeros((_COUNT, n), dtype=complex), 0.0
    for row, w in enumerate(frequencies):
        L = K @ np.linalg.solve(1j * w * np.eye(k) - A, B) * np.exp(-1j * w * delay)
        S = np.linalg.inv(E + L)
        loops[row] = 1.0 / np.diag(S) - 1.0
        scaled = (2.0 * S - E) * scale[None, :] / scale[:, None]
        worst = max(worst, float(np.linalg.norm(scaled, 2)))
    each = [_classical(loops[:, i]) for i in range(n)]
    gain, phase, late = (np.array(column) for column in zip(*each, strict=True))
    poles = np.linalg.eigvals(A - B @ K)
    return Margins(gain, phase, late, 2.0 / worst, poles[np.argsort(-poles.real)])


def _classical(loop: Array) -> tuple[float, float, float]:
    """Return gain, phase and delay margin of a scalar loop over the frequencies."""
    size, gain, phase, late = np.abs(loop), np.inf, np.inf, np.inf
    for k in range(len(loop) - 1):
        a, b = loop[k], loop[k + 1]
        if (size[k] - 1.0) * (size[k + 1] - 1.0) <= 0.0 and size[k] != size[k + 1]:
            part = (1.0 - size[k]) / (size[k + 1] - size[k])
            crossing, w = a + part * (b - a), _between(k, part)
            lost = (np.angle(crossing) + np.pi) % (2.0 * np.pi)
            phase, late = min(phase, lost), min(late, lost / w)
        if a.imag * b.imag <= 0.0 and a.imag != b.imag:
            real = a.real - a.imag * (b.real - a.real) / (b.imag - a.imag)
            if -1.0 < real < 0.0:
                gain = min(gain, -1.0 / real)
    return float(gain), float(phase), float(late)


def _between(k: int, part: float) -> float:
    ratio = _HIGHEST / _LOWEST
    return float(_LOWEST * ratio ** ((k + part) / (_COUNT - 1)))
