# SPDX-License-Identifier: Apache-2.0
r"""Loop equations :math:`\Phi(q) = 0` of a spanning tree, and their solution for dependent joints.

A loop constrains a frame on one branch of the tree relative to a frame on another. In the axes of
the first frame, selected components of the relative position and rotation are zero:

    translation   :math:`r = R_1^T(p_2 - p_1)`, the selected components are zero
    rotation      :math:`X = R_1^T R_2`; about two axes: the third axes are parallel; about one or
                  three: the selected components of :math:`\tfrac12(X - X^T)^\vee` are zero

Both are expressed in the moving axes of the first frame, so that their derivatives also hold if
the frames translate or rotate relative to each other in the free components.

Newton's method solves the loop equations for the dependent joints, in floats. There is one root
per assembly mode. The branch is followed by continuity from a known configuration; the sign of
:math:`\det\Phi_\varphi`, which changes only at singular configurations, detects a change of
branch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.errors import MechanismError, SingularityError
from robot_dynamics_ros.model.dependence import Affine
from robot_dynamics_ros.model.kinematics import Motion, frame_pose
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.jet import Jet, dot, stack, time_jet
from robot_dynamics_ros.spatial.scalar import Array, cross_matrix

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


#: A loop is closed if its gap, relative to the size of the loop, is below this.
CLOSED = 1e-10
_MAX_CORRECTION = 0.3  # rad: a larger correction may lead to another branch
_MIN_STEP = 1.0 / 512.0
_ATTEMPTS = 40
_PATIENCE, _PROGRESS = 6, 0.9  # iterations, and the part of the gap that they leave at most


@dataclass(frozen=True, eq=False)
class LoopEquations:
    r"""All loop equations of a mechanism, and the joints that they determine.

    Attributes:
        tree: The spanning tree, n joints.
        loops: The loops that close it.
        coordinates: Indices of the independent joints.
        mimic: All joints by those that follow no other, shape (n, n); columns of mimic joints
            are zero. The identity without mimic joints.
        rows: Indices of the stacked equations that determine the dependent joints (the others are
            redundant); all if None.
    """

    tree: RobotTree
    loops: tuple[Loop, ...]
    coordinates: tuple[int, ...]
    mimic: Affine
    rows: tuple[int, ...] | None = None

    @property
    def names(self) -> str:
        """The loops in messages, such as ``loop 'pin'``."""
        return 'loop ' + ', '.join(repr(loop.name) for loop in self.loops)

    @cached_property
    def dependent(self) -> tuple[int, ...]:
        """Indices of the joints that the loops determine; mimic joints follow from the others."""
        free = np.flatnonzero(np.diag(self.mimic.rate))
        return tuple(i for i in free.tolist() if i not in self.coordinates)

    @cached_property
    def moves_loops(self) -> Array:
        """Whether each joint moves a loop, itself or by its mimic joints, shape (n,)."""
        moved = [i for loop in self.loops for i in loop.joints(self.tree)]
        return np.asarray(np.any(self.mimic.rate[moved], axis=0))

    @property
    def unit_rates(self) -> Array:
        """A with zero rows for the dependent joints, shape (n, N); exact integers."""
        A = np.zeros((self.tree.n, len(self.coordinates)), dtype=int)
        A[list(self.coordinates), range(len(self.coordinates))] = 1
        return A

    @cached_property
    def length(self) -> float:
        """Size of the loops (m): the sum of the offsets between their joints and frames."""
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

    def motion(self, q: Array, v: Array) -> Jet:
        """Return the stacked equations of all loops; see :func:`loop_motion`.

        Positions and velocities of mimic joints are those that follow from the others. Arrays of
        floats are read-only: the last states are kept, since a solution, its regularity and its
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

    def closure_error(self, q: Array) -> float:
        """Return the largest residual of the loops, relative to their size."""
        return float(np.max(np.abs(self.scaled(q)[0]), initial=0.0))

    def conditioning(self, q: Array) -> float:
        r"""Return a measure of how well the loops determine the dependent joints, in [0, 1].

        The smallest singular value of :math:`\Phi_\varphi` with columns normalized to length 1;
        0 if singular.
        """
        P = self._square(self.scaled(q)[1])
        if not P.size:
            return 1.0
        norms = np.sqrt(np.sum(P * P, axis=0))
        if not np.all(norms > 0.0):
            return 0.0
        return float(np.linalg.svd(P / norms, compute_uv=False)[-1])

    def branch(self, q: Array) -> float:
        r"""Return the sign of :math:`\det\Phi_\varphi`."""
        return self.branch_of(self.scaled(q)[1])

    def branch_of(self, J: Array) -> float:
        r"""Return the sign of :math:`\det\Phi_\varphi`, given the scaled :math:`\Phi_q`."""
        return float(np.linalg.slogdet(self._square(J))[0])

    def _square(self, J: Array) -> Array:
        J = J[:, list(self.dependent)]
        return J if self.rows is None else J[list(self.rows)]


