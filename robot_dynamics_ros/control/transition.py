# SPDX-License-Identifier: Apache-2.0
"""What acts before a law, and less and less of it: after activation, or another law.

From what acts at activation, or from another law, to the law without a jump.
"""

from __future__ import annotations

import math

import numpy as np

from robot_dynamics_ros.control.laws.control_law import ControlLaw, Reference
from robot_dynamics_ros.control.laws.parameter_checks import number
from robot_dynamics_ros.spatial.scalar import Array


class ActivationRamp:
    r"""How much of the law acts, :math:`s = 3x^2 - 2x^3` with :math:`x = (t - t_0)/T`.

    Both efforts that are blended, :math:`\tau_0 + s\,(\tau - \tau_0)`, are to be those of the
    present state: one that was right at another state, or for another motion, would be kept by
    the clock.

    Args:
        duration: T, s; 0 for none.

    Raises:
        ParameterError: The duration is negative or not finite.
    """

    def __init__(self, duration: float) -> None:
        self.duration = number('activation_ramp_s', duration)
        self._begin = -math.inf

    def start(self, t: float) -> None:
        """Begin at a time, s, on the clock that ``share`` will be given."""
        self._begin = t

    def finish(self) -> None:
        """Let the law act alone from now on."""
        self._begin = -math.inf

    def change(self, t: float, duration: float) -> None:
        """Change the duration, s, at a time, s; a ramp that is going on goes on from its share."""
        x = (t - self._begin) / self.duration if self.duration > 0.0 else 1.0
        self.duration = number('activation_ramp_s', duration)
        self._begin = t - x * self.duration if x < 1.0 else -math.inf

    def share(self, t: float) -> float:
        """Return how much of the law acts at a time: from 0 at the start to 1 after the ramp."""
        if self.duration == 0.0:
            return 1.0
        x = (t - self._begin) / self.duration
        if x >= 1.0:
            return 1.0
        return x * x * (3.0 - 2.0 * x) if x > 0.0 else 0.0


class Transition:
    """Goes over to a law, see :class:`ActivationRamp`.

    Attributes:
        effort: What acts before the law, at the present state, shape (n,), N m or N.
        ramp: How much of the law acts.
        former: The law that is left, if it is one.

    Args:
        n: Number of joints.
    """

    def __init__(self, n: int) -> None:
        self.effort = np.zeros(n)
        self.ramp, self._offset = ActivationRamp(0.0), np.zeros(n)
        self.former: ControlLaw | None = None

    def start(self, t: float) -> None:
        """Begin at a time, s, with the effort that was kept."""
        self.former = None
        self.ramp.start(t)

    def keep(self, effort: Array, base: Array) -> None:
        """Keep an effort to begin with, as what it is beyond a base, shape (n,) each."""
        np.subtract(effort, base, out=self._offset)

    def leave(self, t: float, former: ControlLaw) -> None:
        """Begin at a time, s, with another law."""
        self.former = former
        self.ramp.start(t)

    def write(self, t: float, q: Array, v: Array, reference: Reference, base: Array) -> None:
        """Write what acts before the law into ``effort``; arguments as of ``ControlLaw.effort``.

        Args:
            t: Time, s.
            q: Positions, shape (n,), rad or m.
            v: Velocities, shape (n,), rad/s or m/s.
            reference: The joint reference.
            base: At this state, see ``keep``.
        """
        if self.former is not None:
            self.former.effort(t, q, v, reference, self.effort)
        else:
            np.add(base, self._offset, out=self.effort)
