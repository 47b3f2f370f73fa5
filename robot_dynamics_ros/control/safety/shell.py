# SPDX-License-Identifier: Apache-2.0
"""Transfer between laws, joint-limit guard, driver's share and limits as one compiled function.

The formulas of each step are in its own module. They are compiled without fused operations, so
that results are the same on every machine, and for all commands: those of laws, of stop actions,
and of the fallback for an effort that is not finite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial, reduce

import numpy as np

from robot_dynamics_ros.control.drivers.transmission import Transmission
from robot_dynamics_ros.control.safety.limits import (
    DECAY_S,
    EffortLimiter,
    GuardBounds,
    JointLimitGuard,
    LimiterBounds,
    LimiterState,
    confined_effort,
    limited_effort,
    magnitude,
)
from robot_dynamics_ros.spatial.scalar import Array, Scalar, maximum, minimum, select
from robot_dynamics_ros.symbolic.kernel import Kernel, compile_function

_TINY = 1e-300  # N m or N, avoids a division by 0
_ROUNDED = 1.0 - 2.0**-50  # so that the product of a scaled command is within its limit too


class SafetyFilter:
    """Computes a safe command from any effort; allocates nothing.

    Args:
        states: Positions, velocities, gravity and bias forces, each of shape (n,); the arrays are
            stored and read in every tick.
        efforts: Effort of the law and of the former one, each of shape (n,), N m or N; the arrays
            are stored and read in every tick, the latter only during a transfer.
        limiter: Limiter with limits, last command and counts.
        guard: Joint-limit guard.
        transmissions: Joints that share motors: their commands are scaled until each motor's
            effort, with the driver's share, is within its limit.
    """

    def __init__(
        self,
        states: tuple[Array, Array, Array, Array],
        efforts: tuple[Array, Array],
        limiter: EffortLimiter,
        guard: JointLimitGuard,
        transmissions: Sequence[Transmission] = (),
    ) -> None:
        self._states, self._efforts = states, efforts
        self._limiter, self._guard, n = limiter, guard, len(states[0])
        self._numbers, self._sum = np.zeros(4), np.zeros(1)
        self._state, self._bounds = limiter.state.reshape(-1), limiter.bounds.reshape(-1)
        self._guard_bounds = guard.bounds.reshape(-1)
        self._new_state, self._new_active = np.zeros_like(self._state), np.zeros(n)
        # Copied as memory, in a third of the time of an assignment to arrays.
        kept_and_new = self._state, guard.active, self._new_state, self._new_active
        self._memory = [array.data for array in kept_and_new]
        self._function = _filter_function(tuple(transmissions), n)

    def run(
        self, weight: float, share: Array, dt: float, out: Array, *, guarded: bool = True
    ) -> bool:
        """Compute a safe command.

        Args:
            weight: Weight of the law, 0 to 1.
            share: Effort added by the driver, shape (n,), N m or N.
            dt: Time since the last command, s.
            out: Receives the command, shape (n,), N m or N; finite and within the limits.
            guarded: Whether the guard acts.

        Returns:
            Whether all efforts were finite. If not, ``out`` is not valid; the joints whose effort
            was not finite are counted, and nothing else has changed.
        """
        numbers, limiter = self._numbers, self._limiter
        step = min(dt, limiter.longest_step) if dt > 0.0 else 0.0
        numbers[0], numbers[1], numbers[2], numbers[3] = weight, limiter.slew, step, guarded
        self._function(
            *self._states, *self._efforts, share, numbers,
            self._guard_bounds, self._guard.active, self._state, self._bounds,
            out, self._new_state, self._new_active, self._sum,
        )  # fmt: skip
        if not math.isfinite(self._sum.item()):
            limiter.count_non_finite(self._efforts[0])
            return False
        state, active, new_state, new_active = self._memory
        state[:], active[:] = new_state, new_active
        return True

    def run_decaying(self, share: Array, dt: float, out: Array) -> None:
        r"""Compute :math:`\tau_{last}\,e^{-dt/T}` as a safe command, where :meth:`run` failed."""
        decay = math.exp(-self._numbers.item(2) / DECAY_S)
        self._efforts[0][:] = decay * self._limiter.last + share
        self.run(1.0, share, dt, out, guarded=False)


@lru_cache(maxsize=16)
def _filter_function(transmissions: tuple[Transmission, ...], n: int) -> Kernel:
    """Compile :func:`filter_formulas` for n joints."""
    return compile_function(
        partial(filter_formulas, transmissions),
        n,
        numbers=4,
        guard=n * (n + len(GuardBounds._fields)),
        state=n * len(LimiterState._fields),
        bounds=n * len(LimiterBounds._fields),
        fused=False,
    )


def filter_formulas(
    transmissions: Sequence[Transmission],
    q: Array,
    v: Array,
    gravity: Array,
    bias: Array,
    desired: Array,
    before: Array,
    share: Array,
    numbers: Array,
    guard: Array,
    active: Array,
    state: Array,
    bounds: Array,
) -> tuple[Array, Array, Array, Array]:
    """Return command, limiter state, guard counts, and the sum of efforts as a test for NaN.

    Args:
        transmissions: Joints that share motors.
        q: Positions, shape (n,).
        v: Velocities, shape (n,).
        gravity: Gravity forces, shape (n,).
        bias: The same with velocity products, shape (n,).
        desired: Efforts of the law, shape (n,).
        before: Efforts before the transfer, shape (n,).
        share: Efforts added by the driver, shape (n,).
        numbers: Weight of the law, slew while soft, time since the last command, 1 if guarded.
        guard: Table of the guard's bounds.
        active: Counts of the guard, shape (n,).
        state: Table of the limiter's state.
        bounds: Table of the limiter's bounds.
    """
    n, (weight, slew, step, guarded) = len(q), numbers
    tau = blended(weight, before, desired)
    confined, counted = confined_effort(q, v, gravity, bias, tau, guard.reshape(-1, n))
    tau, counted = select(guarded, 0.5, tau, confined), select(guarded, 0.5, 0.0, counted)
    total = tau.sum(keepdims=True)
    old, limits = LimiterState(*state.reshape(-1, n)), LimiterBounds(*bounds.reshape(-1, n))
    new = limited_effort(tau, share, old, limits, slew=slew, step=step)
    for one in transmissions:
        new = new._replace(last=within_motors(one, new.last, share))
    return new.last, np.concatenate(new), active + counted, total


def blended(weight: Scalar, before: Scalar, desired: Scalar) -> Scalar:
    """Return the blend of two efforts with ``weight`` of the second."""
    return select(weight, 1.0, before + weight * (desired - before), desired)


def within_motors(one: Transmission, command: Array, share: Array) -> Array:
    """Return a command, scaled at the joints that share motors until those are within limits.

    Args:
        one: The joints that share motors.
        command: Commanded efforts, shape (n,), N m or N.
        share: Efforts added by the driver, shape (n,), N m or N.

    Returns:
        Shape (n,); 0 at these joints if the share alone exceeds a limit.
    """
    motors = one.matrix.T @ command[one.places]
    own = one.matrix.T @ share[one.places]
    room = _ROUNDED * one.limit - maximum(select(0.0, motors, own, -own), 0.0)
    factors = maximum(room, 0.0) / maximum(magnitude(motors), _TINY)
    scaled = command.copy()
    scaled[one.places] = reduce(minimum, factors, 1.0) * command[one.places]
    return scaled
