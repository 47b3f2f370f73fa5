# SPDX-License-Identifier: Apache-2.0
"""Limiter of effort and effort rate, the last step before the driver."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.laws.parameter_checks import number, per_joint
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.spatial.scalar import Array, Scalar, maximum, minimum, select


class EffortLimiter:
    r"""Converts any effort into a safe command, and counts the changes.

    * If any entry is non-finite, the whole effort is replaced by the fallback (the effort of the
      stop action). If the fallback is missing or non-finite, the last command decays by
      :math:`\tau_{last}\,e^{-dt/T}`.
    * Each joint is clipped to its limit.
    * Each joint changes by at most ``rate * dt`` since the last command. A non-positive or NaN dt
      permits no change; dt is clamped to ``longest_step``.
    * After ``soften``, each joint changes at a lower rate until it has reached the desired effort.
    * If a driver adds its own share, the sum is clipped to the motor's limit, after the rate.

    For any input, the command is finite and within the limits. The order (rate after limit) is
    safe because the last command is within the limits too, unless they have just been lowered.

    Attributes:
        non_finite: Number of ticks in which each joint's effort was non-finite, shape (n,).
        ticks: Number of commands.
        table: The rows of ``state``, concatenated; may be replaced.
        bounds: A column of ``LimiterBounds`` per joint, shape (3, n); the motor limits, for the
            sum of command and driver's share, are those of the constructor.
        bounds_table: The rows of ``bounds``, concatenated.
        slew: Rate set by ``soften``, as a multiple of each limit per s.

    Args:
        limit: Largest magnitude, shape (n,), N m or N; positive and finite.
        rate: Largest rate of change, one number or shape (n,), N m/s or N/s; infinite by default.
        longest_step: Largest dt of the rate limit, s.
        decay_time: Time constant T of the decay, s.

    Raises:
        ParameterError: A limit or rate is not positive, or a limit is not finite.
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
        """A column of ``LimiterState`` per joint, shape (4, n): a view of ``table``."""
        return self.table.reshape(len(LimiterState._fields), -1)

    @property
    def last(self) -> Array:
        """The last command, shape (n,), N m or N; read only."""
        return self.state[0]

    @property
    def saturated(self) -> Array:
        """Number of ticks in which each joint's effort was clipped, shape (n,)."""
        return self.state[2]

    @property
    def rate_limited(self) -> Array:
        """Number of ticks in which each joint's rate was limited, shape (n,)."""
        return self.state[3]

    @property
    def limits(self) -> Array:
        """Effort limit of each joint, shape (n,), N m or N."""
        return self.bounds[0]

    def set_limit(self, limit: Any) -> None:
        """Change the limits, see the constructor; a lower one is reached at the rate limit."""
        n = self.bounds.shape[1]
        self.bounds[0] = per_joint('effort_limit', limit, n, zero_allowed=False)

    def set_rate(self, rate: Any) -> None:
        """Change the rate limit, see the constructor; infinite entries mean no limit."""
        n = self.bounds.shape[1]
        try:
            values = np.broadcast_to(np.asarray(rate, dtype=float), (n,))
        except (TypeError, ValueError):
            raise ParameterError('effort_rate_limit', rate, f'give one number or {n}') from None
        if not (values > 0.0).all():
            raise ParameterError('effort_rate_limit', rate, 'must be positive; .inf for none')
        self.bounds[1] = values

    def soften(self, slew: float) -> None:
        """Limit the rate to ``slew`` until each joint has reached the desired effort.

        Args:
            slew: Rate, as a multiple of each limit per s.
        """
        self.slew = slew
        self.state[1] = 1.0

    def reset(self, effort: Array | None = None) -> None:
        """Set the last command for the rate limit, clipped to the effort limits.

        Args:
            effort: Shape (n,), N m or N; non-finite entries are replaced by 0; None: 0.
        """
        start = np.zeros_like(self.last) if effort is None else effort
        self.state[0] = np.clip(
            np.where(np.isfinite(start), start, 0.0), -self.limits, self.limits
        )

    def step(self, dt: float) -> float:
        """Return the time since the last command, s, clamped to 0 and ``longest_step``."""
        return min(dt, self.longest_step) if dt > 0.0 else 0.0

    def limit(
        self,
        effort: Array,
        dt: float,
        fallback: Array | None,
        out: Array,
        share: Array | None = None,
    ) -> bool:
        """Compute a safe command.

        Args:
            effort: Desired effort, shape (n,), N m or N; may contain any values.
            dt: Time since the last command, s.
            fallback: Used if an effort is non-finite, shape (n,); may be None or non-finite.
            out: Receives the command, shape (n,), N m or N; may be ``effort`` itself.
            share: Effort added by the driver, shape (n,), N m or N; None: none.

        Returns:
            Whether all efforts were finite.
        """
        invalid = ~np.isfinite(effort)
        self.non_finite += invalid
        finite, desired, step = not invalid.any(), effort, self.step(dt)
        if not finite and fallback is not None and np.isfinite(fallback).all():
            desired = fallback
        elif not finite:
            desired = self.last * math.exp(-step / self.decay_time)
        columns = zip(
            desired.tolist(),
            map(LimiterState._make, self.state.T.tolist()),
            map(LimiterBounds._make, self.bounds.T.tolist()),
            [None] * len(desired) if share is None else share.tolist(),
            strict=True,
        )
        limited = partial(limited_effort, slew=self.slew, step=step)
        self.state[:] = np.transpose([limited(*column) for column in columns])
        out[:] = self.last
        self.ticks += 1
        return finite