@lru_cache(maxsize=64)  # several solutions of ten iterations
def _motion_of_floats(equations: LoopEquations, q: bytes, v: bytes) -> Jet:
    jet = equations.motion_of_scalars(np.frombuffer(q), np.frombuffer(v))
    for part in vars(jet).values():
        part.setflags(write=False)
    return jet


def close(equations: LoopEquations, q: Array, iterations: int = 30) -> tuple[Array, float]:
    """Solve for the dependent joints by Newton's method, in least squares if rows are dependent.

    Args:
        equations: The loops.
        q: Initial tree positions, shape (n,), rad or m; the independent ones are kept.
        iterations: Maximum number of steps.

    Returns:
        The best positions, a new array, and their gap relative to the size, which the caller
        must check.
    """
    dependent = list(equations.dependent)
    best, smallest, q, gaps = q, math.inf, np.array(q, dtype=float), list[float]()
    for _ in range(iterations):
        residual, J = equations.scaled(q)
        gap = float(np.max(np.abs(residual), initial=0.0))
        gaps.append(gap)
        if gap < smallest:
            best, smallest = q.copy(), gap
        elif smallest < CLOSED:
            break  # limited by rounding error
        if smallest > _PROGRESS * min(gaps[:-_PATIENCE], default=math.inf):
            break  # out of reach: it oscillates
        step = np.linalg.lstsq(J[:, dependent], residual, rcond=1e-13)[0]
        largest = float(np.max(np.abs(step), initial=0.0))
        q[dependent] = q[dependent] - step * min(1.0, 1.0 / max(largest, 1e-300))
    return best, smallest


def assemble(equations: LoopEquations, u: Array, reference: Array, singular_below: float) -> Array:
    """Return the tree positions at coordinates u, on the branch of a known configuration.

    Args:
        equations: The loops, with rows selected.
        u: Independent coordinates, shape (N,), rad or m.
        reference: Tree positions, shape (n,), rad or m, closing the loops on the desired branch.
        singular_below: Smallest conditioning accepted.

    Returns:
        New array, shape (n,), rad or m.

    Raises:
        SingularityError: The loops close only in a singular configuration.
        MechanismError: The loops cannot be closed at u, or have no unique root on the branch.
    """
    q = continue_branch(equations, u, reference)
    if q is None:
        q = _search(equations, u, reference, singular_below)
    return equations.mimic.positions(q)


