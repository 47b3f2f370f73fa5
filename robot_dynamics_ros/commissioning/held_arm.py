# SPDX-License-Identifier: Apache-2.0
"""Compare the efforts of a held arm with gravity, and diagnose deviations.

The effort of an arm held at rest, by its own controller or ours, equals the gravity effort of the
model in every pose. If the efforts of several poses deviate, each simple fault of the driver
profile is tried (a sign, an exchange of joints, a unit, an offset, gravity counted twice or not at
all), and the one that explains the poses is reported. Multiple faults are found one after another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.commissioning.driver_samples import (
    DriverSamples,
    gravity_function,
    named,
)
from robot_dynamics_ros.errors import RecordingError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.findings import Finding, warning
from robot_dynamics_ros.spatial.scalar import Array

FEW_POSES = 4
_ACCEPTED = 1.5  # maximum RMS residual of a joint without fault, relative to the tolerance
_IMPROVEMENT = 0.3  # maximum relative score that a reported hypothesis leaves
_CAP = 25.0  # saturation of squared relative residuals
_LOADED = 3.0  # minimum range of gravity to check a joint, relative to the tolerance
_DEGREE = math.pi / 180.0
_FITTED = 1.25  # penalty factor of hypotheses with a free number, relative to a sign
_SWAP = 1.1  # penalty factor of exchanges, relative to a sign
_SIMILAR = 0.8  # cosine between reported and expected efforts above which a factor is tried
_SAME = 0.15  # relative tolerance within which a factor counts as 1

#: By whether joints are prismatic: factor to the right unit, the confusion, and the right unit.
_POSITION_UNITS = (
    (False, _DEGREE, 'degrees are taken for radians', 'deg'),
    (False, 1.0 / _DEGREE, 'radians are taken for degrees', 'rad'),
    (True, 1e-3, 'millimetres are taken for metres', 'mm'),
    (True, 1e3, 'metres are taken for millimetres', 'm'),
)
#: Problem and remedy by whether gravity was assumed, and whether efforts are commands.
_GRAVITY = {
    (True, True): (
        'would be counted twice: the commands that hold the arm do not contain it, so the '
        'driver compensates it',
        'write compensated_by_driver: [gravity] in the profile',
    ),
    (True, False): (
        'is missing from the reported efforts: the driver compensates it, and it would be '
        'counted twice',
        'write effort: without_compensation and compensated_by_driver: [gravity]',
    ),
    (False, True): (
        'would not be counted at all: the commands that hold the arm contain it, so the '
        'driver does not compensate it',
        'take gravity out of compensated_by_driver in the profile',
    ),
    (False, False): (
        'is contained in the reported efforts, contrary to the profile',
        'write effort: total in the profile, and find out by commands whether the driver '
        'compensates gravity at all',
    ),
}


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


class Assumptions(NamedTuple):
    """Assumptions about a driver: conversion of its samples, and content of its efforts.

    Attributes:
        samples: The samples with their assumed scales.
        gravity: Share of gravity in the efforts, 1.0 or 0.0.
        offset: Constant offset of the efforts, shape (n,), N m or N.
    """

    samples: DriverSamples
    gravity: float
    offset: Array


class FaultHypothesis(NamedTuple):
    """A possible fault: its finding, the corrected assumptions, and its penalty factor."""

    finding: Finding
    assumed: Assumptions
    penalty: float = 1.0


def check_held(
    tree: Robot,
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
    held = _HeldArm(tree, commanded)
    assumed = Assumptions(poses.distinct(), float(gravity_expected), np.zeros(tree.n))
    if not np.isfinite(assumed.samples.tau).all():
        raise RecordingError('samples', 'hold no efforts', 'compare commands instead')
    statistics = held.statistics(assumed)
    findings: list[Finding] = []
    for _ in range(2 * tree.n):
        if held.explained(assumed):
            break
        causes = held.best_explanation(assumed)
        if not causes:
            # Earlier findings may explain a part of the deviation by chance.
            findings = [
                held.unexplained_effort(assumed),
                *(cause._replace(severity='warning') for cause in findings),
            ]
            break
        findings += [cause.finding for cause in causes]
        assumed = causes[-1].assumed
    findings += held.unchecked(assumed.samples)
    return Commissioning(tuple(findings), len(assumed.samples.time), *statistics)


class _HeldArm:
    """Scores assumptions about the samples of one robot, and proposes better ones."""

    def __init__(self, tree: Robot, commanded: bool) -> None:
        self._tree, self._commanded = tree, commanded
        self._gravity = gravity_function(tree)
        self._units = ['N' if prismatic else 'N m' for prismatic in tree.joint_is_prismatic]
        #: Tolerance for friction and model errors, shape (n,), N m or N.
        self._tolerance = np.maximum(tree.coulomb_friction, 0.01 * tree.effort_limit)

    def _expected(self, assumed: Assumptions) -> Array:
        """Return the expected efforts, shape (N, n), N m or N."""
        return self._gravity(assumed.samples) * assumed.gravity + assumed.offset

    def _residual(self, assumed: Assumptions) -> Array:
        return assumed.samples.tau - self._expected(assumed)

    def _relative(self, assumed: Assumptions) -> Array:
        """Return the squares of the relative residuals, at most ``_CAP``, shape (N, n)."""
        return np.minimum(np.square(self._residual(assumed) / self._tolerance), _CAP)

    def _score(self, assumed: Assumptions) -> float:
        """Return the mean squared relative residual; poses beyond limits count as saturated."""
        q, tree = assumed.samples.q, self._tree
        margin = 0.05 * tree.position_range
        outside = (q < tree.position_lower - margin) | (q > tree.position_upper + margin)
        return float(np.where(outside, _CAP, self._relative(assumed)).mean())

    def explained(self, assumed: Assumptions) -> bool:
        """Return whether the assumptions explain the efforts of every joint."""
        worst = self._relative(assumed).mean(axis=0).max()
        return max(float(worst), self._score(assumed)) <= _ACCEPTED * _ACCEPTED

    def best_explanation(self, assumed: Assumptions) -> list[FaultHypothesis]:
        """Return the one or two faults that explain the poses best; empty if insufficient."""
        goal, single = self._score(assumed), self._hypotheses(assumed)
        for tried in (
            ([fault] for fault in single),
            ([a, b] for a in single for b in self._hypotheses(a.assumed)),
        ):
            goal *= _IMPROVEMENT
            best, least = min(
                ((faults, self._penalized(faults)) for faults in tried), key=lambda pair: pair[1]
            )
            if least <= goal:
                return best
        return []

    def _penalized(self, faults: list[FaultHypothesis]) -> float:
        return self._score(faults[-1].assumed) * math.prod(fault.penalty for fault in faults)

    def unexplained_effort(self, assumed: Assumptions) -> Finding:
        """Return the finding about the joint with the largest relative residual."""
        residual = np.sqrt(np.square(self._residual(assumed)).mean(axis=0))
        worst = int(np.argmax(residual / self._tolerance))
        return Finding(
            'error',
            f'{residual[worst]:.3g} {self._units[worst]} of its effort are not gravity, and no '
            'single wrong sign, exchange or unit explains them',
            named(self._tree, [worst]),
            'check the model (masses, base orientation, payload), then repeat',
        )

    def unchecked(self, samples: DriverSamples) -> Iterator[Finding]:
        """Yield warnings about what could not be checked."""
        if len(samples.time) < FEW_POSES:
            remedy = f'hold the arm in at least {FEW_POSES} different ones'
            yield warning('poses', f'there are only {len(samples.time)}', remedy)
        unloaded = np.flatnonzero(~self._loaded(self._gravity(samples)))
        if len(unloaded):
            yield warning(
                named(self._tree, unloaded),
                'gravity does not change there: sign and unit were not checked',
                'choose other poses, or check it in motion: see docs/commissioning.md',
            )

    def _loaded(self, gravity: Array) -> Array:
        """Return whether gravity varies enough at each joint, shape (n,)."""
        return np.ptp(gravity, axis=0) > _LOADED * self._tolerance

    def statistics(self, assumed: Assumptions) -> tuple[Array, Array, Array, Array, Array]:
        """Return loaded, slope, offset, residual and correlation under the assumptions."""
        n, gravity, tau = self._tree.n, self._gravity(assumed.samples), assumed.samples.tau
        loaded = self._loaded(gravity)
        g, t = gravity - gravity.mean(axis=0), tau - tau.mean(axis=0)
        slope, correlation = np.full(n, np.nan), np.full((n, n), np.nan)
        power, product = np.square(g).sum(axis=0), t.T @ g
        np.divide(np.diag(product), power, out=slope, where=loaded)
        size = np.sqrt(np.outer(np.square(t).sum(axis=0), power))
        np.divide(product, size, out=correlation, where=loaded & (size > 0.0))
        residual = self._residual(assumed)
        rms = np.sqrt(np.square(residual).mean(axis=0))
        return loaded, slope, residual.mean(axis=0), rms, correlation

    def _hypotheses(self, assumed: Assumptions) -> list[FaultHypothesis]:
        """Return all fault hypotheses."""
        found = [
            FaultHypothesis(
                Finding('error', problem, named(self._tree, joints), remedy),
                assumed._replace(samples=samples),
                penalty,
            )
            for conversions, penalty in (
                (self._signs(assumed.samples), 1.0),
                (self._position_units(assumed.samples), 1.0),
                (self._effort_units(assumed.samples, self._expected(assumed)), _FITTED),
                (self._swaps(assumed.samples), _SWAP),
            )
            for joints, problem, remedy, samples in conversions
        ]
        mean = self._residual(assumed).mean(axis=0)
        for i in range(self._tree.n):
            offset = assumed.offset.copy()
            offset[i] += mean[i]
            finding = warning(
                named(self._tree, [i]),
                f'its efforts are {mean[i]:+.3g} {self._units[i]} off in every pose',
                'an offset of the sensor; if commands show it too, effort_offset in the profile',
            )
            found.append(FaultHypothesis(finding, assumed._replace(offset=offset), _FITTED))
        problem, remedy = _GRAVITY[bool(assumed.gravity), self._commanded]
        gravity = Finding('error', problem, 'gravity', remedy)
        return [
            *found,
            FaultHypothesis(gravity, assumed._replace(gravity=1.0 - assumed.gravity)),
        ]

    # Each yields joints, problem, remedy and the samples with the conversion that remedies it.

    def _signs(self, samples: DriverSamples) -> Iterator[_Conversion]:
        for i in range(self._tree.n):
            negated = samples.scaled([i], -1.0)
            yield (
                [i],
                'wrong sign: the driver counts against the axis of the model',
                'give it sign: -1 in the profile, or +1 if it has -1',
                negated.scaled([i], -1.0, 'effort_scale'),
            )
            yield (
                [i],
                'wrong sign of its position: efforts have the right one',
                'change sign in the profile, and write effort_sign so that it stays',
                negated,
            )
            yield (
                [i],
                'wrong sign of its effort: positions have the right one',
                'change effort_sign in the profile',
                samples.scaled([i], -1.0, 'effort_scale'),
            )

    def _position_units(self, samples: DriverSamples) -> Iterator[_Conversion]:
        for kind, factor, problem, unit in _POSITION_UNITS:
            for joints in _all_and_each(
                np.flatnonzero(np.array(self._tree.joint_is_prismatic) == kind)
            ):
                yield (
                    joints,
                    f'wrong unit of position: {problem}',
                    f'write position_unit: {unit} in the profile',
                    samples.scaled(joints, factor),
                )

    def _effort_units(self, samples: DriverSamples, expected: Array) -> Iterator[_Conversion]:
        for joints in _all_and_each(np.arange(self._tree.n)):
            measured, predicted = samples.tau[:, joints], expected[:, joints]
            square, product = float(np.square(measured).sum()), float((measured * predicted).sum())
            similar = product > _SIMILAR * math.sqrt(square * float(np.square(predicted).sum()))
            if similar and abs(product / square - 1.0) >= _SAME:
                factor = product / square
                changed = samples.scaled(joints, factor, 'effort_scale')
                yield (joints, *_effort_fault(factor), changed)

    def _swaps(self, samples: DriverSamples) -> Iterator[_Conversion]:
        remedy = 'correct driver_name, or the order of joints, in the profile'
        for i, j in combinations(range(self._tree.n), 2):
            efforts = samples.swapped(i, j, positions=False)
            if self._commanded:
                yield [i, j], 'commands are swapped', remedy, efforts
                continue
            for problem, changed in (
                ('swapped: each is taken for the other', samples.swapped(i, j)),
                ('positions are swapped, efforts are not', samples.swapped(i, j, efforts=False)),
                ('efforts are swapped, positions are not', efforts),
            ):
                yield [i, j], problem, remedy, changed


_Conversion = tuple[Sequence[int] | Array, str, str, DriverSamples]


def _all_and_each(joints: Array) -> list[Array]:
    """Return all joints together, if several, and each of them."""
    each = [*joints.reshape(-1, 1)]
    return [joints, *each] if len(joints) > 1 else each


def _effort_fault(factor: float) -> tuple[str, str]:
    """Return problem and remedy of efforts that must be multiplied by a factor."""
    for thousand, unit in ((1e-3, 'mN m'), (1e3, 'kN')):
        if abs(factor / thousand - 1.0) < _SAME:
            return (
                f'wrong unit of effort: it must be multiplied by {factor:.3g}',
                f'write effort_unit: {unit} in the profile, or mA for A',
            )
    if 0.6 < factor < 1.7:
        return (
            f'its efforts are {100.0 / factor:.0f} % of what the model needs',
            'a load or tool missing in the model, or a slightly wrong torque_constant',
        )
    return (
        f'wrong unit of effort: it must be multiplied by {factor:.4g}',
        'currents (A) taken for N m, or efforts of the motor for those of the joint: give '
        f'effort_unit, torque_constant and gear_ratio whose product is {factor:.4g}',
    )
