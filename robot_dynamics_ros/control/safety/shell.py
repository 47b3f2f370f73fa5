# SPDX-License-Identifier: Apache-2.0
"""Ramp, joint-limit guard, driver's share and limiter as one compiled function.

Each is written once, over scalars, in its own module. Here they are run once on recording scalars,
joint by joint, and what that leaves is compiled, without a rounding saved: the commands are those
of the same formulas on floats, to the last bit. What is not a number has no place in code without
branches; then nothing is taken over, and the caller goes on with the pieces.
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
    """Leads what a law wants to a command that is safe; allocates nothing.

    Attributes:
        guard: Confines efforts near the joint limits; may be replaced.

    Args:
        states: Positions, velocities, and gravity forces there, each of shape (n,); kept, and read
            in every tick, as are the efforts.
        efforts: Those of the law, and what the ramp goes over from, N m or N, each of shape (n,);
            the latter is not looked at after the ramp.
        limiter: Holds bounds, last command and counts.
        guard: As above.
        driven: Whether a driver adds a share of its own.
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
        sizes = {'q': n, 'v': n, 'gravity': n, 'wanted': n, 'before': n, 'share': n, 'numbers': 3}
        tables = {'guard': _GUARD * n, 'active': n, 'state': _STATE * n, 'bounds': _BOUNDS * n}
        self._function = compile_function(
            'safe_shell',
            sizes | tables,
            {'command': (n,), 'new_state': (_STATE * n,), 'new_active': (n,), 'sum': (1,)},
            lambda *inputs: shell_formulas(*inputs, driven=driven),
            fused=False,
        )

    def run(self, ramp: float, share: Array, dt: float, out: Array) -> bool:
        """Write a safe command.

        Args:
            ramp: Part of the law that acts.
            share: What the driver adds by itself, shape (n,); not looked at if nothing.
            dt: Time since the last command, s.
            out: Written, shape (n,), N m or N.

        Returns:
            Whether all was finite. If not, nothing but ``out`` has changed, which is of no use.
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
        """Do the same piece by piece, whatever is in the efforts; those of the law are changed.

        Args:
            ramp: See :meth:`run`, as the others.
            share: As above.
            dt: As above.
            out: As above.
            fallback: Commanded if an effort is not finite, see :class:`EffortLimiter`.
        """
        (wanted, before), limiter = self._efforts, self._limiter
        for i, pair in enumerate(zip(before.tolist(), wanted.tolist(), strict=True)):
            wanted[i] = blended(*pair, ramp)
        self.guard.confine(*self._states, wanted)
        if self._driven:
            leave_to_driver(wanted, share, limiter)
        limiter.limit(wanted, dt, fallback, out, share if self._driven else None)


def leave_to_driver(effort: Array, share: Array, limiter: EffortLimiter) -> None:
    """Turn what the motors shall give, within their limits, into the command of the driver.

    Args:
        effort: Changed, shape (n,), N m or N.
        share: What the driver adds by itself, likewise.
        limiter: Holds the motors' limits, and counts what is cut.
    """
    motor = limiter.bounds[2].tolist()
    for i, row in enumerate(zip(effort.tolist(), share.tolist(), motor, strict=True)):
        effort[i], clipped = left_to_driver(*row)
        limiter.saturated[i] += clipped == 1


def shell_formulas(
    q: Array,
    v: Array,
    gravity: Array,
    wanted: Array,
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
    """Return command, state and counts after it, and the sum of what was wanted: see above.

    Args:
        q: Positions, shape (n,).
        v: Velocities.
        gravity: Gravity forces.
        wanted: Efforts of the law.
        before: What the ramp goes over from.
        share: What the driver adds.
        numbers: Part of the law, slew while soft, time since the last command.
        guard: Table of the guard.
        active: Its counts.
        state: Table of the limiter's state.
        bounds: Table of its bounds.
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
        tau = blended(before[i], wanted[i], ramp)
        tau, counted = confined_effort(q[i], v[i], gravity[i], tau, GuardBounds(*of_guard))
        total = total + tau
        old, limits = LimiterState(*of_state), LimiterBounds(*of_bounds)
        if driven:
            tau, clipped = left_to_driver(tau, share[i], limits.motor)
            old = old._replace(saturated=old.saturated + clipped)
        new = limited_effort(tau, old, limits, slew, step, share[i] if driven else None)
        columns.append(new)
        counts.append(active[i] + counted)
    rows = _array(columns).T
    return rows[0], rows.ravel(), _array(counts), _array([total])


def _array(values: Sequence[object]) -> Array:
    return np.array(values, dtype=object)


def blended(before: Scalar, wanted: Scalar, ramp: Scalar) -> Scalar:
    """Return what acts of two efforts while a part of the second one does."""
    return select(ramp, 1.0, before + ramp * (wanted - before), wanted)


def left_to_driver(tau: Scalar, share: Scalar, motor: Scalar) -> tuple[Scalar, Scalar]:
    """Return what is left to be commanded of an effort within the motor's limit, and 1 if cut."""
    within = minimum(maximum(tau, -motor), motor)
    return within - share, select(tau, -motor, 1.0, select(motor, tau, 1.0, 0.0))
