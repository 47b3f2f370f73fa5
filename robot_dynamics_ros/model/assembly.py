# SPDX-License-Identifier: Apache-2.0
r"""Find the dependent joints of a mechanism: Newton's method on the loop equations, in floats.

The loop equations have several roots, one for each way to assemble the mechanism. The wanted one
is followed from a known configuration by continuity; the sign of :math:`\det\Phi_\varphi`,
which changes only at singular configurations, tells whether it was left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.errors import MechanismError, SingularityError
from robot_dynamics_ros.model.loops import Loop, LoopMotion, is_flipped, loop_motion
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

#: A loop counts as closed when its gap, over the size of the loop, is below this.
CLOSED = 1e-10
_FURTHEST_CORRECTION = 0.3  # rad: a larger one may have landed on another branch
_SMALLEST_STEP = 1.0 / 512.0
_TRIES = 40


@dataclass(frozen=True, eq=False)
class LoopEquations:
    r"""All loop equations of a mechanism, and which joints they determine.

    Attributes:
        tree: The spanning tree, n joints.
        loops: Its loops.
        coordinates: Indices of the independent joints.
        rows: Which of the stacked equations determine the dependent joints (the others follow
            from them); all if None.
    """

    tree: RobotTree
    loops: tuple[Loop, ...]
    coordinates: tuple[int, ...]
    rows: tuple[int, ...] | None = None

    @cached_property
    def dependent(self) -> tuple[int, ...]:
        """Indices of the joints that the loops determine."""
        return tuple(i for i in range(self.tree.n) if i not in self.coordinates)

    @cached_property
    def length(self) -> float:
        """Size of the loops in m: the sum of the offsets between their joints and frames."""
        joints = {i for loop in self.loops for i in loop.joints(self.tree)}
        arms = [self.tree.p_PJ[i] for i in joints]
        arms += [self.tree.frame(f).p_BF for loop in self.loops for f in (loop.first, loop.second)]
        total = math.fsum(math.sqrt(float(arm @ arm)) for arm in arms)
        return total if total > 0.0 else 1.0

    @cached_property
    def scale(self) -> Array:
        """Factor of each equation that makes it dimensionless."""
        rows = [row for loop in self.loops for row in loop.rows]
        return np.array([1.0 / self.length if row < 3 else 1.0 for row in rows])

    def motion(self, q: Array, v: Array) -> LoopMotion:
        """Return all equations of all loops with Jacobian and drift, stacked."""
        parts = [loop_motion(self.tree, loop, q, v) for loop in self.loops]
        return LoopMotion(
            *(np.concatenate([part[k] for part in parts]) for k in range(len(LoopMotion._fields)))
        )

    def scaled(self, q: Array) -> tuple[Array, Array]:
        r"""Return residual and :math:`\Phi_q` with lengths in units of the loop's size."""
        motion = self.motion(q, 0.0 * q)
        return motion.residual * self.scale, motion.J * self.scale[:, None]

    def gap(self, q: Array) -> float:
        """Return how far the loops are from closed, over their size."""
        return float(np.max(np.abs(self.scaled(q)[0]), initial=0.0))

    def regularity(self, q: Array) -> float:
        r"""Return how well the loops determine the dependent joints: 0 singular, 1 at best.

        The smallest singular value of :math:`\Phi_\varphi` after its columns are scaled to one.
        """
        P = self._square(q)
        if not P.size:
            return 1.0
        norms = np.sqrt(np.sum(P * P, axis=0))
        if not np.all(norms > 0.0):
            return 0.0
        return float(np.linalg.svd(P / norms, compute_uv=False)[-1])

    def branch(self, q: Array) -> float:
        r"""Return the sign of :math:`\det\Phi_\varphi`."""
        return float(np.linalg.slogdet(self._square(q))[0])

    def _square(self, q: Array) -> Array:
        J = self.scaled(q)[1][:, list(self.dependent)]
        return J if self.rows is None else J[list(self.rows)]


class Closure(NamedTuple):
    """Result of Newton's method: tree positions, and the remaining gap over the loops' size."""

    q: Array
    gap: float


def close(equations: LoopEquations, q: Array, iterations: int = 30) -> Closure:
    """Improve the dependent joints by Newton's method, least squares where rows are dependent.

    Args:
        equations: The loops.
        q: Tree positions to start from, shape (n,); the independent ones stay.
        iterations: At most so many steps.

    Returns:
        New array and the gap; whether it is closed is for the caller to decide.
    """
    dependent = list(equations.dependent)
    best, q = Closure(q, math.inf), np.array(q, dtype=float)
    for _ in range(iterations):
        residual, J = equations.scaled(q)
        gap = float(np.max(np.abs(residual), initial=0.0))
        if gap < best.gap:
            best = Closure(q.copy(), gap)
        elif best.gap < CLOSED:
            break  # rounding is reached
        step = np.linalg.lstsq(J[:, dependent], residual, rcond=1e-13)[0]
        largest = float(np.max(np.abs(step), initial=0.0))
        q[dependent] = q[dependent] - step * min(1.0, 1.0 / max(largest, 1e-300))
    return best


