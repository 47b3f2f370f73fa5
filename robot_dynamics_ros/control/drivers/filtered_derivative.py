# SPDX-License-Identifier: Apache-2.0
r"""Velocity from positions: a difference through a first-order low pass.

.. math:: w_k = \alpha w_{k-1} + (1-\alpha)\frac{x_k - x_{k-1}}{h_k}, \qquad
          \alpha = e^{-2\pi f_c h_k}

Where the velocity changes evenly, by a per second, the result is late by

.. math:: T = \frac{h}{2} + \frac{h\,\alpha}{1-\alpha}
            = \frac{1}{2\pi f_c} + O(2\pi f_c h^2),

half a step from the difference and the rest from the low pass: it is wrong by :math:`aT`. Without
the low pass (infinite cut-off) encoder steps of size s give velocity noise of the size s/h.
"""

from __future__ import annotations

import math

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.spatial.scalar import Array


class FilteredDerivative:
    """Differentiates samples that need not be evenly spaced.

    Attributes:
        value: The derivative, shape (n,), unit of the samples per s; 0 at a start.

    Args:
        n: Number of components.
        cutoff_hz: Cut-off frequency, Hz; infinite for the bare difference.
        longest_gap: Time between two samples beyond which the filter starts anew, s.

    Raises:
        ParameterError: The cut-off or the gap is not positive.
    """

    def __init__(self, n: int, cutoff_hz: float, longest_gap: float = 0.1) -> None:
        for name, value in (('cutoff_hz', cutoff_hz), ('longest_gap', longest_gap)):
            if not value > 0.0:
                raise ParameterError(name, value, 'must be positive')
        self._rate, self._longest = 2.0 * math.pi * cutoff_hz, longest_gap
        self.value: Array = np.zeros(n)
        self._last: Array = np.zeros(n)
        self._step: Array = np.zeros(n)
        self._time = math.nan

    def reset(self) -> None:
        """Forget what was: the next sample gives 0."""
        self._time = math.nan

    def update(self, t: float, x: Array) -> Array:
        """Take a sample and return the derivative: ``value`` itself, not a copy.

        Args:
            t: Its time, s. At the last one's time nothing changes; a time before that or after a
                gap starts the filter anew.
            x: The sample, shape (n,). One that is not finite is left out.

        Cost: about 3 us; allocates nothing.
        """
        step = t - self._time
        if step == 0.0 or not math.isfinite(x.sum()):
            return self.value
        if 0.0 < step <= self._longest:
            keep = math.exp(-self._rate * step)
            np.subtract(x, self._last, out=self._step)
            self._step *= (1.0 - keep) / step
            self.value *= keep
            self.value += self._step
        else:
            self.value.fill(0.0)
        self._last[:] = x
        self._time = t
        return self.value

    def delay(self, period: float) -> float:
        """Return by how much the result is late where the velocity changes evenly, s.

        Args:
            period: Time between two samples, s.
        """
        keep = math.exp(-self._rate * period)
        return 0.5 * period + period * keep / (1.0 - keep)
