# SPDX-License-Identifier: Apache-2.0
r"""Laws that stop an arm: for timeouts, deactivation, errors, contacts, and the end of a motion.

``Zero``, ``Gravity``, ``Damping`` and ``HoldPosition`` are the stop actions: they may also act on
an old state, and then get it with zero velocity, so that all except ``Zero`` only balance gravity.
``Brake`` and ``Float`` need fresh states.

The brake removes energy from any motion,

.. math:: \tau = g - \alpha\,(M + J_a)\,v,

with the largest :math:`\alpha` that the effort limits permit, see ``docs/reliability.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.control.laws.control_law import inertia_of
from robot_dynamics_ros.control.laws.gravity_laws import GravityCompensation, GravityLaw
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.dynamics.joint_terms import JointTerms
from robot_dynamics_ros.dynamics.sampled_loop import CONTINUOUS, Sampling, largest_damping
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import KernelSet

#: Natural frequency of ``Damping`` and ``HoldPosition``, rad/s.
FREQUENCY = 10.0
#: Half of the damping of reaction float per inertia of each joint, rad/s.
_FLOAT_FREQUENCY = 2.5


class StopSettings(NamedTuple):
    """Settings of stop laws; each law uses some of them.

    Attributes:
        limits: Effort limits L of the loads, N m or N, not copied; those of the robot if None.
        share: s, fraction of the effort not needed for gravity that brakes, in (0, 1].
        sampling: Sampling of the loop, with its delay.
        acting_effort: Returns the motor plus external effort during the delay, shape (n,), N m or
            N; None: unknown, and the present momentum is used.
        driver_share: Returns the effort that the driver adds at a state, shape (n,), N m or N, to
            which :class:`Zero` leaves the arm; None: nothing.
        frequency: w0 of held positions, rad/s; see :func:`stop_gains`.
        loads: From efforts of the joints to those that are limited, shape (k, n); None: the same.
    """

    limits: Array | None = None
    share: float = 0.7
    sampling: Sampling = CONTINUOUS
    acting_effort: Callable[[], Array | None] = lambda: None
    driver_share: Callable[[Array, Array], Array] | None = None
    frequency: float = FREQUENCY
    loads: Array | None = None


class StopLaw(GravityLaw):
    """Base class of the stop actions; ignores the reference and external efforts.

    Attributes:
        settings: As given.

    Args:
        tree: The robot.
        kernels: With ``gravity_forces`` and ``inverse_dynamics``; compiled from the tree if None.
        settings: Settings; None: the defaults.
    """

    outputs = ('inverse_dynamics', 'gravity_forces')
    follows_reference = False
    urgent = True
    acts_on_old_states = True

    def __init__(
        self, tree: Robot, kernels: KernelSet | None = None, settings: StopSettings | None = None
    ) -> None:
        self.settings = settings or StopSettings()
        super().__init__(tree, kernels)

    def gains(self, q: Array, w: float) -> tuple[Array, Array]:
        """Return K and D for the inertia at a position, see :func:`stop_gains`. Allocates."""
        M = inertia_of(self.kernels.inverse_dynamics, self.tree, q)
        return stop_gains(M, self.settings.sampling, w)


class Zero(StopLaw):
    """No command: for arms with brakes, or whose driver holds them."""

    name = 'zero'

    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Compute the efforts for the coming period; see :class:`ControlLaw`."""
        share = self.settings.driver_share
        out[:] = 0.0 if share is None else share(q, v)


class Gravity(StopLaw):
    """Gravity compensation; the arm comes to rest by its own friction."""

    name = 'gravity'


