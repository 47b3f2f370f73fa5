# SPDX-License-Identifier: Apache-2.0
r"""Velocities from positions: finite differences with a first-order low pass.

.. math:: w_k = \alpha w_{k-1} + (1-\alpha)\frac{x_k - x_{k-1}}{h_k}, \qquad
          \alpha = e^{-2\pi f_c h_k}

For a constant acceleration a, the result is delayed by

.. math:: T = \frac{h}{2} + \frac{h\,\alpha}{1-\alpha}
            = \frac{1}{2\pi f_c} + O(2\pi f_c h^2),

half a step from the difference and the rest from the low pass; its error is :math:`aT`. Without
the low pass (infinite cut-off), encoder steps of size s cause velocity noise of size s/h.
"""

from __future__ import annotations

import math

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.spatial.scalar import Array


class FilteredDerivative:
    """Filtered derivative of samples with any spacing.

    Attributes:
        value: The derivative, shape (n,), unit of the samples per s; 0 after a start.

    Args:
        n: Number of components.
        cutoff_hz: Cut-off frequency, Hz; infinite: no low pass.
        longest_gap: Longest time between two samples, s; after a longer one, the filter restarts.

    Raises:
        ParameterError: The cut-off or the gap is not positive.
    """

    def __init__(self, n: int, cutoff_hz: float, longest_gap: float = 0.1) -> None:
        for name, value in (('cutoff_hz', cutoff_hz), ('longest_gap', longest_gap)):
            if not value > 0.0:
                raise ParameterError(name, value, 'must be positive')
        self._rate, self._longest_gap = 2.0 * math.pi * cutoff_hz, longest_gap
        self.value = np.zeros(n)
        self._last = np.zeros(n)
        self._step = np.zeros(n)
        self.restart()

    def restart(self) -> None:
        """Start with the next sample, whenever and wherever it is."""
        self._time = math.nan

    def update(self, t: float, x: Array) -> Array:
        """Process a sample and return the derivative: ``value`` itself, not a copy.

        Args:
            t: Its time, s. A duplicate time has no effect; an earlier time or a gap restarts the
                filter.
            x: The sample, shape (n,); ignored if non-finite.

        Cost: about 3 us; allocates nothing.
        """
        step = t - self._time
        if step == 0.0 or not math.isfinite(x.sum()):
            return self.value
        if 0.0 < step <= self._longest_gap:
            decay = math.exp(-self._rate * step)
            np.subtract(x, self._last, out=self._step)
            self._step *= (1.0 - decay) / step
            self.value *= decay
            self.value += self._step
        else:
            self.value.fill(0.0)
        self._last[:] = x
        self._time = t
        return self.value

    def delay(self, period: float) -> float:
        """Return the delay of the result at constant acceleration, s.

        Args:
            period: Time between two samples, s.
        """
        decay = math.exp(-self._rate * period)
        return 0.5 * period + period * decay / (1.0 - decay)
