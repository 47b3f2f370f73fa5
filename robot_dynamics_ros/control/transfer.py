# SPDX-License-Identifier: Apache-2.0
r"""Transfer from one law to another, and from one payload to another, without a jump.

.. math:: \tau = \tau_{former} + s\,(\tau_{law} - \tau_{former}), \qquad s = 3x^2 - 2x^3,\quad
          x = (t - t_0)/T

Both efforts are those of the present state: an effort of another state or motion would act until
the end of the transfer.
"""

from __future__ import annotations

import math

import numpy as np

from robot_dynamics_ros.control.laws.control_law import ControlLaw
from robot_dynamics_ros.control.trajectories.trajectory import Reference
from robot_dynamics_ros.spatial.scalar import Array


class TransferWeight:
    """Weight s of what is new, from 0 to 1.

    Args:
        duration: T, s, not negative; 0: 1 at once.
    """

    def __init__(self, duration: float = 0.0) -> None:
        self.duration = duration
        self._begin = -math.inf

    def start(self, t: float) -> None:
        """Start at a time, s, on the clock of ``at``."""
        self._begin = t

    def finish(self) -> None:
        """End: from now on the weight is 1."""
        self._begin = -math.inf

    def change(self, t: float, duration: float) -> None:
        """Change the duration, s, at a time, s; a transfer in progress continues from there."""
        x = (t - self._begin) / self.duration if self.duration > 0.0 else 1.0
        self.duration = duration
        self._begin = t - x * self.duration if x < 1.0 else -math.inf

    def at(self, t: float) -> float:
        """Return the weight at a time, s."""
        if self.duration == 0.0:
            return 1.0
        x = (t - self._begin) / self.duration
        if x >= 1.0:
            return 1.0
        return x * x * (3.0 - 2.0 * x) if x > 0.0 else 0.0


class Transfer:
    """Effort of the former law and weight of the present one.

    Attributes:
        effort: Effort of the former law at the present state, shape (n,), N m or N.
        former: The former law; None outside of a transfer.
        weight: Weight of the present law.

    Args:
        n: Number of joints.
    """

    def __init__(self, n: int) -> None:
        self.effort, self.weight = np.zeros(n), TransferWeight()
        self.former: ControlLaw | None = None

    def start(self, t: float, former: ControlLaw | None) -> None:
        """Start at a time, s, from a law; None: the present law acts alone at once."""
        self.former = former
        self.weight.start(t)

    def update(self, t: float, q: Array, v: Array, reference: Reference) -> float:
        """Update ``effort`` by the former law; return the weight of the present one."""
        assert self.former is not None
        weight = self.weight.at(t)
        if weight == 1.0:
            self.former = None
        else:
            self.former.effort(t, q, v, reference, self.effort)
        return weight