def assemble(equations: LoopEquations, u: Array, known: Array, singular_below: float) -> Array:
    """Return the tree positions at independent coordinates u, on the branch of a known one.

    Args:
        equations: The loops, rows chosen.
        u: Independent coordinates, shape (N,), rad or m.
        known: Tree positions, shape (n,), at which the loops are closed on the wanted branch.
        singular_below: Smallest regularity accepted.

    Returns:
        New array, shape (n,), rad or m.

    Raises:
        SingularityError: The loops can close only in a singular configuration.
        MechanismError: They cannot close at u, or in several ways of which none is nearest.
    """
    q = _follow(equations, u, known)
    if q is None:
        q = _search(equations, u, known, singular_below)
    return q


def _follow(equations: LoopEquations, u: Array, known: Array) -> Array | None:
    """Move straight from the known configuration to u, in steps that keep the branch."""
    coordinates, dependent = list(equations.coordinates), list(equations.dependent)
    start, branch, size = known[coordinates], equations.branch(known), equations.length
    allowed = np.where(np.array(equations.tree.prismatic), size, 1.0) * _FURTHEST_CORRECTION
    q, done, step = known, 0.0, 1.0
    while done < 1.0:
        step = min(step, 1.0 - done)
        trial = q.copy()
        trial[coordinates] = start + (done + step) * (u - start)
        J = equations.scaled(q)[1]
        change = J[:, coordinates] @ (trial - q)[coordinates]
        trial[dependent] -= np.linalg.lstsq(J[:, dependent], change, rcond=None)[0]
        closed = close(equations, trial, iterations=12)
        near = np.all(np.abs(closed.q - trial) <= allowed)
        if closed.gap < CLOSED and near and equations.branch(closed.q) == branch:
            q, done, step = closed.q, done + step, 2.0 * step
        else:
            step = 0.5 * step
            if step < _SMALLEST_STEP:
                return None
    return q if not _flipped(equations, q) else None


def _flipped(equations: LoopEquations, q: Array) -> bool:
    return any(is_flipped(equations.tree, loop, q) for loop in equations.loops)


def _search(equations: LoopEquations, u: Array, known: Array, singular_below: float) -> Array:
    """Look from many starts for the one root on the branch of the known configuration."""
    tree, rng = equations.tree, np.random.default_rng(0)
    dependent, branch = list(equations.dependent), equations.branch(known)
    turning = ~np.array(tree.prismatic)[dependent]
    reach = np.where(turning, math.pi, equations.length)
    best, roots = Closure(known, math.inf), list[Array]()
    for _ in range(_TRIES):
        q = known.copy()
        q[list(equations.coordinates)] = u
        q[dependent] += rng.uniform(-reach, reach)
        closed = close(equations, q)
        if _flipped(equations, closed.q):
            continue
        best = min(best, closed, key=lambda closure: closure.gap)
        regular = closed.gap < CLOSED and equations.regularity(closed.q) >= singular_below
        if not regular or equations.branch(closed.q) != branch:
            continue
        turns = np.round((closed.q - known)[dependent] / (2.0 * math.pi)) * turning
        closed.q[dependent] -= 2.0 * math.pi * turns
        if all(np.max(np.abs(closed.q - root)) > 1e-6 for root in roots):
            roots.append(closed.q)
    if len(roots) == 1:
        return roots[0]
    raise _not_assembled(equations, u, best, len(roots), singular_below)


def _not_assembled(
    equations: LoopEquations, u: Array, best: Closure, roots: int, singular_below: float
) -> MechanismError | SingularityError:
    """Say why no configuration was found."""
    culprit = 'loop ' + ', '.join(repr(loop.name) for loop in equations.loops)
    at = 'at ' + ', '.join(
        f'{equations.tree.joint_names[i]} = {value:.6g}'
        for i, value in zip(equations.coordinates, u, strict=True)
    )
    if best.gap > 1e-6:
        gap = f'a gap of {best.gap * equations.length:.3g} m is left'
        return MechanismError(
            culprit, f'cannot be assembled {at}: {gap}', 'this is out of its reach'
        )
    if roots == 0 and equations.regularity(best.q) < singular_below:
        measure = equations.regularity(best.q)
        return SingularityError(f'Phi_phi of {culprit}', measure, singular_below, at)
    return MechanismError(
        culprit,
        f'closes {at}, but no root continues the assembly ({roots} on its branch)',
        'give a configuration nearby, near=',
    )


def independent_rows(J: Array, count: int) -> tuple[int, ...]:
    """Return the rows of a matrix that are independent of each other, the strongest first found.

    Args:
        J: Scaled Jacobian of all equations by the dependent joints, shape (m, count).
        count: How many are wanted.
    """
    from scipy.linalg import qr

    pivots: Sequence[int] = qr(J.T, mode='r', pivoting=True)[-1]
    return tuple(sorted(int(row) for row in pivots[:count]))
