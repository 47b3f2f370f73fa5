# SPDX-License-Identifier: Apache-2.0
r"""Guard that brakes a joint before its position limit, and returns it from beyond the limit.

With the distance d to the limit, the speed w towards it and the deceleration :math:`a_b` that
the guard may use, the largest speed from which the joint can stop is

.. math:: w_{max}(d) = \begin{cases}\gamma d & d \le a_b/\gamma^2\\
          \sqrt{2 a_b\,(d - a_b/2\gamma^2)} & \text{else}\end{cases}

(linear in the last part, so that the joint stops without a shock; both parts meet with one slope).
The acceleration towards the limit is bounded so that the speed converges to this curve,

.. math:: a \le \gamma\,(w_{max} - w) - w\,\frac{dw_{max}}{dd},

and the effort by :math:`g + \bar m` times that bound, with gravity g and the joint's constant
inertia :math:`\bar m`. Efforts within the bound are not changed. The bound is extended by the
friction of the joint, less so the nearer the speed is to :math:`w_{max}`: for a light joint with
high friction, friction takes most of the effort. Beyond the limit (d < 0) the joint returns with
:math:`w_{max} = \max(\gamma d, -w_{back})`, at low speed so that the guard does not throw the
arm, and with no more than :math:`a_b`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.laws.parameter_checks import number, per_joint
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.spatial.scalar import Array, Scalar, maximum, minimum, select, sqrt

#: Speed of the return from beyond a limit, as a fraction of the joint's velocity limit.
RETURN_SPEED = 0.05


class JointLimitGuard:
    """Bounds efforts near the position limits of the joints.

    Validity: each joint is treated separately with a constant inertia. Dynamic coupling is
    ignored, so a limit may be exceeded slightly under fast motion of other joints; use a margin to
    allow for that. Only viscous and Coulomb friction extend the bound; load-dependent and Stribeck
    friction are additional braking.

    Attributes:
        bounds: A column of ``GuardBounds`` per joint, shape (9, n).
        table: The rows of ``bounds``, concatenated, shape (9 n,).
        active: Number of ticks in which each joint's effort was changed, shape (n,).

    Args:
        tree: The robot with position limits (joints without are not guarded) and effort limits.
        inertia: Effective inertia of each joint, shape (n,), kg m^2 or kg; positive.
        margin: Distance from the guarded range to the limits, rad or m; one number or (n,).
        rate: gamma, 1/s; the last part is braked with time constant 1/gamma.
        braking: Fraction of the effort limit that the guard may use to brake, in (0, 1].

    Raises:
        ParameterError: A value is out of its range, or the margins leave no range.
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
        margins = per_joint('limit_margin', margin, tree.n)
        rate = number('limit_rate', rate, positive=True)
        if not 0.0 < braking <= 1.0:
            raise ParameterError('limit_braking', braking, 'must be above 0, at most 1')
        lower, upper = tree.position_lower + margins, tree.position_upper - margins
        closed = ~(lower < upper)
        if closed.any():
            joint = int(np.argmax(closed))
            raise ParameterError('limit_margin', margin, f'joint {joint}: no range is left')
        brake = braking * tree.effort_limit / masses
        rows = GuardBounds(
            masses,
            lower,
            upper,
            brake,
            linear=brake / (rate * rate),
            return_speed=np.minimum(RETURN_SPEED * tree.velocity_limit, brake / rate),
            damping=tree.damping,
            coulomb=tree.coulomb_friction,
            rate=np.full(tree.n, rate),
        )
        self.bounds = np.array(rows)
        self.table = self.bounds.reshape(-1)
        self.active = np.zeros(tree.n)

    def confine(self, q: Array, v: Array, gravity: Array, effort: Array) -> bool:
        """Bound efforts in place; non-finite entries are handled by the limiter.

        Args:
            q: Measured positions, shape (n,), rad or m.
            v: Measured velocities, shape (n,), rad/s or m/s.
            gravity: Gravity forces at q, shape (n,), N m or N.
            effort: Efforts, shape (n,), N m or N; changed in place.

        Returns:
            Whether any joint's effort was changed.
        """
        bounds = map(GuardBounds._make, self.bounds.T.tolist())
        columns = zip(*np.array([q, v, gravity, effort]).tolist(), bounds, strict=True)
        confined, counted = np.transpose([confined_effort(*column) for column in columns])
        acted = counted == 1.0
        effort[acted] = confined[acted]
        self.active += acted
        return bool(acted.any())


