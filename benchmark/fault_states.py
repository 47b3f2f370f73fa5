# SPDX-License-Identifier: Apache-2.0
"""Scenarios of the fault campaign, and distortions of the states."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Vector = Any
State = tuple[int, Vector, Vector]


@dataclass(frozen=True)
class Fault:
    """A distortion or a change from a step on; ``seed`` determines its details."""

    step: int
    kind: str
    seed: int


@dataclass(frozen=True)
class Scenario:
    """A scenario; faults and steps can be removed without changing the others."""

    arm: str
    law: str
    stop_action: str
    profile: str
    seed: int
    steps: int
    faults: tuple[Fault, ...]


@dataclass
class Distortion:
    """A distortion of the states for a while.

    Attributes:
        kind: Name of a method that takes the state of a step and returns the delivered states.
        rng: Random number generator.
        until: Step at which it ends.
        kept: States to deliver later.
    """

    kind: str
    rng: np.random.Generator
    until: int
    kept: list[State] = field(default_factory=list)

    def lost(self, state: State) -> list[State]:
        """Lose two thirds of the states."""
        return [state] if self.rng.random() < 0.33 else []

    def late(self, state: State) -> list[State]:
        """Deliver every state some periods later."""
        self.kept.append(state)
        return [self.kept.pop(0)] if len(self.kept) > 3 else []

    def doubled(self, state: State) -> list[State]:
        """Deliver every state twice."""
        return [state, state]

    def reordered(self, state: State) -> list[State]:
        """Deliver the later of two states first."""
        self.kept.append(state)
        arrived = self.kept[::-1] if len(self.kept) == 2 else []
        if arrived:
            self.kept = []
        return arrived

    def repeated(self, state: State) -> list[State]:
        """Deliver the same state repeatedly."""
        self.kept = self.kept or [state]
        return self.kept

    def jumping(self, state: State) -> list[State]:
        """Let positions jump occasionally."""
        if self.rng.random() >= 0.2:
            return [state]
        return [(state[0], state[1] + 0.5 * self.rng.normal(size=len(state[1])), state[2])]

    def contradicting(self, state: State) -> list[State]:
        """Add states of another arm from a second publisher."""
        other = np.random.default_rng(self.until).normal(size=len(state[1])) * 0.3
        return [state, (state[0] + 1000, state[1] + other, np.zeros(len(other)))]

    def nan(self, state: State) -> list[State]:
        """Replace a value by a non-finite one."""
        return [self._spoiled(state, (math.nan, math.inf, -math.inf))]

    def huge(self, state: State) -> list[State]:
        """Replace a value by an impossibly large one."""
        return [self._spoiled(state, (1e300, -1e300, 1e154, 1e7))]

    def denormal(self, state: State) -> list[State]:
        """Replace a value by a denormal one."""
        return [self._spoiled(state, (5e-324, -5e-324, 1e-310))]

    def frozen(self, state: State) -> list[State]:
        """Keep the values constant while timestamps advance."""
        self.kept = self.kept or [state]
        return [(state[0], *self.kept[0][1:])]

    def inconsistent(self, state: State) -> list[State]:
        """Deliver velocities that contradict the positions."""
        return [(state[0], state[1], state[2] + self.rng.normal(size=len(state[2])))]

    def jitter(self, state: State) -> list[State]:
        """Shift timestamps by up to half a period."""
        return [(state[0] + int(self.rng.integers(-400_000, 400_000)), *state[1:])]

    def silence(self, state: State) -> list[State]:
        """Deliver no states."""
        return []

    def _spoiled(self, state: State, values: tuple[float, ...]) -> State:
        row = np.array(state[1:])
        row[self.rng.integers(2), self.rng.integers(row.shape[1])] = self.rng.choice(values)
        return state[0], row[0], row[1]


#: Distortions of the states: minimum and maximum duration, periods.
STATE_FAULTS = {
    'lost': (5, 60), 'late': (10, 80), 'doubled': (5, 50), 'reordered': (6, 50),
    'repeated': (2, 15), 'jumping': (2, 40), 'contradicting': (5, 60), 'nan': (1, 15),
    'huge': (1, 15), 'denormal': (1, 15), 'frozen': (2, 60), 'inconsistent': (1, 40),
    'jitter': (10, 80), 'silence': (120, 250),
}  # fmt: skip
