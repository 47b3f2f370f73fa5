# SPDX-License-Identifier: Apache-2.0
r"""Loop equations :math:`\Phi(q) = 0` of a spanning tree, and the rates that they determine.

A loop constrains a frame on one branch of the tree relative to a frame on another. In the axes of
the first frame, selected components of the relative position and rotation are zero:

    translation   :math:`r = R_1^T(p_2 - p_1)`, the selected components are zero
    rotation      :math:`X = R_1^T R_2`; about two axes: the third axes are parallel; about one or
                  three: the selected components of :math:`\tfrac12(X - X^T)^\vee` are zero

Both are expressed in the moving axes of the first frame, so that their derivatives also hold if
the frames translate or rotate relative to each other in the free components.

There is one root per assembly mode, see ``assembly``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.model.dependence import Affine
from robot_dynamics_ros.model.kinematics import Motion, frame_pose
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.jet import Jet, dot, stack, time_jet
from robot_dynamics_ros.spatial.linear_algebra import solve
from robot_dynamics_ros.spatial.scalar import Array, common_dtype, cross_matrix, zeros

AXES = 'xyz'
_UNITS = ((1, 0, 0), (0, 1, 0), (0, 0, 1))


class Loop(NamedTuple):
    """A loop-closing joint, which is not part of the spanning tree.

    Attributes:
        name: Name of the loop, for messages.
        first: First frame (link name); the constraint is expressed in its axes.
        second: Second frame (link name).
        position: Constrained components of the relative position, a subset of ``'xyz'``.
        rotation: Constrained components of the relative rotation, a subset of ``'xyz'``.
    """

    name: str
    first: str
    second: str
    position: str = 'xyz'
    rotation: str = ''

    @property
    def turns(self) -> list[int]:
        """Indices of the axes about which the rotation is constrained."""
        return [AXES.index(c) for c in self.rotation]

    @property
    def rows(self) -> tuple[int, ...]:
        """Index of each equation in a wrench ``[F; M]`` in the axes of the first frame."""
        return (*(AXES.index(c) for c in self.position), *(3 + axis for axis in self.turns))

    def joints(self, tree: RobotTree) -> tuple[int, ...]:
        """Return the joints on the path between the two frames, without those that carry both."""
        one, two = (set(tree.path(tree.frame(f).body)) for f in (self.first, self.second))
        return tuple(sorted(one ^ two))


def loop_motion(tree: RobotTree, loop: Loop, q: Array, v: Array) -> Jet:
    r"""Return the loop equations as a jet, m rows in the order of ``Loop.rows``.

    Its value is :math:`\Phi`, in m or the sine of an angle, its ``J`` is :math:`\Phi_q`, shape
    (m, n), its bias acceleration is :math:`\ddot\Phi` at zero joint acceleration. By the product
    rule, with :math:`\Omega_1 = R_1^T\omega_1` and the relative angular velocity :math:`\Omega =
    R_1^T(\omega_2-\omega_1)`:

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
    inside = np.zeros(tree.n, dtype=bool)
    inside[list(loop.joints(tree))] = True
    q, v = np.where(inside, q, 0 * q), np.where(inside, v, 0 * v)  # others have no effect
    motion = Motion(tree, q, v)
    gap = motion.point(loop.second) - motion.point(loop.first)
    rows = [dot(motion.axis(loop.first, _UNITS[AXES.index(c)]), gap) for c in loop.position]
    if loop.rotation:
        one, two = ([motion.axis(f, e) for e in _UNITS] for f in (loop.first, loop.second))
        rows += _rotation_rows([[dot(a, b) for b in two] for a in one], loop)
    jet = stack(rows)
    return replace(jet, J=np.where(inside, jet.J, 0 * jet.J))


def _rotation_rows(X: Any, loop: Loop) -> list[Any]:
    """Return the linear functions of X (or of its derivative) that the loop sets to zero."""
    chosen = loop.turns
    if len(chosen) == 2:
        return [X[axis][3 - sum(chosen)] for axis in chosen]
    following = [((axis + 1) % 3, (axis + 2) % 3) for axis in chosen]
    return [0.5 * (X[k][j] - X[j][k]) for j, k in following]


def rotation_gradient(loop: Loop, X: Array) -> Array:
    r"""Return the derivative of the rotation rows with respect to :math:`\Omega`, shape (m, 3).

    The multiplier of a row is a moment along that row of the gradient, in axes of the first frame.
    """
    return np.array([_rotation_rows(cross_matrix(e) @ X, loop) for e in np.eye(3)]).T


