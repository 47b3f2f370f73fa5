# SPDX-License-Identifier: Apache-2.0
r"""Compare the efforts of a held arm with gravity, and diagnose deviations.

The effort of an arm held at rest, by its own controller or ours, equals the gravity effort of the
model in every pose. If the efforts of several poses deviate, each simple fault of the driver
profile is tried (a sign, a zero, an exchange of joints, a unit, an offset, gravity counted twice
or not at all), and the one that explains the poses is reported. Multiple faults are found one
after another.

Limits, velocities and the efforts from pose to pose, which tell the sign of joints without gravity
load, are checked as those of any recording (``recordings/plausibility.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from robot_dynamics_ros.control.drivers.driver_interface import DriverInterface
from robot_dynamics_ros.errors import MechanismError, RecordingError, SingularityError
from robot_dynamics_ros.estimation.accumulate import compared, root_mean_square
from robot_dynamics_ros.estimation.hypotheses import (
    EXCHANGES,
    POSITION_UNITS,
    REVERSALS,
    SAME,
    effort_fault,
    exchange_fault,
    named,
)
from robot_dynamics_ros.estimation.rest import HELD_S, moving_joints, rests
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.spatial.scalar import Array
from robot_dynamics_ros.symbolic.kernel import compile_kernel

FEW_POSES = 4  # fewer tell faults from one another too rarely
_DISTINCT = 0.05  # share of a joint's recorded range by which two poses differ
_ACCEPTED = 1.5  # maximum RMS residual of a joint without fault, relative to the tolerance
_IMPROVEMENT = 0.3  # maximum relative score that a reported hypothesis leaves
_CAP = 25.0  # saturation of squared relative residuals: without, 8 of 14 pairs are found, not 13
_LOADED = 3.0  # minimum range of gravity to check a joint, relative to the tolerance
_FOLLOWS = 0.25  # least slope over gravity of an effort that contains it
_SIMILAR = 0.8  # least cosine of reported and expected efforts to try a factor: else 12 of 14

_NEWTON_STEPS, _STEP = 3, 1e-4  # rad or m
_FARTHEST = 0.8  # rad or m: largest error of a zero: more is another convention
_ZERO = 'correct position_zero in the driver profile, or the centre of mass of what it moves'
_BORNE = (
    'its effort does not follow gravity: a brake, a spring or a counterweight bears it',
    'release the brake, and leave out of the model what a spring bears; where the driver '
    'compensates gravity, write compensated_by_driver: [gravity] in the driver profile',
)
#: Problem and remedy by whether gravity was assumed, and whether efforts are commands.
_GRAVITY = {
    (True, True): (
        'would be counted twice: the commands that hold the arm do not contain it, so the '
        'driver compensates it',
        'write compensated_by_driver: [gravity] in the driver profile',
    ),
    (True, False): (
        'is missing from the reported efforts: the driver compensates it, and it would be '
        'counted twice',
        'write effort: without_compensation and compensated_by_driver: [gravity]',
    ),
    (False, True): (
        'would not be counted at all: the commands that hold the arm contain it, so the '
        'driver does not compensate it',
        'take gravity out of compensated_by_driver in the driver profile',
    ),
    (False, False): (
        'is contained in the reported efforts, contrary to the profile',
        'write effort: total in the driver profile, and find out by commands whether the driver '
        'compensates gravity at all',
    ),
}


class Commissioning(NamedTuple):
    """Result of a check; arrays have shape (n,) unless stated otherwise, N m or N.

    Attributes:
        findings: Faults with their likely causes, strongest first; then too few poses.
        poses: Number of distinct poses.
        loaded: Whether gravity varies enough at each joint to check it.
        slope: Slope of the efforts over gravity; NaN where not loaded.
        offset: Mean difference between the efforts and the expected ones.
        residual: RMS of that difference.
    """

    findings: tuple[Finding, ...]
    poses: int
    loaded: Array
    slope: Array
    offset: Array
    residual: Array

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings of severity 'error'."""
        return tuple(x for x in self.findings if x.severity == 'error')


