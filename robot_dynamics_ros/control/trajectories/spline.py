# SPDX-License-Identifier: Apache-2.0
"""Piecewise polynomials of degree 1, 3 or 5 per joint, read by a cursor."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from robot_dynamics_ros.control.control_law import Reference
from robot_dynamics_ros.control.trajectory import Trajectory
from robot_dynamics_ros.spatial.scalar import Array

#: A polynomial of fifth degree shows its extremes to a part in a thousand on so many pieces.
MOST_PIECES = 32

Coefficients = tuple[float, float, float, float, float, float]


@dataclass(frozen=True)
class Knot:
    """The state of all joints at one time.

    Attributes:
        time: s from the start of the trajectory.
        position: One number per joint, rad or m.
        velocity: The same, rad/s or m/s, or None if it is not given.
        acceleration: The same, rad/s^2 or m/s^2, or None; only beside a velocity.
    """

    time: float
    position: Sequence[float]
    velocity: Sequence[float] | None = None
    acceleration: Sequence[float] | None = None


def linear(p: float, P: float, h: float) -> Coefficients:
    """Return the line from p to P in h seconds, lowest power first."""
    return p, (P - p) / h, 0.0, 0.0, 0.0, 0.0


def cubic(p: float, v: float, P: float, V: float, h: float) -> Coefficients:
    """Return the cubic from (p, v) to (P, V) in h seconds, lowest power first."""
    d = (P - p) / h
    return p, v, (3.0 * d - 2.0 * v - V) / h, (v + V - 2.0 * d) / (h * h), 0.0, 0.0


def quintic(p: float, v: float, a: float, P: float, V: float, A: float, h: float) -> Coefficients:
    """Return the quintic from (p, v, a) to (P, V, A) in h seconds, lowest power first."""
    # What is left after the first three terms, scaled to the unit interval.
    d = P - p - h * (v + 0.5 * a * h)
    e = (V - v - a * h) * h
    f = (A - a) * h * h
    h3 = h * h * h
    return (
        p,
        v,
        0.5 * a,
        (10.0 * d - 4.0 * e + 0.5 * f) / h3,
        (-15.0 * d + 7.0 * e - f) / (h3 * h),
        (6.0 * d - 3.0 * e + 0.5 * f) / (h3 * h * h),
    )


def segment(start: Knot, end: Knot) -> tuple[tuple[int, Coefficients], ...]:
    """Return the coefficients of every joint between two knots, with the joint's index.

    Where both knots carry an acceleration the segment is quintic, where both carry a velocity it
    is cubic, else linear.
    """
    h = end.time - start.time
    p, P = start.position, end.position
    v, V, a, A = start.velocity, end.velocity, start.acceleration, end.acceleration
    joints = range(len(p))
    if v is None or V is None:
        return tuple((i, linear(p[i], P[i], h)) for i in joints)
    if a is None or A is None:
        return tuple((i, cubic(p[i], v[i], P[i], V[i], h)) for i in joints)
    return tuple((i, quintic(p[i], v[i], a[i], P[i], V[i], A[i], h)) for i in joints)


class Spline(Trajectory):
    """Knots joined by polynomials; the caller has checked them.

    Args:
        knots: At least one, times strictly increasing from 0, as many numbers in each.
    """

    def __init__(self, knots: Sequence[Knot]) -> None:
        self.n = len(knots[0].position)
        self.duration = float(knots[-1].time)
        self._times = [float(knot.time) for knot in knots]
        self._segments = [segment(a, b) for a, b in pairwise(knots)]
        self._start = [float(x) for x in knots[0].position]
        self._end = [float(x) for x in knots[-1].position]
        self._cursor = 0

    def sample(self, t: float, reference: Reference) -> None:
        """Write the motion at a time, see :class:`Trajectory`."""
        if not 0.0 <= t < self.duration:
            self._rest(self._end if t >= self.duration else self._start, reference)
            return
        times, k = self._times, self._cursor
        if not times[k] <= t < times[k + 1]:
            if k + 2 < len(times) and times[k + 1] <= t < times[k + 2]:
                k += 1
            else:
                k = bisect_right(times, t) - 1
            self._cursor = k
        x = t - times[k]
        position, velocity = reference.position, reference.velocity
        acceleration = reference.acceleration
        for i, (c0, c1, c2, c3, c4, c5) in self._segments[k]:
            position[i] = c0 + x * (c1 + x * (c2 + x * (c3 + x * (c4 + x * c5))))
            velocity[i] = c1 + x * (2 * c2 + x * (3 * c3 + x * (4 * c4 + x * 5 * c5)))
            acceleration[i] = 2 * c2 + x * (6 * c3 + x * (12 * c4 + x * 20 * c5))

    def instants(self, step: float) -> Array:
        """Return the knots and, between them, 1 to 31 more, see :class:`Trajectory`.

        However short a segment, its middle is among them: two knots at rest say nothing of it.
        """
        times = [0.0]
        for begin, end in pairwise(self._times):
            pieces = min(MOST_PIECES, max(2, math.ceil((end - begin) / step)))
            times += [begin + (end - begin) * k / pieces for k in range(1, pieces + 1)]
        return np.array(times)

    def table(self, times: Array) -> tuple[Array, Array, Array]:
        """Return positions, velocities and accelerations, all times at once."""
        if not self._segments:
            return super().table(times)
        C = np.array([[c for _, c in joints] for joints in self._segments])
        k = np.clip(np.searchsorted(self._times, times, side='right') - 1, 0, len(C) - 1)
        x = (times - np.take(self._times, k))[:, None]
        c0, c1, c2, c3, c4, c5 = np.moveaxis(C[k], -1, 0)
        position = c0 + x * (c1 + x * (c2 + x * (c3 + x * (c4 + x * c5))))
        velocity = c1 + x * (2 * c2 + x * (3 * c3 + x * (4 * c4 + x * 5 * c5)))
        acceleration = 2 * c2 + x * (6 * c3 + x * (12 * c4 + x * 20 * c5))
        for outside, rest in ((times < 0.0, self._start), (times >= self.duration, self._end)):
            position[outside], velocity[outside], acceleration[outside] = rest, 0.0, 0.0
        return position, velocity, acceleration

    @staticmethod
    def _rest(position: list[float], reference: Reference) -> None:
        reference.position[:] = position
        reference.velocity.fill(0.0)
        reference.acceleration.fill(0.0)