def is_flipped(tree: RobotTree, loop: Loop, q: Array) -> bool:
    """Return whether a root of the rotation equations is the spurious one, half a turn off."""
    if not loop.rotation:
        return False
    one, two = (frame_pose(tree, q, frame) for frame in (loop.first, loop.second))
    X = one.R_WF.T @ two.R_WF
    chosen = loop.turns
    if len(chosen) == 2:
        free = 3 - sum(chosen)
        return bool(X[free, free] < 0.0)
    cosine = np.trace(X) - (X[chosen[0], chosen[0]] if len(chosen) == 1 else 1.0)
    return bool(cosine < 0.0)


#: A loop is closed if its error, relative to the size of the loop, is below this.
CLOSED = 1e-10


@dataclass(frozen=True, eq=False)
class LoopEquations:
    r"""All loop equations of a mechanism, and the joints that they determine.

    Attributes:
        tree: The spanning tree, n joints.
        loops: The loops that close it.
        coordinates: Indices of the N independent joints.
        mimic: All joints by those that follow no other, shape (n, n); columns of mimic joints
            are zero. The identity without mimic joints.
        rows: Indices of the stacked equations that determine the dependent joints (the others are
            redundant); all if None.
    """

    tree: RobotTree
    loops: tuple[Loop, ...]
    coordinates: list[int]
    mimic: Affine
    rows: tuple[int, ...] | None = None

    @property
    def names(self) -> str:
        """The loops in messages, such as ``loop 'pin'``."""
        return 'loop ' + ', '.join(repr(loop.name) for loop in self.loops)

    @cached_property
    def dependent(self) -> list[int]:
        """Indices of the joints that the loops determine; mimic joints follow from the others."""
        free = np.flatnonzero(np.diag(self.mimic.rate))
        return [i for i in free.tolist() if i not in self.coordinates]

    @cached_property
    def moves_loops(self) -> Array:
        """Whether each joint moves a loop, itself or by its mimic joints, shape (n,)."""
        moved = [i for loop in self.loops for i in loop.joints(self.tree)]
        return np.asarray(np.any(self.mimic.rate[moved], axis=0))

    @property
    def unit_rates(self) -> Array:
        """A with zero rows for the dependent joints, shape (n, N); exact integers."""
        return np.eye(self.tree.n, dtype=int)[:, self.coordinates]

    @cached_property
    def length(self) -> float:
        """Size of the loops (m): the sum of the offsets between their joints and frames."""
        joints = {i for loop in self.loops for i in loop.joints(self.tree)}
        arms = [self.tree.p_PJ[i] for i in joints]
        arms += [self.tree.frame(f).p_BF for loop in self.loops for f in (loop.first, loop.second)]
        total = math.fsum(math.sqrt(float(arm @ arm)) for arm in arms)
        return total if total > 0.0 else 1.0

    @cached_property
    def unit(self) -> Array:
        """Motion of each joint that moves the loops by their size: 1 rad or ``length``, (n,)."""
        return np.where(self.tree.prismatic, self.length, 1.0)

    @cached_property
    def scale(self) -> Array:
        """Factor of each equation that makes it dimensionless."""
        rows = [row for loop in self.loops for row in loop.rows]
        return np.array([1.0 / self.length if row < 3 else 1.0 for row in rows])

    def motion(self, q: Array, v: Array) -> Jet:
        """Return the stacked equations of all loops; see :func:`loop_motion`.

        Positions and velocities of mimic joints are those that follow from the others. Arrays of
        floats are read-only: the last states are kept, since a solution, its conditioning and its
        rates, and the pose, Jacobian and efforts there, ask for the same ones.
        """
        if q.dtype == v.dtype == float:
            return _motion_of_floats(self, q.tobytes(), (v + 0.0).tobytes())  # no -0.0
        return self.motion_of_scalars(q, v)

    def motion_of_scalars(self, q: Array, v: Array) -> Jet:
        """Return ``motion``, computed anew."""
        none, G = np.zeros(0), self.mimic.rate
        q, v = self.mimic.positions(q), G @ v
        parts = [loop_motion(self.tree, loop, q, v) for loop in self.loops]
        jet = stack([time_jet(none, none, none, self.tree.n), *parts])
        return replace(jet, J=jet.J @ G)

    def scaled(self, q: Array) -> tuple[Array, Array]:
        r"""Return residual and :math:`\Phi_q` with lengths in units of ``length``."""
        motion = self.motion(q, 0.0 * q)
        return motion.value * self.scale, motion.J * self.scale[:, None]

    def by_dependent(self, J: Array) -> Array:
        r"""Return :math:`\Phi_\varphi`, square if rows are selected, out of :math:`\Phi_q`."""
        J = J[:, self.dependent]
        return J if self.rows is None else J[list(self.rows)]

    def solve(self, J: Array, right: Array) -> Array:
        r"""Return :math:`\Phi_\varphi^{-1}` times a right-hand side of all equations.

        Args:
            J: :math:`\Phi_q`, shape (m, n); numbers or symbols.
            right: Shape (m,) or (m, k), of which the selected rows are used.
        """
        return solve(self.by_dependent(J), right[list(self.rows or ())])

    def rates(self, q: Array, ud: Array) -> tuple[Array, Array]:
        r"""Return A, shape (n, N), and gamma, shape (n,), at positions that close the loops.

        .. math:: A_\varphi = -\Phi_\varphi^{-1}\Phi_u, \qquad
            \gamma_\varphi = -\Phi_\varphi^{-1}\,\ddot\Phi\big|_{\ddot\theta = 0}

        Source: kane-recursion, section 4.1; Ma, Xu, Li 1988, section 3, for the parallelogram.
        """
        G, dependent, J = self.mimic.rate, self.dependent, self.motion(q, 0 * q).J
        A = self.unit_rates.astype(J.dtype)
        A[dependent] = -self.solve(J, J[:, self.coordinates])
        A = G @ A
        gamma, motion = zeros(len(q), common_dtype(q, ud)), self.motion(q, A @ ud)
        gamma[dependent] = -self.solve(motion.J, motion.bias)
        return A, G @ gamma

    def closure_error(self, q: Array) -> float:
        """Return the largest residual of the loops, relative to their size."""
        return float(np.max(np.abs(self.scaled(q)[0]), initial=0.0))

    def conditioning(self, q: Array) -> float:
        r"""Return a measure of how well the loops determine the dependent joints, in [0, 1].

        The smallest singular value of :math:`\Phi_\varphi` with columns normalized to length 1;
        0 if singular.
        """
        P = self.by_dependent(self.scaled(q)[1])
        if not P.size:
            return 1.0
        norms = np.sqrt(np.sum(P * P, axis=0))
        if not np.all(norms > 0.0):
            return 0.0
        return float(np.linalg.svd(P / norms, compute_uv=False)[-1])

    def branch(self, q: Array) -> float:
        r"""Return the sign of :math:`\det\Phi_\varphi`."""
        return float(np.linalg.slogdet(self.by_dependent(self.scaled(q)[1]))[0])

    def flipped(self, q: Array) -> list[Loop]:
        """Return the loops of which q is the spurious root, half a turn off."""
        q = self.mimic.positions(q)
        return [loop for loop in self.loops if is_flipped(self.tree, loop, q)]

    def close(self, q: Array, iterations: int = 30) -> tuple[Array, float]:
        """Solve for the dependent joints by Newton's method, in least squares if rows depend.

        Args:
            q: Initial tree positions, shape (n,), rad or m; the independent ones are kept.
            iterations: Maximum number of steps.

        Returns:
            The best positions, a new array, and their closure error, which the caller must check.
        """
        best, smallest, q = q, math.inf, np.array(q, dtype=float)
        for _ in range(iterations):
            residual, J = self.scaled(q)
            error = float(np.max(np.abs(residual), initial=0.0))
            if error < smallest:
                best, smallest = q.copy(), error
            elif smallest < CLOSED:
                break  # limited by rounding error
            step = np.linalg.lstsq(J[:, self.dependent], residual, rcond=1e-13)[0]
            largest = float(np.max(np.abs(step), initial=0.0))
            q[self.dependent] -= step * min(1.0, 1.0 / max(largest, 1e-300))
        return best, smallest


@lru_cache(maxsize=64)  # several solutions of ten iterations
def _motion_of_floats(equations: LoopEquations, q: bytes, v: bytes) -> Jet:
    jet = equations.motion_of_scalars(np.frombuffer(q), np.frombuffer(v))
    for part in vars(jet).values():
        part.setflags(write=False)
    return jet
