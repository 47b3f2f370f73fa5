# SPDX-License-Identifier: Apache-2.0
r"""What follows a trajectory: its preparation, the speed along it.

The speed is scaled on request, or reduced to keep the efforts within limits.

The path :math:`r(s)` is kept; its time s advances at :math:`\dot s = f(t)\,c(s)`. The target
factor f changes smoothly; c is the largest speed, at most 1, for which the efforts of the model
are within their limits. The efforts are linear in :math:`x = c^2` and :math:`u = \ddot s`,

.. math:: \tau = \underbrace{M r'}_{a}\,u + \underbrace{(M r'' + C r')}_{b}\,x + g(r),

so x is computed on a grid by a backward pass (where braking is still possible) and a forward pass
(as far as acceleration permits): Bobrow, Dubowsky, Gibson 1985 and Shin, McKay 1985, with the
linear form of Pham, Pham 2018 (TOPP-RA). A factor f < 1 keeps the bounds, because gravity alone is
within them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.control.trajectories.spline import JointWaypoints, Points
from robot_dynamics_ros.control.trajectories.trajectory import Reference, Trajectory
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import effort_of

#: Double pole of the target factor, 1/s, and the tolerance within which it is reached.
_POLE, _TOLERANCE = 10.0, 1e-6
#: Least factor at which a trajectory starts in motion.
_LEAST_FACTOR = 0.01
#: Longest step of the path time, s, and the rounding of timestamps as a fraction of it.
_STEP_S, _ROUNDING = 1e-3, 1e-3
#: Grid: its step, s, and the smallest and largest number of steps.
_GRID_S, _MIN_STEPS, _MAX_STEPS = 0.005, 200, 20_000
#: Half width of the minimum filter and of the mean filter of the speed, s, where it is largest, so
#: that efforts do not jump.
_SMOOTH_S = 0.014
#: Smallest c^2, and smallest fraction of the effort limit that remains after friction.
_MIN_SQUARE, _MIN_ROOM = 1e-3, 0.05


class SpeedLimit(NamedTuple):
    """Square of the largest speed along a path: a quadratic B-spline, so that no effort steps.

    Attributes:
        step: Step of the grid, s.
        squares: Squares c^2 at its nodes, the control points.
    """

    step: float
    squares: list[float]

    def at(self, s: float) -> tuple[float, float]:
        """Return the speed c at a time of the path, s, and c dc/ds, 1/s."""
        x, last = self.squares, len(self.squares) - 1
        place = min(max(s / self.step, -0.5), last + 0.5)
        k = min(int(place + 0.5), last)
        t, here = place + 0.5 - k, x[k]
        before, after = here - x[max(k - 1, 0)], x[min(k + 1, last)] - here
        slope = before + t * (after - before)
        square = here - 0.5 * before + t * (before + 0.5 * t * (after - before))
        return math.sqrt(square), 0.5 * slope / self.step


def speed_limit(
    trajectory: Trajectory, tree: Robot, kernels: Any, limit: Array, loads: Array, moving: bool
) -> SpeedLimit | None:
    """Return the speed limit of a trajectory; None if it needs no reduction.

    Args:
        trajectory: Trajectory with a finite duration.
        tree: The robot with friction and rotor inertia.
        kernels: With ``inverse_dynamics``.
        limit: Permitted efforts, shape (k,), N m or N.
        loads: From efforts of the joints to those that are limited, shape (k, n).
        moving: Whether it starts in motion, where the speed must not change.

    Cost: about 10 us per 5 ms of the trajectory, three times that if it is slowed down.
    """
    count = min(max(math.ceil(trajectory.duration / _GRID_S), _MIN_STEPS), _MAX_STEPS)
    q, v, a = trajectory.table(np.linspace(0.0, trajectory.duration, count + 1))
    still, weight = np.zeros_like(q), np.abs(loads.T)

    def efforts(v: Array, a: Array) -> Array:
        rows = zip(q, v, a, strict=True)
        tau = np.array([effort_of(kernels.inverse_dynamics, *row) for row in rows])
        return (tau + tree.armature * a) @ loads.T

    g = efforts(still, still)
    b = efforts(v, a) - g
    viscous, coulomb = tree.damping * np.abs(v) @ weight, tree.coulomb_friction @ weight
    least = np.abs(g) + _MIN_ROOM * limit
    if (np.abs(b + g) <= np.maximum(limit - viscous - coulomb, least)).all():
        return None
    momentum = efforts(still, v) - g
    step, speed, half_width = trajectory.duration / count, np.zeros((count + 1, 1)), 0
    for _ in range(2):  # first without viscous friction, then with that of the resulting speed
        room = np.maximum(limit - viscous * speed - coulomb, least)
        fixed = 2 * half_width + 2 if moving else 0
        x = _squares(momentum, b, -room - g, room - g, 2.0 * step, fixed)
        speed = np.sqrt(x)[:, np.newaxis]
        half_width = math.ceil(_SMOOTH_S * float(speed.max()) / step)
    return SpeedLimit(step, _windows(_windows(x, half_width).min(1), half_width).mean(1).tolist())


def _windows(x: Array, half_width: int) -> Array:
    """Return each number with its neighbours on both sides, shape (k, 2 half_width + 1)."""
    padded = np.pad(x, half_width, mode='edge')
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * half_width + 1)


def _squares(a: Array, b: Array, low: Array, high: Array, step: float, fixed: int) -> Array:
    """Return x at the nodes, with low <= a u + b x <= high and x' = 2 u; each shape (k, n).

    Between two nodes, u = (x_next - x) / step; the bounds hold at both nodes. At the first
    ``fixed`` nodes x is 1.
    """
    here = np.hstack([b[:-1] - a[:-1] / step, -a[1:] / step])  # coefficients of x, (k, 2 n)
    there = np.hstack([a[:-1] / step, b[1:] + a[1:] / step])  # coefficients of x_next
    low, high = (np.hstack([bound[:-1], bound[1:]]) for bound in (low, high))
    x = np.ones(len(a))
    for k in range(len(here) - 1, -1, -1):
        x[k] = _largest(here[k], low[k] - there[k] * x[k + 1], high[k] - there[k] * x[k + 1])
    x[:fixed] = 1.0
    for k in range(max(fixed - 1, 0), len(here)):
        left = low[k] - here[k] * x[k], high[k] - here[k] * x[k]
        x[k + 1] = min(x[k + 1], _largest(there[k], *left))
    return x


def _largest(factor: Array, low: Array, high: Array) -> float:
    """Return the largest x within the bounds, at most 1 and at least ``_MIN_SQUARE``."""
    bound = np.where(factor > 0.0, high, low)
    reached = np.divide(bound, factor, out=np.ones_like(bound), where=factor != 0.0)
    return float(min(1.0, max(_MIN_SQUARE, reached.min())))


class PathSpeed(Trajectory):
    """Trajectory whose time is scaled, sampled at the time of the states.

    Attributes:
        target: Requested factor, 0 to 1, see :meth:`scale`.
        delay: Present delay relative to the original trajectory, s.
    """

    duration = math.inf
    _trajectory: Trajectory
    _factor = 1.0

    def __init__(self) -> None:
        self.target = 1.0
        self.start(0.0)

    def scale(self, target: float) -> bool:
        """Scale this and later trajectories, by 0 to 1; return whether the factor changes."""
        before, self.target = self.target, target
        return before != target

    def start(
        self,
        begin: float,
        limit: SpeedLimit | None = None,
        *,
        moving: bool | None = None,
    ) -> None:
        """Start with another trajectory.

        Args:
            begin: Time of the trajectory, s.
            limit: Speed limit; None: none.
            moving: Whether it starts in motion, so that the present factor goes on; None: there
                is none, and the factor is 1.
        """
        self._limit = limit
        if moving:
            self._factor = max(self._factor, _LEAST_FACTOR)
        else:
            self._factor, self._rate = 1.0 if moving is None else self.target, 0.0
        self.delay, self._elapsed, self._step = 0.0, begin, 0.0
        self._now = self._last = self._motion(begin)

    def own_time(self, rows: Array, offset: Array) -> Reference:
        """Return a motion in the time of a trajectory that starts in it.

        Args:
            rows: The motion, shape (3, n).
            offset: What of it is not scaled, shape (3, n).
        """
        factor, start = max(self._factor, _LEAST_FACTOR), Reference(rows.shape[1])
        _, v, a = rows - offset
        speed = v / factor
        start.rows[:] = rows
        start.rows[1] += speed - v
        if self._factor < factor:  # its own acceleration is lost in that of the factor
            start.rows[2] -= a
        else:
            start.rows[2] += (a - self._rate * speed) / factor**2 - a
        return start

    @property
    def factor(self) -> float:
        """Rate of the trajectory's time relative to that of the states."""
        return self._now[1]

    @property
    def unscaled(self) -> bool:
        """Whether the trajectory is not scaled."""
        return self._limit is None and self._factor == self.target == 1.0

    def advance(self, elapsed: float, trajectory: Trajectory) -> float:
        """Advance on a trajectory to a time since the start, s; return its own time, s."""
        step, self._elapsed = max(elapsed - self._elapsed, 0.0), elapsed
        self._trajectory = trajectory
        if self.unscaled:
            self._move_to(elapsed - self.delay, step)
            return self._now[0]
        parts = max(math.ceil(step / _STEP_S - _ROUNDING), 1)  # steps are long after lost states
        step /= parts
        for _ in range(parts):
            s, speed, rate = self._now
            self._update_factor(min(step, 0.2 / _POLE))
            self._move_to(s + step * (speed + 0.5 * rate * step), step)
        self.delay = elapsed - self._now[0]
        return self._now[0]

    def _move_to(self, s: float, step: float) -> None:
        self._last, self._now, self._step = self._now, self._motion(s), step

    def _update_factor(self, dt: float) -> None:
        """Advance the factor towards its target."""
        error = self.target - self._factor
        self._rate += dt * _POLE * (_POLE * error - 2.0 * self._rate)
        self._factor = max(self._factor + dt * self._rate, 0.0)
        if abs(error) < _TOLERANCE and abs(self._rate) < _TOLERANCE * _POLE:
            self._factor, self._rate = self.target, 0.0

    def _motion(self, s: float) -> tuple[float, float, float]:
        """Return the time of the trajectory, s, its rate, and the derivative of the rate, 1/s."""
        c, slope = (1.0, 0.0) if self._limit is None else self._limit.at(s)
        f = self._factor
        return s, f * c, self._rate * c + f * f * slope

    def sample(self, t: float, reference: Reference) -> None:
        """Compute the motion at a time near the last advance; see :class:`Trajectory`."""
        s, speed, rate = self._now
        since = t - s
        if since < 0.0:
            s, speed, rate = self._last
            since += self._step
        self._trajectory.sample(s + since * (speed + 0.5 * rate * since), reference)
        speed += rate * since
        moved = zip(reference.velocity.tolist(), reference.acceleration.tolist(), strict=True)
        for i, (v, a) in enumerate(moved):
            reference.velocity[i] = speed * v
            reference.acceleration[i] = speed * speed * a + rate * v


