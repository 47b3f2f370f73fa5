# SPDX-License-Identifier: Apache-2.0
"""An initial error faded out of the target, so that a program starts without a demand."""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array


def quintic_offset(value: Array, rate: Array, duration: float, t: float) -> tuple[Array, ...]:
    r"""Return an offset that leaves (value, rate, 0) and ends at rest at 0, with its rates.

    .. math:: o(t) = f_0\,(1-10x^3+15x^4-6x^5) + \dot f_0T\,x(1-x)^3(1+3x), \qquad x = t/T

    Args:
        value: :math:`f_0`, shape (m,).
        rate: :math:`\dot f_0`, shape (m,).
        duration: T, s, positive.
        t: Time since the start, s.

    Returns:
        New arrays o, its rate and its second rate, each of shape (m,).
    """
    x = min(max(t / duration, 0.0), 1.0)
    if x == 1.0:
        zero = np.zeros(len(value))
        return zero, zero, zero
    y = 1.0 - x
    a = (1.0 - x**3 * (10.0 - 15.0 * x + 6.0 * x * x), -30.0 * x * x * y * y)
    aa = -60.0 * x * y * (1.0 - 2.0 * x)
    # b = x (1 - x)^3 (1 + 3 x) = x - 6 x^3 + 8 x^4 - 3 x^5
    b = (x - 6.0 * x**3 + 8.0 * x**4 - 3.0 * x**5, 1.0 - 18.0 * x**2 + 32.0 * x**3 - 15.0 * x**4)
    bb = -36.0 * x + 96.0 * x**2 - 60.0 * x**3
    T = duration
    return (
        value * a[0] + rate * T * b[0],
        value * a[1] / T + rate * b[1],
        (value * aa / T + rate * bb) / T,
    )
