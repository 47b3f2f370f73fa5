# SPDX-License-Identifier: Apache-2.0
r"""Motion of the joints from any state to a target that may jump: streams, glides, transitions.

Each joint's position x converges to its target with three equal poles at the bandwidth p,

.. math:: \ddot x = a_d,\quad
   \dot a_d = 3p\,\big(\mathrm{sat}_{a_{max}}\{p\,(v_w - \dot x)\} - a_d\big),\quad
   v_w = \mathrm{sgn}(e)\min\big(v_{max}, \tfrac p3|e|, \sqrt{a_{max}|e|}\big),\quad e = x_t - x,

so that position, velocity and acceleration are continuous for any target, speed and acceleration
are within their limits, and a constant target is reached without overshoot, since braking is
planned with half of the acceleration. The states obey the plant's own step (see ``trajectory``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.spatial.scalar import Array

_NEAR, _SLOW = 1e-8, 2e-5  # rad or m, rad/s or m/s: a joint then reaches its target in two steps
_ROUNDING = 1e-14  # rad or m, rad/s or m/s: smaller values are zero
_MAX_PERIODS = 20  # largest number of periods per sample
#: Factor of the speed limit; the linear filter overshoots its bound by half a percent.
_MARGIN = 0.99


class ApproachLimits(NamedTuple):
    """Limits and bandwidth of an approach.

    Attributes:
        joints: Largest speed, rad/s or m/s, and acceleration, rad/s^2 or m/s^2, of each joint.
        bandwidth: p, rad/s; at most one per period is used.
        timeout_ns: Time after which a target is no longer approached, ns.
    """

    joints: list[tuple[float, float]]
    bandwidth: float
    timeout_ns: float

    @classmethod
    def of(
        cls, speed: Array, acceleration: Array, bandwidth: float, timeout_s: float = math.inf
    ) -> ApproachLimits:
        """Return limits for arrays of shape (n,), and a timeout in s."""
        joints = np.transpose([_MARGIN * speed, acceleration]).tolist()
        return cls(joints, bandwidth, 1e9 * timeout_s)


class Approach:
    """Moves joints to a target; stateful.

    Attributes:
        rows: Position, velocity and acceleration, shape (3, n).
        target: Shape (n,), rad or m.
        resting: Whether the joints rest, at the target unless it has timed out.
        stopping: Whether the target has timed out, so that the joints come to rest.

    Args:
        n: Number of joints.
    """

    _limits: ApproachLimits

    def __init__(self, n: int) -> None:
        self.rows, self.target = np.zeros((3, n)), np.zeros(n)
        self.resting, self.stopping = True, False
        self.configure(1e-3, semi_implicit=True)

    def configure(self, period: float, *, semi_implicit: bool) -> None:
        """Set the time between two samples, s, and the kind of plant; else zero-order hold."""
        self._period, self._semi_implicit = period, semi_implicit

    def start(self, rows: Array, now_ns: int) -> None:
        """Start from a motion, shape (3, n), copied; call ``aim`` next."""
        self.rows[:], self._now_ns = rows, now_ns

    def aim(self, target: Array, limits: ApproachLimits) -> None:
        """Set target, shape (n,), rad or m, copied, and limits."""
        self.target[:], self._limits = target, limits
        self._received_ns, self.resting, self.stopping = self._now_ns, False, False

    def advance(self, now_ns: int) -> None:
        """Advance to a state's timestamp, ns, and compute the acceleration held from then on."""
        elapsed, self._now_ns = 1e-9 * (now_ns - self._now_ns), now_ns
        self.stopping = now_ns - self._received_ns > self._limits.timeout_ns
        if self.resting:
            return
        steps = min(max(round(elapsed / self._period), 1), _MAX_PERIODS)
        h = min(max(elapsed / steps, 0.0), 2.0 * self._period)
        for _ in range(steps):
            self._step(h)

    def _step(self, h: float) -> None:
        """Do one step of the plant, and compute the acceleration of the next one."""
        coming = max(h, self._period)  # the next step, if this one is cut short
        p = min(self._limits.bandwidth, 1.0 / coming)  # beyond 1.6 the steps would swing
        ahead = h if self._semi_implicit else 0.5 * h
        follow, moved, self.resting = -math.expm1(-3.0 * p * h), [], True
        # Several times as fast on numbers as on short arrays.
        joints = zip(*self.rows.tolist(), self.target.tolist(), self._limits.joints, strict=True)
        for q, v, a, target, (fastest, most) in joints:
            q += h * (v + ahead * a)
            v += h * a
            way = 0.0 if self.stopping else target - q
            size = abs(way)
            speed = min(fastest, p / 3.0 * size, math.sqrt(most * size))
            desired = max(-most, min(most, p * (math.copysign(speed, way) - v)))
            near = size < _NEAR and abs(v) < _SLOW
            self.resting &= near and abs(v) < _ROUNDING
            if near and h:
                left = 0.0 if self.stopping else way - (h - ahead) * v  # if it stops in a step
                a = ((left / coming if abs(left) > _ROUNDING else 0.0) - v) / coming
            else:
                a += follow * (desired - a)
            moved.append((q, v, a))
        self.rows.T[:] = moved
        if self.resting:
            self.rows[1:] = 0.0
            if not self.stopping:
                self.rows[0] = self.target
