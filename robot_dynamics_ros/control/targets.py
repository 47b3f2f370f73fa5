# SPDX-License-Identifier: Apache-2.0
r"""Streamed targets of the joints.

Targets may have any rate and jumps; the arm can follow the filtered reference.

Each joint's reference x converges to its target with three equal poles at the bandwidth p,

.. math:: \dot v_d = 3p\,\big(\mathrm{sat}_{a}\{p\,(v_w - \dot x)\} - v_d\big),\quad
   \ddot x = v_d,\quad
   v_w = \mathrm{sgn}(e)\min\big(v_{max}, \tfrac p3|e|, \sqrt{a_{max}|e|}\big),\quad e = x_t - x,

so that position, velocity and acceleration are continuous for any target, speed and acceleration
are within their limits, and a constant target is reached without overshoot, since braking is
planned with half of the acceleration. The states obey the plant's own step (see ``sampling``).
If no target arrives for ``target_timeout_s``, the desired velocity is zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.control.laws.gravity_laws import joint_inertia
from robot_dynamics_ros.control.trajectories.trajectory import Reference, Trajectory
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.parameters import Settings, parameter, parameters_of, spread
from robot_dynamics_ros.spatial.scalar import Array

_REST = 1e-6  # rad/s or m/s, rad/s^2 or m/s^2: smaller values count as rest
_MAX_PERIODS = 20  # largest number of periods per sample
#: Fraction of the effort limit that gives the acceleration limit if none is set.
_EFFORT_SHARE = 0.3
#: Factor of the speed limit; the linear filter overshoots its bound by half a percent.
_MARGIN = 0.99


@dataclass(frozen=True)
class TargetSettings(Settings):
    """Settings of streamed targets.

    Each field declares the parameter of its name, see ``TARGETS``.
    """

    target_bandwidth: float = parameter(
        15.0, 'Bandwidth of the filter of streamed targets.', 0.1, 200.0, unit='rad/s'
    )
    target_speed_share: float = parameter(
        0.5, 'Fraction of the velocity limits for streamed targets.', 0.01, 1.0
    )
    target_acceleration: Any = parameter(
        [0.0],
        'Largest acceleration towards streamed targets; 0: 0.3 of the effort limit divided by the '
        'inertia in the middle of the position limits.',
        0.0,
        unit='rad/s^2 or m/s^2',
        per_joint=True,
    )
    target_timeout_s: float = parameter(
        0.5,
        'Age of the last streamed target at which the arm is brought to rest.',
        1e-3,
        60.0,
        unit='s',
    )
    target_wrench_limit: Any = parameter(
        [100.0, 20.0],
        'Largest force and torque of streamed wrenches; larger ones are scaled down.',
        0.0,
        unit='N and N m',
        size=2,
        entries='force, torque',
    )
    target_frame: str = parameter(
        'tool',
        'Link to which ~/target_pose and ~/target_wrench apply.',
    )


TARGETS = parameters_of(TargetSettings)


class TargetFilter:
    """Limits and bandwidth of streamed targets.

    Args:
        tree: The robot.
        settings: Settings of the stream.

    Attributes:
        limits: Largest speed, rad/s or m/s, and acceleration, rad/s^2 or m/s^2, of each joint.
        bandwidth: rad/s.
        timeout_ns: Timeout of the stream, ns.
    """

    def __init__(self, tree: Robot, settings: TargetSettings) -> None:
        acceleration = np.array(spread(settings.target_acceleration, tree.n))
        default = _EFFORT_SHARE * tree.effort_limit / joint_inertia(tree, tree.middle)
        speed = _MARGIN * settings.target_speed_share * tree.velocity_limits()
        acceleration = np.where(acceleration > 0.0, acceleration, default)
        self.limits: list[tuple[float, float]] = np.transpose([speed, acceleration]).tolist()
        self.bandwidth = settings.target_bandwidth
        self.timeout_ns = round(1e9 * settings.target_timeout_s)


class TargetStream(Trajectory):
    """Reference that follows streamed targets; stateful, without an end while targets arrive.

    Args:
        filter_: Filter with the limits.
        reference: Initial reference; copied.
        period: Time between two samples, s.
        semi_implicit: Whether the plant is semi-implicit; else zero-order hold.
        now_ns: Timestamp of the last state, ns.

    Attributes:
        target: Target positions, shape (n,), rad or m.
        stopping: Whether the stream has timed out.
    """

    def __init__(
        self,
        filter_: TargetFilter,
        reference: Reference,
        period: float,
        semi_implicit: bool,
        now_ns: int,
    ) -> None:
        self.n, self.duration = len(reference.position), math.inf
        self._filter, self._period, self._semi_implicit = filter_, period, semi_implicit
        self._motion, self.target = reference.rows.T.tolist(), reference.position.copy()
        self.stopping = False
        self._now_ns = self._received_ns = now_ns

    def aim(self, target: Array, filter_: TargetFilter) -> None:
        """Set the target, shape (n,), rad or m, and the filter with the limits."""
        self.target[:], self._filter = target, filter_
        self._received_ns, self.stopping = self._now_ns, False

    @property
    def resting(self) -> bool:
        """Whether the stream has timed out and the reference is at rest."""
        return self.stopping and all(max(abs(v), abs(a)) < _REST for _, v, a in self._motion)

    def advance(self, now_ns: int) -> None:
        """Advance to a state's timestamp, ns, and compute the acceleration held from then on."""
        elapsed, self._now_ns = 1e-9 * (now_ns - self._now_ns), now_ns
        self.stopping = now_ns - self._received_ns > self._filter.timeout_ns
        steps = min(max(round(elapsed / self._period), 1), _MAX_PERIODS)
        h = min(max(elapsed / steps, 0.0), 2.0 * self._period)
        for _ in range(steps):
            self._step(h)

    def _step(self, h: float) -> None:
        """Do one step of the plant, and compute the acceleration of the next one."""
        p, ahead = self._filter.bandwidth, h if self._semi_implicit else 0.5 * h
        follow = -math.expm1(-3.0 * p * h)
        # Several times as fast on numbers as on short arrays.
        joints = zip(self._motion, self.target.tolist(), self._filter.limits, strict=True)
        for i, ((q, v, a), target, (fastest, most)) in enumerate(joints):
            q += h * (v + ahead * a)
            v += h * a
            size = abs(target - q)
            speed = 0.0 if self.stopping else min(fastest, p / 3.0 * size, math.sqrt(most * size))
            desired = p * (math.copysign(speed, target - q) - v)
            desired = max(-most, min(most, desired))
            self._motion[i] = [q, v, a + follow * (desired - a)]

    def sample(self, t: float, reference: Reference) -> None:
        """Return the present reference, independent of the time; see :class:`Trajectory`."""
        reference.rows.T[:] = self._motion
