# SPDX-License-Identifier: Apache-2.0
r"""Sampling of trajectories for a discrete-time plant, so that they can be followed exactly.

If a law uses position, velocity and acceleration of a smooth motion at one instant, the tracking
error is proportional to the period, because the plant holds the effort, and hence nearly the
acceleration, for a whole period :math:`h`. It can follow a *sequence* of states that obeys the
plant's own step. With the motion :math:`r` and the acceleration :math:`a_k` held from
:math:`t_k` to :math:`t_{k+1}`:

Semi-implicit Euler (MuJoCo, DART, most game engines),
:math:`v_{k+1} = v_k + h a_k,\; q_{k+1} = q_k + h v_{k+1}`. The condition :math:`q_k = r(t_k)`
determines

.. math:: v_k = \frac{r(t_k) - r(t_k - h)}h, \qquad
          a_k = \frac{r(t_k + h) - 2 r(t_k) + r(t_k - h)}{h^2}.

Zero-order hold on a continuous plant,
:math:`v_{k+1} = v_k + h a_k,\; q_{k+1} = q_k + h v_k + \tfrac12 h^2 a_k`. The condition
:math:`q_k = r(t_k)` would lead to an undamped oscillation of the velocity (the sampled double
integrator has a zero at :math:`z = -1`). For *any* sequence :math:`x_k`, these states obey the
step:

.. math:: q_k = \frac{x_k + x_{k-1}}2, \quad v_k = \frac{x_k - x_{k-1}}h, \quad
          a_k = \frac{x_{k+1} - 2 x_k + x_{k-1}}{h^2},

and :math:`x_k = r(t_k + \tfrac h2) - \tfrac{h^2}8\,\ddot r(t_k + \tfrac h2)` makes
:math:`q_k = r(t_k) - \tfrac{5}{384} h^4 r^{(4)} + \dots`, which is practically equal to the
motion and is followed exactly.
"""

from __future__ import annotations

import math
from functools import cache, partial

import numpy as np

from robot_dynamics_ros.control.laws.control_law import DISCRETIZATIONS, Reference
from robot_dynamics_ros.control.trajectories.trajectory import Trajectory
from robot_dynamics_ros.errors import ParameterError, UnknownNameError
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import Kernel, compile_function


class ReferenceSampler:
    """Samples trajectories so that a loop with a given period and plant follows them exactly.

    Args:
        n: Number of joints.
        discretization: Time discretization of the plant: one of ``DISCRETIZATIONS``.
        period: Time between two commands, s.

    Raises:
        UnknownNameError: There is no such discretization; lists those that exist.
        ParameterError: The period is not positive and finite.
    """

    def __init__(self, n: int, discretization: str, period: float) -> None:
        if discretization not in DISCRETIZATIONS:
            raise UnknownNameError('discretization', discretization, DISCRETIZATIONS)
        if not 0.0 < period < math.inf:
            raise ParameterError('period', period, 'must be positive and finite, in s')
        self.discretization, self.period = discretization, float(period)
        zero_order = discretization == 'zero_order'
        offsets = (-0.5, 0.5, 1.5) if zero_order else (-1.0, 0.0, 1.0)
        self._offsets = [part * self.period for part in offsets]
        self._held = held_motion(n, zero_order)
        self._before, self._after = Reference(n), Reference(n)
        self._period = np.array([self.period])

    def sample(self, trajectory: Trajectory, t: float, reference: Reference) -> None:
        """Compute the reference state at time t and the acceleration held from then on.

        Args:
            trajectory: The trajectory.
            t: Time of the state, on the trajectory's clock, s.
            reference: Receives the result.

        Cost: one sample of the trajectory ('continuous') or three; allocates no array.
        """
        if self.discretization == 'continuous':
            trajectory.sample(t, reference)
            return
        before, after, (early, middle, late) = self._before, self._after, self._offsets
        trajectory.sample(t + early, before)
        trajectory.sample(t + middle, reference)
        trajectory.sample(t + late, after)
        self._held(
            before.position, before.acceleration, reference.position, reference.acceleration,
            after.position, after.acceleration, self._period,
            reference.position, reference.velocity, reference.acceleration,
        )  # fmt: skip


@cache
def held_motion(n: int, zero_order: bool) -> Kernel:
    """Compile the equations of this module for n joints: zero order, or else semi-implicit."""
    return compile_function(
        'held_motion',
        {**dict.fromkeys(('r0', 'a0', 'r1', 'a1', 'r2', 'a2'), n), 'h': 1},
        dict.fromkeys(('q', 'v', 'a'), (n,)),
        partial(_held_motion, zero_order=zero_order),
        fused=False,
    )


def _held_motion(
    r0: Array, a0: Array, r1: Array, a1: Array, r2: Array, a2: Array, h: Array, *, zero_order: bool
) -> tuple[Array, Array, Array]:
    if zero_order:
        lead = 0.125 * h[0] * h[0]
        r0, r1, r2 = r0 - lead * a0, r1 - lead * a1, r2 - lead * a2
    step = r1 - r0
    position = 0.5 * (r1 + r0) if zero_order else r1
    return position, step / h[0], (r2 - r1 - step) / (h[0] * h[0])
