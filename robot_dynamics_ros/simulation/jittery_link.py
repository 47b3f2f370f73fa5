# SPDX-License-Identifier: Apache-2.0
"""A network between a robot and its controller: late at random, and with losses."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.simulation.plant import Plant, WrappedPlant
from robot_dynamics_ros.spatial.scalar import Array


@dataclass(frozen=True)
class LinkBehavior:
    """What the network does to commands and states.

    Attributes:
        command_jitter, state_jitter: Most periods by which one is late; each number of periods
            from 0 to that is as likely. What is overtaken is lost.
        command_loss, state_loss: Probability that one does not arrive, below 1.
        seed: Seed of it all.
    """

    command_jitter: int = 0
    state_jitter: int = 0
    command_loss: float = 0.0
    state_loss: float = 0.0
    seed: int = 0


class LinkedPlant(WrappedPlant):
    """A plant at the other end of a link: the last command that has arrived is held.

    Attributes:
        plant: The plant inside.
        silent: Whether the state of the last step did not arrive: ``read`` gives the one before.

    Args:
        plant: The plant, at its initial state.
        link: The link.

    Raises:
        ParameterError: A value is refused.
    """

    _commands: _DelayLine
    _states: _DelayLine

    def __init__(self, plant: Plant, link: LinkBehavior) -> None:
        super().__init__(plant)
        for name in ('command_jitter', 'state_jitter'):
            if getattr(link, name) < 0:
                raise ParameterError(name, getattr(link, name), 'a number of periods, 0 or more')
        for name in ('command_loss', 'state_loss'):
            if not 0.0 <= getattr(link, name) < 1.0:
                raise ParameterError(name, getattr(link, name), 'a probability below 1')
        self._link = link
        self._begin()

    def step(self, effort: Array) -> None:
        """Advance by one period under the last command that has arrived; see the contract."""
        command = np.array(self._checked('effort', effort))
        self._advance(self._commands.carry(command))
        before = self._states.arrived
        self._state = self._states.carry(self._measured())
        self.silent = self._states.arrived == before

    def read(self, q: Array, v: Array) -> None:
        """Write the last state that has arrived; see the contract."""
        q[:], v[:] = self._state

    def _begin(self) -> None:
        link, rng = self._link, np.random.default_rng(self._link.seed)
        still = np.zeros(self.tree.n)
        self._commands = _DelayLine(link.command_jitter, link.command_loss, rng, still)
        self._state = self._measured()
        self._states = _DelayLine(link.state_jitter, link.state_loss, rng, self._state)
        self.silent = False

    def _measured(self) -> Array:
        state = np.zeros((2, self.tree.n))
        self.plant.read(*state)
        return state


class _DelayLine:
    """Carries one message per period; nobody waits.

    Attributes:
        arrived: Messages that have arrived.
    """

    def __init__(self, jitter: int, loss: float, rng: np.random.Generator, first: Array) -> None:
        self._jitter, self._loss, self._rng = jitter, loss, rng
        self._on_the_way: deque[tuple[int, Array]] = deque()
        self._newest = first
        self._now = self.arrived = 0

    def carry(self, message: Array) -> Array:
        """Send a message; return the newest that has arrived by now."""
        if not (self._loss and self._rng.random() < self._loss):
            late = int(self._rng.integers(0, self._jitter + 1)) if self._jitter else 0
            self._on_the_way.append((self._now + late, message))
        due = [k for k, (when, _) in enumerate(self._on_the_way) if when <= self._now]
        if due:
            for _ in range(due[-1] + 1):
                _, self._newest = self._on_the_way.popleft()
            self.arrived += 1
        self._now += 1
        return self._newest
