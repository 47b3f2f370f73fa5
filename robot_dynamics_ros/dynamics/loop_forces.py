# SPDX-License-Identifier: Apache-2.0
r"""Forces in the joints of a mechanism, which its dynamics does not require.

They follow from the efforts
:math:`\tau_{tree}` that a motion requires at the joints of the spanning tree. The drives supply
:math:`D^T\tau`, the loops the remainder,

.. math:: \Phi_\varphi^T\lambda = \tau_{tree,\varphi} - (D^T\tau)_\varphi .

Given the loop forces, the wrench on each link follows from its equilibrium, by the recursion of
``screw`` from the tips to the base. A mechanism with linearly dependent loop equations (a planar
loop of spatial pins) is statically indeterminate: some components depend on the elasticity and
play of the parts. They are NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.dynamics.formulation import Wrenches
from robot_dynamics_ros.dynamics.screw import Screw
from robot_dynamics_ros.model import TreeState
from robot_dynamics_ros.model.kinematics import FramePose, link_poses
from robot_dynamics_ros.model.loops import LoopEquations, rotation_gradient
from robot_dynamics_ros.spatial.scalar import Array, cross

_DEPENDENT_BELOW = 1e-9  # of scaled loop equations, of order 1 if independent


class LoopWrench(NamedTuple):
    """Wrench that the first link of a loop exerts on the second, at the second frame's origin.

    Attributes:
        wrench: ``[F; M]`` in axes of the first frame, about the origin of the second, shape (6,),
            N and N m. Zero for unconstrained components; NaN for components that rigid-body
            mechanics does not determine.
        determinate: Whether each component is determined, shape (6,).
    """

    wrench: Array
    determinate: Array


def loop_wrenches(
    equations: LoopEquations, state: TreeState, driven: Array, wrenches: Wrenches | None
) -> tuple[dict[str, LoopWrench], Array]:
    r"""Return the loop forces by loop name, and the wrench of each tree joint on its link.

    Args:
        equations: The loops and their tree, n joints; numbers only.
        state: Motion of the tree.
        driven: Efforts of the drives at the joints of the tree, :math:`D^T\tau`, shape (n,).
        wrenches: External wrenches, see :class:`Formulation`.

    Returns:
        The loop forces, and a new array of shape (n, 6): ``[F; M]`` exerted by the parent on link
        i about its origin, link axes; N, N m; NaN if not determined.
    """
    tree, poses = equations.tree, link_poses(equations.tree, state.q)
    motion, dynamics = (state.q, state.v, state.a), Screw(tree)
    external = dynamics.body_wrenches(wrenches)
    outside = np.zeros((tree.n, 6)) if external is None else external
    required = dynamics.inverse_dynamics(*motion, outside) - driven
    value, null_space = _multipliers(equations, state.q, equations.mimic.rate.T @ required)
    in_loops = _loop_wrenches(equations, poses, value)
    held = outside + _on_links(equations, poses, in_loops)
    transmitted = dynamics.joint_wrenches(*motion, held)
    resting, still = Screw(tree.with_gravity(np.zeros(3))), np.zeros(tree.n)
    undetermined = np.zeros((tree.n, 6), dtype=bool)
    determinate = np.ones((len(in_loops), 6), dtype=bool)
    for column in null_space.T:
        free = _loop_wrenches(equations, poses, column)
        determinate &= np.abs(free) < _DEPENDENT_BELOW
        effect = resting.joint_wrenches(state.q, still, still, _on_links(equations, poses, free))
        undetermined |= np.abs(effect) > _DEPENDENT_BELOW
    forces = {
        loop.name: LoopWrench(np.where(known, wrench, np.nan), known)
        for loop, wrench, known in zip(equations.loops, in_loops, determinate, strict=True)
    }
    return forces, np.where(undetermined, np.nan, transmitted)


def _multipliers(equations: LoopEquations, q: Array, required: Array) -> tuple[Array, Array]:
    """Return the multipliers that supply the efforts, zero for redundant equations.

    Also the combinations of multipliers that do not affect motion, in columns.
    """
    J, dependent = equations.motion(q, 0.0 * q).J, equations.dependent
    value = np.zeros(len(J))
    if equations.rows:
        square = equations.by_dependent(J)
        value[list(equations.rows)] = np.linalg.solve(square.T, required[dependent])
    U, sigma, _ = np.linalg.svd(equations.scaled(q)[1][:, dependent])
    rank = int(np.sum(sigma > _DEPENDENT_BELOW))
    return value, equations.scale[:, None] * U[:, rank:]


def _loop_wrenches(
    equations: LoopEquations, poses: Mapping[str, FramePose], multipliers: Array
) -> Array:
    """Return for each loop the ``[F; M]`` on its second link at its frame, axes of the first."""
    wrenches, first = np.zeros((len(equations.loops), 6)), 0
    for loop, wrench in zip(equations.loops, wrenches, strict=True):
        part, count = multipliers[first : first + len(loop.rows)], len(loop.position)
        first += len(loop.rows)
        wrench[list(loop.rows[:count])] = part[:count]
        if loop.rotation:
            R = poses[loop.first].R_WF.T @ poses[loop.second].R_WF
            wrench[3:] = rotation_gradient(loop, R).T @ part[count:]
    return wrenches


def _on_links(equations: LoopEquations, poses: Mapping[str, FramePose], wrenches: Array) -> Array:
    """Return the ``[F; M]`` of the loops on every link, about its origin, link axes, (n, 6)."""
    tree = equations.tree
    rows = np.zeros((tree.n, 6))
    for loop, wrench in zip(equations.loops, wrenches, strict=True):
        R_W1 = poses[loop.first].R_WF
        force, moment = R_W1 @ wrench[:3], R_W1 @ wrench[3:]
        for frame, sign in ((loop.first, -1.0), (loop.second, 1.0)):
            body = tree.frame(frame).body
            if body >= 0:
                R, p = poses[tree.link_names[body]]
                body_moment = moment + cross(poses[loop.second].p_WF - p, force)
                rows[body] += sign * np.concatenate([R.T @ force, R.T @ body_moment])
    return rows
