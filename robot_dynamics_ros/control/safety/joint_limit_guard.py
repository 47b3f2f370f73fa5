# SPDX-License-Identifier: Apache-2.0
r"""Brakes a joint in time before its position limit, and pushes it back from beyond.

With d the distance to the limit, w the speed towards it and :math:`a_b` the deceleration that
the guard may use, the speed from which the joint can still stop is

.. math:: w_{max}(d) = \begin{cases}\gamma d & d \le a_b/\gamma^2\\
          \sqrt{2 a_b\,(d - a_b/2\gamma^2)} & \text{else}\end{cases}

(the last stretch is linear, so that it ends without a shock; both pieces meet with one slope).
The acceleration towards the limit is confined to what leads onto this curve,

.. math:: a \le \gamma\,(w_{max} - w) - w\,\frac{dw_{max}}{dd},

and the effort to :math:`g + \bar m` times that bound, with gravity g and the joint's constant
inertia :math:`\bar m`. Elsewhere the effort is left as it is. What friction
takes may be given besides, less and less of it the nearer the speed is to :math:`w_{max}`: for a
light joint with much friction it is most of the effort. Beyond the limit (d < 0) the bound
points inward until the joint returns at :math:`w_{max} = \max(\gamma d, -w_{back})`, slowly, so
that the guard does not throw the arm; it never pushes harder than :math:`a_b` allows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from robot_dynamics_ros.control.laws.parameter_checks import finite_vector, number, per_joint
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

#: Speed of the return from beyond a limit, as a part of the joint's velocity limit.
RETURN_SPEED = 0.05


class JointLimitGuard:
    """Confines efforts near the position limits of the joints.

    Validity: joint by joint, with a constant inertia; coupling and friction are ignored, so under
    violent motion of other joints a limit may be passed by a little. A margin takes care of that.

    Attributes:
        active: Ticks in which each joint's effort was confined, shape (n,).

    Args:
        tree: Gives position limits (joints without are left alone) and effort limits.
        inertia: Effective inertia of each joint, shape (n,), kg m^2 or kg; positive.
        margin: How far inside the limits the guarded range ends, rad or m; one number or (n,).
        rate: gamma, 1/s; the last stretch is braked with time constant 1/gamma.
        braking: Part of the effort limit that the guard may use to brake, in (0, 1].

    Raises:
        ParameterError: A value is out of its range, or the margins leave no room.
    """

    def __init__(
        self,
        tree: RobotTree,
        inertia: Any,
        margin: Any = 0.0,
        rate: float = 25.0,
        braking: float = 0.5,
    ) -> None:
        masses = per_joint('inertia', inertia, tree.n, zero_allowed=False)
        margins = finite_vector('limit_margin', margin, tree.n)
        self._rate = number('limit_rate', rate, positive=True)
        if not 0.0 < braking <= 1.0:
            raise ParameterError('limit_braking', braking, 'must be above 0, at most 1')
        self._joints = []
        friction = list(zip(tree.damping.tolist(), tree.coulomb_friction.tolist(), strict=True))
        for i, (mass, room) in enumerate(zip(masses, margins, strict=True)):
            lower = float(tree.position_lower[i]) + room
            upper = float(tree.position_upper[i]) - room
            if room < 0.0 or not lower < upper:
                raise ParameterError('limit_margin', margin, f'joint {i}: no range is left')
            if math.isfinite(lower) or math.isfinite(upper):
                brake = braking * float(tree.effort_limit[i]) / mass
                back = min(RETURN_SPEED * float(tree.velocity_limit[i]), brake / self._rate)
                self._joints.append((i, mass, lower, upper, brake, back, *friction[i]))
        self.active: Array = np.zeros(tree.n, dtype=np.int64)

    def confine(self, q: Array, v: Array, gravity: Array, effort: Array) -> bool:
        """Confine efforts in place; entries that are not finite are left to the limiter.

        Args:
            q: Measured positions, shape (n,), rad or m.
            v: Measured velocities, shape (n,), rad/s or m/s.
            gravity: Gravity forces at q, shape (n,), N m or N.
            effort: Changed where the guard must, shape (n,), N m or N.

        Returns:
            Whether any joint's effort was changed.
        """
        acted = False
        position, speed, weight = q.tolist(), v.tolist(), gravity.tolist()
        for i, mass, lower, upper, brake, back, b, dry in self._joints:
            x, w, g, tau = position[i], speed[i], weight[i], float(effort[i])
            # A bound is positive while the joint is inside and not on its way there.
            confined = tau
            if tau > g or w > 0.0 or x > upper:
                most = g + mass * self._bound(upper - x, w, brake, back)
                if not tau <= most:
                    confined = min(tau, most + self._spare(upper - x, w, brake, b * w + dry))
            if tau < g or w < 0.0 or x < lower:
                least = g - mass * self._bound(x - lower, -w, brake, back)
                if not confined >= least:
                    spare = self._spare(x - lower, -w, brake, dry - b * w)
                    confined = max(confined, least - spare)
            if confined != tau and not math.isnan(tau):
                effort[i] = confined
                self.active[i] += 1
                acted = True
        return acted

    def _spare(self, d: float, w: float, brake: float, friction: float) -> float:
        """Return what may be given to overcome friction, which takes it, N m or N.

        All of it up to half of the largest speed, nothing at that or on the way back.
        """
        most = self._fastest(d, brake)[0]
        if w < 0.0 or not most > 0.0:
            return 0.0
        return min(max(2.0 - 2.0 * w / most, 0.0), 1.0) * friction

    def _fastest(self, d: float, brake: float) -> tuple[float, float]:
        """Return the speed from which a joint can still stop within d, and its slope by d."""
        rate = self._rate
        if d > brake / (rate * rate):
            most = math.sqrt(2.0 * brake * (d - 0.5 * brake / (rate * rate)))
            return most, min(rate, brake / most) if most > 0.0 else rate  # below the smallest one
        return rate * d, rate

    def _bound(self, d: float, w: float, brake: float, back: float) -> float:
        """Return the largest acceleration towards a limit at distance d and speed w."""
        most, slope = self._fastest(d, brake)
        if most <= -back:
            most, slope = -back, 0.0
        return max(self._rate * (most - w) - slope * w, -brake)
