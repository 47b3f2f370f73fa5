# SPDX-License-Identifier: Apache-2.0
r"""Bumpless transfer: another law, payload or setting acts without a jump of the command.

From one law to another, and from one payload to another, the effort is blended,

.. math:: \tau = \tau_{former} + s\,(\tau_{law} - \tau_{former}), \qquad s = 3x^2 - 2x^3,\quad
          x = (t - t_0)/T

Both efforts are those of the present state: an effort of another state or motion would act until
the end of the transfer. After it, and after each discontinuity that is not blended, the command
follows the effort of the law at a limited rate, see ``SLEW``, until it has equalled it for some
ticks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.safety.limits import EffortLimiter
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.spatial.scalar import Array

#: Rate limit of the command until it equals the effort of the law, in effort limits per s: after
#: another law, payload, setting, reference or external effort, and in a stop.
SLEW, STOP_SLEW = 50.0, 200.0


class TransferWeight(NamedTuple):
    """Weight s of what is new, from 0 to 1.

    Attributes:
        duration: T, s, not negative; 0: 1 at once.
        begin: t_0, s.
    """

    duration: float = 0.0
    begin: float = -math.inf

    def at(self, t: float) -> float:
        """Return the weight at a time, s."""
        if t >= self.begin + self.duration:
            return 1.0
        x = max(t - self.begin, 0.0) / self.duration
        return x * x * (3.0 - 2.0 * x)


class Transfer:
    """Effort of the former law, weight of the present one, and rate limit of the command.

    Attributes:
        effort: Effort of the former law at the present state, shape (n,), N m or N.
        former: The former law; None outside of a transfer.
        weight: Weight of the present law.

    Args:
        limiter: Limits of the command.
    """

    def __init__(self, limiter: EffortLimiter) -> None:
        self.effort, self.weight = np.zeros_like(limiter.motor), TransferWeight()
        self.former: ControlLaw | None = None
        self._limiter = limiter

    def start(self, t: float, duration: float, former: ControlLaw | None, urgent: bool) -> None:
        """Start at a time, s, from a law, if the present one is not urgent, which acts alone."""
        self.former, self.weight = None if urgent else former, TransferWeight(duration, t)
        self.limit_rate(STOP_SLEW if urgent else SLEW)

    def limit_rate(self, slew: float = SLEW) -> None:
        """Limit the rate of the command after a discontinuity, in effort limits per s."""
        self._limiter.soften(slew)

    def update(self, t: float, q: Array, v: Array, reference: Reference) -> float:
        """Update ``effort`` by the former law; return the weight of the present one."""
        assert self.former is not None
        weight = self.weight.at(t)
        if weight < 1.0:
            self.former.effort(t, q, v, reference, self.effort)
            if math.isfinite(sum(self.effort.tolist())):
                return weight
        self.former = None  # also if its effort would spoil that of the present law
        return 1.0