class GuardBounds(NamedTuple):
    """Parameters of the guard: numbers, symbols or arrays of them with an entry per joint.

    Attributes:
        mass: Effective inertia, kg m^2 or kg.
        lower, upper: Ends of the guarded range, rad or m; infinite without a limit.
        brake: Largest deceleration a_b, rad/s^2 or m/s^2.
        linear: Length of the linear part, brake / rate^2, rad or m.
        return_speed: Speed of the return from beyond the limit, rad/s or m/s.
        damping, coulomb: Viscous and Coulomb friction, N m s and N m, or N s/m and N.
        rate: gamma, 1/s.
    """

    mass: Scalar
    lower: Scalar
    upper: Scalar
    brake: Scalar
    linear: Scalar
    return_speed: Scalar
    damping: Scalar
    coulomb: Scalar
    rate: Scalar


def confined_effort(
    x: Scalar, w: Scalar, g: Scalar, tau: Scalar, joint: GuardBounds
) -> tuple[Scalar, Scalar]:
    """Return a joint's bounded effort, and 1 if it differs from ``tau``, else 0.

    Args:
        x: Position, rad or m.
        w: Velocity, rad/s or m/s.
        g: Gravity force, N m or N.
        tau: Effort, N m or N; NaN is returned as NaN.
        joint: Parameters of the joint.
    """
    viscous = joint.damping * w
    most = g + joint.mass * acceleration_bound(joint.upper - x, w, joint)
    extension = _friction_extension(joint.upper - x, w, joint, viscous + joint.coulomb)
    lowered = select(most, tau, minimum(tau, most + extension), tau)
    # The bound is positive while the joint is inside and does not move towards the limit.
    confined = select(
        g, tau, lowered, select(0.0, w, lowered, select(joint.upper, x, lowered, tau))
    )
    least = g - joint.mass * acceleration_bound(x - joint.lower, -w, joint)
    extension = _friction_extension(x - joint.lower, -w, joint, joint.coulomb - viscous)
    raised = select(confined, least, maximum(confined, least - extension), confined)
    falling = select(w, 0.0, raised, select(x, joint.lower, raised, confined))
    confined = select(tau, g, raised, falling)
    return confined, select(confined, tau, 1.0, select(tau, confined, 1.0, 0.0))


def acceleration_bound(d: Scalar, w: Scalar, joint: GuardBounds) -> Scalar:
    """Return the largest acceleration towards a limit, at distance d and speed w towards it."""
    most, slope = _fastest(d, joint)
    returning = -joint.return_speed
    slope = select(returning, most, slope, 0.0)
    most = maximum(most, returning)
    return maximum(joint.rate * (most - w) - slope * w, -joint.brake)


def _friction_extension(d: Scalar, w: Scalar, joint: GuardBounds, friction: Scalar) -> Scalar:
    """Return the extension of the bound by friction, N m or N.

    The full friction up to half of the largest speed, decreasing to 0 at the largest speed, and 0
    beyond the limit. A joint that creeps away from the limit is treated as one at rest.
    """
    most, _ = _fastest(d, joint)
    share = 2.0 - 2.0 * w / select(0.0, most, most, 1.0)
    share = minimum(maximum(share, 0.0), 1.0) * maximum(friction, 0.0)
    return select(0.0, most, share, 0.0)


def _fastest(d: Scalar, joint: GuardBounds) -> tuple[Scalar, Scalar]:
    """Return the largest speed from which a joint can stop within d, and its derivative by d."""
    square = 2.0 * joint.brake * (d - 0.5 * joint.linear)
    root = sqrt(maximum(square, 0.0))
    # The root is 0 where the square underflows.
    steep = minimum(joint.rate, joint.brake / select(0.0, root, root, 1.0))
    slope = select(0.0, root, steep, joint.rate)
    near = joint.linear
    return select(near, d, root, joint.rate * d), select(near, d, slope, joint.rate)
