# SPDX-License-Identifier: Apache-2.0
r"""Brings a moving arm to rest with a declared part of its efforts, whatever the law is.

.. math:: \tau = g(q) - \alpha\,(M(q) + J_a)\,v, \qquad
          \alpha = \min\Bigl(\gamma,\ \min_i \frac{s\,(L_i - |g_i|)}{|((M + J_a)v)_i|}\Bigr)

An effort along the momentum takes energy out of every motion, whatever it is, for
:math:`\dot T = -2\alpha T` without friction, and needs no acceleration, no reference and no
memory: there is nothing in it that belonged to another motion. The joint that is nearest to its
limit L uses the part s of what gravity leaves; the others use as much as keeps the motion
straight. The last stretch decays at the rate gamma in all directions alike.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import KernelSet, compile_kernel

#: Most of gamma, 1/s, and of gamma times the period: what delays of a few periods bear.
FASTEST_RATE, RATE_PER_PERIOD = 100.0, 0.1
#: Part of the speed at which the arm counts as being at rest.
_REST = 0.01


class Braking:
    """Computes braking efforts, and says when the arm is at rest.

    Args:
        tree: Gives effort limits and rotor inertia.
        kernels: With ``inverse_dynamics`` and ``gravity_forces``; compiled from the tree if None.
        share: s, part of the effort that gravity leaves, in (0, 1].
        period: Nominal control period, s.

    Cost: one inverse dynamics and some 15 us; allocates, for it lasts a fraction of a second.
    """

    def __init__(
        self,
        tree: RobotTree,
        kernels: KernelSet | None = None,
        share: float = 0.7,
        period: float = 1e-3,
    ) -> None:
        outputs = ('inverse_dynamics', 'gravity_forces')
        self._kernels: Any = kernels or compile_kernel(tree, outputs=outputs)
        self._share, self._armature = share, tree.armature
        self._rate = min(FASTEST_RATE, RATE_PER_PERIOD / period)
        self._still, self._impulse = np.zeros(tree.n), np.zeros(tree.n)
        self._gravity = np.zeros(tree.n)
        self._end, self._slow = 0.0, 0.0

    def begin(self, t: float, q: Array, v: Array, limit: Array) -> None:
        """Start at a state.

        Args:
            t: Time, s.
            q: Positions, shape (n,), rad or m.
            v: Velocities, shape (n,), rad/s or m/s.
            limit: L, shape (n,), N m or N.
        """
        alpha = self._strength(q, v, limit)
        self._slow = _REST * float(np.abs(v).max())
        # At constant effort the speed falls to 0 within 1/alpha; twice that bears all but a push.
        self._end = t + 2.0 * (1.0 / alpha - math.log(_REST) / self._rate)

    def over(self, t: float, v: Array) -> bool:
        """Return whether the arm is at rest, or should be by now."""
        return t >= self._end or float(np.abs(v).max()) <= self._slow

    def effort(self, q: Array, v: Array, limit: Array, out: Array) -> None:
        """Write the efforts.

        Args:
            q: Positions, shape (n,), rad or m.
            v: Velocities, shape (n,), rad/s or m/s.
            limit: L, shape (n,), N m or N.
            out: Written, shape (n,), N m or N.
        """
        alpha = self._strength(q, v, limit)
        out[:] = self._gravity - alpha * self._impulse

    def _strength(self, q: Array, v: Array, limit: Array) -> float:
        """Return alpha, 1/s; leaves gravity and momentum behind."""
        gravity, impulse = self._gravity, self._impulse
        self._kernels.gravity_forces(q, gravity)
        self._kernels.inverse_dynamics(q, self._still, v, impulse)  # M v + g
        impulse -= gravity
        impulse += self._armature * v
        # Where gravity alone needs nearly all of it, a tenth of the limit must do.
        room = np.maximum(limit - np.abs(gravity), 0.1 * limit)
        moving = np.abs(impulse) > 1e-12 * limit
        if not moving.any():
            return self._rate
        return min(self._rate, float((self._share * room[moving] / np.abs(impulse[moving])).min()))