class Damping(StopLaw):
    """Gravity and damping, ``g(q) - D v`` with ``D = 2 w0 m``."""

    name = 'damping'

    def add_terms(self, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Add the damping; see :class:`GravityLaw`."""
        out -= self.gains(q, FREQUENCY)[1] * v


def stop_gains(M: Array, sampling: Sampling, w: float) -> tuple[Array, Array]:
    """Return K and D, shape (n,), critically damped for the inertia of each joint.

    Args:
        M: Mass matrix plus armature, shape (n, n).
        sampling: Sampling of the loop.
        w: Natural frequency, rad/s; reduced to half of the largest stable damping, by the inertia
            that is left where the other joints yield.
    """
    inertia = np.diag(M)
    root = np.sqrt(inertia)
    yielding = np.linalg.eigvalsh(np.outer(root, root) * np.linalg.pinv(M, hermitian=True))
    w = min(w, largest_damping(sampling) / (4.0 * float(yielding[-1])))
    return inertia * (w * w), inertia * (2.0 * w)


#: Largest alpha, 1/s; largest part of the momentum that is removed in a period, and per time until
#: the effort has acted.
FASTEST_RATE, RATE_PER_PERIOD, RATE_PER_DELAY = 100.0, 0.1, 0.5
#: Fraction of the initial speed below which the arm is at rest.
_REST = 0.01
_TINY = 1e-12  # N m s or N s, avoids a division by 0
#: Factor of this speed from which it begins anew: derived velocities are 0 after a gap.
_FASTER = 1.5


class Brake(StopLaw):
    """Removes the momentum of the arm, and detects when it is at rest.

    Attributes:
        delay: Time from a state until its effort acts, s. Gravity, inertia and momentum are
            predicted by this time. Without the prediction, joints that hardly move are pushed
            where the mass matrix is nearly singular.

    Cost: one inverse dynamics and about 15 us; allocates, since it acts only briefly.
    """

    name = 'brake'
    acts_on_old_states = False

    def build(self) -> None:
        """Compute rate and delay; see :class:`ModelLaw`."""
        tree, settings, sampling = self.tree, self.settings, self.settings.sampling
        self._limits = tree.effort_limit if settings.limits is None else settings.limits
        self._loads = np.eye(tree.n) if settings.loads is None else settings.loads
        self._terms, period = JointTerms.of(tree), sampling.period
        cutoff = 2.0 * math.pi * sampling.velocity_cutoff_hz
        late = period * (sampling.delay + 0.5) + (cutoff and 1.0 / cutoff)
        until = max(late, period * RATE_PER_DELAY / RATE_PER_PERIOD)
        self._rate = min(FASTEST_RATE, RATE_PER_DELAY / until) if until else FASTEST_RATE
        self._still, self._impulse, self._gravity, self._ahead = np.zeros((4, tree.n))
        self.delay, self._speed = sampling.delay * period, 0.0

    def reset(self, t: float, q: Array, v: Array) -> None:
        """Start to brake at a state; see :class:`ControlLaw`."""
        alpha = self._decay_rate(q, v)
        self._begin, self._speed = t, float(np.abs(v).max())
        # At constant effort, the speed reaches 0 within 1/alpha; twice that suffices unless the
        # arm is pushed.
        self._end = t + 2.0 * (1.0 / alpha - math.log(_REST) / self._rate)

    def is_over(self, t: float, v: Array) -> bool:
        """Return whether the arm is at rest, or the time for braking has elapsed."""
        slow = float(np.abs(v).max()) <= _REST * self._speed
        return t >= self._end or (slow and t > self._begin)

    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Compute the efforts for the coming period; see :class:`ControlLaw`."""
        if float(np.abs(v).max()) > _FASTER * self._speed:
            self.reset(t, q, v)
        out[:] = self._gravity - self._decay_rate(q, v) * self._impulse

    def _decay_rate(self, q: Array, v: Array) -> float:
        """Return alpha, 1/s; updates gravity and momentum."""
        gravity, impulse, ahead = self._gravity, self._impulse, self._ahead
        np.multiply(v, self.delay, out=ahead)
        ahead += q
        self.kernels.gravity_forces(ahead, gravity)
        self.kernels.inverse_dynamics(ahead, self._still, v, impulse)  # M v + g
        impulse -= gravity
        impulse += self._terms.armature * v
        acting = self.settings.acting_effort() if self.delay else None
        share, limit = self.settings.share, self._limits
        if acting is not None:
            impulse += self.delay * (acting - gravity - self._terms.compensation(v, gravity))
        # Where gravity needs almost the whole limit, a tenth of the limit is used.
        room = np.maximum(limit - np.abs(self._loads @ gravity), 0.1 * limit)
        needed = np.maximum(np.abs(self._loads @ impulse), _TINY)
        return min(self._rate, float((share * room / needed).min()))


class HoldPosition(StopLaw):
    """Holds the position: ``g(q) + K (q_0 - q) - D v`` with ``K = w0^2 m``.

    Attributes:
        stiffness, damping: K and D, shape (n,).
    """

    name = 'hold'

    def hold_at(self, q: Array) -> None:
        """Hold a position, shape (n,), rad or m, from now on."""
        self._anchor = q.copy()
        self.stiffness, self.damping = self.gains(q, self.settings.frequency)

    def reset(self, t: float, q: Array, v: Array) -> None:
        """Hold the arm where it is; see :class:`ControlLaw`."""
        self.hold_at(q)

    def add_terms(self, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Add stiffness and damping; see :class:`GravityLaw`."""
        out += self.stiffness * (self._anchor - q) - self.damping * v


class Float(GravityCompensation):
    """Gravity compensation with damping as the reaction to a contact; ``damping`` is not used."""

    outputs = ('inverse_dynamics', 'gravity_forces')
    urgent = True

    def reset(self, t: float, q: Array, v: Array) -> None:
        """Fit the damping to a position; see :class:`ControlLaw`."""
        self.adapt(q)

    def adapt(self, q: Array) -> None:
        """Fit the damping to posture and load; see :class:`ControlLaw`."""
        M = inertia_of(self.kernels.inverse_dynamics, self.tree, q)
        _, self._damping = stop_gains(M, Sampling.of(self.parameters), _FLOAT_FREQUENCY)


STOP_ACTIONS: dict[str, type[StopLaw]] = {
    law.name: law for law in (Damping, Gravity, HoldPosition, Zero)
}
