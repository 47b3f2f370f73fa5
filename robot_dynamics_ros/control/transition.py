# SPDX-License-Identifier: Apache-2.0
"""Blending from the effort at activation, or from another law, to a law without a jump."""

from __future__ import annotations

import math

import numpy as np

from robot_dynamics_ros.control.laws.control_law import ControlLaw, Reference
from robot_dynamics_ros.control.laws.parameter_checks import number
from robot_dynamics_ros.spatial.scalar import Array


class ActivationRamp:
    r"""Weight of the law, :math:`s = 3x^2 - 2x^3` with :math:`x = (t - t_0)/T`.

    Both efforts in :math:`\tau_0 + s\,(\tau - \tau_0)` must be computed at the present state;
    an effort of another state or motion would act until the end of the ramp.

    Args:
        duration: T, s; 0: no ramp.

    Raises:
        ParameterError: The duration is negative or not finite.
    """

    def __init__(self, duration: float) -> None:
        self.duration = number('activation_ramp_s', duration)
        self._begin = -math.inf

    def start(self, t: float) -> None:
        """Start the ramp at a time, s, on the clock of ``share``."""
        self._begin = t

    def finish(self) -> None:
        """End the ramp: from now on the law acts alone."""
        self._begin = -math.inf

    def change(self, t: float, duration: float) -> None:
        """Change the duration, s, at a time, s; a ramp in progress continues from its weight."""
        x = (t - self._begin) / self.duration if self.duration > 0.0 else 1.0
        self.duration = number('activation_ramp_s', duration)
        self._begin = t - x * self.duration if x < 1.0 else -math.inf

    def share(self, t: float) -> float:
        """Return the weight of the law at a time, s: from 0 at the start to 1 after the ramp."""
        if self.duration == 0.0:
            return 1.0
        x = (t - self._begin) / self.duration
        if x >= 1.0:
            return 1.0
        return x * x * (3.0 - 2.0 * x) if x > 0.0 else 0.0


class Transition:
    """Provides the effort from which a law is blended in, see :class:`ActivationRamp`.

    Attributes:
        effort: Effort before the ramp, at the present state, shape (n,), N m or N.
        ramp: Weight of the new law.
        former: The previous law; None after activation.

    Args:
        n: Number of joints.
    """

    def __init__(self, n: int) -> None:
        self.effort = np.zeros(n)
        self.ramp, self._offset = ActivationRamp(0.0), np.zeros(n)
        self.former: ControlLaw | None = None

    def start(self, t: float) -> None:
        """Start the ramp at a time, s, from the stored effort, see ``set_offset``."""
        self.former = None
        self.ramp.start(t)

    def set_offset(self, effort: Array, base: Array) -> None:
        """Store the initial effort as an offset to a base effort, shape (n,) each, N m or N."""
        np.subtract(effort, base, out=self._offset)

    def start_from(self, t: float, former: ControlLaw) -> None:
        """Start the ramp at a time, s, from the previous law."""
        self.former = former
        self.ramp.start(t)

    def write(self, t: float, q: Array, v: Array, reference: Reference, base: Array) -> None:
        """Compute the effort before the ramp at a state into ``effort``.

        Args:
            t: Time, s.
            q: Positions, shape (n,), rad or m.
            v: Velocities, shape (n,), rad/s or m/s.
            reference: The joint reference.
            base: Base effort at this state, shape (n,), N m or N, see ``set_offset``.
        """
        if self.former is not None:
            self.former.effort(t, q, v, reference, self.effort)
        else:
            np.add(base, self._offset, out=self.effort)
