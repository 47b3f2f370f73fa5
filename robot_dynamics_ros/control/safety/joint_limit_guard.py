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

from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.laws.parameter_checks import finite_vector, number, per_joint
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.spatial.scalar import Array, Scalar, maximum, minimum, select, sqrt

#: Speed of the return from beyond a limit, as a part of the joint's velocity limit.
RETURN_SPEED = 0.05


class JointLimitGuard:
    """Confines efforts near the position limits of the joints.

    Validity: joint by joint, with a constant inertia; coupling and friction are ignored, so under
    violent motion of other joints a limit may be passed by a little. A margin takes care of that.
    Friction that is given besides is viscous and Coulomb's only: what load or Stribeck's effect
    add brakes by itself, so that such a joint is slower near its limit, never faster.

    Attributes:
        bounds: A column of ``GuardBounds`` for each joint, shape (9, n); ``table``: row after row.
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
        self.bounds = np.zeros((len(GuardBounds._fields), tree.n))
        friction = zip(tree.damping.tolist(), tree.coulomb_friction.tolist(), strict=True)
        for i, (mass, room, (b, dry)) in enumerate(zip(masses, margins, friction, strict=True)):
            lower = float(tree.position_lower[i]) + room
            upper = float(tree.position_upper[i]) - room
            if room < 0.0 or not lower < upper:
                raise ParameterError('limit_margin', margin, f'joint {i}: no range is left')
            brake = braking * float(tree.effort_limit[i]) / mass
            back = min(RETURN_SPEED * float(tree.velocity_limit[i]), brake / self._rate)
            stretch = brake / (self._rate * self._rate)
            self.bounds[:, i] = GuardBounds(
                mass, lower, upper, brake, stretch, back, b, dry, self._rate
            )
        self.table = self.bounds.reshape(-1)
        self.active = np.zeros(tree.n)

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
        columns = (q.tolist(), v.tolist(), gravity.tolist(), effort.tolist())
        for i, (x, w, g, tau) in enumerate(zip(*columns, strict=True)):
            bounds = GuardBounds(*self.bounds[:, i].tolist())
            confined, counted = confined_effort(x, w, g, tau, bounds)
            if counted == 1:
                effort[i] = confined
                self.active[i] += 1
                acted = True
        return acted


class GuardBounds(NamedTuple):
    """What the guard knows of a joint: numbers, or symbols.

    Attributes:
        mass: Effective inertia, kg m^2 or kg.
        lower, upper: Ends of the guarded range, rad or m; infinite where there are none.
        brake: Deceleration that may be used, rad/s^2 or m/s^2.
        stretch: Length of the linear stretch, brake / rate^2, rad or m.
        back: Speed of the return from beyond, rad/s or m/s.
        damping, dry: Viscous and Coulomb friction, N m s and N m, or N s/m and N.
        rate: gamma, 1/s.
    """

    mass: Scalar
    lower: Scalar
    upper: Scalar
    brake: Scalar
    stretch: Scalar
    back: Scalar
    damping: Scalar
    dry: Scalar
    rate: Scalar


def confined_effort(
    x: Scalar, w: Scalar, g: Scalar, tau: Scalar, joint: GuardBounds
) -> tuple[Scalar, Scalar]:
    """Return a joint's confined effort, and 1 if that is another one, else 0.

    Args:
        x: Position, rad or m.
        w: Velocity, rad/s or m/s.
        g: Gravity force, N m or N.
        tau: Effort, N m or N; what is not a number gives no numbers.
        joint: As above.
    """
    rubbing = joint.damping * w
    most = g + joint.mass * acceleration_bound(joint.upper - x, w, joint)
    spare = _spare(joint.upper - x, w, joint, rubbing + joint.dry)
    lowered = select(most, tau, minimum(tau, most + spare), tau)
    # A bound is positive while the joint is inside and not on its way there.
    confined = select(
        g, tau, lowered, select(0.0, w, lowered, select(joint.upper, x, lowered, tau))
    )
    least = g - joint.mass * acceleration_bound(x - joint.lower, -w, joint)
    spare = _spare(x - joint.lower, -w, joint, joint.dry - rubbing)
    raised = select(confined, least, maximum(confined, least - spare), confined)
    falling = select(w, 0.0, raised, select(x, joint.lower, raised, confined))
    confined = select(tau, g, raised, falling)
    return confined, select(confined, tau, 1.0, select(tau, confined, 1.0, 0.0))


def acceleration_bound(d: Scalar, w: Scalar, joint: GuardBounds) -> Scalar:
    """Return the largest acceleration towards a limit at distance d and speed w."""
    most, slope = _fastest(d, joint)
    returning = -joint.back
    slope = select(returning, most, slope, 0.0)
    most = maximum(most, returning)
    return maximum(joint.rate * (most - w) - slope * w, -joint.brake)


def _spare(d: Scalar, w: Scalar, joint: GuardBounds, friction: Scalar) -> Scalar:
    """Return what may be given to overcome friction, which takes it, N m or N.

    All of it up to half of the largest speed, nothing at that or beyond the limit. A joint that
    creeps away from the limit is no different from one at rest: friction holds it.
    """
    most, _ = _fastest(d, joint)
    share = 2.0 - 2.0 * w / select(0.0, most, most, 1.0)
    share = minimum(maximum(share, 0.0), 1.0) * maximum(friction, 0.0)
    return select(0.0, most, share, 0.0)


def _fastest(d: Scalar, joint: GuardBounds) -> tuple[Scalar, Scalar]:
    """Return the speed from which a joint can still stop within d, and its slope by d."""
    square = 2.0 * joint.brake * (d - 0.5 * joint.stretch)
    root = sqrt(maximum(square, 0.0))
    # Below the smallest number the root is 0.
    steep = minimum(joint.rate, joint.brake / select(0.0, root, root, 1.0))
    slope = select(0.0, root, steep, joint.rate)
    near = joint.stretch
    return select(near, d, root, joint.rate * d), select(near, d, slope, joint.rate)
