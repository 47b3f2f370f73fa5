# SPDX-License-Identifier: Apache-2.0
"""The part of an effort that a driver gives by itself, which must not be commanded again."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import Kernel

_STICTION_VELOCITY = 1e-3  # rad/s or m/s: width of the smooth sign, as in the laws


class DriverCompensation:
    r"""What a driver compensates: gravity, friction, both or nothing.

    .. math:: \tau_{driver} = g(q) + b\,v + \tau_c \tanh(v / v_s)

    A law computes all that the motors shall give; the driver receives that less its share, at the
    state of the tick.

    Validity: as far as the driver's model is ours. The friction is the description's.

    Attributes:
        terms: What is compensated.

    Args:
        tree: Gives friction.
        gravity_forces: Kernel of the gravity that the driver compensates: with or without what is
            carried.
        terms: Any of 'gravity' and 'friction'.
    """

    def __init__(self, tree: RobotTree, gravity_forces: Kernel, terms: Collection[str]) -> None:
        self.terms = tuple(terms)
        self._gravity = gravity_forces if 'gravity' in terms else None
        friction = zip(tree.damping.tolist(), tree.coulomb_friction.tolist(), strict=True)
        self._friction = tuple(friction) if 'friction' in terms else ()
        self.effort: Array = np.zeros(tree.n)

    def update(self, q: Array, v: Array) -> Array:
        """Return the share at a state: ``effort`` itself, shape (n,), N m or N."""
        share = self.effort
        if self._gravity is not None:
            self._gravity(q, share)
        else:
            share.fill(0.0)
        for i, (b, dry) in enumerate(self._friction):
            speed = float(v[i])
            share[i] += b * speed + dry * math.tanh(speed / _STICTION_VELOCITY)
        return share
