# SPDX-License-Identifier: Apache-2.0
"""What the arm does when the law must not act: on timeout, deactivation, shutdown.

The stop action of a loop: what is commanded while its law does not act.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.drivers.port import DriverCompensation
from robot_dynamics_ros.control.laws import parameter_checks as check
from robot_dynamics_ros.control.laws.pd_gravity import joint_inertia
from robot_dynamics_ros.control.safety.effort_limiter import EffortLimiter
from robot_dynamics_ros.control.safety.shell import leave_to_driver
from robot_dynamics_ros.control.safety.state_validator import MeasuredState
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import KernelSet, compile_kernel


class StopRule(NamedTuple):
    """What a stop action does; without a fresh state there is no velocity to rely on.

    Attributes:
        gravity: Whether it balances gravity at the last known position.
        damping: Whether it brakes while the state is fresh, by ``D v``.
        stiffness: Whether it then stays where it began, by ``K (q_0 - q)``, having braked before.
    """

    gravity: bool
    damping: bool = False
    stiffness: bool = False


STOP_ACTIONS = {
    #: Gravity and damping, ``g(q) - D v`` with ``D = 2 zeta w0 m``.
    'damping': StopRule(gravity=True, damping=True),
    #: The arm coasts to rest by its own friction.
    'gravity': StopRule(gravity=True),
    #: Stay where it began: ``g(q) + K (q_0 - q) - D v``, ``K = w0^2 m``.
    'hold': StopRule(gravity=True, damping=True, stiffness=True),
    #: No effort is commanded: for arms with brakes, or whose driver holds them.
    'zero': StopRule(gravity=False),
}


class StopAction:
    """A declared, simple behaviour that needs little: at best a fresh state, at worst an old one.

    Attributes:
        of_motors: Whether the effort is all that the motors shall give, gravity included, or, if
            not, what a driver that compensates something by itself is told.
        holds: Whether it begins to act where the arm has come to rest, having been braked before.
        stiffness, damping: K and D, shape (n,).

    Args:
        name: One of ``STOP_ACTIONS``.
        tree: The robot.
        kernels: With ``gravity_forces``; compiled from the tree if None.
        natural_frequency: w0 of the feedback, one number or one per joint, rad/s.
        damping_ratio: zeta of the feedback, likewise.

    Raises:
        UnknownNameError: There is no such action; lists those that exist.
        ParameterError: A gain is refused.
    """

    def __init__(
        self,
        name: str,
        tree: RobotTree,
        kernels: KernelSet | None = None,
        natural_frequency: Any = 10.0,
        damping_ratio: Any = 1.0,
    ) -> None:
        if name not in STOP_ACTIONS:
            raise UnknownNameError('stop action', name, STOP_ACTIONS)
        self.rule = STOP_ACTIONS[name]
        self.of_motors, self.holds = self.rule.gravity, self.rule.stiffness
        w = check.per_joint('natural_frequency', natural_frequency, tree.n)
        zeta = check.per_joint('damping_ratio', damping_ratio, tree.n)
        Kp, Kd = check.feedback_gains(w, zeta, 0.0)
        inertia = joint_inertia(tree, check.middle_of_limits(tree))
        self.stiffness, self.damping = inertia * Kp, inertia * Kd
        kernels = kernels or compile_kernel(tree, outputs=('gravity_forces',))
        self._gravity = kernels.gravity_forces
        self._anchor = np.zeros(tree.n)

    def begin(self, q: Array) -> None:
        """Start to act at a position, shape (n,), rad or m, the last one known; copied."""
        self._anchor[:] = q

    def effort(self, q: Array, v: Array, fresh: bool, out: Array) -> None:
        """Write the efforts.

        Args:
            q: Last known positions, shape (n,), rad or m.
            v: Last known velocities, shape (n,), rad/s or m/s; not used unless fresh.
            fresh: Whether the state is recent enough for feedback.
            out: Written, shape (n,), N m or N.
        """
        out.fill(0.0)
        if self.rule.gravity:
            self._gravity(q, out)
        if fresh and self.rule.stiffness:
            out += self.stiffness * (self._anchor - q) - self.damping * v
        elif fresh and self.rule.damping:
            out -= self.damping * v


FASTEST_RATE, RATE_PER_PERIOD = 100.0, 0.1
#: Part of the speed at which the arm counts as being at rest.
_REST = 0.01


class Braking:
    """Computes braking efforts, and says when the arm is at rest.

    Attributes:
        delay: Time from a command to the states that show it, besides the period, s, as far as it
            is known: gravity, inertia and momentum are those that the arm will have by then. The
            late ones push joints that hardly move, where the mass matrix is nearly singular.
        acting: Returns what motors and world will give until then, shape (n,), N m or N; None: not
            known, and the momentum is the present one.

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
        self._share, self._terms = share, JointTerms.of(tree)
        self._rate = min(FASTEST_RATE, RATE_PER_PERIOD / period)
        self._still, self._impulse = np.zeros(tree.n), np.zeros(tree.n)
        self._gravity, self._ahead = np.zeros(tree.n), np.zeros(tree.n)
        self.delay = self._end = self._slow = 0.0
        self.acting: Callable[[], Array | None] = lambda: None

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
        gravity, impulse, ahead = self._gravity, self._impulse, self._ahead
        np.multiply(v, self.delay, out=ahead)
        ahead += q
        self._kernels.gravity_forces(ahead, gravity)
        self._kernels.inverse_dynamics(ahead, self._still, v, impulse)  # M v + g
        impulse -= gravity
        impulse += self._terms.armature * v
        acting = self.acting()
        if acting is not None:
            impulse += self.delay * (acting - gravity - self._terms.friction(v, gravity))
        # Where gravity alone needs nearly all of it, a tenth of the limit must do.
        room = np.maximum(limit - np.abs(gravity), 0.1 * limit)
        moving = np.abs(impulse) > 1e-12 * limit
        if not moving.any():
            return self._rate
        return min(self._rate, float((self._share * room[moving] / np.abs(impulse[moving])).min()))


