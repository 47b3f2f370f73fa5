# SPDX-License-Identifier: Apache-2.0
r"""Constraint forces in the joints of a mechanism, which its dynamics does not require.

A motion requires the efforts :math:`\tau_{tree}` at the joints of the spanning tree. The drives
supply :math:`D^T\tau`, the loops the remainder,

.. math:: \Phi_\varphi^T\lambda = \tau_{tree,\varphi} - (D^T\tau)_\varphi .

Given the loop forces, the wrench on each link follows from its equilibrium, by the recursion of
``screw`` from the tips to the base.

A mechanism with linearly dependent loop equations (a planar loop of spatial pins) is statically
indeterminate: some components depend on the elasticity and play of the parts. They are NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.dynamics.screw import Screw
from robot_dynamics_ros.model import TreeState
from robot_dynamics_ros.model.kinematics import FramePose, link_poses
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
    tree, poses = equations.tree, link_poses(equations.tree, state.q)
    motion, dynamics = (state.q, state.v, state.a), Screw(tree)
    outside = np.zeros((tree.n, 6)) if external is None else external
    multipliers = _multipliers(
        equations, state.q, dynamics.inverse_dynamics(*motion, outside) - driven
    )
    held = outside + _on_links(equations, poses, multipliers.value)
    transmitted = dynamics.joint_wrenches(*motion, held)
    resting, still = Screw(tree.with_gravity(np.zeros(3))), np.zeros(tree.n)
    indeterminate = np.zeros((tree.n, 6), dtype=bool)
    for column in multipliers.null_space.T:
        effect = resting.joint_wrenches(state.q, still, still, _on_links(equations, poses, column))
        indeterminate |= np.abs(effect) > _DEPENDENT_BELOW
    return _by_loop(equations, poses, multipliers), np.where(indeterminate, np.nan, transmitted)


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


def _wrench(loop: Loop, poses: Mapping[str, FramePose], multipliers: Array) -> Array:
    """Return the ``[F; M]`` on the second link at its loop frame, in axes of the first frame."""
    count, R_W1, R_W2 = len(loop.position), poses[loop.first].R_WF, poses[loop.second].R_WF
    wrench = np.zeros(6)
    wrench[list(loop.rows[:count])] = multipliers[:count]
    if loop.rotation:
        wrench[3:] = rotation_gradient(loop, R_W1.T @ R_W2).T @ multipliers[count:]
    return wrench


def _on_links(
    equations: LoopEquations, poses: Mapping[str, FramePose], multipliers: Array
) -> Array:
    """Return the ``[F; M]`` of the loops on every link, about its origin, link axes, (n, 6)."""
    tree = equations.tree
    rows = np.zeros((tree.n, 6))
    for loop, part in zip(equations.loops, _slices(equations.loops), strict=True):
        wrench, R_W1 = _wrench(loop, poses, multipliers[part]), poses[loop.first].R_WF
        force, moment = R_W1 @ wrench[:3], R_W1 @ wrench[3:]
        for frame, sign in ((loop.first, -1.0), (loop.second, 1.0)):
            body = tree.frame(frame).body
            if body >= 0:
                R, p = poses[tree.link_names[body]]
                body_moment = moment + cross(poses[loop.second].p_WF - p, force)
                rows[body] += sign * np.concatenate([R.T @ force, R.T @ body_moment])
    return rows


def _by_loop(
    equations: LoopEquations, poses: Mapping[str, FramePose], multipliers: _Multipliers
) -> dict[str, PinForce]:
    forces = {}
    for loop, part in zip(equations.loops, _slices(equations.loops), strict=True):
        wrench = _wrench(loop, poses, multipliers.value[part])
        determinate = np.ones(6, dtype=bool)
        for column in multipliers.null_space[part].T:
            effect = _wrench(loop, poses, column)
            determinate &= np.abs(effect) < _DEPENDENT_BELOW
        forces[loop.name] = PinForce(np.where(determinate, wrench, np.nan), determinate)
    return forces