class HeldPoses(NamedTuple):
    """Poses of a held arm, one per row, as a driver profile converts them.

    Attributes:
        driver: The conversion of the profile.
        q: Positions, shape (N, n), rad or m.
        effort: Shape (N, n), N m or N.
        commanded: Whether the efforts are the commands of the controller; else measured.
        gravity: Share of gravity in the efforts, 1.0 or 0.0.
        offset: Constant offset of the efforts, shape (n,), N m or N.
    """

    driver: DriverInterface
    q: Array
    effort: Array
    commanded: bool = False
    gravity: float = 1.0
    offset: Array | float = 0.0

    @classmethod
    def of(
        cls, driver: DriverInterface, time: Array, q: Array, effort: Array, *, commanded: bool
    ) -> HeldPoses:
        """Return the means of each period of rest, see :func:`.rests`.

        A joint that moves by no more than its noise, which makes no pose another one, is at the
        median.

        Args:
            driver: The conversion of the profile.
            time: Shape (N,), s.
            q: Positions, shape (N, n), rad or m.
            effort: Shape (N, n), N m or N.
            commanded: Whether the efforts are commands.

        Raises:
            RecordingError: The arm never rests.
        """
        if len(time) < 3:
            raise RecordingError('samples', f'hold {len(time)} states', 'sample for longer')
        if not (held := rests(time, q)):
            raise RecordingError(
                'samples', f'the arm never rests for {HELD_S:g} s', 'let it hold each pose'
            )
        poses, efforts = (np.array([x[rows].mean(axis=0) for rows in held]) for x in (q, effort))
        moves = moving_joints(q, np.gradient(q, time, axis=0))
        return cls(driver, np.where(moves, poses, np.median(q, axis=0)), efforts, commanded)

    def scaled(self, joints: Sequence[int] | Array, factor: float, column: str = 'q') -> HeldPoses:
        """Return the poses with ``q`` or ``effort`` of some joints multiplied."""
        values = getattr(self, column).copy()
        values[:, joints] *= factor
        return self._replace(**{column: values})

    def shifted(self, joint: int, off: float) -> HeldPoses:
        """Return the poses with positions of a joint that are read less by ``off``, rad or m."""
        return self._replace(q=self.q - off * np.eye(self.q.shape[1])[joint])

    def swapped(
        self, i: int, j: int, *, positions: bool = True, efforts: bool = True
    ) -> HeldPoses:
        """Return the poses with the readings of two joints exchanged."""
        driver, order, q, effort = self.driver, np.arange(self.q.shape[1]), self.q, self.effort
        order[[i, j]] = j, i
        if positions:
            q = driver.position(driver.position_reading(q)[:, order])
        if efforts and self.commanded:
            motors = driver.motor_effort(effort) + driver.effort_offset
            effort = driver.commanded_effort((motors / driver.effort_scale)[:, order])
        elif efforts:
            effort = driver.measured_effort(driver.effort_reading(effort)[:, order])
        return self._replace(q=q, effort=effort)

    def distinct(self) -> HeldPoses:
        """Return the poses without repeated ones."""
        threshold, kept = _DISTINCT * np.ptp(self.q, axis=0), list[int]()
        for k, x in enumerate(self.q):
            if (np.abs(x - self.q[kept]) > threshold).any(axis=1).all():
                kept.append(k)
        return self._replace(q=self.q[kept], effort=self.effort[kept])


class FaultHypothesis(NamedTuple):
    """A possible fault: its finding, and poses with the right conversion."""

    finding: Finding
    samples: HeldPoses


def check_held(tree: Robot, poses: HeldPoses, *, gravity_expected: bool) -> Commissioning:
    """Compare the efforts of a held arm with gravity.

    Args:
        tree: The robot, including its payload.
        poses: Its poses at rest.
        gravity_expected: Whether the efforts should include gravity; False if the driver
            compensates gravity, so that its reports or the commands exclude it.

    Raises:
        RecordingError: A pose has no efforts.
    """
    held = _HeldArm(tree)
    samples = poses.distinct()._replace(gravity=float(gravity_expected))
    if not np.isfinite(samples.effort).all():
        raise RecordingError('samples', 'hold no efforts', 'compare commands instead')
    statistics = held.statistics(samples)
    findings: list[Finding] = []
    for _ in range(2 * tree.n):
        if held.explained(samples):
            break
        causes = held.best_explanation(samples)
        if not causes:
            # Earlier findings may explain a part of the deviation by chance.
            findings = [
                held.unexplained_effort(samples),
                *(cause._replace(severity='warning') for cause in findings),
            ]
            break
        findings += [cause.finding for cause in causes]
        samples = causes[-1].samples
    if (count := len(samples.q)) < FEW_POSES:  # a single one compares no change of any effort
        told = 'there is only 1: no joint was checked' if count == 1 else f'there are only {count}'
        findings.append(
            Finding('error', told, 'poses', f'hold the arm in at least {FEW_POSES} different ones')
        )
    return Commissioning(tuple(findings), count, *statistics)


