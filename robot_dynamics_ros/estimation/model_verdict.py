# SPDX-License-Identifier: Apache-2.0
"""What a monitor has to say: fine, a warning, or an error, and its likely cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.estimation.gravity_fit import GravityFit
from robot_dynamics_ros.estimation.model_monitor import Summary
from robot_dynamics_ros.model.robot_tree import RobotTree
from robot_dynamics_ros.spatial.scalar import Array

OK, WARN, ERROR = 0, 1, 2

#: Parts of the effort limits at which a residual is worth a warning or an error.
WARN_PART, ERROR_PART = 0.05, 0.2
#: Two formulations that differ by more, relative to the largest effort, are not the same model.
SAME = 1e-9


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
        found = cls(
            _per_joint('residual_warn', warn, tree, WARN_PART),
            _per_joint('residual_error', error, tree, ERROR_PART),
        )
        if (found.error < found.warn).any():
            raise ParameterError(
                'residual_error', found.error.tolist(), 'must not be below residual_warn'
            )
        return found


def judge(summary: Summary, thresholds: Thresholds, tree: RobotTree) -> tuple[int, str]:
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
    gravity = gravity_sentence(summary.gravity)
    if gravity:
        level = max(level, WARN)
        sentences.append(gravity)
    return level, '; '.join(sentences) or 'the model explains the efforts'


def judge_difference(summary: Summary, names: tuple[str, str]) -> tuple[int, str]:
    """Return the level and a sentence on the difference of two formulations."""
    text = f'{names[0]} and {names[1]} differ by {summary.difference:.1e} of the largest effort'
    return (ERROR if summary.difference > SAME else OK), text


def gravity_sentence(fit: GravityFit | None) -> str:
    """Say which gravity the efforts speak of; empty if it is that of the model, or unclear."""
    if fit is None:
        return ''
    size, own = float(np.linalg.norm(fit.fitted)), float(np.linalg.norm(fit.model))
    vector = ', '.join(f'{x + 0.0:.4g}' for x in np.round(fit.fitted, 4))
    if fit.verdict == 'mismatch':
        gazebo = "; Gazebo's own default is 9.8" if abs(size - 9.8) < 5e-4 else ''
        return (
            f'gravity: the efforts speak of {size:.4f} m/s^2, the model has {own:.4f}{gazebo}; '
            f'set the parameter gravity to [{vector}]'
        )
    if fit.verdict == 'tilt':
        return (
            f'gravity: the efforts speak of ({vector}) m/s^2, as if the base were tilted; '
            'set the parameter gravity'
        )
    if fit.verdict == 'compensated':
        return (
            'gravity: the efforts hold none, the driver compensates it by itself; '
            'write compensated_by_driver: [gravity], or it is counted twice'
        )
    return ''


def _per_joint(name: str, value: Any, tree: RobotTree, part: float) -> Array:
    given = np.asarray(value, dtype=float).reshape(-1)
    if given.size not in (1, tree.n) or not (np.isfinite(given) & (given >= 0.0)).all():
        raise ParameterError(name, given.tolist(), f'give 1 or {tree.n} numbers, 0: by default')
    return np.where(given > 0.0, given, part * tree.effort_limit)