class Stopping:
    """Computes the efforts of a stop action; one that holds brakes the arm first.

    Attributes:
        active: Whether it has begun and the law has not taken over again.

    Args:
        state: The last measured state.
        limiter: Holds the motors' limits, and counts what is cut.
    """

    def __init__(self, state: MeasuredState, limiter: EffortLimiter) -> None:
        self._state, self._limiter = state, limiter
        self._still = np.zeros_like(state.v)
        self.active = self._held = False

    def configure(
        self, action: StopAction, brake: Braking, driver: DriverCompensation | None
    ) -> None:
        """Take over the action, how it brakes before, and what a driver compensates by itself.

        An action that has begun begins anew where the arm is.
        """
        self.action, self.brake, self._driver = action, brake, driver
        if self.active:
            self.begin()

    def begin(self) -> None:
        """Begin where the arm is."""
        self.active, self._held = True, False
        self.action.begin(self._state.q)
        self.begin_braking()

    def begin_braking(self) -> None:
        """Begin to brake the present motion."""
        self.brake.begin(self._state.time, self._state.q, self._state.v, self._limiter.limits)

    def write(self, out: Array, *, fresh: bool) -> None:
        """Write what the driver is commanded, shape (n,), N m or N.

        Args:
            out: Written.
            fresh: Whether the state has just come, so that feedback may be used.
        """
        state, brake = self._state, self.brake
        if fresh and self.action.holds and not self._held:
            brake.effort(state.q, state.v, self._limiter.limits, out)
            if brake.over(state.time, state.v):
                self._held = True
                self.action.begin(state.q)
        else:
            self.action.effort(state.q, state.v, fresh, out)
        if self._driver is not None and self.action.of_motors:
            share = self._driver.update(state.q, state.v if fresh else self._still)
            leave_to_driver(out, share, self._limiter)
