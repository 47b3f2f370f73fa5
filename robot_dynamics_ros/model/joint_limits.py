# SPDX-License-Identifier: Apache-2.0
"""Limits of the joints, and what follows from them: middles, samples, turns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.model.body_tree import BodyTree
from robot_dynamics_ros.spatial.scalar import Array

TURN = 2.0 * math.pi  # rad
_MANY_TURNS = 3.0
_ENDLESS_TRAVEL = 1.0  # m
_ROUNDED = 1e-3  # rad or m, of a position that is written in a file


@dataclass(frozen=True, eq=False, kw_only=True)
class LimitedTree(BodyTree):
    """The independent joints of a tree with their limits.

    Attributes:
        position_lower, position_upper: Joint limits, shape (n,), rad or m; infinite if continuous.
        velocity_limit: Velocity limits, shape (n,), rad/s or m/s; infinite if not given.
        effort_limit: Effort limits, shape (n,), N m or N; positive.
        soft_lower, soft_upper: Soft position limits, which bound references (trajectories,
            targets, paths, samples) within the position limits, shape (n,), rad or m, or one
            number for all; infinite for joints without one.
    """

    position_lower: Array
    position_upper: Array
    velocity_limit: Array
    effort_limit: Array
    soft_lower: Array | float = -math.inf
    soft_upper: Array | float = math.inf

    @property
    def joint_is_continuous(self) -> Array:
        """Whether each of the n independent joints may turn without end, shape (n,).

        A whole turn of it changes nothing, so its positions are angles. Not so if mimic joints
        follow it that slide, or turn by a fraction of its turns.
        """
        found = ~np.array(self.joint_is_prismatic)
        found &= np.isinf(self.position_lower) & np.isinf(self.position_upper)
        rate, prismatic = self.rate, np.array(self.prismatic)[:, np.newaxis]
        return found & ~((rate != 0.0) & (prismatic | (rate % 1.0 != 0.0))).any(axis=0)

    def nearest_turn(self, q: Array, near: Array) -> Array:
        """Return positions with continuous joints turned by whole turns to be nearest to others.

        Args:
            q: Shape (..., n), rad or m.
            near: Shape (..., n), rad or m.

        Returns:
            New array, shape (..., n).
        """
        return q + TURN * np.round((near - q) / TURN) * self.joint_is_continuous

    @property
    def position_range(self) -> Array:
        """Width of the position limits, shape (n,), rad or m; 0 for unlimited joints."""
        span = self.position_upper - self.position_lower
        return np.where(np.isfinite(span), span, 0.0)

    @property
    def reference_lower(self) -> Array:
        """Lower limit of references, shape (n,), rad or m: of the position, and the soft one."""
        return np.maximum(self.position_lower, self.soft_lower)

    @property
    def reference_upper(self) -> Array:
        """Upper limit of references, shape (n,), rad or m; see ``reference_lower``."""
        return np.minimum(self.position_upper, self.soft_upper)

    def limits_word(self, i: int) -> str:
        """Return what the reference limits of joint i are called in messages."""
        reference = self.reference_lower[i], self.reference_upper[i]
        own = self.position_lower[i], self.position_upper[i]
        return 'limits' if reference == own else 'soft limits'

    def beyond(self, i: int, position: float) -> tuple[str, str] | None:
        """Return problem and remedy of a position of joint i beyond its limits; None if within."""
        lower, upper = self.position_lower[i], self.position_upper[i]
        if lower - _ROUNDED <= position <= upper + _ROUNDED:
            return None
        remedy = f'its limits are {lower:.4g} to {upper:.4g}{self.if_degrees(i, position)}'
        return f'is {position:g} for joint {self.joint_names[i]!r}', remedy

    def if_degrees(self, i: int, position: float) -> str:
        """Return the end of a remedy if a position of joint i may be in degrees; else nothing."""
        angle, limits = math.radians(position), (self.position_lower[i], self.position_upper[i])
        turns = self.joint_is_prismatic[i] or abs(position) <= TURN
        if turns or not limits[0] <= angle <= limits[1]:
            return ''
        return f'; angles are in rad: {position:.4g} degrees are {angle:.4g}'

    @property
    def middle(self) -> Array:
        """The one default posture: of searches, programs and laws without another one, (n,)."""
        return self.limits_middle

    @property
    def limits_middle(self) -> Array:
        """Middle of the reference limits, shape (n,), rad or m; nearest to 0 if endless.

        Of revolute joints with many turns, whose limits may be in degrees, it is the middle of the
        turn that is nearest to 0.
        """
        lower, upper = self.reference_lower, self.reference_upper
        ends = np.where(self._limited, [lower, upper], np.clip(0.0, lower, upper))
        most = np.where(self.joint_is_prismatic, math.inf, _MANY_TURNS * TURN)
        many = self._limited & (upper - lower > most)
        return np.where(many, np.clip(0.0, lower + np.pi, upper - np.pi), ends.mean(axis=0))

    @property
    def sampled_range(self) -> tuple[Array, Array]:
        """Lower and upper bound of samples, shape (n,) each, rad or m.

        They are the reference limits, but at most a turn about ``limits_middle`` of a revolute
        joint, and ``_ENDLESS_TRAVEL`` to both sides of an endless prismatic one.
        """
        endless = np.where(self._limited, np.inf, _ENDLESS_TRAVEL)
        reach, middle = np.where(self.joint_is_prismatic, endless, np.pi), self.limits_middle
        lower = np.maximum(self.reference_lower, middle - reach)
        return lower, np.minimum(self.reference_upper, middle + reach)

    @property
    def planning_range(self) -> tuple[Array, Array]:
        """Lower and upper bound of postures and motions that are planned, shape (n,) each."""
        return self.sampled_range

    @property
    def _limited(self) -> Array:
        return np.isfinite(self.position_lower) & np.isfinite(self.position_upper)

    def velocity_limits(self, default: float = 1.0) -> Array:
        """Return velocity limits, shape (n,), rad/s or m/s; ``default`` where there is none."""
        return np.where(np.isfinite(self.velocity_limit), self.velocity_limit, default)
