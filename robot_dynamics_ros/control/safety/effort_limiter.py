# SPDX-License-Identifier: Apache-2.0
"""The last gate before the motors: finite, within limit, no faster than the rate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from robot_dynamics_ros.control.laws.parameter_checks import number, per_joint
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.spatial.scalar import Array


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
        last: The last command, shape (n,), N m or N; read only for callers.
        saturated: Ticks in which each joint's effort was clipped, shape (n,).
        rate_limited: Ticks in which each joint's change was clipped, shape (n,).
        non_finite: Ticks in which each joint's effort was not finite, shape (n,).
        ticks: Commands written.
        motor_limit: Of command and driver's share together, N m or N: those of the constructor.

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
        self._limit = per_joint('effort_limit', limit, n, zero_allowed=False)
        self.motor_limit = list(self._limit)
        self.longest_step = number('longest_step', longest_step, positive=True)
        self.decay_time = number('decay_time', decay_time, positive=True)
        self._slew, self._soft = math.inf, [False] * n
        self.set_rate(rate)
        self.last: Array = np.zeros(n)
        self.saturated: Array = np.zeros(n, dtype=np.int64)
        self.rate_limited: Array = np.zeros(n, dtype=np.int64)
        self.non_finite: Array = np.zeros(n, dtype=np.int64)
        self.ticks = 0

    @property
    def limits(self) -> list[float]:
        """The largest magnitude of each joint, N m or N."""
        return self._limit

    def set_limit(self, limit: Any) -> None:
        """Change the limits, see the constructor; a lower one is reached at the rate limit."""
        self._limit = per_joint('effort_limit', limit, len(self._limit), zero_allowed=False)

    def set_rate(self, rate: Any) -> None:
        """Change the rate limit, see the constructor; infinite entries mean none."""
        n = len(self._limit)
        try:
            values = np.broadcast_to(np.asarray(rate, dtype=float), (n,))
        except (TypeError, ValueError):
            raise ParameterError('effort_rate_limit', rate, f'give one number or {n}') from None
        if not (values > 0.0).all():
            raise ParameterError('effort_rate_limit', rate, 'must be positive; .inf for none')
        self._rate: list[float] = values.tolist()

    def soften(self, slew: float) -> None:
        """Let what comes now come gently: no faster than ``slew`` until it has been reached.

        Args:
            slew: In parts of each limit per s.
        """
        self._slew, self._soft = slew, [True] * len(self._limit)

    def reset(self, effort: Array | None = None) -> None:
        """Set the last command, from which the rate counts: clipped to the limits, 0 if None.

        Args:
            effort: Shape (n,), N m or N; entries that are not finite count as 0.
        """
        start = [0.0] * len(self._limit) if effort is None else effort.tolist()
        for i, (x, limit) in enumerate(zip(start, self._limit, strict=True)):
            self.last[i] = min(max(x, -limit), limit) if math.isfinite(x) else 0.0

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
        wanted, last = effort.tolist(), self.last.tolist()
        finite = all(map(math.isfinite, wanted))
        if not finite:
            wanted = self._instead(wanted, last, dt, fallback)
        step = min(dt, self.longest_step) if dt > 0.0 else 0.0
        for i, (x, limit) in enumerate(zip(wanted, self._limit, strict=True)):
            if not -limit <= x <= limit:
                x = limit if x > 0.0 else -limit
                self.saturated[i] += 1
            if self._soft[i] or self._rate[i] != math.inf:
                x = self._slowed(i, x, last[i], step)
            if share is not None:
                x = self._within_sum(i, x, float(share[i]))
            self.last[i] = x
            out[i] = x
        self.ticks += 1
        return finite

    def _slowed(self, i: int, x: float, last: float, step: float) -> float:
        """Return what a joint may reach in a step."""
        rate, most = self._rate[i], self._slew * self._limit[i]
        soft = self._soft[i] and most < rate
        reach = min(rate, most) if soft else rate
        if reach == math.inf:
            return x
        reach = reach * step if step > 0.0 else 0.0
        if -reach <= x - last <= reach:
            self._soft[i] = False
            return x
        if not soft:
            self.rate_limited[i] += 1
        return last + (reach if x > last else -reach)

    def _within_sum(self, i: int, x: float, share: float) -> float:
        """Return a command that, with the driver's share, is within the motor's limit."""
        motor, most = self.motor_limit[i], self._limit[i]
        x = min(max(x, -motor - share), motor - share)
        return min(max(x, -most), most)

    def _instead(
        self, wanted: list[float], last: list[float], dt: float, fallback: Array | None
    ) -> list[float]:
        for i, x in enumerate(wanted):
            if not math.isfinite(x):
                self.non_finite[i] += 1
        if fallback is not None:
            other: list[float] = fallback.tolist()
            if all(map(math.isfinite, other)):
                return other
        keep = math.exp(-min(dt, self.longest_step) / self.decay_time) if dt > 0.0 else 1.0
        return [x * keep for x in last]
