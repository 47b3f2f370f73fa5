# SPDX-License-Identifier: Apache-2.0
"""Ramp, joint-limit guard, driver's share and limiter as one compiled function.

The formulas of each step are in its own module, written for scalars. Here they are traced joint by
joint and compiled without fused operations, so that the commands equal those of the interpreted
formulas to the last bit. Branch-free code cannot handle NaN: for non-finite inputs nothing is
changed, and the caller uses the interpreted version.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from robot_dynamics_ros.control.safety.effort_limiter import (
    EffortLimiter,
    LimiterBounds,
    LimiterState,
    limited_effort,
)
from robot_dynamics_ros.control.safety.joint_limit_guard import (
    GuardBounds,
    JointLimitGuard,
    confined_effort,
)
from robot_dynamics_ros.spatial.scalar import Array, Scalar, maximum, minimum, select
from robot_dynamics_ros.symbolic.kernel import compile_function

_GUARD, _STATE, _BOUNDS = (len(row._fields) for row in (GuardBounds, LimiterState, LimiterBounds))


class SafeShell:
    """Computes a safe command from the effort of a law; allocates nothing.

    Attributes:
        guard: Joint-limit guard; may be replaced.

    Args:
        states: Positions, velocities and gravity forces, each of shape (n,); the arrays are stored
            and read in every tick.
        efforts: Effort of the law and effort before the ramp, each of shape (n,), N m or N; the
            arrays are stored and read in every tick, the latter only during the ramp.
        limiter: Limiter with limits, last command and counts.
        guard: Joint-limit guard.
        driven: Whether a driver adds its own share.
    """

    def __init__(
        self,
        states: tuple[Array, Array, Array],
        efforts: tuple[Array, Array],
        limiter: EffortLimiter,
        guard: JointLimitGuard,
        *,
        driven: bool,
    ) -> None:
        self._states, self._efforts, self._driven = states, efforts, driven
        self._limiter, self.guard, n = limiter, guard, len(states[0])
        self._numbers, self._sum = np.zeros(3), np.zeros(1)
        self._state, self._active = np.zeros(_STATE * n), np.zeros(n)
        sizes = {'q': n, 'v': n, 'gravity': n, 'desired': n, 'before': n, 'share': n, 'numbers': 3}
        tables = {'guard': _GUARD * n, 'active': n, 'state': _STATE * n, 'bounds': _BOUNDS * n}
        self._function = compile_function(
            'safe_shell',
            sizes | tables,
            {'command': (n,), 'new_state': (_STATE * n,), 'new_active': (n,), 'sum': (1,)},
            lambda *inputs: shell_formulas(*inputs, driven=driven),
            fused=False,
        )

    def run(self, ramp: float, share: Array, dt: float, out: Array) -> bool:
        """Compute a safe command.

        Args:
            ramp: Weight of the law, 0 to 1.
            share: Effort added by the driver, shape (n,), N m or N; only read if ``driven``.
            dt: Time since the last command, s.
            out: Receives the command, shape (n,), N m or N.

        Returns:
            Whether all inputs were finite. If not, ``out`` is invalid and the rest is unchanged.
        """
        numbers, limiter, guard, active = self._numbers, self._limiter, self.guard, self._active
        numbers[0], numbers[1], numbers[2] = ramp, limiter.slew, limiter.step(dt)
        self._function(
            *self._states, *self._efforts, share, numbers,
            guard.table, guard.active, limiter.table, limiter.bounds_table,
            out, self._state, active, self._sum,
        )  # fmt: skip
        if not math.isfinite(self._sum.item()):
            return False
        self._state, limiter.table = limiter.table, self._state
        self._active, guard.active = guard.active, active
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
        for i, pair in enumerate(zip(before.tolist(), desired.tolist(), strict=True)):
            desired[i] = blended(*pair, ramp)
        self.guard.confine(*self._states, desired)
        if self._driven:
            subtract_driver_share(desired, share, limiter)
        limiter.limit(desired, dt, fallback, out, share if self._driven else None)


def subtract_driver_share(effort: Array, share: Array, limiter: EffortLimiter) -> None:
    """Convert the desired motor effort, clipped to the motor limits, into the driver's command.

    Args:
        effort: Motor effort, shape (n,), N m or N; changed in place.
        share: Effort added by the driver, shape (n,), N m or N.
        limiter: Limiter with the motor limits and the counts of saturation.
    """
    motor = limiter.bounds[2].tolist()
    for i, row in enumerate(zip(effort.tolist(), share.tolist(), motor, strict=True)):
        effort[i], clipped = without_driver_share(*row)
        limiter.saturated[i] += clipped == 1


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
    *,
    driven: bool,
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
        driven: Whether a driver adds ``share``.
    """
    n = len(q)
    tables = zip(
        guard.reshape(-1, n).T, state.reshape(-1, n).T, bounds.reshape(-1, n).T, strict=True
    )
    ramp, slew, step = numbers
    columns: list[LimiterState] = []
    counts: list[Scalar] = []
    total: Scalar = 0.0
    for i, (of_guard, of_state, of_bounds) in enumerate(tables):
        tau = blended(before[i], desired[i], ramp)
        tau, counted = confined_effort(q[i], v[i], gravity[i], tau, GuardBounds(*of_guard))
        total = total + tau
        old, limits = LimiterState(*of_state), LimiterBounds(*of_bounds)
        if driven:
            tau, clipped = without_driver_share(tau, share[i], limits.motor)
            old = old._replace(saturated=old.saturated + clipped)
        new = limited_effort(tau, old, limits, slew, step, share[i] if driven else None)
        columns.append(new)
        counts.append(active[i] + counted)
    rows = _array(columns).T
    return rows[0], rows.ravel(), _array(counts), _array([total])


def _array(values: Sequence[object]) -> Array:
    return np.array(values, dtype=object)


def blended(before: Scalar, desired: Scalar, ramp: Scalar) -> Scalar:
    """Return the blend of two efforts with weight ``ramp`` of the second."""
    return select(ramp, 1.0, before + ramp * (desired - before), desired)


def without_driver_share(tau: Scalar, share: Scalar, motor: Scalar) -> tuple[Scalar, Scalar]:
    """Return the clipped motor effort less the driver's share, and 1 if it was clipped, else 0."""
    within = minimum(maximum(tau, -motor), motor)
    return within - share, select(tau, -motor, 1.0, select(motor, tau, 1.0, 0.0))