class _HeldArm:
    """Scores the conversion of samples of one robot, and proposes better ones."""

    def __init__(self, tree: Robot) -> None:
        self._tree, self._kernels = tree, compile_kernel(tree, outputs=('gravity_forces',))
        self._gravity_at = cache(self._new_gravity)  # most hypotheses change efforts only
        self._units = ['N' if prismatic else 'N m' for prismatic in tree.joint_is_prismatic]
        #: Tolerance for friction and model errors, shape (n,), N m or N.
        self._tolerance = np.maximum(tree.coulomb_friction, 0.01 * tree.effort_limit)

    def _gravity(self, samples: HeldPoses) -> Array:
        return self._gravity_at(samples.q.tobytes())

    def _new_gravity(self, rows: bytes) -> Array:
        """Return gravity efforts, shape (N, n); NaN if the loops do not close in every pose."""
        q = np.frombuffer(rows).reshape(-1, self._tree.n)
        with suppress(MechanismError, SingularityError):
            if all(map(self._tree.reaches, q)):
                return self._kernels.batch('gravity_forces', q)
        return np.nan * q

    def _expected(self, samples: HeldPoses) -> Array:
        """Return the expected efforts, shape (N, n), N m or N."""
        return self._gravity(samples) * samples.gravity + samples.offset

    def _score(self, samples: HeldPoses) -> tuple[float, float]:
        """Return the mean squared relative residual, of all joints and of the worst one.

        Squares are at most ``_CAP``; of all joints, those of poses beyond limits are.
        """
        relative = (samples.effort - self._expected(samples)) / self._tolerance
        squares = np.fmin(np.square(relative), _CAP)  # also where the loops do not close
        tree, margin = self._tree, 0.05 * self._tree.position_range
        inside = np.clip(samples.q, tree.position_lower - margin, tree.position_upper + margin)
        outside = inside != samples.q
        return float(np.where(outside, _CAP, squares).mean()), float(squares.mean(axis=0).max())

    def explained(self, samples: HeldPoses) -> bool:
        """Return whether the conversion explains the efforts of every joint."""
        slope = self.statistics(samples)[1]
        follows = not (samples.gravity and (slope < _FOLLOWS).any())
        return follows and max(self._score(samples)) <= _ACCEPTED * _ACCEPTED

    def best_explanation(self, samples: HeldPoses) -> list[FaultHypothesis]:
        """Return the one or two faults that explain the poses best; empty if insufficient."""

        def left(faults: list[FaultHypothesis]) -> float:
            return self._score(faults[-1].samples)[0]

        goal, best = self._score(samples)[0], list[FaultHypothesis]()
        single = list(self._hypotheses(samples))
        for tried in (
            ([fault] for fault in single),
            ([a, b] for a in single for b in self._hypotheses(a.samples)),
        ):
            goal *= _IMPROVEMENT
            if left(found := min(tried, key=left)) <= goal:
                best, goal = found, left(found)
            if best and self.explained(best[-1].samples):
                break
        return best

    def unexplained_effort(self, samples: HeldPoses) -> Finding:
        """Return the finding about the joint with the largest relative residual."""
        residual = root_mean_square(samples.effort - self._expected(samples))
        if np.isnan(residual).any():
            return Finding(
                'error',
                'the loops do not close in every pose, whatever one sign or unit is changed',
                f'robot {self._tree.name!r}',
                'correct position_zero, sign and unit in the profile, or the model',
            )
        worst = int(np.argmax(residual / self._tolerance))
        return Finding(
            'error',
            f'{residual[worst]:.3g} {self._units[worst]} of its effort are not gravity, and no '
            'single wrong sign, zero, exchange or unit explains them',
            named(self._tree, [worst]),
            'check the model (masses, base orientation, payload), then repeat',
        )

    def statistics(self, samples: HeldPoses) -> tuple[Array, Array, Array, Array]:
        """Return loaded, slope, offset and residual under the conversion."""
        gravity, tau = self._gravity(samples), samples.effort
        loaded = np.ptp(gravity, axis=0) > _LOADED * self._tolerance
        residual = tau - self._expected(samples)
        slope = np.where(loaded, compared(tau, gravity)[0], np.nan)
        return loaded, slope, residual.mean(axis=0), root_mean_square(residual)

    def _zero_error(self, samples: HeldPoses, joint: int) -> float:
        """Return the error of a joint's zero that fits the efforts best, by Newton's method."""
        off = 0.0
        for _ in range(_NEWTON_STEPS):
            here, after = (samples.shifted(joint, x) for x in (off, off + _STEP))
            left = (samples.effort - self._expected(here)) / self._tolerance
            slope = (self._expected(here) - self._expected(after)) / (_STEP * self._tolerance)
            square = np.vdot(slope, slope)
            off -= float(np.vdot(slope, left) / square) if square > 0.0 else 0.0
        return off if abs(off) < _FARTHEST else 0.0

    def _hypotheses(self, samples: HeldPoses) -> Iterator[FaultHypothesis]:
        """Yield all fault hypotheses: signs, zeros, units, order, offsets."""
        tree, expected = self._tree, self._expected(samples)
        each = [(named(tree, [i]), [i]) for i in range(tree.n)]
        for culprit, own in each:
            negated, other = samples.scaled(own, -1.0), samples.scaled(own, -1.0, 'effort')
            both = negated.scaled(own, -1.0, 'effort')
            for (problem, remedy, _), changed in zip(REVERSALS, (both, negated), strict=True):
                yield FaultHypothesis(Finding('error', problem, culprit, remedy), changed)
            fault = effort_fault(culprit, 'sign', detail=': positions have the right one')
            yield FaultHypothesis(fault, other)
        for culprit, (i,) in each:
            off = self._zero_error(samples, i)
            size = f'{off:+.3g} {"m" if tree.joint_is_prismatic[i] else "rad"}'
            wrong = Finding('error', f'its zero is {size} off', culprit, _ZERO)
            yield FaultHypothesis(wrong, samples.shifted(i, off))
        for kind, confusions in POSITION_UNITS.items():
            alike = np.flatnonzero(np.array(tree.joint_is_prismatic) == kind)
            for factor, problem, unit in confusions:
                for joints in _all_and_each(alike):
                    wrong = Finding(
                        'error',
                        f'wrong unit of position: {problem}',
                        named(tree, joints),
                        f'write position_unit: {unit} in the driver profile',
                    )
                    yield FaultHypothesis(wrong, samples.scaled(joints, factor))
        for joints in _all_and_each(np.arange(tree.n)):
            measured, predicted = samples.effort[:, joints], expected[:, joints]
            square, product = np.vdot(measured, measured), np.vdot(measured, predicted)
            if product > _SIMILAR * np.sqrt(square * np.vdot(predicted, predicted)):
                factor = product / square
                if abs(factor - 1.0) >= SAME:
                    fault = effort_fault(named(tree, joints), 'unit', factor)
                    changed = samples.scaled(joints, factor, 'effort')
                    yield FaultHypothesis(fault, changed)
        swaps = (('commands are swapped', False, True),) if samples.commanded else EXCHANGES
        for i, j in combinations(range(tree.n), 2):
            for problem, positions, efforts in swaps:
                changed = samples.swapped(i, j, positions=positions, efforts=efforts)
                yield FaultHypothesis(exchange_fault(tree, i, j, problem), changed)
        _, slope, mean, _ = self.statistics(samples)
        for culprit, (i,) in each:
            where, unit = np.arange(tree.n) == i, self._units[i]
            fault = effort_fault(culprit, 'offset', mean[i], unit, detail=' in every pose')
            changed = samples._replace(offset=samples.offset + where * mean)
            yield FaultHypothesis(fault, changed)
            if slope[i] < _FOLLOWS:
                borne = samples._replace(effort=samples.effort + where * expected)
                yield FaultHypothesis(Finding('error', _BORNE[0], culprit, _BORNE[1]), borne)
        problem, remedy = _GRAVITY[bool(samples.gravity), samples.commanded]
        yield FaultHypothesis(
            Finding('error', problem, 'gravity', remedy),
            samples._replace(gravity=1.0 - samples.gravity),
        )


def _all_and_each(joints: Array) -> list[Array]:
    """Return all joints together, if several, and each of them."""
    each = [*joints.reshape(-1, 1)]
    return [joints, *each] if len(joints) > 1 else each
