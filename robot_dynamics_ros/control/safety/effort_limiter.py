# SPDX-License-Identifier: Apache-2.0
"""The last gate before the motors: finite, within limit, no faster than the rate."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.laws.parameter_checks import number, per_joint
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.spatial.scalar import Array, Scalar, maximum, minimum, select


class EffortLimiter:
    r"""Makes a safe command of whatever arrives, and counts what it had to change.

    * A command with any non-finite entry is not trusted as a whole. The fallback (the stop
      action's effort) takes its place; if that is missing or not finite either, the last command
      decayed, :math:`\tau_{last}\,e^{-dt/T}`.
    * Each joint is clipped to its limit.
    * Each joint changes by at most ``rate * dt`` since the last command. A dt that is not
      positive and finite allows no change; one above ``longest_step`` counts as that.
    * After ``soften`` each joint changes slowly until it has caught up with what is wanted.
    * Where a driver adds a share of its own, the sum is clipped to the limit, after the rate.

    Whatever arrives, the written command is finite and within the limits. The order (rate after
    limit) loses nothing, for the last command is within the limits too, unless they have just been
    lowered.

    Attributes:
        non_finite: Ticks in which each joint's effort was not finite, shape (n,).
        ticks: Commands written.
        table: The rows of ``state``, one after the other; may be replaced.
        bounds: A column of ``LimiterBounds`` for each joint, shape (3, n); the motor's, which are
            of command and driver's share together, are those of the constructor.
        bounds_table: Its rows, one after the other.
        slew: Of ``soften``.

    Args:
        limit: Largest magnitude, shape (n,), N m or N; positive and finite.
        rate: Largest change, one number or shape (n,), N m/s or N/s; infinite by default.
        longest_step: Longest step that the rate limit counts, s.
        decay_time: Time constant T of the decay, s.

    Raises:
        ParameterError: A limit or rate is not positive, or a limit not finite.
    """

    def __init__(
        self,
        limit: Any,
        rate: Any = math.inf,
        longest_step: float = 0.1,
        decay_time: float = 0.1,
    ) -> None:
        n = int(np.size(limit))
        self.bounds = np.zeros((len(LimiterBounds._fields), n))
        self.bounds_table = self.bounds.reshape(-1)
        self.set_limit(limit)
        self.bounds[2] = self.limits
        self.longest_step = number('longest_step', longest_step, positive=True)
        self.decay_time = number('decay_time', decay_time, positive=True)
        self.slew = math.inf
        self.set_rate(rate)
        self.table = np.zeros(len(LimiterState._fields) * n)
        self.non_finite = np.zeros(n)
        self.ticks = 0

    @property
    def state(self) -> Array:
        """A column of ``LimiterState`` for each joint, shape (4, n): a view of ``table``."""
        return self.table.reshape(len(LimiterState._fields), -1)

    @property
    def last(self) -> Array:
        """The last command, shape (n,), N m or N; read only for callers."""
        return self.state[0]

    @property
    def saturated(self) -> Array:
        """Ticks in which each joint's effort was clipped, shape (n,)."""
        return self.state[2]

    @property
    def rate_limited(self) -> Array:
        """Ticks in which each joint's change was clipped, shape (n,)."""
        return self.state[3]

    @property
    def limits(self) -> Array:
        """The largest magnitude of each joint, shape (n,), N m or N."""
        return self.bounds[0]

    def set_limit(self, limit: Any) -> None:
        """Change the limits, see the constructor; a lower one is reached at the rate limit."""
        n = self.bounds.shape[1]
        self.bounds[0] = per_joint('effort_limit', limit, n, zero_allowed=False)

    def set_rate(self, rate: Any) -> None:
        """Change the rate limit, see the constructor; infinite entries mean none."""
        n = self.bounds.shape[1]
        try:
            values = np.broadcast_to(np.asarray(rate, dtype=float), (n,))
        except (TypeError, ValueError):
            raise ParameterError('effort_rate_limit', rate, f'give one number or {n}') from None
        if not (values > 0.0).all():
            raise ParameterError('effort_rate_limit', rate, 'must be positive; .inf for none')
        self.bounds[1] = values

    def soften(self, slew: float) -> None:
        """Let what comes now come gently: no faster than ``slew`` until it has been reached.

        Args:
            slew: In parts of each limit per s.
        """
        self.slew = slew
        self.state[1] = 1.0

    def reset(self, effort: Array | None = None) -> None:
        """Set the last command, from which the rate counts: clipped to the limits, 0 if None.

        Args:
            effort: Shape (n,), N m or N; entries that are not finite count as 0.
        """
        start = np.zeros_like(self.last) if effort is None else effort
        self.state[0] = np.clip(
            np.where(np.isfinite(start), start, 0.0), -self.limits, self.limits
        )

    def step(self, dt: float) -> float:
        """Return the time that counts of a time since the last command, s."""
        return min(dt, self.longest_step) if dt > 0.0 else 0.0

    def limit(
        self,
        effort: Array,
        dt: float,
        fallback: Array | None,
        out: Array,
        share: Array | None = None,
    ) -> bool:
        """Write a safe command.

        Args:
            effort: What the law wants, shape (n,), N m or N; anything may be in it.
            dt: Time since the last command, s.
            fallback: Used if an effort is not finite, shape (n,); may be None or not finite.
            out: Written, shape (n,), N m or N; may be ``effort`` itself.
            share: What the driver adds by itself, shape (n,), N m or N; None: nothing.

        Returns:
            Whether all efforts were finite.
        """
        wanted = effort.tolist()
        finite = all(map(math.isfinite, wanted))
        if not finite:
            wanted = self._instead(wanted, dt, fallback)
        step, slew, states = self.step(dt), self.slew, self.state
        for i, x in enumerate(wanted):
            state = LimiterState(*states[:, i].tolist())
            bounds = LimiterBounds(*self.bounds[:, i].tolist())
            own = None if share is None else float(share[i])
            states[:, i] = limited_effort(x, state, bounds, slew, step, own)
        out[:] = self.last
        self.ticks += 1
        return finite

    def _instead(self, wanted: list[float], dt: float, fallback: Array | None) -> list[float]:
        for i, x in enumerate(wanted):
            if not math.isfinite(x):
                self.non_finite[i] += 1
        if fallback is not None:
            other: list[float] = fallback.tolist()
            if all(map(math.isfinite, other)):
                return other
        keep = math.exp(-min(dt, self.longest_step) / self.decay_time) if dt > 0.0 else 1.0
        return [x * keep for x in self.last.tolist()]


class LimiterBounds(NamedTuple):
    """Bounds of a joint, numbers or symbols: effort, its rate, and effort of the motor."""

    limit: Scalar
    rate: Scalar
    motor: Scalar


class LimiterState(NamedTuple):
    """What the limiter remembers of a joint: numbers, or symbols.

    Attributes:
        last: The last command, N m or N.
        soft: 1 until what is wanted has been reached, else 0.
        saturated, rate_limited: Counts.
    """

    last: Scalar
    soft: Scalar
    saturated: Scalar
    rate_limited: Scalar


def limited_effort(
    x: Scalar,
    state: LimiterState,
    bounds: LimiterBounds,
    slew: Scalar,
    step: Scalar,
    share: Scalar | None,
) -> LimiterState:
    """Return the state of a joint after a command, whose ``last`` is the command.

    Args:
        x: What is wanted, N m or N; what is not a number gives no numbers.
        state: Before.
        bounds: Of the joint.
        slew: In parts of the limit per s, while it is soft.
        step: Time since the last command, s; not negative.
        share: What the driver adds by itself, N m or N; None: nothing.
    """
    limit, last = bounds.limit, state.last
    clipped = minimum(maximum(x, -limit), limit)
    saturated = select(x, -limit, 1.0, select(limit, x, 1.0, 0.0))
    most = slew * limit
    gentle = select(most, bounds.rate, state.soft, 0.0)
    reach = select(0.0, gentle, most, bounds.rate)
    way = select(0.0, step, reach * step, 0.0)
    change = clipped - last
    there = last + select(last, clipped, way, -way)
    beyond = select(change, -way, 1.0, select(way, change, 1.0, 0.0))
    bounded = select(reach, math.inf, 1.0, 0.0)
    slowed = beyond * bounded
    command = select(0.0, slowed, there, clipped)
    if share is not None:
        command = within_sum(command, bounds, share)
    return LimiterState(
        command,
        state.soft * select(0.0, bounded, beyond, 1.0),
        state.saturated + saturated,
        state.rate_limited + select(0.0, gentle, 0.0, slowed),
    )


def within_sum(x: Scalar, bounds: LimiterBounds, share: Scalar) -> Scalar:
    """Return a command that, with the driver's share, is within the motor's limit."""
    x = minimum(maximum(x, -bounds.motor - share), bounds.motor - share)
    return minimum(maximum(x, -bounds.limit), bounds.limit)
