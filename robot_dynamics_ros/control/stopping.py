# SPDX-License-Identifier: Apache-2.0
"""The stop action of a loop: what is commanded while its law does not act."""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.control.drivers.port import DriverCompensation
from robot_dynamics_ros.control.measured_state import MeasuredState
from robot_dynamics_ros.control.safety import Braking, EffortLimiter, StopAction
from robot_dynamics_ros.control.safety.shell import leave_to_driver
from robot_dynamics_ros.spatial.scalar import Array


class Stopping:
    """Computes the efforts of a stop action; one that holds brakes the arm first.

    Attributes:
        active: Whether it has begun and the law has not taken over again.

    Args:
        state: The last measured state.
        limiter: Holds the motors' limits, and counts what is cut.
    """

    def __init__(self, state: MeasuredState, limiter: EffortLimiter) -> None:
        self._state, self._limiter = state, limiter
        self._still = np.zeros_like(state.v)
        self.active = self._held = False

    def configure(
        self, action: StopAction, brake: Braking, driver: DriverCompensation | None
    ) -> None:
        """Take over the action, how it brakes before, and what a driver compensates by itself."""
        self.action, self.brake, self._driver = action, brake, driver

    def begin(self) -> None:
        """Begin where the arm is."""
        self.active, self._held = True, False
        self.action.begin(self._state.q)
        self.brake.begin(self._state.time, self._state.q, self._state.v, self._limiter.limits)

    def write(self, out: Array, *, fresh: bool) -> None:
        """Write what the driver is commanded, shape (n,), N m or N.

        Args:
            out: Written.
            fresh: Whether the state has just come, so that feedback may be used.
        """
        state, brake = self._state, self.brake
        if fresh and self.action.holds and not self._held:
            brake.effort(state.q, state.v, self._limiter.limits, out)
            if brake.over(state.time, state.v):
                self._held = True
                self.action.begin(state.q)
        else:
            self.action.effort(state.q, state.v, fresh, out)
        if self._driver is not None and self.action.of_motors:
            share = self._driver.update(state.q, state.v if fresh else self._still)
            leave_to_driver(out, share, self._limiter)