class LimiterBounds(NamedTuple):
    """Limits of joints, as numbers, symbols or arrays of them: command, its rate, motor effort."""

    limit: Scalar
    rate: Scalar
    motor: Scalar


class LimiterState(NamedTuple):
    """State of the limiter: numbers, symbols or arrays of them with an entry per joint.

    Attributes:
        last: The last command, N m or N.
        soft: 1 after ``soften`` until the desired effort has been reached, else 0.
        saturated, rate_limited: Numbers of ticks.
    """

    last: Scalar
    soft: Scalar
    saturated: Scalar
    rate_limited: Scalar


def limited_effort(
    x: Scalar,
    state: LimiterState,
    bounds: LimiterBounds,
    share: Scalar | None,
    *,
    slew: Scalar,
    step: Scalar,
) -> LimiterState:
    """Return the state of a joint after a tick; its ``last`` is the command.

    Args:
        x: Desired effort, N m or N; NaN gives NaN.
        state: State before the tick.
        bounds: Limits of the joint.
        share: Effort added by the driver, N m or N; None: none.
        slew: Rate while ``soft``, as a multiple of the limit per s.
        step: Time since the last command, s; not negative.
    """
    limit, last = bounds.limit, state.last
    clipped = minimum(maximum(x, -limit), limit)
    saturated = select(x, -limit, 1.0, select(limit, x, 1.0, 0.0))
    most = slew * limit
    softened = select(most, bounds.rate, state.soft, 0.0)
    rate = select(0.0, softened, most, bounds.rate)
    largest = select(0.0, step, rate * step, 0.0)
    change = clipped - last
    limited = last + select(last, clipped, largest, -largest)
    exceeds = select(change, -largest, 1.0, select(largest, change, 1.0, 0.0))
    finite = select(rate, math.inf, 1.0, 0.0)
    is_limited = exceeds * finite
    command = select(0.0, is_limited, limited, clipped)
    if share is not None:
        command = within_sum(command, bounds, share)
    return LimiterState(
        command,
        state.soft * select(0.0, finite, exceeds, 1.0),
        state.saturated + saturated,
        state.rate_limited + select(0.0, softened, 0.0, is_limited),
    )


def within_sum(x: Scalar, bounds: LimiterBounds, share: Scalar) -> Scalar:
    """Clamp a command so that its sum with the driver's share is within the motor's limit."""
    x = minimum(maximum(x, -bounds.motor - share), bounds.motor - share)
    return minimum(maximum(x, -bounds.limit), bounds.limit)
