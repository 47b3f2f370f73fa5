# SPDX-License-Identifier: Apache-2.0
"""Does the model explain the efforts of a running robot, and if not, what may be wrong?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.estimation.effort_model import (
    EffortModel,
    Explanation,
    FormulationCheck,
    Instants,
)
from robot_dynamics_ros.estimation.gravity_fit import GravityFit
from robot_dynamics_ros.estimation.residual_causes import EffortResidual
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

OK, WARN, ERROR = 0, 1, 2

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


def evaluate(summary: Summary, thresholds: Thresholds, tree: RobotTree) -> tuple[int, str]:
    """Return the level and a sentence on residual and gravity."""
    if not summary.count:
        return WARN, 'no states'
    if not summary.known.any():
        return WARN, 'no efforts to compare with'
    level, sentences = OK, []
    excess = summary.rms / thresholds.warn
    worst = int(np.argmax(excess))
    if excess[worst] > 1.0:
        level = ERROR if (summary.rms > thresholds.error).any() else WARN
        unit = 'N' if tree.prismatic[worst] else 'N m'
        sentences.append(
            f'joint {tree.joint_names[worst]!r}: {summary.rms[worst]:.3g} {unit} RMS are not '
            f'explained, more than {thresholds.warn[worst]:.3g}'
        )
    fit = summary.gravity
    if fit is not None and fit.verdict not in ('agrees', 'perhaps'):
        level = max(level, WARN)
        sentences.append(fit.sentence(_SET_GRAVITY, _COMPENSATED))
    return level, '; '.join(sentences) or 'the model explains the efforts'


def evaluate_difference(summary: Summary, names: tuple[str, str]) -> tuple[int, str]:
    """Return the level and a sentence on the difference of two formulations."""
    text = f'{names[0]} and {names[1]} differ by {summary.difference:.1e} of the largest effort'
    return (ERROR if summary.difference > SAME else OK), text


def _per_joint(name: str, value: Any, tree: RobotTree, part: float) -> Array:
    numbers = np.asarray(value, dtype=float).reshape(-1)
    if numbers.size not in (1, tree.n) or not (np.isfinite(numbers) & (numbers >= 0.0)).all():
        raise ParameterError(name, numbers.tolist(), f'give 1 or {tree.n} numbers, 0: by default')
    return np.where(numbers > 0.0, numbers, part * tree.effort_limit)
