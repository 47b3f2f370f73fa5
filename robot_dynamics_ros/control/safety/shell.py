# SPDX-License-Identifier: Apache-2.0
"""Transfer between laws, joint-limit guard, driver's share and limiter as one compiled function.

The formulas of each step are in its own module. Here they are traced and compiled without fused
operations, so that the commands equal those of the interpreted formulas to the last bit.
Branch-free code cannot handle NaN: for non-finite inputs nothing is changed, and the caller uses
the interpreted version.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from robot_dynamics_ros.control.safety.limits import (
    EffortLimiter,
    GuardBounds,
    JointLimitGuard,
    LimiterBounds,
    LimiterState,
    confined_effort,
    for_each_joint,
    limited_effort,
)
from robot_dynamics_ros.spatial.scalar import Array, Scalar, select
from robot_dynamics_ros.symbolic.kernel import compile_function


class SafeShell:
    """Computes a safe command from the effort of a law; allocates nothing.

    Args:
        states: Positions, velocities and gravity forces, each of shape (n,); the arrays are stored
            and read in every tick.
        efforts: Effort of the law and of the former one, each of shape (n,), N m or N; the arrays
            are stored and read in every tick, the latter only during a transfer.
        limiter: Limiter with limits, last command and counts.
        guard: Joint-limit guard.
    """

    def __init__(
        self,
        states: tuple[Array, Array, Array],
        efforts: tuple[Array, Array],
        limiter: EffortLimiter,
        guard: JointLimitGuard,
    ) -> None:
        self._states, self._efforts = states, efforts
        self._limiter, self._guard, n = limiter, guard, len(states[0])
        self._numbers, self._sum = np.zeros(3), np.zeros(1)
        self._state, self._bounds = limiter.state.reshape(-1), limiter.bounds.reshape(-1)
        self._guard_bounds = guard.bounds.reshape(-1)
        self._new_state, self._new_active = np.zeros_like(self._state), np.zeros(n)
        # Copied as memory, in a third of the time of an assignment to arrays.
        kept_and_new = self._state, guard.active, self._new_state, self._new_active
        self._memory = [array.data for array in kept_and_new]
        size = len(self._state)
        sizes = {'q': n, 'v': n, 'gravity': n, 'desired': n, 'before': n, 'share': n, 'numbers': 3}
        tables = {
            'guard': guard.bounds.size,
            'active': n,
            'state': size,
            'bounds': limiter.bounds.size,
        }
        self._function = compile_function(
            'safe_shell',
            sizes | tables,
            {'command': (n,), 'new_state': (size,), 'new_active': (n,), 'sum': (1,)},
            shell_formulas,
            fused=False,
        )

    def run(self, ramp: float, share: Array, dt: float, out: Array) -> bool:
        """Compute a safe command.

        Args:
            ramp: Weight of the law, 0 to 1.
            share: Effort added by the driver, shape (n,), N m or N.
            dt: Time since the last command, s.
            out: Receives the command, shape (n,), N m or N.

        Returns:
            Whether all inputs were finite. If not, ``out`` is invalid and the rest is unchanged.
        """
        numbers, limiter = self._numbers, self._limiter
        numbers[0], numbers[1], numbers[2] = ramp, limiter.slew, limiter.step(dt)
        self._function(
            *self._states, *self._efforts, share, numbers,
            self._guard_bounds, self._guard.active, self._state, self._bounds,
            out, self._new_state, self._new_active, self._sum,
        )  # fmt: skip
        if not math.isfinite(self._sum.item()):
            return False
        state, active, new_state, new_active = self._memory
        state[:], active[:] = new_state, new_active
        limiter.ticks += 1
        return True

    def interpret(
        self, ramp: float, share: Array, dt: float, out: Array, fallback: Array | None = None
    ) -> None:
        """Compute a safe command from any efforts, step by step; changes the law's effort.

        Args:
            ramp: See :meth:`run`.
            share: See :meth:`run`.
            dt: See :meth:`run`.
            out: See :meth:`run`.
            fallback: Used if an effort is non-finite, see :class:`EffortLimiter`.
        """
        (desired, before), limiter = self._efforts, self._limiter
        desired[:] = for_each_joint(partial(blended, ramp), before, desired)
        self._guard.confine(*self._states, desired)
        limiter.limit(desired, dt, fallback, out, share)


def shell_formulas(
    q: Array,
    v: Array,
    gravity: Array,
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
        q: Positions, shape (n,).
        v: Velocities, shape (n,).
        gravity: Gravity forces, shape (n,).
        desired: Efforts of the law, shape (n,).
        before: Efforts before the ramp, shape (n,).
        share: Efforts added by the driver, shape (n,).
        numbers: Weight of the law, slew while soft, time since the last command.
        guard: Table of the guard's bounds.
        active: Counts of the guard, shape (n,).
        state: Table of the limiter's state.
        bounds: Table of the limiter's bounds.
    """
    n, (ramp, slew, step) = len(q), numbers
    tau = blended(ramp, before, desired)
    tau, counted = confined_effort(q, v, gravity, tau, GuardBounds(*guard.reshape(-1, n)))
    total = tau.sum(keepdims=True)
    old, limits = LimiterState(*state.reshape(-1, n)), LimiterBounds(*bounds.reshape(-1, n))
    new = limited_effort(tau, share, old, limits, slew=slew, step=step)
    return new.last, np.concatenate(new), active + counted, total


def blended(ramp: Scalar, before: Scalar, desired: Scalar) -> Scalar:
    """Return the blend of two efforts with weight ``ramp`` of the second."""
    return select(ramp, 1.0, before + ramp * (desired - before), desired)
