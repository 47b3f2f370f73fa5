# SPDX-License-Identifier: Apache-2.0
r"""Monitor whether the model explains the efforts of a running robot, and report likely causes.

States and efforts are combined to instants in one of two ways.

``semi_implicit``
    For simulators, which hold the effort from one state to the next and integrate
    :math:`v_{k+1} = v_k + h a_k`: :math:`a_k = (v_{k+1}-v_k)/h` corresponds to :math:`q_k`,
    :math:`v_k` and the effort in between. Nothing is estimated.
``filtered``
    For real arms: position, velocity and effort pass through the same low-pass filter, two
    first-order stages with cutoff :math:`f_c`; the acceleration is the difference quotient of the
    filtered velocity, and the other signals are averaged over that step. All signals have the same
    delay :math:`2/(2\pi f_c)`, so they can be compared with the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from robot_dynamics_ros.dynamics import Formulation, make_formulation
from robot_dynamics_ros.errors import ParameterError, known_name
from robot_dynamics_ros.estimation.effort_model import EffortModel, Instants, ModelEfforts
from robot_dynamics_ros.estimation.hypotheses import GRAVITY, GravityFit
from robot_dynamics_ros.estimation.residual_causes import EffortResidual
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.spatial.scalar import Array


def rigid_efforts(formulation: Formulation, instants: Instants) -> Array:
    """Return the rigid-body efforts of a formulation at M instants, shape (M, n), N m or N."""
    rows = zip(instants.q, instants.v, instants.a, strict=True)
    efforts = np.array([formulation.inverse_dynamics(*row) for row in rows])
    return efforts.reshape(instants.q.shape)


def relative_difference(efforts: Array, others: Array) -> float:
    """Return the largest difference of efforts relative to the largest other one; NaN of none."""
    if not others.size:
        return math.nan
    return float(np.abs(others - efforts).max()) / max(float(np.abs(others).max()), 1e-6)


_CLOSE = 0.1  # of the usual step: closer states are one
_FADING = 0.9  # of the usual step with each state, as states may come faster
#: Methods to obtain accelerations, see the module.
ACCELERATIONS = ('semi_implicit', 'filtered')


class Pairing:
    """Combines a stream of states and efforts to instants.

    Attributes:
        name: Name of the method.
        gaps: Number of interruptions and backward jumps of the stream.

    Args:
        name: One of ``ACCELERATIONS``.
        longest_step: Longest time between consecutive states; a longer one is a gap, s.
        cutoff_hz: Cutoff frequency of each stage of the low-pass filter, Hz; ``filtered`` only.

    Raises:
        UnknownNameError: The name is unknown; the message lists the known ones.
        ParameterError: A number is out of range.
    """

    def __init__(self, name: str, longest_step: float, cutoff_hz: float) -> None:
        self.name = known_name('acceleration', name, ACCELERATIONS)
        if not longest_step > 0.0:
            raise ParameterError('longest_step', longest_step, 'must be positive')
        if name == 'filtered' and not 0.0 < cutoff_hz < math.inf:
            raise ParameterError('cutoff_hz', cutoff_hz, 'must be positive and finite')
        self._longest, self._rate = longest_step, 2.0 * math.pi * cutoff_hz
        self._time, self.gaps, self._usual = math.nan, 0, 0.0

    def take(self, t: float, q: Array, v: Array, effort: Array) -> Instants | None:
        """Add a state, and return the instant it completes, or None.

        Args:
            t: Time of the state, s; a state with the time of the previous one, or within a tenth
                of the usual step of it, is ignored: over so little, noise is an acceleration.
            q: Positions, shape (n,), rad or m.
            v: Velocities, shape (n,), rad/s or m/s.
            effort: Effort since the previous state, shape (n,), N m or N; may be NaN.
        """
        step = t - self._time
        usual, self._usual = self._usual, _FADING * self._usual
        if 0.0 <= step <= _CLOSE * usual or not math.isfinite(q.sum() + v.sum()):
            return None
        has_previous = not math.isnan(self._time)
        self._time, state = t, np.stack([q, v, effort])
        if not 0.0 < step <= self._longest:
            self.gaps += has_previous
            self._first, self._last = state, state.copy()
            return None
        self._usual = max(self._usual, step)
        if self.name == 'filtered':
            return self._filtered(step, state)
        before, self._last = self._last, state
        return Instants.one(before[0], before[1], (v - before[1]) / step, state[1], state[2])

    def _filtered(self, step: float, state: Array) -> Instants:
        """Advance both stages of the filter; return the instant between their results."""
        share = -math.expm1(-self._rate * step)
        for stage in (self._first, self._last):
            stage[2] = np.where(np.isfinite(self._last[2]), stage[2], state[2])
        before = self._last.copy()
        self._first += share * (state - self._first)
        self._last += share * (self._first - self._last)
        middle = 0.5 * (before + self._last)
        a = (self._last[1] - before[1]) / step
        return Instants.one(middle[0], middle[1], a, middle[1], middle[2])


#: Default thresholds of warning and error, as fractions of the effort limits.
WARN_SHARE, ERROR_SHARE = 0.05, 0.2
#: Tolerance of the difference of two formulations, relative to the largest effort.
FORMULATION_TOLERANCE = 1e-9
_FOR_GRAVITY = 200  # instants from which a gravity is told; of former summaries if there are fewer
_GRAVITY_ADVICE = 'set the parameter gravity to [{}]'
_COMPENSATION_ADVICE = 'write compensated_by_driver: [gravity], or it is counted twice'


class Thresholds(NamedTuple):
    """Thresholds of the RMS residual over a report period, shape (n,), N m or N."""

    warn: Array
    error: Array

    @classmethod
    def of(cls, tree: Robot, warn: Any = 0.0, error: Any = 0.0) -> Thresholds:
        """Create thresholds, with defaults from the effort limits.

        Args:
            tree: The robot.
            warn: Warning threshold, one number or n, N m or N; 0 for 5 % of the effort limits.
            error: Error threshold, likewise; 0 for 20 % of the effort limits.

        Raises:
            ParameterError: A count or value is invalid, or an error threshold is below its
                warning threshold.
        """
        thresholds = cls(
            _per_joint('residual_warn', warn, tree, WARN_SHARE),
            _per_joint('residual_error', error, tree, ERROR_SHARE),
        )
        if (thresholds.error < thresholds.warn).any():
            raise ParameterError(
                'residual_error', thresholds.error.tolist(), 'must not be below residual_warn'
            )
        return thresholds


@dataclass(frozen=True, eq=False)
class Summary:
    """Summary of the instants since the previous summary.

    Attributes:
        count: Number of instants.
        evaluated: Number of efforts per joint, excluding those at joint limits, shape (n,).
        rms, largest: RMS and peak residual per joint, shape (n,), N m or N; for a joint at rest
            only the part beyond its Coulomb friction.
        difference: Largest difference of the formulations, relative to the largest effort.
        gravity: The fitted gravity; None if it cannot be determined.
    """

    count: int
    evaluated: Array
    rms: Array
    largest: Array
    difference: float
    gravity: GravityFit | None


class ModelMonitor:
    """Compares efforts with the model and accumulates the residuals.

    Args:
        tree: The robot, including its payload.
        formulation: Name of the formulation.
        compare_with: Name of a formulation to compare with; empty for none.
        friction: Whether to include the friction and armature of the description.

    Attributes:
        compared: Name of the other formulation, or empty.

    Raises:
        UnknownNameError: A formulation is unknown.
        MissingDependencyError: A formulation requires a library that is not installed.
    """

    def __init__(
        self,
        tree: Robot,
        formulation: str = 'newton_euler',
        compare_with: str = 'pinocchio',
        *,
        friction: bool = True,
    ) -> None:
        self.tree, self.compared = tree, compare_with
        self._model = EffortModel(tree, formulation, friction=friction)
        self._other = make_formulation(compare_with, tree) if compare_with else None
        self._instants, self._compared = list[Instants](), [np.zeros((2, 0, tree.n))]
        self._recent = Instants.of_motion(*np.zeros((4, 0, tree.n)))

    def compare(self, instants: Instants) -> tuple[ModelEfforts, Array | None]:
        """Compare M instants with the model, and keep them for the next summary.

        Returns:
            The model efforts, and the efforts of the other formulation, shape (M, n), N m or N, or
            None.
        """
        modelled = self._model.evaluate(instants)
        self._instants.append(instants)
        if self._other is None:
            return modelled, None
        rigid, other = modelled.rigid, rigid_efforts(self._other, instants)
        self._compared.append(np.stack([rigid, other]))
        return modelled, other + (modelled.effort - rigid)

    def summary(self) -> Summary:
        """Return the summary since the previous call, and reset.

        Its gravity is that of the last ``_FOR_GRAVITY`` instants at least.
        """
        none, new = self._recent.take(slice(0)), self._instants
        instants, self._instants = Instants.joined([none, *new]), []
        sums, fewer = self._residual(instants), len(instants.row) < _FOR_GRAVITY
        known = Instants.joined([self._recent, *new]).take(slice(-_FOR_GRAVITY, None))
        self._recent = known
        summary = Summary(
            sums.count,
            sums.residual.count + sums.excess.count,
            np.nan_to_num(np.fmax(sums.residual.rms, sums.excess.rms)),
            np.maximum(sums.residual.peak, sums.excess.peak),
            relative_difference(*np.concatenate(self._compared, axis=1)) if self._other else 0.0,
            (self._residual(known) if fewer else sums).gravity,
        )
        del self._compared[1:]
        return summary

    def _residual(self, instants: Instants) -> EffortResidual:
        return EffortResidual(self._model, instants, kinds=GRAVITY)


def evaluate(summary: Summary, thresholds: Thresholds, tree: Robot) -> tuple[str, str]:
    """Return a diagnostic level and a message on residual and gravity."""
    if not summary.count:
        return 'warning', 'no states'
    if not summary.evaluated.any():
        return 'warning', 'no efforts to compare with'
    level, sentences = 'ok', []
    excess = summary.rms / thresholds.warn
    worst = int(np.argmax(excess))
    if excess[worst] > 1.0:
        level = 'error' if (summary.rms > thresholds.error).any() else 'warning'
        unit = 'N' if tree.joint_is_prismatic[worst] else 'N m'
        sentences.append(
            f'joint {tree.joint_names[worst]!r}: {summary.rms[worst]:.3g} {unit} RMS are not '
            f'explained, more than {thresholds.warn[worst]:.3g}'
        )
    fit = summary.gravity
    if fit is not None and fit.verdict not in ('agrees', 'perhaps'):
        level = 'warning' if level == 'ok' else level
        sentences.append(fit.sentence(_GRAVITY_ADVICE, _COMPENSATION_ADVICE))
    return level, '; '.join(sentences) or 'the model explains the efforts'


def evaluate_difference(summary: Summary, names: tuple[str, str]) -> tuple[str, str]:
    """Return a diagnostic level and a message on the difference of two formulations."""
    text = f'{names[0]} and {names[1]} differ by {summary.difference:.1e} of the largest effort'
    return ('error' if summary.difference > FORMULATION_TOLERANCE else 'ok'), text


def _per_joint(name: str, value: Any, tree: Robot, share: float) -> Array:
    numbers = np.asarray(value, dtype=float).reshape(-1)
    if numbers.size not in (1, tree.n) or not (np.isfinite(numbers) & (numbers >= 0.0)).all():
        raise ParameterError(name, numbers.tolist(), f'give 1 or {tree.n} numbers, 0: default')
    return np.where(numbers > 0.0, numbers, share * tree.effort_limit)