class ReferenceSnapshot(NamedTuple):
    """Immutable copy of the generator's state at the arrival of a trajectory.

    Attributes:
        reference: The joint reference, in the time of a trajectory that starts there.
        measured: Position of the arm with that reference, shape (n,), rad or m.
        now_ns: Timestamp of the last state, ns.
        holds: ``ReferenceGenerator.holds``.
    """

    reference: Reference
    measured: Array
    now_ns: int
    holds: int


class Prepared(NamedTuple):
    """A checked trajectory that can be followed at once.

    Attributes:
        trajectory: The trajectory, starting at the reference of the snapshot.
        start_ns: Timestamp of its start, ns; 0 for now.
        points: Its points.
        snapshot: State of the generator at its arrival.
        outside: Permitted excess over the position limits before the end, shape (n,), rad or m.
        limit: Speed limit along the path; None: no limit.
    """

    trajectory: JointWaypoints
    start_ns: int
    points: Points
    snapshot: ReferenceSnapshot
    outside: Array
    limit: SpeedLimit | None = None

    def logged(self) -> dict[str, Any]:
        """Return what a log needs to prepare it again."""
        reference, measured, now_ns, _ = self.snapshot
        return {
            'points': self.points, 'start_ns': self.start_ns,
            'now_ns': now_ns, 'rows': reference.rows.copy(), 'measured': measured,
        }  # fmt: skip
