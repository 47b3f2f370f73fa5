# SPDX-License-Identifier: Apache-2.0
"""Stop actions on timeout, deactivation, shutdown and errors, and braking of a motion."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.laws.gravity_laws import inertia_matrix
from robot_dynamics_ros.control.safety.limits import EffortLimiter
from robot_dynamics_ros.control.safety.state_validator import MeasuredState
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.dynamics.sampled_loop import CONTINUOUS, FeedbackLoop, Sampling
from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import KernelSet, compile_kernel


class StopRule(NamedTuple):
    """Terms of a stop action; velocities are only used while the state is fresh.

    Attributes:
        gravity: Whether it compensates gravity at the last known position.
        damping: Whether it damps by ``D v`` while the state is fresh.
        stiffness: Whether it holds its initial position by ``K (q_0 - q)``, after braking.
    """

    gravity: bool
    damping: bool = False
    stiffness: bool = False


STOP_ACTIONS = {
    #: Gravity and damping, ``g(q) - D v`` with ``D = 2 w0 m``.
    'damping': StopRule(gravity=True, damping=True),
    #: Gravity compensation; the arm comes to rest by its own friction.
    'gravity': StopRule(gravity=True),
    #: Hold the initial position: ``g(q) + K (q_0 - q) - D v``, ``K = w0^2 m``.
    'hold': StopRule(gravity=True, damping=True, stiffness=True),
    #: Zero effort: for arms with brakes, or whose driver holds them.
    'zero': StopRule(gravity=False),
}


class StopAction:
    """Simple control rule for a stop, which also works without a fresh state.

    Attributes:
        rule: Its terms. With gravity, the effort is the total motor effort; without, it is the
            command of the driver, without the terms that the driver compensates.
        stiffness, damping: K and D, shape (n,).

    Args:
        name: One of ``STOP_ACTIONS``.
        tree: The robot.
        kernels: With ``gravity_forces``; compiled from the tree if None.
        natural_frequency: w0 of the feedback, which is critically damped, rad/s; reduced to what
            is stable in the middle of the limits.
        sampling: Sampling of the loop.

    Raises:
        UnknownNameError: There is no such action; lists those that exist.
    """

    def __init__(
        self,
        name: str,
        tree: RobotTree,
        kernels: KernelSet | None = None,
        natural_frequency: float = 10.0,
        sampling: Sampling = CONTINUOUS,
    ) -> None:
        if name not in STOP_ACTIONS:
            raise UnknownNameError('stop action', name, STOP_ACTIONS)
        self.rule = STOP_ACTIONS[name]
        M = inertia_matrix(tree, tree.middle)
        inertia, w = np.diag(M), natural_frequency
        loop = FeedbackLoop('', M, np.diag(w * w * inertia), np.diag(2.0 * w * inertia))
        w *= loop.largest(sampling)
        self.stiffness, self.damping = inertia * (w * w), inertia * (2.0 * w)
        kernels = kernels or compile_kernel(tree, outputs=('gravity_forces',))
        self._gravity = kernels.gravity_forces
        self._anchor = np.zeros(tree.n)

    def begin(self, q: Array) -> None:
        """Set the position to hold, shape (n,), rad or m, the last known one; copied."""
        self._anchor[:] = q

    def effort(self, q: Array, v: Array, fresh: bool, out: Array) -> None:
        """Compute the efforts.

        Args:
            q: Last known positions, shape (n,), rad or m.
            v: Last known velocities, shape (n,), rad/s or m/s; only used if fresh.
            fresh: Whether the state is recent enough for feedback.
            out: Receives the efforts, shape (n,), N m or N.
        """
        out.fill(0.0)
        if self.rule.gravity:
            self._gravity(q, out)
        if fresh and self.rule.stiffness:
            out += self.stiffness * (self._anchor - q) - self.damping * v
        elif fresh and self.rule.damping:
            out -= self.damping * v


#: Largest alpha, 1/s; largest part of the momentum that is removed in a period, and per time until
#: the effort has acted.
FASTEST_RATE, RATE_PER_PERIOD, RATE_PER_DELAY = 100.0, 0.1, 0.5
#: Fraction of the initial speed below which the arm is at rest.
_REST = 0.01


class Braking:
    """Computes braking efforts, and detects when the arm is at rest.

    Attributes:
        delay: Time from a state until its effort acts, s. Gravity, inertia and momentum are
            predicted by this time. Without the prediction, joints that hardly move are pushed
            where the mass matrix is nearly singular.

    Args:
        tree: The robot with effort limits and rotor inertia.
        kernels: With ``inverse_dynamics`` and ``gravity_forces``; compiled from the tree if None.
        share: s, fraction of the effort not needed for gravity, in (0, 1].
        sampling: Sampling of the loop, with its delay.
        acting_effort: Returns the motor plus external effort during the delay, shape (n,), N m or
            N; None: unknown, and the present momentum is used.

    Cost: one inverse dynamics and about 15 us; allocates, since it acts only briefly.
    """

    def __init__(
        self,
        tree: RobotTree,
        kernels: KernelSet | None = None,
        share: float = 0.7,
        sampling: Sampling = CONTINUOUS,
        acting_effort: Callable[[], Array | None] = lambda: None,
    ) -> None:
        outputs = ('inverse_dynamics', 'gravity_forces')
        self._kernels: Any = kernels or compile_kernel(tree, outputs=outputs)
        self._share, self._terms = share, JointTerms.of(tree)
        period = sampling.period
        until = period * max(sampling.delay + 0.5, RATE_PER_DELAY / RATE_PER_PERIOD)
        self._rate = min(FASTEST_RATE, RATE_PER_DELAY / until) if until else FASTEST_RATE
        self._still, self._impulse = np.zeros(tree.n), np.zeros(tree.n)
        self._gravity, self._ahead = np.zeros(tree.n), np.zeros(tree.n)
        self.delay, self._acting_effort = sampling.delay * period, acting_effort
        self._end = self._rest_speed = 0.0

    def begin(self, t: float, q: Array, v: Array, limit: Array) -> None:
        """Start to brake at a state.

        Args:
            t: Time, s.
            q: Positions, shape (n,), rad or m.
            v: Velocities, shape (n,), rad/s or m/s.
            limit: Effort limits L, shape (n,), N m or N.
        """
        alpha = self._decay_rate(q, v, limit)
        self._rest_speed = _REST * float(np.abs(v).max())
        # At constant effort, the speed reaches 0 within 1/alpha; twice that suffices unless the
        # arm is pushed.
        self._end = t + 2.0 * (1.0 / alpha - math.log(_REST) / self._rate)

    def is_over(self, t: float, v: Array) -> bool:
        """Return whether the arm is at rest, or the time for braking has elapsed."""
        return t >= self._end or float(np.abs(v).max()) <= self._rest_speed

    def effort(self, q: Array, v: Array, limit: Array, out: Array) -> None:
        """Compute the efforts.

        Args:
            q: Positions, shape (n,), rad or m.
            v: Velocities, shape (n,), rad/s or m/s.
            limit: Effort limits L, shape (n,), N m or N.
            out: Receives the efforts, shape (n,), N m or N.
        """
        alpha = self._decay_rate(q, v, limit)
        out[:] = self._gravity - alpha * self._impulse

    def _decay_rate(self, q: Array, v: Array, limit: Array) -> float:
        """Return alpha, 1/s; updates gravity and momentum."""
        gravity, impulse, ahead = self._gravity, self._impulse, self._ahead
        np.multiply(v, self.delay, out=ahead)
        ahead += q
        self._kernels.gravity_forces(ahead, gravity)
        self._kernels.inverse_dynamics(ahead, self._still, v, impulse)  # M v + g
        impulse -= gravity
        impulse += self._terms.armature * v
        acting = self._acting_effort() if self.delay else None
        if acting is not None:
            impulse += self.delay * (acting - gravity - self._terms.friction(v, gravity))
        # Where gravity needs almost the whole limit, a tenth of the limit is used.
        room = np.maximum(limit - np.abs(gravity), 0.1 * limit)
        moving = np.abs(impulse) > 1e-12 * limit
        if not moving.any():
            return self._rate
        return min(self._rate, float((self._share * room[moving] / np.abs(impulse[moving])).min()))


class Stopping:
    """Computes the efforts of a stop action; a holding action brakes the arm first.

    Attributes:
        active: Whether the stop action acts instead of the law.
        acting_effort: Returns the motor plus external effort until the next command acts, shape
            (n,), N m or N; None: unknown.

    Args:
        state: The last measured state.
        limiter: Limiter with the motor limits and the counts of saturation.
    """

    def __init__(self, state: MeasuredState, limiter: EffortLimiter) -> None:
        self._state, self._limiter = state, limiter
        self.active = self._braked = False
        self.acting_effort: Callable[[], Array | None] = lambda: None

    def configure(
        self, tree: RobotTree, kernels: KernelSet, name: str, share: float, sampling: Sampling
    ) -> None:
        """Set action and brake; an active action, or braking, restarts at the present state.

        Args:
            tree: The robot.
            kernels: Its dynamics.
            name: Name of the stop action.
            share: See :class:`Braking`.
            sampling: Sampling of the loop.
        """
        self.action = StopAction(name, tree, kernels, sampling=sampling)
        self.brake = Braking(tree, kernels, share, sampling, lambda: self.acting_effort())
        if self.active:
            self.begin()
        else:
            self.begin_braking()

    def begin(self) -> None:
        """Start the action at the present position."""
        self.active, self._braked = True, False
        self.action.begin(self._state.q)
        self.begin_braking()

    def begin_braking(self) -> None:
        """Start to brake the present motion."""
        self.brake.begin(self._state.time, self._state.q, self._state.v, self._limiter.limits)

    def write(self, out: Array, share: Array, *, fresh: bool) -> None:
        """Compute the motor effort.

        Args:
            out: Receives the effort, shape (n,), N m or N.
            share: Effort added by the driver, shape (n,), N m or N; an action without gravity
                leaves the arm to it.
            fresh: Whether the state is current, so that feedback may be used.
        """
        state, brake, rule = self._state, self.brake, self.action.rule
        if not rule.gravity:
            out[:] = share
        elif fresh and rule.stiffness and not self._braked:
            brake.effort(state.q, state.v, self._limiter.limits, out)
            if brake.is_over(state.time, state.v):
                self._braked = True
                self.action.begin(state.q)
        else:
            self.action.effort(state.q, state.v, fresh, out)
