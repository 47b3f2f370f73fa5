# SPDX-License-Identifier: Apache-2.0
"""A safety filter with arrays of its own, for tests of limiter, guard and shared motors."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from robot_dynamics_ros.control.safety.limits import EffortLimiter
from robot_dynamics_ros.control.safety.shell import SafetyFilter


class SafeCommand:
    """Computes commands of a limiter, a guard and shared motors; without a guard, unguarded."""

    def __init__(self, limiter: Any = None, guard: Any = None, transmissions: Any = ()) -> None:
        n = len(guard.active) if limiter is None else len(limiter.limits)
        self.limiter = EffortLimiter(np.full(n, 1e300)) if limiter is None else limiter
        self.guarded = guard is not None
        none = SimpleNamespace(bounds=np.zeros((n + 12, n)), active=np.zeros(n))
        self.states, self.efforts = np.zeros((4, n)), np.zeros((2, n))
        arrays = tuple(self.states), tuple(self.efforts)
        self.filter = SafetyFilter(*arrays, self.limiter, guard or none, transmissions)
        self.command, self.zeros = np.zeros(n), np.zeros(n)

    def run(self, effort: Any, dt: float = 1e-3, share: Any = None, states: Any = 0.0) -> bool:
        """Compute a command; for an effort that is not finite, the last one, decaying."""
        share = self.zeros if share is None else np.asarray(share, dtype=float)
        self.states[:3], self.efforts[:] = states, (effort, self.zeros)
        self.states[3] = self.states[2]
        finite = self.filter.run(1.0, share, dt, self.command, guarded=self.guarded)
        if not finite:
            self.filter.run_decaying(share, dt, self.command)
        return finite
