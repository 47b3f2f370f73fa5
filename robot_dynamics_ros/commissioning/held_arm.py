# SPDX-License-Identifier: Apache-2.0
"""Compare the efforts of a held arm with gravity, and diagnose deviations.

The effort of an arm held at rest, by its own controller or ours, equals the gravity effort of the
model in every pose. If the efforts of several poses deviate, each simple fault is tried (a sign,
an exchange of joints, a unit, gravity counted twice or not at all), and the one that explains the
poses is reported. Multiple faults are found one after another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_dynamics_ros.commissioning.driver_samples import (
    DriverSamples,
    gravity_function,
    named,
)
from robot_dynamics_ros.commissioning.fault_hypotheses import (
    Assumptions,
    FaultHypothesis,
    fault_hypotheses,
)
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.spatial.scalar import Array

FEW_POSES = 4
_ACCEPTED = 1.5  # maximum RMS residual of a joint without fault, relative to the tolerance
_IMPROVEMENT = 0.3  # maximum relative score that a reported hypothesis leaves
_CAP = 25.0  # saturation of squared relative residuals
_LOADED = 3.0  # minimum range of gravity to check a joint, relative to the tolerance


@dataclass(frozen=True, eq=False)
class Commissioning:
    """Result of a check; arrays have shape (n,) unless stated otherwise, N m or N.

    Attributes:
        findings: Faults with their likely causes, strongest first; then what was not checked.
        poses: Number of distinct poses.
        loaded: Whether gravity varies enough at each joint to check it.
        slope: Slope of the efforts over gravity; NaN where not loaded.
        offset: Mean difference between the efforts and the expected ones.
        residual: RMS of that difference.
        correlation: Correlation of the effort of joint i (row) with gravity at joint j, shape
            (n, n); NaN where not loaded.
    """

    findings: tuple[Finding, ...]
    poses: int
    loaded: Array
    slope: Array
    offset: Array
    residual: Array
    correlation: Array

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings of severity 'error'."""
        return tuple(x for x in self.findings if x.severity == 'error')


def check_held(
    tree: RobotTree,
    poses: DriverSamples,
    *,
    gravity_expected: bool,
    commanded: bool = False,
) -> Commissioning:
    """Compare the efforts of a held arm with gravity.

    Args:
        tree: The robot, including its payload.
        poses: One row per pose, at rest.
        gravity_expected: Whether the efforts should include gravity; False if the driver
            compensates gravity, so that its reports or the commands exclude it.
        commanded: Whether the efforts are the commands of the controller; else measured.

    Raises:
        RecordingError: A pose has no efforts.
    """
    score = _HypothesisScore(tree)
    assumed = Assumptions(poses.distinct(), float(gravity_expected), np.zeros(tree.n))
    if not np.isfinite(assumed.samples.tau).all():
        raise RecordingError('samples', 'hold no efforts', 'compare commands instead')
    statistics = score.statistics(assumed)
    findings: list[Finding] = []
    for _ in range(2 * tree.n):
        if score.explained(assumed):
            break
        causes = score.best_explanation(assumed, commanded)
        if not causes:
            # Earlier findings may explain a part of the deviation by chance.
            findings = [
                score.unexplained_effort(assumed),
                *(cause._replace(severity='warning') for cause in findings),
            ]
            break
        findings += [cause.finding for cause in causes]
        assumed = causes[-1].assumed
    findings += score.unchecked(assumed)
    return Commissioning(tuple(findings), len(assumed.samples.time), *statistics)


