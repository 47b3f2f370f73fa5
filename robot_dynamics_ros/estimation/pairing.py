# SPDX-License-Identifier: Apache-2.0
r"""States and efforts of a running robot, paired so that they belong to one instant.

``semi_implicit``
    A simulator holds the effort from a state to the next and steps
    :math:`v_{k+1} = v_k + h a_k`: :math:`a_k = (v_{k+1}-v_k)/h` belongs to :math:`q_k`,
    :math:`v_k` and the effort that acted in between. Nothing is estimated.
``filtered``
    For a real arm: position, velocity and effort pass through the same low pass, two stages of
    first order with the cut-off :math:`f_c`; the acceleration is the difference of the filtered
    velocity, and the rest is taken in the middle of that step. All of it is late by
    :math:`2/(2\pi f_c)`, but by the same time, so that the model can be compared.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from robot_dynamics_ros.errors import ParameterError, UnknownNameError
from robot_dynamics_ros.estimation.effort_model import Instants
from robot_dynamics_ros.spatial.scalar import Array


class Pairing(ABC):
    """Makes instants of a stream of states.

    Attributes:
        name: Its name.
        gaps: How often the stream was interrupted or went back in time.

    Args:
        longest_step: Longest time between two states of one motion, s.
    """

    name: ClassVar[str]

    def __init__(self, longest_step: float) -> None:
        if not longest_step > 0.0:
            raise ParameterError('longest_step', longest_step, 'must be positive')
        self._longest, self._time = longest_step, math.nan
        self.gaps = 0

    def take(self, t: float, q: Array, v: Array, effort: Array) -> Instants | None:
        """Take a state; return the instant that is complete with it, or None.

        Args:
            t: Its time, s; a state of the same time as the last is left out.
            q: Positions, shape (n,), rad or m.
            v: Velocities, shape (n,), rad/s or m/s.
            effort: What acted since the state before, shape (n,), N m or N; may be NaN.
        """
        step = t - self._time
        if step == 0.0 or not math.isfinite(q.sum() + v.sum()):
            return None
        begun = not math.isnan(self._time)
        self._time = t
        if 0.0 < step <= self._longest:
            return self._advance(step, q, v, effort)
        self.gaps += begun
        self._begin(q, v, effort)
        return None

    @abstractmethod
    def _begin(self, q: Array, v: Array, effort: Array) -> None:
        """Start from a state."""

    @abstractmethod
    def _advance(self, step: float, q: Array, v: Array, effort: Array) -> Instants:
        """Return the instant between the last state and this one."""


class SemiImplicit(Pairing):
    """Of a simulator, see the module."""

    name = 'semi_implicit'

    def _begin(self, q: Array, v: Array, effort: Array) -> None:
        self._q, self._v = q.copy(), v.copy()

    def _advance(self, step: float, q: Array, v: Array, effort: Array) -> Instants:
        before = self._q, self._v
        self._begin(q, v, effort)
        return Instants.one(*before, (v - before[1]) / step, v.copy(), effort.copy())


class Filtered(Pairing):
    """Of a real arm, see the module.

    Args:
        longest_step: As above.
        cutoff_hz: Cut-off frequency of each stage, Hz.
    """

    name = 'filtered'

    def __init__(self, longest_step: float, cutoff_hz: float) -> None:
        super().__init__(longest_step)
        if not 0.0 < cutoff_hz < math.inf:
            raise ParameterError('cutoff_hz', cutoff_hz, 'must be positive and finite')
        self._rate = 2.0 * math.pi * cutoff_hz

    def _begin(self, q: Array, v: Array, effort: Array) -> None:
        self._first = np.stack([q, v, effort])
        self._second = self._first.copy()

    def _advance(self, step: float, q: Array, v: Array, effort: Array) -> Instants:
        share = -math.expm1(-self._rate * step)
        known = np.isfinite(self._second[2])
        self._second[2] = np.where(known, self._second[2], effort)
        self._first[2] = np.where(known, self._first[2], effort)
        before = self._second.copy()
        self._first += share * (np.stack([q, v, effort]) - self._first)
        self._second += share * (self._first - self._second)
        middle = 0.5 * (before + self._second)
        a = (self._second[1] - before[1]) / step
        return Instants.one(middle[0], middle[1], a, middle[1], middle[2])


#: Where accelerations come from.
ACCELERATIONS = (SemiImplicit.name, Filtered.name)


def make_pairing(name: str, longest_step: float, cutoff_hz: float) -> Pairing:
    """Return a pairing.

    Args:
        name: One of ``ACCELERATIONS``.
        longest_step: Longest time between two states of one motion, s.
        cutoff_hz: Of the low pass, Hz; ``filtered`` only.

    Raises:
        UnknownNameError: There is no such pairing; lists those that exist.
        ParameterError: A number is refused.
    """
    if name not in ACCELERATIONS:
        raise UnknownNameError('acceleration', name, ACCELERATIONS)
    if name == SemiImplicit.name:
        return SemiImplicit(longest_step)
    return Filtered(longest_step, cutoff_hz)
