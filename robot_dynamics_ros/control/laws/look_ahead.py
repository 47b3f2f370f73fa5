# SPDX-License-Identifier: Apache-2.0
r"""The state for which an effort is computed that a plant holds for a whole period.

An effort computed for the state at the *start* of a period h, and held, is on average half a
period late; the error is proportional to h. With the acceleration a commanded last:

``zero_order``
    The effort acts in the middle of the period on average, so it is computed for the state
    :math:`q+\tfrac h2\dot q+\tfrac{h^2}8a,\ \dot q+\tfrac h2a` at the time :math:`t+\tfrac h2`.
``semi_implicit``
    The plant steps :math:`\dot q_{k+1}=\dot q_k+ha_k,\ q_{k+1}=q_k+h\dot q_{k+1}` (MuJoCo, DART,
    most game engines): its velocity is that of half a period ago. The program is evaluated for
    :math:`\dot q+\tfrac h2a`, the dynamics for the velocity that the plant uses.
``continuous``
    The state as it is.

What is left in the first two cases is proportional to :math:`h^2`.
"""

from __future__ import annotations

import numpy as np

from robot_dynamics_ros.errors import UnknownNameError
from robot_dynamics_ros.spatial.scalar import Array

DISCRETIZATIONS = ('continuous', 'semi_implicit', 'zero_order')


class LookAhead:
    """Predicts states; allocates nothing.

    Attributes:
        time: How far the program's time is ahead of the state's, s.
        lead: How far the velocity is ahead of the measured one, s.
        end: Time from the velocity that the dynamics are computed with to the one at which the
            plant applies its friction, s.
        q: Positions at the instant looked at, shape (n,), rad or m; written by :meth:`see`.
        v: Velocities, likewise.

    Args:
        n: Number of joints.
        discretization: One of ``DISCRETIZATIONS``.
        period: Time between two commands, s.

    Raises:
        UnknownNameError: There is no such discretization.
    """

    def __init__(self, n: int, discretization: str, period: float) -> None:
        if discretization not in DISCRETIZATIONS:
            raise UnknownNameError('discretization', discretization, DISCRETIZATIONS)
        self.time = 0.5 * period if discretization == 'zero_order' else 0.0
        self.lead = 0.0 if discretization == 'continuous' else 0.5 * period
        self.end = period if discretization == 'semi_implicit' else 0.0
        self.q: Array = np.zeros(n)
        self.v: Array = np.zeros(n)

    def see(self, q: Array, v: Array, a: Array) -> None:
        """Write the state at the instant looked at, from one now and its acceleration.

        Args:
            q: Positions, shape (n,), rad or m.
            v: Velocities, shape (n,), rad/s or m/s.
            a: Accelerations, shape (n,), rad/s^2 or m/s^2.
        """
        time, lead = self.time, self.lead
        state = zip(q.tolist(), v.tolist(), a.tolist(), strict=True)
        for i, (q_i, v_i, a_i) in enumerate(state):
            self.q[i] = q_i + time * (v_i + 0.5 * time * a_i)
            self.v[i] = v_i + lead * a_i