def continue_branch(equations: LoopEquations, u: Array, reference: Array) -> Array | None:
    """Return the root at u on the straight way from a known one, in steps that keep the branch.

    Arguments are those of :func:`assemble`. None if the loops do not close on the way there.
    """
    coordinates, dependent = list(equations.coordinates), list(equations.dependent)
    start, J, size = reference[coordinates], equations.scaled(reference)[1], equations.length
    allowed = np.where(np.array(equations.tree.prismatic), size, 1.0) * _MAX_CORRECTION
    branch = equations.branch_of(J)
    q, done, step = reference, 0.0, 1.0
    while done < 1.0:
        step = min(step, 1.0 - done)
        trial = q.copy()
        trial[coordinates] = start + (done + step) * (u - start)
        change = J[:, coordinates] @ (trial - q)[coordinates]
        trial[dependent] -= np.linalg.lstsq(J[:, dependent], change, rcond=None)[0]
        closed, gap = close(equations, trial, iterations=12)
        near = np.all(np.abs(closed - trial) <= allowed)
        there = equations.scaled(closed)[1]
        if gap < CLOSED and near and equations.branch_of(there) == branch:
            q, J, done, step = closed, there, done + step, 2.0 * step
        else:
            step = 0.5 * step
            if step < _MIN_STEP:
                return None
    return q if not _flipped(equations, q) else None


def _flipped(equations: LoopEquations, q: Array) -> bool:
    q = equations.mimic.positions(q)
    return any(is_flipped(equations.tree, loop, q) for loop in equations.loops)


def _search(equations: LoopEquations, u: Array, reference: Array, singular_below: float) -> Array:
    """Search from random starts for a unique root on the branch of the known configuration."""
    tree, rng = equations.tree, np.random.default_rng(0)
    dependent, branch = list(equations.dependent), equations.branch(reference)
    revolute = ~np.array(tree.prismatic)[dependent]
    reach = np.where(revolute, math.pi, equations.length)
    best, roots = (reference, math.inf), list[Array]()
    for _ in range(_ATTEMPTS):
        q = reference.copy()
        q[list(equations.coordinates)] = u
        q[dependent] += rng.uniform(-reach, reach)
        closed, gap = close(equations, q)
        if _flipped(equations, closed):
            continue
        best = (closed, gap) if gap < best[1] else best
        regular = gap < CLOSED and equations.conditioning(closed) >= singular_below
        if not regular or equations.branch(closed) != branch:
            continue
        turns = np.round((closed - reference)[dependent] / (2.0 * math.pi)) * revolute
        closed[dependent] -= 2.0 * math.pi * turns
        if all(np.max(np.abs(closed - root)) > 1e-6 for root in roots):
            roots.append(closed)
    if len(roots) == 1:
        return roots[0]
    raise _assembly_error(equations, u, *best, len(roots), singular_below)


def _assembly_error(
    equations: LoopEquations, u: Array, q: Array, gap: float, roots: int, singular_below: float
) -> MechanismError | SingularityError:
    """Return the error that explains why no configuration was found."""
    culprit = equations.names
    at = 'at ' + ', '.join(
        f'{equations.tree.joint_names[i]} = {value:.6g}'
        for i, value in zip(equations.coordinates, u, strict=True)
    )
    if gap > 1e-6:
        left = f'a gap of {gap * equations.length:.3g} m is left'
        return MechanismError(
            culprit, f'cannot be assembled {at}: {left}', 'this is out of its reach'
        )
    measure = equations.conditioning(q)
    if roots == 0 and measure < singular_below:
        return SingularityError(f'Phi_phi of {culprit}', measure, singular_below, at)
    return MechanismError(
        culprit,
        f'closes {at}, but no root continues the assembly ({roots} on its branch)',
        'give a configuration nearby, near=',
    )


def independent_rows(J: Array, count: int) -> tuple[int, ...]:
    """Return the indices of independent rows of a matrix, selected by pivoted QR; ascending.

    Args:
        J: Scaled Jacobian of all equations for the dependent joints, shape (m, count).
        count: Number of rows to select.
    """
    from scipy.linalg import qr

    pivots: Sequence[int] = qr(J.T, mode='r', pivoting=True)[-1]
    return tuple(sorted(int(row) for row in pivots[:count]))
