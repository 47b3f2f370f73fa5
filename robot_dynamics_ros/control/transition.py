# SPDX-License-Identifier: Apache-2.0
"""What acts before a law, and less and less of it: after activation, or another law."""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.control.laws.control_law import ControlLaw, Reference
from robot_dynamics_ros.control.safety import ActivationRamp
from robot_dynamics_ros.spatial.scalar import Array


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
        self.effort: Array = np.zeros(n)
        self.ramp, self._offset = ActivationRamp(0.0), np.zeros(n)
        self.former: ControlLaw | None = None

    def begin(self, t: float, effort: Array, base: Array) -> None:
        """Begin at a time, s, with an effort, kept as what it is beyond a base, (n,) each."""
        np.subtract(effort, base, out=self._offset)
        self.ramp.start(t)

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
            base: At this state, see ``begin``.
        """
        if self.former is not None:
            self.former.effort(t, q, v, reference, self.effort)
        else:
            np.add(base, self._offset, out=self.effort)
