# SPDX-License-Identifier: Apache-2.0
r"""Constraint forces in the joints of a mechanism, which its dynamics does not require.

A motion requires the efforts :math:`\tau_{tree}` at the joints of the spanning tree. The drives
supply :math:`D^T\tau`, the loops the remainder,

.. math:: \Phi_\varphi^T\lambda = \tau_{tree,\varphi} - (D^T\tau)_\varphi .

Given the loop forces, the wrench on each link follows from its equilibrium, from the tips to the
base.

A mechanism with linearly dependent loop equations (a planar loop of spatial pins) is statically
indeterminate: some components depend on the elasticity and play of the parts. They are NaN.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.dynamics.kane import LinkMotion, move_link
from robot_dynamics_ros.model import RobotTree, TreeState
from robot_dynamics_ros.model.kinematics import FramePose, body_poses
from robot_dynamics_ros.model.loops import Loop, LoopEquations, rotation_gradient
from robot_dynamics_ros.spatial.scalar import Array, cross

_DEPENDENT_BELOW = 1e-9  # of scaled loop equations, of order 1 if independent


class PinForce(NamedTuple):
    """Wrench that the first link of a loop exerts on the second, at the second frame's origin.

    Attributes:
        wrench: ``[F; M]`` in axes of the first frame, about the origin of the second, shape (6,),
            N and N m. Zero for unconstrained components; NaN for components that rigid-body
            mechanics does not determine.
        determinate: Whether each component is determined, shape (6,).
    """

    wrench: Array
    determinate: Array


class _Multipliers(NamedTuple):
    """Multipliers of all loop equations; the columns of ``null_space`` do not affect motion."""

    value: Array
    null_space: Array


def pin_forces(
    equations: LoopEquations, state: TreeState, driven: Array, external: Array | None
) -> tuple[dict[str, PinForce], Array]:
    r"""Return the loop forces by loop name, and the wrench of each tree joint on its link.

    Args:
        equations: The loops and their tree, n joints; numbers only.
        state: Motion of the tree.
        driven: Efforts of the drives at the joints of the tree, :math:`D^T\tau`, shape (n,).
        external: ``[F; M]`` on each body about its origin, body axes, shape (n, 6), or None.

    Returns:
        The loop forces, and a new array of shape (n, 6): ``[F; M]`` exerted by the parent on link
        i about its origin, link axes; N, N m; NaN if not determined.
    """
    tree, poses = equations.tree, body_poses(equations.tree, state.q)
    required = _inertial(tree, state)
    if external is not None:
        required = required - external
    efforts = _along_axes(tree, _inward(tree, state.q, required))
    multipliers = _multipliers(equations, state.q, efforts - driven)
    transmitted = _inward(tree, state.q, required - _on_links(equations, poses, multipliers.value))
    indeterminate = np.zeros((tree.n, 6), dtype=bool)
    for k in range(multipliers.null_space.shape[1]):
        row = _inward(tree, state.q, _on_links(equations, poses, multipliers.null_space[:, k]))
        indeterminate |= np.abs(row) > _DEPENDENT_BELOW
    return _by_loop(equations, poses, multipliers), np.where(indeterminate, np.nan, transmitted)


def _inertial(tree: RobotTree, state: TreeState) -> Array:
    """Return the ``[F; M]`` that the motion and weight of each link require, about its origin."""
    motions: list[LinkMotion] = []
    rows = np.empty((tree.n, 6))
    for i, p in enumerate(tree.parent):
        R_PB, l = tree.placement(i, state.q[i])
        rest = LinkMotion(np.zeros(3), np.zeros(3), -tree.gravity)
        motion = move_link(
            tree, i, R_PB.T, l, motions[p] if p >= 0 else rest, state.v[i], state.a[i]
        )
        motions.append(motion)
        w, dw, dv = motion
        d, I = tree.com[i], tree.inertia[i]
        rows[i, :3] = tree.mass[i] * (dv + cross(dw, d) + cross(w, cross(w, d)))
        rows[i, 3:] = I @ dw + cross(w, I @ w) + cross(d, rows[i, :3])
    return rows


def _inward(tree: RobotTree, q: Array, required: Array) -> Array:
    """Return the wrench of the parent on each link if every link requires a given wrench."""
    transmitted = np.array(required, dtype=float)
    for i in reversed(range(tree.n)):
        p = tree.parent[i]
        if p >= 0:
            R_PB, l = tree.placement(i, q[i])
            force = R_PB @ transmitted[i, :3]
            transmitted[p, :3] += force
            transmitted[p, 3:] += R_PB @ transmitted[i, 3:] + cross(l, force)
    return transmitted


def _along_axes(tree: RobotTree, transmitted: Array) -> Array:
    slides = np.array(tree.prismatic)[:, None]
    return np.sum(np.where(slides, transmitted[:, :3], transmitted[:, 3:]) * tree.axis, axis=1)


def _multipliers(equations: LoopEquations, q: Array, required: Array) -> _Multipliers:
    """Return the multipliers that supply the efforts; zero for redundant equations."""
    J, rows = equations.motion(q, 0.0 * q).J, list(equations.rows or ())
    dependent = list(equations.dependent)
    value = np.zeros(len(J))
    if rows:
        value[rows] = np.linalg.solve(J[rows][:, dependent].T, required[dependent])
    scaled = equations.scaled(q)[1]
    U, sigma, _ = np.linalg.svd(scaled[:, dependent])
    rank = int(np.sum(sigma > _DEPENDENT_BELOW))
    return _Multipliers(value, equations.scale[:, None] * U[:, rank:])


def _slices(loops: tuple[Loop, ...]) -> list[slice]:
    ends = np.cumsum([0, *(len(loop.rows) for loop in loops)])
    return [slice(int(a), int(b)) for a, b in zip(ends[:-1], ends[1:], strict=True)]


def _frames(tree: RobotTree, loop: Loop, poses: list[FramePose]) -> tuple[FramePose, FramePose]:
    """Return the poses of the two frames of a loop in the base frame."""

    def pose(name: str) -> FramePose:
        F = tree.frame(name)
        if F.body < 0:
            return FramePose(F.R_BF, F.p_BF)
        R, p = poses[F.body]
        return FramePose(R @ F.R_BF, p + R @ F.p_BF)

    return pose(loop.first), pose(loop.second)


def _wrench(tree: RobotTree, loop: Loop, poses: list[FramePose], multipliers: Array) -> Array:
    """Return the ``[F; M]`` on the second link at its loop frame, in axes of the first frame."""
    one, two = _frames(tree, loop, poses)
    count = len(loop.position)
    wrench = np.zeros(6)
    wrench[list(loop.rows[:count])] = multipliers[:count]
    if loop.rotation:
        wrench[3:] = rotation_gradient(loop, one.R_WF.T @ two.R_WF).T @ multipliers[count:]
    return wrench


def _on_links(equations: LoopEquations, poses: list[FramePose], multipliers: Array) -> Array:
    """Return the ``[F; M]`` of the loops on every link, about its origin, link axes, (n, 6)."""
    tree = equations.tree
    rows = np.zeros((tree.n, 6))
    for loop, part in zip(equations.loops, _slices(equations.loops), strict=True):
        wrench = _wrench(tree, loop, poses, multipliers[part])
        one, two = _frames(tree, loop, poses)
        force, moment = one.R_WF @ wrench[:3], one.R_WF @ wrench[3:]
        for frame, sign in ((loop.first, -1.0), (loop.second, 1.0)):
            body = tree.frame(frame).body
            if body >= 0:
                R, p = poses[body]
                body_moment = moment + cross(two.p_WF - p, force)
                rows[body] += sign * np.concatenate([R.T @ force, R.T @ body_moment])
    return rows


def _by_loop(
    equations: LoopEquations, poses: list[FramePose], multipliers: _Multipliers
) -> dict[str, PinForce]:
    forces = {}
    for loop, part in zip(equations.loops, _slices(equations.loops), strict=True):
        wrench = _wrench(equations.tree, loop, poses, multipliers.value[part])
        determinate = np.ones(6, dtype=bool)
        for column in multipliers.null_space[part].T:
            effect = _wrench(equations.tree, loop, poses, column)
            determinate &= np.abs(effect) < _DEPENDENT_BELOW
        forces[loop.name] = PinForce(np.where(determinate, wrench, np.nan), determinate)
    return forces
