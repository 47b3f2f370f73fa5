# SPDX-License-Identifier: Apache-2.0
"""Fault hypotheses about a driver profile, each with its finding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from robot_dynamics_ros.commissioning.driver_samples import DriverSamples, named
from robot_dynamics_ros.model import RobotTree
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.spatial.scalar import Array

_DEGREE = math.pi / 180.0
_FITTED = 1.25  # penalty factor of hypotheses with a free number, relative to a sign
_SWAP = 1.1  # penalty factor of exchanges, relative to a sign
_SIMILAR = 0.8  # cosine between reported and expected efforts above which a factor is tried
_SAME = 0.15  # relative tolerance within which a factor counts as 1


@dataclass(frozen=True, eq=False)
class Assumptions:
    """Assumptions about a driver: conversion of its samples, and content of its efforts.

    Attributes:
        samples: The samples with their assumed scales.
        gravity: Share of gravity in the efforts, 1.0 or 0.0.
        offset: Constant offset of the efforts, shape (n,), N m or N.
    """

    samples: DriverSamples
    gravity: float
    offset: Array

    def expected(self, gravity: Array) -> Array:
        """Return the expected efforts of the held arm, shape (N, n), N m or N."""
        return gravity * self.gravity + self.offset


@dataclass(frozen=True, eq=False)
class FaultHypothesis:
    """A possible fault: its finding, the corrected assumptions, and its penalty factor."""

    finding: Finding
    assumed: Assumptions
    penalty: float = 1.0


def fault_hypotheses(
    tree: RobotTree, assumed: Assumptions, expected: Array, *, commanded: bool
) -> list[FaultHypothesis]:
    """Return all fault hypotheses.

    Args:
        tree: The robot.
        assumed: The current assumptions.
        expected: Expected efforts, shape (N, n), N m or N.
        commanded: Whether the efforts are the commands of the controller.
    """
    return [
        *_signs(tree, assumed),
        *_position_units(tree, assumed),
        *_effort_units(tree, assumed, expected),
        *_swaps(tree, assumed, commanded),
        *_offsets(tree, assumed, expected),
        _gravity(assumed, commanded),
    ]


def _conversion(
    assumed: Assumptions,
    culprit: str,
    problem: str,
    remedy: str,
    samples: DriverSamples,
    penalty: float = 1.0,
) -> FaultHypothesis:
    """Return the hypothesis that the samples have another conversion."""
    finding = Finding('error', culprit, problem, remedy)
    return FaultHypothesis(finding, replace(assumed, samples=samples), penalty)


def _signs(tree: RobotTree, assumed: Assumptions) -> Iterator[FaultHypothesis]:
    samples = assumed.samples
    for i in range(tree.n):
        negated = samples.scaled([i], -1.0)
        for problem, remedy, changed in (
            (
                'wrong sign: the driver counts against the axis of the model',
                'give it sign: -1 in the profile, or +1 if it has -1',
                negated.scaled([i], -1.0, 'effort_scale'),
            ),
            (
                'wrong sign of its position: efforts have the right one',
                'change sign in the profile, and write effort_sign so that it stays',
                negated,
            ),
            (
                'wrong sign of its effort: positions have the right one',
                'change effort_sign in the profile',
                samples.scaled([i], -1.0, 'effort_scale'),
            ),
        ):
            yield _conversion(assumed, named(tree, [i]), problem, remedy, changed)


def _position_units(tree: RobotTree, assumed: Assumptions) -> Iterator[FaultHypothesis]:
    slides = np.array(tree.prismatic)
    for kind, factor, problem, unit in (
        (False, _DEGREE, 'degrees are taken for radians', 'deg'),
        (False, 1.0 / _DEGREE, 'radians are taken for degrees', 'rad'),
        (True, 1e-3, 'millimetres are taken for metres', 'mm'),
        (True, 1e3, 'metres are taken for millimetres', 'm'),
    ):
        which = np.flatnonzero(slides == kind)
        for joints in [which, *which.reshape(-1, 1)] if len(which) > 1 else which.reshape(-1, 1):
            yield _conversion(
                assumed,
                named(tree, joints),
                f'wrong unit of position: {problem}',
                f'write position_unit: {unit} in the profile',
                assumed.samples.scaled(joints, factor),
            )


def _effort_units(
    tree: RobotTree, assumed: Assumptions, expected: Array
) -> Iterator[FaultHypothesis]:
    tau = assumed.samples.tau
    for joints in [np.arange(tree.n), *np.arange(tree.n).reshape(-1, 1)]:
        measured, predicted = tau[:, joints], expected[:, joints]
        square, product = float(np.square(measured).sum()), float((measured * predicted).sum())
        similar = product > _SIMILAR * math.sqrt(square * float(np.square(predicted).sum()))
        if not similar or abs(product / square - 1.0) < _SAME:
            continue
        factor = product / square
        problem, remedy = _effort_fault(factor)
        changed = assumed.samples.scaled(joints, factor, 'effort_scale')
        yield _conversion(assumed, named(tree, joints), problem, remedy, changed, _FITTED)


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


def _swaps(tree: RobotTree, assumed: Assumptions, commanded: bool) -> Iterator[FaultHypothesis]:
    samples = assumed.samples
    remedy = 'correct driver_name, or the order of joints, in the profile'
    for i, j in combinations(range(tree.n), 2):
        culprit = named(tree, [i, j])
        efforts = samples.swapped(i, j, positions=False)
        if commanded:
            yield _conversion(assumed, culprit, 'commands are swapped', remedy, efforts, _SWAP)
            continue
        for problem, changed in (
            ('swapped: each is taken for the other', samples.swapped(i, j)),
            ('positions are swapped, efforts are not', samples.swapped(i, j, efforts=False)),
            ('efforts are swapped, positions are not', efforts),
        ):
            yield _conversion(assumed, culprit, problem, remedy, changed, _SWAP)


def _offsets(tree: RobotTree, assumed: Assumptions, expected: Array) -> Iterator[FaultHypothesis]:
    mean = (assumed.samples.tau - expected).mean(axis=0)
    for i in range(tree.n):
        offset = assumed.offset.copy()
        offset[i] += mean[i]
        unit = 'N' if tree.prismatic[i] else 'N m'
        yield FaultHypothesis(
            Finding(
                'warning',
                named(tree, [i]),
                f'its efforts are {mean[i]:+.3g} {unit} off in every pose',
                'an offset of the sensor; if commands show it too, effort_offset in the profile',
            ),
            replace(assumed, offset=offset),
            _FITTED,
        )


def _gravity(assumed: Assumptions, commanded: bool) -> FaultHypothesis:
    texts = {
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
    }[bool(assumed.gravity), commanded]
    changed = replace(assumed, gravity=1.0 - assumed.gravity)
    return FaultHypothesis(Finding('error', 'gravity', *texts), changed)
