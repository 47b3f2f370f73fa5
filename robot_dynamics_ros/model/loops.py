# SPDX-License-Identifier: Apache-2.0
r"""Loop equations :math:`\Phi(q) = 0` of a spanning tree, with Jacobian and drift.

A loop says that a frame on one branch of the tree meets a frame on another: along the axes of the
first frame their origins coincide in some components, and their axes agree in some components.

    translation   :math:`r = R_1^T(p_2 - p_1)`, the chosen components are zero
    rotation      :math:`X = R_1^T R_2`; about two axes: the third axes are parallel; about one or
                  three: the chosen components of :math:`\tfrac12(X - X^T)^\vee` are zero

Both are taken in the moving axes of the first frame, so their derivatives hold also where the
frames may slide or turn against each other in the free components.

Find the dependent joints of a mechanism: Newton's method on the loop equations, in floats.

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
from robot_dynamics_ros.model.kinematics import frame_motion
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array, cross, cross_matrix

AXES = 'xyz'


class Loop(NamedTuple):
    """A joint of the real machine that the spanning tree leaves out.

    Attributes:
        name: The loop's name, for messages.
        first: Frame (link name) whose axes are used.
        second: Frame that meets it.
        position: Components of the origins that coincide, a part of ``'xyz'``.
        rotation: Components of the orientation that agree, a part of ``'xyz'``.
    """

    name: str
    first: str
    second: str
    position: str = 'xyz'
    rotation: str = ''

    @property
    def rows(self) -> tuple[int, ...]:
        """Place of each equation in a wrench ``[F; M]`` in the axes of the first frame."""
        return tuple(AXES.index(c) for c in self.position) + tuple(
            3 + AXES.index(c) for c in self.rotation
        )

    def joints(self, tree: RobotTree) -> tuple[int, ...]:
        """Return the joints between the two frames, those that carry both left out."""
        one, two = (set(tree.path(tree.frame(f).body)) for f in (self.first, self.second))
        return tuple(sorted(one ^ two))


class LoopMotion(NamedTuple):
    r"""The equations of a loop at a state of the tree, m rows in the order of ``Loop.rows``.

    Attributes:
        residual: :math:`\Phi`, shape (m,), m or (sine of) rad.
        J: :math:`\Phi_q`, shape (m, n).
        drift: :math:`\ddot\Phi` at zero joint acceleration, shape (m,).
    """

    residual: Array
    J: Array
    drift: Array


def loop_motion(tree: RobotTree, loop: Loop, q: Array, v: Array) -> LoopMotion:
    r"""Return the loop equations with Jacobian and drift.

    With :math:`\Omega_1 = R_1^T\omega_1`, relative :math:`\Omega = R_1^T(\omega_2-\omega_1)`:

    .. math::
        \ddot r &= R_1^T(\ddot p_2-\ddot p_1-\dot\omega_1\times d-\omega_1\times(\omega_1\times d))
        - 2\,\Omega_1\times\dot r, \qquad d = p_2 - p_1 \\
        \dot\Omega &= R_1^T(\dot\omega_2-\dot\omega_1) - \Omega_1\times\Omega, \qquad
        \ddot X = (\langle\dot\Omega\rangle + \langle\Omega\rangle^2)\,X .

    Args:
        tree: The spanning tree.
        loop: The loop.
        q: Joint positions, shape (n,), rad or m; numbers or symbols.
        v: Joint velocities, shape (n,), rad/s or m/s.

    Returns:
        New arrays. Columns of joints outside the loop are exactly zero.

    Source: kane-recursion, section 4.1 (loop equation and its derivatives), for any joints.
    """
    inside = np.isin(np.arange(tree.n), loop.joints(tree))
    q, v = np.where(inside, q, 0 * q), np.where(inside, v, 0 * v)  # what carries both drops out
    one, two = (frame_motion(tree, q, v, frame) for frame in (loop.first, loop.second))
    R, d = one.R_WF.T, two.p_WF - one.p_WF
    J_1 = one.J[3:]
    w_1 = J_1 @ v
    turning = cross(one.drift[3:], d) + cross(w_1, cross(w_1, d))
    J_r = R @ (two.J[:3] - one.J[:3] - cross(J_1, d))
    r_ddot = R @ (two.drift[:3] - one.drift[:3] - turning) - 2 * cross(R @ w_1, J_r @ v)
    J_w = R @ (two.J[3:] - J_1)
    w_dot = R @ (two.drift[3:] - one.drift[3:]) - cross(R @ w_1, J_w @ v)
    t = [AXES.index(c) for c in loop.position]
    turned = _rotation_motion(loop, R @ two.R_WF, J_w, J_w @ v, w_dot)
    J = np.vstack([J_r[t], turned.J])
    return LoopMotion(
        np.concatenate([(R @ d)[t], turned.residual]),
        np.where(inside, J, 0 * J),
        np.concatenate([r_ddot[t], turned.drift]),
    )


def _rotation_motion(loop: Loop, X: Array, J_w: Array, w: Array, w_dot: Array) -> LoopMotion:
    """Return the rotation rows from X, the relative Jacobian, velocity and acceleration."""
    m, n = len(loop.rotation), J_w.shape[1]
    J = np.empty((m, n), dtype=J_w.dtype)
    for j in range(n if m else 0):
        J[:, j] = _rotation_part(cross_matrix(J_w[:, j]) @ X, loop)
    X_ddot = (cross_matrix(w_dot) + cross_matrix(w) @ cross_matrix(w)) @ X
    return LoopMotion(_rotation_part(X, loop), J, _rotation_part(X_ddot, loop))


def _rotation_part(X: Array, loop: Loop) -> Array:
    """Return the linear function of X (or of a derivative of it) that the loop sets to zero."""
    chosen = [AXES.index(c) for c in loop.rotation]
    if len(chosen) == 2:
        free = 3 - sum(chosen)
        return X[chosen, free]
    vee = [(X[2, 1] - X[1, 2]) / 2, (X[0, 2] - X[2, 0]) / 2, (X[1, 0] - X[0, 1]) / 2]
    return np.array([vee[c] for c in chosen], dtype=X.dtype)


def rotation_gradient(loop: Loop, X: Array) -> Array:
    r"""Return the derivative of the rotation rows by :math:`\Omega`, shape (m, 3).

    A multiplier of a row is a moment along that row of the gradient, in the first frame's axes.
    """
    return np.array([_rotation_part(cross_matrix(e) @ X, loop) for e in np.eye(3)]).T


def is_flipped(tree: RobotTree, loop: Loop, q: Array) -> bool:
    """Say whether a root of the rotation equations is the false one, turned by half a turn."""
    if not loop.rotation:
        return False
    one, two = (frame_motion(tree, q, 0 * q, frame) for frame in (loop.first, loop.second))
    X = one.R_WF.T @ two.R_WF
    chosen = [AXES.index(c) for c in loop.rotation]
    if len(chosen) == 2:
        free = 3 - sum(chosen)
        return bool(X[free, free] < 0.0)
    cosine = np.trace(X) - (X[chosen[0], chosen[0]] if len(chosen) == 1 else 1.0)
    return bool(cosine < 0.0)


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
