# SPDX-License-Identifier: Apache-2.0
"""The contract of a simulated robot: it takes efforts, one period a step, and shows its state."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from robot_dynamics_ros.errors import DivergenceError, NonFiniteError, ParameterError, ShapeError
from robot_dynamics_ros.model.payload import Payload
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array


class Plant(ABC):
    """A robot that moves under joint efforts, held constant over each period.

    A plant is deterministic: the same calls give the same numbers, bit for bit.

    Attributes:
        tree: The robot as it is simulated, payload and model error included.
        period: Duration of a step, s.
        steps: Steps since the last reset.
        effort: Efforts that acted during the last step, limits applied, shape (n,), N m or N.

    Args:
        tree: The robot to simulate.
        period: Duration of a step, s.

    Raises:
        ParameterError: The period is not positive.
    """

    def __init__(self, tree: RobotTree, period: float) -> None:
        if not 0.0 < period < np.inf:
            raise ParameterError('period', period, 'the period of a step is positive, in s')
        self.tree = tree
        self.period = period
        self.steps = 0
        self.effort: Array = np.zeros(tree.n)

    @property
    def time(self) -> float:
        """Simulated time since the last reset, s."""
        return self.steps * self.period

    @abstractmethod
    def reset(self, q: Array | None = None, v: Array | None = None) -> None:
        """Return to time 0 at a given state, at zero where none is given.

        Args:
            q: Joint positions, shape (n,), rad or m.
            v: Joint velocities, shape (n,), rad/s or m/s.

        Raises:
            ShapeError: An argument has not the shape (n,).
            NonFiniteError: An argument is NaN or infinite.
        """

    @abstractmethod
    def step(self, effort: Array) -> None:
        """Advance by one period under constant efforts, which saturate at the effort limits.

        Args:
            effort: Shape (n,), N m or N.

        Raises:
            ShapeError: The effort has not the shape (n,).
            NonFiniteError: The effort is NaN or infinite; nothing has moved then.
            DivergenceError: The state left the range of finite numbers.
        """

    @abstractmethod
    def read(self, q: Array, v: Array) -> None:
        """Write the measured state into q and v, shape (n,), rad or m and rad/s or m/s."""

    @abstractmethod
    def set_payload(self, payload: Payload | None) -> None:
        """Attach a payload in place of the present one, or none; the state stays as it is.

        Raises:
            UnknownNameError: The payload's frame does not exist.
            ModelError: The payload is not physical.
        """

    def _checked(self, name: str, value: Array) -> Array:
        if np.shape(value) != (self.tree.n,):
            raise ShapeError(name, np.shape(value), (self.tree.n,))
        if not np.isfinite(value).all():
            raise NonFiniteError(name, value)
        return value

    def _refuse_divergence(self, *quantities: Array) -> None:
        if not all(np.isfinite(quantity).all() for quantity in quantities):
            raise DivergenceError(f'the simulation of {self.tree.name!r}', self.time)
