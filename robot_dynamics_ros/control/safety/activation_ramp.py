# SPDX-License-Identifier: Apache-2.0
"""From the effort at activation to the law's, without a jump."""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.control.laws.parameter_checks import number
from robot_dynamics_ros.spatial.scalar import Array


class ActivationRamp:
    r"""Blends an initial effort into the law's, :math:`\tau_0 + s\,(\tau - \tau_0)`.

    :math:`s = 3x^2 - 2x^3`, :math:`x = (t - t_0)/T`: continuous with its first derivative. The
    initial effort is what already acts: what the drives measure, gravity, or zero.

    Args:
        n: Number of joints.
        duration: T, s; 0 for none.

    Raises:
        ParameterError: The duration is negative or not finite.
    """

    def __init__(self, n: int, duration: float) -> None:
        self.duration = number('activation_ramp_s', duration)
        self._initial: Array = np.zeros(n)
        self._begin = -np.inf

    def start(self, t: float, initial: Array) -> None:
        """Begin at a time from an effort; entries that are not finite count as 0.

        Args:
            t: Time, s, on the clock that ``blend`` will be given.
            initial: Shape (n,), N m or N; copied.
        """
        self._begin = t
        self._initial[:] = np.where(np.isfinite(initial), initial, 0.0)

    def share(self, t: float) -> float:
        """Return how much of the law acts at a time: from 0 at the start to 1 after the ramp."""
        if self.duration == 0.0:
            return 1.0
        x = (t - self._begin) / self.duration
        if x >= 1.0:
            return 1.0
        return x * x * (3.0 - 2.0 * x) if x > 0.0 else 0.0

    def blend(self, t: float, effort: Array) -> float:
        """Change the law's effort in place to the blended one, and return the law's share.

        Args:
            t: Time, s.
            effort: The law's effort, shape (n,), N m or N; overwritten.
        """
        s = self.share(t)
        if s < 1.0:
            for i, (start, x) in enumerate(
                zip(self._initial.tolist(), effort.tolist(), strict=True)
            ):
                effort[i] = start + s * (x - start)
        return s
