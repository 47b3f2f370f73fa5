# SPDX-License-Identifier: Apache-2.0
r"""Limiter of effort and effort rate, the last step before the driver; guard of joint limits.

The guard brakes a joint before its position limit, and returns it from beyond the limit.

With the distance d to the limit, the speed w towards it and the deceleration :math:`a_b` that
the guard may use, and that gravity leaves, the largest speed from which the joint can stop is

.. math:: w_{max}(d) = \begin{cases}\gamma d & d \le a_b/\gamma^2\\
          \sqrt{2 a_b\,(d - a_b/2\gamma^2)} & \text{else}\end{cases}

(linear in the last part, so that the joint stops without a shock; both parts meet with one slope).
The acceleration towards the limit is bounded so that the speed converges to this curve,

.. math:: a \le \gamma\,(w_{max} - w) - w\,\frac{dw_{max}}{dd},

at least :math:`-\rho w`, so that a joint that moves away from the limit may be stopped within
about a period. By the model, efforts :math:`\tau` accelerate the joints by

.. math:: a = (M + h D)^{-1}(\tau - b - D v - \tau_C)

with gravity and velocity products b, damping D over the period h, and Coulomb friction
:math:`\tau_C`, which takes what it can. The efforts of the joints whose accelerations exceed their
bounds are changed so that they meet them, while all other joints keep their efforts, and yield: an
effort moves a joint whose axis nearly coincides with another one's much more than if that one were
held. Where one of them lacks the effort, or the set of joints is not found, each is braked as if
it were the only one. The friction of the joint itself counts less, the nearer its speed is to
:math:`w_{max}`: of a light joint, it takes most of the effort. Beyond the limit (d < 0) the joint
returns at low speed, so that the guard does not throw the arm, and the farther it is out, the
stiffer it is held, as a load or gravity that the model does not know may press it there:

.. math:: a \le k\,(w_{max} - w), \quad w_{max} = \max(\gamma d/2, -w_{back}), \quad
          k = \max\{2\gamma, \min(-\gamma^2 d/w_{back}, \rho)\}

as just before the limit until :math:`w_{back}` is reached, and with no more than :math:`a_b`, for
which all other joints count as held.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from robot_dynamics_ros.dynamics.sampled_loop import (
    CONTINUOUS,
    Sampling,
    fastest_frequency,
    largest_damping,
)
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.linear_algebra import solve_positive_definite
from robot_dynamics_ros.spatial.scalar import Array, Scalar, maximum, minimum, select, sqrt

#: Time constant of the decay of the last command without a fallback, s.
DECAY_S = 0.1
#: Speed of the return from beyond a limit, as a fraction of the joint's velocity limit.
RETURN_SPEED = 0.05
#: gamma, 1/s: the last part before a limit is braked with its inverse as time constant, or slower
#: if the sampled and delayed loop does not bear it.
GUARD_RATE = 25.0
#: Commands in a row that must reach the desired effort until ``soften`` ends: where an effort that
#: is late has moved a light joint, the feedback of the law changes fast as it catches up.
FOLLOWED = 20.0
#: Least share of the effort limit with which the guard brakes where gravity leaves less.
_LEAST_ROOM = 0.1
#: Least apparent inertia, as a share of that with all other joints held: there may be none.
_LEAST_YIELDING = 1e-6
#: Motion until an effort acts, rad or m, at which velocity products count by half.
_KNOWN_MOTION = 0.05
#: Rounds of the search for the joints on which the guard acts: each of them moves others.
_ROUNDS = 3
_TINY, _ROUNDED_UP = 1e-300, 1.0 + 1e-9


class EffortLimiter:
    r"""Limits of the command, and their state; counts what they change.

    Each joint's effort is limited in this order, see :func:`limited_effort`:

    1. the motor effort to the motor's limit;
    2. the command, which is that effort without the driver's own, to ``limits``;
    3. the change since the last command to ``rate * dt`` and, after ``soften``, to a lower rate
       until ``FOLLOWED`` commands in a row have reached the desired effort. A non-positive or NaN
       dt permits no change;
    4. command plus driver's effort to the motor's limit again, at any rate, since the driver's
       effort may change faster than the command; for joints that share motors, see
       ``SafetyFilter``.

    Lowered limits are reached at the permitted rate, which ``soften`` takes from the motor's limit
    until then.

    Attributes:
        non_finite: Number of ticks in which each joint's effort was non-finite, shape (n,).
        refused: Whether each joint's last effort that was not accepted was, shape (n,).
        refusals: Number of ticks in which any joint's effort was.
        state: A column of ``LimiterState`` per joint, shape (4, n).
        last: The last command, shape (n,), N m or N; a row of ``state``.
        saturated: Number of ticks in which each joint's effort was clipped, shape (n,).
        rate_limited: Number of ticks in which each joint's rate was limited, shape (n,).
        bounds: A column of ``LimiterBounds`` per joint, shape (3, n).
        limits: Limit of each joint's command, shape (n,), N m or N; a row of ``bounds``.
        rates: Largest rate of change, shape (n,), N m/s or N/s; a row of ``bounds``.
        motor: Motor limit of each joint, shape (n,), N m or N; a row of ``bounds``: the limit of
            the constructor.
        longest_step: Largest dt of the rate limit, s.
        slew: Rate set by ``soften``, as a multiple of each limit per s.

    Args:
        limit: Largest magnitude, shape (n,), N m or N; positive and finite.
        rate: Largest rate of change, one number or shape (n,), N m/s or N/s; infinite by default.

    Raises:
        ParameterError: A limit is not positive and finite.
    """

    longest_step: ClassVar[float] = 0.1

    def __init__(self, limit: Any, rate: Any = math.inf) -> None:
        n = int(np.size(limit))
        self.bounds = np.zeros((len(LimiterBounds._fields), n))
        self.limits, self.rates, self.motor = self.bounds
        self.configure(limit, rate)
        self.motor[:] = self.limits
        self.slew = math.inf
        self.state = np.zeros((len(LimiterState._fields), n))
        self.last, self._soft, self.saturated, self.rate_limited = self.state
        self.non_finite, self.refused = np.zeros(n), np.zeros(n, dtype=bool)
        self.refusals = 0

    def configure(self, limit: Any, rate: Any) -> None:
        """Change limits and rates, see the constructor; a lower limit is reached at the rate."""
        numbers = np.asarray(limit)
        if not ((numbers > 0.0) & (numbers < math.inf)).all():
            raise ParameterError('effort_limit', limit, 'give positive, finite numbers')
        self.limits[:] = numbers
        self.rates[:] = rate

    def count_non_finite(self, effort: Array) -> None:
        """Count the joints whose effort, shape (n,), is not finite."""
        self.refused[:] = ~np.isfinite(effort)
        self.non_finite += self.refused
        self.refusals += 1

    def soften(self, slew: float) -> None:
        """Limit the rate to ``slew`` until ``FOLLOWED`` commands of a joint reach its effort.

        Args:
            slew: Rate, as a multiple of each limit per s.
        """
        self.slew = slew
        self._soft.fill(FOLLOWED)

    def harden(self) -> None:
        """End the lower rate of ``soften``."""
        self._soft.fill(0.0)

    def reset(self, effort: Array) -> None:
        """Set the last command for the rate limit, clipped to the effort limits; see ``harden``.

        Args:
            effort: Shape (n,), N m or N; non-finite entries are replaced by 0.
        """
        finite = np.where(np.isfinite(effort), effort, 0.0)
        self.last[:] = np.clip(finite, -self.limits, self.limits)
        self.harden()


class LimiterBounds(NamedTuple):
    """Limits of joints, as numbers, symbols or arrays of them: command, its rate, motor effort."""

    limit: Scalar
    rate: Scalar
    motor: Scalar


class LimiterState(NamedTuple):
    """State of the limiter: numbers, symbols or arrays of them with an entry per joint.

    Attributes:
        last: The last command, N m or N.
        soft: Commands that must still reach the desired effort after ``soften``, else 0.
        saturated, rate_limited: Numbers of ticks.
    """

    last: Scalar
    soft: Scalar
    saturated: Scalar
    rate_limited: Scalar


def limited_effort(
    tau: Scalar,
    share: Scalar,
    state: LimiterState,
    bounds: LimiterBounds,
    *,
    slew: Scalar,
    step: Scalar,
) -> LimiterState:
    """Return the state of a joint after a tick; its ``last`` is the command.

    Args:
        tau: Desired motor effort, N m or N; NaN gives NaN.
        share: Effort added by the driver, N m or N.
        state: State before the tick.
        bounds: Limits of the joint.
        slew: Rate while ``soft``, as a multiple of the limit per s.
        step: Time since the last command, s; not negative.
    """
    limit, motor, last = bounds.limit, bounds.motor, state.last
    wanted = clipped(tau, motor) - share
    allowed = clipped(wanted, limit)
    change = allowed - last
    # While the command is beyond a lowered limit, the slope is that of the motor's limit.
    most = slew * select(limit, magnitude(last), motor, limit)
    softened = select(most, bounds.rate, state.soft, 0.0)
    rate = select(0.0, softened, most, bounds.rate)
    largest = select(rate, math.inf, select(0.0, step, rate * step, 0.0), math.inf)
    exceeds = select(largest, magnitude(change), 1.0, 0.0)
    slow = last + select(last, allowed, largest, -largest)
    command = select(0.0, exceeds, slow, allowed)
    beyond = maximum(limit, magnitude(command))  # a lowered limit that is not reached yet
    total = minimum(maximum(command, -motor - share), motor - share)
    return LimiterState(
        clipped(total, beyond),
        select(0.0, state.soft, select(0.0, exceeds, FOLLOWED, state.soft - 1.0), 0.0),
        state.saturated + maximum(_exceeds(tau, motor), _exceeds(wanted, limit)),
        state.rate_limited + select(0.0, softened, 0.0, exceeds),
    )


def magnitude(x: Scalar) -> Scalar:
    """Return absolute values; numbers, symbols or arrays of them."""
    return maximum(x, -x)


def clipped(x: Scalar, limit: Scalar) -> Scalar:
    """Return efforts clipped to their limits; numbers, symbols or arrays of them."""
    return minimum(maximum(x, -limit), limit)


def _exceeds(x: Scalar, limit: Scalar) -> Scalar:
    return select(limit, magnitude(x), 1.0, 0.0)


class JointLimitGuard:
    """Bounds efforts near the position limits of the joints.

    Validity: inertia and velocity products are those of the measured state, so a limit may be
    exceeded by fast motions in a rare or late loop. Only viscous and Coulomb friction extend the
    bound; other friction is additional braking.

    Attributes:
        bounds: Inverse of the inertia, and a column of ``GuardBounds`` per joint, shape
            (n + 12, n).
        active: Number of ticks in which each joint's effort was changed, shape (n,).

    Args:
        tree: The robot, see :meth:`fit`.
        inertia: See :meth:`fit`.
        braking: See :meth:`fit`.
    """

    def __init__(self, tree: Robot, inertia: Array, braking: float = 0.5) -> None:
        self.bounds = np.zeros((tree.n + len(GuardBounds._fields), tree.n))
        self.active = np.zeros(tree.n)
        self.fit(tree, inertia, braking)

    def fit(
        self,
        tree: Robot,
        inertia: Array,
        braking: float,
        sampling: Sampling = CONTINUOUS,
        limit: Array | None = None,
        passive: Sequence[int] = (),
    ) -> None:
        """Compute the bounds.

        Args:
            tree: The robot with position limits (joints without are not guarded) and effort
                limits.
            inertia: Mass matrix plus armature, shape (n, n), kg m^2 or kg.
            braking: Fraction of the effort limit that the guard may use to brake, in (0, 1].
            sampling: Of the loop: gamma is at most a quarter of its largest stable frequency, as
                the posture changes until an effort acts; rho half of its largest stable damping.
            limit: Permitted effort, shape (n,), N m or N; None: the effort limits.
            passive: Joints without a drive, which a loop holds: they are not guarded.
        """
        masses = np.diag(inertia)
        rate = min(GUARD_RATE, 0.25 * fastest_frequency(sampling, 1.0, 'none'))
        brake = braking * tree.effort_limit / masses
        held = (1.0 - _LEAST_YIELDING) * inertia
        np.fill_diagonal(held, masses + sampling.period * tree.damping)  # which acts within it
        driven = np.ix_(*2 * [np.setdiff1d(np.arange(tree.n), passive)])
        self.bounds[: tree.n] = 0.0
        self.bounds[driven] = np.linalg.inv(held[driven])
        self.bounds[tree.n :] = np.broadcast_arrays(
            *GuardBounds(
                masses,
                tree.position_lower,
                tree.position_upper,
                brake,
                linear=brake / (rate * rate),
                return_speed=np.minimum(RETURN_SPEED * tree.velocity_limit, brake / rate),
                damping=tree.damping,
                coulomb=tree.coulomb_friction,
                rate=rate,
                stopping=0.5 * largest_damping(sampling) if sampling.period else 0.0,
                limit=tree.effort_limit if limit is None else limit,
                late=((1.0 + sampling.delay) * sampling.period / _KNOWN_MOTION) ** 2,
            )
        )
        self.bounds[tree.n + 1 : tree.n + 3, list(passive)] = [[-math.inf], [math.inf]]


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
        stopping: rho, 1/s.
        limit: Permitted effort, N m or N.
        late: See ``confined_effort``, s^2/rad^2.
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
    stopping: Scalar
    limit: Scalar
    late: Scalar


def confined_effort(
    q: Array, v: Array, g: Array, bias: Array, tau: Array, bounds: Array
) -> tuple[Array, Array]:
    """Return the bounded efforts, and 1 for each that is changed, else 0; all of shape (n,).

    Args:
        q: Positions, rad or m.
        v: Velocities, rad/s or m/s.
        g: Gravity forces, N m or N.
        bias: The same with velocity products, which count less, the more the arm moves until its
            effort acts.
        tau: Efforts, N m or N; NaN is returned as NaN.
        bounds: Of the guard.
    """
    n = len(q)
    inverse, joint = bounds[:n], GuardBounds(*bounds[n:])
    permitted = clipped(tau, joint.limit)
    bias = g + (bias - g) / (1.0 + joint.late * (v @ v))
    moving = permitted - bias - joint.damping * v
    moving = moving - clipped(moving, joint.coulomb)
    # A joint's own friction counts in part only.
    own = np.diag(inverse)
    a = inverse @ moving + own * (permitted - bias - moving)
    high = _highest(joint.upper - q, v, g, own, joint)
    low = -_highest(q - joint.lower, -v, -g, own, joint)

    def acting(change: Array) -> tuple[Array, Array]:
        without = a - inverse @ change + own * change  # with the changes of all others
        met = minimum(maximum(without, low), high)
        return select(0.0, magnitude(without - met), 1.0, 0.0), met

    change = 0.0 * tau
    for _ in range(_ROUNDS):
        acts, met = acting(change)
        among = inverse * np.outer(acts, acts) + np.diag(1.0 - acts)
        change = solve_positive_definite(among, acts * (a - met))
    # Where one joint lacks the effort, or the joints are not found, each is braked alone.
    lacks = acts * _exceeds(permitted - change, joint.limit * _ROUNDED_UP)
    unsettled = magnitude(acting(change)[0] - acts)
    alone = (a - minimum(maximum(a, low), high)) / maximum(own, _TINY)
    change = select(0.0, (lacks + unsettled).sum(), alone, change)
    acts = select(0.0, magnitude(change), 1.0, 0.0)
    return select(0.0, acts, permitted - change, tau), acts


def _highest(d: Array, w: Array, g: Array, own: Array, joint: GuardBounds) -> Array:
    """Return the highest accelerations towards limits without the joints' own friction.

    Args:
        d: Distance to the limit; what follows is positive towards it.
        w: Velocity.
        g: Gravity force.
        own: Acceleration of each joint per unit of its effort.
        joint: Parameters of the joints.
    """
    # What weighs far more than its motor bears hangs on a loop, or falls whatever is done.
    room = maximum(magnitude(joint.limit + g), _LEAST_ROOM * joint.limit)
    brake = minimum(joint.brake, room / joint.mass)
    joint = joint._replace(brake=brake, linear=brake / (joint.rate * joint.rate))
    friction = _friction_extension(d, w, joint, joint.damping * w + joint.coulomb)
    return own * friction + acceleration_bound(d, w, joint)


def acceleration_bound(d: Scalar, w: Scalar, joint: GuardBounds) -> Scalar:
    """Return the largest acceleration towards a limit, at distance d and speed w towards it."""
    most, slope = _fastest(d, joint)
    back, damping = maximum(0.5 * most, -joint.return_speed), 2.0 * joint.rate
    farther = minimum(-0.5 * joint.rate * d / joint.return_speed, joint.stopping / damping)
    beyond = damping * maximum(1.0, farther) * (back - w)
    bound = select(d, 0.0, beyond, joint.rate * (most - w) - slope * w)
    bound = maximum(bound, -joint.brake)
    inside = select(0.0, d, maximum(bound, -joint.stopping * w), bound)
    return select(w, 0.0, inside, bound)


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