class _HypothesisScore:
    """Scores assumptions about the samples of one robot."""

    def __init__(self, tree: RobotTree) -> None:
        self._tree = tree
        self.gravity = gravity_function(tree)
        #: Tolerance for friction and model errors, shape (n,), N m or N.
        self.tolerance = np.maximum(tree.coulomb_friction, 0.01 * tree.effort_limit)

    def score(self, assumed: Assumptions) -> float:
        """Return the mean squared relative residual; poses beyond limits count as saturated."""
        q, tree = assumed.samples.q, self._tree
        margin = 0.05 * tree.position_range
        outside = (q < tree.position_lower - margin) | (q > tree.position_upper + margin)
        return float(np.where(outside, _CAP, self._relative(assumed)).mean())

    def explained(self, assumed: Assumptions) -> bool:
        worst = self._relative(assumed).mean(axis=0).max()
        return max(float(worst), self.score(assumed)) <= _ACCEPTED * _ACCEPTED

    def best_explanation(self, assumed: Assumptions, commanded: bool) -> list[FaultHypothesis]:
        """Return the one or two faults that explain the poses best; empty if insufficient."""
        goal = _IMPROVEMENT * self.score(assumed)
        single = self._candidates(assumed, commanded)
        scores = [self.score(x.assumed) * x.penalty for x in single]
        best = int(np.argmin(scores))
        if scores[best] <= goal:
            return [single[best]]
        pairs = [(a, b) for a in single for b in self._candidates(a.assumed, commanded)]
        scores = [self.score(b.assumed) * a.penalty * b.penalty for a, b in pairs]
        best = int(np.argmin(scores))
        return list(pairs[best]) if scores[best] <= goal * _IMPROVEMENT else []

    def _candidates(self, assumed: Assumptions, commanded: bool) -> list[FaultHypothesis]:
        expected = assumed.expected(self.gravity(assumed.samples))
        return fault_hypotheses(self._tree, assumed, expected, commanded=commanded)

    def unexplained_effort(self, assumed: Assumptions) -> Finding:
        residual = np.sqrt(np.square(self._residual(assumed)).mean(axis=0))
        worst = int(np.argmax(residual / self.tolerance))
        return Finding(
            'error',
            named(self._tree, [worst]),
            f'{residual[worst]:.3g} {self._unit(worst)} of its effort are not gravity, and no '
            'single wrong sign, exchange or unit explains them',
            'check the model (masses, base orientation, payload), then repeat',
        )

    def unchecked(self, assumed: Assumptions) -> list[Finding]:
        """Return warnings about what could not be checked."""
        samples, tree = assumed.samples, self._tree
        findings = []
        if len(samples.time) < FEW_POSES:
            findings.append(
                Finding(
                    'warning',
                    'poses',
                    f'there are only {len(samples.time)}',
                    f'hold the arm in at least {FEW_POSES} different ones',
                )
            )
        unloaded = np.flatnonzero(~self.loaded(samples))
        if len(unloaded):
            findings.append(
                Finding(
                    'warning',
                    named(tree, unloaded),
                    'gravity does not change there: sign and unit were not checked',
                    'choose other poses, or check it in motion: see docs/commissioning.md',
                )
            )
        return findings

    def loaded(self, samples: DriverSamples) -> Array:
        """Return whether gravity varies enough at each joint, shape (n,)."""
        gravity = self.gravity(samples)
        return np.ptp(gravity, axis=0) > _LOADED * self.tolerance

    def statistics(self, assumed: Assumptions) -> tuple[Array, Array, Array, Array, Array]:
        """Return loaded, slope, offset, residual and correlation under the assumptions."""
        samples, n = assumed.samples, self._tree.n
        gravity, tau = self.gravity(samples), samples.tau
        loaded = self.loaded(samples)
        g, t = gravity - gravity.mean(axis=0), tau - tau.mean(axis=0)
        slope, correlation = np.full(n, np.nan), np.full((n, n), np.nan)
        power, product = np.square(g).sum(axis=0), t.T @ g
        np.divide(np.diag(product), power, out=slope, where=loaded)
        size = np.sqrt(np.outer(np.square(t).sum(axis=0), power))
        np.divide(product, size, out=correlation, where=loaded & (size > 0.0))
        residual = self._residual(assumed)
        rms = np.sqrt(np.square(residual).mean(axis=0))
        return loaded, slope, residual.mean(axis=0), rms, correlation

    def _relative(self, assumed: Assumptions) -> Array:
        """Return the squares of the relative residuals, at most ``_CAP``, shape (N, n)."""
        return np.minimum(np.square(self._residual(assumed) / self.tolerance), _CAP)

    def _residual(self, assumed: Assumptions) -> Array:
        samples = assumed.samples
        return samples.tau - assumed.expected(self.gravity(samples))

    def _unit(self, i: int) -> str:
        return 'N' if self._tree.prismatic[i] else 'N m'
