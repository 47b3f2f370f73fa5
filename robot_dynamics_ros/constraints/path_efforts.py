# SPDX-License-Identifier: Apache-2.0
r"""What the drives need on a program's path, and where that is more than they have.

.. math:: \ddot q = -\Gamma^{+}\beta, \qquad
          \tau = M\ddot q + c + g + J_a\ddot q + \text{friction}

:math:`\ddot q` is the acceleration with f = 0 and a null space that has settled. In a mechanism
the loop carries the efforts of the joints without a drive.
"""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.constraints.program import Program
from robot_dynamics_ros.constraints.task_inverse import TaskInverse
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.dynamics.registry import make_formulation
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array


def path_efforts(program: Program, times: Array, q: Array, v: Array) -> Array:
    """Return the efforts that hold f = 0 along a path.

    Args:
        program: The program.
        times: Instants, shape (k,), s.
        q: Joint positions on the path, shape (k, n), rad or m.
        v: Joint velocities along it, shape (k, n), rad/s or m/s.

    Returns:
        New array, shape (k, n), N m or N; 0 for joints without a drive.
    """
    dynamics, terms = make_formulation('newton_euler', program.tree), JointTerms.of(program.tree)
    efforts = []
    for t, position, velocity in zip(times.tolist(), q, v, strict=True):
        _, _, Gamma, beta = program.stack.evaluate(position, velocity, t)
        weights = program.weights if program.m > program.n else None
        a = TaskInverse(Gamma, program.metric, weights, program.singularity).solve(-beta)
        tau = dynamics.inverse_dynamics(position, velocity, a) + terms.effort(velocity, a)
        efforts.append(_through_the_loop(program, Gamma, tau))
    return np.array(efforts)


def _through_the_loop(program: Program, Gamma: Array, tau: Array) -> Array:
    r"""Return :math:`\tau - \Gamma_c^TN` with N such that joints without a drive need nothing."""
    if not program.passive:
        return tau
    rows, passive = Gamma[list(program.mechanical)], list(program.passive)
    N = np.linalg.lstsq(rows[:, passive].T, tau[passive], rcond=None)[0]
    carried = tau - rows.T @ N
    carried[passive] = 0.0
    return carried


def effort_remarks(tree: RobotTree, times: Array, effort: Array) -> list[str]:
    """Say of each joint whose limit the path passes how far, and when the most."""
    remarks = []
    for i, joint in enumerate(tree.joint_names):
        worst = int(np.argmax(np.abs(effort[:, i])))
        needed, limit = abs(effort[worst, i]), tree.effort_limit[i]
        if needed > limit:
            remarks.append(
                f'joint {joint!r} needs an effort of {needed:.4g} at t = {times[worst]:.3f} s and '
                f'its limit is {limit:.4g}: the arm will leave the path; run it slower'
            )
    return remarks
