# SPDX-License-Identifier: Apache-2.0
"""The last measured state that was believed, on a clock that begins with the first one."""

from __future__ import annotations

from enum import Enum

import numpy as np

from robot_dynamics_ros.control.drivers.filtered_derivative import FilteredDerivative
from robot_dynamics_ros.control.safety import StateValidator, StateVerdict
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

_SECOND_NS = 1_000_000_000


class Observation(Enum):
    """What became of a measured state."""

    #: New and believed: the loop may be run.
    NEW = 'new'
    #: The stamp has not advanced: already answered.
    REPEATED = 'repeated'
    #: Not believed (not finite, implausible, a jump); ``last_refusal`` says why.
    REFUSED = 'refused'


class MeasuredState:
    """What was measured last and believed.

    Attributes:
        q, v: Positions and velocities, shape (n,), rad or m and rad/s or m/s.
        stamp_ns: Their time, ns.
        validator: Decides what is believed.
        restarted: Whether it began anew, after a jump of time or a gap.
        last_refusal: Why the last refused state was refused; empty if none was.

    Args:
        tree: The robot.
        derivative: What makes velocities of believed positions, if they are not measured.
    """

    def __init__(self, tree: RobotTree, derivative: FilteredDerivative | None) -> None:
        self.q: Array = np.zeros(tree.n)
        self.v: Array = np.zeros(tree.n)
        self.stamp_ns, self.last_refusal, self.restarted = 0, '', False
        self.validator = StateValidator(tree, 1.0, measured_velocity=derivative is None)
        self._derivative, self._still = derivative, np.zeros(tree.n)
        self._origin_ns: int | None = None

    @property
    def time(self) -> float:
        """Time since the first state, s."""
        return (self.stamp_ns - (self._origin_ns or 0)) / _SECOND_NS

    def take(self, stamp_ns: int, q: Array, v: Array) -> Observation:
        """Take over a state if it is to be believed; arguments as of ``ControlLoop.observe``."""
        if self._origin_ns is None:
            self._origin_ns = stamp_ns
        elapsed = (stamp_ns - self._origin_ns) / _SECOND_NS
        if self._derivative is not None:
            v = self._still
        verdict = self.validator.accept(elapsed, q, v)
        if verdict is StateVerdict.NOT_NEWER:
            return Observation.REPEATED
        if not verdict.usable:
            self.last_refusal = verdict.value
            return Observation.REFUSED
        self.stamp_ns, self.restarted = stamp_ns, verdict is StateVerdict.RESTARTED
        self.q[:], self.v[:] = q, v
        if self._derivative is not None:  # of believed positions only
            self.v[:] = self._derivative.update(elapsed, q)
        return Observation.NEW
