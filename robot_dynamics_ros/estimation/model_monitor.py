# SPDX-License-Identifier: Apache-2.0
r"""Does the model explain the efforts of a running robot, and if not, what may be wrong?

States and efforts are paired so that they belong to one instant.

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
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from robot_dynamics_ros.errors import ParameterError, UnknownNameError
from robot_dynamics_ros.estimation.effort_model import (
    EffortModel,
    Explanation,
    FormulationCheck,
    Instants,
)
from robot_dynamics_ros.estimation.gravity_fit import GravityFit
from robot_dynamics_ros.estimation.residual_causes import EffortResidual
from robot_dynamics_ros.model import RobotTree
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


#: Parts of the effort limits at which a residual is worth a warning or an error.
WARN_PART, ERROR_PART = 0.05, 0.2
#: Two formulations that differ by more, relative to the largest effort, are not the same model.
SAME = 1e-9
_SET_GRAVITY = 'set the parameter gravity to [{}]'
_COMPENSATED = 'write compensated_by_driver: [gravity], or it is counted twice'


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Residuals that matter, RMS over a report's time, shape (n,), N m or N."""

    warn: Array
    error: Array

    @classmethod
    def of(cls, tree: RobotTree, warn: Any = 0.0, error: Any = 0.0) -> Thresholds:
        """Return thresholds.

        Args:
            tree: The robot.
            warn: One for all joints or n, N m or N; 0: 5 % of the effort limits.
            error: The same; 0: 20 %.

        Raises:
            ParameterError: A count or number is wrong, or an error comes before its warning.
        """
        thresholds = cls(
            _per_joint('residual_warn', warn, tree, WARN_PART),
            _per_joint('residual_error', error, tree, ERROR_PART),
        )
        if (thresholds.error < thresholds.warn).any():
            raise ParameterError(
                'residual_error', thresholds.error.tolist(), 'must not be below residual_warn'
            )
        return thresholds


@dataclass(frozen=True, eq=False)
class Summary:
    """What was seen since the last summary.

    Attributes:
        count: Instants.
        known: Efforts that were known and not held by a joint limit, per joint, shape (n,).
        rms, largest: Of the residual per joint, shape (n,), N m or N; of a joint that rests, of
            what is beyond its Coulomb friction.
        difference: Largest difference of both formulations, relative to the largest effort.
        gravity: Which gravity fits; None if that cannot be determined.
    """

    count: int
    known: Array
    rms: Array
    largest: Array
    difference: float
    gravity: GravityFit | None


class ModelMonitor:
    """Explains instants and sums up what is left.

    Args:
        tree: The robot, with what it carries.
        formulation: Name of the formulation.
        compare_with: Name of another one; empty: none.
        friction: Whether the description's friction and armature belong to the model.

    Attributes:
        compared: Name of the other formulation, or empty.

    Raises:
        UnknownNameError: There is no such formulation.
        MissingDependencyError: It needs a library that is not installed.
    """

    def __init__(
        self,
        tree: RobotTree,
        formulation: str = 'newton_euler',
        compare_with: str = 'pinocchio',
        *,
        friction: bool = True,
    ) -> None:
        self.tree, self.compared = tree, compare_with
        self._model = EffortModel(tree, formulation, friction=friction)
        self._check = FormulationCheck(tree, compare_with) if compare_with else None
        self._residual = EffortResidual(self._model)

    def explain(self, instants: Instants) -> tuple[Explanation, Array | None]:
        """Return what the model says of M instants, and remember what it leaves unexplained.

        Returns:
            The explanation, and the efforts by the other formulation, shape (M, n), None without.
        """
        explained = self._model.explain(instants)
        self._residual.take(np.zeros(len(instants.row)), instants, explained)
        if self._check is None:
            return explained, None
        other = self._check.take(instants, explained.rigid)
        return explained, other + (explained.effort - explained.rigid)

    def summary(self) -> Summary:
        """Return what was seen since the last call, and start anew."""
        seen, self._residual = self._residual, EffortResidual(self._model)
        summary = Summary(
            seen.count,
            seen.residual.count + seen.excess.count,
            np.nan_to_num(np.fmax(seen.residual.rms, seen.excess.rms)),
            np.maximum(seen.residual.peak, seen.excess.peak),
            0.0 if self._check is None else self._check.relative,
            seen.gravity,
        )
        if self._check is not None:
            self._check.reset()
        return summary


def evaluate(summary: Summary, thresholds: Thresholds, tree: RobotTree) -> tuple[str, str]:
    """Return the level and a sentence on residual and gravity."""
    if not summary.count:
        return 'warning', 'no states'
    if not summary.known.any():
        return 'warning', 'no efforts to compare with'
    level, sentences = 'ok', []
    excess = summary.rms / thresholds.warn
    worst = int(np.argmax(excess))
    if excess[worst] > 1.0:
        level = 'error' if (summary.rms > thresholds.error).any() else 'warning'
        unit = 'N' if tree.prismatic[worst] else 'N m'
        sentences.append(
            f'joint {tree.joint_names[worst]!r}: {summary.rms[worst]:.3g} {unit} RMS are not '
            f'explained, more than {thresholds.warn[worst]:.3g}'
        )
    fit = summary.gravity
    if fit is not None and fit.verdict not in ('agrees', 'perhaps'):
        level = 'warning' if level == 'ok' else level
        sentences.append(fit.sentence(_SET_GRAVITY, _COMPENSATED))
    return level, '; '.join(sentences) or 'the model explains the efforts'


def evaluate_difference(summary: Summary, names: tuple[str, str]) -> tuple[str, str]:
    """Return the level and a sentence on the difference of two formulations."""
    text = f'{names[0]} and {names[1]} differ by {summary.difference:.1e} of the largest effort'
    return ('error' if summary.difference > SAME else 'ok'), text


def _per_joint(name: str, value: Any, tree: RobotTree, part: float) -> Array:
    numbers = np.asarray(value, dtype=float).reshape(-1)
    if numbers.size not in (1, tree.n) or not (np.isfinite(numbers) & (numbers >= 0.0)).all():
        raise ParameterError(name, numbers.tolist(), f'give 1 or {tree.n} numbers, 0: by default')
    return np.where(numbers > 0.0, numbers, part * tree.effort_limit)
