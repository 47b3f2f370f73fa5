# SPDX-License-Identifier: Apache-2.0
"""Efforts for the acceleration that a program commands: drives, loops, limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from robot_dynamics_ros.constraints.program_kernel import ProgramKernel
from robot_dynamics_ros.constraints.stabilization import largest_scale
from robot_dynamics_ros.control.laws import parameter_checks as check
from robot_dynamics_ros.dynamics.joint_terms import JointTerms, smooth_direction
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.linear_algebra import positive_part
from robot_dynamics_ros.spatial.scalar import Array, Scalar, sqrt
from robot_dynamics_ros.symbolic.kernel import Kernel, compile_function


class ProgramEffort:
    """Inverse dynamics with armature and friction, through a mechanism's loops, within limits.

    Args:
        tree: The robot.
        inverse_dynamics: Its kernel.
        kernel: The program, evaluated at the state that the efforts are for.
    """

    def __init__(self, tree: RobotTree, inverse_dynamics: Kernel, kernel: ProgramKernel) -> None:
        n = tree.n
        self._tree, self._inverse_dynamics, self._kernel = tree, inverse_dynamics, kernel
        self._zeros, self._keep, self._rest = np.zeros(n), np.zeros(n), np.zeros(n)
        self._settings, self._excess = np.zeros(4), np.zeros(1)
        self._passive = kernel.program.passive
        self._driven = [i for i in range(n) if i not in self._passive]
        self._add_drives = compile_function(
            'drive_effort',
            {'model': n, 'speed': n, 'acceleration': n, 'towards': n, 'settings': 4},
            {'tau': (n,), 'excess': (1,)},
            lambda *arrays: drive_effort(tree, *arrays),
        )

    def configure(self, end: float, parameters: Mapping[str, Any]) -> None:
        """Take over the law's parameters.

        Args:
            end: Time from the velocity of the dynamics to the one of the friction, s.
            parameters: The law's.
        """
        self._settings[:] = check.drive_settings(end, parameters)

    def write(self, q: Array, v: Array, a: Array, out: Array) -> bool:
        r"""Write :math:`M a + c + g + J_aa` and friction at the end of the coming period.

        Its direction is :math:`\tanh\{[\dot q+ha+w/(1+\dot q^2/v_s^2)]/v_s\}`, with w the velocity
        that the program asks for: it counts where the joint sticks.

        Returns:
            Whether every effort is within its limit; false if one is not a number.
        """
        self._inverse_dynamics(q, v, a, out)
        towards = self._kernel.program_velocity
        self._add_drives(out, v, a, towards, self._settings, out, self._excess)
        if self._passive:
            self.let_the_loop_carry(out)
            return bool(np.all(np.abs(out) <= self._tree.effort_limit))
        return self._excess.item() <= 0.0

    def write_gravity(self, q: Array, out: Array) -> None:
        """Write the efforts that hold the robot at rest."""
        self._inverse_dynamics(q, self._zeros, self._zeros, out)
        self.let_the_loop_carry(out)

    def let_the_loop_carry(self, out: Array) -> None:
        r"""Move efforts from joints without a drive to the drives, through the loop's reaction.

        The passive rows of :math:`Q = \tau + \Gamma^TN` give :math:`\Gamma_d^TN = Q_d`, the
        driven ones :math:`\tau = Q_a - \Gamma_a^TN`.
        """
        T, passive = self._kernel.transmission, self._passive
        for k, i in enumerate(self._driven):
            for j, d in enumerate(passive):
                out[i] -= T[k, j] * out[d]
        for d in passive:
            out[d] = 0.0

    def confine(self, q: Array, v: Array, out: Array) -> float:
        """Scale efforts into the limits: the acceleration first, then all but gravity.

        Args:
            q: Positions, shape (n,), rad or m.
            v: Velocities, shape (n,), rad/s or m/s.
            out: The efforts, finite; changed.

        Returns:
            The part s in [0, 1] of the acceleration that is left.
        """
        limit, keep, rest = self._tree.effort_limit, self._keep, self._rest
        within = self.write(q, v, self._zeros, keep)
        np.subtract(out, keep, out=rest)
        s = largest_scale(keep, rest, limit)
        if not within:
            s = 0.0
            np.copyto(rest, keep)
            self.write_gravity(q, keep)
            rest -= keep
            rest *= largest_scale(keep, rest, limit)
        else:
            rest *= s
        np.add(keep, rest, out=out)
        np.clip(out, -limit, limit, out=out)
        return s

    def split(self, q: Array, v: Array, accelerations: dict[str, Array]) -> dict[str, Array]:
        """Return efforts by origin for accelerations by origin; they add up to :meth:`write`.

        Args:
            q: Positions, shape (n,), rad or m.
            v: Velocities, shape (n,), rad/s or m/s.
            accelerations: What adds up to the commanded acceleration, each of shape (n,).
        """
        n = self._tree.n
        gravity, moving, whole = np.zeros(n), np.zeros(n), np.zeros(n)
        self._inverse_dynamics(q, self._zeros, self._zeros, gravity)
        self._inverse_dynamics(q, v, self._zeros, moving)
        parts = {'gravity': gravity.copy(), 'coriolis': moving - gravity}
        for name, a in accelerations.items():
            parts[name] = np.zeros(n)
            self._inverse_dynamics(q, self._zeros, a, parts[name])
            parts[name] += self._tree.armature * a - gravity
        for part in parts.values():
            self.let_the_loop_carry(part)
        self.write(q, v, sum(accelerations.values(), self._zeros), whole)
        parts['friction'] = whole - sum(parts.values(), self._zeros)
        return parts

    def inertia_matrix(self, q: Array) -> Array:
        """Return mass matrix plus armature, new array of shape (n, n)."""
        n = self._tree.n
        A, gravity = np.zeros((n, n)), np.zeros(n)
        self._inverse_dynamics(q, self._zeros, self._zeros, gravity)
        for j, unit in enumerate(np.eye(n)):
            self._inverse_dynamics(q, self._zeros, unit, A[j])
        return A - gravity + np.diag(self._tree.armature)


def drive_effort(
    tree: RobotTree, model: Array, v: Array, a: Array, towards: Array, settings: Array
) -> tuple[Array, Array]:
    """Return efforts with armature and friction, and how far beyond their limits they are."""
    end, v_s, part, break_away = settings
    x, later = v / v_s, v + end * a
    direction = smooth_direction(later + break_away * towards / (1 + x * x), v_s)
    friction = JointTerms.of(tree).friction(later, model, direction)
    efforts = model + tree.armature * a + part * friction
    excess: Scalar = 0
    for tau, limit in zip(efforts, tree.effort_limit.tolist(), strict=True):
        excess = excess + positive_part(sqrt(tau * tau) - limit)
    return efforts, np.array([excess])
