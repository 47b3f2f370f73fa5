# SPDX-License-Identifier: Apache-2.0
"""The contract of a control law, and the reference it follows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array


class Reference:
    """Where the joints shall be now: preallocated arrays that trajectories write into.

    Attributes:
        position: Shape (n,), rad or m.
        velocity: Shape (n,), rad/s or m/s.
        acceleration: Shape (n,), rad/s^2 or m/s^2, to hold during the coming period.
    """

    __slots__ = ('acceleration', 'position', 'velocity')

    def __init__(self, n: int) -> None:
        self.position: Array = np.zeros(n)
        self.velocity: Array = np.zeros(n)
        self.acceleration: Array = np.zeros(n)


class ControlLaw(ABC):
    """Computes efforts from a measured state and a reference; knows neither ROS nor limits.

    ``effort`` allocates nothing. The safe shell (limits, ramp, watchdog) is around it, not in it.
    """

    name: ClassVar[str]

    def __init__(self, tree: RobotTree) -> None:
        self.tree = tree

    @abstractmethod
    def effort(self, t: float, q: Array, v: Array, reference: Reference, out: Array) -> None:
        """Write the efforts for the coming period.

        Args:
            t: Time of the state on the program's clock, s.
            q: Measured positions, shape (n,), rad or m.
            v: Measured velocities, shape (n,), rad/s or m/s.
            reference: The joint reference of this instant; a law with its own program ignores it.
            out: Written, shape (n,), N m or N.
        """

    @abstractmethod
    def decompose(self, t: float, q: Array, v: Array, reference: Reference) -> dict[str, Array]:
        """Return the efforts by origin (inertia, coriolis, gravity, friction, feedback, ...).

        They add up to what ``effort`` writes for the same arguments. Allocates; not for the tick.
        """

    def reset(self, t: float, q: Array, v: Array) -> None:  # noqa: B027
        """Start, or start anew, from a measured state at time t; stateless laws do nothing."""

    @abstractmethod
    def set_parameters(self, values: Mapping[str, Any]) -> None:
        """Change parameters such as gains between two ticks.

        Raises:
            ParameterError: A value is refused; nothing has changed then.
        """
