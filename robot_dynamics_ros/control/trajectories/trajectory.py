# SPDX-License-Identifier: Apache-2.0
r"""Joint reference, trajectories, their limits, elementary ones, and sampling.

A discrete-time plant can follow these samples exactly.

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
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache, partial
from numbers import Integral

import numpy as np

from robot_dynamics_ros.dynamics.sampled_loop import DISCRETIZATIONS
from robot_dynamics_ros.errors import TrajectoryError, known_name, shown
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import Array, errstate
from robot_dynamics_ros.spatial.validation import require_positive, require_type
from robot_dynamics_ros.symbolic.kernel import Kernel, compile_function

#: One number per joint or axis.
Vector = Sequence[float] | Array
_CHECKED_S = 0.01  # nominal time between the instants at which limits are checked, s


class Reference:
    """Joint reference of one instant: preallocated arrays that trajectories write into.

    Attributes:
        rows: Position, velocity and acceleration, shape (3, n).
        position: Shape (n,), rad or m.
        velocity: Shape (n,), rad/s or m/s.
        acceleration: Shape (n,), rad/s^2 or m/s^2; held during the coming period.
    """

    def __init__(self, n: int) -> None:
        require_type('n', n, Integral, 'the number of joints')
        self.rows = np.zeros((3, n))
        self.position, self.velocity, self.acceleration = self.rows


class Trajectory(ABC):
    """Base class of joint trajectories: at rest before the start and after the end.

    Attributes:
        n: Number of joints.
        duration: Time from start to end, s; ``math.inf`` if it never ends.
    """

    n: int
    duration: float

    @abstractmethod
    def sample(self, t: float, reference: Reference) -> None:
        """Compute position, velocity and acceleration at a time.

        Args:
            t: Time since the start of the trajectory, s. Before 0 the start is held, after
                ``duration`` the end, with velocity and acceleration zero.
            reference: Receives the result; its arrays have shape (n,).

        Cost: a few microseconds for a few joints; joint splines allocate no array.
        """

    def instants(self, step: float) -> Array:
        """Return times that resolve the motion, from the start to the end.

        Args:
            step: Nominal time between two of them, s.

        Returns:
            New array, increasing, shape (k,), s.
        """
        return np.linspace(0.0, self.duration, max(1, math.ceil(self.duration / step)) + 1)

    def table(self, times: Array) -> tuple[Array, Array, Array]:
        """Return positions, velocities and accelerations at times (k,), s, each shape (k, n)."""
        reference, rows = Reference(self.n), np.zeros((3, len(times), self.n))
        for k, t in enumerate(times.tolist()):
            self.sample(t, reference)
            rows[:, k] = reference.position, reference.velocity, reference.acceleration
        return rows[0], rows[1], rows[2]


@errstate(over='ignore', invalid='ignore')  # what is not finite is beyond every limit
def check_limits(trajectory: Trajectory, tree: Robot, outside: Array | float = 0.0) -> None:
    """Check that a trajectory is within the position and velocity limits of a robot.

    Args:
        trajectory: Trajectory with a finite duration.
        tree: The robot, with joints in the trajectory's order.
        outside: Permitted excess over the reference limits before the end, per joint, rad or m:
            that at the start, so that the joint may return.

    Raises:
        TrajectoryError: It has another number of joints, never ends, or exceeds a limit; names
            the joint, the time and the limit.

    Cost: a few milliseconds for a spline of a thousand knots.
    """
    if trajectory.n != tree.n:
        raise TrajectoryError(
            'trajectory', f'has {trajectory.n} joints', f'the robot {tree.name!r} has {tree.n}'
        )
    if not math.isfinite(trajectory.duration):
        raise TrajectoryError('trajectory', 'never ends', 'check one that does')
    times = trajectory.instants(_CHECKED_S)
    position, velocity, _ = trajectory.table(times)
    lower, upper = tree.reference_lower, tree.reference_upper
    slack = np.full(position.shape, 1e-9)
    slack[:-1] += outside
    inside = (position >= lower - slack) & (position <= upper + slack)
    for k, i in np.argwhere(~inside)[:1]:  # NaN is outside
        farthest = float(position[np.argmax(np.abs(position[:, i])), i])
        raise TrajectoryError(
            f'joint {tree.joint_names[i]!r}',
            f'is at {position[k, i]:.6g} at t = {times[k]:.4g} s',
            f'its {tree.limits_word(i)} are {lower[i]:.6g} to {upper[i]:.6g}'
            + tree.if_degrees(i, farthest),
        )
    fastest = tree.velocity_limit * (1.0 + 1e-9)
    for k, i in np.argwhere(~(np.abs(velocity) <= fastest))[:1]:
        raise TrajectoryError(
            f'joint {tree.joint_names[i]!r}',
            f'moves at {abs(velocity[k, i]):.4g} per second at t = {times[k]:.4g} s',
            f'its velocity limit is {tree.velocity_limit[i]:.4g}',
        )


def joint_vector(
    name: str,
    value: Vector | float,
    n: int | None = None,
    joint_names: Sequence[str] | None = None,
) -> list[float]:
    """Return one finite number per joint.

    Args:
        name: Name of the value in the error, such as 'velocity of point 2'.
        value: Shape (n,); if n is given, a single number is used for all joints.
        n: Number of joints; any if None.
        joint_names: Used to name a joint in the error.

    Raises:
        TrajectoryError: Wrong number of values, or one is not finite; names it.
    """
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise TrajectoryError(name, f'is {shown(value)}', 'give one number per joint') from None
    if n is not None and array.ndim == 0:
        array = np.full(n, float(array))
    if array.ndim != 1 or array.size == 0 or (n is not None and array.size != n):
        expected = 'a list of numbers' if n is None else f'{n} numbers, one per joint'
        raise TrajectoryError(name, f'has shape {array.shape}', f'give {expected}')
    for i, number in enumerate(array.tolist()):
        if not np.isfinite(number):
            joint = joint_names[i] if joint_names else str(i)
            raise TrajectoryError(name, f'is {number} for joint {joint}', 'give finite numbers')
    return array.tolist()


def positive(name: str, value: float) -> float:
    """Return a positive finite number.

    Raises:
        TrajectoryError: The value is not positive and finite.
    """
    if not 0.0 < value < np.inf:
        raise TrajectoryError(name, f'is {value}', 'must be positive and finite')
    return float(value)


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
        self.discretization = known_name('discretization', discretization, DISCRETIZATIONS)
        require_positive(period=period)
        self.period = float(period)
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
    return compile_function(partial(_held_motion, zero_order=zero_order), n, h=1, fused=False)


def _held_motion(
    r0: Array, a0: Array, r1: Array, a1: Array, r2: Array, a2: Array, h: Array, *, zero_order: bool
) -> tuple[Array, Array, Array]:
    if zero_order:
        lead = 0.125 * h[0] * h[0]
        r0, r1, r2 = r0 - lead * a0, r1 - lead * a1, r2 - lead * a2
    step = r1 - r0
    position = 0.5 * (r1 + r0) if zero_order else r1
    return position, step / h[0], (r2 - r1 - step) / (h[0] * h[0])
